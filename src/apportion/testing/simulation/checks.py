"""The rules that must hold in every state of a run, checked with each event.

- ``two readers``: no two members of the group's current generation hold one partition (``NoDoubleClientAssignment`` of
  the public model of KIP-848).
- ``commit back``: no committed offset is lower than the one before it.
- ``commit ahead``: whatever is committed was given to a member's code.
- ``twice``: a record that a member read and gave up in good order is not read again (no fault in reach).
- ``once``: with transactions, each record counts once for readers of committed records.
- ``state``: with transactions, the state that a task keeps counts the same records.
- ``double``: no generation gives a partition to two members (that model's ``NoDoubleTargetAssignment``).
- ``second round``: what a cooperative hand-over gives in its first round, its second one gives to the same members.
- ``acting``: no leader acts on lag before its group has rested, and so often at most.
- ``lost``: in the end everything was read, and with transactions counts.
- ``settles``: in the end each partition has one reader, and everything is committed.
- ``crashed``: no exception leaves a member.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final

from apportion.errors import ApportionError
from apportion.testing.simulation.stage import Process, Stage
from apportion.wire.coordinator import Commit, GroupGeneration, decode
from apportion.wire.partitions import Held

CALM_S: Final = 25.0
"""So long after a fault, records that are read twice have no excuse."""
METADATA_S: Final = 10.0
"""So long after a topic grew, members may not all know of it."""
STATE_TAIL: Final = 60
"""Offsets at the end of a changelog in which its newest value is looked for."""
Pair = tuple[str, int]


class CheckFailed(ApportionError):
    """A promise is broken in this state; ``check`` is its name above."""

    def __init__(self, check: str, sentence: str) -> None:
        super().__init__(f"{check}: {sentence}")
        self.check, self.sentence = check, sentence


class Checks:
    """The checks of one run.

    sources
        Topics whose records members read and commit.
    counted
        The topic into which members of exactly once send each record's value, if they do.
    kept
        The changelog of their state, whose values are how many records of that partition were counted.
    habits
        Of the members: with ``repeats`` each record counts at least once, else once; with ``warms`` a second round may
        take what its next owner is warm for by then.
    """

    def __init__(
        self,
        stage: Stage,
        sources: list[str],
        counted: str | None = None,
        kept: str | None = None,
        habits: frozenset[str] = frozenset(),
    ) -> None:
        self.stage, self.sources, self.counted, self.kept = stage, sources, counted, kept
        self.exact, self.warms = "repeats" not in habits, "warms" in habits
        self.committed: dict[tuple[str, str, int], int] = {}
        self.members: dict[str, set[str]] = defaultdict(set)
        self.rounds: dict[str, GroupGeneration] = {}
        self.grown_at = self.planned_at = -1e9
        self.holds: dict[Pair, dict[Process, float]] = defaultdict(dict)
        self.read: dict[Pair, dict[int, tuple[Process, float]]] = defaultdict(dict)
        self.whole: dict[Pair, int] = defaultdict(int)
        self.outputs: dict[bytes | None, int] = {}
        self._output_seen: dict[Pair, int] = defaultdict(int)
        self._numbers: dict[int, int] = defaultdict(int)
        self.member_id: Callable[[Process], str] = lambda process: getattr(process, "member_id", lambda: "")()
        stage.cluster.on_record.append(self._written)
        stage.world.on_event.append(self._happened)

    def _broken(self, check: str, sentence: str) -> None:
        """The run ends before anything else happens: clients would catch an exception that is raised among them."""
        self.stage.world.stop(CheckFailed(check, sentence))

    # -- what members say

    def assigned(self, process: Process, pairs: set[Pair]) -> None:
        """A member may read these from now on."""
        self.stage.world.note("assigned", member=process.name, partitions=sorted(pairs))
        for pair in pairs:
            self.holds[pair][process] = self.stage.world.now
            if self.counted is None:  # what a replaced member works on there, no commit of its own takes up
                self._look_for_two(pair)

    def given_up(self, process: Process, pairs: set[Pair], how: str) -> None:
        """A member reads these no longer; ``how`` is revoked, lost or closed."""
        self.stage.world.note(how, member=process.name, partitions=sorted(pairs))
        for pair in pairs:
            self.holds[pair].pop(process, None)

    def given(self, process: Process, pair: Pair, offsets: list[int]) -> None:
        """Records were given to a member's code."""
        self.stage.world.note("read", member=process.name, partition=pair, offsets=[offsets[0], offsets[-1]])
        now = self.stage.world.now
        for offset in offsets:
            before = self.read[pair].get(offset)
            if before is not None and self.counted is None:
                self._twice(process, pair, offset, *before)
            self.read[pair][offset] = process, now

    def sought(self, pair: Pair, offset: int) -> None:
        """A member is about to read again from there, on its own wish."""
        for at, (reader, _) in self.read[pair].items():
            if at >= offset:
                self.read[pair][at] = reader, -1e9

    def _twice(self, process: Process, pair: Pair, offset: int, reader: Process, at: float) -> None:
        calm = at - self.stage.troubled_until > CALM_S
        if calm and not reader.dead:
            self._broken(
                "twice",
                f"{reader.name} read offset {offset} of {pair} at {at:.1f} s, and {process.name} got it again at "
                f"{self.stage.world.now:.1f} s, with no fault in reach",
            )

    def _look_for_two(self, pair: Pair) -> None:
        current = set().union(*self.members.values()) if self.members else set()
        holders = [p for p in self.holds[pair] if not p.dead and self.member_id(p) in current]
        if len(holders) > 1:
            names = " and ".join(sorted(p.name for p in holders))
            self._broken("two readers", f"{names} hold {pair}, and the group counts on each of them")

    def planned(self, acts: bool, rest_s: float) -> None:
        """A leader planned a rebalance, by acting on lag or for any other cause."""
        now = self.stage.world.now
        self.stage.world.note("planned", acts=acts)
        if acts and now - self.planned_at < rest_s:
            self._broken("acting", f"a leader acted {now - self.planned_at:.1f} s after a plan, and rests {rest_s:g} s")
        self.planned_at = now

    # -- what the coordinator writes

    def _written(self, key: bytes, value: bytes | None) -> None:
        if key[1] > 2:
            return
        record = decode(key, value)
        if isinstance(record, GroupGeneration):
            self.members[record.group] = {member.member_id for member in record.members}
            self._compare_rounds(record)
            self.stage.world.note("generation", number=record.generation, members=len(record.members))
        elif isinstance(record, Commit):
            self._commit(record)

    def _compare_rounds(self, record: GroupGeneration) -> None:
        before, owner = self.rounds.get(record.group), dict[Pair, str]()
        self.rounds[record.group] = record
        for member in record.members:
            for pair in _pairs(member.assigned):
                if pair in owner:
                    self._broken("double", f"generation {record.generation} gives {pair} to two members")
                owner[pair] = member.member_id
        known = self.stage.world.now - self.grown_at > METADATA_S
        if self.counted is not None or self.warms or before is None or not known or not _second_round(before, record):
            return
        for member in before.members:
            for pair in _pairs(member.assigned):
                if owner.get(pair) != member.member_id:
                    which = f"generation {before.generation} gave {pair} to {member.client_id}"
                    self._broken("second round", f"{which}, and the next one, of the same members, takes it away")

    def _commit(self, record: Commit) -> None:
        pair, at = (record.topic, record.partition), (record.group, record.topic, record.partition)
        if record.committed is None:
            self.committed.pop(at, None)
            return
        if self.counted is not None:
            return  # a transaction's offsets count with its marker: ``once`` and ``lost`` look at what came of them
        before = self.committed.get(at, 0)
        self.stage.world.note("committed", partition=pair, offset=record.committed)
        if record.committed < before:
            self._broken("commit back", f"the committed offset of {pair} went from {before} to {record.committed}")
        self.committed[at] = record.committed
        if pair[0] in self.sources and self._unread(pair, record.committed) is not None:
            offset = self._unread(pair, record.committed)
            self._broken(
                "commit ahead", f"{record.committed} of {pair} is committed, and no member got offset {offset}"
            )

    def _unread(self, pair: Pair, below: int) -> int | None:
        """The first offset of a record below that one which no member was given."""
        read, at = self.read[pair], self.whole[pair]
        while at < below and at in read:
            at += 1
        self.whole[pair] = at
        return None if at >= below else at

    # -- transactions

    def _happened(self, event: dict[str, Any]) -> None:
        if event["event"] == "grow":
            self.grown_at = self.stage.world.now
        if event["event"] == "crashed":
            self._broken("crashed", f"{event['fiber']}: {event['error']}")
        if event["event"] == "markers" and self.counted is not None:
            self._count()
            if self.exact:
                self._compare_state(event["partitions"])

    def _count(self) -> None:
        for (topic, partition), log in self.stage.cluster.logs.items():
            if topic == self.counted and log.stable > self._output_seen[topic, partition]:
                for offset, _, value, _ in log.values(begin=self._output_seen[topic, partition]):
                    if value in self.outputs and self.exact:
                        self._broken("once", f"{value!r} counts twice: offset {offset} of {topic} {partition}")
                    self.outputs[value] = offset
                    self._numbers[partition] += 1
                self._output_seen[topic, partition] = log.stable

    def _compare_state(self, partitions: list[Pair]) -> None:
        """The state of tasks whose transaction has ended, if no other one is open."""
        for topic, p in partitions:
            if topic != self.kept or self.counted is None:
                continue
            log, counted = (self.stage.cluster.logs.get((name, p)) for name in (topic, self.counted))
            if log is None or counted is None or log.stable < log.end or counted.stable < counted.end:
                continue
            values = [value for *_, value, _ in log.values(max(0, log.end - STATE_TAIL))]
            if values and int(values[-1] or 0) != self._numbers[p]:
                self._broken("state", f"task {p} has counted {values[-1]!r} records, and {self._numbers[p]} count")

    # -- the end

    def unsettled(self) -> tuple[str, str]:
        """The check that fails if the group stays as it is now, and why; two empty texts once it is at rest."""
        logs = {pair: log for pair, log in self.stage.cluster.logs.items() if pair[0] in self.sources}
        for (topic, p), log in logs.items():
            holders = [x.name for x in self.holds[topic, p] if not x.dead]
            committed = max((self.committed.get((group, topic, p), 0) for group in self.members), default=0)
            if len(holders) != 1:
                return "settles", f"{topic} {p} is held by {holders}"
            if self.counted is None and (offset := self._unread((topic, p), log.end)) is not None:
                return "lost", f"no member got offset {offset} of {topic} {p}"
            if self.counted is None and committed < log.end:
                return "settles", f"{topic} {p} is committed up to {committed}, and ends at {log.end}"
        if self.counted is not None:
            self._count()
            values = {value for log in logs.values() for _, _, value, _ in log.values()}
            if missing := values - self.outputs.keys():
                return "lost", f"{len(missing)} records do not count, such as {min(v for v in missing if v)!r}"
        return "", ""


def _pairs(held: Held) -> Iterator[Pair]:
    return ((topic, p) for topic, ids in held for p in ids)


def _second_round(before: GroupGeneration, record: GroupGeneration) -> bool:
    """Whether the same members, which all took their first round's part, join for the withheld partitions."""
    got = {member.member_id: set(_pairs(member.assigned)) for member in before.members}
    claims = {pair for member in before.members for pair in _pairs(member.owned)}
    wanted = {member.member_id: member.topics for member in before.members}
    took_part = all(
        member.owned_generation == before.generation
        and set(_pairs(member.owned)) == got.get(member.member_id)
        and member.topics == wanted[member.member_id]
        for member in record.members
    )
    return took_part and len(got) == len(record.members) and not claims <= set().union(*got.values())
