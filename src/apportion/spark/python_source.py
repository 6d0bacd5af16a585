"""``__consumer_offsets`` as a Spark source in plain Python, for machines without access to a jar.

Same columns as Spark's own Kafka source. One task reads one partition through kafka-python, committed records alone;
slower than the connector, and nothing but pip is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from apportion.sources import cluster
from apportion.sources.properties import Properties
from apportion.spark.schemas import schema_of
from apportion.tables import schemas

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "apportion_offsets"
Position = dict[str, int]
"""Partition number, as text, to the next offset to read."""


class Span(InputPartition):
    """One partition's records from ``start`` to before ``end``."""

    def __init__(self, partition: int, start: int, end: int) -> None:
        self.partition, self.start, self.end = partition, start, end


class OffsetsSource(DataSource):
    """Options: ``bootstrap``; ``max_rows`` of a batch; ``password_properties``, a client's settings as JSON."""

    @classmethod
    def name(cls) -> str:
        """The value for ``readStream.format``."""
        return NAME

    def schema(self) -> StructType:
        """The columns of Spark's Kafka source."""
        return schema_of(schemas.RECORDS)

    def streamReader(self, schema: StructType) -> OffsetsStream:
        """The only way to read it."""
        return OffsetsStream(dict(self.options))


class OffsetsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions are asked of the broker by the planner; tasks get spans to read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.bootstrap = options["bootstrap"]
        self.settings: dict[str, str] = json.loads(options.get("password_properties", "{}"))
        self.max_rows = int(options.get("max_rows", "1000000"))
        self.target: Position | None = None

    def initialOffset(self) -> Position:
        """The log's start."""
        return {str(end.partition): end.begin for end in self._ends()}

    def prepareForTriggerAvailableNow(self) -> None:
        """From here on "all there is" means all there is now."""
        self.target = self._stable()

    def getDefaultReadLimit(self) -> Any:
        """At most ``max_rows`` in a batch."""
        return ReadMaxRows(self.max_rows)

    def latestOffset(self, start: Position | None = None, limit: Any = None) -> Position:
        """The last stable offsets, or as far towards them as the limit lets."""
        # A partition without a leader just now stays where it is: forgotten, it would be read anew from its start.
        target = {**(start or {}), **(self.target or self._stable())}
        if start is None or not isinstance(limit, ReadMaxRows):
            return target
        return towards(start, target, limit.max_rows)

    def partitions(self, start: Position, end: Position) -> list[Span]:
        """One span for each partition that moved."""
        return [Span(int(name), start.get(name, 0), to) for name, to in end.items() if to > start.get(name, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a span."""
        assert isinstance(partition, Span)  # noqa: S101 - Spark gives back what ``partitions`` gave
        span = partition
        rows = cluster.read_committed(
            self.bootstrap, self.settings, cluster.OFFSETS, span.partition, span.start, span.end
        )
        for batch in rows:
            yield _batch(span.partition, batch)

    def _ends(self) -> list[cluster.LogEnds]:
        with cluster.connect(self.bootstrap, Properties(self.settings)) as client:
            return client.ends(client.partitions([cluster.OFFSETS]))

    def _stable(self) -> Position:
        return {str(end.partition): end.last_stable for end in self._ends()}


def towards(start: Position, target: Position, rows: int) -> Position:
    """At most ``rows`` offsets further, each partition by its share of the rest.

    >>> towards({"0": 0, "1": 0}, {"0": 30, "1": 10}, 20)
    {'0': 15, '1': 5}
    """
    unread = {name: max(0, to - start.get(name, 0)) for name, to in target.items()}
    total = sum(unread.values())
    if total <= rows:
        return {name: max(to, start.get(name, 0)) for name, to in target.items()}
    # Rounded up, so that something moves even where the limit is below the number of partitions.
    return {name: start.get(name, 0) + min(unread[name], -(-unread[name] * rows // total)) for name in target}


def _batch(partition: int, rows: list[cluster.Row]) -> pa.RecordBatch:
    keys, values, offsets, times, kinds = zip(*rows, strict=True)
    columns = {
        "key": keys, "value": values, "topic": [cluster.OFFSETS] * len(rows), "partition": [partition] * len(rows),
        "offset": offsets, "timestamp": pa.array(times, pa.timestamp("ms", tz="UTC")),
        "timestampType": [kind if kind is not None else -1 for kind in kinds],
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(columns, schema=schemas.arrow_schema(schemas.RECORDS))
