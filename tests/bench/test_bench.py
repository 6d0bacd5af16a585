"""The benchmark's small cells run through every peer at hand, and no peer's plan is better than ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import apportion
from apportion.errors import Unavailable
from apportion.testing import jars
from bench import caches, leader, matrix, peers, short_cuts
from bench.cells import Cell
from bench.page import page

pytestmark = pytest.mark.slow

SMALL = Cell("nes", 10, 6, 5, "JOIN_ONE", goal_ms=1)
RACKED = Cell("hom", 9, 6, 9, "FULL", racks=True)


@pytest.fixture(scope="module")
def rows(jars: str, tmp_path_factory: pytest.TempPathFactory) -> list[matrix.Row]:
    """Both cells through everybody."""
    folder: Path = tmp_path_factory.mktemp("bench")
    return [matrix.run(cell, folder, calls=1, java_s=0.1, python_s=5) for cell in (SMALL, RACKED)]


def test_no_peer_has_a_better_plan(rows: list[matrix.Row]) -> None:
    """Balance, then racks, then moves, as the tables' quality columns give them."""
    for row in rows:
        assert {"Java", "kafka-python", "apportion"} <= set(row.quality), {n: t.why for n, t in row.told.items()}
        assert row.quality["apportion"] == min(row.quality.values())
        assert row.proof == {"optimal"}


def test_quality_is_right_where_it_can_be_told_by_hand(rows: list[matrix.Row]) -> None:
    """60 partitions on 10 members are 6 each; the newcomer's 6 must move; all 54 of 9 members can be near."""
    assert rows[0].quality["apportion"] == (10 * 36, 0, 6)
    assert rows[1].quality["apportion"][1:] == (0, 0)


@pytest.mark.parametrize("client", leader.CLIENTS)
def test_the_leaders_call_answers_what_the_plan_says(client: str) -> None:
    """From bytes to bytes through each client's own coordinator, with racks and without."""
    for cell in (SMALL, RACKED):
        raw = cell.group()
        plan = apportion.plan(raw, leader.STRATEGY)
        assert leader.assignment(client, raw) == plan.assignment
        assert bool(plan.withheld.any()) == (cell is SMALL)


def test_the_page_names_cells_figures_and_who_is_ahead(rows: list[matrix.Row]) -> None:
    text = page(rows, {"tiny": [{"from": "arrays", "us": 32.2}]}, "a test")
    assert "| nes m10x6 t5 JOIN_ONE | 60 |" in text
    assert "Another's plan is better (balance, then racks, then moves): nowhere." in text
    assert "| arrays | 32.2 |" in text


def test_every_short_cut_is_measured_with_and_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the groups of the table, each once: what is taken out is still there to be taken out."""
    monkeypatch.setattr(short_cuts, "SECONDS", 1e-9)
    monkeypatch.setattr(short_cuts, "CALLS", 1)
    names = [name for name, *milliseconds in short_cuts.rows() if all(milliseconds)]
    assert {"lexicographic", "quick spread", "members' bytes in columns", "edits"} <= set(names)


@pytest.mark.skipif(shutil.which("go") is None, reason="franz-go needs Go: apt-get install golang")
def test_both_clients_are_timed_with_the_same_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "LEADER_CELLS", (SMALL,))
    monkeypatch.setattr(caches, "ROUNDS", 1)
    monkeypatch.setattr(caches, "CALLS", 2)
    rows = caches.caches()
    assert [row["caches"] for row in rows] == ["in turn", "warm", "cold", "collected"]
    for row in rows:
        assert row["cell"] == SMALL.name
        assert row[caches.OURS] > 0
        assert row[caches.FLOOR] > 0
        assert row["franz-go"] > 0


@pytest.mark.skipif(shutil.which("go") is None, reason="franz-go needs Go: apt-get install golang")
def test_franz_go_answers_through_its_public_interface(rows: list[matrix.Row]) -> None:
    for row in rows:
        assert row.told["franz-go"].why == ""
        assert row.told["franz-go"].first_whole > row.told["franz-go"].first > 0
        assert row.quality["franz-go"][0] >= row.quality["apportion"][0]


def test_a_peer_that_is_missing_is_said_and_not_fatal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def gone() -> str:
        raise Unavailable("Java 17 or newer is needed")

    monkeypatch.setattr(jars, "java", gone)
    assert peers.java(tmp_path / "none.json", 1, 0.1).why == "Java 17 or newer is needed"
