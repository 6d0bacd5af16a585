"""What users write, as type checkers see it: mypy checks this file with all others, and what it must refuse it refuses.

A comment that ignores an error where there is none is an error too, so each of those below is held.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import pytest

import apportion
from apportion.assignors import CooperativeSticky, LagAware
from apportion.strategy import Fact, Traits, traits_of

GROUP = {"topics": {"t": 4}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}}


def test_strategies_are_classes_with_typed_settings() -> None:
    assert_type(apportion.LagAware(max_skew=2), LagAware)
    assert_type(apportion.CooperativeSticky(order=("balance",)), CooperativeSticky)
    with pytest.raises(apportion.BadInput):
        apportion.LagAware(max_skew="2")  # type: ignore[arg-type]
    with pytest.raises(apportion.BadInput):
        LagAware(scope="world")  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        apportion.LagAwre()  # type: ignore[attr-defined]


def test_every_public_call_takes_what_plan_takes(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    path.write_text(__import__("json").dumps(GROUP))
    for group in (GROUP, path.read_text(), path.read_bytes(), path, apportion.read_group(GROUP)):
        assert_type(apportion.plan(group, apportion.Range()), apportion.Plan)
        assert_type(apportion.compare(group, assignors=["range", apportion.Sticky()]), apportion.Comparison)
        assert apportion.measure(group, [0, 0, 1, 1])["load_max"] == 2
        assert apportion.group_to_dict(group)["topics"] == {"t": 4}
        assert apportion.size(group, capacity=2, by="partitions").bound == 2
        assert [step for step, _ in apportion.what_if(group, ["join 1"])] == ["join 1"]
        assert apportion.rollout(group, ["scale 1"], "eager")[0].plan.measures["load_max"] == 4


@pytest.mark.parametrize("wrong", [[1], 5, None, "group.json", {"topics": {}}, Path("/nowhere/group.json")])
def test_every_public_call_refuses_what_is_no_group_in_a_sentence(wrong: object) -> None:
    calls = (
        lambda: apportion.plan(wrong),  # type: ignore[arg-type]
        lambda: apportion.compare(wrong),  # type: ignore[arg-type]
        lambda: apportion.measure(wrong, []),  # type: ignore[arg-type]
        lambda: apportion.group_to_dict(wrong),  # type: ignore[arg-type]
        lambda: apportion.size(wrong, 1, by="partitions"),  # type: ignore[arg-type]
        lambda: apportion.what_if(wrong, []),  # type: ignore[arg-type]
        lambda: apportion.rollout(wrong, []),  # type: ignore[arg-type]
    )
    sentences = set()
    for call in calls:
        with pytest.raises((apportion.BadInput, apportion.Unavailable)) as refused:
            call()
        sentences.add(str(refused.value))
    assert len(sentences) == 1, "all say the same"


def test_what_stands_in_the_place_of_a_list_or_of_owners_is_refused_in_a_sentence() -> None:
    for call, where in (
        (lambda: apportion.compare(GROUP, "range"), "assignors"),
        (lambda: apportion.compare(GROUP, [3]), "assignor"),  # type: ignore[list-item]
        (lambda: apportion.compare(GROUP, ["rnge"]), "assignor"),
        (lambda: apportion.what_if(GROUP, "join 1"), "steps"),
        (lambda: apportion.rollout(GROUP, "scale 2"), "steps"),
        (lambda: apportion.measure(GROUP, [0, 1]), "owner"),
        (lambda: apportion.measure(GROUP, [0, 1, 2, 0]), "owner"),
        (lambda: apportion.measure(GROUP, [0.0, 1.0, 0.0, 0.0]), "owner"),  # type: ignore[list-item]
    ):
        with pytest.raises(apportion.BadInput) as refused:
            call()
        assert refused.value.where == where


def test_strategies_made_by_hand_are_compared_beside_known_ones() -> None:
    skewed = {**GROUP, "topics": {"t": [{"partition": p, "lag": 10**p} for p in range(4)]}}
    comparison = apportion.compare(skewed, [apportion.LagAware(max_skew=2), "lag-aware", "range", "range"])
    assert [(plan.assignor, plan.settings) for plan in comparison.plans] == [
        ("lag-aware", {"max_skew": 2}), ("lag-aware", {}), ("range", {}),
    ]  # fmt: skip


def test_traits_are_typed() -> None:
    assert_type(traits_of(apportion.Sticky()), Traits)
    assert Traits(facts={"warmth": Fact(default=1)}).facts["warmth"].high == 2**31 - 1
    with pytest.raises(apportion.BadInput):
        Fact(default="1")  # type: ignore[arg-type]
