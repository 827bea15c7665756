"""Five notebooks: our driver, in sequence and side by side, against five calls of papermill.

All three do the same cells, interleaved on the same machine, each from a fresh process with its
imports. Figures are medians of the ratios within a repeat; absolute seconds are only a reminder.

    python tests/bench/notebooks.py [--repeats 5]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    print(f"{'five notebooks':<22} {'papermill':>9} {'ours, s':>9} {'parallel':>9} ratios (goal)")
    for name, cells in CELLS.items():
        seconds: list[tuple[float, float, float]] = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                write_notebooks(folder, cells)
                marks = [time.perf_counter()]
                papermill(folder)
                marks.append(time.perf_counter())
                ours(folder, 1)
                marks.append(time.perf_counter())
                ours(folder, 2)
                marks.append(time.perf_counter())
            seconds.append((marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2]))
        peer, one, two = (statistics.median(column) for column in zip(*seconds, strict=True))
        sequence = statistics.median(peer / one for peer, one, _ in seconds)
        parallel = statistics.median(peer / two for peer, _, two in seconds)
        print(
            f"{name:<22} {peer:9.2f} {one:9.2f} {two:9.2f} "
            f"x{sequence:.2f} (1.4) in sequence, x{parallel:.2f} (2.2) side by side"
        )


if __name__ == "__main__":
    main()
