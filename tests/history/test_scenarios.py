"""What a strategy would do: every scenario has its rows, with figures; an error is told in rows too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.plain_reader import what_if

import apportion
from apportion.errors import BadInput
from apportion.history import scenarios as rooms
from apportion.history.fold import fold
from apportion.history.scenarios import REPLAY, ScenarioResult, outcomes, sentence, skewed_lag
from apportion.history.structure import structure
from apportion.model.build import build
from apportion.model.group import Claims
from apportion.model.group_json import group_to_dict, read_group
from apportion.strategy.registry import known, tabled
from apportion.testing.groups import Kinds, many_groups

from .made import classic, member
from .test_shared_plans import question

PRESENT: dict[str, Any] = {
    "version": 1,
    "group": "g",
    "topics": {
        "small": 1,
        "t": [{"partition": p, "racks": ["r1" if p < 4 else "r2"], "lag": 10 * p} for p in (0, 1, 2, 4, 5)],
    },
    "members": {
        "a": {"topics": ["t"], "rack": "r1", "owned": {"t": [0, 1, 2]}, "generation": 3},
        "b": {"topics": ["t", "small"], "rack": "r2", "owned": {"t": [4, 5], "small": [0]}, "generation": 3},
        "c": {"topics": ["t"], "rack": "r1", "generation": 3},
    },
}
SIX = {"t": [{"partition": p} for p in range(6)]}
PAST = fold([
    classic(1, 1, member("a", {"t": [0, 1, 2, 3, 4, 5]})),
    classic(2, 2, member("a", {"t": [0, 1, 2]}), member("b", {"t": [3, 4, 5]})),
    classic(3, 3, member("a", {"t": [3, 4]}), member("b", {"t": [0, 5]}), member("c", {"t": [1, 2]})),
]).generations  # fmt: skip


def test_every_strategy_answers_every_scenario_that_fits() -> None:
    rows = what_if("g", PAST, PRESENT, {"t": [{"partition": p, "racks": ["r1"]} for p in range(6)]})
    assert [(row.assignor, row.scenario, row.error) for row in rows if row.error] == []
    asked = (REPLAY, "as-is", "join", "leave", "lose-rack", "grow", "lag")
    assert {(row.assignor, row.scenario) for row in rows} == {(name, each) for name in tabled() for each in asked}
    for row in rows:
        assert row.generations == (3 if row.scenario == REPLAY else 1)
        assert (row.moves_then is None) == (row.scenario != REPLAY)


def test_figures_are_those_of_the_plan() -> None:
    (replay, *rows) = what_if("g", PAST, PRESENT, SIX, ["sticky"])
    assert replay == ScenarioResult(
        "sticky", REPLAY, 3, moves=5, moves_then=8, load_min=2, load_max=2, load_min_then=2, load_max_then=2
    )
    by_scenario = {row.scenario: row for row in rows}
    plan = apportion.plan(PRESENT, "sticky")
    assert by_scenario["as-is"] == ScenarioResult(
        "sticky", "as-is", 1, moves=plan.measures["moves"], load_min=2, load_max=2,
        rack_misses=plan.measures["rack_misses"], lag_max=plan.measures["lag_max"], lag_max_then=90,
        proof=",".join(goal for goal, how in plan.proof.items() if how == "optimal"),
    )  # fmt: skip
    loads = {name: (row.load_min, row.load_max) for name, row in by_scenario.items()}
    assert loads == {
        "as-is": (2, 2), "join": (1, 2), "leave": (3, 3), "lose-rack": (6, 6), "grow": (2, 3), "lag": (2, 2),
    }  # fmt: skip
    assert by_scenario["lag"].lag_max is not None
    assert by_scenario["lag"].lag_max >= skewed_lag(build(PRESENT).lag) == 10 * 120 + 1_000_000


def test_what_does_not_fit_a_group_is_left_out() -> None:
    alone: dict[str, Any] = {"topics": {"t": 2}, "members": {"a": {"topics": ["t"], "rack": "r1"}}}
    assert [row.scenario for row in what_if("g", [], alone, None, ["range"])] == ["as-is", "join", "grow", "lag"]
    idle: dict[str, Any] = {"topics": {"t": 2}, "members": {"a": {"topics": []}, "b": {"topics": []}}}
    assert [row.scenario for row in what_if("g", [], idle, None, ["range"])] == ["as-is", "join", "leave"]
    assert what_if("g", [], {**alone, "members": {}}, None, ["range"]) == []
    assert what_if("g", [], None, None, ["range"]) == []


def test_errors_end_in_rows_each_with_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("so\n  it is")

    monkeypatch.setattr(rooms, "carried_along", broken)
    monkeypatch.setattr(rooms, "checked", broken)
    rows = what_if("g", PAST, PRESENT, SIX, ["range"])
    assert {(row.assignor, row.error) for row in rows} == {("range", "ValueError: so it is")}
    assert [(row.scenario, row.generations) for row in rows[:2]] == [(REPLAY, 3), ("as-is", 1)]
    monkeypatch.setattr(rooms, "steps", broken)
    monkeypatch.setattr(rooms, "build", broken)
    rows = what_if("g", PAST, PRESENT, SIX, ["range", "sticky"])
    assert [(row.assignor, row.scenario, row.generations) for row in rows] == [
        ("range", REPLAY, 0), ("sticky", REPLAY, 0), ("range", "as-is", 1), ("sticky", "as-is", 1),
    ]  # fmt: skip
    assert sentence(BadInput("here", "a", "b")) == "here: found a; needed b."


def test_an_outcome_has_the_plan_it_rests_on() -> None:
    replayed, as_is, *_ = outcomes("g", PAST, PRESENT, SIX, ["sticky"])
    assert replayed.owner is not None
    assert replayed.group is not None
    assert len(replayed.owner) == replayed.group.P == 6
    assert (len(replayed.walk), len(replayed.then)) == (3, 3)
    assert as_is.owner is not None
    assert as_is.owner.tolist() == apportion.plan(PRESENT, "sticky").owner.tolist()


def test_groups_with_another_past_are_of_another_structure() -> None:
    mine, same = (structure(PAST, None, SIX) for _ in range(2))
    assert mine is not None
    assert same is not None
    assert mine.key == same.key
    for other in (PAST[:2], PAST[1:], [PAST[0], PAST[2]]):
        theirs = structure(other, None, SIX)
        assert theirs is not None
        assert theirs.key != mine.key


@pytest.mark.slow
@pytest.mark.parametrize("pair", [["cooperative-sticky", "sticky"], ["broker-range", "range"]])
def test_a_strategy_that_shares_another_ones_targets_has_the_rows_that_it_gets_alone(pair: list[str]) -> None:
    """On random groups, some of which tell of homes by stale claims or of racks, with and without a past."""
    homes = racks = 0
    for seed, raw in enumerate(many_groups(150, seed=7, kinds=Kinds(capacities=True))):
        present = read_group(raw)
        homes += present.tells_home
        racks += present.racks is not None and present.racks.known
        past = question(seed)[1]
        topics = question(seed)[3]
        both = what_if("g", past, group_to_dict(present), topics, pair)
        alone = [row for name in pair for row in what_if("g", past, group_to_dict(present), topics, [name])]
        assert sorted(both, key=str) == sorted(alone, key=str), f"{raw}"
    assert homes > 5, "some groups have stale claims"
    assert 5 < racks < 145, "some groups know racks"


def test_a_group_with_another_past_keeps_only_what_does_not_depend_on_it() -> None:
    group = read_group(
        {
            "topics": {"t": [{"partition": p, "end": 9, "committed": p} for p in range(4)]},
            "members": {
                "a": {"topics": ["t"], "owned": {"t": [0, 1]}, "generation": 2},
                "b": {"topics": ["t"], "owned": {"t": [1, 2]}, "generation": 1},
            },
        }
    )
    assert group.tells_home
    assert group.claimed_by.tolist() == [0, -2, 1, -1]
    assert group.lag.tolist() == [9, 8, 7, 6]
    later = group.with_claims(Claims(np.array([1]), np.array([3])), np.array([4, 4]))
    assert later.owner.tolist() == [-1, -1, -1, 1]
    assert later.claimed_by.tolist() == [-1, -1, -1, 1]
    assert later.home.tolist() == [-1] * 4
    assert not later.tells_home
    assert later.lag is group.lag, "which no claim changes"
    assert later.generation.tolist() == [4, 4]


def test_each_row_is_what_plan_gives_under_the_strategy_and_the_settings_that_it_names() -> None:
    """Two topics that are even each by itself and uneven together tell the KIP's rule from the default."""
    present = {
        "version": 1,
        "group": "g",
        "topics": {
            topic: [{"partition": p, "lag": lag} for p, lag in enumerate(lags)]
            for topic, lags in (("t", (1000, 10)), ("u", (900, 10)))
        },
        "members": {
            "a": {"topics": ["t", "u"], "owned": {"t": [0], "u": [1]}, "generation": 3},
            "b": {"topics": ["t", "u"], "owned": {"t": [1], "u": [0]}, "generation": 3},
        },
    }
    strategies = ["lag-aware", "lag-aware scope=topic", "lag-aware max_skew=2", "cooperative-lag-aware", "sticky"]
    rows = {row.assignor: row for row in what_if("g", [], present, {}, strategies) if row.scenario == "as-is"}
    for recipe in strategies:
        name, *words = recipe.split()
        plan = apportion.plan(present, name, dict(word.split("=") for word in words))
        assert (rows[recipe].moves, rows[recipe].lag_max) == (plan.measures["moves"], plan.measures["lag_max"]), recipe
    assert (rows["lag-aware"].lag_max, rows["lag-aware scope=topic"].lag_max) == (1010, 1900)


def test_the_strategies_of_the_tables_name_their_settings_and_include_the_form_that_plans_otherwise() -> None:
    assert "cooperative-lag-aware" in tabled()
    assert "lag-aware scope=topic" in tabled()
    assert "lag-aware" not in tabled()
    assert {recipe.split()[0] for recipe in tabled()} >= set(known(unlisted=False))
