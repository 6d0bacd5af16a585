"""The published benchmark of autoscaled consumer groups, with a generator written anew: python -m bench.autoscaling

Landau, Saurabh, Andrade and Barbosa, "Multi-Objective Optimization of Consumer Group Autoscaling in Message Broker
Systems" (JPDC 201:105071, 2025; arXiv 2402.06085). Partitions have speeds, a consumer takes 100. Speeds start anywhere
from 0 to 100 and each interval walk at random by at most delta, staying from 0 to 100. An interval's Rscore is the
speed of all partitions that changed hands, in consumers' capacities. Theirs are best fit decreasing (fewest) and
modified worst fit (their pick); both are written anew here from their description.

    --partitions N   may come again (32 and 200)
    --delta D        may come again (5, 10, 15, 20, 25)
    --intervals N    500
    --fewest-intervals N  for the columns on fewest consumers, which take ten times as long (50)
    --seed N         1
    --to FILE        replace the table's section in this page; without it the table is printed alone
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apportion.sizing.frontier import Candidate, frontier
from apportion.sizing.problem import SizingProblem

CAPACITY: Final = 100
START, END = "<!-- autoscaling -->", "<!-- end of autoscaling -->"


def speeds(partitions: int, delta: int, intervals: int, seed: int) -> Iterator[list[int]]:
    """Each interval's speeds (P,)."""
    draw = random.Random(seed)  # noqa: S311 - a workload to be made again
    now = [draw.randint(0, CAPACITY) for _ in range(partitions)]
    for _ in range(intervals):
        yield now
        now = [min(max(speed + draw.randint(-delta, delta), 0), CAPACITY) for speed in now]


Groups = dict[int, list[int]]
"""Consumer to its partitions."""


class _Bins:
    """Consumers that are being filled."""

    def __init__(self, speed: list[int], previous: Groups) -> None:
        self.speed, self.groups = speed, Groups()
        self.load: dict[int, int] = {}
        self.home = {p: c for c, held in previous.items() for p in held}

    def add(self, c: int, p: int) -> None:
        self.groups.setdefault(c, []).append(p)
        self.load[c] = self.load.get(c, 0) + self.speed[p]

    def fits(self, c: int, p: int) -> bool:
        return self.load.get(c, 0) + self.speed[p] <= CAPACITY

    def pick(self, p: int, fullest: bool) -> int | None:
        """The fullest or emptiest open consumer that the partition fits into."""
        able = [c for c in sorted(self.groups) if self.fits(c, p)]
        return (max if fullest else min)(able, key=self.load.__getitem__, default=None)

    def open(self, p: int) -> None:
        """A consumer more for the partition: the one that had it, if that is not there yet."""
        c = self.home.get(p)
        if c is None or c in self.groups:
            c = next(i for i in range(len(self.groups) + 1) if i not in self.groups)
        self.add(c, p)


def best_fit_decreasing(speed: list[int], previous: Groups) -> Groups:
    """Everything anew, the fastest first, each to the fullest consumer that it fits."""
    bins = _Bins(speed, previous)
    for p in sorted(range(len(speed)), key=lambda p: (-speed[p], p)):
        c = bins.pick(p, fullest=True)
        bins.open(p) if c is None else bins.add(c, p)
    return bins.groups


def modified_worst_fit(speed: list[int], previous: Groups) -> Groups:
    """From the busiest consumer on, its slowest partitions go to those before it; the rest stay as far as they fit."""
    bins = _Bins(speed, previous)
    homeless = [p for p in range(len(speed)) if p not in bins.home]
    for c in sorted(previous, key=lambda c: (-sum(speed[p] for p in previous[c]), c)):
        held = sorted(previous[c], key=lambda p: (-speed[p], p))
        while held and (other := bins.pick(held[-1], fullest=False)) is not None:
            bins.add(other, held.pop())
        fitting = len(held)
        for i, p in enumerate(held):
            if not bins.fits(c, p):
                fitting = i
                break
            bins.add(c, p)
        homeless += held[fitting:]
    for p in sorted(homeless, key=lambda p: (-speed[p], p)):
        other = bins.pick(p, fullest=False)
        bins.open(p) if other is None else bins.add(other, p)
    return bins.groups


@dataclass
class Score:
    """Averages over the intervals: consumers, Rscore, partitions moved; for ours the bound on Rscore, and CPU ms."""

    consumers: float = 0
    rscore: float = 0
    moves: float = 0
    bound: float = 0
    cpu_ms: float = 0
    failed: int = 0

    def add(self, speed: list[int], before: list[int], after: list[int], share: float) -> None:
        """Count an interval, at its share of all."""
        moved = [p for p in range(len(speed)) if before[p] >= 0 and before[p] != after[p]]
        self.consumers += len(set(after)) * share
        self.rscore += sum(speed[p] for p in moved) / CAPACITY * share
        self.moves += len(moved) * share


def run_theirs(rows: list[list[int]], strategy: Callable[[list[int], Groups], Groups]) -> tuple[Score, list[int]]:
    """Their strategy's averages, and how many consumers it has in each interval."""
    score, groups, owner, consumers = Score(), Groups(), [-1] * len(rows[0]), []
    for speed in rows:
        groups = strategy(speed, groups)
        after = [-1] * len(speed)
        for c, held in groups.items():
            for p in held:
                after[p] = c
        score.add(speed, owner, after, 1 / len(rows))
        owner = after
        consumers.append(len(groups))
    return score, consumers


def run_ours(rows: list[list[int]], most: list[int], swing: float, fewest: bool = False) -> Score:
    """Our averages: of each interval's frontier the plan of least moved weight, or of fewest consumers.

    most
        Consumers that may be in each interval.
    """
    score, owner = Score(), [-1] * len(rows[0])
    for i, speed in enumerate(rows):
        problem, before = _problem(speed, owner)
        started = time.process_time()
        shown = frontier(problem, 1 if fewest else most[i], most[i], swing)
        score.cpu_ms += (time.process_time() - started) * 1000 / len(rows)
        if shown.candidates:
            plan: Candidate = shown.candidates[-1 if fewest else 0]
        else:
            # The search found no plan so small: the fewest that it finds, and the interval counts as missed.
            plan = frontier(problem, 1, len(speed), swing).candidates[-1]
            score.failed += 1
        score.add(speed, before, plan.owner, 1 / len(rows))
        score.bound += plan.moved_bound / CAPACITY / len(rows)
        owner = plan.owner
    return score


def _problem(speed: list[int], owner: list[int]) -> tuple[SizingProblem, list[int]]:
    """The interval's question, consumers that are there numbered from 0; and the present owners by those numbers."""
    number = {c: i for i, c in enumerate(sorted({c for c in owner if c >= 0}))}
    before = [number.get(c, -1) for c in owner]
    return SizingProblem(speed, [CAPACITY] * len(number), CAPACITY, before), before


def cell(partitions: int, delta: int, intervals: int, seed: int, fewest_intervals: int) -> str:
    """One row of the table; BFD and the plans of fewest consumers over the first intervals alone."""
    rows = list(speeds(partitions, delta, intervals, seed))
    worst, consumers = run_theirs(rows, modified_worst_fit)
    few = rows[:fewest_intervals]
    best, least_consumers = run_theirs(few, best_fit_decreasing)
    # A uniform step of at most delta has a standard deviation of delta / sqrt(3): this is what a history would show.
    swing = delta / math.sqrt(3) / CAPACITY
    ours, fewest = run_ours(rows, consumers, swing), run_ours(few, least_consumers, swing, fewest=True)
    least = sum(math.ceil(sum(speed) / CAPACITY) for speed in rows) / len(rows)
    return (
        f"| {partitions} | {delta} | {least:.1f} | {worst.consumers:.1f} / {worst.rscore:.2f} / {worst.moves:.1f} "
        f"| {ours.consumers:.1f} / {ours.rscore:.2f} / {ours.moves:.1f} | {ours.bound:.2f} "
        f"| **{ours.rscore / worst.rscore:.2f}** | {best.consumers:.1f} / {best.rscore:.2f} "
        f"| {fewest.consumers:.1f} / {fewest.rscore:.2f} | {fewest.rscore / best.rscore:.2f} "
        f"| {ours.cpu_ms:.0f} | {ours.failed} |"
    )


HEAD: Final = """## Autoscaled consumer groups

The benchmark of Landau et al. (JPDC 201:105071, 2025; arXiv 2402.06085), its generator written anew: `python -m
bench.autoscaling`. Partitions' speeds walk at random by at most delta, a consumer takes 100; averages of {intervals}
intervals, seed {seed}. A cell is consumers / Rscore / moves; Rscore is the speed that changed hands in an interval, in
consumers' capacities. MWF is their modified worst fit, which they advise, BFD best fit decreasing. Ours is, of each
interval's frontier, the plan of least moved weight with no more consumers than MWF has in that interval; its bound is
what every plan from the same present with so many consumers moves. Fewest is the frontier's other end, with no more
consumers than BFD, both over the first {fewest_intervals} intervals. CPU is for the plan of least moved weight; missed
are intervals in which no plan so small was found.

| partitions | delta | work | MWF | ours | bound | share of MWF's | BFD | fewest | share of BFD's | CPU ms | missed |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def section_in(page: Path) -> str:
    """The section that stands in a page, with an empty line before it; "" where there is none."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    start, end = text.find(START), text.find(END)
    return f"\n{text[start : end + len(END)]}\n" if 0 <= start < end else ""


def main() -> None:
    """Measure every cell, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--partitions", type=int, action="append", default=[])
    parser.add_argument("--delta", type=int, action="append", default=[])
    parser.add_argument("--intervals", type=int, default=500)
    parser.add_argument("--fewest-intervals", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path)
    args = parser.parse_args()
    rows = []
    for partitions in args.partitions or (32, 200):
        for delta in args.delta or (5, 10, 15, 20, 25):
            rows.append(cell(partitions, delta, args.intervals, args.seed, args.fewest_intervals))
            print(rows[-1], flush=True)
    if args.to:
        section = (
            START
            + "\n"
            + HEAD.format(intervals=args.intervals, seed=args.seed, fewest_intervals=args.fewest_intervals)
            + "\n".join(rows)
            + "\n"
            + END
        )
        page = args.to.read_text(encoding="utf-8")
        before, _, rest = page.partition(START)
        after = rest.partition(END)[2] if rest else "\n"
        args.to.write_text(before.rstrip("\n") + "\n\n" + section + after, encoding="utf-8")


if __name__ == "__main__":
    main()
