"""The list of groups of ``describe``: the page's columns and order, and JSON with the same facts."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from tests.cli.conftest import run_here
from tests.support.sighted import sighting

from apportion.demo import dump
from apportion.history.lag_time import Age, LagTime
from apportion.report import group_list
from apportion.sighting import measures
from apportion.sighting.diagnosing import Evidence
from apportion.sighting.judged import RANK, Judged


def listed(*words: str) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = run_here("describe", str(dump()), *words, "-o", "json").json["groups"]
    return groups


def test_the_text_has_the_pages_columns_in_the_pages_order_and_then_what_is_odd() -> None:
    head = run_here("describe", str(dump()), "-o", "wide").out.splitlines()[0].split()
    assert head == [*(column.header for column in measures.listed() if column.header), "ODD"]


def test_trouble_comes_first_by_default_in_text_and_in_json() -> None:
    groups = listed()
    ranks = [RANK[group["described"]["verdict"]] for group in groups]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == 3
    lines = run_here("describe", str(dump())).out.split("\n\n")[0].splitlines()[1:]
    assert [line.split()[0] for line in lines] == [group["group"] for group in groups]


@pytest.mark.parametrize("sort", [sort for sort, column in measures.sorts().items() if not column.letters])
def test_numbers_come_greatest_first_and_the_unknown_last(sort: str) -> None:
    field = "" if sort in ("members", "partitions") else measures.sorts()[sort].name
    groups = listed("--sort", sort)
    assert len(groups) > 20
    if not field:
        values: list[Any] = [len(group["members"]) for group in groups] if sort == "members" else [0]
    else:
        values = [group["described"].get(field) for group in groups]
    known = [RANK.get(value, value) for value in values if value is not None]
    assert values[: len(known)] == [value for value in values if value is not None]
    assert all(a >= b for a, b in pairwise(known))


def test_rebalances_are_those_of_the_hour_before_the_newest_record_and_an_old_one_is_not_among_them() -> None:
    from apportion.sighting.measures import HOUR_MS, in_last_hour

    now = 10 * HOUR_MS
    assert in_last_hour([HOUR_MS, now - HOUR_MS, now - 1, now, now + 1], now) == 2
    assert {group["described"]["last_hour"] for group in listed()} > {1, 2, 5}


def test_never_comes_before_every_time_that_is_known_and_is_null_in_json() -> None:
    def judged(name: str, trend: float | None, catch_up_s: float | None) -> Judged:
        raw = {"group": name, "topics": {"t": [{"partition": 0, "lag": 5}]}, "members": {"a": {"topics": ["t"]}}}
        written = None if trend is None else 9.0 + trend
        whole = LagTime(Age(None, None, None), 5, 5, written, None if trend is None else 9.0, catch_up_s)
        return Judged(sighting(raw), Evidence(whole=whole))

    groups = [judged("soon", -1.0, 5.0), judged("unknown", None, None), judged("never", 2.0, math.inf)]
    in_order = sorted(groups, key=lambda each: group_list.order(each, "catch-up"))
    assert [each.sighting.name for each in in_order] == ["never", "soon", "unknown"]
    assert [measures.known("group", each).get("catch_up_s", "-") for each in in_order] == [None, 5.0, "-"]


def test_groups_of_a_file_have_a_verdict_and_no_time(tmp_path: Any) -> None:
    pasted = (
        '{"group": "%s", "topics": {"t": [{"partition": 0, "lag": 9}]}, '
        '"members": {"a": {"topics": ["t"], "owned": {"t": [0]}}}}\n'
    )
    (tmp_path / "two.ndjson").write_text(pasted % "one" + pasted % "two")
    out = run_here("describe", str(tmp_path / "two.ndjson")).out.splitlines()
    assert out[0].split() == ["GROUP", "VERDICT", "LAG", "#MEMBERS", "#PARTITIONS", "HEAVIEST", "ODD"]
    assert out[1].split()[:3] == ["one", "OK", "9"]
