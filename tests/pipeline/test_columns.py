"""Columns as Python's values: the same as Arrow gives, however nested, cut and empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from apportion.pipeline.columns import UNDATED, days, values_of

INNER = pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32())), ("is_new", pa.bool_())])
COLUMNS = [
    pa.array(["a", None, "", "a", "é"]),
    pa.array([None, None], pa.string()),
    pa.array([1, None, -(2**63), 2**63 - 1]),
    pa.array([0, 2**64 - 1], pa.uint64()),
    pa.array([True, None, False]),
    pa.array([1.5, None]),
    pa.array([[1, 2], None, [], [None]], pa.list_(pa.int64())),
    pa.array(
        [{"topic": "t", "partitions": [0, None], "is_new": True}, None, {"topic": None, "partitions": None}], INNER
    ),
    pa.array([[{"topic": "t", "partitions": [3]}, None], None, [], [{"topic": "u"}]], pa.list_(INNER)),
    pa.array([[("id", "name")], None, []], pa.map_(pa.string(), pa.string())),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_values_are_those_that_arrow_gives(column: pa.Array) -> None:
    for rows in (column, column.slice(1), column.slice(1, 1), column.slice(0, 0)):
        assert values_of(rows) == rows.to_pylist(maps_as_pydicts="strict")


def test_a_null_above_hides_what_stands_below_it() -> None:
    lists = pa.ListArray.from_arrays([0, 2, 3, 5], pa.array(range(5)), mask=pa.array([False, True, False]))
    structs = pa.StructArray.from_arrays([lists], names=["ids"], mask=pa.array([True, False, False]))
    assert values_of(structs) == [None, {"ids": None}, {"ids": [3, 4]}]


def test_days_are_named_in_their_order_and_what_is_no_day_comes_last() -> None:
    first, second, last = (datetime(*day, tzinfo=UTC) for day in ((1970, 1, 1), (2026, 1, 31), (9999, 12, 31)))
    ends = first + timedelta(days=1, microseconds=-1)
    micros = [int((time - first) / timedelta(microseconds=1)) for time in (second, first, ends, last)]
    times = pa.array([*micros, None, -1, 253_402_300_800_000_000, micros[0] + 1], pa.int64())
    names = ["2026-01-31", "1970-01-01", "1970-01-01", "9999-12-31", UNDATED, UNDATED, UNDATED, "2026-01-31"]
    kind = pa.timestamp("us", "UTC")
    found = days(times.cast(kind))
    assert found.to_pylist() == names
    assert found.dictionary.to_pylist() == ["1970-01-01", "2026-01-31", "9999-12-31", UNDATED]
    assert days(times.slice(0, 2).cast(kind)).dictionary.to_pylist() == ["1970-01-01", "2026-01-31"]
    assert days(times.slice(4, 3).cast(kind)).to_pylist() == [UNDATED] * 3
    assert days(pa.array([], kind)).to_pylist() == []
