"""Whose strategy one is: the first consumer's until that one is closed, and never that of a consumer never made."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol.group import JoinGroupResponse_v5
from aiokafka.protocol.metadata import MetadataResponse_v1

from apportion.clients import aio_kafka, kafka_python
from apportion.clients.group.adapter import Adapter, install, strategies_for
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.options import Options
from apportion.errors import BadInput
from apportion.wire.subscription import Subscription, write_subscription


class Ours(Adapter):
    """A strategy in the interface of a client that has none."""

    def __init__(self, bridge: Any) -> None:
        super().__init__(bridge if isinstance(bridge, Bridge) else Bridge(bridge, Options()))

    @staticmethod
    def closed(coordinator: Any) -> bool:
        return bool(coordinator.over)


class Coordinator:
    """As much of a client's as counts here."""

    def __init__(self, *, assignors: list[Any]) -> None:
        self.assignors, self.over = assignors, False


class OurCoordinator(Coordinator):
    """Ours in its place."""

    def __init__(self, *, assignors: list[Any]) -> None:
        taken, ours = strategies_for(Ours, assignors)
        super().__init__(assignors=taken)
        for strategy in ours:
            strategy.bind(self)


install(Coordinator, OurCoordinator, Ours, "assignors")


def test_a_consumer_gets_our_class_if_one_of_its_strategies_is_ours_and_no_other_notices() -> None:
    strategy = Ours("sticky")
    mixed, theirs = Coordinator(assignors=["another's", strategy]), Coordinator(assignors=["another's"])
    assert (type(mixed), type(theirs)) == (OurCoordinator, Coordinator)
    assert strategy.coordinator is mixed
    assert mixed.assignors == ["another's", strategy]


def test_a_second_consumer_of_the_same_strategy_has_a_copy_with_a_memory_of_its_own() -> None:
    strategy = Ours(Bridge("failover", Options(priority=3), {}))
    first, second = Coordinator(assignors=[strategy]), Coordinator(assignors=[strategy])
    assert first.assignors[0] is strategy
    copy = second.assignors[0]
    assert copy is not strategy
    assert copy.bridge is not strategy.bridge
    assert (copy.coordinator, copy.name, copy.bridge.options) == (second, "failover", strategy.bridge.options)
    assert strategy.coordinator is first
    first.over = True
    assert Coordinator(assignors=[strategy]).assignors[0] is strategy, "it is free again, with what it remembers"


def put_in_rack(cluster: Any, rack: str) -> None:
    """The client's own metadata of one topic of one partition, whose replica stands in this rack."""
    from kafka.protocol.metadata import MetadataResponse

    topic, broker = MetadataResponse.MetadataResponseTopic, MetadataResponse.MetadataResponseBroker
    partition = topic.MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1],
        offline_replicas=[],
    )  # fmt: skip
    answer = MetadataResponse(
        version=9, brokers=[broker(node_id=1, host="127.0.0.1", port=1, rack=rack)], cluster_id="c", controller_id=1,
        topics=[topic(error_code=0, name="t", is_internal=False, partitions=[partition])],
    )  # fmt: skip
    cluster.update_metadata(MetadataResponse.decode(answer.encode(version=9, header=False), version=9, header=False))


def test_a_leader_begins_to_watch_what_others_want_and_it_does_not_watch_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own part of the call is the client's still; a name that no topic can have never reaches it."""
    from kafka import KafkaConsumer

    ours = kafka_python.assignor("cooperative-sticky")
    consumer = KafkaConsumer(
        bootstrap_servers="127.0.0.1:1", group_id="g", api_version=(2, 8), partition_assignment_strategy=[ours]
    )
    try:
        consumer.subscribe(topics=["t"])
        coordinator = consumer._coordinator
        put_in_rack(coordinator._cluster, "a")
        asked: list[str] = []
        ask = coordinator._cluster.request_update

        def counted() -> Any:
            asked.append("metadata")
            return ask()

        monkeypatch.setattr(coordinator._cluster, "request_update", counted)

        def watched(*wishes: tuple[str, ...]) -> tuple[set[str], set[str]]:
            sent = {f"m{m}": write_subscription(Subscription(topics)) for m, topics in enumerate(wishes)}
            members = [SimpleNamespace(member_id=m, group_instance_id=None, metadata=one) for m, one in sent.items()]
            coordinator._is_leader = False
            before = len(asked)
            shares = coordinator._perform_assignment("m0", "cooperative-sticky", members)
            assert set(shares) == set(sent)
            assert coordinator._is_leader
            assert len(asked) > before, "the client asks for metadata at each plan"
            return set(coordinator._subscription.group_subscription()), set(coordinator._cluster._topics)

        assert watched(("t",), ("t",)) == ({"t"}, {"t"})
        assert watched(("t",), ("u", "not a topic", "..")) == ({"t", "u"}, {"t", "u"})
        assert watched(("t", "u"), ("u",)) == ({"t", "u"}, {"t", "u"})
        coordinator._subscription.reset_group_subscription()
        assert watched(("u",), ("v",)) == ({"t", "u", "v"}, {"t", "u", "v"})
    finally:
        consumer.close(autocommit=False, timeout_ms=0)


def test_aiokafka_is_never_asked_for_a_name_that_no_topic_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its only task that asks for metadata ended at one that does not fit a request, and the leader waited for ever."""
    too_long = write_subscription(Subscription(("t", "x" * 20_000))).replace(b"x", b"\xff")  # read as 60,000 bytes
    wishes = [Subscription(("t", "u")), Subscription(("t", "not a topic", ".."))]
    sent = [*map(write_subscription, wishes), too_long]

    async def asked() -> set[str]:
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g")
        ours = aio_kafka.assignor("sticky")
        coordinator = GroupCoordinator(consumer._client, consumer._subscription, group_id="g", assignors=[ours])
        brokers, partitions = [(1, "127.0.0.1", 1, None)], [(0, 0, 1, [1], [1])]
        consumer._client.cluster.update_metadata(MetadataResponse_v1(brokers, 0, [(0, "t", False, partitions)]))

        async def no_broker() -> None: ...

        monkeypatch.setattr(consumer._client, "_maybe_wait_metadata", no_broker)
        members = [(f"m{m}", None, one) for m, one in enumerate(sent)]
        shares = await coordinator._perform_assignment(JoinGroupResponse_v5(0, 0, 6, "sticky", "m0", "m0", members))
        assert set(shares) == {"m0", "m1", "m2"}
        await coordinator.close()
        await consumer.stop()
        topics: set[str] = consumer._client._topics
        return topics

    assert asyncio.run(asked()) == {"t", "u"}


@pytest.mark.parametrize("name", ["broker-uniform", "broker-range"])
def test_what_the_broker_alone_runs_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(BadInput, match=rf"broker alone runs.*group.remote.assignor={name.removeprefix('broker-')}"):
        kafka_python.assignor(name)
