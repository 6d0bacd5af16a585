"""Thousands of real consumer groups on a real broker, made by script: two members each, offsets committed.

No consumer runs. A group's members join over raw requests, as static members with a session of half an hour, so that
one process holds as many groups as a platform has. The same numbers give the same groups.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from apportion.testing.broker import Client
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.subscription import Subscription, write_subscription

SESSION_MS = 1_800_000
LANES = 4
PARTITIONS = 25


def topic_of(group: int, topics: int) -> str:
    """The topic that a group reads: neighbours read different ones."""
    return f"many-{group % topics:04}"


def group_name(group: int) -> str:
    """The n-th group."""
    return f"group-{group:05}"


def make_topics(broker: Client, topics: int, partitions: int = PARTITIONS, records: int = 3) -> None:
    """So many topics, with some records in each partition."""
    from kafka import KafkaProducer

    names = [topic_of(t, topics) for t in range(topics)]
    with broker.admin() as admin:
        for start in range(0, topics, 50):
            batch = names[start : start + 50]
            admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1} for name in batch})
            admin.wait_for_topics(batch, timeout_ms=120_000)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap.split(","), linger_ms=50)
    for name in names:
        for partition in range(partitions):
            for _ in range(records):
                producer.send(name, b"x", partition=partition)
    producer.flush()
    producer.close()


def make_groups(broker: Client, groups: Sequence[int], topics: int, partitions: int = PARTITIONS) -> None:
    """These groups: two members share the topic of each, and every partition has a commit, one message behind."""
    lanes = threading.local()

    def one(group: int) -> None:
        if not hasattr(lanes, "pair"):
            lanes.pair = (broker.admin(), broker.admin())
            admins.extend(lanes.pair)
        first, second = lanes.pair
        _make(first, second, group_name(group), topic_of(group, topics), partitions)

    admins: list[Any] = []
    try:
        with ThreadPoolExecutor(LANES) as pool:
            list(pool.map(one, groups))
    finally:
        for admin in admins:
            admin.close()


def remove_groups(broker: Client, groups: Sequence[int]) -> None:
    """Take the members and the groups away."""
    from kafka.protocol.consumer import LeaveGroupRequest

    identity = LeaveGroupRequest.MemberIdentity
    with broker.admin() as admin:
        for group in groups:
            members = [identity(member_id="", group_instance_id=f"pod-{m}") for m in range(2)]
            request = LeaveGroupRequest(group_id=group_name(group), members=members, min_version=3)
            admin._manager.run(_send, admin, request, group_name(group))
        admin.delete_groups([group_name(group) for group in groups])


def _make(first: Any, second: Any, group: str, topic: str, partitions: int) -> None:
    from kafka import TopicPartition
    from kafka.protocol.consumer import SyncGroupRequest
    from kafka.structs import OffsetAndMetadata

    alone = first._manager.run(_send, first, _join(group, 0, topic), group)
    # The newcomer's answer comes when the first has joined again.
    waiting = second._manager.call_soon(_send, second, _join(group, 1, topic), group)
    again = alone
    while again.generation_id == alone.generation_id:
        again = first._manager.run(_send, first, _join(group, 0, topic, alone.member_id), group)
    joined = second._manager.run(_wait, waiting)
    half = (partitions + 1) // 2
    shares = {again.member_id: range(half), joined.member_id: range(half, partitions)}
    assignment = SyncGroupRequest.SyncGroupRequestAssignment
    given = [
        assignment(member_id=member, assignment=write_assignment(Assignment(((topic, tuple(ids)),))))
        for member, ids in shares.items()
    ]
    for admin, answer, orders in ((first, again, given), (second, joined, [])):
        request = SyncGroupRequest(
            group_id=group, generation_id=answer.generation_id, member_id=answer.member_id,
            group_instance_id=None, protocol_type="consumer", protocol_name="range", assignments=orders, max_version=5,
        )  # fmt: skip
        admin._manager.run(_send, admin, request, group)
    places = {TopicPartition(topic, p): OffsetAndMetadata(2, "", -1) for p in range(partitions)}
    _commit(first, group, again, places)


def _commit(admin: Any, group: str, member: Any, places: Any) -> None:
    """A member's commit; the admin client's own is refused while members live."""
    from kafka.errors import for_code

    request = admin._alter_group_offsets_request(group, places)
    request.generation_id_or_member_epoch, request.member_id = member.generation_id, member.member_id
    answer = admin._manager.run(_send, admin, request, group)
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code:
                raise for_code(partition.error_code)(group)


def _join(group: str, member: int, topic: str, member_id: str = "") -> Any:
    from kafka.protocol.consumer import JoinGroupRequest

    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id=group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=60_000, member_id=member_id,
        group_instance_id=f"pod-{member}", protocol_type="consumer", max_version=7,
        protocols=[protocol(name="range", metadata=write_subscription(Subscription((topic,))))],
    )  # fmt: skip


async def _send(admin: Any, request: Any, group: str) -> Any:
    """One request to the group's coordinator; asked again while it is being made."""
    from kafka.errors import RetriableError, for_code

    for _ in range(100):
        try:
            node = await admin._find_coordinator_id(group)
            answer = await admin._manager.send(request, node_id=node)
            wrong = for_code(getattr(answer, "error_code", 0))
            if not getattr(answer, "error_code", 0):
                return answer
            if not getattr(wrong, "retriable", False):
                raise wrong(group)
        except RetriableError:
            pass
        await admin._net.sleep(0.1)
    raise TimeoutError(group)


async def _wait(future: Any) -> Any:
    return await future
