"""The command line. Every verb is a few lines that call a room; errors are one sentence.

Imports of anything that must first be installed stand inside the verbs: `setup` runs on the
machine's bare Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError, ParameterError
from evalkit.workbook import environment, typed

_ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    """Runs one verb; the exit code is 0, or the code of the error that ended it."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.verb(options)
        return code
    except EvalkitError as problem:
        if options.debug:
            raise
        print(f"evalkit: {problem}", file=sys.stderr)
        return problem.exit_code
    except OSError as problem:
        if options.debug:
            raise
        where = f"{problem.filename}: " if problem.filename else ""
        print(f"evalkit: {where}{problem.strerror or problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("evalkit: stopped", file=sys.stderr)
        return 130


def setup(options: argparse.Namespace) -> int:
    """Makes .venv from the lock file; a finished one is left alone."""
    python = environment.install(_ROOT, extras=options.extra)
    if not options.quiet:
        print(python)
    return 0


def lock(options: argparse.Namespace) -> int:
    """Writes requirements.lock anew from pyproject.toml (needs uv)."""
    print(environment.write_lock(_ROOT))
    return 0


def run(options: argparse.Namespace) -> int:
    """Executes the workbook, or the notebooks named, and renders every page."""
    from evalkit.workbook import driver, pages
    from evalkit.workbook.parameters import WORKBOOK, notebook_named

    chosen = [notebook_named(name).name for name in options.notebook]
    notebooks = [each for each in WORKBOOK if not chosen or each.name in chosen]
    given = typed.given(options)
    label = given.get("label") or typed.label(str(given.get("dataset", "handbook")))
    plan = driver.Plan(
        notebooks,
        given,
        label=label,
        execution=options.execution,
        into=options.into,
        cell_timeout_s=options.timeout,
        side_by_side=options.side_by_side,
    )
    execution = driver.run(plan)
    table = pages.headline_text(pages.summary_of(execution))
    print(f"\n{table}\n" if table else "")
    for name, sentence in pages.said(execution).items():
        print(textwrap.fill(f"{name}: {sentence}", 100, subsequent_indent="    "))
    print(f"Open {execution.folder / 'index.html'}")
    return 0


def check(options: argparse.Namespace) -> int:
    """Reads a labelled set and says what is wrong with it; 1 when it cannot be evaluated."""
    from evalkit import datasets
    from evalkit.retrieval import chunking

    labelled = datasets.load(options.dataset)
    chunks = chunking.cut(labelled.documents, labelled.chunking)
    findings = datasets.check(labelled, chunks)
    for finding in findings:
        print(finding)
    errors = sum(finding.level == "error" for finding in findings)
    answerable = sum(query.answerable for query in labelled.queries)
    print(
        f"{labelled.name}: {len(labelled.documents)} documents, {len(chunks)} chunks, "
        f"{answerable} answerable and {len(labelled.queries) - answerable} unsupported questions; "
        f"{errors} errors, {len(findings) - errors} warnings"
    )
    return 1 if errors else 0


def render(options: argparse.Namespace) -> int:
    """Renders the pages of an execution again (the newest, when none is named)."""
    from evalkit import executions
    from evalkit.workbook import pages
    from evalkit.workbook.render import render_file

    execution = executions.find(options.name) if options.name else executions.newest()
    for notebook in sorted(execution.folder.glob("[!.]*.ipynb")):
        print(render_file(notebook))
    print(pages.write_index(execution))
    return 0


def list_executions(options: argparse.Namespace) -> int:
    """Lists all executions, oldest first, with status, values and what changed between them."""
    from evalkit import executions

    print(executions.history_text(options.metric, options.dataset))
    if options.figure:
        from evalkit import plots, show

        if not options.dataset:
            raise ParameterError("--figure draws one set over time: name it with --dataset.")
        timeline = executions.timeline(options.dataset)
        show.save(
            plots.over_time(timeline, options.metric, f"Mean {options.metric}"), options.figure
        )
    return 0


def clean(options: argparse.Namespace) -> int:
    """Removes what runs made, after asking: all but baselines, `reference` and the newest KEEP."""
    from evalkit import executions

    refused = False

    def ask(question: str) -> bool:
        nonlocal refused
        if not options.yes and not sys.stdin.isatty():
            raise ParameterError(f"{question}Nobody can be asked here: say --yes to remove them.")
        refused = not options.yes and input(f"{question}[y/N] ").strip().lower() not in ("y", "yes")
        return not refused

    print(*executions.clean(options.keep, ask), sep="\n")
    if options.keep == 0 and not refused:
        for name in ("collections", "cache"):  # made again from the sets by the next run
            shutil.rmtree(executions.outputs() / name, ignore_errors=True)
    return 0


def score(options: argparse.Namespace) -> int:
    """Scores a run file against judgments, without a workbook, as people use trec_eval."""
    from evalkit.evaluation import scoring

    names = options.metrics.replace(",", " ").split() or scoring.SCORED
    scores = scoring.score(options.run_file, options.qrels_file, names, preset=options.preset)
    for finding in scoring.findings(options.run_file, options.qrels_file):
        print(finding, file=sys.stderr)
    if options.json:
        print(scoring.as_json(scores, preset=options.preset, per_question=options.per_question))
    else:
        print(scoring.as_text(scores, per_question=options.per_question))
    return 0


def export(options: argparse.Namespace) -> int:
    """Writes an execution as Mixpeek evaluation JSON, or as an aieval result store."""
    from evalkit import datasets, executions, files

    execution = executions.find(options.name)
    about = execution.inputs.get("set", {}).get("name", "")
    labelled = datasets.load(options.dataset or about)
    if options.form == "mixpeek":
        files.write_json(options.to, executions.mixpeek(execution, labelled, options.mode))
        print(options.to)
    else:
        print(executions.write_aieval(execution, labelled, options.mode, options.to))
    return 0


def revise(options: argparse.Namespace) -> int:
    """Writes a labelled set anew with a reviewer's findings; the old set stays as it is."""
    from evalkit import datasets, reviews

    labelled = datasets.load(options.dataset)
    found = reviews.findings(options.findings, labelled)
    done = reviews.revise(labelled, found, options.version, options.into)
    print("\n".join([*done, f"{len(done)} questions changed; written to {options.into}"]))
    return 0


def gate(options: argparse.Namespace) -> int:
    """Compares a candidate with a baseline: 0 kept, 1 regressed, 2 cannot tell, 3 error."""
    from evalkit.workbook import gate as gates
    from evalkit.workbook.parameters import WORKBOOK, from_text, notebook_named

    compare = notebook_named("05_compare", WORKBOOK)
    try:
        given = {
            name: from_text([compare], name, text)
            for name, text in typed.words(options.assignments).items()
            if text
        }
    except ParameterError as problem:
        print(f"evalkit: {problem}", file=sys.stderr)
        return gates.ERROR
    sides = {name: given.pop(name, "") for name in ("baseline", "candidate")}
    wanted = gates.Gate(**sides, mode=options.mode, given=given, cannot_tell=options.cannot_tell)
    return gates.run(wanted)


def lab(options: argparse.Namespace) -> int:
    """Opens JupyterLab on the notebooks: for this machine only, with a token, without news."""
    from evalkit.workbook.notebook import kernel_environment

    settings = _ROOT / ".jupyter"
    wanted = settings / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    wanted.parent.mkdir(parents=True, exist_ok=True)
    wanted.write_text('{"fetchNews": "false", "checkForUpdates": false}\n', encoding="utf-8")
    variables = kernel_environment(_ROOT, _ROOT / ".cache")
    variables |= {"JUPYTERLAB_SETTINGS_DIR": str(settings)}
    command = [sys.executable, "-m", "jupyterlab", *options.arguments, str(_ROOT / "notebooks")]
    return subprocess.run(command, env=variables, cwd=_ROOT).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evalkit", description=__doc__, add_help=True)
    parser.description = "Measures retrieval: runs the notebooks, renders them, keeps the numbers."
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, function: Any) -> argparse.ArgumentParser:
        described = (function.__doc__ or "").splitlines()[0]
        added = verbs.add_parser(name, help=described, description=described)
        added.add_argument("--debug", action="store_true", help="show the traceback of an error")
        added.set_defaults(verb=function)
        return added

    added = verb("setup", setup)
    added.add_argument("--extra", action="append", default=[], help="test, bench, edge ...")
    added.add_argument("--quiet", action="store_true", help="do not print the Python it made")
    verb("lock", lock)
    _run_options(verb("run", run))
    verb("check", check).add_argument("dataset", metavar="DATASET", help="built-in name or folder")
    added = verb("render", render)
    added.add_argument("name", nargs="?", default="", help="the execution; default: the newest")
    added = verb("list", list_executions)
    added.add_argument("--metric", default="nDCG", help="the metric to show over time (nDCG)")
    added.add_argument("--dataset", default="", help="only executions on this set")
    added.add_argument("--figure", type=Path, metavar="FILE", help="draw it as a PNG too")
    added = verb("clean", clean)
    added.add_argument("--keep", type=int, default=0, metavar="N", help="keep the newest N")
    added.add_argument("--yes", action="store_true", help="do not ask")
    _score_options(verb("score", score))
    added = verb("gate", gate)
    sides = "BASELINE=reference CANDIDATE=<execution> smallest=0.02 varying=embedder ..."
    added.add_argument("assignments", nargs="*", metavar="NAME=VALUE", help=sides)
    added.add_argument("--mode", default="", help="the mode compared; default: the last one")
    added.add_argument("--cannot-tell", type=int, default=2, metavar="CODE", help="2, or 0 to pass")
    added = verb("revise", revise)
    added.add_argument("dataset", metavar="DATASET", help="the set that was reviewed")
    added.add_argument("findings", help="the reviewer's table (CSV)")
    added.add_argument("--version", required=True, help="version of the new set")
    added.add_argument("--into", type=Path, required=True, help="fresh folder for it")
    added = verb("export", export)
    added.add_argument("name", help="the execution")
    added.add_argument("form", choices=["mixpeek", "aieval"])
    added.add_argument("to", type=Path, help="the file (mixpeek) or folder (aieval) to write")
    added.add_argument("--mode", default="semantic", help="the mode to export (semantic)")
    added.add_argument("--dataset", default="", help="the set, where it is not a built-in one")
    verb("lab", lab).add_argument("arguments", nargs="*", help="passed on to JupyterLab")
    return parser


def _score_options(score_parser: argparse.ArgumentParser) -> None:
    add = score_parser.add_argument
    add("run_file", type=Path, metavar="RUN", help="TREC run, CSV or Parquet")
    add("qrels_file", type=Path, metavar="QRELS", help="TREC qrels, CSV or Parquet")
    add("--preset", default="evalkit", help="conventions: evalkit, trec_eval, ranx, mixpeek ...")
    add("--metrics", default="", help="as in nDCG@10,AP")
    add("--per-question", action="store_true", help="a line for each question too")
    add("--json", action="store_true", help="JSON at full precision")


def _run_options(run_parser: argparse.ArgumentParser) -> None:
    add = run_parser.add_argument
    add("assignments", nargs="*", metavar="NAME=VALUE", help="DATASET=runbooks, ceiling=0.05 ...")
    add("--dataset", help="built-in name (handbook, runbooks, vault) or a folder")
    add("--modes", help="keyword, semantic, hybrid: any of them, separated by commas")
    add("--label", help="ends the name of the execution's folder")
    add("--embedder", help="embedded (English), ollama:<model> ...")
    add("--cutoffs", "-k", help="depths at which metrics are taken, as in 1,3,5")
    add("--parameters", type=Path, metavar="FILE", help="a YAML file of parameters")
    add("--notebook", action="append", default=[], metavar="NAME", help="only this one, as in 03")
    add("--execution", default="", metavar="NAME", help="run in this existing execution")
    add("--into", default="", metavar="NAME", help="make the execution of this name, or anew")
    add("--timeout", type=int, metavar="SECONDS", help="longest time a single cell may take")
    add("--side-by-side", type=int, default=min(2, os.cpu_count() or 1), metavar="N",
        help="notebooks that may run at once (2)")  # fmt: skip
