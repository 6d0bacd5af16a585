"""A GroupConsumer's partition has one state, which the table alone moves, and ends only after its user was told."""

from __future__ import annotations

import pytest
from kafka.structs import TopicPartition as Part

from apportion.clients.confluent.partitions import COMING, GONE, HELD, TRANSITIONS, Event, Partitions, PartitionState

PART = Part("t", 0)


def after(*events: Event) -> PartitionState:
    partitions = Partitions()
    for event in events:
        partitions.move([PART], event)
    return next((state for state in PartitionState if partitions.among(state)), PartitionState.AWAY)


def test_what_cannot_happen_in_a_state_is_refused_with_its_name() -> None:
    partitions = Partitions()
    partitions.move([PART], Event.GIVEN)
    with pytest.raises(RuntimeError, match="t-0 is owned: the application has heard of it, it cannot be"):
        partitions.move([PART], Event.TOLD)
    assert partitions.among(*HELD) == {PART}


@pytest.mark.parametrize("state", [COMING, *HELD])
def test_whatever_its_user_knows_of_is_told_of_before_it_is_away(state: PartitionState) -> None:
    """From each state both ends lead to one of which the user hears, and from there alone to none."""
    for event in (Event.TAKEN, Event.EXPELLED):
        assert TRANSITIONS[state][event] in GONE
    assert PartitionState.AWAY not in TRANSITIONS[state].values()
    assert all(TRANSITIONS[gone][Event.TOLD] is PartitionState.AWAY for gone in GONE)


def test_a_member_that_was_expelled_while_it_let_go_has_lost_the_partition() -> None:
    """Its commit would be refused, so it hears of a loss."""
    assert after(Event.GIVEN, Event.FETCHED, Event.TAKEN, Event.EXPELLED) is PartitionState.LOST
    assert after(Event.GIVEN, Event.EXPELLED, Event.TAKEN) is PartitionState.LOST
