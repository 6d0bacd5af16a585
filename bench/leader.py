"""The leader's whole call as a consumer makes it: from the JoinGroup answer's metadata bytes to the SyncGroup bytes.

What members send is encoded outside the clock, the clients are real ones without a connection, and everything that
their coordinators do on the way is inside: decoding, watching topics, the plan, what is withheld, the log record with
a handler that formats it, encoding.

    python -m bench.leader [WORD ...]     times the cells whose names hold all words, both clients
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

from apportion.wire.assignment import read_assignment
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.user_data import write_cooperative
from bench.cells import CELLS

STRATEGY = "cooperative-sticky"
Raw = Mapping[str, Any]
Joined = list[tuple[str, bytes]]
"""Member ids and what each sent, in the order of a JoinGroup answer."""


def metadata(raw: Raw) -> Joined:
    """What Java's cooperative members of this group send: version 3, the generation as user data."""
    heads: dict[int, bytes] = {}
    return [(member, _subscription(fields, heads)) for member, fields in sorted(raw["members"].items())]


def _subscription(fields: Raw, heads: dict[int, bytes]) -> bytes:
    """One member's; the version and topics, which many members share, are written once."""
    topics, owned = fields["topics"], fields.get("owned", {})
    if id(topics) not in heads:
        heads[id(topics)] = write_subscription(Subscription(tuple(topics)))[: 6 + sum(len(t) + 2 for t in topics)]
    generation = fields.get("generation")
    claims = tuple((topic, tuple(ids)) for topic, ids in owned.items())
    rest = Subscription((), write_cooperative(generation), claims, generation, fields.get("rack"))
    return heads[id(topics)] + write_subscription(rest)[6:]


def _entries(raw: Raw) -> Iterator[tuple[str, list[list[int]]]]:
    """Topics with the brokers of each partition; broker r stands in rack r."""
    names = sorted(
        {rack for what in raw["topics"].values() if isinstance(what, list) for row in what for rack in row["racks"]}
    )
    for topic, what in raw["topics"].items():
        if isinstance(what, int):
            yield topic, [[0]] * what
        else:
            yield topic, [[names.index(rack) for rack in row["racks"]] for row in what]


# -- kafka-python ------------------------------------------------------------------------------------------------------


def kafka_python(raw: Raw) -> Callable[[Joined], dict[str, bytes]]:
    """The leader's call of kafka-python's own coordinator with our strategy."""
    from kafka import KafkaConsumer
    from kafka.protocol.consumer.group import JoinGroupResponse
    from kafka.protocol.metadata import MetadataResponse

    from apportion.clients.kafka_python import assignor

    ranked = any(fields.get("rack") for fields in raw["members"].values())
    consumer = KafkaConsumer(
        bootstrap_servers="127.0.0.1:1",
        group_id="bench",
        api_version=(2, 8),
        enable_auto_commit=False,
        partition_assignment_strategy=[assignor(STRATEGY, rack="rack0" if ranked else None)],
    )
    consumer.subscribe(topics=list(raw["topics"]))
    coordinator = consumer._coordinator
    topic, broker = MetadataResponse.MetadataResponseTopic, MetadataResponse.MetadataResponseBroker
    partition = topic.MetadataResponsePartition
    answer = MetadataResponse(
        version=9,
        brokers=[
            broker(node_id=r, host="127.0.0.1", port=1, rack=f"rack{r}" if ranked else None) for r in range(3)
        ],
        cluster_id="c",
        controller_id=0,
        topics=[
            topic(
                error_code=0,
                name=name,
                is_internal=False,
                partitions=[
                    partition(error_code=0, partition_index=p, leader_id=nodes[0], leader_epoch=0,
                              replica_nodes=nodes, isr_nodes=nodes, offline_replicas=[])
                    for p, nodes in enumerate(rows)
                ],
            )
            for name, rows in _entries(raw)
        ],
    )  # fmt: skip
    sent = answer.encode(version=9, header=False)
    coordinator._cluster.update_metadata(MetadataResponse.decode(sent, version=9, header=False))
    coordinator._generation = coordinator._generation.__class__(5, "member0", STRATEGY)
    member = JoinGroupResponse.JoinGroupResponseMember

    def prepare(joined: Joined) -> Callable[[], dict[str, bytes]]:
        """The call on members as the client decoded the answer that held them."""
        members = [member(member_id=name, group_instance_id=None, metadata=sent) for name, sent in joined]

        def call() -> dict[str, bytes]:
            shares = coordinator._perform_assignment("member0", STRATEGY, members)
            return {name: share if isinstance(share, bytes) else share.encode() for name, share in shares.items()}

        return call

    prepare.stop = lambda: consumer.close(autocommit=False, timeout_ms=0)  # type: ignore[attr-defined]
    prepare.on_its_thread = coordinator._manager.run  # type: ignore[attr-defined]
    return prepare  # type: ignore[return-value]


# -- aiokafka ----------------------------------------------------------------------------------------------------------


def aiokafka(raw: Raw) -> Callable[[Joined], dict[str, bytes]]:
    """The leader's call of aiokafka's own coordinator with our strategy; the plan runs in a thread."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.consumer.group_coordinator import GroupCoordinator
    from aiokafka.protocol.group import JoinGroupResponse_v5
    from aiokafka.protocol.metadata import MetadataResponse_v1

    from apportion.clients.aio_kafka import assignor

    ranked = any(fields.get("rack") for fields in raw["members"].values())
    loop = asyncio.new_event_loop()

    async def make() -> Any:
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="bench")
        consumer.subscribe(topics=list(raw["topics"]))
        ours = assignor(STRATEGY, rack="rack0" if ranked else None)
        coordinator = GroupCoordinator(consumer._client, consumer._subscription, group_id="bench", assignors=[ours])
        consumer._client._topics = set(raw["topics"])
        brokers = [(r, "127.0.0.1", 1, f"rack{r}" if ranked else None) for r in range(3)]
        topics = [
            (0, name, False, [(0, p, nodes[0], nodes, nodes) for p, nodes in enumerate(rows)])
            for name, rows in _entries(raw)
        ]
        consumer._client.cluster.update_metadata(MetadataResponse_v1(brokers, 0, topics))
        coordinator._coordination_task.cancel()
        coordinator._keep = consumer
        return coordinator

    coordinator = loop.run_until_complete(make())

    def prepare(joined: Joined) -> Callable[[], dict[str, bytes]]:
        coordinator._client._md_update_fut = None  # nobody waits for a broker
        answer = JoinGroupResponse_v5(
            0, 0, 6, STRATEGY, "member0", "member0", [(name, None, sent) for name, sent in joined]
        )

        def call() -> dict[str, bytes]:
            shares = loop.run_until_complete(coordinator._perform_assignment(answer))
            return {name: share if isinstance(share, bytes) else share.encode() for name, share in shares.items()}

        return call

    prepare.stop = lambda: None  # type: ignore[attr-defined]
    prepare.on_its_thread = lambda work: work()  # type: ignore[attr-defined]
    return prepare  # type: ignore[return-value]


CLIENTS = {"kafka-python": kafka_python, "aiokafka": aiokafka}
IN_TURN = "in turn"
"""Calls one after the other, the collector at work when it likes: see ``bench.caches`` for what else there is."""
COLD_BYTES = 64 << 20
"""More memory than the processor's caches hold."""


@contextmanager
def logged() -> Iterator[None]:
    """The adapters' log at INFO with a handler that formats every record, as in production; its text goes nowhere.

    kafka-python is silent about what the clock runs through on its thread: the collector's walk, which it finds slow.
    """
    logger, loop = logging.getLogger("apportion.clients"), logging.getLogger("kafka.net.selector")
    with open(os.devnull, "w") as nowhere:
        handler = logging.StreamHandler(nowhere)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        before, loop_before = logger.level, loop.level
        logger.setLevel(logging.INFO)
        loop.setLevel(logging.ERROR)
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)
            loop.setLevel(loop_before)


def leader_ms(client: str, raw: Raw, calls: int, caches: str = IN_TURN) -> tuple[float, float]:
    """CPU milliseconds of the first call in this process, and the median of the others.

    caches
        What comes before each call: see ``bench.caches``.
    """
    # kafka-python plans on its IO thread, as with a broker; aiokafka's plan runs in another thread than its loop.
    clock = time.thread_time if client == "kafka-python" else time.process_time
    prepare: Any = CLIENTS[client](raw)
    joined = metadata(raw)
    memory = np.zeros(COLD_BYTES if caches == "cold" else 0, dtype=np.uint8)

    def time_one() -> float:
        # Every call gets bytes of its own, as from a socket: nothing may be recognised by identity.
        call = prepare([(name, bytes(bytearray(sent))) for name, sent in joined])
        same = prepare(joined) if caches == "warm" else None
        if caches != IN_TURN:
            gc.collect()
        if same is not None:
            same()
        elif caches == "cold":
            np.add(memory, 1, out=memory)
        at = clock()
        shares = call()
        ms = (clock() - at) * 1000
        del shares
        return ms

    with logged():
        spent = [prepare.on_its_thread(time_one) for _ in range(calls + 1)]
    prepare.stop()
    return spent[0], median(spent[1:])


def assignment(client: str, raw: Raw) -> dict[str, dict[str, list[int]]]:
    """What the call answers, read back from its bytes."""
    prepare: Any = CLIENTS[client](raw)
    shares = prepare(metadata(raw))()
    prepare.stop()
    return {name: {t: list(ids) for t, ids in read_assignment(share).partitions} for name, share in shares.items()}


def main(words: list[str]) -> None:
    """One line a cell."""
    calls = 5
    for cell in CELLS:
        if all(word in cell.name.split() or word in cell.name.split()[0].split("-") for word in words):
            raw = cell.group()
            times = [
                f"{name} {first:.1f} then {warm:.2f}"
                for name in CLIENTS
                for first, warm in [leader_ms(name, raw, calls)]
            ]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"{cell.name:45} {'; '.join(times)} ms, {peak} MB", flush=True)


if __name__ == "__main__":
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    main(sys.argv[1:])
