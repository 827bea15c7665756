"""A million scored questions, every rate at every distinct threshold, against scikit-learn.

Ours gives thresholds, five outcome counts and three rates; scikit-learn's ROC, DET and
precision-recall curves are what it takes to get as much from there.

    python tests/bench/sweep.py [--questions 1000000] [--rounds 7] [--seed 0]

The floor is one np.sort of the scores. Where numpy sorts with AVX-512 or AVX2 that takes 8 ns a
score, and nothing that must remember where a score came from (np.argsort: 30 ns) can stay
within 2.3 of it; without them a sort takes 50 to 90 ns, and ours does. To see that case:

    NPY_DISABLE_CPU_FEATURES="X86_V4 X86_V3 AVX512_ICL AVX512_SPR" python tests/bench/sweep.py
"""

import argparse
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

import harness  # noqa: E402
import numpy as np  # noqa: E402
from sklearn.metrics import det_curve, precision_recall_curve, roc_curve  # noqa: E402

from evalkit.metrics import acceptance, scored  # noqa: E402

ONE_CURVE = {np.float64: 1.35, np.float32: 2.0}
THREE_CURVES = 4.5
SORT = 1 / 2.3


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--questions", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    rng = np.random.default_rng(options.seed)
    answerable = rng.random(options.questions) < 0.3
    evidence = answerable & (rng.random(options.questions) < 0.9)
    wide = rng.normal(0, 1, options.questions) + answerable
    met = [one(wide.astype(kind), answerable, evidence, options.rounds) for kind in ONE_CURVE]
    return 0 if all(met) else 1


def one(score, answerable, evidence, rounds):
    """One table; the same numbers are a condition of comparing times."""
    check(score, answerable)
    curves = {
        "roc_curve": lambda: roc_curve(answerable, score, drop_intermediate=False),
        "det_curve": lambda: det_curve(answerable, score),
        "precision_recall_curve": lambda: precision_recall_curve(answerable, score),
    }
    calls = {
        "ours": lambda: acceptance.sweep(scored.from_arrays("x", score, answerable, evidence)),
        "all three": lambda: [curve() for curve in curves.values()],
        **curves,
        "np.sort": lambda: np.sort(score),
        "np.argsort": lambda: np.argsort(score),
    }
    goals = {"all three": THREE_CURVES, **dict.fromkeys(curves, ONE_CURVE[score.dtype.type])}
    times = harness.interleaved(calls, rounds)
    met = harness.show(f"{score.size:,} questions, {score.dtype}", times, "ours", goals)
    sort = harness.ratios(times, "ours")["np.sort"].cpu
    print(f"  ours is {1 / sort:.1f} sorts; goal 2.3: {'met' if sort >= SORT else 'MISSED'}")
    return met


def check(score, answerable):
    """Ours and scikit-learn's rates at every threshold."""
    frame = acceptance.sweep(scored.from_arrays("x", score, answerable)).frame.iloc[::-1]
    fpr, tpr, _ = roc_curve(answerable, score, drop_intermediate=False)
    precision, _, _ = precision_recall_curve(answerable, score)
    assert np.allclose(frame["false_acceptance"], fpr)
    assert np.allclose(1 - frame["false_abstention"], tpr)
    assert np.allclose(frame["evidence_among_accepted"].iloc[1:], precision[:-1][::-1])


if __name__ == "__main__":
    sys.exit(main())
