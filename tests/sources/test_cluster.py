"""A cluster that cannot answer just now is asked again; one that will not is named in a sentence."""

from __future__ import annotations

import time

import pytest

from apportion.errors import Unavailable
from apportion.sources import cluster, live
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker


def test_a_coordinator_that_loads_its_log_is_asked_again() -> None:
    from kafka.errors import CoordinatorLoadInProgressError

    answers: list[Exception | str] = [CoordinatorLoadInProgressError(), CoordinatorLoadInProgressError(), "loaded"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert cluster.patiently("b:1", ask) == "loaded"


def test_one_that_never_finishes_is_given_up_with_a_sentence() -> None:
    from kafka.errors import CoordinatorNotAvailableError

    def ask() -> str:
        raise CoordinatorNotAvailableError

    with pytest.raises(Unavailable, match=r"b:1 answered: .*CoordinatorNotAvailable"):
        cluster.patiently("b:1", ask, patience_ms=300)


def test_what_asking_again_does_not_mend_is_said_at_once() -> None:
    from kafka.errors import GroupAuthorizationFailedError, InvalidGroupIdError

    asked = []

    def ask(error: type[Exception]) -> str:
        asked.append(error)
        raise error

    for error in (InvalidGroupIdError, GroupAuthorizationFailedError):
        with pytest.raises(Unavailable, match="b:1"):
            cluster.patiently("b:1", lambda error=error: ask(error))  # type: ignore[misc]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("kind", "says"), [("Group", "look at a group"), ("Cluster", "look at the cluster"), ("Topic", "read a topic")]
)
def test_a_missing_right_is_named_by_what_it_is_for(kind: str, says: str) -> None:
    from kafka import errors

    def ask() -> str:
        raise getattr(errors, f"{kind}AuthorizationFailedError")

    with pytest.raises(Unavailable, match=says):
        cluster.patiently("b:1", ask)


@pytest.mark.broker
def test_a_broker_that_just_came_back_is_read_while_its_coordinator_loads() -> None:
    """Before it has begun to load it knows of no group at all, and says so as if that were all."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    with Broker() as broker:
        broker.create_topic("clicks", 2)
        reader = KafkaConsumer(group_id="readers", bootstrap_servers=broker.bootstrap)
        reader.assign([TopicPartition("clicks", 0)])
        reader.commit({TopicPartition("clicks", 0): OffsetAndMetadata(0, "", -1)})
        reader.close()
        broker.kill()
        broker.start()
        found = []
        for _ in range(120):
            found = live.groups(Connection(broker.bootstrap, Properties()), None)
            if found:
                break
            time.sleep(0.5)
    assert [group.name for group in found] == ["readers"]
