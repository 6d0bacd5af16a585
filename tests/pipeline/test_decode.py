"""Records become rows: fast and plain decoders agree on every input, and each record is counted exactly once."""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from tests.spark import made
from tests.support import records as write

from apportion.pipeline import decode
from apportion.wire.commits import decode_commits
from apportion.wire.coordinator import Commit

THOROUGH = os.environ.get("APPORTION_THOROUGH") == "1"


def of(name: str, batch: pa.RecordBatch) -> pa.Table:
    """The rows of one table."""
    pieces = [rows for table, rows in decode.every_row(batch) if table == name]
    return pa.Table.from_batches(pieces, schema=decode.arrow_schema(f"silver/{name}")).combine_chunks()


def commits_of(batch: pa.RecordBatch) -> pa.Table:
    return by_place([rows for name, rows in decode.every_row(batch) if name == "commits"])


def plain_commits_of(batch: pa.RecordBatch) -> pa.Table:
    """All one by one, by the reference."""
    found = [
        (n, decode.read(key.as_py(), value.as_py()))
        for n, (key, value) in enumerate(zip(batch["key"], batch["value"], strict=True))
    ]
    commits = [(n, record) for n, record in found if isinstance(record, Commit)]
    rows = np.array([n for n, _ in commits], np.int64)
    return by_place([decode._with_source("silver/commits", [decode._line(one)[1] for _, one in commits], batch, rows)])


def by_place(batches: list[pa.RecordBatch]) -> pa.Table:
    whole = pa.Table.from_batches(batches, schema=decode.arrow_schema("silver/commits"))
    return whole.sort_by([("source_offset", "ascending"), ("source_partition", "ascending")]).combine_chunks()


def where(batch: pa.RecordBatch | pa.Table) -> list[tuple[int, int]]:
    return list(zip(batch["source_partition"].to_pylist(), batch["source_offset"].to_pylist(), strict=True))


def test_the_fast_decoder_gives_the_plain_ones_rows_in_its_order() -> None:
    """On every kind and version, good, bad and mutated, and on slices that begin in the middle of a buffer."""
    pairs = made.every_kind() * 3 + made.mutated(made.every_kind(), 5000)
    whole = made.batch(pairs)
    assert commits_of(whole).equals(plain_commits_of(whole))
    for start, size in ((0, 0), (1, 1), (7, 100), (4000, 1000)):
        piece = whole.slice(start, size)
        assert commits_of(piece).equals(plain_commits_of(piece))


def test_texts_of_every_length_come_out_whole() -> None:
    pairs: list[made.Pair] = []
    for size in range(40):
        key = write.commit_key("gruppe"[:size] + "ü" * max(0, size - 6), "t" * (39 - size), size)
        ids = None if size % 3 == 0 else bytes([size % 5]) * 16
        pairs.append((key, write.commit_value(size, metadata="m" * size, topic_id=ids)))
        pairs.append((key, None))
    for part in (pairs, pairs[:1], pairs[1:2], pairs[2:3], pairs[-2:]):
        whole = made.batch(part)
        assert commits_of(whole).equals(plain_commits_of(whole))
        assert decode_commits(decode.column(whole["key"]), decode.column(whole["value"])).decoded.all()


def test_large_and_fixed_binaries_read_the_same() -> None:
    """Foreign files may store bytes in Arrow's large form."""
    whole = made.batch(made.every_kind())
    large = whole.set_column(0, "key", whole["key"].cast(pa.large_binary()))
    large = large.set_column(1, "value", whole["value"].cast(pa.large_binary()))
    assert commits_of(large).equals(commits_of(whole))
    fixed = decode.column(pa.array([b"ab", None, b"cd"], pa.binary(2)))
    assert fixed.valid is not None
    assert fixed.valid.tolist() == [True, False, True]
    rows = [fixed.octets[a:b].tobytes() for a, b in pairwise(fixed.offsets.tolist())]
    assert (rows[0], rows[2]) == (b"ab", b"cd")


def test_commits_keep_what_the_bytes_say() -> None:
    """Nulls, empty metadata, expiry, ids, and times that no calendar holds."""
    pairs = [
        made.commit(5, version=1, expire_time=-1, metadata=""),
        made.commit(6, leader_epoch=3, metadata="é"),
        made.commit(7, commit_time=2**62),
        (made.commit(0)[0], None),
    ]
    old, new, far, gone = commits_of(made.batch(pairs)).to_pylist()
    assert (old["leader_epoch"], old["metadata"], old["expire_time"], old["topic_id"]) == (None, "", None, None)
    assert (new["leader_epoch"], new["metadata"], new["topic_id"]) == (3, "é", "AAECAwQFBgcICQoLDA0ODw")
    assert (far["committed"], far["commit_time"]) == (7, None)
    assert gone["tombstone"]
    assert {name for name, value in gone.items() if value is None} == {
        "committed", "leader_epoch", "metadata", "commit_time", "expire_time", "topic_id", "value_version",
    }  # fmt: skip


def test_a_generation_keeps_its_members_whole() -> None:
    """What they subscribe to, owned, got, and remember; under another protocol type the bytes stay raw."""
    pairs = [made.generation(5), made.generation(6, protocol_type="connect"), (made.generation(5)[0], None)]
    mine, connect, gone = of("generations", made.batch(pairs)).to_pylist()
    member = mine["members"][1]
    assert member["assigned"] == member["owned"] == [{"topic": "t", "partitions": [2, 3]}]
    assert (member["owned_generation"], member["rack"], member["user_data"]) == (4, "r1", b"memory")
    raw = connect["members"][0]
    assert (raw["topics"], raw["owned"], raw["assigned"]) == ([], [], [])
    assert raw["user_data"].endswith(b"r1")
    assert (gone["tombstone"], gone["generation"], gone["members"]) == (True, None, [])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_each_mutated_record_is_counted_once() -> None:
    """In commits, generations, epochs, the counted others, or rejects: never twice, never nowhere."""
    count = 1_000_000 if THOROUGH else 50_000
    kinds = made.every_kind()
    for number in range(0, count, 10_000):
        pairs = made.mutated(kinds, 10_000, seed=number)
        whole = made.batch(pairs)
        places: Counter[tuple[int, int]] = Counter(where(commits_of(whole)))
        tables = decode.decoded(pa.Table.from_batches([whole]))
        rejected = tables["rejects"]
        for name in ("generations", "epochs", "rejects"):
            places.update(where(tables[name]))
        counted = sum(tables["counts"]["records"].to_pylist())
        others = counted - sum(tables[name].num_rows for name in ("commits", "generations", "epochs"))
        assert set(places.values()) == {1}
        assert len(places) + others == len(pairs)
        assert all(rejected["reason"].to_pylist())


def test_rejects_hold_the_reason_and_every_byte() -> None:
    """So that nothing is ever lost that somebody may read later."""
    found = of("rejects", made.batch(made.every_kind()))
    assert list(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)) == made.BAD
    assert "value version 9" in found["reason"].to_pylist()[4]


def test_a_reader_that_fails_makes_a_reject_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even an error of our own costs one record, not the job."""

    def broken(key: bytes | None, value: bytes | None) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(decode, "decode", broken)
    found = of("rejects", made.batch([made.generation(1)]))
    assert found["reason"].to_pylist() == ["the decoder failed: RecursionError: too deep"]


@pytest.mark.slow
def test_a_hostile_record_cannot_make_the_memory_grow() -> None:
    """Nested rows are handed on in pieces of a few megabytes of input."""
    wide = made.generation(1, members=[f"member-{i}" for i in range(3000)])
    sizes = [rows.num_rows for _, rows in decode.every_row(made.batch([wide] * 40))]
    assert sum(sizes) == 40
    assert max(sizes) * len(wide[1] or b"") < 2 * decode.PIECE_BYTES + len(wide[1] or b"")


def test_others_come_in_pieces_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made.batch(made.every_kind())
    at_once = decode.decoded(pa.Table.from_batches([whole]))
    monkeypatch.setattr(decode, "PIECE_BYTES", 100)
    pieces = list(decode.every_row(whole))
    assert [name for name, _ in pieces].count("epochs") > 3
    for name in ("commits", "generations", "epochs", "rejects"):
        rows = pa.Table.from_batches([rows for kind, rows in pieces if kind == name])
        assert rows.num_rows == at_once[name].num_rows
        assert sorted(where(rows)) == sorted(where(at_once[name]))
    counted = sum(n for kind, rows in pieces if kind == "counts" for n in rows["records"].to_pylist())
    rest = sum(at_once[name].num_rows for name in ("commits", "generations", "epochs"))
    assert counted + rest == sum(at_once["counts"]["records"].to_pylist())


def test_an_empty_batch_is_no_trouble() -> None:
    """Spark sends some."""
    assert list(decode.every_row(made.batch([]))) == []
    assert decode.decoded(pa.Table.from_batches([made.batch([])]))["counts"].num_rows == 0


def test_runs_tell_gaps_records_that_stand_twice_and_those_that_come_late() -> None:
    """In any order, and put together from several places."""
    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])

    def runs(*offsets: int) -> pa.Table:
        return decode.runs_of(pa.table([[3] * len(offsets), list(offsets)], schema=schema))

    whole = decode.joined_runs(pa.concat_tables([runs(7, 5, 6), runs(8, 12), runs(11)]))
    assert [tuple(row.values()) for row in whole.to_pylist()] == [(3, 5, 8), (3, 11, 12)]
    found = decode.gaps(whole, {3: 2}).to_pylist()
    assert [tuple(row.values()) for row in found] == [(3, 2, 5, 2), (3, 8, 11, 2)]
    assert not decode.stand_twice(whole)
    assert decode.stand_twice(decode.joined_runs(pa.concat_tables([whole, runs(6)])))
    assert not decode.come_late(whole, {3: 4, 9: 100})
    assert decode.come_late(whole, {3: 5})
    assert decode.last_offsets(whole, {3: 4, 9: 100}) == {3: 12, 9: 100}
