"""A notebook shows a group and a plan as tables, with every name escaped."""

from __future__ import annotations

from typing import Any

import apportion
from apportion.strategy.registry import known


def as_in_notebook(thing: Any) -> str:
    """What a notebook asks an object for."""
    return str(thing._repr_html_())


def test_a_plan_and_a_group_are_tables_and_no_name_is_markup() -> None:
    group = {"group": "<g>", "topics": {"t": 100}, "members": {"<script>": {"topics": ["t"]}, "b": {"topics": ["t"]}}}
    plan = apportion.plan(group, "sticky")
    shown = as_in_notebook(plan)
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "50 in all" in shown
    assert "sticky: 0 moves; balance optimal" in shown
    shown = as_in_notebook(plan.group)
    assert "group &lt;g&gt;" in shown
    assert "<script>" not in shown


def test_a_name_that_would_turn_its_line_round_is_shown_as_it_is_written() -> None:
    group = {"group": "g\u202e", "topics": {"t": 2}, "members": {"a\u202egpj.exe": {"topics": ["t"]}}}
    for shown in (as_in_notebook(apportion.plan(group, "sticky")), as_in_notebook(apportion.read_group(group))):
        assert "a\\u202egpj.exe" in shown
        assert "\u202e" not in shown


def test_a_long_group_is_cut_and_says_how_long_it_is() -> None:
    group = apportion.read_group({"topics": {}, "members": {f"m{i}": {"topics": []} for i in range(60)}})
    assert "and 10 more" in as_in_notebook(group)


def test_a_comparison_is_a_table_with_a_row_for_each_strategy() -> None:
    group = {"group": "<g>", "topics": {"t": 4}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}}
    shown = as_in_notebook(apportion.compare(apportion.read_group(group)))
    assert "group &lt;g&gt;" in shown
    for name in known(unlisted=False):
        assert f"<td>{name}</td>" in shown
