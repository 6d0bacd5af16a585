"""How many members each group's work needs, worked out next to the rounds: no group delays another's figures.

The number follows what comes in, and what comes in swings: a job of ten minutes needs twelve members, then one, then
twelve. Whoever scales by it would pay a rebalance for each swing, so the largest number of the last ``HOLD_S`` seconds
is given. It rises at once and falls late, as autoscalers' own windows of stabilization do.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from apportion.arrays import UNKNOWN
from apportion.errors import ApportionError
from apportion.history.lag_time import rates
from apportion.model.group import Group, Offsets
from apportion.model.lag import WINDOW_S
from apportion.model.measures import loads
from apportion.serve.end_times import AllEnds
from apportion.serve.faults import Faults
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import GroupState
from apportion.sizing.size import Sizing, size

AT_ONCE_S: Final = 1.0
"""Seconds for sizes within a round, where no thread works on them; the other groups' turn comes in later rounds."""
HOLD_S: Final = 3600.0
"""Seconds for which a larger number stays advised."""
SIDES: Final = ("begin", "end", "committed", "lag")


class Advisor:
    """Sizes groups one after the other, round about, in a thread of its own once it is started.

    faults
        Where a group says that it cannot be sized.
    """

    def __init__(self, settings: ServerSettings, faults: Faults) -> None:
        self._capacity, self._catch_up_s, self._faults = settings.capacity, settings.catch_up_s, faults
        self._advised: dict[str, deque[tuple[float, int]]] = {}
        self._newest: tuple[Mapping[str, GroupState], AllEnds] | None = None
        self._last = ""
        self._awake, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="advisor", daemon=True)

    def start(self) -> None:
        """Begin to work next to the rounds."""
        if self._capacity is not None:
            self._thread.start()

    def close(self) -> None:
        """Work on nothing more."""
        self._over.set()
        self._awake.set()

    def look(self, groups: dict[str, GroupState], ends: AllEnds) -> None:
        """Take a round's groups, and put the advice known by now into their states."""
        if self._capacity is None:
            return
        self._newest = dict(groups), ends
        if self._thread.is_alive():
            self._awake.set()
        else:
            until = time.process_time() + AT_ONCE_S
            self._size_all(lambda: time.process_time() > until)
        for name, state in groups.items():
            advice = self._held(name, state.seen)
            if advice != state.advised_members:
                groups[name] = replace(state, advised_members=advice)
        for name in [name for name in list(self._advised) if name not in groups]:
            self._advised.pop(name, None)

    def _run(self) -> None:
        while not self._over.is_set():
            self._awake.wait()
            self._awake.clear()
            self._size_all(self._over.is_set)

    def _size_all(self, enough: Callable[[], bool]) -> None:
        """Each group once, by its newest state when its turn came, until that is enough."""
        names = sorted(self._newest[0]) if self._newest else []
        start = bisect_right(names, self._last)
        for name in names[start:] + names[:start]:
            if self._newest is None:
                return
            groups, ends = self._newest
            state = groups.get(name)
            if state is not None and not state.gone and state.unknown_since is None:
                self._size(state, ends)
            self._last = name
            if enough():
                return

    def _size(self, state: GroupState, ends: AllEnds) -> None:
        def work() -> int | None:
            return advised(state, ends, self._capacity or 1, self._catch_up_s)

        members = self._faults.guard(state.name, "advised number of members", work)
        if members is not None:
            held = self._advised.setdefault(state.name, deque())
            while held and held[-1][1] <= members:
                held.pop()
            held.append((state.seen, members))

    def _held(self, name: str, now: float) -> int | None:
        """The largest number of late; None if none is known."""
        held = self._advised.get(name)
        if not held:
            return None
        while len(held) > 1 and now - held[0][0] > HOLD_S:
            held.popleft()
        return held[0][1]


def advised(state: GroupState, ends: AllEnds, capacity: float, catch_up_s: float | None = None) -> int | None:
    """Members that the group's work needs, if a member takes so many messages a second; None if that is unknown."""
    try:
        sizing = sized(state, ends, capacity, catch_up_s)
    except ApportionError:
        return None
    if sizing is None:
        return None
    return sizing.advised.members if sizing.advised else (sizing.group.M if sizing.total else sizing.bound)


def sized(
    state: GroupState, ends: AllEnds, capacity: float, catch_up_s: float | None, members: int | None = None
) -> Sizing | None:
    """The group sized by the messages that come in; None if these are unknown, or nobody reads any.

    catch_up_s
        Seconds in which what waits is to be read besides; None counts what comes in alone.
    members
        How many there should be; None: as many as is best.

    A group without members is sized by the last subscriptions that it was seen with: what waits is not less for it.
    """
    group = state.manned
    if group is None or not group.P:
        return None
    if group is not state.as_described:
        group = _with_offsets_of(group, state.as_described)
    written = rates(ends.of(group), (state.seen - WINDOW_S) * 1000)
    if np.isnan(written).all() or not loads(group.owner, group.M).any():
        return None
    span = None if members is None else (members, members)
    return size(replace(group, weight=written), capacity, by="weight", members=span, catch_up=catch_up_s)


def _with_offsets_of(group: Group, now: Group) -> Group:
    """The group as it was, with the offsets of now of the partitions that it had."""
    if now.offsets is None or group.offsets is None or not now.P:
        return group
    of_now = {now.name_of(p): p for p in range(now.P)}
    at = np.array([of_now.get(group.name_of(p), UNKNOWN) for p in range(group.P)], dtype=np.int64)
    known = at != UNKNOWN
    sides = {name: np.where(known, getattr(now.offsets, name)[at], getattr(group.offsets, name)) for name in SIDES}
    return group.with_offsets(Offsets(**sides))
