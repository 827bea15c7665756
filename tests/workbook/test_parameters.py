"""Parameters: refused before a kernel starts and again inside it, or taken exactly as given."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit import workbook
from evalkit.errors import ParameterError
from evalkit.workbook.notebook import run_notebook
from evalkit.workbook.parameters import (
    _SECRET,
    WORKBOOK,
    Notebook,
    Parameters,
    assign,
    from_text,
    notebook_named,
    read_file,
    validate,
)

CASES = Path(__file__).parents[1] / "data" / "cases" / "notebooks"


class CaseParameters(Parameters):
    """The parameters that the public case types on a command line."""

    collection: str = "x"
    run_name: str = "x"
    rerank: bool = True
    cutoffs: list[int] = [1]  # noqa: RUF012 -- pydantic copies defaults
    threshold: float = 0.3
    id_field: str = "x"


CASE = Notebook("case", CaseParameters)


def case(name: str) -> dict[str, Any]:
    return dict(json.loads((CASES / f"notebooks-{name}.json").read_text(encoding="utf-8")))


def test_misspelt_name_is_an_error_that_names_the_nearest_one() -> None:
    """A misspelt parameter stops the run and is told which name was meant (case)."""
    given = case("misspelt-parameter")["input"]["given"]

    with pytest.raises(ParameterError, match=r"'treshold'.*Did you mean 'threshold'"):
        assign([CASE], given)


def test_text_of_a_command_line_keeps_its_letters() -> None:
    """007, 1e5 and null stay text where text is declared; false and 1e-3 get their type (case)."""
    typed = case("parameter-types-on-the-command-line")["input"]["product_parameters"]
    typed.pop("cutoffs")

    values = {name: from_text([CASE], name, text) for name, text in typed.items()}

    assert values == {
        "collection": "007",
        "run_name": "1e5",
        "rerank": False,
        "threshold": 0.001,
        "id_field": "null",
    }


def test_list_in_brackets_is_an_error_and_commas_make_a_list() -> None:
    """`[1,2]` is refused with the part that is no integer; `1,2` is two integers (case)."""
    with pytest.raises(ParameterError, match=r"cutoffs=\[1,2\].*integer"):
        from_text([CASE], "cutoffs", "[1,2]")
    assert from_text([CASE], "cutoffs", "1, 2") == [1, 2]


@pytest.mark.parametrize(
    "given",
    [
        {"dataset": 7},
        {"dataset": "two\nlines"},
        {"dataset": ""},
        {"dataset": "x" * 401},
        {"label": "../escape"},
        {"label": "Upper"},
        {"label": "{pm}"},
        {"label": "x" * 65},
        {"execution": "../../etc"},
        {"cutoffs": "1,3"},
        {"cutoffs": []},
        {"cutoffs": [0]},
        {"cutoffs": [True]},
        {"cutoffs": [3, 3]},
        {"cutoffs": [1.0]},
        {"modes": "semantic"},
        {"worst": None},
        {"policy": "other"},
        {'x=1\nimport os; os.system("touch pwned")\ny': 1},
        {7: 1},
    ],
)
def test_ill_typed_or_unsafe_value_is_refused(given: dict[Any, Any]) -> None:
    """Wrong types, empty lists, paths as labels and code as names never reach a kernel."""
    with pytest.raises(ParameterError):
        assign(WORKBOOK, given)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.3", True])
def test_float_must_be_a_finite_number(value: object) -> None:
    """NaN, infinity, text and truth are no thresholds."""
    with pytest.raises(ParameterError):
        validate(CASE, {"threshold": value})


def test_secret_is_refused_without_repeating_it() -> None:
    """A name that looks like a key is refused, and its value is not printed (case)."""
    given = case("secrets-in-parameters")["input"]["parameters"]

    with pytest.raises(ParameterError, match="looks like a secret") as caught:
        assign(WORKBOOK, given)

    assert "sk-TEST-000111" not in str(caught.value)


def test_no_declared_name_looks_like_a_secret() -> None:
    """The words that mark secrets hit none of our own parameters."""
    names = {name for notebook in WORKBOOK for name in notebook.parameters.model_fields}

    assert not [name for name in names if _SECRET.search(name)]


def test_each_notebook_gets_what_it_declares() -> None:
    """A common value goes to every notebook that declares it; a named section to one alone."""
    assigned = assign(WORKBOOK, {"dataset": "runbooks", "02_evaluate": {"cutoffs": [2]}})

    assert assigned["01_index"] == {"dataset": "runbooks"}
    assert assigned["02_evaluate"] == {"dataset": "runbooks", "cutoffs": [2]}
    assert assigned["05_compare"] == {"dataset": "runbooks"}


def test_value_for_a_notebook_that_does_not_run_is_refused() -> None:
    """A parameter only another notebook declares is not silently without effect."""
    with pytest.raises(ParameterError, match="unknown parameter 'cutoffs'"):
        assign([notebook_named("01")], {"cutoffs": [1]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "name: value"),
        ("a: [", "not YAML"),
        ("!!python/object/apply:os.system [ls]", "not YAML"),
        ("x: " + "y" * 70_000, "larger than"),
    ],
)
def test_unreadable_parameter_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    """A list, broken YAML, Python tags and huge files are refused, naming the file."""
    path = tmp_path / "p.yaml"
    path.write_text(text)

    with pytest.raises(ParameterError, match=message) as caught:
        read_file(path)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_yaml_word_no_is_not_taken_for_text(tmp_path: Path) -> None:
    """YAML reads `label: no` as false; the label must be text, so that is an error (case)."""
    path = tmp_path / "p.yaml"
    path.write_text("label: no")

    with pytest.raises(ParameterError, match="label"):
        assign(WORKBOOK, read_file(path))


def test_check_inside_refuses_a_stranger_and_freezes_the_rest() -> None:
    """A value in the namespace that is not declared is an error; results cannot be changed."""
    with pytest.raises(ParameterError, match=r"'cutofs'.*Did you mean 'cutoffs'"):
        workbook.check_parameters("02_evaluate", {"cutofs": [1]})

    parameters = workbook.check_parameters("01_index", {"dataset": "runbooks"})

    assert (parameters.dataset, parameters.embedder) == ("runbooks", "embedded")
    with pytest.raises(ValueError, match="frozen"):
        parameters.dataset = "other"


def test_check_may_be_called_again_after_later_cells_left_values() -> None:
    """Re-running the first cell in JupyterLab does not mistake results for parameters."""
    namespace: dict[str, Any] = {"dataset": "runbooks"}
    workbook.check_parameters("01_index", namespace)
    namespace["mean"] = 0.5

    assert workbook.check_parameters("01_index", namespace).dataset == "runbooks"


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("given", "status"),
    [({"dataset": "x"}, "ok"), ({"datset": "x"}, "failed"), ({"dataset": 1}, "failed")],
)
def test_notebook_refuses_what_plain_papermill_injects(
    make_notebook: Callable[..., Path],
    environment: dict[str, str],
    tmp_path: Path,
    given: dict[str, Any],
    status: str,
) -> None:
    """In a real kernel, IPython's own names pass and an injected unknown or ill-typed one fails."""
    source = make_notebook(
        "checks",
        'from evalkit import workbook\n\np = workbook.check_parameters("01_index", globals())',
        parameters='dataset: str = "handbook"  # set\nembedder: str = "embedded"  # model',
    )

    result = run_notebook(source, tmp_path, given, environment=environment)

    assert result.status == status
    assert status == "ok" or "ParameterError" in result.reason
