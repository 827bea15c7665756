"""What each notebook may be told: one strict record a notebook, and the order they run in.

Checked twice, by the driver before a kernel starts and by the notebook's own first cell
(`workbook.check_parameters`): plain papermill only warns about an unknown name and never looks at
types. A parameter is declared here and in the notebook's parameter cell, with the same default;
`tests/test_notebook_shape.py` compares the two.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from evalkit.errors import ParameterError

_SECRET = re.compile(
    r"secret|password|passwd|passphrase|credential|token|(^|_)(api|access|private)?_?key$|(^|_)auth",
    re.IGNORECASE,
)
_LITERALS = (str, int, float, complex, bool, list, tuple, dict, set, bytes, type(None))
_LARGEST_FILE = 64_000


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds a line break or another control character")
    return text


def _distinct(values: list[Any]) -> list[Any]:
    if len(set(values)) < len(values):
        raise ValueError("names the same value twice")
    return values


Text = Annotated[str, StringConstraints(max_length=400), AfterValidator(_printable)]
Name = Annotated[Text, StringConstraints(min_length=1)]
Label = Annotated[str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9_-]{0,63})?$")]
ExecutionName = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9][A-Za-z0-9_-]{0,99})?$")]
Mode = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$")]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Cutoff = Annotated[int, Field(ge=1, le=100_000)]
Share = Annotated[float, Field(gt=0, lt=1)]
OptionalMode = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.:-]{0,127})?$")]
Cutoffs = Annotated[list[Cutoff], Field(min_length=1), AfterValidator(_distinct)]
Modes = Annotated[list[Mode], Field(min_length=1), AfterValidator(_distinct)]
Names = Annotated[list[Name], Field(min_length=1), AfterValidator(_distinct)]
Preset = Literal["evalkit", "dotnet", "mixpeek", "kioku", "trec_eval", "ranx"]


class Parameters(BaseModel):
    """Base of the parameter records: nothing unknown, nothing converted, nothing changed later."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class IndexParameters(Parameters):
    """What to cut, embed and store."""

    dataset: Name = "handbook"
    embedder: Name = "embedded"
    threads: Count = 0
    allowed_failures: Annotated[float, Field(ge=0, lt=1)] = 0.0


class EvaluateParameters(Parameters):
    """Which set to ask, of which retrievers, under which choices."""

    dataset: Name = "handbook"
    embedder: Name = "embedded"
    modes: Modes = ["keyword", "semantic", "hybrid"]
    cutoffs: Cutoffs = [1, 3, 5]
    metrics: Names = ["Precision", "Recall", "ReciprocalRank", "nDCG"]
    policy: Preset = "evalkit"
    beside: Preset = "trec_eval"
    fusion: Literal["rrf60", "qdrant"] = "rrf60"
    min_score: Annotated[float, Field(ge=0)] = 0.0
    collection: Text = ""
    fields: dict[Literal["identity", "text", "title", "vector"], Text] = {}
    worst: Count = 5
    deadline_s: Count = 600
    label: Label = "lab"
    execution: ExecutionName = ""


class SweepParameters(Parameters):
    """Which scores to put thresholds on, and the rule that chooses one."""

    dataset: Name = "handbook"
    embedder: Name = "embedded"
    mode: Mode = "semantic"
    signal: Literal["top score", "margin", "standing"] = "top score"
    cutoff: Count = 0
    rule: Literal["ceiling", "cost", "equal error", "guarantee"] = "ceiling"
    value: Annotated[float, Field(gt=0)] = 0.1
    alpha: Share = 0.1
    delta: Share = 0.05
    seed: Count = 0
    execution: ExecutionName = ""


class ReviewParameters(Parameters):
    """Which questions to show, worst first, and the reviewer's table."""

    dataset: Name = "handbook"
    mode: Mode = "semantic"
    page: Cutoff = 1
    shown: Annotated[int, Field(ge=1, le=200)] = 10
    findings: Text = ""
    execution: ExecutionName = ""


class CompareParameters(Parameters):
    """Which two sides to compare, and the rule for the verdict."""

    dataset: Name = "handbook"
    candidate: ExecutionName = ""
    candidate_mode: OptionalMode = ""
    baseline: ExecutionName = ""
    baseline_mode: OptionalMode = ""
    varying: Text = "mode"
    override: bool = False
    metric: Name = "nDCG"
    cutoff: Count = 0
    smallest: Share = 0.03
    alpha: Share = 0.05
    seed: Count = 0
    shown: Annotated[int, Field(ge=0, le=50)] = 3


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook of the workbook, its parameters, and the notebooks it reads from."""

    name: str
    parameters: type[Parameters]
    after: tuple[str, ...] = ()


WORKBOOK = (
    Notebook("01_index", IndexParameters),
    Notebook("02_evaluate", EvaluateParameters, after=("01_index",)),
    Notebook("03_threshold_sweep", SweepParameters, after=("02_evaluate",)),
    Notebook("04_unsupported_review", ReviewParameters, after=("03_threshold_sweep",)),
    Notebook("05_compare", CompareParameters, after=("02_evaluate",)),
)


def notebook_named(name: str, workbook: Sequence[Notebook] = WORKBOOK) -> Notebook:
    """The notebook of that name; its number or a beginning of it is enough.

    >>> notebook_named("03").name
    '03_threshold_sweep'
    """
    found = [notebook for notebook in workbook if name and notebook.name.startswith(name)]
    if len(found) != 1:
        known = ", ".join(notebook.name for notebook in workbook)
        raise ParameterError(f"No single notebook is called {name!r}. There are: {known}.")
    return found[0]


def validate(notebook: Notebook, given: Mapping[str, Any]) -> Parameters:
    """The notebook's parameters with `given` in place of defaults, or a ParameterError."""
    refuse_unknown(given, notebook.parameters.model_fields, where=notebook.name)
    try:
        return notebook.parameters.model_validate(dict(given))
    except ValidationError as problem:
        raise ParameterError(f"{notebook.name}: {_sentence(problem)}") from None


def assign(notebooks: Sequence[Notebook], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Hands each notebook the values it declares, checked; a name none declares is refused.

    A key that is a notebook's own name holds values for it alone, as in a parameter file:

        dataset: runbooks
        03_threshold_sweep: {ceiling: 0.05}
    """
    names = {notebook.name for notebook in notebooks}
    common = {name: value for name, value in given.items() if name not in names}
    declared = {field for notebook in notebooks for field in notebook.parameters.model_fields}
    refuse_unknown(common, declared, where="parameters")
    assigned = {}
    for notebook in notebooks:
        own = given.get(notebook.name, {})
        if not isinstance(own, Mapping):
            raise ParameterError(f"{notebook.name}: expected its parameters by name, got {own!r}.")
        fields = notebook.parameters.model_fields
        values = {name: value for name, value in common.items() if name in fields} | dict(own)
        validate(notebook, values)
        assigned[notebook.name] = values
    return assigned


def refuse_unknown(given: Iterable[Any], declared: Iterable[str], *, where: str) -> None:
    """Raises for the first name that is not declared, naming the nearest one that is."""
    known = sorted(declared)
    for name in given:
        if name in known:
            continue
        if isinstance(name, str) and _SECRET.search(name):
            raise ParameterError(
                f"{where}: parameter {name!r} looks like a secret. Parameters are written into "
                "every executed notebook; keys come from the environment (QDRANT_API_KEY)."
            )
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(
            f"{where}: unknown parameter {str(name)[:60]!r}.{hint} Declared: {', '.join(known)}."
        )


def check(name: str, namespace: Mapping[str, Any]) -> Parameters:
    """The parameters found in a kernel's namespace (`globals()` there), checked and frozen.

    Every plain value that IPython did not put there must be a declared parameter, so that a name
    injected by the papermill program is refused and not ignored. Cells run later leave values of
    their own, so a second call in the same kernel checks the declared names only.
    """
    notebook = notebook_named(name)
    fields = notebook.parameters.model_fields
    if namespace.get(_CHECKED) != notebook.name:
        plain = [key for key, value in namespace.items() if isinstance(value, _LITERALS)]
        strangers = [key for key in plain if not _is_hidden(key, namespace)]
        refuse_unknown(strangers, fields, where=notebook.name)
    given = {field: namespace[field] for field in fields if field in namespace}
    parameters = validate(notebook, given)
    if isinstance(namespace, dict):
        namespace[_CHECKED] = notebook.name
    return parameters


_CHECKED = "__evalkit_parameters__"


def _is_hidden(name: str, namespace: Mapping[str, Any]) -> bool:
    """Whether Python or IPython, and not a cell, put `name` into the namespace."""
    if name.startswith("__") and name.endswith("__"):
        return True
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    hidden = shell.user_ns_hidden if shell is not None else {}
    return name in hidden and hidden[name] is namespace[name]


def from_text(notebooks: Sequence[Notebook], name: str, text: str) -> Any:
    """The value that `text`, typed on a command line, means for the parameter called `name`.

    Text stays exactly as typed (`007`, `1e5`, `None`); lists are split at commas and spaces.

    >>> from_text(WORKBOOK, "cutoffs", "1,3,5"), from_text(WORKBOOK, "dataset", "007")
    ([1, 3, 5], '007')
    """
    kinds: dict[str, Any] = {
        field: info.annotation
        for notebook in notebooks
        for field, info in notebook.parameters.model_fields.items()
    }
    refuse_unknown([name], kinds, where="command line")
    kind = kinds[name]
    try:
        if get_origin(kind) is list:
            one: TypeAdapter[Any] = TypeAdapter(get_args(kind)[0])
            return [one.validate_strings(part) for part in text.replace(",", " ").split()]
        return TypeAdapter[Any](kind).validate_strings(text)
    except ValidationError as problem:
        raise ParameterError(f"{name}={text}: {_sentence(problem)}") from None


def read_file(path: Path) -> dict[str, Any]:
    """A YAML file of parameters; every name and value is checked by `assign` afterwards."""
    import yaml

    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ParameterError(f"{path}: larger than {_LARGEST_FILE:,} bytes; not parameters.")
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ParameterError(f"{path}: cannot be read ({problem.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise ParameterError(f"{path}: not YAML ({' '.join(str(problem).split())}).") from None
    if not isinstance(given, dict):
        raise ParameterError(f"{path}: expected `name: value` lines, got {type(given).__name__}.")
    return given


def _sentence(problem: ValidationError) -> str:
    """The first thing wrong, in words, with the value when that is short."""
    first = problem.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    got = repr(first["input"])
    shown = f", got {got}" if len(got) <= 80 else ""
    return f"{where}{': ' if where else ''}{first['msg'].removeprefix('Value error, ')}{shown}."
