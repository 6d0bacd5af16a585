"""What members are told, in whole sentences, and where each bound of what they may bring lies; without a broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.joining import JoiningMember, assign

import apportion
from apportion.acting.rule import Acting
from apportion.clients.confluent.settings import member_settings, rack_of
from apportion.clients.group import protocol_selection
from apportion.clients.group.bridge import Bridge, bridge_for, require_client_side
from apportion.clients.group.broker_takeover import TakeoverWatch, policy, sentence
from apportion.clients.group.error_sentences import sentence as error_sentence
from apportion.clients.group.member_facts import MemberFacts
from apportion.clients.group.options import Options
from apportion.clients.lag_feed import LagFeed, Sampled
from apportion.clients.rebalance import PlannedRebalance, line_of
from apportion.errors import BadInput
from apportion.model.facts import CAPACITY, Fact
from apportion.wire import plan_text
from apportion.wire.plan_text import NUMBERS_WHOLE, TOPICS_WHOLE, GovernedPlan, MemberKey
from apportion.wire.subscription import Subscription

ADVICE = "Give all of them one in common: first add it everywhere, then take the old one away."
NEW_NOW = (
    "group 'g' is of the new protocol now (group.protocol=consumer): the broker assigns, and its classic members have "
    "no strategy in common with this one, which has range."
)
START = "Start it with one of theirs, end the members of the new protocol"
LACKS = "group 'g' has no strategy in common with this member"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            ("g", ["range"], "", [], "connect"),
            "group 'g' is no group of consumers but of type 'connect'; take another group id.",
        ),
        (("g", ["range", "sticky"], "", [], "consumer"), f"{LACKS}, which has range, sticky. {ADVICE}"),
        (("g", ["range"], "", [], ""), f"{LACKS}, which has range. {ADVICE}"),
        (
            ("g", ["range"], "sticky", ["b", "a", "b"], "consumer"),
            f"{LACKS}: it has range; the group uses 'sticky' (clients a, b). {ADVICE}",
        ),
        (
            ("g", ["range"], "sticky", list("gfedcba"), "consumer"),
            f"{LACKS}: it has range; the group uses 'sticky' (clients a, b, c, d, e and 2 more). {ADVICE}",
        ),
        (
            ("g", ["range"], "sticky", list("edcba"), ""),
            f"{LACKS}: it has range; the group uses 'sticky' (clients a, b, c, d, e). {ADVICE}",
        ),
        (
            ("g", ["range"], "", [], "consumer", "Dead"),
            f"{NEW_NOW} {START} first, or take another group id.",
        ),
    ],
)
def test_a_refused_member_hears_what_each_side_has(asked: tuple[Any, ...], words: str) -> None:
    assert protocol_selection.refused(*asked) == words


UUID = "6ab2d1b8-7c1f-4b0e-9d3a-0a4a5b1c2d3e"


@pytest.mark.parametrize(
    ("leader", "member", "instance", "itself"),
    [
        (f"a-{UUID}", f"a-{UUID[::-1]}", "a", True), (f"a-{UUID}", f"a-{UUID}", "a", False), (None, "a", "a", False),
        ("", "a", "a", False), (f"a-{UUID}", "b", None, False), (f"a-{UUID}", "b", "", False),
        (f"a-{UUID}x", "b", "a", False), (f"a-{UUID[:-1]}", "b", "a", False), (f"b-{UUID}", "b", "a", False),
        (f"a-b-{UUID}", "b", "a", False), (f"a-b-{UUID}", "b", "a-b", True),
    ],
)  # fmt: skip
def test_a_static_member_knows_itself_from_before_its_restart(
    leader: str | None, member: str, instance: str | None, itself: bool
) -> None:
    assert protocol_selection.names_itself(leader, member, instance) is itself


def test_votes_are_counted_for_what_all_support() -> None:
    assert protocol_selection.chosen({"a": ["x", "r", "s"], "b": ["s", "r"], "c": ["r", "s"]}) == "r"
    assert protocol_selection.chosen({"a": ["r", "s"], "b": ["s", "r"]}) == "r", "a tie is the first member's"
    for lists, sides in (({}, ""), ({"a": [], "b": ["s"]}, "a has none; b has s")):
        with pytest.raises(protocol_selection.NoCommonStrategy) as refused:
            protocol_selection.chosen(lists)
        assert str(refused.value) == f"no strategy is common to all members: {sides}. {ADVICE}"


CLASSIC = (
    "group 'g' is of the new protocol now, since some member has group.protocol=consumer: the broker assigns by its "
    "own assignor, {who} is no longer asked, and this member {does}. What to do: end the members with "
    "group.protocol=consumer, and the group is classic again at once (group.consumer.migration.policy=disabled on the "
    "broker keeps them out){more}."
)
STOPPED = CLASSIC.format(
    who="'failover'", does="has given its partitions back and stopped",
    more="; or set on_foreign='continue' to read what the broker gives",
)  # fmt: skip


def test_a_member_that_the_broker_takes_over_is_told_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")
    news: list[PlannedRebalance] = []
    watch = TakeoverWatch(
        [Bridge("range", Options(on_plan=news.append)), Bridge("failover", Options(on_plan=news.append))]
    )
    assert (watch.policy, watch.looks("a"), watch.looks(""), watch.looks(None)) == ("stop", False, True, True)
    watch = TakeoverWatch([Bridge("failover", Options(on_plan=news.append))])
    assert [watch.joined("a", "g", 1), watch.joined("", "g", 2), watch.joined("", "g", 3)] == [False, True, True]
    assert watch.stopped == STOPPED
    assert [(one.group, one.generation, one.assignor, one.foreign, one.plan) for one in news] == [
        ("g", 2, "failover", True, None)
    ]
    assert news[0].why == "the broker assigns by the new protocol (group.protocol=consumer)"
    assert news[0].assignment == {}
    assert not watch.joined("b", "g", 4)
    reads = {"log": logging.WARNING, "continue": logging.INFO}
    for chosen, level in reads.items():
        reading = TakeoverWatch([Bridge("range", Options(on_foreign=chosen, on_plan=lambda news: 1 / 0))])  # type: ignore[arg-type]
        assert (reading.policy, reading.looks(None)) == (chosen, False)
        assert [reading.joined(None, "g", 2), reading.joined(None, "g", 3)] == [False, False]
        assert reading.stopped == ""
        does = "reads what the broker gives it" + (", as on_foreign='continue' says" if chosen == "continue" else "")
        told = CLASSIC.format(who="'range'", does=does, more="")
        assert (logging.getLevelName(level), told) in [(one.levelname, one.getMessage()) for one in caplog.records]
    lines = [(one.levelno, one.getMessage()) for one in caplog.records]
    assert lines[0] == (logging.ERROR, STOPPED)
    assert lines[1] == (logging.INFO, "group 'g' is classic again: 'failover' is asked again")
    assert caplog.records[0].apportion == {"group": "g", "generation": 2, "foreign": True}  # type: ignore[attr-defined]
    assert [text for _, text in lines].count("the on_plan hook failed; the rebalance goes on") == 2
    assert sentence("g", "'failover'", "stop") == STOPPED


def test_a_governors_plan_that_keeps_the_promise_lets_a_member_read_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")

    def group(promise: int, assignor: str = plan_text.ASSIGNOR) -> dict[str, Any]:
        [text] = plan_text.texts(GovernedPlan(7, promise, (MemberKey("a"),), (0,), {}), "c")
        return {"assignor_name": assignor, "members": [{"rack_id": "r1"}, {"rack_id": text}, {"rack_id": None}]}

    for promise, strategies, kept in (
        (TOPICS_WHOLE, ["failover"], True), (NUMBERS_WHOLE, ["failover"], False), (0, ["failover"], False),
        (NUMBERS_WHOLE, ["sticky-stream-join"], True), (TOPICS_WHOLE, ["failover", "sticky-stream-join"], False),
        (TOPICS_WHOLE | NUMBERS_WHOLE, ["failover", "sticky-stream-join"], True), (TOPICS_WHOLE, ["range"], False),
    ):  # fmt: skip
        watch = TakeoverWatch([Bridge(name, Options(on_foreign="stop")) for name in strategies])
        watch.look(group(promise))
        assert watch.plan_keeps is kept, (promise, strategies)
        assert watch.joined("", "g", 1) is not kept
    watch.look(group(0, "uniform"))
    watch = TakeoverWatch([Bridge("failover", Options())])
    watch.look(group(TOPICS_WHOLE))
    assert not watch.joined("", "g", 1)
    watch.look({"assignor_name": plan_text.ASSIGNOR, "members": [{"rack_id": None}]})
    assert watch.plan_keeps, "the brokers remember it"
    assert not watch.joined("", "g", 2)
    text = "group 'g' is of the new protocol now, and a governor's plan keeps 'failover': it reads on"
    assert (logging.INFO, text) in [(one.levelno, one.getMessage()) for one in caplog.records]
    watch.look(group(TOPICS_WHOLE, "uniform"))
    assert watch.joined("", "g", 3), "the class no longer assigns"
    assert watch.stopped == STOPPED
    watch.look(group(TOPICS_WHOLE))
    assert not watch.joined("x", "g", 4)
    assert not watch.plan_keeps, "a classic group carries no plan"


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
            "facts.priority: found it beside priority=1; needed one of the two.",
        ),
        (
            {"capacity": 2, "facts": {"capacity": 3}},
            "facts.capacity: found it beside capacity=2; needed one of the two.",
        ),
    ],
)
def test_what_a_member_cannot_bring_is_refused_before_it_joins(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        Options(**given)
    assert str(refused.value).startswith(words)


def test_the_ends_of_what_a_member_may_bring() -> None:
    for priority in (-(2**31), 2**31 - 1, 0):
        assert Options(priority=priority).fields == {"priority": priority}
    assert Options(capacity=1).fields == {}
    assert Options(capacity=1_000_000, priority=-1).fields == {"priority": -1, "capacity": 1_000_000}
    assert not Options().learns
    with pytest.raises(BadInput) as refused:
        require_client_side(apportion.find("broker-range"))
    assert str(refused.value) == (
        "assignor: found 'broker-range', which Kafka's broker alone runs; needed a strategy that a member runs; for "
        "the broker's, set group.protocol=consumer and group.remote.assignor=range in a client that has them, such as "
        "confluent-kafka, and leave apportion out of it."
    )
    bridge = bridge_for(rack="r", priority=None, capacity=3)
    assert (bridge.name, bridge.options.rack, bridge.options.capacity) == ("cooperative-sticky", "r", 3)
    assert bridge_for("lag-aware", max_skew="4").strategy == apportion.LagAware(max_skew=4)


def test_facts_are_asked_at_each_join_and_trouble_is_told(caplog: pytest.LogCaptureFixture) -> None:
    asked = {"warmth": Fact(3, 1, 9), "load": Fact(7, 5, 8), "capacity": CAPACITY}
    answers: Iterator[Any] = iter([4, 9, 10, "x", True])
    facts = MemberFacts("warm", asked, {"warmth": lambda: next(answers), "load": 6, "priority": 2, "capacity": 5})
    assert caplog.messages == ["priority=2 counts for nothing under 'warm', which does not ask for it"]
    MemberFacts("warm", {}, {"capacity": 1})
    assert len(caplog.messages) == 1, "a default counts for nothing anyway"
    fields = {"load": 6, "capacity": 5}
    assert [facts.now() for _ in range(6)] == [{"warmth": one, **fields} for one in (4, 9, 3, 3, 3, 3)]
    assert caplog.messages[1:] == [
        "facts.warmth: found 10; needed an integer from 1 to 9. The default is sent.",
        'facts.warmth: found "x"; needed an integer. The default is sent.',
        "facts.warmth: found true; needed an integer. The default is sent.",
        "the function of the fact 'warmth' failed; the default is sent",
    ]
    for given, words in (
        ({"warm": 1}, "facts.warm: found a fact that 's' does not ask for; needed one of warmth, load, capacity."),
        ({"load": 4}, "facts.load: found 4; needed an integer from 5 to 8."),
        ({"priority": 2**40}, "priority: found 1099511627776; needed an integer from -2147483648 to 2147483647."),
    ):
        with pytest.raises(BadInput) as refused:
            MemberFacts("s", asked, given)
        assert str(refused.value) == words
    with pytest.raises(BadInput, match=r"^facts\.x: found a fact that 's' does not ask for; needed none\.$"):
        MemberFacts("s", {}, {"x": 1})


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


class Topics:
    """Four partitions of whatever is asked for, but of one topic."""

    def partitions(self, topic: str) -> range | None:
        return None if topic == "unknown" else range(4)

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


def fetched(table: Any) -> LagFeed:
    """A feed that has asked once."""
    feed = LagFeed("g", lambda *_: table, topics=["t"], max_age_s=30)
    feed.refresh()
    return feed


def test_a_table_is_used_as_long_as_it_is_young_and_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = LagFeed("g", lambda *_: {"t": {0: {"end": 9}}}, topics=["t"], max_age_s=30)
    assert feed.table(["t"]) == ({}, "nothing was fetched yet")
    assert feed.asked_s is None
    now = time.monotonic()
    monkeypatch.setattr("apportion.clients.lag_feed.time.monotonic", lambda: now)
    assert feed.refresh()
    assert feed.asked_s == now
    assert feed.table(["t"]) == ({"t": {0: {"end": 9}}}, None)
    assert feed.table(["v", "t", "u"]) == ({"t": {0: {"end": 9}}}, "no offsets yet of u, v")
    monkeypatch.setattr("apportion.clients.lag_feed.time.monotonic", lambda: now + 30)
    assert feed.table(["t"]) == ({"t": {0: {"end": 9}}}, None)
    monkeypatch.setattr("apportion.clients.lag_feed.time.monotonic", lambda: now + 30.6)
    assert feed.table(["t"]) == ({}, "the newest offsets are 31 s old, at most 30 s are allowed")
    monkeypatch.setattr("apportion.clients.lag_feed.time.monotonic", lambda: now)
    sampled = fetched(Sampled({"t": {0: {"end": 9}}, "u": {0: {"end": 1}}}, {"t": 31.0, "u": 30.0}))
    assert sampled.table(["t", "u"]) == ({"u": {0: {"end": 1}}}, "those of t are more than 30 s old")
    assert sampled.table(["t"]) == ({}, "the newest offsets are 31 s old, at most 30 s are allowed")
    assert sampled.table(["t", "v"])[0] == {}
    assert sampled.table(["u", "t", "v"])[1] == "no offsets yet of v; those of t are more than 30 s old"
    assert repr(feed) == "LagFeed('g', every_s=10, max_age_s=30)"
    with pytest.raises(BadInput, match=r"^topics: found 'clicks'; needed a list of names, \['clicks'\]\.$"):
        LagFeed("g", lambda *_: {}, topics="clicks")
    assert not LagFeed("g", lambda *_: {}).refresh(), "of no topics there is nothing to ask"


def test_a_fetch_that_fails_is_told_and_the_last_answer_counts_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [{"t": {0: {"end": 9}}}, ValueError("no broker")]

    def fetch(group: str, topics: Any, deadline_s: float) -> Any:
        assert (group, topics, deadline_s) == ("g", ["t"], 5)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    feed = LagFeed("g", fetch, topics=["t"])
    assert [feed.refresh(), feed.refresh()] == [True, False]
    assert caplog.messages == ["the lag of group 'g' could not be fetched: ValueError: no broker"]
    assert feed.table(["t"]) == ({"t": {0: {"end": 9}}}, None)
    later = time.monotonic() + 100
    monkeypatch.setattr("apportion.clients.lag_feed.time.monotonic", lambda: later)
    told = feed.table(["t"])[1]
    assert told == "the newest offsets are 100 s old, at most 60 s are allowed (ValueError: no broker)"


def test_a_leader_says_what_it_did_not_know(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")

    def assigned(bridge: Bridge, *topics: str) -> None:
        assign(bridge, [JoiningMember("a", None, Subscription(topics))], Topics(), "g", 4)

    assigned(Bridge("lag-aware", Options()), "t", "unknown")
    assert caplog.messages[0] == "no metadata yet of ['unknown']: they get no owner in this round"
    assert caplog.messages[1] == "the plan counts partitions: lag-aware was given no lag, as by assignor(..., lag=feed)"
    caplog.clear()
    assigned(Bridge("lag-aware", Options(lag=fetched({"t": {0: {"lag": 5}, 3: {"lag": 1}}}))), "t", "u")
    assert caplog.messages[0] == "the plan counts partitions where lag is unknown: no offsets yet of u"
    caplog.clear()
    assigned(Bridge("lag-aware", Options(lag=fetched({"t": {0: 5}}))), "t")
    assert caplog.messages[0].startswith("the plan counts partitions, since the offsets of the lag feed cannot be used")
    caplog.clear()
    claims = (("t", (0, 9)), ("gone", (1,)))
    assign(
        Bridge("cooperative-sticky", Options()),
        [JoiningMember("a", None, Subscription(("t",), None, claims, 3))],
        Topics(),
        "g",
        4,
    )
    assert caplog.messages[0] == "member 'a' claims what does not exist, such as gone-1; the claim falls"
    line = caplog.messages[1]
    assert line.startswith(
        'rebalance group="g" generation=4 assignor="cooperative-sticky" members=1 partitions=4 moved=0'
    )
    assert (
        ' kept=1 given=3 withheld=0 ignored=2 why="this member leads now" proof="balance:optimal,moves:optimal"' in line
    )
    assert line_of("e", {"a": 1, "b": {"x": "y", "z": 2}, "c": None, "d": "ü"}) == 'e a=1 b="x:y,z:2" c=null d="ü"'
