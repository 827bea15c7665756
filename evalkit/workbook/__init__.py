"""Runs the notebooks through papermill with checked parameters, and renders them.

`python -m evalkit` is the one entry; the Makefile only forwards to it. A notebook's first cell
calls `parameters.check_parameters`.
"""

import sys

# jsonschema, which reads every notebook, tries this optional checker of web addresses when it is
# imported; building its grammar takes 1.4 s each time, and no notebook needs it.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
