"""What a member may not bring is refused in a sentence, and librdkafka's settings are understood; without a broker."""

from __future__ import annotations

from typing import Any

import pytest

import apportion
from apportion.acting.rule import Acting
from apportion.clients.confluent.settings import member_settings, rack_of
from apportion.clients.group.broker_takeover import policy
from apportion.clients.group.error_sentences import sentence as error_sentence
from apportion.clients.group.options import Options
from apportion.errors import BadInput


def test_the_policy_is_the_users_else_the_strategys() -> None:
    assert [policy(apportion.find(name), None) for name in ("failover", "streams", "range")] == ["stop", "stop", "log"]
    assert policy(apportion.find("failover"), "continue") == "continue"
    with pytest.raises(BadInput) as refused:
        policy(apportion.find("range"), "ignore")  # type: ignore[arg-type]
    assert str(refused.value) == "on_foreign: found 'ignore'; needed one of stop, log, continue."


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rack": 5}, "rack: found 5; needed a text."),
        ({"auto_offset_reset": "now"}, 'auto_offset_reset: found "now"; needed one of latest, earliest, none.'),
        (
            {"acting": Acting()},
            "acting: found acting without lag; needed a LagFeed as lag=, by which the group's lag is",
        ),
        (
            {"capacity": "learned"},
            "capacity: found 'learned' without acting; needed acting=Acting(...), which learns it,",
        ),
        ({"capacity": 0}, "capacity: found 0; needed an integer from 1 to 1000000."),
        ({"capacity": 1_000_001}, "capacity: found 1000001; needed an integer from 1 to 1000000."),
        ({"priority": 2**31}, "priority: found 2147483648; needed an integer from -2147483648 to 2147483647."),
        ({"priority": -(2**31) - 1}, "priority: found -2147483649; needed an integer from -2147483648 to 2147483647."),
        (
            {"priority": 1, "facts": {"priority": 2}},
            "facts.priority: found it next to priority=1; needed one of the two.",
        ),
        (
            {"capacity": 2, "facts": {"capacity": 3}},
            "facts.capacity: found it next to capacity=2; needed one of the two.",
        ),
    ],
)
def test_what_a_member_cannot_bring_is_refused_before_it_joins(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        Options(**given)
    assert str(refused.value).startswith(words)


class NoBrokersAvailable(Exception):
    """As the clients call it."""


class TopicAuthorizationFailed(Exception):
    """aiokafka's, without the ending."""


class Derived(TopicAuthorizationFailed):
    """Known by what it is made of."""


def test_errors_of_clients_say_what_is_missing_and_how_it_is_given() -> None:
    right = (
        "no right to read or describe a topic{}: an operator gives it with kafka-acls --add --allow-principal User:YOU "
        "--operation Read --topic TOPIC"
    )
    assert error_sentence(NoBrokersAvailable(), "cluster x") == (
        "no broker answered (cluster x): see the addresses and the security protocol"
    )
    assert error_sentence(Derived("t"), "topic t") == right.format(" (topic t)")
    assert error_sentence(TopicAuthorizationFailed("t")) == right.format("")
    assert error_sentence(ValueError("a\n  b"), "t") == "ValueError: a b (t)"
    assert error_sentence(ValueError("x" * 400)) == "ValueError: " + "x" * 300


PLAIN = {"bootstrap_servers": ["localhost"], "enable_auto_commit": True, "isolation_level": "read_committed"}


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        ({"bootstrap.servers": "a:1,b:2"}, {**PLAIN, "bootstrap_servers": ["a:1", "b:2"]}),
        ({"metadata.broker.list": "a:1"}, {**PLAIN, "bootstrap_servers": ["a:1"]}),
        ({"group.id": "g", "client.id": "c", "group.instance.id": "i"},
         {**PLAIN, "group_id": "g", "client_id": "c", "group_instance_id": "i"}),
        ({"session.timeout.ms": "6000", "auto.commit.interval.ms": 500},
         {**PLAIN, "session_timeout_ms": 6000, "auto_commit_interval_ms": 500}),
        ({"security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
         {**PLAIN, "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "u",
          "sasl_plain_password": "p"}),
        ({"ssl.endpoint.identification.algorithm": "none"}, {**PLAIN, "ssl_check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": "NONE"}, {**PLAIN, "ssl_check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": "https"}, PLAIN),
        ({"enable.auto.commit": "False"}, {**PLAIN, "enable_auto_commit": False}),
        ({"enable.auto.commit": False}, {**PLAIN, "enable_auto_commit": False}),
        ({"enable.auto.commit": "0"}, {**PLAIN, "enable_auto_commit": False}),
        ({"enable.auto.commit": "f"}, {**PLAIN, "enable_auto_commit": False}),
        ({"enable.auto.commit": "true"}, PLAIN),
        ({"isolation.level": "read_uncommitted"}, {**PLAIN, "isolation_level": "read_uncommitted"}),
        ({"ssl.ca.location": "ca", "ssl.key.password": "k"}, {**PLAIN, "ssl_cafile": "ca", "ssl_password": "k"}),
    ],
)  # fmt: skip
def test_librdkafkas_settings_are_the_members_too(config: dict[str, Any], settings: dict[str, Any]) -> None:
    where = {} if "metadata.broker.list" in config else {"bootstrap.servers": "localhost"}
    assert member_settings({**where, **config}) == settings


def test_a_login_that_the_member_cannot_have_is_refused_and_racks_are_read() -> None:
    with pytest.raises(BadInput) as refused:
        member_settings(
            {
                "bootstrap.servers": "a:1",
                "sasl.oauthbearer.config": "x",
                "ssl.engine.location": "y",
                "oauth_cb": 1,
                "sasl.username": "u",
            }
        )
    words = str(refused.value)
    assert words.startswith(
        "config: found oauth_cb, sasl.oauthbearer.config, ssl.engine.location; needed settings that the group's "
        "member, a kafka-python consumer, has too: sasl.mechanism, sasl.mechanisms, sasl.username, "
    )
    assert words.endswith("ssl.crl.location, ssl.endpoint.identification.algorithm.")
    assert [rack_of(one) for one in ({}, {"client.rack": ""}, {"client.rack": "r"}, {"client.rack": None})] == [
        None, None, "r", None
    ]  # fmt: skip
