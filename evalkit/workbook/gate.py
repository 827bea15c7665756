"""A change let through or stopped: 05_compare executed, its verdict as an exit code.

    0  kept          IMPROVED or HELD
    1  regressed     REGRESSED
    2  cannot tell   UNDERPOWERED or NOT COMPARABLE (another code where asked for)
    3  error         nothing was compared

The gate has an execution of its own, `<utc-start>-gate`: the executed notebook with its page, and
beside it `comparison.json`, `gate.xml` (JUnit) and `gate.md`, a summary for a pull request.
make itself ends with 2 whatever a command's code was: ask `python -m evalkit gate` for the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from evalkit import executions, files
from evalkit.comparison import HELD, IMPROVED, KEEP, NOT_COMPARABLE, REGRESSED
from evalkit.errors import EvalkitError, ExecutionError, ParameterError
from evalkit.executions import Execution

KEPT, FAILED, CANNOT_TELL, ERROR = 0, 1, 2, 3
_MARKS = {IMPROVED: "🟢", HELD: "🟢", REGRESSED: "🔴"}
# Characters that no XML document may hold.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Gate:
    """What to compare: names of executions, the mode (the candidate's last where empty).

    `baseline` empty takes `reference`; `candidate` empty the newest on the baseline's set.
    `given` are further parameters of 05_compare, such as smallest, metric or varying.
    `cannot_tell` is the exit code where the questions cannot tell.
    """

    baseline: str = ""
    candidate: str = ""
    mode: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    cannot_tell: int = CANNOT_TELL


def run(gate: Gate) -> int:
    """Executes 05_compare on the two, writes the summaries beside it, and returns the exit code."""
    try:
        if not 0 <= gate.cannot_tell <= 255:
            raise ParameterError(f"cannot-tell {gate.cannot_tell}: give an exit code, 0 to 255.")
        folder, record = _compared(gate)
        write(folder, record)
    except (EvalkitError, OSError) as problem:
        print(f"evalkit: {problem}", file=sys.stderr)
        return ERROR
    print(f"{record['verdict']}: {record['candidate']} against {record['baseline']}")
    print("\n".join(f"  {reason}" for reason in record["reasons"]))
    print(f"Open {folder / 'gate.md'}")
    return exit_code(record["verdict"], gate.cannot_tell)


def exit_code(verdict: str, cannot_tell: int = CANNOT_TELL) -> int:
    """The exit code of a verdict.

    >>> [exit_code(word) for word in ("IMPROVED", "HELD", "REGRESSED", "UNDERPOWERED")]
    [0, 0, 1, 2]
    """
    if verdict in KEEP:
        return KEPT
    return FAILED if verdict == REGRESSED else cannot_tell


def write(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes `comparison.json`, `gate.xml` and `gate.md` of a recorded comparison."""
    files.write_json(folder / "comparison.json", dict(record))
    files.write_text(folder / "gate.xml", junit(record))
    files.write_text(folder / "gate.md", markdown(record))


def junit(record: Mapping[str, Any]) -> str:
    """The comparison as JUnit XML: one test of comparability, one a declared metric.

    A regressed metric is a failure, one that cannot tell is skipped, a comparison that may not
    be made is an error. Categories are told in the suite's output: they do not decide.
    """
    cases = list(_cases(record))
    suite = ElementTree.Element("testsuite", name="evalkit gate", tests=str(len(cases)))
    for kind in ("failure", "error", "skipped"):
        name = {"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]
        suite.set(name, str(sum(found == kind for _, found, _ in cases)))
    properties = ElementTree.SubElement(suite, "properties")
    about = {name: record[name] for name in ("baseline", "candidate", "verdict")} | record["rule"]
    for name, value in about.items():
        ElementTree.SubElement(properties, "property", name=name, value=_xml(value))
    for name, kind, message in cases:
        case = ElementTree.SubElement(suite, "testcase", classname="evalkit.gate", name=_xml(name))
        if kind:
            ElementTree.SubElement(case, kind, message=_xml(message))
    said = [*record["reasons"], *(_sentence(row) for row in _categories(record))]
    ElementTree.SubElement(suite, "system-out").text = _xml("\n".join(said))
    ElementTree.indent(suite)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, "unicode") + "\n"
    )


def markdown(record: Mapping[str, Any]) -> str:
    """The comparison as Markdown for a pull request: the verdict first, details folded away.

    Names that come from data stand in code spans, where nothing in them is obeyed.
    """
    mark, word = _MARKS.get(record["verdict"], "🟡"), record["verdict"]
    lines = [f"## {mark} {word}", ""]
    lines += [f"{_code(record['candidate'])} against {_code(record['baseline'])}", ""]
    lines += [f"- {_plain(reason)}" for reason in record["reasons"]]
    lines += ["", *_table(_declared(record), "metric")]
    lines += _folded("Every category", _table(_categories(record), "slice"))
    others = [row for row in record["table"] if row["slice"] == "all"]
    lines += _folded("Every metric", _table(others, "metric"))
    lines += _folded("Questions that moved most", _movers(record["movers"]))
    differing = [
        f"| {_code(name)} | {_code(old)} | {_code(new)} | {_declared_word(record, name)} |"
        for name, (old, new) in record["differing"].items()
    ]
    head = ["| input | baseline | candidate | declared |", "| --- | --- | --- | --- |"]
    lines += _folded("Inputs that differ", [*head, *differing] if differing else ["None."])
    rule = ", ".join(
        f"{name} {value}" for name, value in record["rule"].items() if value not in ("", [], ())
    )
    lines += ["", f"Rule, stated before: {_plain(rule)}."]
    return "\n".join(lines) + "\n"


def _compared(gate: Gate) -> tuple[Path, dict[str, Any]]:
    """Runs the notebook in a fresh execution; the folder and the record it wrote."""
    from evalkit.workbook import driver
    from evalkit.workbook.parameters import notebook_named

    baseline = executions.find(gate.baseline or "reference")
    about = baseline.inputs.get("set", {}).get("name", "")
    candidate = (
        executions.find(gate.candidate) if gate.candidate else executions.newest(dataset=about)
    )
    if not gate.candidate and candidate.name == baseline.name:
        raise ExecutionError(f"Nothing on {about} is newer than {baseline.name}; name a candidate.")
    mode = gate.mode or _last_mode(candidate)
    given = {"dataset": about, "baseline": baseline.name, "candidate": candidate.name}
    given |= {"baseline_mode": mode, "candidate_mode": mode} | dict(gate.given)
    plan = driver.Plan([notebook_named("05_compare")], given, label="gate")
    own = driver.run(plan)
    own.record(lambda manifest: manifest.update(baseline=baseline.name, candidate=candidate.name))
    record = dict(candidate.read_json("comparison"))
    pair = (f"{baseline.name}:", f"{candidate.name}:")
    if not (record["baseline"].startswith(pair[0]) and record["candidate"].startswith(pair[1])):
        raise ExecutionError(f"{candidate.folder / 'comparison.json'} is of another comparison.")
    return own.folder, record


def _last_mode(candidate: Execution) -> str:
    modes = list(candidate.inputs.get("retrieval", {}))
    if not modes:
        raise ExecutionError(f"{candidate.name} evaluated nothing: run 02_evaluate there first.")
    return str(modes[-1])


def _cases(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(name, "" or failure, error or skipped, message) of every test."""
    reasons = " ".join(record["reasons"])
    forbidden = record["verdict"] == NOT_COMPARABLE
    yield "comparable", "error" if forbidden else "", reasons
    for row in _declared(record):
        name = f"{row['metric']}@{row['cutoff']}"
        if forbidden or row["verdict"] not in (*KEEP, REGRESSED):
            yield name, "skipped", _sentence(row)
        else:
            yield name, "failure" if row["verdict"] == REGRESSED else "", _sentence(row)


def _declared(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    rule = record["rule"]
    return [
        row
        for row in record["table"]
        if row["slice"] == "all"
        and row["cutoff"] == rule["cutoff"]
        and row["metric"] in (rule["metric"], *rule["also"])
    ]


def _categories(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    rule = record["rule"]
    wanted = (rule["metric"], rule["cutoff"])
    return [
        row
        for row in record["table"]
        if row["slice"] != "all" and (row["metric"], row["cutoff"]) == wanted
    ]


def _declared_word(record: Mapping[str, Any], name: str) -> str:
    return "**no**" if name in record["undeclared"] else "yes"


def _sentence(row: Mapping[str, Any]) -> str:
    return (
        f"{row['slice']}: {row['metric']}@{row['cutoff']} {row['difference']:+.3f} "
        f"({row['low']:+.3f} to {row['high']:+.3f}), n = {row['n']}, {row['verdict']}"
    )


def _table(rows: Sequence[Mapping[str, Any]], first: str) -> list[str]:
    """Rows as a Markdown table; `first` is "metric" (with its cutoff) or "slice"."""
    lines = [
        f"| {first} | n | baseline | candidate | difference | interval | p, adjusted | "
        "better / equal / worse | |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: | --- | --- |",
    ]
    for row in rows:
        name = f"{row['metric']}@{row['cutoff']}" if first == "metric" else str(row["slice"])
        lines.append(
            f"| {_code(name)} | {row['n']} | {row['baseline']:.3f} | {row['candidate']:.3f} | "
            f"{row['difference']:+.3f} | {row['low']:+.3f} to {row['high']:+.3f} | "
            f"{row['p_adjusted']:.3g} | {row['wins']} / {row['ties']} / {row['losses']} | "
            f"{row['verdict']} |"
        )
    return lines


def _movers(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["None: every value is equal."]
    lines = ["| question | baseline | candidate | difference |", "| --- | ---: | ---: | ---: |"]
    for row in rows:
        lines.append(
            f"| {_code(row['query_id'])} | {row['baseline']:.3f} | {row['candidate']:.3f} | "
            f"{row['difference']:+.3f} |"
        )
    return lines


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _code(value: Any) -> str:
    """A value as a code span on one line that no backtick or bar in it can end.

    >>> _code("a|b`c")
    "`a\\\\|b'c`"
    """
    text = " ".join(str(value).replace("`", "'").replace("|", "\\|").split())
    return f"`{text[:200]}`" if text else "–"


def _plain(text: str) -> str:
    """A sentence in which names from data can open no tag, link, mention or emphasis."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<!\w)@", "&#64;", re.sub(r"([\\`*_\[\]|#])", r"\\\1", text))


def _xml(value: Any) -> str:
    return _NOT_XML.sub("\ufffd", str(value))
