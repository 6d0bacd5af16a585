"""Columns as Python's values: the same as Arrow gives, however nested, cut and empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from apportion.pipeline.columns import UNDATED, bucket_of, days, in_table_order, values_of
from apportion.tables.schemas import TABLES, arrow_schema

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


MOMENTS = (None, -1, 0, 86_399_999_999, 86_400_000_000, 253_402_300_800_000_000)


def drawn(rng: Random, kind: pa.DataType) -> Any:
    """A value of a column by which rows are ordered, often one that others have too."""
    if pa.types.is_string(kind):
        return rng.choice((None, "", "a", "b", "ü", "ab"))
    if pa.types.is_timestamp(kind):
        return pa.scalar(rng.choice(MOMENTS), kind)
    if pa.types.is_boolean(kind):
        return rng.choice((None, False, True))
    return rng.choice((None, -1, 0, 5, 2**31 - 1))


@pytest.mark.parametrize("name", [name for name, one in TABLES.items() if one.order])
def test_rows_are_put_in_the_order_of_their_table(name: str) -> None:
    """By day, what is of none last; then by its columns, null first and texts by their bytes; equal ones stay."""
    rng, one = Random(name), TABLES[name]
    schema = arrow_schema(one)
    keys = [*one.order, *([one.day] if one.day and one.day not in one.order else [])]
    columns = {
        field.name: pa.array([drawn(rng, field.type) for _ in range(60)], field.type)
        if field.name in keys
        else pa.nulls(60, field.type)
        for field in schema
    }
    rows = pa.table(columns, schema=schema).append_column("more", pa.array(range(60)))
    plain = pa.table(
        {key: rows[key].cast(pa.int64()) if pa.types.is_timestamp(rows[key].type) else rows[key] for key in keys}
    ).to_pylist()

    def key(n: int) -> list[Any]:
        values = [plain[n][each] for each in one.order]
        values = [v.encode() if isinstance(v, str) else v for v in values]
        at = plain[n][one.day] if one.day else None
        day = at // 86_400_000_000 if at is not None and 0 <= at < MOMENTS[-1] else 10**9
        return [*([day] if one.day else []), *((v is not None, v if v is not None else 0) for v in values)]

    expected = rows.take(pa.array(sorted(range(60), key=key))).select(schema.names)
    assert in_table_order(rows, one).equals(expected)
    assert in_table_order(expected, one).equals(expected), "what is in order stays"


def test_a_name_has_one_bucket_wherever_it_stands_and_none_has_the_first() -> None:
    names = pa.array(["a", None, "ü", "a", "", "orders", "b"])
    for buckets in (1, 3, 7):
        expected = [0 if name is None else crc32(name.encode()) % buckets for name in names.to_pylist()]
        assert bucket_of(names, buckets).to_pylist() == expected
        assert bucket_of(pa.chunked_array([names.slice(0, 3), names.slice(3)]), buckets).to_pylist() == expected
