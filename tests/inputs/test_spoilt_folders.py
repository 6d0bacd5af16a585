"""A dump and tables, file by file and column by column spoilt: what each reader makes of it, as it was written down.

A column that is missing, of another type, with a null, a number too big or twice there; a file cut short, empty,
doubled, hidden or no Parquet at all. Of each reader either a digest of all that it read, or the sentence that refuses
it.
``APPORTION_WRITE=1`` writes ``spoilt_folders.json`` anew; then look at what changed in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.written_down import as_written

from apportion import demo
from apportion.errors import ApportionError
from apportion.inputs import dump_files, load_history, sniff, tables
from apportion.inputs.series import FolderSeries
from apportion.model.build import build

HERE = Path(__file__).parent
TABLES = HERE.parent / "data" / "tables"
SPOILS: dict[str, Callable[[pa.Table, int], pa.Table]] = {
    "without": lambda table, i: table.remove_column(i),
    "called otherwise": lambda table, i: table.rename_columns(
        [*table.column_names[:i], "x", *table.column_names[i + 1 :]]
    ),
    "twice": lambda table, i: table.append_column(table.field(i), table.column(i)),
    "with a null": lambda table, i: replaced(
        table, i, pa.array([None, *table.column(i)[1:].to_pylist()], table.field(i).type)
    ),
    "all null": lambda table, i: replaced(table, i, pa.nulls(table.num_rows)),
    "as words": lambda table, i: replaced(table, i, pa.array(["x"] * table.num_rows)),
    "as truth values": lambda table, i: replaced(table, i, pa.array([True] * table.num_rows)),
    "as big numbers": lambda table, i: replaced(table, i, pa.array([2**40 + n for n in range(table.num_rows)])),
    "as huge numbers": lambda table, i: replaced(
        table, i, pa.array([2**63 + n for n in range(table.num_rows)], pa.uint64())
    ),
    "as small numbers": lambda table, i: replaced(
        table, i, pa.array([n % 100 for n in range(table.num_rows)], pa.int8())
    ),
    "as a dictionary": lambda table, i: replaced(table, i, table.column(i).dictionary_encode()),
    "as bytes": lambda table, i: replaced(table, i, pa.array([b"x"] * table.num_rows)),
    "large": lambda table, i: replaced(table, i, larger(table.column(i))),
}


def replaced(table: pa.Table, i: int, column: Any) -> pa.Table:
    return table.set_column(i, table.column_names[i], column)


def larger(column: Any) -> Any:
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary(), pa.int32(): pa.int64()}
    return column.cast(wide.get(column.type, column.type))


def column(file: Path, name: str) -> Iterator[str]:
    """Spoil a column of a file in each way."""
    table = pq.read_table(file)
    for how, spoil in SPOILS.items():
        try:
            spoilt = spoil(table, table.column_names.index(name))
        except (pa.ArrowException, TypeError):
            continue
        pq.write_table(spoilt, file, write_statistics=how != "as big numbers")
        yield how


def rows(file: Path) -> Iterator[str]:
    """The same rows written otherwise, and others."""
    table = pq.read_table(file)
    pq.write_table(table, file, use_deprecated_int96_timestamps=True)
    yield "old times"
    pq.write_table(table.slice(0, 0), file)
    yield "no rows"
    pq.write_table(pa.concat_tables([table, table]), file)
    yield "each row twice"
    pq.write_table(table.take(pa.array(range(table.num_rows)[::-1])), file)
    yield "turned"
    pq.write_table(table, file, row_group_size=7)
    yield "small groups of rows"


def whole(folder: Path, file: Path) -> Iterator[str]:
    """Spoil a file as a whole."""
    content = file.read_bytes()
    beside = file.with_name("zz.parquet")
    for name, octets in (("empty", b""), ("cut", content[: len(content) // 2]), ("no Parquet", b"hello")):
        file.write_bytes(octets)
        yield name
    file.unlink()
    yield "missing"
    file.symlink_to("nowhere")
    yield "a link to nowhere"
    file.unlink()
    file.write_bytes(content)
    if file.parent != folder:
        for name in ("_draft.parquet", ".draft.parquet", "_deeper/x.parquet", "deeper/x.parquet", "notes.txt"):
            more = file.with_name(name) if "/" not in name else file.parent / name
            more.parent.mkdir(exist_ok=True)
            more.write_bytes(b"not whole")
            yield f"beside {name}"
            more.unlink()
        shutil.copy(file, beside)
        yield "there twice"
        beside.unlink()
        kept = file.parent.with_name("kept")
        file.parent.rename(kept)
        yield "its folder missing"
        file.parent.write_bytes(b"")
        yield "its folder a file"
        file.parent.unlink()
        kept.rename(file.parent)


def read(folder: Path) -> dict[str, Any]:
    """What each reader says."""

    def groups() -> Any:
        observed = load_history.groups_in_folder(str(folder))
        [one] = sniff.chosen(observed, ["feed-cooperative"])
        series = FolderSeries(str(folder), {one.name: one.raw["topics"]}, 30)
        over_time = [series.known, series.now_ms, sorted(series.of(build(one.raw)).items())]
        return [[list(vars(each).values()) for each in observed], over_time]

    def histories() -> Any:
        return [
            [
                one.raw,
                one.rebalances,
                sorted(one.commits.items()),
                one.habits,
                one.epochs,
                [(each.offset, each.at, each.holes) for each in one.events],
            ]
            for one in load_history.load_histories(folder).groups.values()
        ]

    def reads_on() -> Any:
        return sorted(load_history.next_offsets(folder).items())

    return {do.__name__: tried(do, folder) for do in (groups, histories, reads_on)}


def bare(value: Any) -> Any:
    """All that a value holds, whatever its fields are called."""
    if is_dataclass(value):
        return [bare(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, Mapping):
        return [[bare(key), bare(one)] for key, one in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(bare, value), key=repr)
    return [bare(one) for one in value] if isinstance(value, list | tuple) else value


def tried(do: Callable[[], Any], folder: Path) -> str:
    try:
        return hashlib.sha256(repr(bare(do())).encode()).hexdigest()[:8]
    except ApportionError as wrong:
        sentence = f"{type(wrong).__name__}: {wrong}".replace(str(folder), "FOLDER")
        # What Arrow says of it depends on its release.
        return re.sub(r"(whole Parquet file \().*(\); needed)|(: )Failed to open.*", r"\1...\2\3...", sentence)


def parts() -> Iterator[tuple[str, str, str]]:
    """Kind of folder, file, and what is spoilt of it."""
    for kind, top in (("dump", demo.dump()), ("tables", TABLES)):
        for file in sorted(top.rglob("*.parquet")):
            part = str(file.relative_to(top))
            if not part.startswith(("gold", "silver/counts", "silver/rejects")):
                names = [name for name in pq.read_schema(file).names if name in READ]
                yield from ((kind, part, what) for what in ("", "rows", *names))


READ = {
    *dump_files.RECORDS,
    *dump_files.ENDS,
    *dump_files.TOPICS,
    *tables.COMMITS,
    *tables.GENERATIONS,
    *tables.EPOCHS,
    *tables.GAPS,
}


@pytest.mark.parametrize(("kind", "part", "what"), list(parts()))
def test_a_spoilt_folder_is_read_or_refused_as_it_was(tmp_path: Path, kind: str, part: str, what: str) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(demo.dump() if kind == "dump" else TABLES, folder, ignore=shutil.ignore_patterns("gold", "truth"))
    file = folder / part
    says: dict[str, list[str]] = {}
    for how in whole(folder, file) if not what else rows(file) if what == "rows" else column(file, what):
        readers = read(folder)
        same = len(set(readers.values())) == 1
        says.setdefault(readers["groups"] if same else json.dumps(readers), []).append(how)
    as_written(HERE / "spoilt_folders.json", f"{kind}: {part} {what}".strip(), says)
