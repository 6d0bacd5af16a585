"""One group's past as far as the window goes: its generations, each rebalance's changes, totals since the start."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from apportion.history.cause import CommitCadence
from apportion.history.commits import CommitTimes
from apportion.history.fold import Folding
from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.history.moves import Moves
from apportion.history.rebalance_rows import Rebalance, latest
from apportion.history.records import Generation, GenerationMember, GroupRecord
from apportion.history.steps import TopicEntries
from apportion.history.stood_still import standstills
from apportion.model.protocols import CLASSIC, CONSUMER, SHARE, STREAMS
from apportion.wire.coordinator import EpochRecord

WINDOW: Final = 60
"""Generations that are remembered of a group."""
MOST_WAITING: Final = 5_000
"""Records of a group that wait for its first description."""


class GroupPast:
    """One group's history.

    names
        Topic id to name, shared by all groups; it grows while records come.
    causes
        Cause to rebalances since the start; one that had two causes counts in both.
    moved, needless
        Partitions that went from one member that stays to another since the start, and those of them beyond the
        fewest that an even sharing needed, as far as that is proved.
    rebalance_ms, standstill_ms
        Since the start, as far as records tell: how long its rebalances took, and how long partitions stood still in
        them, summed over the partitions; a lower bound.
    """

    def __init__(self, name: str, names: Mapping[str, str]) -> None:
        self.name = name
        self.generations: list[Generation] = []
        self.rebalances: list[Rebalance] = []
        self.causes: Counter[str] = Counter()
        self.moved = self.needless = 0
        self.rebalance_ms = self.standstill_ms = 0
        self.version = 0
        self._names = names
        self._folding = Folding(names)
        self._commits = CommitTimes()
        self._moves = Moves()
        self._read = self._seeded = False
        self._waiting: deque[GroupRecord] = deque(maxlen=MOST_WAITING)
        self._described_epoch = -1
        self._described: tuple[Generation, Mapping[str, Any]] | None = None
        self.topics: TopicEntries = {}

    # -- what comes in ----------------------------------------------------------------------------------------------

    def take(self, record: GroupRecord) -> None:
        """One record of the group, in the order of offsets.

        Records of a group whose broker assigns tell what changed, not what is: they wait until the group was described
        once, which says what is.
        """
        if isinstance(record.record, EpochRecord) and not self._seeded:
            self._waiting.append(record)
            return
        now = self._folding.take(record)
        if now is None:
            return
        if now.fresh:
            self._described_epoch = -1
        if now.kind != CLASSIC and now.number <= self._described_epoch:
            return  # a record of before the description, which has it already
        if not self._read and self.generations:
            # What was described until now is the generation before the first that is read, or is that one itself.
            before = replace(self.generations[-1], number=now.number - 1, kind=now.kind, holes=now.holes)
            self.generations[-1] = now if _same(before, now) else before
            if self.generations[-1] is before:
                self._append(replace(now, fresh=False))
        else:
            self._append(now)
        self._read = True
        self._commits = CommitTimes()

    def commit(self, topic: str, partition: int, at: int | None) -> None:
        """One commit between two records: they distinguish a crash from a leave."""
        self._commits.take(0, (topic, partition), at)

    def describe(self, facts: Mapping[str, Any], at_ms: int, following: bool) -> None:
        """The group as its coordinator describes it just now; it counts if no records of it are read.

        following
            Its records are being read.
        """
        if facts["protocol"] == SHARE:
            return  # nobody owns what it shares, so nothing ever moves
        if following and not self._seeded and "as_records" in facts:
            self._begin(facts["as_records"](), at_ms)
            return
        if facts["state"] not in ("Stable", "Empty") or facts["protocol"] == STREAMS:
            return  # what a streams group's members hold tells no epochs: only its records do
        kind = CONSUMER if facts["protocol"] == CONSUMER else CLASSIC
        read = self._read and (self._seeded or kind == CLASSIC) and following
        last = self.generations[-1] if self.generations else None
        if read:
            return
        known = self._described
        if known is not None and known[0] is last and known[1] == facts["members"]:
            return
        number = facts["generation"] if facts["generation"] is not None else (last.number + 1 if last else 0)
        now = Generation(
            offset=at_ms, at=at_ms, kind=kind, number=number,
            members=tuple(_member(name, fields) for name, fields in sorted(facts["members"].items())),
            protocol=facts["assignor"], fresh=last is None or last.kind != kind,
            holes=0 if last is None else last.holes + 1,
        )  # fmt: skip
        if last is not None and _same(last, now):
            self._described = (last, facts["members"])
            return
        if following and kind == CLASSIC:
            self.generations, self._moves = [now], Moves()  # its record comes down the topic
            self._moves.past(now)
            self._moves.take(now.owners())
        else:
            self._append(now, complete=kind == CONSUMER and last is not None and number == last.number + 1)

    def _begin(self, described: Iterable[EpochRecord], at_ms: int) -> None:
        """Take a description as if it were the group's log, and go on from there by the records.

        Records between the description and this moment wait already; those of before it change nothing for good, since
        each is followed by the newest of its key.
        """
        self._folding, self._seeded, self._read = Folding(self._names), True, True
        now = None
        for value in described:
            now = self._folding.take(GroupRecord(at_ms, at_ms, value)) or now
        if now is not None:
            # What a description leaves out is no change when the first record tells it.
            known = {name: value for name, value in now.facts.items() if name in ("topology", "stateless")}
            last = self.generations[-1] if self.generations else None
            fresh = last is None or last.kind != now.kind
            self._described_epoch = now.number
            if last is None or fresh or not _same(last, now):
                self._append(replace(now, fresh=fresh, facts=known))
        waiting, self._waiting = list(self._waiting), deque(maxlen=MOST_WAITING)
        for record in waiting:
            self.take(record)

    def seed(self, records: Iterable[GroupRecord]) -> None:
        """Take history from a dump or tables; it is shown, but not counted in the totals."""
        self._seeded = True
        for record in records:
            self.take(record)
        self.causes.clear()
        self.moved = self.needless = self.rebalance_ms = self.standstill_ms = 0

    def _append(self, now: Generation, complete: bool | None = None) -> None:
        before = self.generations[-1].offset if self.generations else -1
        self.generations.append(now)
        del self.generations[:-WINDOW]
        intervals = [replace(interval, after=before) for interval in self._commits.intervals()]
        row = latest(self.generations[-3:], self._moves, CommitCadence(intervals))
        if row is not None:
            self.rebalances.append(row if complete is None else replace(row, complete=complete))
            del self.rebalances[:-WINDOW]
            self.causes.update(row.cause.split(", "))
            self.moved += row.moved
            self.needless += row.needless or 0
            self.rebalance_ms += row.duration_ms or 0
            still = standstills(self.generations[-3:], self.rebalances[-2:])[row.source_offset]
            self.standstill_ms += still.partitions * (still.at_least_ms or 0)
        self.version += 1

    # -- what the page asks -----------------------------------------------------------------------------------------

    @property
    def read_generation(self) -> int | None:
        """The newest generation's number, if its record was read; a description of a classic group has none."""
        return self.generations[-1].number if self._read and self.generations else None

    def frozen(self, topic_ids: Mapping[str, str] | None = None) -> GroupHistory:
        """A copy of the past, for a reader in another thread; commits of before are not kept."""
        world = TopicMetadata(self.topics, topic_ids or {})
        return GroupHistory.remembered(self.name, list(self.generations), list(self.rebalances), world)


def _member(name: str, fields: Mapping[str, Any]) -> GenerationMember:
    return GenerationMember(
        name,
        tuple(fields["topics"]),
        {topic: tuple(ids) for topic, ids in fields["owned"].items()},
        fields["instance_id"],
        fields["client_id"],
        fields["host"],
        fields["rack"],
    )


def _same(last: Generation, now: Generation) -> bool:
    """Whether no member came or went and every partition stayed where it was."""
    return {m.member_id for m in last.members} == {m.member_id for m in now.members} and last.owners() == now.owners()
