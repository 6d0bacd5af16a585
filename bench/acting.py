"""A day of lag, simulated with the real strategy and the real rule: python -m bench.acting

Five traces, each a day in steps of one second: constant, a hot key that wanders, day and night, a member half as fast
as the others, one that stalls for an hour. Each is run three times: never acting, by the rule, and acting at each look
at which a plan saves anything. Told are rebalances an hour, the heaviest member's lag over time, and the work lost to
hand-overs: seconds that partitions stood still, and messages read twice. What is assumed stands in ``World``.

    --hours N        hours of each trace (24)
    --acting TEXT    the rule's numbers (gain=0.2,hold=30,rest=300)
    --assignor A     the strategy (cooperative-lag-aware), with --set K=V
    --picture FILE   draw the heaviest lag over time, as SVG
    --to FILE        replace the table in this page; without it it is printed alone
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from apportion.acting.loop import Loop
from apportion.acting.rule import Acting
from apportion.acting.speeds import Sample
from apportion.arrays import Floats, Ints
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
    rate
        Messages a second that come in, to all partitions together.
    pause_s
        Seconds that a partition stands still while it changes hands, and an eager group at each rebalance.
    again_s
        Seconds of a member's work that its successor on a partition reads again.
    """

    partitions: int = 40
    members: int = 8
    speed: float = 1_000.0
    rate: float = 5_000.0
    pause_s: int = 3
    again_s: float = 2.5

    def even(self) -> Floats:
        """(P,) messages a second where all partitions get the same."""
        return np.full(self.partitions, self.rate / self.partitions)

    def hot(self, key: int) -> Floats:
        """(P,) the same sum, an eighth of it on one partition."""
        share = np.full(self.partitions, (1 - 1 / 8) / (self.partitions - 1))
        share[key] = 1 / 8
        return share * self.rate


Trace = Callable[[World, int], tuple[Floats, Floats]]
"""A world and a second give (P,) messages a second that come in and (M,) messages a second that members can read."""


def constant(world: World, second: int) -> tuple[Floats, Floats]:
    """Five partitions are five times as busy as the others, all day."""
    share = np.where(np.arange(world.partitions) % 8 == 0, 5.0, 1.0)
    return share / share.sum() * world.rate, np.full(world.members, world.speed)


def wandering(world: World, second: int) -> tuple[Floats, Floats]:
    """An eighth of all comes to one partition, another one each half hour."""
    return world.hot(second // 1800 * 7 % world.partitions), np.full(world.members, world.speed)


def day_and_night(world: World, second: int) -> tuple[Floats, Floats]:
    """The rate goes up and down by half within the day, on five busy partitions."""
    rate, speed = constant(world, second)
    return rate * (1 + 0.5 * np.sin(2 * np.pi * second / 86_400)), speed


def slow(world: World, second: int) -> tuple[Floats, Floats]:
    """One member is half as fast as the others; partitions are equal."""
    speed = np.full(world.members, world.speed)
    speed[0] /= 2
    return world.even() * 1.1, speed


def stalls(world: World, second: int) -> tuple[Floats, Floats]:
    """One member reads nothing in each sixth hour."""
    speed = np.full(world.members, world.speed)
    if second // 3600 % 6 == 1:
        speed[0] = 0.0
    return world.even(), speed


TRACES: Final[Mapping[str, Trace]] = {
    "constant": constant,
    "a hot key that wanders": wandering,
    "day and night": day_and_night,
    "a member half as fast": slow,
    "a member that stalls": stalls,
}
NEVER, RULE, ALWAYS = "never", "by the rule", "at every change"
RASH: Final = Acting(gain=1e-9, hold_s=0.0, rest_s=float(LOOK_S))
"""Acts at each look at which a plan saves anything."""


@dataclass
class Day:
    """One trace under one way to act: what it came to, and the state that it walks through."""

    world: World
    group: Group
    owner: Ints
    end: Floats
    read: Floats
    still_until: Floats
    heaviest: list[float] = field(default_factory=list)
    acts: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    still_s: int = 0
    again: float = 0.0
    moved: int = 0

    def step(self, second: int, rate: Floats, speed: Floats) -> None:
        """One second: messages come in, every member shares its speed among what waits on its partitions."""
        self.end += rate
        waits = np.where(self.still_until <= second, self.end - self.read, 0.0)
        asked = np.bincount(self.owner, weights=waits, minlength=len(speed))
        share = np.minimum(speed / np.maximum(asked, 1e-9), 1.0)
        self.read += waits * share[self.owner]
        self.still_s += int(np.count_nonzero(self.still_until > second))
        if second % LOOK_S == 0:
            lag = np.bincount(self.owner, weights=self.end - self.read, minlength=len(speed))
            self.heaviest.append(float(lag.max()))

    def hand_over(self, second: int, target: Ints, *, eager: bool) -> None:
        """What moves stands still for a moment, and the last of its work is done again; eager groups stop whole."""
        moves = target != self.owner
        self.still_until[moves | eager] = second + self.world.pause_s
        twice = np.minimum(self.world.again_s * self.world.rate / self.world.partitions, self.read)[moves]
        self.read[moves] -= twice
        self.again += float(twice.sum())
        self.moved += int(moves.sum())
        self.owner = target
        self.acts.append(second)


def begin(world: World, strategy: Assignor) -> Day:
    """The group as it starts: nothing was read yet, nothing waits."""
    members = {f"m{n}": {"topics": ["t"]} for n in range(world.members)}
    group = build({"topics": {"t": world.partitions}, "members": members, "auto_offset_reset": "earliest"})
    nothing = np.zeros(world.partitions)
    return Day(world, group, checked(group, strategy).owner, nothing, nothing.copy(), nothing.copy())


def run(trace: Trace, how: str, acting: Acting, strategy: Assignor, hours: float, world: World | None = None) -> Day:
    """One trace, acted on in one way."""
    world = world or World()
    day, eager = begin(world, strategy), not traits_of(strategy).cooperative
    loop = Loop(RASH if how == ALWAYS else acting, strategy, learned=True)
    loop.generation(0.0, day.group, day.owner)
    known = np.ones(world.partitions, dtype=np.bool_)
    for second in range(int(hours * 3600)):
        day.step(second, *trace(world, second))
        if how == NEVER or second % LOOK_S:
            continue
        end, read = np.floor(day.end).astype(np.int64), np.floor(day.read).astype(np.int64)
        planned = loop.look(Sample(float(second), end, read), np.maximum(end - read, 0), known)
        if planned.owner is not None:
            day.reasons.append(f"{second} s: {planned.decision.why}")
            day.hand_over(second, planned.owner, eager=eager)
            loop.generation(float(second), day.group, day.owner)
    return day


def row(name: str, how: str, day: Day, hours: float) -> str:
    """A line of the table."""
    lag = np.array(day.heaviest)
    lags = (lag.mean(), np.quantile(lag, 0.99), lag.max(), lag[-1], day.moved, day.still_s, day.again)
    return f"| {' | '.join([name, how, f'{len(day.acts) / hours:.2f}', *(f'{value:,.0f}' for value in lags)])} |"


HEAD: Final = (
    "| trace | acting | rebalances an hour | heaviest member's lag: mean | 99 of 100 looks below | most | at the end "
    "| partitions moved | partition-seconds still | messages read twice |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def days(acting: Acting, strategy: Assignor, hours: float) -> Iterator[tuple[str, str, Day]]:
    """Each trace in each way."""
    for name, trace in TRACES.items():
        for how in (NEVER, RULE, ALWAYS):
            yield name, how, run(trace, how, acting, strategy, hours)


COLOURS: Final = {NEVER: "#a0aec0", RULE: "#2b6cb0", ALWAYS: "#e53e3e"}
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
    title = "<title>The heaviest member's lag, in messages, over a simulated day</title>"
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
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--acting", default="")
    parser.add_argument("--assignor", default="cooperative-lag-aware")
    parser.add_argument("--set", action="append", default=[], metavar="K=V")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--to", type=Path)
    args = parser.parse_args()
    rows: list[str] = []
    lags: dict[str, dict[str, list[float]]] = {}
    print(HEAD)
    for name, how, day in days(
        Acting.of_text(args.acting), find(args.assignor, dict(text.split("=", 1) for text in args.set)), args.hours
    ):
        rows.append(row(name, how, day, args.hours))
        lags.setdefault(name, {})[how] = day.heaviest
        print(rows[-1], flush=True)
    if args.picture:
        args.picture.write_text(picture(lags, args.hours), encoding="utf-8")
    if args.to:
        before, _, rest = args.to.read_text(encoding="utf-8").partition(HEAD)
        table = "\n".join([HEAD, *rows])
        args.to.write_text(before + table + rest[rest.index("\n\n") :], encoding="utf-8")


if __name__ == "__main__":
    main()
