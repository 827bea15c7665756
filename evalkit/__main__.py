"""`python -m evalkit`: the one entry; `setup` works before anything is installed."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Hands over to the command line, or says how to install what it needs."""
    from evalkit.workbook import cli

    try:
        return cli.main(arguments)
    except ModuleNotFoundError as missing:
        if (missing.name or "evalkit").startswith("evalkit"):
            raise
        print(
            f"{missing.name} is not installed for {sys.executable}. Run `python -m evalkit setup` "
            "once, then use the Python it names (.venv/bin/python).",
            file=sys.stderr,
        )
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
