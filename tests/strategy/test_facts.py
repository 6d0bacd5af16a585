"""Numbers about members that strategies ask for: read, sent, judged, drawn; and what a strategy says of itself."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.clients.joining import JoiningMember, assign

import apportion
from apportion import Fact, Group
from apportion.arrays import NOBODY, Ints
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.member_facts import FactSource
from apportion.clients.group.options import Options
from apportion.errors import BadInput
from apportion.strategy import (
    CAPACITY,
    PRIORITY,
    UNSET,
    Claim,
    Holding,
    InSubscription,
    InUserData,
    Stateless,
    Traits,
    UserDataCodec,
    known,
    traits_of,
)
from apportion.strategy.codec import with_facts
from apportion.testing import ContractBroken, Kinds, check_assignor, many_groups
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.user_data import (
    read_cooperative,
    read_facts,
    read_sticky,
    without_facts,
    write_capacity,
    write_facts,
)


@dataclass(frozen=True)
class Warmest:
    """All to the warmest subscriber; ties to the first."""

    name: ClassVar[str] = "warmest"
    goals: ClassVar[tuple[str, ...]] = ("warmth",)
    facts: ClassVar[Mapping[str, Fact]] = {"warmth": Fact(default=3, low=1, high=9)}

    def assign(self, group: Group) -> Ints:
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        for topic in group.assignable_topics:
            members = group.subscribers(topic)
            owner[group.partitions(topic)] = members[np.argmax(group.facts["warmth"][members])]
        return owner


class Metadata:
    """Four partitions of every topic."""

    def partitions(self, topic: str) -> range:
        return range(4)

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


def group(**warmth: Any) -> dict[str, Any]:
    members = {name: {"topics": ["t"], "facts": {"warmth": value}} for name, value in warmth.items()}
    return {"topics": {"t": 4}, "members": members}


# -- in a group --------------------------------------------------------------------------------------------------------


def test_a_strategy_reads_what_it_asks_for_and_its_default_where_a_member_does_not_say() -> None:
    for warmth, winner in (({"a": 4, "b": 5}, "b"), ({"a": 2, "b": None}, "b"), ({"a": 3, "b": None}, "a")):
        raw = group(**warmth)
        if raw["members"]["b"]["facts"]["warmth"] is None:
            del raw["members"]["b"]["facts"]
        assert apportion.plan(raw, Warmest()).assignment[winner] == {"t": [0, 1, 2, 3]}, warmth
    assert apportion.plan({"topics": {"t": 4}, "members": {"a": {"topics": ["t"]}}}, Warmest()).assignment["a"]


def test_a_number_out_of_the_strategys_bounds_names_its_place_and_other_strategies_pass_it_over() -> None:
    for wrong in (0, 10, -(2**63) + 1, 2**63 - 1):
        raw = group(a=5, b=wrong)
        with pytest.raises(
            BadInput, match=rf"^members\.b\.facts\.warmth: found {wrong}; needed an integer from 1 to 9"
        ):
            apportion.plan(raw, Warmest())
        assert len(apportion.plan(raw, "sticky").assignment["b"]["t"]) == 2


@pytest.mark.parametrize("wrong", [True, 3.0, "7", [7], 2**63, -(2**63)])
def test_a_fact_is_a_whole_number_of_64_bits_in_group_json(wrong: Any) -> None:
    for raw in (
        group(a=wrong),
        {**group(a=wrong), "members": {f"m{n}": group(a=wrong)["members"]["a"] for n in range(20)}},
    ):
        with pytest.raises(BadInput, match=r"members\.(a|m0)\.facts\.warmth"):
            apportion.read_group(raw)


def test_facts_with_a_field_of_their_own_are_refused_among_the_others() -> None:
    with pytest.raises(BadInput, match=r"members\.a\.facts\.capacity.*field of the member"):
        apportion.read_group({"topics": {}, "members": {"a": {"topics": [], "facts": {"capacity": 3}}}})


def test_a_fact_that_nobody_asks_for_is_kept() -> None:
    raw = {
        "topics": {"t": 1},
        "members": {"a": {"topics": ["t"], "facts": {"warmth": 7, "größe": -1}}, "b": {"topics": []}},
    }
    written = apportion.group_to_dict(apportion.read_group(raw))
    assert written["members"]["a"]["facts"] == {"größe": -1, "warmth": 7}
    assert "facts" not in written["members"]["b"]
    assert apportion.read_group(json.dumps(written)).facts["warmth"].tolist() == [7, UNSET]


def test_priority_and_capacity_are_facts_with_a_field_of_their_own() -> None:
    read = apportion.read_group(
        {"topics": {}, "members": {"a": {"topics": [], "priority": 3, "capacity": 2}, "b": {"topics": []}}}
    )
    assert read.facts["priority"].tolist() == read.priority.tolist() == [3, UNSET]
    assert read.facts["capacity"].tolist() == read.capacity.tolist() == [2, 1]
    assert traits_of(known()["failover"]).facts["priority"] == PRIORITY
    asking = {name for name, s in known().items() if "capacity" in traits_of(s).facts}
    assert {"sticky", "cooperative-sticky", "lag-aware"} <= asking
    assert not asking & {"range", "roundrobin", "failover", "broker-uniform"}


@pytest.mark.parametrize(
    ("bounds", "where"),
    [
        ({"default": 5, "high": 4}, "default"),
        ({"low": 3, "high": 2}, "high"),
        ({"default": -1}, "default"),
        ({"high": 2**63}, "high"),
        ({"low": -(2**63)}, "low"),
        ({"default": True}, "default"),
    ],
)
def test_a_fact_whose_bounds_cannot_be_is_refused_where_it_is_made(bounds: dict[str, Any], where: str) -> None:
    with pytest.raises(BadInput, match=f"Fact.{where}"):
        Fact(**bounds)


# -- on the wire -------------------------------------------------------------------------------------------------------


def bridge(strategy: Any, **settings: Any) -> Bridge:
    return Bridge(strategy, Options(**settings))


def test_a_leader_plans_by_what_members_say_at_each_join() -> None:
    now = {"a": 4, "b": 5}
    members = {name: bridge(Warmest(), facts={"warmth": lambda name=name: now[name]}) for name in now}

    def winner() -> str:
        joining = [JoiningMember(name, None, one.subscription(["t"], keeps=False)) for name, one in members.items()]
        answers = assign(bridge(Warmest()), joining, Metadata())
        [name] = [name for name, given in answers.items() if given.partitions]
        return name

    assert winner() == "b"
    now["a"] = 9
    assert winner() == "a"


@pytest.mark.parametrize("codec", [Stateless(), InUserData(), InSubscription()], ids=lambda codec: type(codec).__name__)
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("capacity", [1, 7])
def test_what_kafkas_readers_see_stays_and_all_facts_are_read_back(
    codec: UserDataCodec, keeps: bool, capacity: int
) -> None:
    asked = {"warmth": Fact(), "capacity": CAPACITY, "größe": Fact(low=-(2**62), high=2**62)}
    facts = {"warmth": 5, "capacity": capacity, "größe": -(2**62)}
    for holding in (Holding(keeps=keeps), Holding((("t", (1, 2)),), 5, keeps)):
        plain = codec.user_data(holding)
        sent = with_facts(codec, plain, facts, asked)
        assert read_facts(sent) == {"warmth": 5, "größe": -(2**62)}
        assert (sent or b"").endswith(write_capacity(capacity)) == (capacity != 1)
        assert with_facts(codec, plain, {"warmth": 0, "capacity": 1}, asked) == plain, "defaults are said by nothing"
        for read in (read_sticky, read_cooperative):
            if type(codec) is not Stateless and (read is read_sticky) == (type(codec) is InUserData):
                assert read(sent) == read(plain)
        owned = holding.owned if keeps else ()
        claims = [codec.read(Subscription(("t",), data, owned, holding.generation)) for data in (plain, sent)]
        assert claims[0] == claims[1]


def test_a_capacity_is_not_lost_for_a_codec_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    class Mine(UserDataCodec):
        def user_data(self, holding: Holding) -> bytes | None:
            return b"mine"

        def read(self, subscription: Subscription) -> Claim:
            assert subscription.user_data == b"mine"
            return Claim({})

    class Roomy(Warmest):
        """All to the one of most capacity."""

        facts: ClassVar[Mapping[str, Fact]] = {"capacity": CAPACITY, "warmth": Fact()}
        memory = Mine()

        def assign(self, group: Group) -> Ints:
            return np.full(group.P, int(np.argmax(group.capacity)))

    joining = [
        JoiningMember(f"m{n}", None, bridge(Roomy(), capacity=n).subscription(["t"], keeps=False)) for n in (1, 9, 2)
    ]
    assert assign(bridge(Roomy()), joining, Metadata())["m9"].partitions
    with caplog.at_level(logging.WARNING, "apportion.clients"):
        bridge(Warmest(), capacity=2)
    assert "capacity=2 counts for nothing under 'warmest'" in caplog.text


def test_any_bytes_at_the_end_of_user_data_are_read_without_trouble() -> None:
    good = write_facts({"a": 1, "b": -5})
    r = random.Random(5)
    for _ in range(4_000):
        raw = bytearray(b"xy" + good + (write_capacity(3) if r.random() < 0.3 else b""))
        for _ in range(r.randrange(4)):
            raw[r.randrange(len(raw))] = r.randrange(256)
        sent = bytes(raw[r.randrange(8) :])
        assert all(isinstance(value, int) for value in read_facts(sent).values())
        assert len(without_facts(sent) or b"") <= len(sent)
    huge = b"\x7f\xff\xff\xff" + b"appfacts" + b"\0\0\0\4"
    assert (read_facts(huge), without_facts(huge)) == ({}, b"")
    assert without_facts(b"xy" + good) == b"xy"


def test_what_a_member_says_out_of_bounds_counts_as_the_default() -> None:
    sent = [write_facts({"warmth": value}) for value in (0, 1, 9, 10, -(2**63), 2**63 - 1)]
    joined = JoinedGroup(list("abcdef"), [None] * 6, [write_subscription(Subscription(("t",), data)) for data in sent])
    columns = joined.columns(joined.memories(Stateless()), Warmest.facts)
    assert columns.facts["warmth"].tolist() == [3, 1, 9, 3, 3, 3]


@pytest.mark.parametrize("source", [lambda: 1 / 0, lambda: 10, lambda: None, lambda: True, lambda: "5"])
def test_a_function_that_fails_is_named_in_the_log_and_the_default_is_sent(
    source: FactSource, caplog: pytest.LogCaptureFixture
) -> None:
    sent = bridge(Warmest(), facts={"warmth": source}).subscription(["t"], keeps=False)
    assert read_facts(sent.user_data) == {}
    assert len(caplog.records) == 1
    assert "warmth" in caplog.text
    assert "default is sent" in caplog.text


def test_a_fact_that_the_strategy_does_not_ask_for_or_out_of_bounds_is_refused_when_the_assignor_is_made() -> None:
    for strategy, facts, match in (
        (Warmest(), {"heat": 5}, r"facts\.heat.*'warmest' does not ask for.*one of warmth"),
        ("range", {"warmth": 5}, r"facts\.warmth.*'range' does not ask for"),
        (Warmest(), {"warmth": 10}, r"facts\.warmth.*found 10.*from 1 to 9"),
    ):
        with pytest.raises(BadInput, match=match):
            bridge(strategy, facts=facts)
    with pytest.raises(BadInput, match="one of the two"):
        Options(capacity=3, facts={"capacity": 4})


def test_priority_may_be_a_function_too() -> None:
    answers = iter([3, 5])
    one = bridge("failover", facts={"priority": lambda: next(answers)})
    claims = [one.memory.read(one.subscription(["t"], keeps=False)).facts for _ in range(2)]
    assert claims == [{"priority": 3}, {"priority": 5}]


@pytest.mark.parametrize(
    "claim",
    [
        Claim({"t": [2**40]}), Claim({"t": [1.5]}), Claim({"t": 5}), Claim({5: [1]}), Claim({"\ud800": [1]}),  # type: ignore[dict-item, list-item]
        Claim({}, 2**40), Claim({}, "5"), None,  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_codec_that_claims_what_cannot_be_costs_its_member_the_claims_alone(
    claim: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Nonsense(UserDataCodec):
        def read(self, subscription: Subscription) -> Claim:
            return claim

    class Strange(Warmest):
        """As ``Warmest``."""

        memory = Nonsense()

    joining = [JoiningMember("a", None, Subscription(("t",)))]
    answers = assign(bridge(Strange()), joining, Metadata())
    assert answers["a"].partitions == (("t", (0, 1, 2, 3)),)
    assert "member 'a' remembers nothing" in caplog.text


# -- the test kit ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_checker_and_the_groups_draw_facts_within_their_bounds() -> None:
    seen = [
        member["facts"]["warmth"]
        for one in many_groups(300, 1, Kinds(facts=Warmest.facts))
        for member in one["members"].values()
        if "facts" in member
    ]
    assert set(seen) == set(range(1, 10))
    assert list(many_groups(50, 1)) == list(many_groups(50, 1, Kinds())), "without facts the same groups as ever"
    check_assignor(Warmest())

    class Proud(Warmest):
        """It cannot stand the cold."""

        def assign(self, group: Group) -> Ints:
            if (group.facts["warmth"] == 1).any():
                raise ZeroDivisionError("cold")
            return super().assign(group)

    with pytest.raises(ContractBroken, match="ZeroDivisionError: cold") as broken:
        check_assignor(Proud())
    assert '"facts": {"warmth": 1}' in str(broken.value)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"warmth": 5}, "apportion.Fact"),
        (["warmth"], "apportion.Fact"),
        ({"": Fact()}, "1 to 255 bytes"),
        ({"x" * 256: Fact()}, "1 to 255 bytes"),
        ({"capacity": Fact(default=5)}, "apportion.strategy.CAPACITY"),
    ],
)
def test_the_checker_says_what_is_wrong_with_the_facts_that_are_asked_for(asked: Any, match: str) -> None:
    class Asking(Warmest):
        """It asks for what cannot be."""

        facts = asked

        def assign(self, group: Group) -> Ints:
            return np.full(group.P, NOBODY)

    with pytest.raises(ContractBroken, match=match):
        check_assignor(Asking())


# -- traits ------------------------------------------------------------------------------------------------------------


def test_a_strategy_that_says_nothing_has_the_defaults_and_each_trait_is_read_from_the_strategy() -> None:
    assert traits_of(Warmest()) == Traits(facts=Warmest.facts)
    for one in fields(Traits):
        value = object()
        assert getattr(traits_of(type("Strange", (), {one.name: value if one.name != "facts" else {}})), one.name) in (
            value,
            {},
        )


def test_a_strategy_of_somebody_else_is_shown_and_advised_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was judged by a list of names, in which no other package's strategy stood."""
    from apportion import comparison
    from apportion.strategy import registry

    for trait, shown in (
        ({"advised": False}, False),
        ({"stateful": True}, False),
        ({"server_side": True}, False),
        ({}, True),
    ):
        fair = type("Fair", (known()["sticky"],), {"name": "fair", "__doc__": "As sticky.", **trait})
        names = {"fair": fair, "range": known()["range"]}
        monkeypatch.setattr(registry, "known", lambda names=names, unlisted=True: names)
        monkeypatch.setattr(comparison, "known", lambda names=names, unlisted=True: names)
        raw = {"topics": {"t": 3, "u": 3}, "members": {m: {"topics": ["t", "u"]} for m in "ab"}}
        advice = comparison.advice(comparison.compare(raw, ["fair", "range"]))[0]
        assert advice.startswith("Advice: fair") == shown, (trait, advice)
