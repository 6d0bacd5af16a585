"""Asks the cluster on a schedule and keeps snapshots; after a failure it says since when, and goes on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Final

from apportion.arrays import UNKNOWN
from apportion.errors import ApportionError
from apportion.history.commits import commit_time
from apportion.history.lag_time import LagTime, LagTimes
from apportion.history.records import GroupRecord
from apportion.model.group import Group
from apportion.model.to_names import collector_paused
from apportion.serve.advice import Advisor
from apportion.serve.derived_state import (
    NO_COMMITS,
    RoundGroup,
    Timed,
    commits_then,
    group_state,
    group_with_offsets,
    lag_times_of,
    renewed,
)
from apportion.serve.end_times import AllEnds, Commits, EndTimes
from apportion.serve.faults import Faults
from apportion.serve.past import GroupPast
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import GroupState, Snapshot
from apportion.serve.tails import Tails
from apportion.sources.cluster import Cluster, connect
from apportion.sources.cluster_round import Look, Round, look
from apportion.sources.config import Connection
from apportion.sources.log_tails import Place, Tail, tails
from apportion.sources.offsets_tail import OffsetsTail, TailRecord
from apportion.wire.coordinator import Commit, EpochRecord, GroupGeneration, readable

log = logging.getLogger("apportion.serve")

FORGET_S: Final = 3600.0
"""How long a group that is gone, or a topic made anew, is spoken of."""
GONE_AFTER_S: Final = 10.0
"""For how long a group must not be listed to be gone."""
LOADING_S: Final = 300.0
"""As ``GONE_AFTER_S``, after a broker was away or groups got another coordinator: it lists what it has loaded so far
as all, and may load for minutes.
"""
MOST_GONE: Final = 200
TAIL_PATIENCE_S: Final = 20.0
MOST_NAMES_GONE: Final = 100_000
"""Ids of deleted topics whose names are known: records of the past may name them."""


class Collector:
    """The one that asks; ``snapshot`` is the newest answer, whole at any moment.

    settings, connection
        How often, and whom.
    listeners
        Called with each new snapshot, in the collector's thread.
    """

    def __init__(self, settings: ServerSettings, connection: Connection) -> None:
        self.settings, self.connection = settings, connection
        self.snapshot = Snapshot(trouble_since=time.time())
        self.listeners: list[Callable[[Snapshot], None]] = []
        self._lock = threading.RLock()
        self._pasts: dict[str, GroupPast] = {}
        self._names: dict[str, str] = {}
        self._ends: dict[str, EndTimes] = {}
        self._renewed: dict[str, float] = {}
        self._stale: dict[str, dict[tuple[str, int], int]] = {}
        self._tails = Tails(self._ask_tails)
        self._missing: dict[str, float] = {}
        self.faults = Faults()
        self._advisor = Advisor(settings, self.faults)
        self._shaken = -LOADING_S
        self._leaders: Mapping[int, tuple[int, int]] = {}
        self._open: ExitStack | None = None
        self._cluster: Cluster | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self._tail = self._new_tail() if settings.tail else None

    # -- the thread -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to ask."""
        self._advisor.start()
        self._thread.start()

    def close(self, patience_s: float = 3) -> None:
        """Stop asking, and close all that was opened."""
        self._over.set()
        self._advisor.close()
        if self._thread.is_alive():
            self._thread.join(patience_s)
        if self._tail is not None:
            self._tail.close(patience_s)
        self._disconnect()

    def _run(self) -> None:
        if self._tail is not None:
            self._tail.start()
            # What is described before the tail is read might change unseen in between.
            self._tail.ready.wait(TAIL_PATIENCE_S)
        while not self._over.is_set():
            began = time.monotonic()
            try:
                # A round makes many small objects that stay: the garbage collector would look at them again and again.
                with collector_paused():
                    self.round()
            except Exception:
                # Never seen is not never: a round that breaks must not end the server.
                log.exception("a round broke")
                self._failed("the last round failed; see the log")
            self._over.wait(max(0.1, self.settings.interval_s - (time.monotonic() - began)))

    def round(self) -> Snapshot:
        """Ask once, and publish the answer."""
        began = time.time()
        try:
            seen = look(self._connected(), lambda admin: Look(admin, self.settings.checkpoints))
        except ApportionError as wrong:
            self._disconnect()
            return self._failed(str(wrong).rstrip("."))
        with self._lock:
            remember(self._names, {log.topic_id: name for name, log in seen.topics.items() if log.topic_id})
        groups = self._groups(seen)
        tail = self._tail
        return self._publish(
            Snapshot(
                number=self.snapshot.number + 1,
                round=replace(seen, groups={}),
                groups=groups,
                # A table's arrays are replaced, never changed.
                ends={name: copy(table) for name, table in self._ends.items()},
                trouble="",
                tail_trouble=tail.trouble if tail is not None else "it was not asked for (--no-tail)",
                tail_since=tail.since if tail is not None else began,
                round_s=time.time() - began,
                asked_s=seen.ended - began,
                rounds_failed=self.snapshot.rounds_failed,
            )
        )

    def _failed(self, why: str) -> Snapshot:
        """There was no answer: known facts stay, and age."""
        old = self.snapshot
        if old.round.at:
            self._shaken = time.time()
        since = old.trouble_since if old.trouble else (old.round.at or time.time())
        log.warning("nothing is known of the cluster: %s", why)
        return self._publish(
            replace(old, number=old.number + 1, trouble=why, trouble_since=since, rounds_failed=old.rounds_failed + 1)
        )

    def _publish(self, snapshot: Snapshot) -> Snapshot:
        self.snapshot = snapshot
        for listener in self.listeners:
            try:
                listener(snapshot)
            except Exception:
                # The next round may be shown again; here it would end the thread that asks for it.
                log.exception("a round cannot be shown")
        return snapshot

    # -- the connection ---------------------------------------------------------------------------------------------

    def _connected(self) -> Cluster:
        if self._cluster is None:
            stack = ExitStack()
            self._cluster = stack.enter_context(connect(self.connection.bootstrap, self.connection.properties))
            self._open = stack
        return self._cluster

    def _disconnect(self) -> None:
        stack, self._open, self._cluster = self._open, None, None
        if stack is not None:
            stack.close()

    # -- groups -----------------------------------------------------------------------------------------------------

    def _groups(self, seen: Round) -> dict[str, GroupState]:
        """Every group that is known: as it was just seen, or as it was last seen."""
        if not seen.listed_all or (self._leaders and seen.leaders != self._leaders):
            self._shaken = seen.at
        self._leaders = seen.leaders or self._leaders
        renewed_topics = self._sample(seen)
        following = self._tail is not None and not self._tail.trouble
        groups: dict[str, GroupState] = {}
        pasts: dict[str, GroupPast] = {}
        for name in sorted(seen.groups):
            pasts[name] = self._past(name)
            self.faults.guard(name, "past", partial(self._describe, seen, following, name))
        all_ends = AllEnds(self._ends)
        groups.update(self._states(seen, pasts, all_ends, renewed_topics))
        for name, old in self.snapshot.groups.items():
            if name in groups:
                continue
            state = self._unseen(name, old, seen)
            if state is not None:
                groups[name] = state
        for name, why in seen.unknown.items():
            if name not in groups:
                groups[name] = renewed(name, self._past(name), seen.at).unknown(seen.at, why)
        self._missing = {name: at for name, at in self._missing.items() if name in groups and name not in seen.groups}
        self._forget(groups, seen)
        self._advisor.look(groups, all_ends)
        for name in seen.groups:
            state = groups[name]
            if state.read is not None:
                self.faults.guard(name, "short lags", partial(self._tails.want, state.as_described, state.read))
        self._tails.look()
        self.faults.keep(groups)
        return groups

    def _describe(self, seen: Round, following: bool, name: str) -> None:
        """Add a group's description to its history."""
        facts = seen.groups[name].facts
        with self._lock:
            past = self._past(name)
            past.describe(facts, int(seen.at * 1000), following)
            past.topics = {topic: seen.topics[topic].entries for topic in facts["wanted"] if topic in seen.topics}

    def _ask_tails(self, places: Mapping[Place, int]) -> Mapping[Place, Tail]:
        """Look at logs' ends; an end that is not given is reported with its bounds."""
        try:
            return tails(self._connected(), places)
        except ApportionError as wrong:
            log.warning("the ends of %d logs could not be looked at: %s", len(places), str(wrong).rstrip("."))
            return {}

    def _states(
        self, seen: Round, pasts: Mapping[str, GroupPast], ends: AllEnds,
        renewed_topics: Mapping[str, str],
    ) -> Iterator[tuple[str, GroupState]]:  # fmt: skip
        """Every group that was just seen; one of which something breaks as it was last seen, with the reason."""
        olds = {name: self.snapshot.groups.get(name) for name in pasts}
        looked = {name: each for name in pasts if (each := self._looked_at(name, seen, olds[name]))}
        times = self._times({name: (built.group, commits, built.read.message)
                             for name, (built, commits) in looked.items()}, ends, seen.at)  # fmt: skip
        for name, past in pasts.items():
            made_of = looked.get(name), times.get(name), renewed_topics
            state = self.faults.guard(name, "state", partial(self._state, seen, past, olds[name], *made_of))
            if state is None:
                why = next(
                    text
                    for derived in ("group", "lag in time", "state")
                    if (text := self.faults.sentence(name, derived))
                )
                old = olds[name]
                state = (
                    renewed(name, past, seen.at).unknown(seen.at, why) if old is None else old.unknown(old.seen, why)
                )
            yield name, state

    def _looked_at(self, name: str, seen: Round, old: GroupState | None) -> tuple[RoundGroup, Commits] | None:
        """A group of the round as arrays, and its commits at the last rounds; None if that breaks."""

        def work() -> tuple[RoundGroup, Commits]:
            stale = self._stale.get(name, NO_COMMITS)
            built = group_with_offsets(seen.groups[name], seen.topics, old, self._tails, stale)
            return built, commits_then(built.group, seen.at, old)

        return self.faults.guard(name, "group", work)

    def _times(self, groups: Mapping[str, Timed], ends: AllEnds, at: float) -> Mapping[str, tuple[LagTimes, LagTime]]:
        """Lag in time of each group, many in one pass; each by itself if the pass breaks."""
        alone = {name for name in groups if self.faults.sentence(name, "lag in time")}
        together = [name for name in groups if name not in alone]
        times: dict[str, tuple[LagTimes, LagTime] | None] = {}
        try:
            passed = lag_times_of([groups[name] for name in together], ends, at)
            times.update(zip(together, passed, strict=True))
        except Exception:  # of one of them: each by itself tells whose
            alone.update(together)
        for name in alone:
            one_pass = lag_times_of([groups[name]], ends, at)
            times[name] = self.faults.guard(name, "lag in time", partial(next, one_pass))
        return {name: known for name, known in times.items() if known is not None}

    def _state(
        self, seen: Round, past: GroupPast, old: GroupState | None, looked: tuple[RoundGroup, Commits] | None,
        times: tuple[LagTimes, LagTime] | None, renewed_topics: Mapping[str, str],
    ) -> GroupState | None:  # fmt: skip
        """One group as it was just seen; None if something that it is made of broke."""
        if looked is None or times is None:
            return None
        built, commits = looked
        noted = [renewed_topics[topic] for topic in built.group.topics if topic in renewed_topics]
        noted += self.faults.sentences(past.name)
        return group_state(
            seen.groups[past.name], built, seen.topics, seen.at, past, old, times, commits, self.settings, tuple(noted),
            self.faults,
        )  # fmt: skip

    def _unseen(self, name: str, old: GroupState, seen: Round) -> GroupState | None:
        """A known group without a description now: it is gone, or its coordinator does not answer."""
        if name in seen.unknown:
            return old.unknown(old.seen, seen.unknown[name])
        if old.gone:
            return old if seen.at - (old.unknown_since or 0) < FORGET_S else None
        if not seen.listed(name):
            return old.unknown(old.seen, "its coordinator does not list its groups")
        first = self._missing.setdefault(name, seen.at)
        if seen.at - first < (LOADING_S if first - self._shaken < LOADING_S else GONE_AFTER_S):
            return old.unknown(seen.at, "it is not listed just now")
        return old.unknown(first, "it is not listed any more", gone=True)

    def _forget(self, groups: dict[str, GroupState], seen: Round) -> None:
        """Keep memory bounded if groups and topics come and go."""
        gone = sorted((s.unknown_since or 0.0, name) for name, s in groups.items() if s.gone)
        for _, name in gone[:-MOST_GONE]:
            del groups[name]
        with self._lock:
            for name in self._pasts.keys() - groups.keys():
                if seen.listed(name):
                    del self._pasts[name]
        self._stale = {name: stale for name, stale in self._stale.items() if name in groups}
        for topic in self._ends.keys() - seen.topics.keys():
            del self._ends[topic]
            self._tails.forget(topic)

    def _sample(self, seen: Round) -> dict[str, str]:
        """Note the log ends; topics that were recreated of late, each with a sentence."""
        for name, topic in seen.topics.items():
            table = self._ends.get(name)
            if table is None or not table.fits(topic.topic_id, topic.number):
                if table is not None and table.topic_id != topic.topic_id:
                    self._renewed[name] = seen.at
                    self._tails.forget(name)
                    self._note_stale(name)
                table = self._ends[name] = EndTimes(topic.topic_id, topic.number)
            table.add(seen.at, topic.end)
        self._renewed = {name: at for name, at in self._renewed.items() if seen.at - at < FORGET_S}
        return {
            name: f"The topic {name} was deleted and created again: older commits mean other messages."
            for name in self._renewed
        }

    def _note_stale(self, topic: str) -> None:
        """Groups' commits on a topic that is another one now: their lag there is unknown until they move."""
        for name, state in self.snapshot.groups.items():
            stale = self.faults.guard(name, "commits of before", partial(commits_on, state.as_described, topic))
            if stale:
                self._stale.setdefault(name, {}).update(stale)

    # -- the tail ---------------------------------------------------------------------------------------------------

    def _new_tail(self) -> OffsetsTail:
        start: Mapping[int, int] = {}
        if self.settings.past is not None:
            from apportion.sources.load_history import load_histories, next_offsets

            histories = load_histories(self.settings.past)
            self._names.update(histories.world.names)
            for name, history in histories.groups.items():
                self._past(name).seed(history.events)
            start = next_offsets(self.settings.past)
        return OffsetsTail(self.connection.bootstrap, self.connection.properties, self._take, start)

    def _take(self, batch: Sequence[TailRecord]) -> None:
        """A batch of records of ``__consumer_offsets``; an unreadable one is passed over."""
        with self._lock:
            for raw in batch:
                record = readable(raw.key, raw.value)
                if isinstance(record, Commit):
                    if not record.tombstone and record.group in self._pasts:
                        at = commit_time(record.commit_time)
                        self._pasts[record.group].commit(record.topic, record.partition, at)
                elif isinstance(record, GroupGeneration | EpochRecord):
                    event = GroupRecord(raw.offset, raw.at, record)
                    self.faults.guard(record.group, "history", partial(self._past(record.group).take, event))

    def _past(self, name: str) -> GroupPast:
        with self._lock:
            if name not in self._pasts:
                self._pasts[name] = GroupPast(name, self._names)
            return self._pasts[name]


def commits_on(group: Group, topic: str) -> dict[tuple[str, int], int]:
    """The group's commits on a topic."""
    if topic not in group.topics or group.offsets is None:
        return {}
    span = group.partitions(group.topics.index(topic))
    commits = zip(group.number[span].tolist(), group.offsets.committed[span].tolist(), strict=True)
    return {(topic, number): offset for number, offset in commits if offset != UNKNOWN}


def remember(names: dict[str, str], present: Mapping[str, str]) -> None:
    """Add topics' ids with their names; of those that are gone the ones that became known last stay."""
    names.update(present)
    if len(names) > len(present) + MOST_NAMES_GONE:
        gone = [topic_id for topic_id in names if topic_id not in present]
        for topic_id in gone[:-MOST_NAMES_GONE]:
            del names[topic_id]
