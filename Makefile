# Forwards to `python -m evalkit`, which holds all logic and also works without make (README).
# Variables: DATASET MODES LABEL EMBEDDER K, as in `make run DATASET=runbooks K=1,3,5`;
# PYTHON names the Python that makes .venv (3.11 or later).

PYTHON ?= python3
RUN_OPTIONS = $(foreach name,DATASET MODES LABEL EMBEDDER K BASELINE CANDIDATE VARYING,$(if $($(name)),$(name)="$($(name))"))

# Inside `conda activate evalkit` (environment.yml) that environment is used as it is.
ifeq ($(CONDA_DEFAULT_ENV),evalkit)
PY = python
else
PY = $(if $(filter Windows_NT,$(OS)),.venv/Scripts/python,.venv/bin/python)
SETUP = $(PYTHON) -m evalkit setup --quiet
endif

export PYTHONPATH := $(CURDIR)
export PYTHONNOUSERSITE := 1

.PHONY: help setup run test lint check lab list gate bench lock reference clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|' 2>/dev/null \
	  || grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST)

setup: ## Make .venv from requirements.lock; again only when the lock changed
	@$(or $(SETUP),true)

run: setup ## Run the whole workbook on DATASET (handbook) and render it
	@$(PY) -m evalkit run $(RUN_OPTIONS)

test: lint ## Check style and types, then run all tests, notebooks included
	@$(PY) -m pytest -n 2

lint: ## Check style and types only
	@$(if $(SETUP),$(SETUP) --extra test)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

check: setup ## Say what is wrong with the labelled set DATASET
	@$(PY) -m evalkit check "$(or $(DATASET),handbook)"

lab: setup ## Open JupyterLab on the notebooks (this machine only, with a token)
	@$(PY) -m evalkit lab

list: setup ## List the executions in outputs/
	@$(PY) -m evalkit list $(if $(DATASET),--dataset "$(DATASET)")

gate: setup ## Let CANDIDATE through or stop it, against BASELINE
	@$(PY) -m evalkit gate $(RUN_OPTIONS)

bench: ## Measure against the peers (installs them)
	@$(if $(SETUP),$(SETUP) --extra test --extra bench)
	@for bench in $$(grep -l __main__ tests/bench/*.py); do $(PY) $$bench || exit 1; done

lock: ## Resolve pyproject.toml anew into requirements.lock (needs uv)
	@$(PYTHON) -m evalkit lock

reference: setup ## Make outputs/reference anew, the execution that is committed
	@$(PY) -m evalkit run --into reference DATASET=handbook

clean: ## Remove what runs made in outputs/, and nothing else; asks (KEEP=5 YES=1)
	@$(if $(SETUP),$(if $(wildcard .venv),,:)) $(PY) -m evalkit clean $(if $(YES),--yes) $(if $(KEEP),--keep $(KEEP))
