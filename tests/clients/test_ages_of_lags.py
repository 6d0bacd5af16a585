"""A feed without its library names what to install, and a table of lags is as old as its oldest sample."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apportion.clients import lag_feed
from apportion.clients.lag_feed import Sampled, folder_offsets, kafka_offsets
from apportion.errors import MissingExtra


def test_a_library_that_is_not_there_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, extra, fetch in (
        ("kafka_offsets", "kafka-python", kafka_offsets()), ("folder_offsets", "spark", folder_offsets(tmp_path))
    ):  # fmt: skip
        with pytest.raises(MissingExtra) as refused:
            fetch("g", ["t"], 5.0)
        assert str(refused.value).startswith(f"{name} needs a library that is not installed: pip install '")
        assert refused.value.extra == extra


@pytest.mark.parametrize("zone", [UTC, None])
def test_a_table_is_as_old_as_its_oldest_sample(tmp_path: Path, zone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments without a zone are UTC's; one that lies ahead of this machine's clock is no age below 0."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            assert tz is UTC
            return now

    monkeypatch.setattr(lag_feed, "datetime", Clock)
    past: dict[str, list[int | None]] = {"t": [30, 90, 60], "u": [-5, 0, -9], "v": [-5, -6, -7], "none": [None] * 3}
    rows: dict[str, list[Any]] = {name: [] for name in ("group", "topic", "partition", "begin", "end", "committed")}
    rows["sampled_at"] = []
    for topic, ages in past.items():
        for p, age in enumerate(ages):
            at = None if age is None else (now - timedelta(seconds=age)).replace(tzinfo=zone)
            values = ("g", topic, p, 1, 2, 3, at)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    table = folder_offsets(tmp_path)("g", list(past), 1.0)
    assert isinstance(table, Sampled)
    assert table.age_s == {"t": 90.0, "u": 0.0, "v": 0.0}
    whole = {p: {"begin": 1, "end": 2, "committed": 3} for p in range(3)}
    assert dict(table) == dict.fromkeys(past, whole)
