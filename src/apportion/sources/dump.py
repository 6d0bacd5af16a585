"""A dump of ``__consumer_offsets`` read without Spark: its groups as they are now, and their history."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.history.commits import GroupCommits, commit_time, topic_names
from apportion.history.group_history import GroupHistories, GroupHistory, TopicMetadata
from apportion.history.records import GroupRecord
from apportion.model.build import build
from apportion.model.protocols import OTHERS
from apportion.sighting.sighting import Sighting
from apportion.wire.coordinator import Commit, EpochRecord, GroupGeneration, readable

if TYPE_CHECKING:
    from apportion.sources.parquet import Check

Row = Mapping[str, Any]


def sighted(group: GroupHistory) -> Sighting:
    """One group as it is at the newest records."""
    present, seen = group.present, build(_as_live(group))
    if present is None:
        return Sighting(seen)
    return Sighting(
        seen, present.state, present.type, present.protocol, generation=present.generation, notes=present.sentences,
        roles=present.members if present.type in OTHERS else (),
    )  # fmt: skip


def _as_live(group: GroupHistory) -> dict[str, Any]:
    """group.json with the partitions that a live cluster's has: of topics that no member wants, those committed alone.

    So does ``kafka-consumer-groups``, which lists what is assigned or committed. Replays need the others too.
    """
    members = group.raw["members"].values()
    wanted = {topic for fields in members for topic in (*fields["topics"], *fields.get("owned", ()))}
    topics = {
        topic: entries if topic in wanted else [entry for entry in entries if "committed" in entry]
        for topic, entries in group.raw["topics"].items()
    }
    return {**group.raw, "topics": {topic: entries for topic, entries in topics.items() if entries}}


def next_offsets(path: str | Path) -> dict[int, int]:
    """Partition of the topic to the offset behind its last record."""
    from apportion.sources import dump_files, parquet

    columns, filled = dump_files.RECORDS, dump_files.FILLED
    return parquet.behind_newest(dump_files.find(path).records, columns, filled, "partition", "offset")


def load_histories(path: str | Path) -> GroupHistories:
    """All groups of a dump with their histories; unreadable records are left out here."""
    from apportion.sources import dump_files

    files = dump_files.find(path)
    ends, topics = rows_of(files.ends, dump_files.ENDS), rows_of(files.topics, dump_files.TOPICS)
    return histories(_records(files.records), ends, topics)


def recorded_histories() -> GroupHistories:
    """All groups of the recorded cluster that ships as text, which needs no Arrow."""
    from apportion.demo import rows

    tables = rows()
    records = sorted(tables["records"], key=lambda row: (row[0], row[1]))
    first: dict[int, tuple[int, int]] = {}
    raws = []
    for i, (partition, offset, at, key, value) in enumerate(records):
        begin, place = first.setdefault(partition, (offset, i))
        holes = offset - begin - (i - place)
        raws.append(Raw(_body(key), _body(value), offset, at, holes))
    return histories(raws, tables["ends"], tables["topics"])


def _body(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def histories(raws: Iterable[Raw], ends: Iterable[Row], topics: Iterable[Row]) -> GroupHistories:
    """All groups of records in order, with the topics that they read."""
    drafts: dict[str, GroupUnderway] = {}
    names: set[tuple[str, str]] = set()
    for raw in raws:
        _take(raw, drafts, names)
    world = read_world(ends, topics, names)
    return GroupHistories({name: drafts[name].done(name, world) for name in sorted(drafts)}, world)


def every_commit(path: str | Path) -> Iterator[tuple[str, tuple[str, int], int, int]]:
    """Every commit as group, (topic, partition), commit time (ms) and offset, in the order of the records."""
    from apportion.sources import dump_files

    for raw in _records(dump_files.find(path).records):
        record = readable(raw.key, raw.value)
        if isinstance(record, Commit) and record.committed is not None:
            at = commit_time(record.commit_time)
            if at is not None:
                yield record.group, (record.topic, record.partition), at, record.committed


def end_samples(path: str | Path) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Every sample of a log's end as (topic, partition), time (ms) and end."""
    from apportion.sources import dump_files

    files = dump_files.find(path)
    return ends_in({**files.samples, **files.ends})


def ends_in(files: Iterable[Path]) -> Iterator[tuple[tuple[str, int], int, int]]:
    """The samples in these files."""
    from apportion.sources import dump_files, parquet

    for file in files:
        table = parquet.read(file, dump_files.ENDS)
        columns = (table[name].to_pylist() for name in ("topic", "partition", "at", "end"))
        for topic, partition, at, end in zip(*columns, strict=True):
            if None not in (topic, partition, at, end):
                yield (topic, partition), at, end


@dataclass
class GroupUnderway:
    """A group while its records are read in order."""

    events: list[GroupRecord] = field(default_factory=list)
    commits: GroupCommits = field(default_factory=GroupCommits)

    def commit(self, record: Commit) -> None:
        """Take a commit or its deletion."""
        after = self.events[-1].offset if self.events else -1
        partition = (record.topic, record.partition)
        self.commits.take(partition, record.committed, record.topic_id, record.commit_time, after)

    def done(self, name: str, world: TopicMetadata) -> GroupHistory:
        """The group, once all is read."""
        return GroupHistory(name, self.events, self.commits.standing, self.commits.times.intervals(), world)


def rows_of(files: Iterable[Path], columns: Mapping[str, Check]) -> Iterator[Row]:
    """The rows of a table of the dump, ``ENDS`` or ``TOPICS`` of ``dump_files``."""
    from apportion.sources import parquet

    for file in files:
        yield from parquet.read(file, columns).to_pylist()


@dataclass(frozen=True, slots=True)
class Raw:
    """One record before it is decoded, with the offsets that are missing before it."""

    key: bytes | None
    value: bytes | None
    offset: int
    at: int
    holes: int


def _take(raw: Raw, drafts: dict[str, GroupUnderway], names: set[tuple[str, str]]) -> None:
    record = readable(raw.key, raw.value)
    if isinstance(record, Commit):
        drafts.setdefault(record.group, GroupUnderway()).commit(record)
        if record.topic_id is not None:
            names.add((record.topic_id, record.topic))
    elif isinstance(record, GroupGeneration | EpochRecord):
        drafts.setdefault(record.group, GroupUnderway()).events.append(
            GroupRecord(raw.offset, raw.at, record, raw.holes)
        )


def _records(files: Iterable[Path]) -> Iterator[Raw]:
    """All records by partition and offset, each offset once."""
    import pyarrow as pa

    from apportion.sources import dump_files, parquet

    tables = [parquet.read(file, dump_files.RECORDS, dump_files.FILLED) for file in files]
    wide, number = pa.large_binary(), pa.int64()
    fields = {"key": wide, "value": wide, "partition": pa.int32(), "offset": number, "timestamp": number}
    plain = pa.schema(list(fields.items()))
    table = pa.concat_tables([t.cast(plain) for t in tables])
    partition, offset = (table[name].to_numpy() for name in ("partition", "offset"))
    order = np.lexsort((offset, partition))
    partition, offset = partition[order], offset[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (partition[1:] != partition[:-1]) | (offset[1:] != offset[:-1])
    order, partition, offset = order[new], partition[new], offset[new]
    first = np.searchsorted(partition, partition)
    holes = (offset - offset[first]) - (np.arange(len(order)) - first) if len(order) else offset
    table = table.take(pa.array(order)).append_column("holes", pa.array(holes))
    for part in table.select(["key", "value", "offset", "timestamp", "holes"]).to_batches(max_chunksize=10_000):
        yield from map(Raw, *part.to_pydict().values())


def read_world(ends: Iterable[Row], topics: Iterable[Row], names: Iterable[tuple[str, str]]) -> TopicMetadata:
    """The topics with their newest log ends, racks and ids.

    names
        (id, name) that commits told of, for topics that are deleted; the topics' own ids win.
    """
    entries: dict[str, dict[int, dict[str, Any]]] = {}
    newest: dict[tuple[str, int], tuple[int, Any]] = {}
    for row in ends:
        topic_partition = (row["topic"], row["partition"])
        if None in (*topic_partition, row["at"]):
            continue  # a sample of nobody knows what, or when
        at, before = row["at"], newest.get(topic_partition)
        if before is not None and before[0] > at:
            continue
        logs = {name: row[name] for name in ("begin", "end", "last_stable")}
        if before is None or before[0] < at or _filled(before[1]) <= _filled(logs):
            newest[topic_partition] = at, logs
            entries.setdefault(row["topic"], {})[row["partition"]] = {"partition": row["partition"], **logs}
    ids: dict[str, str] = {}
    for row in topics:
        if row["topic"] is None or row["partition"] is None:
            continue
        entry = entries.setdefault(row["topic"], {}).setdefault(row["partition"], {"partition": row["partition"]})
        entry["racks"] = sorted({rack for rack in row["racks"] or () if rack})
        if row["topic_id"]:
            ids[row["topic"]] = max(ids.get(row["topic"], ""), row["topic_id"])
    known = topic_names(names, ((topic_id, topic) for topic, topic_id in ids.items()))
    ordered = {topic: [entries[topic][p] for p in sorted(entries[topic])] for topic in sorted(entries)}
    return TopicMetadata(ordered, ids, known)


def _filled(logs: Mapping[str, int | None]) -> list[tuple[bool, int]]:
    """The order that decides which of two samples of one moment counts, in any file."""
    return [(value is not None, value or 0) for value in logs.values()]
