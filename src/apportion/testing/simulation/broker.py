"""A cluster in one object: requests in, answers out, each connection one at a time and in order, as brokers do.

Groups are Kafka's own coordinator (``coordinator.py``): its requests go there as they came. Logs and transactions are
``log.py`` and ``transactions.py``; frames are read and written by kafka-python's own classes.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import kafka.protocol.admin as admin
import kafka.protocol.consumer as consumer
import kafka.protocol.metadata as metadata
import kafka.protocol.producer as producer

from apportion.sources.cluster import OFFSETS
from apportion.testing.simulation.coordinator import Coordinator
from apportion.testing.simulation.kernel import EPOCH_S, Host, World
from apportion.testing.simulation.log import HEADER, Aborted, PartitionLog, Refused, batch_of
from apportion.testing.simulation.network import Link, Network
from apportion.testing.simulation.transactions import Transactions
from apportion.wire.primitives import uuid_text

PORT: Final = 9092
CARRY_OUT_S: Final = (0.0001, 0.001)
"""Seconds that a broker takes for a request."""
NOT_LEADER, UNKNOWN_PARTITION, OUT_OF_RANGE, INVALID_EPOCH = 6, 3, 1, 47

PYTHON: Final[Mapping[int, tuple[Any, Any, int, int, str]]] = {
    request.API_KEY: (request, response, low, high, name)
    for request, response, low, high, name in (
        (metadata.ApiVersionsRequest, metadata.ApiVersionsResponse, 0, 3, "api_versions"),
        (metadata.MetadataRequest, metadata.MetadataResponse, 1, 12, "metadata"),
        (metadata.FindCoordinatorRequest, metadata.FindCoordinatorResponse, 0, 4, "find_coordinator"),
        (consumer.ListOffsetsRequest, consumer.ListOffsetsResponse, 1, 7, "list_offsets"),
        (consumer.FetchRequest, consumer.FetchResponse, 4, 12, "fetch"),
        (producer.ProduceRequest, producer.ProduceResponse, 3, 11, "produce"),
        (producer.InitProducerIdRequest, producer.InitProducerIdResponse, 0, 4, "init_producer"),
        (producer.AddPartitionsToTxnRequest, producer.AddPartitionsToTxnResponse, 0, 3, "add_partitions"),
        (producer.AddOffsetsToTxnRequest, producer.AddOffsetsToTxnResponse, 0, 3, "add_offsets"),
        (producer.EndTxnRequest, producer.EndTxnResponse, 0, 3, "end_transaction"),
        (admin.DescribeConfigsRequest, admin.DescribeConfigsResponse, 1, 4, "describe_configs"),
    )
}
"""API key to request, response, lowest and highest version, and the method that answers."""
KAFKAS: Final = {8: (2, 9), 9: (1, 9)} | {
    key: (0, high) for key, high in ((11, 9), (12, 4), (13, 5), (14, 5), (15, 6), (16, 5), (28, 4), (68, 1), (69, 1))
}
"""API key to the versions that Kafka's coordinator answers by itself."""
JOIN_GROUP, TXN_OFFSET_COMMIT = 11, 28


class Node:
    """One broker's address: it is up or down, and accepts connections while it is up."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster, self.number, self.up = cluster, number, True
        self.address = (f"broker{number}", PORT)

    def accept(self, link: Link) -> Connection:
        """The server's end of a new connection."""
        return Connection(self, link)


class Connection:
    """Requests of one connection, answered in order."""

    def __init__(self, node: Node, link: Link) -> None:
        self.node, self.link = node, link
        self._octets, self._queue, self._busy, self.key = bytearray(), list[bytes](), False, -1

    def receive(self, octets: bytes) -> None:
        """Bytes of a client; none: it closed."""
        if not octets:
            self._queue.clear()
            return
        self._octets += octets
        while len(self._octets) >= 4 and len(self._octets) >= (size := 4 + int.from_bytes(self._octets[:4], "big")):
            self._queue.append(bytes(self._octets[4:size]))
            del self._octets[:size]
        self._next()

    def _next(self) -> None:
        if self._queue and not self._busy:
            self._busy = True
            frame, world = self._queue.pop(0), self.node.cluster.world
            world.at(world.random.uniform(*CARRY_OUT_S), lambda: self._carry_out(frame))

    def _carry_out(self, frame: bytes) -> None:
        if self.node.up and not self.link.lost:
            self.key = int.from_bytes(frame[:2], "big")
            self.node.cluster.handle(self, frame)

    def reply(self, body: bytes) -> None:
        """Send an answer, and go on with the next request."""
        cluster = self.node.cluster
        cluster.checksum = zlib.crc32(body, cluster.checksum)
        for look in cluster.on_answer:
            look(self.key, self.link.socket.host)
        if not self.link.lost:
            self.link.down.send(len(body).to_bytes(4, "big") + body)
        self._busy = False
        self._next()


class Cluster:
    """Brokers, topics, logs, transactions and the groups' coordinator of one world.

    nodes
        How many brokers; partitions are led by one after the other.
    on_record
        Called with each key and value, as bytes, that the coordinator writes to ``__consumer_offsets``.
    """

    def __init__(self, world: World, network: Network, coordinator: Coordinator, nodes: int = 2) -> None:
        self.world, self.network, self.coordinator = world, network, coordinator
        self.nodes = [Node(self, number) for number in range(1, nodes + 1)]
        network.nodes.update({node.address: node for node in self.nodes})
        self.topics: dict[str, int] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.transactions = Transactions(world, self._write_marker)
        self.coordinating = self.nodes[0]
        self.checksum = self.requests = self.joins = 0
        self.on_record: list[Callable[[bytes, bytes | None], None]] = []
        self.on_request: list[Callable[[int, Host], None]] = []
        """Called with API key and client's host before a request is carried out; ``on_answer`` before its answer."""
        self.on_answer: list[Callable[[int, Host], None]] = []
        self._waiting: dict[int, Connection] = {}
        self._fetches: list[Any] = []
        self._wake_us = -1
        self._loads = 0

    @property
    def bootstrap(self) -> str:
        """``host:port`` of all brokers."""
        return ",".join(f"{host}:{port}" for host, port in (node.address for node in self.nodes))

    @property
    def now_ms(self) -> int:
        """The brokers' wall clock."""
        return EPOCH_S * 1000 + self.world.us // 1000

    # -- what happens to a cluster

    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic, or make it wider."""
        self.topics[name] = partitions
        self.topic_ids.setdefault(name, uuid.UUID(int=self.world.random.getrandbits(128)))
        for p in range(partitions):
            self.logs.setdefault((name, p), PartitionLog())
        self._tell("topic", name=name, id=uuid_text(self.topic_ids[name].bytes), partitions=partitions)

    def append(self, topic: str, partition: int, values: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        """Write records as a producer without transactions would."""
        offset = self.logs[topic, partition].append(batch_of(list(values), self.now_ms))
        self._look_at_fetches()
        return offset

    def move_coordinator(self, node: Node) -> None:
        """Another broker coordinates from now on: it loads its predecessor's records."""
        self.coordinating = node
        self._loads += 1
        self.world.note("loaded", node=node.number)
        self._tell("failover")
        self._waiting.clear()

    def stop(self, node: Node) -> None:
        """A broker goes down; its connections break."""
        node.up = False
        self.network.drop(node=node)

    def restart(self, node: Node) -> None:
        """A broker is back; a coordinator that was there loads its log."""
        node.up = True
        if node is self.coordinating:
            self.move_coordinator(node)

    def fail_append(self, error: str) -> None:
        """The coordinator's next write fails."""
        self._tell("fail", error=error)

    def leader(self, partition: tuple[str, int]) -> Node:
        """Who leads a partition."""
        return self.nodes[partition[1] % len(self.nodes)]

    # -- requests

    def handle(self, connection: Connection, frame: bytes) -> None:
        """Carry out one request; its answer comes now or later."""
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        self.checksum = zlib.crc32(frame, self.checksum)
        self.requests += 1
        self.joins += key == JOIN_GROUP
        for look in self.on_request:
            look(key, connection.link.socket.host)
        if connection.link.lost or not self.nodes[connection.node.number - 1].up:
            return
        if key in KAFKAS:
            self._to_kafka(connection, frame, self._refusal(connection.node, key, frame, version))
            return
        request_class, response_class, _, _, name = PYTHON[key]
        request = request_class.decode(memoryview(frame), version=version, header=True)

        def reply(**facts: Any) -> None:
            response = built(response_class, facts, version)
            response.with_header(correlation_id=request.header.correlation_id)
            connection.reply(bytes(response.encode(header=True, framed=False)))

        getattr(self, f"_{name}")(connection.node, request, reply)

    def _refusal(self, node: Node, key: int, frame: bytes, version: int) -> str | None:
        """The requests that the layer above the coordinator refuses."""
        if node is not self.coordinating:
            return "NOT_COORDINATOR"
        if key == TXN_OFFSET_COMMIT:
            from kafka.protocol.producer import TxnOffsetCommitRequest

            request = TxnOffsetCommitRequest.decode(memoryview(frame), version=version, header=True)
            state = self.transactions.ids.get(request.transactional_id)
            if state is None or (state.producer, state.epoch) != (request.producer_id, request.producer_epoch):
                return "INVALID_PRODUCER_EPOCH"
            if not state.open or request.group_id not in state.groups:
                return "INVALID_TXN_STATE"
        return None

    def _to_kafka(self, connection: Connection, frame: bytes, error: str | None) -> None:
        answer = self.coordinator.request(frame, self.now_ms, error)
        self._waiting[answer["id"]] = connection
        self._take(answer)

    def _tell(self, op: str, **facts: Any) -> None:
        self._take(self.coordinator.tell(op, self.now_ms, **facts))

    def _take(self, answer: Mapping[str, Any]) -> None:
        """The coordinator's records and answers, and when it wants to be asked again."""
        for key, value in answer["records"]:
            for look in self.on_record:
                look(key, value)
        for number, body in answer["answers"]:
            if connection := self._waiting.pop(number, None):
                connection.reply(body)
        due_us = (answer["next"] - EPOCH_S * 1000) * 1000
        if answer["next"] >= 0 and not self.world.us < self._wake_us <= due_us:
            self._wake_us = due_us
            self.world.at(max(0, due_us - self.world.us) / 1e6, lambda: self._wake(due_us))

    def _wake(self, due_us: int) -> None:
        if self._wake_us == due_us:
            self._wake_us = -1
            self._tell("advance")

    def _write_marker(self, number: int, epoch: int, partitions: Any, groups: Any, commit: bool) -> None:
        for partition in partitions:
            if log := self.logs.get(partition):
                log.mark(number, epoch, self.now_ms, commit=commit)
        if groups:
            self._tell("marker", producer=number, epoch=epoch, commit=commit)
        self._look_at_fetches()
        self.world.note("markers", commit=commit, partitions=partitions)

    def _api_versions(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        versions = {key: (low, high) for key, (_, _, low, high, _) in PYTHON.items()} | KAFKAS
        keys = [{"api_key": k, "min_version": low, "max_version": high} for k, (low, high) in sorted(versions.items())]
        reply(api_keys=keys)

    def _metadata(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        names = sorted(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        up = [n for n in self.nodes if n.up]
        brokers = [{"node_id": n.number, "host": n.address[0], "port": PORT, "rack": None} for n in up]
        topics = []
        for name in names:
            partitions = []
            for p in range(self.topics.get(name, 0)):
                leader = self.leader((name, p))
                number, error = (leader.number, 0) if leader.up else (-1, 5)
                replicas = {"replica_nodes": [leader.number], "isr_nodes": [leader.number], "offline_replicas": []}
                led = {"error_code": error, "partition_index": p, "leader_id": number, "leader_epoch": 0}
                partitions.append(led | replicas)
            known = name in self.topics
            topic_id = self.topic_ids[name] if known else uuid.UUID(int=0)
            facts = {"error_code": 0 if known else UNKNOWN_PARTITION, "name": name, "topic_id": topic_id}
            topics.append(facts | {"is_internal": False, "partitions": partitions})
        if request.topics is None:
            topics.append(self._offsets_topic())
        reply(brokers=brokers, cluster_id="simulation", controller_id=up[0].number if up else -1, topics=topics)

    def _offsets_topic(self) -> dict[str, Any]:
        """The one partition of ``__consumer_offsets``: its leader coordinates all groups."""
        number = self.coordinating.number
        leader = number if self.coordinating.up else -1
        led: dict[str, Any] = {"error_code": 0, "partition_index": 0, "leader_id": leader}
        led |= {"leader_epoch": self._loads, "replica_nodes": [number], "isr_nodes": [number], "offline_replicas": []}
        facts = {"error_code": 0, "name": OFFSETS, "topic_id": uuid.UUID(int=1)}
        return {**facts, "is_internal": True, "partitions": [led]}

    def _find_coordinator(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        at = self.coordinating
        where = {"node_id": at.number, "host": at.address[0], "port": PORT, "error_code": 0, "error_message": None}
        if not at.up:
            where |= {"node_id": -1, "host": "", "port": -1, "error_code": 15}
        if request.coordinator_keys:
            reply(coordinators=[{"key": key, **where} for key in request.coordinator_keys])
        else:
            reply(**where)

    def _describe_configs(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        asked = [(r.resource_type, r.resource_name) for r in request.resources]
        nothing: dict[str, Any] = {"error_code": 0, "error_message": None, "configs": []}
        reply(results=[{**nothing, "resource_type": kind, "resource_name": name} for kind, name in asked])

    # -- logs

    def _led(self, node: Node, partition: tuple[str, int]) -> tuple[PartitionLog | None, int]:
        log = self.logs.get(partition)
        if log is None:
            return None, UNKNOWN_PARTITION
        return (log, 0) if self.leader(partition) is node else (None, NOT_LEADER)

    def _list_offsets(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        topics = []
        for topic in request.topics:
            partitions = []
            for p in topic.partitions:
                log, error = self._led(node, (topic.name, number := p.partition_index))
                end = 0 if log is None else log.stable if request.isolation_level else log.end
                offset = -1 if log is None else 0 if p.timestamp == -2 else end
                facts = {"partition_index": number, "error_code": error, "offset": offset, "leader_epoch": 0}
                partitions.append(facts)
            topics.append({"name": topic.name, "partitions": partitions})
        reply(topics=topics)

    def _fetch(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        fetch = (node, request, reply)
        if not self._answer_fetch(fetch):
            self._fetches.append(fetch)
            self.world.at(request.max_wait_ms / 1000, lambda: self._answer_fetch(fetch, last=True))

    def _answer_fetch(self, fetch: Any, *, last: bool = False) -> bool:
        """Whether it is answered: with records, with an error, or because its time is over."""
        if last and not any(fetch is waiting for waiting in self._fetches):
            return True
        node, request, reply = fetch
        topics = list(self._fetched(node, request))
        answered = last or any(p["records"] or p["error_code"] for topic in topics for p in topic["partitions"])
        if answered:
            self._fetches = [waiting for waiting in self._fetches if waiting is not fetch]
            reply(session_id=0, responses=topics)
        return answered

    def _fetched(self, node: Node, request: Any) -> Iterator[dict[str, Any]]:
        for topic in request.topics:
            partitions = []
            for p in topic.partitions:
                log, error = self._led(node, (topic.topic, p.partition))
                octets, gone, ends = b"", list[Aborted](), dict[str, int]()
                if log is not None:
                    ends = {"high_watermark": log.end, "last_stable_offset": log.stable, "log_start_offset": 0}
                    if 0 <= p.fetch_offset <= log.end:
                        octets, gone = log.read(p.fetch_offset, p.partition_max_bytes, bool(request.isolation_level))
                    else:
                        error = OUT_OF_RANGE
                aborted = [{"producer_id": x.producer, "first_offset": x.first} for x in gone]
                facts = {"partition_index": p.partition, "error_code": error, "records": octets}
                partitions.append({**facts, **ends, "aborted_transactions": aborted})
            yield {"topic": topic.topic, "partitions": partitions}

    def _look_at_fetches(self) -> None:
        for fetch in list(self._fetches):
            self._answer_fetch(fetch)

    def _produce(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        topics = []
        for topic in request.topic_data:
            answers = []
            for p in topic.partition_data:
                log, error = self._led(node, (topic.name, p.index))
                offset = -1
                if log is not None:
                    octets, partition = bytes(p.records), (topic.name, p.index)
                    offset, error = self._appended(log, request.transactional_id, partition, octets)
                answers.append({"index": p.index, "error_code": error, "base_offset": offset, "log_start_offset": 0})
            topics.append({"name": topic.name, "partition_responses": answers})
        self._look_at_fetches()
        if request.acks:
            reply(responses=topics)

    def _appended(
        self, log: PartitionLog, name: str | None, partition: tuple[str, int], octets: bytes
    ) -> tuple[int, int]:
        *_, number, epoch, sequence, _ = HEADER.unpack_from(octets)
        if name is not None:
            log.verify(number, epoch, sequence)
            if error := self.transactions.may_write(name, number, epoch, partition):
                return -1, error
        try:
            return log.append(octets), 0
        except Refused as refused:
            return -1, refused.code

    # -- transactions

    def _init_producer(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        asked = (request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch)
        error, number, epoch = self.transactions.init(*asked)
        reply(error_code=error, producer_id=number, producer_epoch=epoch)

    def _add_partitions(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        topics = request.v3_and_below_topics
        pairs = [(topic.name, p) for topic in topics for p in topic.partitions]
        r, known = request, self.logs.keys() >= set(pairs)
        who = (r.v3_and_below_transactional_id, r.v3_and_below_producer_id, r.v3_and_below_producer_epoch)
        error = self.transactions.add(*who, pairs) if known else UNKNOWN_PARTITION
        answers: dict[str, list[Any]] = {topic.name: [] for topic in topics}
        for topic, p in pairs:
            answers[topic].append({"partition_index": p, "partition_error_code": error})
        results = [{"name": topic, "results_by_partition": partitions} for topic, partitions in answers.items()]
        reply(results_by_topic_v3_and_below=results)

    def _add_offsets(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        who = (request.transactional_id, request.producer_id, request.producer_epoch)
        reply(error_code=self.transactions.add(*who, groups=[request.group_id]))

    def _end_transaction(self, node: Node, request: Any, reply: Callable[..., None]) -> None:
        who = (request.transactional_id, request.producer_id, request.producer_epoch)
        reply(error_code=self.transactions.end(*who, commit=request.committed))


def built(cls: Any, facts: Mapping[str, Any], version: int | None = None) -> Any:
    """One of kafka-python's messages from plain dicts and lists; names that a version has not stay out."""
    values = {}
    for name, value in facts.items():
        inner = cls._struct.fields[name]
        if inner.is_struct_array():
            value = [built(inner.data_class, item) for item in value]
        values[name] = value
    return cls(**values) if version is None else cls(version=version, **values)
