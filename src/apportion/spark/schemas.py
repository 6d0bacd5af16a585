"""The tables' columns as Spark's types, from ``apportion.tables.schemas``, which says what they mean."""

from __future__ import annotations

from typing import Final

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

from apportion.spark.arrow_rows import STATE
from apportion.tables.schemas import TABLES, Column, Kind, Many, Struct, Table

_PLAIN: Final[dict[str, DataType]] = {
    "string": StringType(), "int": IntegerType(), "bigint": LongType(), "double": DoubleType(),
    "boolean": BooleanType(), "timestamp": TimestampType(), "binary": BinaryType(),
}  # fmt: skip


_ROW: Final = StructType(
    [StructField("kind", StringType()), StructField("bucket", IntegerType()), StructField("payload", BinaryType())]
)
"""``arrow_rows.ROW``."""


def spark_type(kind: Kind) -> DataType:
    """A type as Spark's own."""
    if isinstance(kind, Many):
        return ArrayType(spark_type(kind.element), kind.nulls)
    return _struct(kind) if isinstance(kind, Struct) else _PLAIN[kind]


def _struct(struct: Struct) -> StructType:
    return StructType([_field(column) for column in struct.columns])


def _field(column: Column) -> StructField:
    return StructField(column.name, spark_type(column.kind), True, {"comment": column.comment, "null": column.null})


def spark_schema(name: str) -> StructType:
    """The columns of a table of a build."""
    return _ROW if name == STATE else schema_of(TABLES[name])


def schema_of(table: Table) -> StructType:
    """The columns of a table."""
    return _struct(table.columns)
