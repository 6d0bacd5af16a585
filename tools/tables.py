"""What others are told of the tables, from their columns: a page, a data contract (ODCS 3.1), dbt's sources.

python -m tools.tables docs        writes docs/tables.md and docs/tables/*.yaml
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from apportion.tables.schemas import BRONZE, TABLES, Column, Kind, Many, Struct, Table

HEAD: Final = """# Tables

Every table and column of the [pipeline](pipeline.md). Also as a data contract (Open Data Contract Standard 3.1),
[odcs.yaml](tables/odcs.yaml), and as dbt's sources with paths for dbt-duckdb, [sources.yml](tables/sources.yml). All
are generated from `src/apportion/tables/schemas.py` by `python -m tools.tables docs`; do not edit.

Each table is a folder of Parquet files. Times are UTC, `int` has 32 bits, `bigint` 64. A file named
`2026-11-21-00000.parquet` holds the rows of one UTC day (by the column named under "a file a day"): read a day
with `2026-11-21-*.parquet`, delete it with `rm`. Rows are sorted by the columns named under "sorted by"; a file with a
`+` in its name was added by an incremental build, and is sorted by itself.
"""

VERSION: Final = "1.2.0"
"""Of the contract: its second number rises with a new column or table."""

MADE_FROM: Final = "Made from src/apportion/tables/schemas.py by python -m tools.tables; do not edit."
_LOGICAL: Final = {
    "string": "string", "int": "integer", "bigint": "integer", "double": "number", "boolean": "boolean",
    "timestamp": "timestamp", "binary": "string",
}  # fmt: skip


def page() -> str:
    """``tables.md``: every table, every column, its type, when it is null, what it means."""
    parts = [HEAD, "\n## Bronze: a dump, what a capture writes and a build reads\n"]
    parts += [_section(name, table) for name, table in BRONZE.items()]
    parts.append("\n## Silver and gold: what a build makes\n")
    parts += [_section(name, table) for name, table in TABLES.items()]
    return "".join(parts)


def _section(name: str, table: Table) -> str:
    facts = f"One row: {table.rows}. Sorted by {', '.join(f'`{column}`' for column in table.order)}"
    facts += f"; a file a day by `{table.day}`.\n" if table.day else ".\n"
    lines = ["| column | type | null | meaning |", "|---|---|---|---|"]
    lines += [line for column in table.columns.columns for line in _lines(column, "")]
    return f"\n### {name}\n\n{facts}\n" + "\n".join(lines) + "\n"


def _lines(column: Column, above: str) -> Iterator[str]:
    kind, many = column.kind, 0
    while isinstance(kind, Many):
        kind, many = kind.element, many + 1
    inner = kind if isinstance(kind, str) else "struct"
    name, meaning = f"{above}{column.name}", column.comment.replace("|", "\\|")
    yield f"| `{name}` | {'array of ' * many}{inner} | {column.null or 'never'} | {meaning} |"
    if isinstance(kind, Struct):
        for inner_column in kind.columns:
            yield from _lines(inner_column, f"{name}{'[]' * many}.")


def sql_type(kind: Kind) -> str:
    """A type as Spark's SQL writes it.

    >>> sql_type(Many("int"))
    'array<int>'
    """
    if isinstance(kind, Many):
        return f"array<{sql_type(kind.element)}>"
    if isinstance(kind, Struct):
        return "struct<" + ", ".join(f"{column.name}: {sql_type(column.kind)}" for column in kind.columns) + ">"
    return kind


def contract() -> dict[str, Any]:
    """The data contract of silver and gold: Open Data Contract Standard 3.1.0 (bitol.io)."""
    return {
        "apiVersion": "v3.1.0",
        "kind": "DataContract",
        "id": "apportion-tables",
        "name": "Consumer groups of a Kafka cluster",
        "version": VERSION,
        "status": "active",
        "description": {
            "purpose": "Who owned what when, what each rebalance moved and why, how far behind every partition is.",
            "limitations": "Columns may be added, none is renamed or given another meaning. Times are UTC.",
        },
        "schema": [_object(name, table) for name, table in TABLES.items()],
    }


def _object(name: str, table: Table) -> dict[str, Any]:
    keys = {column: position for position, column in enumerate(table.order, start=1)}
    properties = []
    for column in table.columns.columns:
        key = {"primaryKey": True, "primaryKeyPosition": keys[column.name]} if column.name in keys else {}
        properties.append({**_property(column), **key})
    return {
        "name": name.replace("/", "_"),
        "physicalName": name,
        "logicalType": "object",
        "physicalType": "table",
        "description": f"One row: {table.rows}.",
        "properties": properties,
    }


def _property(column: Column) -> dict[str, Any]:
    null = f" Null: {column.null}." if column.null else ""
    described = {"name": column.name, "description": column.comment + "." * (not column.comment.endswith(".")) + null}
    return {**described, **_type(column.kind), "required": not column.null}


def _type(kind: Kind) -> dict[str, Any]:
    if isinstance(kind, Many):
        return {"logicalType": "array", "physicalType": sql_type(kind), "items": _type(kind.element)}
    if isinstance(kind, Struct):
        return {
            "logicalType": "object",
            "physicalType": "struct",
            "properties": [_property(column) for column in kind.columns],
        }
    return {"logicalType": _LOGICAL[kind], "physicalType": kind}


def sources() -> dict[str, Any]:
    """dbt's sources: silver and gold, with the place of their files for dbt-duckdb."""
    return {
        "version": 2,
        "sources": [
            {
                "name": "apportion",
                "description": "Consumer groups of a Kafka cluster, as `apportion pipeline build` makes them.",
                "tables": [_source(name, table) for name, table in TABLES.items()],
            }
        ],
    }


def _source(name: str, table: Table) -> dict[str, Any]:
    location = "{{ env_var('APPORTION_TABLES', 'tables') }}/" + name + "/*.parquet"
    columns = []
    for column in table.columns.columns:
        description = f"{column.comment}; null: {column.null}" if column.null else column.comment
        tests = {} if column.null else {"data_tests": ["not_null"]}
        columns.append({"name": column.name, "description": description, "data_type": sql_type(column.kind), **tests})
    return {
        "name": name.replace("/", "_"),
        "description": f"One row: {table.rows}.",
        "config": {"meta": {"external_location": location}},
        "columns": columns,
    }


def to_yaml(value: Any, indent: str = "") -> str:
    r"""Mappings and lists as YAML, a line each; what is simple as JSON, which is YAML too.

    >>> print(to_yaml({"a": [{"b": 1, "c": "x"}], "d": []}), end="")
    a:
      - b: 1
        c: "x"
    d: []
    """
    if isinstance(value, Mapping):
        lines = []
        for name, inner in value.items():
            nested = isinstance(inner, Mapping | list) and bool(inner)
            text = "\n" + to_yaml(inner, indent + "  ") if nested else f" {json.dumps(inner, ensure_ascii=False)}\n"
            lines.append(f"{indent}{name}:{text}")
        return "".join(lines)
    lines = []
    for item in value:
        is_nested = isinstance(item, Mapping | list)
        text = to_yaml(item, indent + "  ") if is_nested else f"{indent}  {json.dumps(item, ensure_ascii=False)}\n"
        lines.append(f"{indent}- {text[len(indent) + 2 :]}")
    return "".join(lines)


def documents() -> dict[str, Callable[[], str]]:
    """File below ``docs`` -> its text."""
    comment = f"# {MADE_FROM}\n"
    return {
        "tables.md": page,
        "tables/odcs.yaml": lambda: comment + to_yaml(contract()),
        "tables/sources.yml": lambda: comment + to_yaml(sources()),
    }


def main() -> None:
    """Write all of them below the folder that is named."""
    folder = Path(sys.argv[1])
    for name, text in documents().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
