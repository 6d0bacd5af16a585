"""``docs/tables.md``, made from the schemas: every table, every column, its type, when it is null, what it means."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apportion.spark.schemas import ENDS, RECORDS, TABLES, TOPICS, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructField

HEAD: Final = """# Tables

Made from `src/apportion/spark/schemas.py` by `python -m apportion.spark.tables_page docs/tables.md`; do not edit.

Each table is a folder of Parquet files. Times are UTC, `int` has 32 bits, `bigint` 64. A file named
`2026-11-21-00000.parquet` holds the rows of one UTC day (by the column named under "a file a day"), so a day is read
with `2026-11-21-*.parquet` and dropped with `rm`. Rows are sorted by the columns named under "sorted by".
"""

BRONZE: Final[dict[str, TableSchema]] = {"records": RECORDS, "ends": ENDS, "topics": TOPICS}


def page() -> str:
    """The whole page."""
    parts = [HEAD, "\n## Bronze: a dump, what a capture writes and a build reads\n"]
    parts += [_section(f"{name}", table, 3) for name, table in BRONZE.items()]
    parts.append("\n## Silver and gold: what a build makes\n")
    parts += [_section(name, table, 3) for name, table in TABLES.items()]
    return "".join(parts)


def _section(name: str, table: TableSchema, level: int) -> str:
    facts = f"One row: {table.rows}. Sorted by {', '.join(f'`{column}`' for column in table.order)}"
    facts += f"; a file a day by `{table.day}`.\n" if table.day else ".\n"
    lines = ["| column | type | null | meaning |", "|---|---|---|---|"]
    lines += [line for field in table.schema for line in _lines(field, "")]
    return f"\n{'#' * level} {name}\n\n{facts}\n" + "\n".join(lines) + "\n"


def _lines(field: StructField, above: str) -> Iterator[str]:
    from pyspark.sql.types import ArrayType, StructType

    kind, many = field.dataType, 0
    while isinstance(kind, ArrayType):
        kind, many = kind.elementType, many + 1
    inner = "struct" if isinstance(kind, StructType) else kind.simpleString()
    name = f"{above}{field.name}"
    told = field.metadata
    meaning = told["comment"].replace("|", "\\|")
    yield f"| `{name}` | {'array of ' * many}{inner} | {told['null'] or 'never'} | {meaning} |"
    if isinstance(kind, StructType):
        for one in kind:
            yield from _lines(one, f"{name}{'[]' * many}.")


def main() -> None:
    """Write the page to the file that is named, or to standard output."""
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main()
