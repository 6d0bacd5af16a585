"""Strategies of other packages are known by their entry points; a broken one is named and harms nobody."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from apportion import assignors


def test_a_strategy_that_cannot_be_imported_is_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("theirs", "no.such.module:Theirs", assignors.ENTRY_POINTS)
    good = EntryPoint("also-range", "apportion.assignors.range:Range", assignors.ENTRY_POINTS)
    monkeypatch.setattr(assignors, "entry_points", lambda group: [broken, good])
    with pytest.warns(UserWarning, match="'theirs'"):
        found = assignors.known.__wrapped__()
    assert "theirs" not in found
    assert "also-range" in found
    assert "sticky" in found
