"""Rows do not depend on how much is folded at a time; personal values go, all else stays; digests tell rows apart."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline import in_process
from tests.spark import traps

from apportion.errors import BadInput
from apportion.pipeline import digests, group_rows, personal
from apportion.pipeline.personal import Personal
from apportion.tables.schemas import TABLES

ASSIGNORS = ("range", "sticky", "cooperative-sticky", "lag-aware", "broker-uniform", "failover")


def plain(rows: pa.Table, name: str = "") -> list[list[Any]]:
    """The table's rows in its order, each value as JSON has it."""
    if name in TABLES and TABLES[name].order:
        rows = rows.sort_by([(column, "ascending") for column in TABLES[name].order])
    return [[json.loads(json.dumps(value, default=str)) for value in row.values()] for row in rows.to_pylist()]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> in_process.Tables:
    """Tables of the dump of traps."""
    return in_process.tables_of(traps.write(tmp_path_factory.mktemp("odd") / "dump"), ASSIGNORS)


@pytest.mark.parametrize(("groups", "size"), [(1, 1 << 20), (3, 1 << 20), (256, 1), (256, 4_000)])
def test_groups_that_are_folded_some_at_a_time_give_the_rows_of_all_at_once(
    groups: int, size: int, odd: in_process.Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_rows, "GROUPS_AT_ONCE", groups)
    monkeypatch.setattr(group_rows, "BYTES_AT_ONCE", size)
    tables = in_process.tables_of(traps.write(tmp_path / "dump"), ("range",))
    for name in ("gold/rebalances", "gold/epochs", "gold/groups", "gold/group_state", "gold/lag"):
        assert tables[name].equals(odd[name]), name


@pytest.mark.parametrize("how", ["drop", "hash"])
def test_what_is_personal_and_old_is_gone_and_nothing_else(odd: in_process.Tables, how: str) -> None:
    """The moment is that of a record in the middle, which keeps what it says."""
    changed = {}
    for name in ("generations", "epochs", "rejects", "commits"):
        rows = odd[f"silver/{name}"]
        times = sorted(at for at in rows["at"].cast(pa.int64()).to_pylist() if at is not None)
        left = Personal(times[len(times) // 2], how).nameless(name, rows)
        assert left.schema == rows.schema
        assert Personal(times[0], how).nameless(name, rows) is rows, "none is older than the first"
        before, after = plain(rows), plain(left)
        changed[name] = [[n, row] for n, (row, was) in enumerate(zip(after, before, strict=True)) if row != was]
    assert changed["commits"] == []
    assert all(changed[name] for name in ("generations", "epochs", "rejects")), "old rows lose what is personal"


BODY = (
    '{"clientId":"ann","clientHost":"/10.0.0.1","x":"ü","userEndpoint":{"host":"h"},"clientTags":[{"k":1}],'
    '"classicMemberMetadata":{"supportedProtocols":[{"name":"range","metadata":"AAA"}]}}'
)


def test_a_members_body_keeps_what_is_nobodys() -> None:
    assert personal.nameless_body(BODY, "drop") == (
        '{"clientId":"","clientHost":"","x":"ü","userEndpoint":null,"clientTags":[],'
        '"classicMemberMetadata":{"supportedProtocols":[{"name":"range","metadata":""}]}}'
    )
    hashed = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in (("c", "ann"), ("h", "/10.0.0.1"))}
    assert personal.nameless_body('{"clientId":"ann","clientHost":"/10.0.0.1"}', "hash") == (
        f'{{"clientId":"{hashed["c"]}","clientHost":"{hashed["h"]}"}}'
    )
    assert personal.nameless_body('{"clientId":null,"classicMemberMetadata":null}', "hash") == (
        '{"clientId":null,"classicMemberMetadata":null}'
    )
    assert personal.nameless_body(None, "drop") is None
    for days, how, words in (
        (1, "keep", "personal data: found 'keep'; needed drop or hash."),
        (-1, "drop", "personal data: days: found -1; needed 0 or more."),
    ):
        with pytest.raises(BadInput) as refused:
            personal.check(days, how)
        assert str(refused.value) == words
    personal.check(0, "hash")
    personal.check(None, "drop")


def test_rows_that_differ_have_digests_that_differ() -> None:
    """Of texts, numbers, times, lists and structs; the same ones however the table is cut."""
    rows = [
        {"t": text, "n": number, "l": listed, "s": {"a": number, "b": text}, "at": at}
        for text in ("", "a", "b", None)
        for number in (0, 1, -1, None)
        for listed in ([], ["a"], ["a", "b"], ["ab"], None)
        for at in (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), None)
    ]
    table = pa.Table.from_pylist(rows)
    whole = digests.row_digests(table).tolist()
    assert len(set(whole)) == len(rows)
    more = table.append_column("none", pa.nulls(len(rows)))
    assert len({*digests.row_digests(more).tolist()}) == len(rows)
    maps = [None, [], [("a", "b")], [("b", "a")], [("a", "b"), ("b", "a")], [("a", None)]]
    named = pa.table({"names": pa.array(maps, pa.map_(pa.string(), pa.string()))})
    assert len({*digests.row_digests(named).tolist()}) == len(maps)
    assert digests.row_digests(named.slice(3)).tolist() == digests.row_digests(named).tolist()[3:]
    cut = [digests.row_digests(table.slice(at, 7)).tolist() for at in range(0, len(rows), 7)]
    assert [one for some in cut for one in some] == whole
    assert digests.row_digests(table.slice(0, 0)).tolist() == []
