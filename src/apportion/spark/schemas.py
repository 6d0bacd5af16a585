"""The tables' columns as Spark's types, from ``apportion.tables.schemas``, which says their meaning."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types
from pyspark.sql.types import StructField, StructType

from apportion.spark.arrow_rows import ROW, STATE
from apportion.tables.schemas import TABLES, Column, Kind, Many, Struct, Table

_PLAIN: Final[dict[str, types.DataType]] = {
    "string": types.StringType(), "int": types.IntegerType(), "bigint": types.LongType(), "double": types.DoubleType(),
    "boolean": types.BooleanType(), "timestamp": types.TimestampType(), "binary": types.BinaryType(),
}  # fmt: skip


def spark_type(kind: Kind) -> types.DataType:
    """A type as Spark's own."""
    if isinstance(kind, Many):
        return types.ArrayType(spark_type(kind.element), kind.nulls)
    return _struct(kind) if isinstance(kind, Struct) else _PLAIN[kind]


def _struct(struct: Struct) -> StructType:
    return StructType([_field(column) for column in struct.columns])


def _field(column: Column) -> StructField:
    return StructField(column.name, spark_type(column.kind), True, {"comment": column.comment, "null": column.null})


def spark_schema(name: str) -> StructType | str:
    """The columns of a table of a build."""
    return ROW if name == STATE else schema_of(TABLES[name])


def schema_of(table: Table) -> StructType:
    """The columns of a table."""
    return _struct(table.columns)
