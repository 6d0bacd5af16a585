"""Small worlds, all of them: two members, two partitions, one fault, and the messages in each order up to a depth.

A choice point is a moment at which a message of a group or a transaction is to arrive and another event could come
before it, or the other way round: each event waits for at most ``LATE_S``. At each of the first choice points, every
order is tried, and each fault instead of an event; from there on events come at their times. Without orders, each
fault is tried at each of the first messages that count. Each run begins at the start and repeats the choices of its
prefix. It ends early in a state that was seen: each host and connection has had the same messages and timers in the
same order, and so has the cluster with what changes it, a tenth of a second apart at most.
"""

from __future__ import annotations

import heapq
import itertools
import random
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from apportion.testing import jars
from apportion.testing.simulation.checks import Checks
from apportion.testing.simulation.kernel import Label
from apportion.testing.simulation.schedules import Plan, Run, run
from apportion.testing.simulation.stage import Action, Stage

LATE_S: Final = 0.1
FAULTS: Final[tuple[Action, ...]] = tuple(
    {**fault, "member": member}
    for fault in ({"do": "kill", "for": 2}, {"do": "freeze", "for": 2}, {"do": "freeze", "for": 9}, {"do": "drop"})
    for member in ("m0", "m1")
)
Event = tuple[int, int, Any, Label | None]


class Seen(Exception):
    """The run has come to a state from which all was tried."""


class Steady(random.Random):
    """No chance: delays are their means, the first of several comes first, identifiers are counted."""

    def __init__(self) -> None:
        super().__init__(0)
        self._number = itertools.count(1)

    def random(self) -> float:
        """The middle."""
        return 0.5

    def getrandbits(self, k: int, /) -> int:
        """The first of several; a number of its own as an identifier."""
        return next(self._number) if k >= 64 else 0


@dataclass
class Explorer:
    """The choices of one run.

    prefix
        The choices that it repeats; then it takes the first option each time.
    orders, faults
        At how many choice points all orders are tried, and at how many messages a fault, which are the first ones too.
    opens_s
        From when on.
    seen
        The states of all runs so far.
    options
        How many there were at each choice point.
    """

    prefix: tuple[int, ...]
    orders: int
    faults: int
    opens_s: float
    seen: set[int]
    options: list[int] = field(default_factory=list)
    _history: dict[str, int] = field(default_factory=dict)
    _stage: Stage | None = None
    _faulty: bool = False

    def watch(self, stage: Stage, _: Checks) -> None:
        """Choose in this stage's world from now on."""
        self._stage, stage.world.random, stage.world.choose = stage, Steady(), self._next

    def _next(self) -> None:
        stage = self._stage
        assert stage is not None  # noqa: S101 - ``watch`` comes first
        world, events = stage.world, self._events(stage.world.timers)
        at, chosen = len(self.options), 0
        faults = FAULTS if at < max(self.faults, self.orders) and not self._faulty else ()
        counts = len(events) > 1 if at < self.orders else bool(faults) and bool(events[0][3] and events[0][3].counts)
        if counts and world.now >= self.opens_s:
            events = events if at < self.orders else events[:1]
            chosen = self._chosen(len(events) + len(faults), int(world.now * 10))
        if chosen >= len(events):
            self._faulty = True
            stage.act(faults[chosen - len(events)])
            return
        event = events[chosen]
        world.timers.remove(event)
        heapq.heapify(world.timers)
        world.us = max(world.us, event[0])
        if label := event[3]:
            came = f"{label.line} {label.mark}".encode()
            self._history[label.into] = zlib.crc32(came, self._history.get(label.into, 0))
        event[2]()

    def _chosen(self, options: int, tenths: int) -> int:
        at = len(self.options)
        self.options.append(options)
        if at < len(self.prefix):
            return self.prefix[at]
        state = hash((at, self._faulty, tenths, frozenset(self._history.items())))
        if state in self.seen:
            self.options.pop()
            raise Seen
        self.seen.add(state)
        return 0

    def _events(self, timers: list[Event]) -> list[Event]:
        """Those that may come next, by their times: the first of each line that counts, and one other."""
        while timers[0][3] is not None and not timers[0][3].live():
            if len(timers) == 1:
                return [timers[0]]
            heapq.heappop(timers)
        lines: dict[str, Event] = {}
        for event in sorted(timers, key=lambda event: event[:2]):
            if event[0] > timers[0][0] + LATE_S * 1e6 or event[3] is None:
                break
            if event[3].live():
                lines.setdefault(event[3].line, event)
        counting = [event for event in lines.values() if event[3] and event[3].counts]
        other = [event for event in lines.values() if event not in counting][:1]
        return sorted(counting + other, key=lambda event: event[:2]) if counting else [timers[0]]


TRAFFIC: Final[Action] = {"at": 0, "do": "traffic", "topic": "records", "per_s": 2}
ENDS: Final[Action] = {"at": 16, "do": "end of traffic"}
M0, M1 = ({"at": 0, "do": "start", "member": member} for member in ("m0", "m1"))
BACK: Final[Action] = {**M1, "at": 15}
"""A process that ended because it heard of no broker for so long is started again; one that runs is left alone."""
JOINS: Final[tuple[Action, ...]] = (TRAFFIC, M0, {**M1, "at": 4}, {"at": 9, "do": "close", "member": "m0"}, BACK, ENDS)
LEAVES: Final[tuple[Action, ...]] = (TRAFFIC, M0, M1, {"at": 8, "do": "leave", "member": "m0"}, BACK, ENDS)
_PLAN = partial(Plan, 0, version=jars.KAFKA[0], handover=0.0, partitions=2)
STORIES: Final[Mapping[str, tuple[float, Plan]]] = {
    "hand-over": (4, _PLAN("reading", "cooperative-sticky", frozenset(), script=JOINS)),
    "eager": (4, _PLAN("reading", "range", frozenset(), script=JOINS)),
    "leave": (8, _PLAN("reading", "cooperative-sticky", frozenset(), script=LEAVES)),
    "exactly once": (4, _PLAN("counting", "streams", frozenset(), script=JOINS)),
    "warm-up": (4, _PLAN("reading", "cooperative-sticky", frozenset({"warms"}), script=JOINS)),
    "task warm-up": (4, _PLAN("counting", "streams", frozenset({"warms"}), script=JOINS)),
}
"""Name to when choices begin, and the plan."""


def explored(story: str, orders: int, faults: int = 0) -> Iterator[tuple[tuple[int, ...], Run | None]]:
    """Each schedule's choices, and its result; None where it came to a state that was seen before."""
    opens_s, plan = STORIES[story]
    seen, waiting = set[int](), [tuple[int, ...]()]
    while waiting:
        explorer = Explorer(waiting.pop(), orders, faults, opens_s if orders else 0.0, seen)
        result = None
        with suppress(Seen):
            result = run(replace(plan, watch=explorer.watch))
        yield explorer.prefix, result
        for at in range(len(explorer.prefix), len(explorer.options)):
            same = (*explorer.prefix, *(0,) * (at - len(explorer.prefix)))
            waiting += [(*same, option) for option in range(1, explorer.options[at])]
