"""Where offsets come from: anything that can be asked for topics, and a file, a table or a dict that can.

    source = FileSource(Path("lake/gold/lag"), group="ads-join")
    group = with_offsets(group, source)          # group.json as a dict; lag-aware strategies then see the lag

A source that asks a broker stands with the clients; it is one more class with ``read``. What it cannot reach is
``Unavailable``, and then a rebalance goes on without lag.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from apportion.errors import BadInput, MissingExtra, Unavailable

TopicPartition = tuple[str, int]
FIELDS = ("begin", "end", "committed")
_MOST = 2**63 - 1


@dataclass(frozen=True)
class Offsets:
    """What is known of a partition's log: begin, end and the next offset to read; None unknown, or never committed."""

    begin: int | None = None
    end: int | None = None
    committed: int | None = None


@runtime_checkable
class LagSource(Protocol):
    """Anything that knows offsets."""

    def read(self, topics: Iterable[str]) -> Mapping[TopicPartition, Offsets]:
        """What is known of the topics' partitions; one that is not in the answer is unknown."""
        ...


@dataclass(frozen=True)
class KnownOffsets:
    """Offsets that are at hand already."""

    offsets: Mapping[TopicPartition, Offsets]

    def read(self, topics: Iterable[str]) -> Mapping[TopicPartition, Offsets]:
        """Those of the topics."""
        asked = set(topics)
        return {place: known for place, known in self.offsets.items() if place[0] in asked}


@dataclass(frozen=True)
class FileSource:
    """Offsets in a file: CSV, JSON, or Parquet as the pipeline's ``gold/lag`` has it.

    path
        ``.csv`` with a line of names; ``.json`` with a list of objects; else a Parquet file or a folder of them.
        The columns are ``topic, partition, begin, end, committed`` and, where there are several groups, ``group``.
    group
        Whose rows count; needed only where the file has a column ``group`` with more than one in it.
    """

    path: Path
    group: str | None = None

    def read(self, topics: Iterable[str]) -> Mapping[TopicPartition, Offsets]:
        """What the file knows of the topics; ``Unavailable`` if it cannot be read, ``BadInput`` if it is wrong."""
        asked = set(topics)
        found: dict[TopicPartition, Offsets] = {}
        groups: set[str] = set()
        for where, row in _rows(self.path):
            of = row.get("group")
            if self.group is not None and of not in (None, self.group):
                continue
            groups.add(str(of))
            if len(groups) > 1:
                raise BadInput(where, f"rows of groups {', '.join(sorted(groups))}", "the name of one group to read")
            place = _place(where, row)
            if place[0] in asked:
                if place in found:
                    raise BadInput(where, f"{place[0]}-{place[1]} a second time", "each partition once")
                found[place] = Offsets(**{name: _offset(f"{where}.{name}", row.get(name)) for name in FIELDS})
        return found


def with_offsets(group: Mapping[str, Any], source: LagSource) -> dict[str, Any]:
    """The group (as in group.json) with what the source knows of its topics; a given ``lag`` still wins."""
    known = source.read(group["topics"])
    topics = {
        topic: [_known(entry, known.get((topic, entry["partition"]))) for entry in _entries(what)]
        for topic, what in group["topics"].items()
    }
    return {**group, "topics": topics}


def merged(
    first: Mapping[TopicPartition, Offsets], second: Mapping[TopicPartition, Offsets]
) -> dict[TopicPartition, Offsets]:
    """Both, where what the first knows of a partition wins field by field."""
    result = dict(second)
    for place, known in first.items():
        told = {name: value for name in FIELDS if (value := getattr(known, name)) is not None}
        result[place] = replace(result.get(place, Offsets()), **told)
    return result


def _entries(what: int | list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from ({"partition": p} for p in range(what)) if isinstance(what, int) else what


def _known(entry: dict[str, Any], known: Offsets | None) -> dict[str, Any]:
    if known is None:
        return entry
    told = {name: value for name in FIELDS if (value := getattr(known, name)) is not None}
    return {**entry, **told}


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row of the file with its place."""
    try:
        if path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                yield from ((f"{path.name}, line {i}", row) for i, row in enumerate(csv.DictReader(file), start=2))
        elif path.suffix == ".json":
            yield from _json_rows(path)
        else:
            yield from _parquet_rows(path)
    except OSError as error:
        raise Unavailable(f"cannot read {str(path)!r}: {error.strerror or error}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(path.name, str(error), "UTF-8 text in rows") from None


def _json_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadInput(path.name, str(error), "JSON") from None
    if not isinstance(rows, list):
        raise BadInput(path.name, f"a {type(rows).__name__}", "a list of objects")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadInput(f"{path.name}[{i}]", f"a {type(row).__name__}", "an object")
        yield f"{path.name}[{i}]", row


def _parquet_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("reading Parquet", "spark") from None
    files = sorted(f for f in path.rglob("*.parquet") if not f.name.startswith((".", "_"))) if path.is_dir() else [path]
    if not files:
        raise Unavailable(f"cannot read {str(path)!r}: no Parquet file is in it.")
    for file in files:
        try:
            names = set(pq.read_schema(file).names)
            rows = pq.ParquetFile(file).read(sorted(names & {"group", "topic", "partition", *FIELDS})).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadInput(file.name, str(error)[:80], "a Parquet file") from None
        yield from ((f"{file.name}, row {i}", row) for i, row in enumerate(rows))


def _place(where: str, row: Mapping[str, Any]) -> TopicPartition:
    topic = row.get("topic")
    if not isinstance(topic, str) or not topic:
        raise BadInput(f"{where}.topic", repr(topic), "the name of a topic")
    partition = _offset(f"{where}.partition", row.get("partition"))
    if partition is None:
        raise BadInput(f"{where}.partition", "nothing", "a partition id")
    return topic, partition


def _offset(where: str, value: Any) -> int | None:
    """An offset from a number, or from text as CSV has it; empty text, ``-`` and null are unknown."""
    if value in (None, "", "-"):
        return None
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 30:
        value = int(value)
    if type(value) is not int or not 0 <= value <= _MOST:
        raise BadInput(where, repr(value)[:60], f"an integer from 0 to {_MOST}")
    return value
