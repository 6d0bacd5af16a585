"""Hours of lag, simulated with the real strategy and the real rule: python -m bench.acting

The traces stand in ``TRACES``, in steps of one second. Each is run never acting, by the rule, and by a rule that
pays for its acts (``bench.paying``). Told are acts an hour (a cooperative one is two rebalances), how long a message
waits on average, the age of the oldest unread message, the heaviest member's lag, Slicer's measure (greatest member
over the mean, of what each has to read), and the work lost to hand-overs: seconds that partitions stood still, and
messages read twice. What is assumed stands in ``World``.

    --hours N        hours of each trace (6)
    --seed N         of the noise (1)
    --only NAME      one trace; may be given more than once
    --acting TEXT    the rule's numbers (gain=0.2,hold=10,rest=60,horizon=60)
    --assignor A     the strategy (cooperative-lag-aware with counts free), with --set K=V
    --picture FILE   draw the heaviest lag over time, as SVG
    --to FILE        replace the table in this page; without it it is printed alone
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from apportion.acting.loop import Loop, Planned
from apportion.acting.rule import Acting
from apportion.acting.speeds import Sample
from apportion.arrays import Bools, Floats, Ints, Longs
from apportion.assignors import Assignor, find
from apportion.model.build import build
from apportion.model.group import Group
from apportion.planning import checked
from apportion.strategy.traits import traits_of

LOOK_S: Final = 10
"""Seconds between two looks, as a ``LagFeed`` has them."""


@dataclass(frozen=True)
class World:
    """What is assumed.

    partitions, members
        How many; every member may own every partition.
    speed
        Messages a second of each member.
    load
        Part of what all members can read together that comes in.
    noise
        Standard deviation of the logarithm of what comes in, of each partition by itself over a minute.
    commit_s
        Seconds between two commits of each member, in turn.
    pause_s
        Seconds that a partition stands still while it changes hands, and an eager group at each rebalance.
    again_s
        Seconds of a partition's messages that its new owner reads again.
    """

    partitions: int = 40
    members: int = 8
    speed: float = 1_000.0
    load: float = 0.625
    noise: float = 0.2
    commit_s: tuple[int, ...] = (1,)
    pause_s: int = 3
    again_s: float = 2.5


class Trace:
    """How a world goes on: what comes in, how fast members are, and what nobody can read, second by second."""

    world = World()

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self._noise = np.zeros(self.world.partitions)

    def rate(self, second: int) -> Floats:
        """(P,) messages a second that come in."""
        world = self.world
        keeps = np.exp(-1 / 60)
        self._noise = keeps * self._noise + np.sqrt(1 - keeps**2) * self.rng.standard_normal(world.partitions)
        noise = np.exp(world.noise * self._noise - world.noise**2 / 2)
        return self.shares(second) * self.total(second) * noise

    def total(self, second: int) -> float:
        """Messages a second of all partitions, but for noise."""
        return self.world.load * self.world.members * self.world.speed

    def shares(self, second: int) -> Floats:
        """(P,) the part of each partition, 1 in all."""
        return np.full(self.world.partitions, 1 / self.world.partitions)

    def speeds(self, second: int) -> Floats:
        """(M,) messages a second that members can read."""
        return np.full(self.world.members, self.world.speed)

    def unreadable(self, second: int) -> Bools:
        """(P,) partitions that nobody gets on with."""
        return np.zeros(self.world.partitions, dtype=np.bool_)


class Even(Trace):
    """All partitions get the same, but for noise."""

    world = World(load=0.7)


class RareCommits(Trace):
    """As even; one member commits each minute."""

    world = World(load=0.6, commit_s=(1, 60, 1, 1, 1, 1, 1, 1))


class Wandering(Trace):
    """An eighth of all comes to one partition, another one each half hour."""

    every_s = 1800

    def shares(self, second: int) -> Floats:
        """One is hot."""
        shares = np.full(self.world.partitions, (1 - 1 / 8) / (self.world.partitions - 1))
        shares[second // self.every_s * 7 % self.world.partitions] = 1 / 8
        return shares


class WanderingFast(Wandering):
    """The same each three minutes."""

    every_s = 180


class Unequal(Trace):
    """Partition k gets as much as 1 / k^0.8 of the busiest, as keys often fall."""

    world = World(load=0.8)

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        shares = 1 / np.arange(1, self.world.partitions + 1) ** 0.8
        self.rng.shuffle(shares)
        shares = np.minimum(shares / shares.sum(), 0.11)
        self._shares = shares / shares.sum()

    def shares(self, second: int) -> Floats:
        """The same all the time."""
        return self._shares


class DayAndNight(Unequal):
    """The same, and the sum goes up and down by two fifths within twelve hours."""

    world = World(load=0.65)

    def total(self, second: int) -> float:
        """A wave."""
        return super().total(second) * (1 + 0.4 * float(np.sin(2 * np.pi * second / 43_200)))


class Drift(Trace):
    """Shares walk at random, a step each minute."""

    world = World(load=0.85)

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._walk = np.zeros(self.world.partitions)

    def shares(self, second: int) -> Floats:
        """Where the walk is."""
        if second % 60 == 0:
            self._walk = 0.99 * self._walk + 0.07 * self.rng.standard_normal(self.world.partitions)
        shares = np.exp(self._walk)
        return shares / shares.sum()


class Slow(Trace):
    """One member is half as fast as the others."""

    world = World(load=0.75)

    def speeds(self, second: int) -> Floats:
        """The first."""
        speeds = super().speeds(second)
        speeds[0] /= 2
        return speeds


class Stall(Trace):
    """One member reads nothing for ten minutes after the first hour."""

    world = World(load=0.8)

    def speeds(self, second: int) -> Floats:
        """The first."""
        speeds = super().speeds(second)
        speeds[0] *= not 3600 <= second < 4200
        return speeds


class Bursts(Trace):
    """Now and then a partition gets twenty times as much for a minute."""

    world = World(load=0.6)

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._next, self._until, self._hot = 300, 0, 0

    def shares(self, second: int) -> Floats:
        """A burst each ten minutes or so."""
        shares = super().shares(second)
        if second >= self._next:
            self._until, self._hot = second + 60, int(self.rng.integers(self.world.partitions))
            self._next = second + 60 + int(self.rng.exponential(600))
        if second < self._until:
            shares[self._hot] *= 20
        return shares


class Unreadable(Trace):
    """From the half hour on nobody gets on with one partition."""

    world = World(load=0.6)

    def unreadable(self, second: int) -> Bools:
        """The sixth."""
        unreadable = super().unreadable(second)
        unreadable[5] = second >= 1800
        return unreadable


TRACES: Final[Mapping[str, type[Trace]]] = {
    "even": Even,
    "a member that commits each minute": RareCommits,
    "a hot key that wanders": Wandering,
    "a hot key that wanders fast": WanderingFast,
    "unequal partitions": Unequal,
    "day and night": DayAndNight,
    "drifting shares": Drift,
    "a member half as fast": Slow,
    "a member that stalls": Stall,
    "bursts": Bursts,
    "a partition that nobody can read": Unreadable,
}
NEVER, RULE, PAYING = "never", "by the rule", "paying"


class Looks(Protocol):
    """A leader's loop: the product's, or another to compare."""

    def generation(self, at_s: float, group: Group, owner: Ints) -> None:
        """A rebalance ended."""

    def look(self, sample: Sample, lag: Longs, known: Bools) -> Planned:
        """Whether to act."""
        ...


@dataclass
class Course:
    """One trace under one way to act: what it came to, and the state that it walks through.

    log
        (seconds + 1, P) the logs' ends at each second.
    first_unread_s
        (P,) since when the first unread message is there.
    """

    world: World
    group: Group
    owner: Ints
    log: Floats
    end: Floats
    read: Floats
    shown: Floats
    still_until: Floats
    first_unread_s: Ints
    heaviest: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    unread: list[float] = field(default_factory=list)
    uneven: list[float] = field(default_factory=list)
    acts: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    still_s: int = 0
    again: float = 0.0
    moved: int = 0

    def step(self, second: int, trace: Trace) -> None:
        """One second: messages come in, every member shares its speed among what waits on its partitions."""
        speed = trace.speeds(second)
        self.end += trace.rate(second)
        self.log[second + 1] = self.end
        waits = np.where((self.still_until <= second) & ~trace.unreadable(second), self.end - self.read, 0.0)
        asked = np.bincount(self.owner, weights=waits, minlength=len(speed))
        self.read += waits * np.minimum(speed / np.maximum(asked, 1e-9), 1.0)[self.owner]
        self.still_s += int(np.count_nonzero(self.still_until > second))
        each = np.resize(self.world.commit_s, len(speed))
        commits = ((second + 7 * np.arange(len(speed))) % each == 0)[self.owner]
        self.shown[commits] = self.read[commits]

    def note(self, second: int) -> None:
        """Write down how it stands."""
        lag = np.bincount(self.owner, weights=self.end - self.read, minlength=self.world.members)
        self.heaviest.append(float(lag.max()))
        self.unread.append(float(lag.sum()))
        self.uneven.append(float(lag.max() / lag.mean()) if lag.sum() > 1 else 1.0)
        every = np.arange(self.world.partitions)
        while True:
            passed = (self.first_unread_s <= second) & (
                self.log[np.minimum(self.first_unread_s + 1, second + 1), every] <= self.read + 1e-6
            )
            if not passed.any():
                break
            self.first_unread_s += passed
        self.ages.append(float(second + 1 - self.first_unread_s.min()))

    def hand_over(self, second: int, target: Ints, *, eager: bool) -> None:
        """What moves stands still for a moment, and the last of its work is done again; eager groups stop whole."""
        moves = target != self.owner
        self.still_until[moves | eager] = second + self.world.pause_s
        rate = self.log[second + 1] - self.log[second]
        twice = np.minimum(self.world.again_s * rate, self.read)[moves]
        self.read[moves] -= twice
        self.shown[moves] = self.read[moves]
        self.again += float(twice.sum())
        self.moved += int(moves.sum())
        self.owner = target
        self.acts.append(second)


def begin(world: World, strategy: Assignor, seconds: int) -> Course:
    """The group as it starts: nothing was read yet, nothing waits."""
    members = {f"m{n}": {"topics": ["t"]} for n in range(world.members)}
    group = build({"topics": {"t": world.partitions}, "members": members, "auto_offset_reset": "earliest"})
    end, read, shown, still = (np.zeros(world.partitions) for _ in range(4))
    log, first_unread_s = np.zeros((seconds + 1, world.partitions)), np.zeros(world.partitions, dtype=np.int64)
    return Course(world, group, checked(group, strategy).owner, log, end, read, shown, still, first_unread_s)


def run(trace: Trace, loop: Looks | None, strategy: Assignor, hours: float) -> Course:
    """One trace under one leader's loop; None: nobody acts."""
    world, seconds = trace.world, int(hours * 3600)
    course, eager = begin(world, strategy, seconds), not traits_of(strategy).cooperative
    known = np.ones(world.partitions, dtype=np.bool_)
    if loop is not None:
        loop.generation(0.0, course.group, course.owner)
    for second in range(seconds):
        course.step(second, trace)
        if second % LOOK_S:
            continue
        course.note(second)
        if loop is None:
            continue
        end, shown = np.floor(course.end).astype(np.int64), np.floor(course.shown).astype(np.int64)
        planned = loop.look(Sample(float(second), end, shown), np.maximum(end - shown, 0), known)
        if planned.owner is not None:
            course.reasons.append(f"{second} s: {planned.decision.why}")
            course.hand_over(second, planned.owner, eager=eager)
            loop.generation(float(second), course.group, course.owner)
    return course


def row(name: str, how: str, course: Course, hours: float) -> str:
    """A line of the table."""
    came = float(course.log[-1].sum()) / (hours * 3600)
    delay, age = np.mean(course.unread) / came, np.array(course.ages)
    heaviest, uneven = np.array(course.heaviest), float(np.mean(course.uneven))
    each = [f"{len(course.acts) / hours:.2f}", f"{course.moved / hours:.1f}", f"{delay:.2f}", f"{age.mean():.1f}"]
    each += [f"{np.quantile(age, 0.99):.0f}", f"{heaviest.mean():,.0f}", f"{heaviest[-1]:,.0f}", f"{uneven:.1f}"]
    return f"| {' | '.join([name, how, *each, f'{course.still_s:,}', f'{course.again:,.0f}'])} |"


HEAD: Final = (
    "| trace | acting | acts an hour | moves an hour | a message waits, s | oldest unread, s: mean "
    "| 99 of 100 looks below | heaviest member's lag: mean | at the end | over the mean member "
    "| partition-seconds still | messages read twice |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def courses(
    acting: Acting, strategy: Assignor, hours: float, seed: int, only: list[str]
) -> Iterator[tuple[str, str, Course]]:
    """Each trace in each way."""
    from bench.paying import Paying

    loops: dict[str, Callable[[], Looks | None]] = {
        NEVER: lambda: None,
        RULE: lambda: Loop(acting, strategy, learned=True),
        PAYING: lambda: Paying(strategy),
    }
    for name, trace in TRACES.items():
        for how, loop in loops.items():
            if not only or name in only:
                yield name, how, run(trace(seed), loop(), strategy, hours)


COLOURS: Final = {NEVER: "#a0aec0", RULE: "#2b6cb0", PAYING: "#e53e3e"}
WIDE, HIGH, LEFT = 640, 110, 46


def picture(lags: Mapping[str, Mapping[str, list[float]]], hours: float) -> str:
    """SVG: a band for each trace, in it a line for each way, the heaviest member's lag upward on a scale of powers."""
    parts, y = [], 24
    for x, (how, colour) in zip(range(LEFT, 9999, 150), COLOURS.items(), strict=False):
        parts.append(f'<rect x="{x}" y="{y - 9}" width="9" height="9" fill="{colour}"/>')
        parts.append(f'<text x="{x + 13}" y="{y}">acting {how}</text>')
    y += 16
    for name, by_way in lags.items():
        top = max(max(lag) for lag in by_way.values())
        parts.append(f'<text x="{LEFT}" y="{y + 10}" font-weight="bold">{name}</text>')
        for power in range(2, 9):
            if 10**power <= top:
                at = y + HIGH - _height(10**power, top)
                parts.append(f'<path d="M{LEFT} {at:.0f}H{LEFT + WIDE}" stroke="#e2e8f0"/>')
                parts.append(f'<text x="{LEFT - 4}" y="{at + 4:.0f}" text-anchor="end">{_short(10**power)}</text>')
        parts += [_line(lag, top, y, COLOURS[how]) for how, lag in by_way.items()]
        y += HIGH + 18
    ticks = [f'<text x="{LEFT + WIDE * h / hours:.0f}" y="{y}">{h} h</text>' for h in range(0, int(hours) + 1, 4)]
    box = f'viewBox="0 0 {LEFT + WIDE + 40} {y + 10}"'
    style = 'font-family="sans-serif" font-size="11"'
    title = "<title>The heaviest member's lag, in messages, over simulated hours</title>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>{title}\n' + "\n".join(parts + ticks) + "\n</svg>\n"


def _height(lag: float, top: float) -> float:
    return float(HIGH * max(0.0, np.log10(max(lag, 10.0)) - 1) / max(np.log10(max(top, 100.0)) - 1, 1.0)) * 0.85


def _short(number: int) -> str:
    return f"{number // 1_000_000}m" if number >= 1_000_000 else f"{number // 1000}k" if number >= 1000 else str(number)


def _line(lag: list[float], top: float, y: int, colour: str) -> str:
    """One way's line; of several looks in one place the most counts."""
    each = max(1, len(lag) // WIDE)
    tops = [max(lag[i : i + each]) for i in range(0, len(lag), each)]
    places = (f"{LEFT + WIDE * i / len(tops):.1f} {y + HIGH - _height(v, top):.1f}" for i, v in enumerate(tops))
    return f'<path d="M{"L".join(places)}" fill="none" stroke="{colour}" stroke-width="1.2"/>'


def main() -> None:
    """Simulate all, print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=list(TRACES))
    parser.add_argument("--acting", default="")
    parser.add_argument("--assignor", default="cooperative-lag-aware")
    parser.add_argument("--set", action="append", default=["max_skew=40"], metavar="K=V")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--to", type=Path)
    args = parser.parse_args()
    rows: list[str] = []
    lags: dict[str, dict[str, list[float]]] = {}
    print(HEAD)
    strategy = find(args.assignor, dict(text.split("=", 1) for text in args.set))
    for name, how, course in courses(Acting.of_text(args.acting), strategy, args.hours, args.seed, args.only):
        rows.append(row(name, how, course, args.hours))
        lags.setdefault(name, {})[how] = course.heaviest
        print(rows[-1], flush=True)
    if args.picture:
        args.picture.write_text(picture(lags, args.hours), encoding="utf-8")
    if args.to:
        before, _, rest = args.to.read_text(encoding="utf-8").partition(HEAD)
        table = "\n".join([HEAD, *rows])
        args.to.write_text(before + table + rest[rest.index("\n\n") :], encoding="utf-8")


if __name__ == "__main__":
    main()
