"""Times that mean something on a busy machine: interleaved calls, and ratios within a round.

Every call runs once in every round, so that whatever slows the machine slows all of them. A
figure is the median over rounds of (their time / our time), for wall time and for CPU time,
which includes child processes; seconds are shown only as a reminder.
"""

import gc
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SLOW_S = 15.0  # a call that takes longer is measured once, beside ours of the same round


@dataclass(frozen=True, slots=True)
class Times:
    """Wall and CPU seconds of one call, by round."""

    wall: Mapping[int, float]
    cpu: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times longer than ours: medians over rounds, and the range of the wall ratio."""

    wall: float
    cpu: float
    lowest: float
    highest: float
    rounds: int


def interleaved(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Times]:
    """Time every call in every round; round 0 only warms up (imports, JIT compilers, caches)."""
    wall: dict[str, dict[int, float]] = {name: {} for name in calls}
    cpu: dict[str, dict[int, float]] = {name: {} for name in calls}
    slow: set[str] = set()
    for turn in range(rounds + 1):
        for name, call in calls.items():
            if name in slow:
                continue
            gc.collect()
            before, started = _cpu(), time.perf_counter()
            result = call()
            wall[name][turn] = time.perf_counter() - started
            cpu[name][turn] = _cpu() - before
            del result
            if turn and wall[name][turn] > SLOW_S:
                slow.add(name)
    for name in calls:
        del wall[name][0], cpu[name][0]
    return {name: Times(wall[name], cpu[name]) for name in calls}


def ratios(times: Mapping[str, Times], ours: str) -> dict[str, Ratio]:
    """Each call's time over ours of the same round; a round without ours takes our median."""
    mine = times[ours]
    usual_wall = statistics.median(mine.wall.values())
    usual_cpu = statistics.median(mine.cpu.values())
    found = {}
    for name, theirs in times.items():
        walls = [t / mine.wall.get(turn, usual_wall) for turn, t in theirs.wall.items()]
        cpus = [t / max(mine.cpu.get(turn, usual_cpu), 1e-6) for turn, t in theirs.cpu.items()]
        found[name] = Ratio(
            statistics.median(walls), statistics.median(cpus), min(walls), max(walls), len(walls)
        )
    return found


def show(title: str, times: Mapping[str, Times], ours: str, goals: Mapping[str, float]) -> bool:
    """Print one table; false if a goal is met by neither the wall nor the CPU ratio."""
    print(f"\n{title}")
    print(f"  {'':32s} {'wall ms':>10s} {'cpu ms':>10s} {'x wall':>8s} {'x cpu':>8s}   range  goal")
    met = True
    for name, ratio in ratios(times, ours).items():
        milliseconds = [
            1e3 * statistics.median(t.values()) for t in (times[name].wall, times[name].cpu)
        ]
        goal = goals.get(name)
        verdict = ""
        if goal is not None:
            reached = max(ratio.wall, ratio.cpu) >= goal
            met &= reached
            verdict = f"{goal:g} {'met' if reached else 'MISSED'}"
        print(
            f"  {name:32s} {milliseconds[0]:10.2f} {milliseconds[1]:10.2f} {ratio.wall:8.2f} "
            f"{ratio.cpu:8.2f}   {ratio.lowest:.2f}-{ratio.highest:.2f} (n={ratio.rounds})  "
            f"{verdict}",
            flush=True,
        )
    return met


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
