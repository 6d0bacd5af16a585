"""A member that stands twice in one JoinGroup answer gets its partitions once, and nobody else loses any."""

from __future__ import annotations

import pytest

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.topic_metadata import ClientMetadata
from apportion.wire.assignment import read_assignment

from .metadata import Cluster


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky", "range", "roundrobin", "failover"])
@pytest.mark.parametrize("topics", [["t"], ["t", "u"]], ids=["alike", "different"])
def test_a_member_that_is_listed_twice_in_one_answer_takes_nothing_away(
    strategy: str, topics: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every partition has an owner, and the log says so; what members sent was written by kafka-python."""
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    def sent(wanted: list[str]) -> bytes:
        encoded = ConsumerProtocolSubscription(version=1, topics=wanted, user_data=b"", owned_partitions=[]).encode()
        return bytes(encoded)

    joined = JoinedGroup(["a", "b", "a"], [None] * 3, [sent(["t"]), sent(topics), sent(["t"])])
    view = ClientMetadata(Cluster({"t": list(range(6)), "u": [0, 1]}), "replicas")
    answers = Bridge(strategy, Options()).lead(joined, view, "g", 3)
    assert "1 members of 3 are listed twice" in caplog.text
    given = [
        (topic, p) for answer in answers.values() for topic, ids in read_assignment(answer).partitions for p in ids
    ]
    assert sorted(given) == sorted((topic, p) for topic in topics for p in range(6 if topic == "t" else 2))
