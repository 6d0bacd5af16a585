"""A yes by columns is never given to what the judge of fields refuses, and good groups get it."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

import apportion
from apportion.model import group_json
from apportion.model.well_formed import members_fit, topics_fit
from apportion.testing import many_groups

from .test_group_json import BAD


class Text(str):
    """Equal to a text, and none for the judge."""

    __slots__ = ()


def grown(raw: dict[str, Any]) -> dict[str, Any]:
    """The same group among members and topics enough to be looked at by columns."""
    topics = {f"other{t}": t for t in range(12)} | {"alike": [{"partition": p, "lag": p} for p in range(3)]}
    members = {f"m{m}": {"topics": ["other1"], "owned": {"other2": [m]}, "generation": m} for m in range(12)}
    grown_topics = {**topics, **raw["topics"]} if isinstance(raw.get("topics"), dict) else raw.get("topics")
    grown_members = {**members, **raw["members"]} if isinstance(raw.get("members"), dict) else raw.get("members")
    return {**raw, "topics": grown_topics, "members": grown_members}


def verdict(raw: Any) -> str | None:
    try:
        group_json.check_group(raw)
    except apportion.BadInput as error:
        return str(error)
    return None


@pytest.mark.parametrize("given", [given for given, _, _ in BAD if isinstance(given, dict) and given], ids=repr)
def test_what_is_bad_is_refused_in_the_same_words_among_many(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "topics" not in given or "members" not in given:
        return
    raw = grown(given)
    quick = verdict(raw)
    monkeypatch.setattr(group_json, "_FEW", 10**9)
    assert quick == verdict(raw)


ODD = (
    None,
    True,
    1,
    -1,
    -2,
    1.0,
    float("nan"),
    2**31,
    2**63,
    10**30,
    "",
    "t",
    Text("t"),
    "\ud800",
    [],
    ["t"],
    [Text("t")],
)
MORE: tuple[Any, ...] = (
    [1],
    [None],
    [True],
    {},
    {"t": [0]},
    {"t": [2**31]},
    {"t": (0,)},
    {1: []},
    {Text("t"): []},
    ("t",),
)


def test_whatever_stands_in_a_field_both_judges_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every odd value in every field of a member and of a partition, and under odd names."""
    fields = ["topics", "owned", "rack", "instance_id", "client_id", "host", "generation", "priority", "capacity", "x"]
    entry_fields = ["partition", "racks", "begin", "end", "committed", "lag", "weight", "x"]
    good = grown({"topics": {}, "members": {}})
    cases = []
    for value in (*ODD, *MORE):
        for field in (*fields, 1):
            raw = copy.deepcopy(good)
            raw["members"]["m5"][field] = value
            cases.append(raw)
        for field in entry_fields:
            raw = copy.deepcopy(good)
            raw["topics"]["alike"][1][field] = value
            cases.append(raw)
        for place in ("topics", "members"):
            raw = copy.deepcopy(good)
            raw[place]["other3"] = value
            cases.append(raw)
            if isinstance(value, str | int | float | None):
                cases.append({**good, place: {**good[place], value: copy.deepcopy(next(iter(good[place].values())))}})
    quick = [verdict(raw) for raw in cases]
    assert sum(said is None for said in quick) > 40
    monkeypatch.setattr(group_json, "_FEW", 10**9)
    assert quick == [verdict(raw) for raw in cases]


def test_good_groups_are_known_by_their_columns() -> None:
    r = random.Random(2)
    for raw in many_groups(200, seed=r.randrange(99)):
        assert members_fit(raw["members"])
        assert topics_fit(raw["topics"], 10**6)
