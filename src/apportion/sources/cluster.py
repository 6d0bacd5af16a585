"""A capture's requests to a running cluster: partitions, racks, log ends, and records if Spark has no connector.

All through kafka-python. Every error becomes one sentence that names the broker, never the password.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from apportion.errors import MissingExtra, Unavailable
from apportion.server_side.java_hash import string_hash
from apportion.sources.properties import Properties
from apportion.wire.primitives import uuid_text

OFFSETS: Final = "__consumer_offsets"
CLIENT_ID: Final = "apportion"
PATIENCE_MS: Final = 15_000
"""How long a broker may take to answer at all."""

PAUSE_S: Final = 0.25
"""Before a question is asked again that the cluster cannot answer just now."""

Answer = TypeVar("Answer")
Client = TypeVar("Client")

_REQUESTS_AT_ONCE: Final = 5_000
"""Partitions in one question, so that a cluster with a million of them is asked in pieces."""


@dataclass(frozen=True)
class TopicPartition:
    """One partition: its topic, the topic's id (22 characters, or None), its number, its replicas' racks, sorted.

    led
        It has a leader, so it can be asked for its ends.
    """

    topic: str
    topic_id: str | None
    partition: int
    racks: tuple[str, ...]
    led: bool = True


@dataclass(frozen=True)
class LogEnds:
    """One partition's log start, high watermark and last stable offset, and when they were asked for."""

    topic: str
    partition: int
    begin: int
    end: int
    last_stable: int
    at: datetime


class Cluster:
    """A connection to a cluster for looking at it; see ``connect``."""

    def __init__(self, bootstrap: str, admin: Any) -> None:
        self.bootstrap, self._admin = bootstrap, admin

    def forget_coordinator(self, group: str) -> None:
        """Ask again who coordinates a group, next time: the client keeps its answer though that broker is gone."""
        from kafka.protocol.metadata import CoordinatorType

        self._admin._manager.cluster._coordinators.pop((CoordinatorType.GROUP, group), None)

    def cluster_id(self) -> str | None:
        """The cluster's id."""
        cluster_id = patiently(self.bootstrap, self._admin.describe_cluster).get("cluster_id")
        return None if cluster_id is None else str(cluster_id)

    def partitions(self, topics: Sequence[str] | None = None) -> list[TopicPartition]:
        """Partitions of some topics, or of all that may be seen, sorted; a topic that is not there has none."""
        brokers = patiently(self.bootstrap, self._admin.describe_cluster)["brokers"]
        racks = {broker["broker_id"]: broker["rack"] for broker in brokers}
        # A topic asked for by name might be made by the question; ask for all and choose.
        descriptions = patiently(self.bootstrap, lambda: self._admin.describe_topics(None))
        partitions = []
        for topic in descriptions:
            if (topics is not None and topic["name"] not in topics) or topic["error_code"]:
                continue
            topic_id = topic_id_text(topic.get("topic_id"))
            for part in topic["partitions"]:
                replica_racks = sorted({str(rack) for node in part["replica_nodes"] if (rack := racks.get(node))})
                number, led = part["partition_index"], part["leader_id"] >= 0
                partitions.append(TopicPartition(topic["name"], topic_id, number, tuple(replica_racks), led))
        return sorted(partitions, key=lambda part: (part.topic, part.partition))

    def ends(self, partitions: Sequence[TopicPartition]) -> list[LogEnds]:
        """The log's ends of each partition that has a leader."""
        ends: list[LogEnds] = []
        for start in range(0, len(partitions), _REQUESTS_AT_ONCE):
            ends += self._some_ends(partitions[start : start + _REQUESTS_AT_ONCE])
        return ends

    def _some_ends(self, partitions: Sequence[TopicPartition]) -> list[LogEnds]:
        from kafka import TopicPartition as Name
        from kafka.admin import OffsetSpec
        from kafka.protocol.consumer import IsolationLevel

        names = [Name(part.topic, part.partition) for part in partitions if part.led]

        def ask(which: OffsetSpec, **how: Any) -> Any:
            return patiently(
                self.bootstrap, lambda: self._admin.list_partition_offsets(dict.fromkeys(names, which), **how)
            )

        at = datetime.now(UTC)
        begin = ask(OffsetSpec.EARLIEST)
        # The last stable offset first: it must not be found beyond a high watermark that was asked for earlier.
        stable = ask(OffsetSpec.LATEST, isolation_level=IsolationLevel.READ_COMMITTED)
        end = ask(OffsetSpec.LATEST)
        return [
            LogEnds(name.topic, name.partition, begin[name].offset, end[name].offset, stable[name].offset, at)
            for name in names
            if name in begin and name in end and name in stable
        ]


@contextmanager
def connect(bootstrap: str, properties: Properties | None = None, **settings: Any) -> Iterator[Cluster]:
    """A cluster to look at, for the block.

    settings
        More of kafka-python's; ``client_id`` is how the broker describes whoever joins a group on this connection.
    Raises
        MissingExtra: kafka-python is not installed. Unavailable: nobody answers, or the login is refused.
    """
    try:
        from kafka import KafkaAdminClient
    except ImportError as error:
        raise MissingExtra("Talking to a broker", "kafka-python") from error
    with sentences(bootstrap):
        settings = {"request_timeout_ms": PATIENCE_MS, **settings}
        admin = opened(KafkaAdminClient, bootstrap, properties or Properties(), **settings)
    try:
        yield Cluster(bootstrap, admin)
    finally:
        admin.close()


def opened(kind: type[Client], bootstrap: str, properties: Properties, **settings: Any) -> Client:
    """A client of kafka-python; if no broker answers, its thread and sockets end with it."""
    client = kind.__new__(kind)
    try:
        client.__init__(  # type: ignore[misc]  # the object is needed where this raises
            bootstrap_servers=bootstrap.split(","),
            bootstrap_timeout_ms=PATIENCE_MS,
            **{"client_id": CLIENT_ID, **settings},
            **properties.kafka_python(),
        )
    except BaseException:
        for part in ("_client", "_net"):
            with suppress(Exception):
                getattr(client, part).close()
        raise
    return client


Row = tuple[bytes | None, bytes | None, int, int, int]
"""Key, value, offset, timestamp in milliseconds, timestamp type."""


def read_committed(
    bootstrap: str, settings: Mapping[str, str], topic: str, partition: int, start: int, end: int
) -> Iterator[list[Row]]:
    """The committed records of one partition from ``start`` to before ``end``, in lists as they come.

    A stretch without records (a transaction's marker, compaction) ends well too: what counts is the position.
    """
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Name

    topic_partition = Name(topic, partition)
    with sentences(bootstrap):
        consumer = opened(
            KafkaConsumer,
            bootstrap,
            Properties(settings),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            exclude_internal_topics=False,
        )
        try:
            consumer.assign([topic_partition])
            consumer.seek(topic_partition, start)
            idle = 0
            while consumer.position(topic_partition) < end:
                batch = consumer.poll(timeout_ms=1000, max_records=10_000).get(topic_partition, [])
                idle = 0 if batch else idle + 1
                if idle * 1000 > 4 * PATIENCE_MS:
                    where = consumer.position(topic_partition)
                    raise Unavailable(f"{bootstrap} stopped sending {topic}-{partition} at offset {where} of {end}")
                rows = [(r.key, r.value, r.offset, r.timestamp, r.timestamp_type) for r in batch if r.offset < end]
                if rows:
                    yield rows
        finally:
            consumer.close()


def partition_of_group(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that has a group's records (Kafka, ``partitionFor``).

    >>> partition_of_group("ads-join", 50), partition_of_group("ads-range", 50)
    (19, 30)
    """
    hashed = string_hash(group)
    return abs(hashed - 2**32 if hashed >= 2**31 else hashed) % 2**31 % partitions  # Kafka, Utils.abs


def topic_id_text(topic_id: Any) -> str | None:
    """A topic's id in 22 characters; None if the broker gave none, or the zero id."""
    if topic_id is None:
        return None
    raw = UUID(str(topic_id)).bytes
    return None if raw == bytes(16) else uuid_text(raw)


def patiently(bootstrap: str, ask: Callable[[], Answer], patience_ms: int = PATIENCE_MS) -> Answer:
    """The result of ``ask``; asked again if Kafka says that it will know soon, as while a coordinator loads its log.

    Raises
        Unavailable: no answer in ``patience_ms``, or one that asking again does not mend.
    """
    from kafka import errors

    end = time.monotonic() + patience_ms / 1000
    with sentences(bootstrap):
        while True:
            try:
                return ask()
            except errors.BrokerResponseError as wrong:
                if not wrong.retriable or time.monotonic() >= end:
                    raise
            time.sleep(PAUSE_S)


@contextmanager
def sentences(bootstrap: str) -> Iterator[None]:
    """kafka-python's errors as sentences."""
    from kafka import errors

    try:
        yield
    except (errors.GroupAuthorizationFailedError, errors.ClusterAuthorizationFailedError) as error:
        group = isinstance(error, errors.GroupAuthorizationFailedError)
        refused = "a group that was asked for" if group else "the cluster itself"
        raise Unavailable(f"{bootstrap}: this user may not look at {refused}; it needs the ACL Describe") from error
    except errors.AuthorizationError as error:
        raise Unavailable(
            f"{bootstrap}: this user may not read {_named(error)}; it needs the ACLs Describe and Read"
        ) from error
    except errors.SaslAuthenticationFailedError as error:
        raise Unavailable(f"{bootstrap} refused the name or password") from error
    except errors.KafkaTimeoutError as error:
        raise Unavailable(_silence(bootstrap)) from error
    except errors.KafkaError as error:
        raise Unavailable(f"{bootstrap} answered: {error}") from error
    except (ValueError, OSError) as error:
        raise Unavailable(f"{bootstrap} cannot be reached: {error}") from error


def _silence(bootstrap: str) -> str:
    """Why there was no answer: kafka-python reports a refused login as a missing broker, but a socket does not."""
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
        except (OSError, ValueError):
            continue
        hint = "check user, password and security.protocol (--command-config)"
        return f"{server} listens, but refused the login or speaks another protocol: {hint}"
    return f"no Kafka broker answered at {bootstrap}: is the address right?"


def _named(error: Exception) -> str:
    sentence = " ".join(str(arg) for arg in error.args)
    return OFFSETS if OFFSETS in sentence else "a topic that was asked for"
