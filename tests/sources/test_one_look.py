"""Readers of a cluster and of files in their odd cases, each in milliseconds.

A cluster is stood in for request by request; a real one and its recording are asked elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion.errors import Unavailable
from apportion.sources import (
    cluster,
    cluster_round,
    load_history,
    log_tails,
)


class Told(dict[str, Any]):
    """Fields of an answer, as attributes too."""

    __getattr__ = dict.__getitem__

    def to_dict(self) -> dict[str, Any]:
        return self


class Admin:
    """A client whose requests are answered by a function of the request's name, its fields and the broker."""

    def __init__(self, answer: Callable[[str, dict[str, Any], Any], Any], version: int = 9) -> None:
        self.answer, self.asked = answer, list[Any]()
        known = SimpleNamespace(api_version=lambda request: version)
        self._manager = SimpleNamespace(send=self._send, run=self._run, broker_version_data=known)

    @staticmethod
    def _run(do: Any, *given: Any) -> Any:
        return asyncio.run(do(*given))

    async def _send(self, request: Any, node_id: Any) -> Any:
        name, fields = type(request).__name__.partition("_")[0], request.to_dict()
        self.asked.append([name, node_id, fields])
        answer = self.answer(name, fields, node_id)
        if isinstance(answer, Exception):
            raise answer
        return answer


def part(number: int, leader: int, nodes: list[int], epoch: int = 3) -> Told:
    return Told(
        partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=nodes, error_code=0,
    )  # fmt: skip


METADATA = Told(
    cluster_id="the cluster",
    brokers=[Told(node_id=n, host=f"h{n}", port=9092 + n, rack=rack) for n, rack in ((2, "b"), (0, "a"), (1, None))],
    topics=[
        Told(name="t", topic_id=None, error_code=0,
             partitions=[part(2, 0, [0, 2]), part(0, 2, [2, 1]), part(1, -1, [])]),
        Told(name="u", topic_id="ad070dd7-f2f8-e471-50a5-f9c8783c206a", error_code=0, partitions=[part(0, 1, [9, 1])]),
        Told(name="refused", topic_id=None, error_code=29, partitions=[part(0, 0, [0])]),
        Told(name="__transaction_state", topic_id=None, error_code=0, partitions=[part(0, 0, [0])]),
        Told(name="__consumer_offsets", topic_id=None, error_code=0,
             partitions=[part(p, p - 1, [0], p) for p in range(4)]),
    ],
)  # fmt: skip


def test_a_look_that_shows_nothing_is_an_error_and_one_that_shows_little_is_none() -> None:
    from kafka import errors

    def nobody(name: str, fields: dict[str, Any], node: Any) -> Any:
        if name == "MetadataRequest":
            return Told(METADATA, topics=[])
        return errors.KafkaTimeoutError("late")

    with pytest.raises(Unavailable) as refused:
        cluster_round.look(cluster.Cluster("b:1", Admin(nobody)))
    assert str(refused.value) == "the groups of broker h0:9092 (0) are not known: the broker did not answer in time."

    def empty(name: str, fields: dict[str, Any], node: Any) -> Any:
        return Told(METADATA, topics=[]) if name == "MetadataRequest" else Told(error_code=0, groups=[], topics=[])

    seen = cluster_round.look(cluster.Cluster("b:1", Admin(empty)))
    assert (seen.groups, seen.unknown, seen.troubles, seen.listed_all, seen.brokers) == ({}, {}, [], True, 3)
    assert seen.listed("any")
    assert not cluster_round.Round(silent=frozenset({1})).listed("any")


def test_tails_are_asked_of_each_leader_and_what_it_refuses_is_left_out() -> None:
    from kafka import errors

    def answer(name: str, fields: dict[str, Any], node: Any) -> Any:
        if name == "MetadataRequest":
            parts = [part(0, 0, []), part(1, 1, []), part(2, -1, []), part(3, 0, [])]
            return Told(topics=[Told(name="t", partitions=parts), Told(name="u", partitions=[part(0, 0, [])])])
        if node == 1:
            return errors.KafkaConnectionError("gone")
        return Told(responses=[
            Told(topic=one["topic"], partitions=[
                Told(partition_index=p["partition"], error_code=29 if one["topic"] == "u" else 0, records=None,
                     aborted_transactions=None) for p in [*one["partitions"], {"partition": 77}]])
            for one in fields["topics"]])  # fmt: skip

    admin = Admin(answer)
    places = {("t", 0): 5, ("t", 1): 6, ("t", 2): 7, ("t", 3): 0, ("u", 0): 9, ("gone", 0): 1}
    assert log_tails.tails(cluster.Cluster("b:1", admin), places) == {
        ("t", 0): log_tails.Tail(5, False), ("t", 3): log_tails.Tail(0, False),
    }  # fmt: skip


def made(folder: Path, ends: list[Any], topics: list[tuple[Any, ...]] | None = None) -> list[Path]:
    """Files of log ends, rows of topic, partition, begin, end, last stable and second."""
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("begin", pa.int64()), ("end", pa.int64()),
                        ("last_stable", pa.int64()), ("at", pa.timestamp("ms", "UTC"))])  # fmt: skip
    files = []
    for n, rows in enumerate(ends):
        at = [row[5] if row[5] is None else datetime.fromtimestamp(row[5], UTC) for row in rows]
        columns = [*([row[i] for row in rows] for i in range(5)), at]
        files.append(folder / f"{n}.parquet")
        pq.write_table(pa.table(columns, schema=schema), files[-1])
    if topics is not None:
        kinds = pa.schema([("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()),
                           ("racks", pa.list_(pa.string()))])  # fmt: skip
        files.append(folder / "topics.parquet")
        pq.write_table(pa.table([[row[i] for row in topics] for i in range(4)], schema=kinds), files[-1])
    return files


def test_the_offset_behind_the_last_record_is_told_of_each_partition(tmp_path: Path) -> None:
    for top in (tmp_path / "dump" / "records", *(tmp_path / "tables" / "silver" / n for n in ("commits", "generations",
                                                                                           "epochs"))):  # fmt: skip
        top.mkdir(parents=True)
    made(tmp_path / "dump", [[]])
    (tmp_path / "dump" / "0.parquet").rename(tmp_path / "dump" / "ends.parquet")
    pieces = [[(0, 5), (1, 7), (0, 3)], [(0, 4), (2, 0)], [(1, 9), (1, 8)]]
    for n, (rows, name) in enumerate(zip(pieces, ("commits", "generations", "epochs"), strict=True)):
        partition, offset = pa.array([p for p, _ in rows], pa.int32()), pa.array([at for _, at in rows], pa.int64())
        empty = pa.array([None] * len(rows), pa.binary())
        at = pa.array([1] * len(rows), pa.timestamp("ms", "UTC"))
        record = {"key": empty, "value": empty, "partition": partition, "offset": offset, "timestamp": at}
        pq.write_table(pa.table(record), tmp_path / "dump" / "records" / f"{n}.parquet")
        silver = pa.table({"source_partition": partition, "source_offset": offset})
        pq.write_table(silver, tmp_path / "tables" / "silver" / name / f"{n}.parquet")
    for folder in ("dump", "tables"):
        assert load_history.next_offsets(tmp_path / folder) == {0: 6, 1: 10, 2: 1}, folder
