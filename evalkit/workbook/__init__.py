"""Runs the notebooks through papermill with checked parameters, and renders them.

`python -m evalkit` is the one entry; the Makefile only forwards to it. This file and `cli` import
the standard library only, since `setup` runs before anything is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

# jsonschema, which reads every notebook, tries this optional checker of web addresses when it is
# imported; building its grammar takes 1.4 s each time, and no notebook needs it.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def check_parameters(notebook: str, namespace: Mapping[str, Any]) -> Any:
    """Called by a notebook's first cell with `globals()`: its parameters, checked and frozen."""
    from evalkit.workbook import parameters

    return parameters.check(notebook, namespace)
