"""Five notebooks: our driver, in sequence and side by side, against five calls of papermill.

All three do the same cells, interleaved on the same machine, each from a fresh process with its
imports.

    python tests/bench/notebooks.py [--rounds 3]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import nbformat

ROOT = Path(__file__).parents[2]
CELLS = {
    "one print": ["print(x)"],
    "pandas and a figure": [
        "import pandas as pd\nimport matplotlib.pyplot as plt",
        "frame = pd.DataFrame({'a': range(1000)})\nframe.describe()",
        "frame.plot()\nplt.show()",
    ],
    "100 cells": [f"{number} + x" for number in range(100)],
}
OURS = """
import sys
from pathlib import Path
from evalkit.workbook import driver, parameters
class Tiny(parameters.Parameters):
    x: int = 1
five = [parameters.Notebook(f"n{number}", Tiny) for number in range(5)]
plan = driver.Plan(five, {"x": 2}, label="bench", source=Path(sys.argv[1]),
                   side_by_side=int(sys.argv[2]))
driver.run(plan)
"""


def write_notebooks(folder: Path, cells: list[str]) -> None:
    for number in range(5):
        notebook = nbformat.v4.new_notebook()
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        first = nbformat.v4.new_code_cell("x: int = 1  # n", metadata={"tags": ["parameters"]})
        notebook.cells = [first, *map(nbformat.v4.new_code_cell, cells)]
        nbformat.write(notebook, folder / f"n{number}.ipynb")


def papermill(folder: Path) -> None:
    program = [sys.executable, "-m", "papermill", "--no-progress-bar", "-p", "x", "2"]
    for number in range(5):
        output = folder / f"out{number}.ipynb"
        call([*program, str(folder / f"n{number}.ipynb"), str(output)], folder)


def ours(folder: Path, side_by_side: int) -> None:
    call([sys.executable, "-c", OURS, str(folder), str(side_by_side)], folder)


def call(command: list[str], folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "EVALKIT_OUTPUTS": str(folder / "outputs")}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    met = True
    for name, cells in CELLS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            write_notebooks(folder, cells)
            calls = {
                "papermill, five calls": lambda folder=folder: papermill(folder),
                "ours, in sequence": lambda folder=folder: ours(folder, 1),
                "ours, side by side": lambda folder=folder: ours(folder, 2),
            }
            times = harness.interleaved(calls, rounds)
        for way, goal in (("ours, in sequence", 1.4), ("ours, side by side", 2.2)):
            pair = {"papermill, five calls": times["papermill, five calls"], way: times[way]}
            goals = {"papermill, five calls": goal}
            met &= harness.show(f"Five notebooks: {name}", pair, way, goals)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
