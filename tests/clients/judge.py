"""Reads the members' own words after a chaos and says whether anything went wrong.

The clock is the machine's, so times of different processes compare. What a member says it holds is an interval: from
the assignment that gave it until it was revoked, lost or the process ended, with the generations it took part in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from apportion.errors import UnreadableBytes
from apportion.wire.coordinator import Commit, decode

Event = dict[str, Any]
Partition = tuple[str, int]


@dataclass
class Held:
    """One member held one partition for a while.

    generations
        Those it took part in meanwhile.
    how
        ``revoked``, ``lost``, ``ended``.
    next_generation
        The first one that it took part in afterwards.
    """

    member: str
    partition: Partition
    start: float
    generations: list[int]
    end: float = float("inf")
    how: str = "ended"
    next_generation: int | None = None


@dataclass
class Life:
    """All that one member told, in one form for all clients.

    fell
        When it was killed or frozen: what it had read and not committed by then, somebody reads again.
    """

    name: str
    cooperative: bool
    events: list[Event]
    ended: float | None
    kind: str = ""
    fell: tuple[float, ...] = ()
    held: list[Held] = field(default_factory=list)

    def live(self) -> Life:
        """Turn events into intervals."""
        now: dict[Partition, Held] = {}
        for event in self.events:
            kind, at = event["event"], float(event["at"])
            if kind in ("revoked", "lost", "left"):
                gone = set(now) if kind == "left" else pairs(event["partitions"])
                self._close(now, gone, at, kind)
            elif kind in ("assigned", "assignment"):
                # Java tells what is new in "assigned" and all it has in "assignment"; Python tells all.
                whole = pairs(event["partitions"])
                if kind == "assignment" or "holds" not in event:
                    self._close(now, set(now) - whole, at, "revoked")
                generation = int(event["generation"])
                if generation < 0:
                    continue
                for held in self.held:
                    if held.end <= at and held.next_generation is None:
                        held.next_generation = generation
                for partition in whole:
                    if partition not in now:
                        now[partition] = Held(self.name, partition, at, [])
                for held in now.values():
                    if not held.generations or held.generations[-1] != generation:
                        held.generations.append(generation)
        self._close(now, set(now), self.ended or float("inf"), "ended")
        return self

    def _close(self, now: dict[Partition, Held], gone: Iterable[Partition], at: float, how: str) -> None:
        for partition in gone:
            held = now.pop(partition, None)
            if held is not None:
                held.end, held.how = at, how
                self.held.append(held)


def pairs(partitions: dict[str, list[int]]) -> set[Partition]:
    return {(topic, p) for topic, ids in partitions.items() for p in ids}


def two_owners(lives: Iterable[Life]) -> Iterator[str]:
    """Every moment in which two living members of the current generation held one partition.

    A member that was expelled is none of the current generation, however long it believes so: it counts again from
    the generation that it rejoins, and must have let go by then.
    """
    cooperative = {life.name: life.cooperative for life in lives}
    by_partition: dict[Partition, list[Held]] = defaultdict(list)
    for life in lives:
        for held in life.held:
            by_partition[held.partition].append(held)
    for partition, all_held in by_partition.items():
        all_held.sort(key=lambda held: held.start)
        for i, a in enumerate(all_held):
            for b in all_held[i + 1 :]:
                if a.member != b.member and (why := clash(a, b, cooperative[a.member])):
                    yield f"{partition}: {why}: {a} and {b}"


def clash(a: Held, b: Held, cooperative: bool) -> str:
    """Why two intervals of one partition cannot both be right, the first having begun earlier; "" if they can."""
    if set(a.generations) & set(b.generations):
        return "both in one generation"
    overlap = min(a.end, b.end) - b.start
    if overlap <= 0 or a.next_generation is None:
        return ""
    if a.next_generation == b.generations[0]:
        return "the first still held it in the generation that gave it to the second"
    if cooperative and a.how == "revoked" and a.next_generation in b.generations:
        return "an expelled member held it while it rejoined"
    return ""


def unread(lives: Iterable[Life], ends: dict[Partition, int]) -> list[str]:
    """Records that no member read."""
    read: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    for _, _, partition, first, last in reads(lives):
        read[partition].append((first, last))
    missing = []
    for partition, end in ends.items():
        at = 0
        for first, last in sorted(read.get(partition, [])):
            if first > at:
                missing.append(f"{partition}: {at} to {first - 1}")
            at = max(at, last + 1)
        if at < end:
            missing.append(f"{partition}: {at} to {end - 1}")
    return missing


OF_ITS_OWN, OF_THE_FALLEN = " of its own", " of the fallen"


def read_again(lives: Iterable[Life]) -> dict[str, int]:
    """How many records were read that somebody had read before, by the kind of member that did so.

    ``java of its own``: it had read them itself, last of all. ``java of the fallen``: the last reader was killed,
    frozen or expelled before it had committed, which no strategy can help. ``java``: it took over from a living one.
    """
    lives = list(lives)
    kind = {life.name: life.kind for life in lives}
    fell = {life.name: [*life.fell, *(e["at"] for e in life.events if e["event"] == "lost")] for life in lives}
    newest: dict[Partition, dict[int, tuple[str, float]]] = defaultdict(dict)
    again: dict[str, int] = defaultdict(int)
    for at, name, partition, first, last in sorted(reads(lives)):
        readers = newest[partition]
        for offset in range(first, last + 1):
            if offset in readers:
                before, then = readers[offset]
                own = OF_ITS_OWN if before == name else ""
                again[kind[name] + (OF_THE_FALLEN if any(then < t <= at for t in fell[before]) else own)] += 1
            readers[offset] = name, at
    return dict(sorted(again.items()))


def of_the_living(again: dict[str, int]) -> int:
    """What was read again because a rebalance took it from, or interrupted, a member that lived."""
    return sum(count for what, count in again.items() if not what.endswith(OF_THE_FALLEN))


def reads(lives: Iterable[Life]) -> Iterator[tuple[float, str, Partition, int, int]]:
    """Every batch: when, who, partition, first and last offset."""
    for life in lives:
        for event in life.events:
            if event["event"] == "read":
                yield event["at"], life.name, (event["topic"], event["partition"]), event["first"], event["last"]
            elif event["event"] == "records":
                for topic, ids in event["firsts"].items():
                    for p, first in ids.items():
                        yield event["at"], life.name, (topic, int(p)), first, event["positions"][topic][p] - 1


def backwards(bootstrap: str, groups: Iterable[str]) -> list[str]:
    """Commits below an earlier one of the same group and partition, from the coordinator's own log."""
    from kafka import KafkaConsumer, TopicPartition

    wanted, newest, found = set(groups), {}, []
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        parts = consumer.partitions_for_topic("__consumer_offsets") or set()
        logs = [TopicPartition("__consumer_offsets", p) for p in sorted(parts)]
        consumer.assign(logs)
        ends = consumer.end_offsets(logs)
        consumer.seek_to_beginning(*logs)
        while any(consumer.position(log) < ends[log] for log in logs):
            for record in chain.from_iterable(consumer.poll(timeout_ms=500).values()):
                try:
                    commit = decode(record.key, record.value)
                except UnreadableBytes:
                    continue
                if not isinstance(commit, Commit) or commit.tombstone or commit.group not in wanted:
                    continue
                key = (commit.group, commit.topic, commit.partition)
                if commit.committed < newest.get(key, 0):
                    found.append(f"{key}: {newest[key]}, then {commit.committed} at {commit.commit_time}")
                newest[key] = commit.committed
    finally:
        consumer.close(autocommit=False)
    return found
