"""Parquet files of others: found, their columns checked, read; every fault one sentence that names the file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kind

from apportion.errors import BadInput, MissingExtra, Unavailable
from apportion.wording import count

Check = tuple[str, Callable[[Any], bool]]
"""What a column's type is called, and whether an Arrow type is one."""

BINARY: Final[Check] = ("binary", lambda t: kind.is_binary(t) or kind.is_large_binary(t))
# A column of nothing but nulls is stored without a type.
TEXT: Final[Check] = ("string", lambda t: kind.is_string(t) or kind.is_large_string(t) or kind.is_null(t))
INT: Final[Check] = ("int", kind.is_integer)
BIGINT: Final[Check] = ("bigint", kind.is_integer)
TIME: Final[Check] = ("timestamp", kind.is_timestamp)
BOOLEAN: Final[Check] = ("boolean", kind.is_boolean)
LIST: Final[Check] = ("array", lambda t: kind.is_list(t) or kind.is_large_list(t))
TEXTS: Final[Check] = ("array<string>", lambda t: (kind.is_list(t) or kind.is_large_list(t)) and TEXT[1](t.value_type))


MOST_UNPACKED: Final = 4 << 30
"""Bytes of one file's columns in memory. A capture of that size belongs in several files, as Spark writes them."""
SMALL: Final = 16 << 20
"""Bytes of a file on disk below which its values are counted before they are written out."""
INT96: Final = "int96"
"""Times as Spark wrote them by default for years; Arrow shows them as nanoseconds, Spark reads them as times."""


def files(path: Path) -> list[Path]:
    """The Parquet files that a path means: itself, or all in the folder, by name, hidden ones left out.

    Of a Delta table those of its newest version, for which its library is needed (MissingExtra).
    """
    try:
        if not path.is_dir():
            # A link that leads nowhere is a file that is missing, which ``check`` says; so below.
            return [path] if path.exists() or path.is_symlink() else []
        if (path / "_delta_log").is_dir():
            return _newest_version(path)
        candidates = (file for file in path.rglob("*.parquet") if file.is_file() or not file.exists())
        # Hidden files and folders are drafts and a desktop's own; Spark leaves them out too.
        return sorted(
            f for f in candidates if not any(part.startswith((".", "_")) for part in f.relative_to(path).parts)
        )
    except OSError as error:
        raise Unavailable(f"cannot read {str(path)!r}: {error.strerror}.") from None


def _newest_version(table: Path) -> list[Path]:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise MissingExtra("Reading Delta tables", "delta") from error
    try:
        return sorted(Path(name) for name in DeltaTable(str(table)).file_uris())
    except Exception as error:  # whatever the library finds wrong with foreign bytes
        raise _broken(table / "_delta_log", error) from None


def check(file: Path, columns: Mapping[str, Check], filled: Collection[str] = ()) -> dict[str, str]:
    """The file's type of each column: the Arrow type's name, or ``INT96``.

    filled
        Columns that must have a value in each row.

    Reads the footer alone; raises unless the file is a whole Parquet file that has these columns, with these types.
    """
    try:
        with pq.ParquetFile(file) as whole:
            schema, stored, footer = whole.schema_arrow, whole.schema, whole.metadata
            old = {leaf.path for leaf in map(stored.column, range(len(stored))) if leaf.physical_type == "INT96"}
    except Exception as error:  # whatever Arrow finds wrong with foreign bytes
        raise _broken(file, error) from None
    forms = {name: INT96 if name in old else _form(file, schema, name, *columns[name]) for name in columns}
    for number in range(len(stored)):
        name = stored.column(number).path
        if name in columns:
            groups = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
            _check_values(
                file, name, columns[name][0], name in filled, [stats for stats in groups if stats is not None]
            )
    return forms


def _check_values(file: Path, name: str, needed: str, filled: bool, groups: list[Any]) -> None:
    """Refuse nulls in columns without them, and numbers too large for a column; without statistics all is believed."""
    nulls = sum(stats.null_count or 0 for stats in groups)
    if filled and nulls:
        raise BadInput(f"{file}, column {name}", f"null in {count(nulls, 'row')}", "a value in each row")
    limit = 2 ** {INT[0]: 31, BIGINT[0]: 63}.get(needed, 999)
    for value in [value for stats in groups if stats.has_min_max and limit < 2**64 for value in (stats.min, stats.max)]:
        if isinstance(value, int) and not -limit <= value < limit:
            raise BadInput(f"{file}, column {name}", str(value), f"a number below {limit}")


def _form(file: Path, schema: Any, name: str, needed: str, fits: Callable[[Any], bool]) -> str:
    indices = schema.get_all_field_indices(name)
    if len(indices) != 1:
        columns = "no such column" if not indices else f"{len(indices)} such columns"
        raise BadInput(f"{file}, column {name}", columns, f"one of type {needed}")
    plain = _plain(schema.field(indices[0]).type)
    if not fits(plain):
        raise BadInput(f"{file}, column {name}", f"type {schema.field(indices[0]).type}", needed)
    return str(plain)


def read(file: Path, columns: Mapping[str, Check], filled: Collection[str] = ()) -> pa.Table:
    """These columns of one file, times as whole milliseconds; the file is checked first, and each value where it says
    nothing of them.

    filled
        Columns that must have a value in each row.
    """
    check(file, columns, filled)
    table = _unpacked(file, columns)
    for i, name in enumerate(table.column_names):
        column = table.column(i)
        if kind.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if kind.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        where = f"{file}, column {name}"
        if name in filled and column.null_count:
            raise BadInput(where, f"null in {count(column.null_count, 'row')}", "a value in each row")
        whole = {INT[0]: pa.int32(), BIGINT[0]: pa.int64()}.get(columns[name][0])
        if whole is not None and column.type != whole:
            try:
                column = column.cast(whole)
            except pa.ArrowInvalid as error:
                raise BadInput(where, _why(error), f"numbers of {whole.bit_width} bits") from None
        table = table.set_column(i, name, column)
    return table.select(list(columns))


def _unpacked(file: Path, columns: Mapping[str, Check]) -> pa.Table:
    """The columns, if they fit the memory that a file may take: a few bytes can mean gigabytes.

    The footer is asked first, then the sum after each row group. Millions of rows may name one value, which no size in
    a footer counts, so of a small file values stay a dictionary until their sum is known; a large one would take three
    times as long that way.
    """
    try:
        words = [name for name, check in columns.items() if check in (BINARY, TEXT)]
        with pq.ParquetFile(file, read_dictionary=words if file.stat().st_size < SMALL else ()) as whole:
            footer = whole.metadata
            leaves = [(g, c) for g in range(footer.num_row_groups) for c in range(footer.num_columns)]
            chunks = [footer.row_group(g).column(c) for g, c in leaves]
            wanted = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in columns]
            _refuse_bomb(file, sum(max(chunk.total_uncompressed_size, 8 * chunk.num_values) for chunk in wanted))
            size, tables = 0, [whole.schema_arrow.empty_table().select(list(columns))]
            for group in range(footer.num_row_groups):
                tables.append(whole.read_row_group(group, columns=list(columns)))
                size += sum(_bytes_of(chunk) for column in tables[-1].columns for chunk in column.chunks)
                _refuse_bomb(file, size)
            return pa.concat_tables(tables[1:] or tables)
    except BadInput:
        raise
    except Exception as error:  # whatever Arrow finds wrong with foreign bytes
        raise _broken(file, error) from None


def _bytes_of(chunk: pa.Array) -> int:
    """Bytes of a chunk with each value written out."""
    if not kind.is_dictionary(chunk.type) or not (BINARY[1](chunk.type.value_type) or TEXT[1](chunk.type.value_type)):
        return int(chunk.nbytes)
    length = pc.binary_length(chunk.dictionary).take(chunk.indices)
    return int(pc.sum(length, min_count=0).as_py() or 0)


def _refuse_bomb(file: Path, size: int) -> None:
    if size > MOST_UNPACKED:
        raise BadInput(str(file), f"{size:,} bytes when unpacked", f"at most {MOST_UNPACKED:,} in one file")


def behind_newest(
    files: Iterable[Path], columns: Mapping[str, Check], filled: Collection[str], partition: str, offset: str
) -> dict[int, int]:
    """Of each partition that the files have rows of, the offset behind the greatest."""
    behind: dict[int, int] = {}
    for file in files:
        newest = read(file, columns, filled).group_by(partition).aggregate([(offset, "max")])
        for number, last in zip(newest[partition].to_pylist(), newest[f"{offset}_max"].to_pylist(), strict=True):
            behind[number] = max(behind.get(number, 0), last + 1)
    return behind


def _plain(type_: Any) -> Any:
    return type_.value_type if kind.is_dictionary(type_) else type_


def _broken(file: Path, error: Exception) -> BadInput | Unavailable:
    if isinstance(error, FileNotFoundError | PermissionError):
        return Unavailable(f"cannot read {str(file)!r}: {error.strerror}.")
    return BadInput(str(file), f"no whole Parquet file ({_why(error)})", "one that was written to its end")


def _why(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
