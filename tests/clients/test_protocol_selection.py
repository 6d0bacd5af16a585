"""Which strategy a group takes, and what a member hears that shares none with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.examples import thorough

from apportion.clients.group.protocol_selection import NoCommonStrategy, chosen
from apportion.testing.broker import Broker

from .groups import Members, new_name, settle


@pytest.mark.parametrize(
    ("lists", "wanted"),
    [
        ({"a": ["range"]}, "range"),
        ({"a": ["sticky", "range"], "b": ["range"]}, "range"),
        ({"a": ["sticky", "range"], "b": ["range", "sticky"], "c": ["sticky", "range"]}, "sticky"),
        ({"a": ["x", "range", "sticky"], "b": ["sticky", "range"], "c": ["range", "sticky"]}, "range"),
    ],
)
def test_the_first_that_all_support_wins_by_votes(lists: dict[str, list[str]], wanted: str):
    assert chosen(lists) == wanted


def test_nothing_in_common_names_both_sides():
    with pytest.raises(NoCommonStrategy, match="a has range; b has sticky"):
        chosen({"a": ["range"], "b": ["sticky"]})


@pytest.mark.broker
@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_a_refused_member_is_told_what_each_side_has(broker: Broker, client: str, tmp_path: Path):
    """The group has range; a member with sticky and roundrobin hears of both sides, not of a number."""
    topic = new_name("choice")
    broker.create_topic(topic, 2)
    with Members(broker, new_name("choice"), [topic], tmp_path) as group:
        first = group.python("kafka-python", "range", name="billing-1")
        settle([first], {topic: 2}, calm_s=0.2)
        other = group.python(client, "sticky", strategies=["sticky", "roundrobin"])
        until = time.monotonic() + 90
        while not other.of("error"):
            assert time.monotonic() < until, other.events
            time.sleep(0.1)
        why = other.of("error")[0]["why"]
        assert "it has sticky, roundrobin; the group uses 'range' (clients billing-1)" in why


@pytest.mark.broker
@pytest.mark.parametrize("client", ["kafka-python", thorough("aiokafka")])
def test_the_broker_chooses_by_the_same_votes(broker: Broker, client: str, tmp_path: Path):
    """Two votes for sticky against one for roundrobin, Java among the voters."""
    topic = new_name("votes")
    broker.create_topic(topic, 3)
    with Members(broker, new_name("votes"), [topic], tmp_path) as group:
        lists = [["roundrobin", "sticky"], ["sticky", "roundrobin"], ["sticky", "roundrobin"]]
        members: list[Any] = [
            group.python(client, "", strategies=lists[0]),
            group.java(lists[1]),
            group.python(client, "", strategies=lists[2]),
        ]
        settle(members, {topic: 3})
        assert chosen({str(i): names for i, names in enumerate(lists)}) == "sticky"
        with broker.admin() as admin:
            described = admin.describe_groups([group.group])[group.group]
        assert described["protocol_data"] == "sticky"
