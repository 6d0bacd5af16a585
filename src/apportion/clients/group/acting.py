"""Lag that acts, inside a consumer: while this member leads, a thread looks at the lag feed and asks for one rejoin.

The thread plans too, off the client's own threads: a rebalance that it asked for finds its plan ready, and so gives
exactly what was promised, unless the group is another one by then. The same holds for the second round of a cooperative
hand-over, whatever the lag has become between the two.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from apportion.acting.forecast import loaded
from apportion.acting.loop import KnownLoad, Loop, Planned
from apportion.acting.rule import Acting
from apportion.acting.speeds import Sample
from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, Longs
from apportion.model.group import Group
from apportion.model.lag import lag_of
from apportion.model.plan import Answer
from apportion.strategy.assignor import Assignor

log = logging.getLogger("apportion.clients")

LOOK_S: Final = 0.25
"""Seconds between two looks whether the feed has something new."""


@runtime_checkable
class SampledFeed(Protocol):
    """A feed that reports when its newest offsets were asked for, as a ``LagFeed`` does."""

    def table(self, topics: Iterable[str]) -> tuple[Mapping[str, Mapping[int, Mapping[str, int]]], str | None]:
        """As in ``bridge.OffsetFeed``."""
        ...

    @property
    def asked_s(self) -> float | None:
        """``time.monotonic()`` at which its newest offsets were asked for; None if there are none."""
        ...


@dataclass(frozen=True, eq=False)
class PinnedPlan:
    """A plan that a rebalance to come must give, if the group is still this one.

    group
        As it was; its past does not count.
    answer
        The target, with what is proved of it.
    why
        What the leader says of the rebalance; "" for the second round of a hand-over.
    """

    group: Group
    answer: Answer
    why: str = ""

    def fits(self, group: Group) -> bool:
        """Whether members and partitions are the same, and no member holds a partition that was another's."""
        past, then = group.owner, self.group.owner
        return (
            group.members == self.group.members
            and group.same_partitions(self.group)
            and np.array_equal(group.subscription_of, self.group.subscription_of)
            and bool(((past == NOBODY) | (past == then) | (past == self.answer.owner)).all())
        )


class Rejoins(Protocol):
    """A consumer's coat as the watch needs it."""

    def ask_rejoin(self) -> None:
        """Have the client join once more; callable from any thread."""

    @property
    def ended(self) -> bool:
        """Whether the consumer is closed, or gone."""


class LagWatch:
    """One member's loop: it knows whether this member leads, and keeps the plan for the rebalance that it asked for.

    strategy, free
        What plans while nothing is known of the load, and what plans once something is: the same with uneven counts.
    learned
        Whether speeds are learned.

    The loop is the thread's alone. The client's threads leave generations for it, and take what it saw last: they never
    wait for a plan.
    """

    def __init__(self, acting: Acting, feed: SampledFeed, strategy: Assignor, free: Assignor, *, learned: bool) -> None:
        self.acting, self.feed, self.strategy, self._free = acting, feed, strategy, free
        self._loop = Loop(acting, free, learned=learned)
        self._consumer: Callable[[], Rejoins | None] = lambda: None
        self._generations: deque[tuple[float, Group, Ints]] = deque()
        self._group: Group | None = None
        self._seen: KnownLoad | None = None
        self._pinned: PinnedPlan | None = None
        self._looked_s: float | None = None
        self._led, self._told_follower = False, False
        self._told_stuck: tuple[str, ...] = ()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    # -- the client's side -------------------------------------------------------------------------------------------

    def serve(self, consumer: Callable[[], Rejoins | None]) -> None:
        """Learn which consumer this is; a weak reference, so that a consumer that is never closed can go."""
        self._consumer = consumer
        if hasattr(self.feed, "on_nudge"):
            self.feed.on_nudge = self._nudged

    def _nudged(self) -> bool:
        """A request for a rebalance: taken if this member leads."""
        group, consumer = self._group, self._consumer()
        if group is None or consumer is None or consumer.ended:
            return False
        log.info("group %r was nudged: it rebalances now", group.name)
        consumer.ask_rejoin()
        return True

    def prepared(self, group: Group) -> tuple[Group, Assignor]:
        """The group as it is planned, and its weights: learned speeds are capacities, and new messages are work too.

        While that is not known counts are all that there is: were they free, a newcomer might get nothing.
        """
        seen = self._seen
        load = None if seen is None else seen.load(group, group.lag, group.lag_known)
        return (group, self.strategy) if load is None else (loaded(group, load), self._free)

    def take_plan(self, group: Group) -> PinnedPlan | None:
        """The plan that this rebalance was asked for, once; None if it has another cause."""
        plan, self._pinned = self._pinned, None
        return plan if plan is not None and plan.fits(group) else None

    def led(self, group: Group, owner: Ints) -> None:
        """This member planned a rebalance: ``owner`` (P,) holds now, -1 for none."""
        self._generations.append((time.monotonic(), group, owner))
        self._group, self._led, self._pinned = group, True, None
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=f"lag of {group.name} acts", daemon=True)
                self._thread.start()

    def assigned(self, group: str | None) -> None:
        """A rebalance ended; who does not lead does not act, and says so once."""
        leads, self._led = self._led, False
        if leads:
            self._told_follower = False
            return
        self._group = self._pinned = self._seen = None
        if not self._told_follower:
            log.info(
                "group %r has another leader: this member acts on lag once it leads. An apportion leader acts, if it "
                "was given acting= too; a Java leader never does",
                group,
            )
        self._told_follower = True

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Look at each new sample while this member leads and its consumer lives."""
        while True:
            time.sleep(LOOK_S)
            consumer = self._consumer()
            if consumer is None or consumer.ended:
                return
            del consumer
            with self._starting:
                if self._group is None and not self._generations:
                    self._thread = None
                    return
            try:
                self._look()
            except Exception:  # a feed, or a strategy, is its user's code: their trouble ends no thread
                log.exception("the look at the lag failed; the group stays as it is")

    def _look(self) -> None:
        while self._generations:
            self._loop.generation(*self._generations.popleft())
        group, asked_s = self._loop.group, self.feed.asked_s
        if (
            self._group is None
            or group is None
            or asked_s is None
            or asked_s == self._looked_s
            or self._pinned is not None
        ):
            return
        self._looked_s = asked_s
        table, missing = self.feed.table(group.topics)
        offsets = _Offsets.of(group, table)
        planned = self._loop.look(Sample(asked_s, offsets.end, offsets.committed), offsets.lag, offsets.known)
        self._seen = self._loop.seen()
        stuck = self._loop.stuck()
        for sentence in stuck:
            if sentence not in self._told_stuck:
                log.warning("group %r: %s", group.name, sentence)
        self._told_stuck = stuck
        if not planned.decision.act:
            log.debug("group %r is left as it is: %s", group.name, missing or planned.decision.why)
        elif self._group is group and not self._generations:
            self._act(group, planned)

    def _act(self, group: Group, planned: Planned) -> None:
        assert planned.owner is not None  # noqa: S101 - there is one wherever the decision is to act
        why = planned.decision.why
        proof = dict.fromkeys(self.strategy.goals, "heuristic")
        self._pinned = PinnedPlan(self._loop.holding(group), Answer(planned.owner, proof), why)
        values = {"group": group.name, "acting": why}
        log.info("group %r evens itself out: %s", group.name, why, extra={"apportion": values})
        consumer = self._consumer()
        if consumer is not None:
            consumer.ask_rejoin()


@dataclass(frozen=True, eq=False)
class _Offsets:
    """A feed's offsets in the order of a group's partitions: (P,) all; -1 unknown, never committed."""

    end: Longs
    committed: Longs
    lag: Longs
    known: Bools

    @classmethod
    def of(cls, group: Group, table: Mapping[str, Mapping[int, Mapping[str, int]]]) -> _Offsets:
        """From the offsets that the feed fetched; a lag that is given wins over offsets."""
        columns: dict[str, list[Any]] = {name: [] for name in ("begin", "end", "committed", "lag")}
        for t, topic in enumerate(group.topics):
            rows = table.get(topic, {})
            for number in group.number[group.partitions(t)].tolist():
                row = rows.get(number, {})
                for name, column in columns.items():
                    column.append(row.get(name, UNKNOWN))
        begin, end, committed, told_lag = (np.array(columns[name], dtype=np.int64) for name in columns)
        lag = np.where(told_lag == UNKNOWN, lag_of(begin, end, committed, group.auto_offset_reset), told_lag)
        return cls(end, committed, lag, (end != UNKNOWN) | (told_lag != UNKNOWN))
