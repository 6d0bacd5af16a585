"""Processes killed, frozen and cut off from their broker at random moments lose nothing and do nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.exactly_once import run

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    "engine", ["words exactly_once", pytest.param("join exactly_once", marks=pytest.mark.thorough)]
)
def test_counts_outputs_and_restored_state_are_exact_under_fire(engine: str, jars: str, tmp_path: Path) -> None:
    """Five moments: kill -9 each, one of them while the broker dies too, one behind a freeze beyond the session."""
    figures = run(engine, 7, 3000, 5, tmp_path, timed=False)
    assert (figures.wrong_counts, figures.lost, figures.twice, figures.restored_equal) == (0, 0, 0, True)
    assert figures.kills == 5
