"""Paired statistics against their peers: sign flips and BCa intervals of six metrics.

Values as two retrievers give them on an MS MARCO-sized set of 6,980 questions, each with a little
noise added: where questions do not move, ours leaves them out, so that noise is our worst case.
scipy tests one metric a call, ranx one metric a call on all cores. At 100,000 flips they take half
a minute each; by default all are measured at `--flips` 5,000, and ours again at 100,000.

    python tests/bench/stats.py [--rounds 5] [--flips 5000] [--full]

`--full` measures all of them at 100,000 flips, once.
"""

import argparse
import os
import sys
from pathlib import Path

for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)  # where a machine sets them, they slow numpy down
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

import harness  # noqa: E402
import numpy as np  # noqa: E402
from ranx.statistical_tests.fisher_randomization_test import (  # noqa: E402
    fisher_randomization_test,
)
from scipy import stats  # noqa: E402

from evalkit.metrics import paired, uncertainty  # noqa: E402

OURS = "ours, six metrics"
ONE = "ours, one metric"
FLIPS = 100_000
RESAMPLES = 10_000
MOST_SECONDS = 1.0  # CPU, six metrics, 100,000 flips
FLIP_GOALS = {"scipy, one metric": 100.0, "ranx, one metric": 60.0}
BCA_GOALS = {"scipy, six metrics": 8.0}
FEW_GOALS = {"scipy, six metrics": 3.0}  # 225 questions


def values(questions, seed):
    """Six metrics of two retrievers whose first relevant passage moved; no difference is zero."""
    rng = np.random.default_rng(seed)
    depth = rng.beta(0.35, 2.2, questions)
    moved = np.clip(depth * rng.lognormal(0, 0.9, questions), 0, 0.9999)
    sides = []
    for where in (depth, moved):
        rank = np.minimum((1000 * where).astype(int), 999)
        found = {k: rank < k for k in (10, 100)}
        sides.append(
            np.column_stack(
                [
                    np.where(found[10], 1 / (rank + 1), 0),
                    np.where(found[10], 1 / np.log2(rank + 2), 0),
                    np.where(found[100], 1 / (rank + 1), 0),
                    found[100] * 1.0,
                    found[10] / 10,
                    np.where(found[10], 2 / 11, 0),
                ]
            )
        )
    noise = rng.normal(0, 1e-4, sides[0].shape)
    return sides[0], sides[1] + noise


def sign_flips(old, new, flips, rounds):
    """One metric against scipy and ranx, and six metrics in one call."""
    change = new - old
    one = [np.ascontiguousarray(side[:, 0]) for side in (new, old)]

    def scipy_test():
        return stats.permutation_test(
            one,
            lambda a, b, axis: (a - b).mean(axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=flips,
            batch=500,  # without it scipy asks for all sign vectors at once
            rng=1,
        )

    fisher_randomization_test(*one, n_permutations=2, max_p=0.05, random_seed=1)  # compiles
    calls = {
        ONE: lambda: paired.sign_flip(change[:, 0], resamples=flips),
        "scipy, one metric": scipy_test,
        "ranx, one metric": lambda: fisher_randomization_test(
            *one, n_permutations=flips, max_p=0.05, random_seed=1
        ),
    }
    times = harness.interleaved(calls, rounds)
    title = f"{flips:,} sign flips, {len(change):,} questions, one metric"
    return harness.show(title, times, ONE, FLIP_GOALS)


def six_metrics(old, new, rounds):
    """Six metrics at 100,000 flips within a second of CPU time."""
    change = new - old
    calls = {
        OURS: lambda: paired.sign_flip(change, resamples=FLIPS),
        ONE: lambda: paired.sign_flip(change[:, 0], resamples=FLIPS),
    }
    times = harness.interleaved(calls, rounds)
    harness.show(f"{FLIPS:,} sign flips, {len(change):,} questions", times, OURS, {})
    seconds = min(times[OURS].cpu.values())
    print(f"  fastest round: {seconds:.2f} s of CPU time; goal: under {MOST_SECONDS:g} s")
    return seconds < MOST_SECONDS


def intervals(old, new, rounds, goals):
    """BCa intervals of six means from shared resamples, against six calls of scipy."""
    change = new - old

    def scipy_intervals():
        return [
            stats.bootstrap(
                (column,), np.mean, n_resamples=RESAMPLES, batch=500, method="BCa", rng=1
            ).confidence_interval
            for column in change.T
        ]

    def ours():
        return uncertainty.mean_intervals(
            change, np.random.default_rng(1), level=0.95, resamples=RESAMPLES
        )

    low, high = ours()
    theirs = np.array(scipy_intervals()).T
    width = theirs[1] - theirs[0]
    apart = max(np.abs(low - theirs[0]).max(), np.abs(high - theirs[1]).max()) / width.max()
    print(f"\nlargest difference from scipy's ends: {apart:.1%} of the widest interval")
    times = harness.interleaved({OURS: ours, "scipy, six metrics": scipy_intervals}, rounds)
    title = f"BCa, {RESAMPLES:,} resamples, {len(change):,} questions, six metrics"
    return harness.show(title, times, OURS, goals)


def main():
    """Print the tables; exit 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=6_980)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flips", type=int, default=5_000, help="of the peers")
    parser.add_argument("--full", action="store_true", help="the peers at 100,000, once")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    old, new = values(options.questions, options.seed)
    flips, rounds = (FLIPS, 1) if options.full else (options.flips, options.rounds)
    met = [
        sign_flips(old, new, flips, rounds),
        six_metrics(old, new, options.rounds),
        intervals(old, new, options.rounds, BCA_GOALS),
        intervals(old[:225], new[:225], options.rounds, FEW_GOALS),
    ]
    sys.exit(not all(met))


if __name__ == "__main__":
    main()
