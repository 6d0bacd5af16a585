"""Bad input of every kind is an error that names its place, and no input at all gives anything but such an error."""

from __future__ import annotations

import contextlib
import json
import random
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

import apportion
from apportion.testing import groups, many_groups
from apportion.testing.groups import shuffled


def group(**changes: Any) -> dict[str, Any]:
    return {"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}, **changes}


def topic(*entries: Any) -> dict[str, Any]:
    return group(topics={"t": list(entries)})


def member(**fields: Any) -> dict[str, Any]:
    return group(members={"a": {"topics": ["t"], **fields}})


def claims(what: Any) -> dict[str, Any]:
    return member(owned=what)


BAD: list[tuple[Any, str, str]] = [
    # a wrong type anywhere
    ([], "group", "found []"),
    (group(version="1"), "version", 'found "1"'),
    (group(group=7), "group", "found 7"),
    (group(topics=[]), "topics", "found []"),
    (group(topics=None), "topics", "found null"),
    (group(members=[]), "members", "found []"),
    (group(topics={"t": "2"}), "topics.t", 'found "2"'),
    (group(topics={"t": True}), "topics.t", "found true"),
    (group(topics={"t": 3.0}), "topics.t", "found 3.0"),
    (group(topics={"t": None}), "topics.t", "found null"),
    (group(topics={"t": {}}), "topics.t", "found {}"),
    (topic(0), "topics.t[0]", "found 0"),
    (topic({"partition": True}), "topics.t[0].partition", "found true"),
    (topic({"partition": 1.0}), "topics.t[0].partition", "found 1.0"),
    (topic({"partition": None}), "topics.t[0].partition", "found null"),
    (topic({"partition": 0}, {"partition": 1, "racks": "a"}), "topics.t[1].racks", 'found "a"'),
    (topic({"partition": 0, "racks": ["a", 1]}), "topics.t[0].racks[1]", "found 1"),
    (topic({"partition": 0, "lag": "9"}), "topics.t[0].lag", 'found "9"'),
    (topic({"partition": 0, "lag": True}), "topics.t[0].lag", "found true"),
    (topic({"partition": 0, "end": 9.0}), "topics.t[0].end", "found 9.0"),
    (group(members={"a": []}), "members.a", "found []"),
    (group(members={"a": {"topics": "t"}}), "members.a.topics", 'found "t"'),
    (group(members={"a": {"topics": ["t", "u", 3]}}), "members.a.topics[2]", "found 3"),
    (group(members={"a": {"topics": None}}), "members.a.topics", "found null"),
    (member(rack=1), "members.a.rack", "found 1"),
    (member(instance_id=[]), "members.a.instance_id", "found []"),
    (member(client_id=1), "members.a.client_id", "found 1"),
    (member(host={}), "members.a.host", "found {}"),
    (member(generation="5"), "members.a.generation", 'found "5"'),
    (member(generation=5.0), "members.a.generation", "found 5.0"),
    (member(priority=True), "members.a.priority", "found true"),
    (claims([]), "members.a.owned", "found []"),
    (claims({"t": 1}), "members.a.owned.t", "found 1"),
    (claims({"t": [0, "1"]}), "members.a.owned.t[1]", 'found "1"'),
    (claims({"t": [0, True]}), "members.a.owned.t[1]", "found true"),
    (claims({"t": [0, 1.0]}), "members.a.owned.t[1]", "found 1.0"),
    (claims({"t": [None]}), "members.a.owned.t[0]", "found null"),
    (topic({"partition": 0, "weight": "9"}), "topics.t[0].weight", 'found "9"'),
    (topic({"partition": 0, "weight": True}), "topics.t[0].weight", "found true"),
    (member(capacity=2.0), "members.a.capacity", "found 2.0"),
    (member(tags=["zone"]), "members.a.tags", 'found ["zone"]'),
    (member(tags={"zone": 1}), "members.a.tags.zone", "found 1"),
    (member(standby={"t": [0, "1"]}), "members.a.standby.t[1]", 'found "1"'),
    (member(recovery_lag={"t": {"0": 5}}), "members.a.recovery_lag.t", "a list of partitions with their lag"),
    (member(recovery_lag={"t": [{"partition": 0}]}), "members.a.recovery_lag.t[0].lag", "nothing"),
    (member(recovery_lag={"t": [{"partition": 0, "lag": -1}]}), "members.a.recovery_lag.t[0].lag", "found -1"),
    (
        member(recovery_lag={"t": [{"partition": 0, "lag": 1}, {"partition": 0, "lag": 2}]}),
        "members.a.recovery_lag.t[1].partition",
        "partition 0 a second time",
    ),
    (group(topic_ids=[]), "topic_ids", "found []"),
    (group(topic_ids={"t": 1}), "topic_ids.t", "found 1"),
    # a number out of bounds
    (topic({"partition": 0, "weight": -0.5}), "topics.t[0].weight", "found -0.5"),
    (topic({"partition": 0, "weight": 2**53 + 1}), "topics.t[0].weight", "found 9007199254740993"),
    (topic({"partition": 0, "weight": float("nan")}), "topics.t[0].weight", "found NaN"),
    (topic({"partition": 0, "weight": float("inf")}), "topics.t[0].weight", "found Infinity"),
    (member(capacity=0), "members.a.capacity", "found 0"),
    (member(capacity=1_000_001), "members.a.capacity", "found 1000001"),
    (group(topic_ids={"t": "abc"}), "topic_ids.t", "as Kafka prints it"),
    (group(topic_ids={"t": "x" * 22, "u": "x" * 22}), "topic_ids.u", "which t has too"),
    (group(topics={"t": -1}), "topics.t", "found -1"),
    (group(topics={"t": 2**31 + 1}), "topics.t", "found 2147483649"),
    (topic({"partition": -1}), "topics.t[0].partition", "found -1"),
    (topic({"partition": 2**31}), "topics.t[0].partition", "found 2147483648"),
    (topic({"partition": 0, "lag": -1}), "topics.t[0].lag", "found -1"),
    (topic({"partition": 0, "begin": -1}), "topics.t[0].begin", "found -1"),
    (topic({"partition": 0, "committed": -1}), "topics.t[0].committed", "found -1"),
    (topic({"partition": 0, "end": 2**63}), "topics.t[0].end", "found 9223372036854775808"),
    (topic({"partition": 0, "end": 10**400}), "topics.t[0].end", "found an integer of 1329 bits"),
    (member(generation=-2), "members.a.generation", "found -2"),
    (member(generation=2**31), "members.a.generation", "found 2147483648"),
    (member(priority=2**31), "members.a.priority", "found 2147483648"),
    (claims({"t": [2**31]}), "members.a.owned.t[0]", "found 2147483648"),
    (group(topics={"t": 2_000_001}), "topics.t", "more than 2,000,000 partitions"),
    (group(topics={"t": 1_999_999, "u": 2}), "topics.u", "more than 2,000,000 partitions"),
    # what must be there, once, and nothing else
    ({}, "topics", "nothing"),
    ({"topics": {}}, "members", "nothing"),
    (group(members={"a": {}}), "members.a.topics", "nothing"),
    (topic({"lag": 1}), "topics.t[0].partition", "nothing"),
    (group(members={}), "members", "no member at all"),
    (group(extra=1), "extra", "an unknown field"),
    (topic({"partition": 0, "lags": 1}), "topics.t[0].lags", "an unknown field"),
    (member(subscription=[]), "members.a.subscription", "an unknown field"),
    (topic({"partition": 1}, {"partition": 1}), "topics.t[1].partition", "partition 1 a second time"),
    (
        group(members={"a": {"topics": [], "instance_id": "i"}, "b": {"topics": [], "instance_id": "i"}}),
        "members.b.instance_id",
        "which a has too",
    ),
    (group(version=2), "version", "found 2"),
    (group(version=0), "version", "found 0"),
    (group(auto_offset_reset="newest"), "auto_offset_reset", 'found "newest"'),
    # text that is no text
    (group(members={"a\ud800": {"topics": []}}), "members.a", "a lone surrogate"),
    (group(topics={"t\udfff": 1}), "topics.t", "a lone surrogate"),
    (member(rack="\ud800"), "members.a.rack", "a lone surrogate"),
    ("", "text, line 1 column 1", "Expecting value"),
    ("{", "text, line 1 column 2", ""),
    ('{"topics": NaN, "members": {}}', "topics", "found NaN"),
    ('{"topics": Infinity, "members": {}}', "topics", "found Infinity"),
    ('{"topics": {"t": [{"partition": 0, "lag": NaN}]}, "members": {}}', "topics.t[0].lag", "found NaN"),
    ('{"topics": {"t": 1, "t": 2}, "members": {"a": {"topics": []}}}', "text", 'the name "t" twice'),
    (b'{"topics": {"\xff": 1}}', "text", "byte 0xff at 13"),
    ("[" * 100_000, "text", "nested too deep"),
    ('{"topics": {"t": ' + "9" * 5000 + "}}", "text", "a number of thousands of digits"),
]


def test_ordered_dicts_are_dicts_and_a_tuple_is_shown_as_one() -> None:
    made = OrderedDict(topics=OrderedDict(t=1), members=OrderedDict(a=OrderedDict(topics=["t"])))
    assert apportion.plan(made).assignment == {"a": {"t": [0]}}
    with pytest.raises(apportion.BadInput, match=r"found \('t',\); needed a list of names"):
        apportion.plan({"topics": {"t": 1}, "members": {"a": {"topics": ("t",)}}})


@pytest.mark.parametrize(("given", "where", "found"), BAD, ids=range(len(BAD)))
def test_bad_input_is_an_error_that_names_its_place(given: Any, where: str, found: str) -> None:
    with pytest.raises(apportion.BadInput) as caught:
        apportion.plan(given)
    assert caught.value.where.startswith(where)
    assert found in str(caught.value)
    assert "None" not in f"{caught.value.where} {caught.value.needed}", "it says what would have been right"
    json.dumps(caught.value.to_dict(), ensure_ascii=False).encode()


GOOD: list[dict[str, Any]] = [
    group(version=None, group=None, auto_offset_reset=None),
    group(topics={}),
    topic(),
    topic({"partition": 2**31 - 1, "lag": 2**63 - 1, "racks": [], "begin": None}),
    member(rack="", instance_id="", owned={}, generation=-1, priority=-(2**31), host=None),
    claims({"t": [-1, 9, -(2**31), 2**31 - 1], "nowhere": [0], "t\u00e9": []}),
    group(members={"a": {"topics": ["t", "t"]}, "": {"topics": []}}),
]


@pytest.mark.parametrize("given", GOOD, ids=range(len(GOOD)))
def test_what_looks_odd_but_is_allowed_is_planned(given: dict[str, Any]) -> None:
    assert apportion.plan(given).to_dict()["version"] == 1


def test_a_topic_id_of_null_is_an_unknown_one() -> None:
    known = apportion.read_group(
        group(topics={"t": 1, "u": 1, "v": 1}, topic_ids={"t": None, "u": "x" * 22, "v": None})
    )
    assert known.topic_ids == {"u": "x" * 22}


def test_a_claim_said_twice_counts_once() -> None:
    once, twice = claims({"t": [0, 7]}), claims({"t": [0, 7, 0, 7]})
    assert apportion.plan(once).to_json() == apportion.plan(twice).to_json()


def test_claims_on_what_is_not_there_fall_and_are_listed() -> None:
    ignored = apportion.plan(claims({"t": [-1, 0, 2], "u": [0]})).ignored
    assert [(claim["topic"], claim["partition"]) for claim in ignored] == [("t", -1), ("t", 2), ("u", 0)]
    assert {claim["why"] for claim in ignored} == {"no such partition"}


def test_lags_beyond_63_bits_in_all_are_summed_exactly() -> None:
    most = 2**63 - 1
    plan = apportion.plan(topic({"partition": 0, "lag": most}, {"partition": 1, "lag": most}), "range")
    assert plan.measures["lag_max"] == plan.measures["lag_bound"] == 2 * most


@pytest.mark.parametrize("name", apportion.known())
def test_the_same_bytes_whatever_the_order_of_keys_and_lists(name: str) -> None:
    rng = random.Random(4)
    for made in many_groups(80, seed=8):
        assert apportion.plan(shuffled(rng, made), name).to_json() == apportion.plan(made, name).to_json()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["t", "a", "latest"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A group with something in it replaced, added or taken away."""
    made = draw(groups())
    holder: Any = made
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if isinstance(holder[key], dict | list) and holder[key] and draw(st.booleans()):
            holder = holder[key]
            continue
        if draw(st.booleans()):
            holder[key] = draw(JUNK)
        else:
            del holder[key]
        break
    if isinstance(holder, dict) and draw(st.booleans()):
        holder[draw(st.text(max_size=3))] = draw(JUNK)
    return made


def plan_or_bad_input(given: Any) -> None:
    with contextlib.suppress(apportion.ApportionError):
        apportion.plan(given).to_json()


@examples(300)
@given(damaged())
def test_no_damaged_group_gives_anything_but_a_plan_or_bad_input(given: Any) -> None:
    plan_or_bad_input(given)


@examples(150)
@given(JUNK)
def test_no_junk_gives_anything_but_bad_input(given: Any) -> None:
    if not isinstance(given, dict):
        given = json.dumps(given)
    plan_or_bad_input(given)


@examples(150)
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_no_bytes_give_anything_but_bad_input(given: Any) -> None:
    plan_or_bad_input(given)


def test_a_text_with_racks_beyond_any_cluster_is_refused_before_it_fills_the_memory() -> None:
    entries = [{"partition": p, "racks": [f"r{p}"]} for p in range(11_000)]
    with pytest.raises(apportion.BadInput, match="11,000 racks in 11,000 different sets"):
        apportion.read_group({"topics": {"t": entries}, "members": {"a": {"topics": ["t"]}}})
