"""The Java peers are Kafka's own code: a consumer, the assignors, the serializers."""

from __future__ import annotations

import pytest

from apportion.testing.broker import Broker
from apportion.testing.peers import JavaAssignors, JavaCodec, JavaMember, PeerError

pytestmark = pytest.mark.broker

GROUP = {
    "topics": {"t": 4, "u": [{"partition": 0, "racks": ["x"]}]},
    "members": {
        "a": {"topics": ["t", "u"], "owned": {"t": [0, 1]}, "generation": 3, "rack": "x"},
        "b": {"topics": ["t"], "owned": {"t": [3]}, "generation": 3},
    },
}


def test_two_members_share_a_topic_and_the_one_left_takes_it_all(broker: Broker) -> None:
    broker.create_topic("peers-share", 4)
    make = (broker.bootstrap, "peers-share", ["peers-share"])
    often = {"heartbeat.interval.ms": 500}
    with JavaMember(*make, often, strategy="range") as first:
        first.wait_until(lambda member: member.assignment == {"peers-share": [0, 1, 2, 3]})
        with JavaMember(*make, {**often, "session.timeout.ms": 3000}, strategy="range") as second:
            first.wait_until(lambda member: len(member.assignment.get("peers-share", ())) == 2)
            second.wait_until(lambda member: len(member.assignment.get("peers-share", ())) == 2)
            assert first.generation == second.generation
            assert first.wait_for("revoked")["partitions"] == {"peers-share": [0, 1, 2, 3]}
            second.kill()
            first.wait_until(lambda member: len(member.assignment.get("peers-share", ())) == 4)
        first.commit({"peers-share": {0: 0}}, metadata="mine")
    with broker.admin() as admin:
        committed = admin.list_group_offsets("peers-share")
    assert "mine" in str(committed)


def test_an_aborted_transaction_commits_nothing(broker: Broker) -> None:
    broker.create_topic("peers-tx", 1)
    with JavaMember(broker.bootstrap, "peers-tx", ["peers-tx"], read=False) as member:
        member.wait_until(lambda member: member.assignment)
        member.commit({"peers-tx": {0: 3}}, transaction="commit")
        member.commit({"peers-tx": {0: 9}}, transaction="abort")
        with broker.admin() as admin:
            offsets = [at.offset for at in admin.list_group_offsets("peers-tx")["peers-tx"].values()]
    assert offsets == [3]


def test_kafkas_assignors_answer_many_groups_in_order(jars: str) -> None:
    with JavaAssignors() as kafka:
        names = ["range", "roundrobin", "sticky", "cooperative-sticky"] * 50
        answers = kafka.assign_all((name, GROUP) for name in names)
        assert kafka.assign("range", GROUP) == {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2, 3]}}
        alike = {"topics": {"t": 4}, "members": {m: {**GROUP["members"][m], "topics": ["t"]} for m in "ab"}}
        assert kafka.assign("sticky", alike) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}  # where range agrees by chance
        alike["members"]["a"]["owned"] = {"t": [3, 2]}
        alike["members"]["b"]["owned"] = {"t": [0]}
        assert kafka.assign("sticky", alike) == {"a": {"t": [2, 3]}, "b": {"t": [0, 1]}}
        assert answers[:4] * 50 == answers
        with pytest.raises(PeerError, match="no assignor is named"):
            kafka.assign("best", GROUP)


def test_kafkas_serializers_write_every_version_and_read_it_back(jars: str) -> None:
    with JavaCodec() as codec:
        body = {"topics": ["a"], "userData": None, "ownedPartitions": [], "generationId": 4, "rackId": "r"}
        for version in range(4):
            kept = dict(list(body.items())[: (2, 3, 4, 5)[version]])
            data = codec.encode("subscription", kept, version)
            assert codec.decode("subscription", data) == {"version": version, "json": kept}
        remembered = {"generation": 5, "partitions": {"a": [1, 2]}}
        assert codec.decode("sticky", codec.encode("sticky", remembered, 1))["json"] == remembered
        key = {"group": "g", "topic": "t", "partition": 0}
        value = {"offset": 7, "leaderEpoch": -1, "metadata": "x" * 128, "commitTimestamp": 9}
        record = codec.encode_record(1, key, value, version=4)
        assert codec.decode_record(*record) == {"type": 1, "key": key, "version": 4, "value": value}
        assert "error" in codec.decode_records([(record[0], b"\0\4\0")])[0]
