"""What a governor reads, plans, and holds against a group, without a cluster: the rules, facts, plans, reasons."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.sighted import sighting

import apportion
from apportion.acting.rule import Acting
from apportion.errors import ApportionError
from apportion.governing.carrier import Carrier
from apportion.governing.governor import Governor
from apportion.governing.plans import differences, governed_plan, outlook
from apportion.governing.rules_file import BY_LAG_ALONE, FactRule, GroupRule, read_rules
from apportion.model.facts import UNSET
from apportion.model.group_json import read_group
from apportion.sighting.sighting import Sighting
from apportion.wire import plan_text
from apportion.wire.plan_text import NUMBERS_WHOLE, TOPICS_WHOLE, GovernedPlan, MemberKey

FILE = r"""
[[group]]
name = "ads.eu"
assignor = "failover"
settings = {preempt = false}
convert = true
[[group.facts]]
fact = "priority"
instance_id = "pod-0"
value = 10
[[group.facts]]
fact = "capacity"
client_id = "worker-c(\\d+)-.*"
[[group]]
pattern = "mail-.*"
acting = "gain=0.3,moves=2"
"""
ENDS = "needed [[group]] entries alone."
ENTRY = "needed name or pattern, assignor, and settings and facts where wanted."
FACT = "needed fact, client_id or instance_id, and value."


def written(folder: Path, text: str) -> str:
    """The path of a file of rules."""
    path = folder / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_rules_are_read_as_they_stand(tmp_path: Path) -> None:
    ads, mail = read_rules(written(tmp_path, FILE))
    assert (ads.pattern.pattern, mail.pattern.pattern) == (re.escape("ads.eu"), "mail-.*")
    assert (ads.assignor, ads.convert, ads.acting) == (apportion.Failover(preempt=False), True, BY_LAG_ALONE)
    assert (mail.assignor, mail.convert, mail.facts) == (apportion.CooperativeSticky(), False, ())
    assert mail.acting == Acting(0.3, 30.0, 300.0, 2)
    assert ads.facts == (
        FactRule("priority", "instance_id", re.compile("pod-0"), 10),
        FactRule("capacity", "client_id", re.compile(r"worker-c(\d+)-.*")),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", f"found nothing; {ENDS}"), ("group = 5", f"found group; {ENDS}"),
        ("x = 1\n[[group]]\nname='a'", f"found x, group; {ENDS}"),
        ("[[group]", "needed TOML with [[group]] entries."),
        ("group = [1]", ": group 1: found 1; needed a table."),
        ("[[group]]\nassignor='range'", f": group 1: found assignor; {ENTRY}"),
        ("[[group]]\nname='a'\npattern='b'", f": group 1: found name, pattern; {ENTRY}"),
        ("[[group]]\nname='a'\n[[group]]\nname='b'\nmode=1", f": group 2: found name, mode; {ENTRY}"),
        ("[[group]]\nname=5", ": group 1.name: found 5; needed a group's name."),
        ("[[group]]\npattern='('", ": group 1.pattern: found '(' (missing ), unterminated subpattern at position 0); "),
        ("[[group]]\npattern=5", "needed a regular expression."),
        ("[[group]]\nname='a'\nassignor='stiky'", "no assignor is named 'stiky'"),
        ("[[group]]\nname='a'\nassignor=5", "assignor: found an int; needed a strategy, such as LagAware(), or its"),
        ("[[group]]\nname='a'\nsettings=5", ": group 1.settings: found 5; needed a table."),
        ("[[group]]\nname='a'\nconvert=1", ": group 1.convert: found 1; needed true or false."),
        ("[[group]]\nname='a'\nacting='speed=1'", "no --acting is named 'speed'"),
        ("[[group]]\nname='a'\nfacts=5", ": group 1.facts: found 5; needed [[group.facts]] entries."),
        ("[[group]]\nname='a'\nfacts=[5]", ": group 1.facts[0]: found 5; needed a table."),
        ("[[group]]\nname='a'\nfacts=[{fact='x', value=1}]", f": group 1.facts[0]: found fact, value; {FACT}"),
        ("[[group]]\nname='a'\nfacts=[{client_id='x', value=1}]",
         f": group 1.facts[0]: found client_id, value; {FACT}"),
        ("[[group]]\nname='a'\nfacts=[{fact='x', client_id='x', instance_id='y', value=1}]",
         f": group 1.facts[0]: found fact, client_id, instance_id, value; {FACT}"),
        ("[[group]]\nname='a'\nfacts=[{fact='x', client_id='x', value=1}, {fact='x', client_id='(', value=1}]",
         ": group 1.facts[1].client_id: found '(' (missing ), unterminated subpattern at position 0); needed a "),
        ("[[group]]\nname='a'\nfacts=[{fact='x', instance_id=5}]", ": group 1.facts[0].instance_id: found 5 ("),
        ("[[group]]\nname='a'\nfacts=[{fact='x', client_id='x', value='1'}]",
         ": group 1.facts[0].value: found '1'; needed a whole number."),
        ("[[group]]\nname='a'\nfacts=[{fact='x', client_id='x', value=1}, {fact='x', instance_id='pod'}]",
         ": group 1.facts[1].instance_id: found pod; needed a value, or brackets that find the number."),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ApportionError) as refused:
        read_rules(written(tmp_path, text))
    assert words in str(refused.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "open").write_text("[[group")
    with pytest.raises(tomllib.TOMLDecodeError) as unclosed:
        tomllib.loads("[[group")
    unread = "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    for name, found, needed in (
        ("none", "No such file or directory", "a file with [[group]] entries"),
        (".", "Is a directory", "a file with [[group]] entries"),
        ("bytes", unread, "TOML with [[group]] entries"),
        (
            "open",
            str(unclosed.value),
            "TOML with [[group]] entries",
        ),
    ):
        with pytest.raises(ApportionError) as refused:
            read_rules(str(tmp_path / name))
        assert str(refused.value) == f"{tmp_path / name}: found {found}; needed {needed}."


def rule(*facts: FactRule, **more: Any) -> GroupRule:
    """How the groups named g are governed."""
    return GroupRule(re.compile("g"), **{"assignor": apportion.find("sticky"), **more}, facts=facts)


def test_the_first_fact_that_is_about_a_member_counts() -> None:
    facts = (
        FactRule("warmth", "client_id", re.compile("c-1"), 5),
        FactRule("warmth", "client_id", re.compile(r"c-(-?\d+)x?(y)?")),
        FactRule("priority", "instance_id", re.compile("pod-.*"), 0),
        FactRule("capacity", "client_id", re.compile(r"c-(.*)")),
    )  # fmt: skip
    members = {
        "a": {"client_id": "c-1"}, "b": {"client_id": "c-7", "instance_id": "pod-3"},
        "c": {"client_id": "other"}, "d": {"instance_id": "pod"}, "e": {}, "f": {"client_id": "c--3"},
    }  # fmt: skip
    group = read_group({"topics": {"t": 1}, "members": {name: {"topics": ["t"], **of} for name, of in members.items()}})
    governed = rule(*facts[:3]).with_facts(group)
    told = {name: (w, p) for name, w, p in zip(group.members, governed.facts["warmth"], governed.priority, strict=True)}
    none = UNSET
    assert told == {
        "a": (5, none),
        "b": (7, 0),
        "c": (none, none),
        "d": (none, none),
        "e": (none, none),
        "f": (-3, none),
    }
    assert group.facts.keys() == {"priority", "capacity"}, "what is seen of the group stays as it is"
    with pytest.raises(ApportionError) as refused:
        rule(*facts).with_facts(group)
    assert str(refused.value) == "members.f.capacity: found -3; needed an integer from 1 to 1000000."


@pytest.mark.parametrize(
    ("client", "found"), [("c-x", "'x'"), ("c-", "''"), ("c-1_0", "'1_0'"), ("c-" + "9" * 20, "'9")]
)
def test_brackets_that_find_no_number_are_told_and_break_no_governor(client: str, found: str) -> None:
    with pytest.raises(ApportionError) as refused:
        rule(FactRule("capacity", "client_id", re.compile(r"c-(.*)?"))).with_facts(
            read_group({"topics": {"t": 1}, "members": {"a": {"topics": ["t"], "client_id": client}}})
        )
    assert str(refused.value).startswith(f"fact capacity: found {found}")
    assert str(refused.value).endswith(
        f" in client_id {client!r}; needed brackets that find a whole number, or a value."
    )


IDS = {"t": "rQcN1_L45HFQpfnIeDwgag", "u": "AAAAAAAAAAEAAAAAAAAAAg"}
RAW: dict[str, Any] = {
    "group": "g",
    "topics": {"t": [{"partition": p, "lag": lag} for p, lag in enumerate((50, 10, 0, 4))], "u": 2, "w": 1},
    "topic_ids": IDS,
    "members": {
        "b": {
            "topics": ["t", "u", "w"],
            "owned": {"t": [0, 1, 2]},
            "generation": 3,
            "instance_id": "pod-b",
            "capacity": 2,
        },
        "a": {"topics": ["t", "u", "w"], "owned": {"t": [3], "u": [0, 1]}, "generation": 3, "priority": 4},
        "c": {"topics": ["t", "u"], "owned": {}, "generation": 3, "priority": 2},
    },
}
T, U = (plan_text.topic_id(text) for text in IDS.values())


def planned(name: str = "sticky", number: int = 9, **more: Any) -> GovernedPlan:
    """The plan that a governor would publish of the group."""
    given = rule(assignor=apportion.find(name), **more)
    return governed_plan(read_group(RAW), given, number)


def test_a_plan_says_who_has_what_by_places_and_who_comes_next() -> None:
    plan = planned()
    assert plan.members == (MemberKey("a"), MemberKey("b", "pod-b"), MemberKey("c"))
    assert (plan.number, plan.promise, plan.rank) == (9, 0, ())
    assert {*plan.owners} == {T, U}, "a topic without an id is left out"
    group = read_group(RAW)
    owner = apportion.plan(RAW, "sticky").owner.tolist()
    for topic, places in plan.owners.items():
        name = {T: "t", U: "u"}[topic]
        for number, place in enumerate(places):
            p = next(p for p in range(group.P) if group.name_of(p) == (name, number))
            assert plan.members[place].member_id == group.members[owner[p]]
    alone = {**RAW, "members": {"b": {**RAW["members"]["b"], "topics": ["t"], "owned": {}}}}
    assert governed_plan(read_group(alone), rule(), 1).owners == {T: (0, 0, 0, 0), U: (-1, -1)}, "nobody's"
    nameless = {name: value for name, value in RAW.items() if name != "topic_ids"}
    assert governed_plan(read_group(nameless), rule(), 9) == replace(planned("sticky"), owners={})
    assert outlook(plan, read_group(nameless)).moves == 6, "what is planned cannot be told either"
    failover = planned("failover")
    assert (failover.promise, failover.rank) == (TOPICS_WHOLE, (0, 2, 1)), "by priority, then by id"
    below = {**RAW, "members": {**RAW["members"], "a": {**RAW["members"]["a"], "priority": -5}}}
    below["members"]["b"] = {**RAW["members"]["b"], "priority": None}
    ranked = governed_plan(read_group(below), rule(assignor=apportion.find("failover")), 1).rank
    assert ranked == (2, 0, 1), "whoever has a priority comes before who has none"
    assert planned("sticky-stream-join").promise == NUMBERS_WHOLE
    gaps = {**RAW, "topics": {"t": [{"partition": 1}, {"partition": 4}], "u": 2, "w": 1}}
    gaps["members"] = {m: {**fields, "owned": {}} for m, fields in RAW["members"].items()}
    assert [place == -1 for place in governed_plan(read_group(gaps), rule(), 1).owners[T]] == [
        True, False, True, True, False
    ]  # fmt: skip


def test_what_a_plan_changes_is_counted_and_weighed() -> None:
    group = read_group(RAW)
    same = replace(planned(), owners={T: (1, 1, 1, 0), U: (0, 0)})
    assert differences(same, group) == 0
    other = replace(same, owners={T: (1, 0, -1, 0), U: (2, 0)})
    assert differences(other, group) == 2, "what is planned for nobody does not count"
    now = outlook(same, group)
    assert (now.before, now.after, now.least, now.member, now.moves, now.in_seconds) == (
        30.0,
        30.0,
        16.0,
        "b",
        0,
        False,
    )
    then = outlook(other, group)
    assert (then.before, then.after, then.moves) == (30.0, 25.0, 3)
    assert outlook(replace(same, owners={T: (1, 1)}), group).moves == 4, "what a plan does not name is nobody's"


def governing(**more: Any) -> Governor:
    """A governor that no cluster has been asked by."""
    return Governor(None, "g", rule(**more))  # type: ignore[arg-type]


def seen(**more: Any) -> Sighting:
    """The group as it is looked at."""
    return sighting(RAW, **{"protocol": "consumer", "assignor": plan_text.ASSIGNOR, "state": "Stable", **more})


@pytest.mark.parametrize(
    ("convert", "found", "words"),
    [
        (False, {}, ""), (True, {}, ""), (True, {"protocol": "classic", "assignor": "range"}, ""),
        (False, {"assignor": "uniform"}, "g is assigned by uniform; needed is group.remote.assignor=apportion"),
        (False, {"assignor": ""}, "g is assigned by nobody; needed is group.remote.assignor=apportion"),
        (False, {"protocol": "classic"}, "g is assigned by apportion; needed is group.remote.assignor=apportion"),
        (True, {"protocol": "classic", "state": "PreparingRebalance"},
         "g is PreparingRebalance: a classic group is converted once it is Stable"),
        (True, {"protocol": "classic", "assigned_data": True},
         "g is classic, and its assignments carry user data: the broker would not convert it"),
        (False, {"classic_members": ("a", "b", "c")},
         "g has classic members alone, and becomes classic again once no carrier is in it"),
        (True, {"classic_members": ("a", "b", "c")}, ""), (False, {"classic_members": ("a", "b")}, ""),
    ],
)  # fmt: skip
def test_a_group_that_is_not_to_be_governed_is_told_why(convert: bool, found: dict[str, Any], words: str) -> None:
    assert governing(convert=convert)._foreign(seen(**found)) == words


def test_a_plans_number_is_above_all_that_are_carried_and_no_clock_is_asked() -> None:
    one = governing()
    part = plan_text.read(plan_text.texts(planned(number=7000), "c")[0])
    assert one._next_number(()) == 1
    assert one._next_number([({}, part), ({}, replace(part, number=6000))]) == 7001
    one._plan = planned(number=8000)
    assert one._next_number([({}, part)]) == 8001
    assert one._next_number([({}, replace(part, number=9000))]) == 9001


def answered(carrier: Carrier, fields: Mapping[str, Any], connection: object, epoch: int = 3) -> None:
    """The broker takes the heartbeat up."""
    answer = {"error_code": 0, "member_epoch": epoch, "heartbeat_interval_ms": 5000, "assignment": None}
    carrier.take(fields, answer, connection)


def test_a_plan_whose_heartbeat_was_lost_is_said_again_with_topics_that_the_broker_does_not_know() -> None:
    """Otherwise nothing of the group would change, and the plan would not be read."""
    carrier, connection = Carrier("g", "i"), object()
    carrier.carry("plan", "t")
    answered(carrier, carrier.fields(), connection)
    while carrier.to_say:
        answered(carrier, carrier.fields(), connection)
    known = carrier.topics
    carrier.announce()
    lost, again = carrier.fields(), carrier.fields()
    assert lost["subscribed_topic_names"] == again["subscribed_topic_names"] != known
    answered(carrier, again, connection)
    assert not carrier.to_say


def test_a_plan_is_said_again_on_a_new_connection_although_the_old_one_was_gone_with_its_last_answer() -> None:
    carrier = Carrier("g", "i")
    carrier.carry("plan", "t")
    while carrier.to_say:
        answered(carrier, carrier.fields(), None)
    answered(carrier, carrier.fields(), object())
    assert carrier.to_say, "it may lead to a broker that was started again"


def test_a_plan_is_published_where_it_differs_and_by_lag_where_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = read_group(RAW)
    one = governing(assignor=apportion.find("lag-aware"), acting=Acting(gain=0.1, hold_s=10, rest_s=60))
    plan = replace(planned("lag-aware"), owners={T: (1, 0, -1, 0), U: (2, 0)})
    carrier = Carrier("g", "i")
    assert one._why_not(plan, group) is None, "none is carried yet"
    one._plan, one.carriers = plan, [carrier]
    assert one._why_not(plan, group) is None, "its carrier is not there"
    carrier.epoch = 3
    assert one._why_not(replace(plan, number=99), group) == "", "it is the one that is carried"
    now = [1000.0]
    monkeypatch.setattr("apportion.governing.governor.time.monotonic", lambda: now[0])
    other = replace(plan, owners={T: (1, 0, 0, 0), U: (2, 0)})
    words = "b needs 30 messages to catch up, after 3 moves the heaviest would need 25 messages: 17% less"
    assert one._why_not(other, group) == f"{words}, but only for 0 s of 10 s"
    now[0] = 1009.0
    assert one._why_not(other, group) == f"{words}, but only for 9 s of 10 s"
    now[0] = 1010.0
    assert one._why_not(other, group) is None
    one._published_s, one._since_s = 1000.0, 1000.0
    assert one._why_not(other, group) == f"{words}, but the last rebalance was 10 s ago, and the group rests for 60 s"
    assert one._why_not(plan, group) == ""
    assert one._since_s is None, "it holds no longer"
    assert one._why_not(replace(other, members=plan.members[:2]), group) is None, "somebody went"
    assert one._why_not(replace(other, owners={T: (1, 0, 0, 0, 1), U: (2, 0)}), group) is None, "a topic grew"
    one.rule = replace(one.rule, assignor=apportion.find("sticky"))
    assert one._why_not(other, group) is None, "no lag is asked about"
