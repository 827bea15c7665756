"""Old executions removed: only those meant, only after asking, only files that evalkit wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from evalkit.errors import ParameterError
from evalkit.executions.store import Execution, history

REFERENCE = "reference"
# Names of what the workbook writes into an execution; a file with any other name is a person's.
_OURS = re.compile(
    r"manifest\.json|summary\.(json|md)|operating-point\.json|review\.json|comparison\.json"
    r"|comparison\.md|gate\.(md|xml|json)|index\.html|means\.png|\.(manifest|run)\.lock"
    r"|(run|evidence)-[^/]+\.(parquet|trec)|(results|outcomes|ceilings)\.parquet"
    r"|0[1-5]_[a-z_]+(\.failed)?\.(ipynb|html)|findings-template\.csv|\..*\.partial\.[a-z]+"
)


def removable(keep: int) -> list[Execution]:
    """The executions that `clean` would remove: all but the newest `keep` and the baselines.

    A baseline is `reference`, an execution whose manifest says `keep`, and any that another one
    named as its baseline.
    """
    if keep < 0:
        raise ParameterError(f"keep {keep}: give how many executions to keep, 0 or more.")
    known = list(history())
    named = {each.manifest.get("baseline", "") for each in known}
    return [
        each
        for each in known[: max(0, len(known) - keep)]
        if each.name not in named | {REFERENCE} and not each.manifest.get("keep", False)
    ]


def clean(keep: int, ask: Callable[[str], bool]) -> list[str]:
    """Removes old executions after `ask` said yes to the list of them; says what was done.

    An execution another process writes to stays. A folder in which a person keeps files of their
    own loses evalkit's files only. Symbolic links are never followed.
    """
    found = removable(keep)
    if not found:
        return ["Nothing to remove."]
    names = "\n".join(f"  {each.name}" for each in found)
    if not ask(f"Remove {len(found)} executions?\n{names}\n"):
        return ["Nothing was removed."]
    return [_remove(each) for each in found]


def _remove(execution: Execution) -> str:
    if execution.folder.is_symlink():
        return f"kept {execution.name}: it is a link"
    try:
        with FileLock(execution.folder / ".run.lock", timeout=0):
            ours = list(_ours(execution.folder))
            # The manifest last: what is left of a removal that was cut off can be found and ended.
            for path in sorted(ours, key=lambda path: path.name == "manifest.json"):
                path.unlink()
    except Timeout:
        return f"kept {execution.name}: a run is writing to it"
    (execution.folder / ".run.lock").unlink(missing_ok=True)
    left = sorted(path.name for path in execution.folder.iterdir())
    if left:
        return f"removed from {execution.name} all but {', '.join(left)}"
    execution.folder.rmdir()
    return f"removed {execution.name}"


def _ours(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name != ".run.lock" and path.is_file() and _OURS.fullmatch(path.name):
            yield path
