"""A million scored questions, every rate at every distinct threshold, against scikit-learn.

Ours gives five outcome counts and three rates with their thresholds; scikit-learn needs its ROC,
DET and precision-recall curves for less. All are interleaved in one process; a figure is the
median of the ratios within a repeat, wall and CPU, and seconds are only a reminder.

    python tests/bench/sweep.py [--questions 1000000] [--repeats 7]

numpy sorts with AVX-512 or AVX2 where the processor has them, four to twelve times faster than
without, while no sort that remembers where a score came from gains as much. So one plain sort
is a fair floor only without them, and the goal against it is printed for that case:

    NPY_DISABLE_CPU_FEATURES="X86_V4 X86_V3 AVX512_ICL AVX512_SPR" python tests/bench/sweep.py
"""

import argparse
import gc
import statistics
import time

import numpy as np
from sklearn.metrics import det_curve, precision_recall_curve, roc_curve

from evalkit.metrics import acceptance, scored

GOALS = {  # ratio of the peer's time to ours, at least
    "three curves": {"float64": 4.5, "float32": 4.5},
    "dearest curve": {"float64": 1.35, "float32": 2.0},
    "np.sort": {"float64": 1 / 2.3},
}


def peers(answerable, score):
    """What is measured: name -> call."""
    evidence = answerable & (np.random.default_rng(1).random(score.size) < 0.9)
    curves = {
        "roc_curve": lambda: roc_curve(answerable, score, drop_intermediate=False),
        "det_curve": lambda: det_curve(answerable, score),
        "precision_recall_curve": lambda: precision_recall_curve(answerable, score),
    }
    return curves | {
        "ours": lambda: acceptance.sweep(scored.from_arrays("x", score, answerable, evidence)),
        "np.sort": lambda: np.sort(score),
    }


def interleaved(calls, repeats):
    """(wall, cpu) seconds of each call in each repeat; the first round only warms up."""
    times = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            result = call()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            del result
            if turn:
                times[name].append((wall, cpu))
    return times


def same_numbers(answerable, score):
    """Ours and scikit-learn's rates, at every threshold; a difference ends the benchmark."""
    frame = acceptance.sweep(scored.from_arrays("x", score, answerable)).frame.iloc[::-1]
    fpr, tpr, _ = roc_curve(answerable, score, drop_intermediate=False)
    precision, _, _ = precision_recall_curve(answerable, score)
    assert np.allclose(frame["false_acceptance"], fpr)
    assert np.allclose(1 - frame["false_abstention"], tpr)
    assert np.allclose(frame["evidence_among_accepted"].iloc[1:], precision[:-1][::-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--questions", type=int, default=1_000_000)
    arguments.add_argument("--repeats", type=int, default=7)
    options = arguments.parse_args()
    rng = np.random.default_rng(0)
    answerable = rng.random(options.questions) < 0.3
    wide = rng.normal(0, 1, options.questions) + answerable
    for score in (wide, wide.astype(np.float32)):
        same_numbers(answerable, score)
        times = interleaved(peers(answerable, score), options.repeats)
        report(times, score)


def report(times, score):
    curves = [name for name in times if name.endswith("_curve")]
    rows = {
        "three curves": [times[name] for name in curves],
        "dearest curve": [max((times[name] for name in curves), key=statistics.median)],
        "cheapest curve": [min((times[name] for name in curves), key=statistics.median)],
        "np.sort": [times["np.sort"]],
    }
    ours = statistics.median(wall for wall, _ in times["ours"])
    print(f"{score.size:,} questions, {score.dtype}: ours {ours * 1e3:.0f} ms")
    for name, parts in rows.items():
        ratios = [
            [sum(part[turn][kind] for part in parts) / own[kind] for kind in (0, 1)]
            for turn, own in enumerate(times["ours"])
        ]
        wall, cpu = (statistics.median(ratio[kind] for ratio in ratios) for kind in (0, 1))
        goal = GOALS.get(name, {}).get(str(score.dtype))
        verdict = "" if goal is None else f"  goal {goal:.2f}: {'met' if cpu >= goal else 'MISSED'}"
        print(f"  {name:15} takes {wall:6.2f}x our wall, {cpu:6.2f}x our cpu time{verdict}")


if __name__ == "__main__":
    main()
