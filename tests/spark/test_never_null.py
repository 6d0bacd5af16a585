"""A column that is said to be never null is so in every table, whatever stands in the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import made, traps

from apportion import demo
from apportion.spark import job
from apportion.tables.schemas import TABLES, Column, Kind, Many, Struct

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def null_though_never(columns: Struct, values: pa.StructArray, above: str = "") -> Iterator[str]:
    """Columns that are never null, and are."""
    for column, array in zip(columns.columns, values.flatten(), strict=True):
        name = above + column.name
        if not column.null and array.null_count:
            yield name
        yield from _inside(column, column.kind, array, name)


def _inside(column: Column, kind: Kind, array: pa.Array, name: str) -> Iterator[str]:
    if isinstance(kind, Many):
        yield from _inside(column, kind.element, array.flatten(), f"{name}[]")
    elif isinstance(kind, Struct):
        yield from null_though_never(kind, array.drop_null(), f"{name}.")


@pytest.mark.parametrize(
    "write",
    [traps.write, lambda folder: made.write_dump(folder, hostile()), lambda folder: demo.dump()],
    ids=["traps", "mutated", "recorded"],
)
def test_what_is_said_to_be_never_null_is_not(spark: Any, tmp_path: Path, write: Callable[[Path], Path]) -> None:
    job.build(write(tmp_path / "dump"), tmp_path / "tables", spark=spark, assignors=["range"])
    rows = {name: pq.read_table(tmp_path / "tables" / name) for name in TABLES}
    assert sum(table.num_rows for table in rows.values()) > 100
    wrong = [
        f"{name}: {column}"
        for name, table in rows.items()
        for column in null_though_never(
            TABLES[name].columns, table.select(names_of(name)).to_struct_array().combine_chunks()
        )
    ]
    assert wrong == []


def names_of(table: str) -> list[str]:
    return [column.name for column in TABLES[table].columns.columns]


def hostile() -> list[made.Pair]:
    """Records of every kind as they are, and with some bytes changed."""
    return made.mutated(made.every_kind(), 1_000, seed=4) + made.every_kind()
