"""Plans and comparisons as tables, read by programs that know nothing of us: pandas, pyarrow, DuckDB."""

from __future__ import annotations

import subprocess
import sys

import pytest

import apportion

GROUP = {
    "topics": {"t": [{"partition": 0, "lag": 7}, {"partition": 3}], "u": 1},
    "members": {
        "a": {"topics": ["t"], "owned": {"t": [0, 3]}, "generation": 1},
        "b": {"topics": ["t"]},
    },
}


def test_a_cooperative_plan_shows_who_reads_before_now_and_in_the_end() -> None:
    pytest.importorskip("pandas")
    frame = apportion.plan(GROUP, "cooperative-sticky").to_frame()
    rows = frame.astype(object).where(frame.notna(), None).values.tolist()
    assert rows == [["t", 0, "a", "a", "a", 7], ["t", 3, "b", None, "a", None], ["u", 0, None, None, None, None]]


def test_duckdb_reads_a_plan_and_a_comparison_as_they_are() -> None:
    duckdb = pytest.importorskip("duckdb")
    plan = apportion.plan(GROUP, "sticky")
    comparison = apportion.compare(GROUP, assignors=["range", "sticky", "lag-aware"])
    assert plan is not None
    assert comparison is not None
    loads = duckdb.sql("SELECT owner, count(*) FROM plan WHERE owner IS NOT NULL GROUP BY owner ORDER BY owner")
    assert loads.fetchall() == [("a", 1), ("b", 1)]
    best = duckdb.sql("SELECT assignor, moves, lag_max FROM comparison ORDER BY assignor").fetchall()
    plans = sorted(comparison.plans, key=lambda plan: plan.assignor)
    assert best == [(plan.assignor, plan.measures["moves"], plan.measures["lag_max"]) for plan in plans]


def test_without_pyarrow_the_message_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import apportion\n"
        "try: apportion.plan({'topics': {'t': 1}, 'members': {'a': {'topics': ['t']}}}, 'sticky').to_frame()\n"
        "except apportion.MissingExtra as missing: print(missing)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install" in run.stdout
