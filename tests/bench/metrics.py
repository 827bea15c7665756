"""The metric engine against its peers: dicts, frames, TREC files, cold processes, growth, memory.

    python tests/bench/metrics.py                      # half an hour
    python tests/bench/metrics.py --full               # the sizes of issue 3: hours
    python tests/bench/metrics.py --parts dicts,ties --shapes H --rounds 9 --seed 3
    TREC_EVAL=/path/to/trec_eval python tests/bench/metrics.py --parts files

Every table is preceded by the largest difference from pytrec_eval's values on the same data.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)  # where a machine sets them, they slow numpy down
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

import harness  # noqa: E402
import peers  # noqa: E402
import workloads  # noqa: E402

PARTS = ("dicts", "ties", "shuffled", "frames", "files", "cold", "cutoffs", "growth", "memory")
OURS = "ours"
DICT_GOALS = {"pytrec_eval": 2.3, "BEIR": 3.3, "ranx": 9.0, "ir_measures": 6.0}
FRAME_GOALS = {"frame to dict to pytrec_eval": 5.0, "ranx": 12.0, "ir_measures": 25.0}
FILE_GOALS = {"pytrec_eval": 3.5, "ranx": 7.0, "ir_measures": 9.0}
HIGHEST_DIFFERENCE = 1e-12
MOST_MEMORY_GB = 2.5
OUTPUTS = Path(os.environ.get("EVALKIT_OUTPUTS", Path(__file__).parents[2] / "outputs")) / "bench"


def dicts(name, shape, options):
    """Dicts, end to end."""
    qrels, run = workloads.dicts(workloads.make(shape, options.seed))
    checked(run, qrels, run, qrels)
    calls = {
        OURS: partial(peers.ours, run, qrels),
        "ours, as returned": partial(peers.ours, run, qrels, peers.AS_RETURNED),
        "pytrec_eval": partial(peers.pytrec, run, qrels),
    }
    goals = {"pytrec_eval": 1.5} if shape.tied else dict(DICT_GOALS)
    if name == "M" and not shape.tied and shape.order == "sorted":
        goals["pytrec_eval"] = 15.0
    if not shape.tied and shape.order == "sorted":
        calls |= {
            "pytrec_eval, all": partial(peers.pytrec_all, run, qrels),
            "BEIR": partial(peers.beir, run, qrels),
            "ranx": partial(peers.ranx, run, qrels),
            "ir_measures": partial(peers.ir_measures, run, qrels),
        }
    return harness.show(titled("dicts", name, shape), timed(calls, options), OURS, goals)


def ties(name, shape, options):
    """Dicts with about 40 different scores a query."""
    return dicts(name, workloads.variant(shape, tied=True), options)


def shuffled(name, shape, options):
    """Dicts whose rankings stand in any order."""
    return dicts(name, workloads.variant(shape, shuffled=True), options)


def frames(name, shape, options):
    """pandas frames."""
    from evalkit.metrics.columns import Qrels

    work = workloads.make(shape, options.seed)
    qrels, run = workloads.frames(work)
    if shape.queries * shape.depth <= 1_000_000:
        judged, returned = workloads.dicts(work)
        checked(returned, judged, run, qrels)
        del judged, returned
    calls = {
        OURS: partial(peers.ours, run, qrels),
        "ours, judgments prepared": partial(peers.ours, run, Qrels.of(qrels)),
        "frame to dict to pytrec_eval": partial(peers.pytrec_frames, run, qrels),
        "ranx": partial(peers.ranx_frames, run, qrels),
        "ir_measures": partial(peers.ir_measures_frames, run, qrels),
    }
    return harness.show(titled("frames", name, shape), timed(calls, options), OURS, FRAME_GOALS)


def files(name, shape, options):
    """TREC files, parsing included."""
    from evalkit.datasets import trec

    work = workloads.make(shape, options.seed)
    goals = dict(FILE_GOALS)
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        qrels, run = workloads.write(work, Path(scratch))
        judged, returned = trec.read_qrels_columns(qrels), trec.read_run_columns(run)
        if shape.queries * shape.depth <= 1_000_000:
            judgments, rankings = workloads.dicts(work)
            checked(rankings, judgments, returned, judged)
            del judgments, rankings
        del judged, returned, work
        calls = {
            OURS: lambda: peers.ours(trec.read_run_columns(run), trec.read_qrels_columns(qrels)),
            "our parsing alone": lambda: trec.read_run_columns(run),
            "pytrec_eval": partial(peers.pytrec_files, run, qrels),
            "ranx": partial(peers.ranx_files, run, qrels),
            "ir_measures": partial(peers.ir_measures_files, run, qrels),
        }
        if os.environ.get("TREC_EVAL"):
            calls["trec_eval"] = partial(peers.trec_eval, run, qrels)
            goals["trec_eval"] = 20.0 if name == "L" else 3.0 if name != "S" else 1.5
        else:
            print("\ntrec_eval is absent: give the path of its program as TREC_EVAL")
        return harness.show(titled("files", name, shape), timed(calls, options), OURS, goals)


COLD = {
    OURS: """
def read(path, column, kind):
    rows = {}
    for line in open(path):
        fields = line.split()
        rows.setdefault(fields[0], {})[fields[2]] = kind(fields[column])
    return rows
from evalkit.metrics import evaluate
names = [f"{m}@{k}" for m in ("P", "R", "AP", "nDCG", "MRR") for k in (1, 3, 5, 10, 20, 100)]
evaluate(read(run, 4, float), read(qrels, 3, int), names).means()
""",
    "ours, Arrow reader": """
from evalkit.datasets import trec
from evalkit.metrics import evaluate
from pathlib import Path
names = [f"{m}@{k}" for m in ("P", "R", "AP", "nDCG", "MRR") for k in (1, 3, 5, 10, 20, 100)]
tables = trec.read_run_columns(Path(run)), trec.read_qrels_columns(Path(qrels))
evaluate(*tables, names).means()
""",
    "pytrec_eval": "import peers; peers.pytrec_plain(run, qrels)",
    "BEIR": "import peers; peers.beir(*peers.parsed(run, qrels))",
    "ir_measures": "import peers; peers.ir_measures_files(run, qrels)",
    "ranx": "import peers; peers.ranx_files(run, qrels)",
    "import numpy": "import numpy",
}
"""What a fresh interpreter is given to do; `run` and `qrels` are paths."""


def cold(name, shape, options):
    """Fresh processes on files: interpreter, imports, parsing, evaluation; bytecode compiled."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        qrels, run = workloads.write(workloads.make(shape, options.seed), Path(scratch))
        paths = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)])
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONPYCACHEPREFIX": scratch}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def start(code):
            script = f"run, qrels = {str(run)!r}, {str(qrels)!r}\n{code}"
            command = [sys.executable, "-c", script]
            subprocess.run(command, env=environment, check=True, capture_output=True)

        calls = {what: partial(start, code) for what, code in COLD.items()}
        return harness.show(
            titled("cold process", name, shape),
            timed(calls, options),
            OURS,
            {"pytrec_eval": 1.0, "ir_measures": 1.4, "ranx": 25.0},
        )


def cutoffs(name, shape, options):
    """A hundred cutoffs beside six, for dicts and frames."""
    work = workloads.make(shape, options.seed)
    met = True
    for form, data in (("dicts", workloads.dicts(work)), ("frames", workloads.frames(work))):
        qrels, run = data
        many = [f"{m}@{k}" for m in peers.MEASURES for k in range(1, 101)]
        calls = {
            "six cutoffs": partial(peers.ours, run, qrels),
            "a hundred cutoffs": partial(peers.ours, run, qrels, names=many),
        }
        times = timed(calls, options)
        title = titled(f"{form}: 8 measures at 100 cutoffs and at 6", name, shape)
        harness.show(title, times, "six cutoffs", {})
        dearer = harness.ratios(times, "six cutoffs")["a hundred cutoffs"].cpu - 1
        met &= dearer <= 0.6
        print(f"  {dearer:+.0%}; goal at most +60% {'met' if dearer <= 0.6 else 'MISSED'}")
    return met


GROWTH = {
    "queries": ("queries", (100, 300, 1_000, 3_000, 10_000)),
    "depth": ("depth", (10, 30, 100, 300, 1_000)),
    "judgments": ("judged", (2, 6, 20, 60)),
    "cutoffs": (None, (1, 6, 20, 100)),
}


def growth(name, shape, options):
    """CPU time against queries, depth, judgments and cutoffs, drawn."""
    from dataclasses import replace

    import matplotlib.pyplot as plt

    base = replace(shape, queries=1_000, depth=100, judged=20, highest=3, corpus=2_000_000)
    figure, axes = plt.subplots(1, len(GROWTH), figsize=(16, 4), sharey=True)
    for ax, (what, (field, sizes)) in zip(axes, GROWTH.items(), strict=True):
        lines: dict[str, list[float]] = {"dicts": [], "frames": [], "pytrec_eval, dicts": []}
        for size in sizes:
            work = workloads.make(replace(base, **({field: size} if field else {})), options.seed)
            names = peers.NAMES
            if field is None:
                names = [f"{m}@{k}" for m in peers.MEASURES for k in range(1, size + 1)]
            (qrels, run), (judged, rows) = workloads.dicts(work), workloads.frames(work)
            calls = {
                "dicts": partial(peers.ours, run, qrels, names=names),
                "frames": partial(peers.ours, rows, judged, names=names),
                "pytrec_eval, dicts": partial(
                    peers.pytrec, run, qrels, range(1, size + 1) if field is None else None
                ),
            }
            for line, time in harness.interleaved(calls, options.rounds or 5).items():
                lines[line].append(1e3 * min(time.cpu.values()))
        print(f"\ngrowth with {what} {sizes}, CPU ms")
        for line, points in lines.items():
            print(f"  {line:20s}", " ".join(f"{point:8.1f}" for point in points), flush=True)
            ax.loglog(sizes, points, marker="o", label=line)
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.minorticks_off()
        ax.set(xlabel=what, title=f"growth with {what}")
        ax.grid(alpha=0.2)
    axes[0].set_ylabel("CPU milliseconds (best of rounds)")
    axes[0].legend(frameon=False)
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(OUTPUTS / "metrics-growth.png", dpi=120)
    print(f"  drawn in {OUTPUTS / 'metrics-growth.png'}")
    return True


MEMORY = """
import resource
from pathlib import Path
from evalkit.datasets import trec
import peers
peers.ours(trec.read_run_columns(Path(run)), trec.read_qrels_columns(Path(qrels)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def memory(name, shape, options):
    """The most memory a process holds that parses and evaluates ten million rows."""
    shape = workloads.SHAPES["L"]
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        qrels, run = workloads.write(workloads.make(shape, options.seed), Path(scratch))
        paths = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parent)])
        script = f"run, qrels = {str(run)!r}, {str(qrels)!r}\n{MEMORY}"
        printed = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": paths},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    most = float(printed)
    verdict = "met" if most <= MOST_MEMORY_GB else "MISSED"
    print(
        f"\nmemory at 10 million rows, from files: {most:.2f} GB; goal {MOST_MEMORY_GB} {verdict}"
    )
    return most <= MOST_MEMORY_GB


def checked(run_dict, qrels_dict, run, qrels):
    """Stop unless every value is pytrec_eval's."""
    difference = peers.disagreement(run_dict, qrels_dict, run, qrels)
    print(f"\nlargest difference from pytrec_eval: {difference:.1e}", end="")
    if not difference <= HIGHEST_DIFFERENCE:
        raise SystemExit("values differ: no time of a wrong answer is worth having")


def timed(calls, options):
    """The calls that are asked for, timed; more rounds where they are short."""
    if options.peers is not None:
        kept = {"pytrec_eval", OURS, "six cutoffs", "a hundred cutoffs", *options.peers.split(",")}
        calls = {name: call for name, call in calls.items() if name in kept or "our" in name}
    return harness.interleaved(calls, options.rounds or 5)


def titled(what, name, shape):
    """One line that says what was measured."""
    size = f"{shape.queries:,} x {shape.depth:,}, {shape.judged:g} judged a query"
    extra = f"{', tied' * shape.tied}{', shuffled' * (shape.order == 'shuffled')}"
    return f"{what}: {name} ({size}{extra})"


def main():
    """Run the parts asked for; exit 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--shapes", default="")
    parser.add_argument("--full", action="store_true", help="also M and L, ten times larger")
    parser.add_argument("--rounds", type=int, help="rounds of every table; 5 unless given")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--peers", help="only these peers, of those that a table has")
    parser.add_argument("--scratch", help="folder for files; the system's unless given")
    options = parser.parse_args()
    usual = ["S", "H", "UUID", *(["M", "L"] if options.full else ["M/10", "L/10"])]
    shapes = options.shapes.split(",") if options.shapes else usual
    once = {"cold": "S", "cutoffs": "L/10", "growth": "L/10", "memory": "L"}
    met = True
    for part in options.parts.split(","):
        if part == "memory" and not options.full and options.parts != "memory":
            print("\nmemory at 10 million rows is measured with --full or --parts memory")
            continue
        for name in [once[part]] if part in once else shapes:
            met &= globals()[part](name, workloads.SHAPES[name], options)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
