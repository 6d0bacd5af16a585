"""The end of a log if a group is one or two offsets behind: messages, or markers of transactions.

A marker that ends a transaction takes an offset and is never given to an application. Who commits the offset behind its
last message stays one behind it, which no offset tells from a message that nobody reads. The heads of the last batches
do: a Fetch of a few hundred bytes from the committed offset, which needs Read on the topic.
Source: Kafka, "Implementation > Message Format", attributes of a record batch and control records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apportion.sources.cluster import Cluster, sentences

TAIL_BYTES: Final = 65_536
"""Of one log; a broker gives one batch at least, whatever its size."""
PLACES_MAX: Final = 200
"""Logs that are looked at in one round."""


@dataclass(frozen=True)
class Tail:
    """The content of a log from some offset on.

    first
        The first offset from there on that may be a message.
    message
        Whether it is known to be one.
    """

    first: int
    message: bool


Place = tuple[str, int]
"""Topic and partition."""


def tails(cluster: Cluster, places: Mapping[Place, int]) -> dict[Place, Tail]:
    """The tails of some logs from an offset each; logs that this user may not read, or no leader gave, are left out.

    Raises
        Unavailable: no broker answers.
    """
    with sentences(cluster.bootstrap):
        answer: dict[Place, Tail] = cluster._admin._manager.run(_ask, cluster._admin, places)
    return answer


async def _ask(admin: Any, places: Mapping[Place, int]) -> dict[Place, Tail]:
    from kafka.errors import KafkaError
    from kafka.protocol.metadata import MetadataRequest

    names = sorted({topic for topic, _ in places})
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    metadata = await admin._manager.send(
        MetadataRequest(topics=wanted, allow_auto_topic_creation=False, min_version=4, max_version=9), node_id=None
    )
    by_leader: dict[int, dict[Place, int]] = {}
    for topic in metadata.topics:
        for part in topic.partitions:
            pair = topic.name, part.partition_index
            if pair in places and part.leader_id >= 0:
                by_leader.setdefault(part.leader_id, {})[pair] = places[pair]
    pending = [(mine, admin._manager.send(_request(mine), node_id=node)) for node, mine in by_leader.items()]
    known: dict[Place, Tail] = {}
    for mine, future in pending:
        try:
            answer = await future
        except KafkaError:  # the next round asks again
            continue
        for topic in answer.responses:
            for part in topic.partitions:
                pair = topic.topic, part.partition_index
                if pair in mine and not part.error_code:
                    aborted = [
                        (transaction.producer_id, transaction.first_offset)
                        for transaction in part.aborted_transactions or ()
                    ]
                    known[pair] = tail_of(bytes(part.records or b""), mine[pair], aborted)
    return known


def _request(places: Mapping[Place, int]) -> Any:
    from kafka.protocol.consumer import FetchRequest

    topic_of = FetchRequest.FetchTopic
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), offset in places.items():
        by_topic.setdefault(topic, []).append(
            topic_of.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=TAIL_BYTES)
        )
    topics = [topic_of(topic=name, partitions=parts) for name, parts in by_topic.items()]
    # read_committed, so that the answer names the transactions that were aborted.
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=TAIL_BYTES * PLACES_MAX, isolation_level=1, topics=topics,
        min_version=4, max_version=12,
    )  # fmt: skip


def tail_of(records: bytes, first: int, aborted: Iterable[tuple[int, int]]) -> Tail:
    """The content of batches of records from an offset on.

    records
        As a broker gives them, the last one perhaps cut off.
    aborted
        Producer id and first offset of each aborted transaction in them.
    """
    from kafka.errors import KafkaError
    from kafka.record import MemoryRecords

    dropped = list(aborted)
    batches = MemoryRecords(records)
    try:
        while batches.has_next():
            batch = batches.next_batch()
            if batch is None or batch.magic < 2:  # older formats have no transactions
                return Tail(first, batch is not None)
            last = batch.base_offset + batch.last_offset_delta
            if last < first:
                continue
            undone = batch.is_transactional and any(
                batch.producer_id == producer and begun <= batch.base_offset for producer, begun in dropped
            )
            if not (batch.is_control_batch or undone or not batch.records_count):
                return Tail(max(first, batch.base_offset), True)
            first = last + 1
    except (KafkaError, ValueError, AssertionError, IndexError):  # bytes of somebody else: nothing more is known
        pass
    return Tail(first, False)
