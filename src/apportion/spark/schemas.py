"""The tables' columns as Spark's types, from ``apportion.tables.schemas``, which says what they mean.

Whoever makes a table gives a DataFrame with these columns (a sink selects them in this order, casts nothing, and sorts
by ``order``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from apportion.tables import schemas
from apportion.tables.schemas import Column, Kind, Many, Struct, Table

_PLAIN: Final[dict[str, DataType]] = {
    "string": StringType(), "int": IntegerType(), "bigint": LongType(), "double": DoubleType(),
    "boolean": BooleanType(), "timestamp": TimestampType(), "binary": BinaryType(),
}  # fmt: skip


@dataclass(frozen=True)
class TableSchema:
    """One table for Spark; see ``Table``."""

    rows: str
    schema: StructType
    order: tuple[str, ...]
    day: str | None = None


def spark_type(kind: Kind) -> DataType:
    """A type as Spark's own."""
    if isinstance(kind, Many):
        return ArrayType(spark_type(kind.element), kind.nulls)
    return _struct(kind) if isinstance(kind, Struct) else _PLAIN[kind]


def _struct(struct: Struct) -> StructType:
    return StructType([_field(column) for column in struct.columns])


def _field(column: Column) -> StructField:
    return StructField(column.name, spark_type(column.kind), True, {"comment": column.comment, "null": column.null})


def _table(table: Table) -> TableSchema:
    return TableSchema(table.rows, _struct(table.columns), table.order, table.day)


def arrow_schema(table: TableSchema, columns: Iterable[str] | None = None) -> pa.Schema:
    """The Arrow form of a table's schema: times in microseconds of UTC, every column nullable.

    columns
        Those that are wanted, in their order, as ``chosen`` takes them; all by default.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    typed = to_arrow_schema(table.schema, timezone="UTC")
    return chosen(typed, typed.names if columns is None else columns)


def chosen(schema: pa.Schema, columns: Iterable[str]) -> pa.Schema:
    """Some columns of a schema; ``members.topics`` is ``members``, a list of structs, with that field of each alone."""
    fields = []
    for column in columns:
        name, _, inner = column.partition(".")
        kind = schema.field(name).type
        fields.append(pa.field(name, pa.list_(pa.struct([kind.value_type.field(inner)])) if inner else kind))
    return pa.schema(fields)


RECORDS, ENDS, TOPICS = _table(schemas.RECORDS), _table(schemas.ENDS), _table(schemas.TOPICS)
TABLES: Final[dict[str, TableSchema]] = {name: _table(table) for name, table in schemas.TABLES.items()}
"""Folder below the output -> table, in the order they are made."""

COMMITS, GENERATIONS, EPOCHS = TABLES["silver/commits"], TABLES["silver/generations"], TABLES["silver/epochs"]
REJECTS, COUNTS, GAPS = TABLES["silver/rejects"], TABLES["silver/counts"], TABLES["silver/gaps"]
NEWEST, LAG, GROUPS = TABLES["gold/commits"], TABLES["gold/lag"], TABLES["gold/groups"]
REBALANCES, GROUP_STATE = TABLES["gold/rebalances"], TABLES["gold/group_state"]
GOLD_EPOCHS = TABLES["gold/epochs"]
VERDICTS, WHATIF = TABLES["gold/verdicts"], TABLES["gold/whatif"]

MEMBER, GROUP_MEMBER, STATE_MEMBER = map(_struct, (schemas.MEMBER, schemas.GROUP_MEMBER, schemas.STATE_MEMBER))
PARTITION, TOPIC, COMMITTED = map(_struct, (schemas.PARTITION, schemas.TOPIC, schemas.COMMITTED))
