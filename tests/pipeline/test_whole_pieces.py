"""Pieces of the pipeline's steps, whole: how rows are cut, which sample counts, what is kept, and who is alike."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.history.test_shared_plans import question
from tests.pipeline import in_process
from tests.spark import traps

from apportion.history.scenarios import AS_IS, REPLAY
from apportion.pipeline import decode, end_samples, group_rows, whatif
from apportion.pipeline.columns import fields_of, in_order, pieces, ranked, spans, starts_of, united
from apportion.pipeline.plan_templates import Batch, Structs, _coded
from apportion.pipeline.whatif import Plans
from apportion.tables import documents, schemas
from apportion.tables.schemas import EPOCHS, GENERATIONS
from bench.whatif_rows import batch, row


def test_pieces_are_the_longest_halves_that_fit() -> None:
    rows = pa.record_batch({"text": ["x" * (n % 7) * 40 for n in range(200)]})
    for most, size in ((64, 2_000), (100, 900), (200, 5_000), (50, 1)):
        first = 0
        for one in pieces(rows, most, size):
            n = most
            while n > 1 and rows.slice(first, n).nbytes > size:
                n //= 2
            assert one.num_rows == min(n, 200 - first)
            first += one.num_rows
        assert first == 200


def test_orders_runs_and_spans_are_those_of_plain_lists() -> None:
    rng = Random(3)
    for n in (0, 1, 2, 40):
        keys = [np.array([rng.randrange(-2, 3) for _ in range(n)], dtype=np.int64) for _ in range(3)]
        plain = sorted(range(n), key=lambda i: (*(key[i] for key in keys), i))
        assert in_order(*keys).tolist() == plain
        assert in_order(keys[0]).tolist() == sorted(range(n), key=keys[0].__getitem__)
        ordered = [key[plain] for key in keys]
        assert in_order(*ordered).tolist() == list(range(n))
        rows = list(zip(*(key.tolist() for key in ordered), strict=True))
        assert starts_of(*ordered).tolist() == [i for i in range(n) if not i or rows[i] != rows[i - 1]] + [n]
        assert united(*keys).tolist() == sorted({int(v) for key in keys for v in key})
        first, count = np.abs(keys[0]), np.abs(keys[1])
        assert spans(first, count).tolist() == [
            a + i for a, c in zip(first.tolist(), count.tolist(), strict=True) for i in range(c)
        ]
        texts = [rng.choice(["b", None, "a", "ü", ""]) for _ in range(n)]
        more = [rng.choice(["c", "a"]) for _ in range(n)]
        codes, names = ranked(pa.array(texts, pa.string()), pa.chunked_array([pa.array(more, pa.string())]))
        assert names.to_pylist() == sorted({*texts, *more} - {None}, key=str.encode)  # type: ignore[arg-type]
        place = {name: at for at, name in enumerate(names.to_pylist())} | {None: -1}
        assert [code.tolist() for code in codes] == [[place[text] for text in one] for one in (texts, more)]
        words, code = _coded(pa.array(texts, pa.string()))
        assert (words[-1], [words[c] for c in code.tolist()], words[:-1]) == (
            None, texts, sorted({*texts} - {None})  # type: ignore[type-var]
        )  # fmt: skip


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(1_763_000_000 + ms / 1000, UTC)


def test_of_samples_that_differ_in_one_thing_the_greater_stays_whatever_order_they_came_in() -> None:
    """Of one moment and end: by begin, then by last stable; unknown counts least."""
    rows = [
        {"topic": "t", "partition": 0, "at": moment(5), "begin": begin, "end": 9, "last_stable": stable}
        for begin, stable in product((None, 0, 3), (None, 1, 7))
    ]
    rng = Random(2)
    for _ in range(8):
        rng.shuffle(rows)
        left = end_samples.thinned_samples(pa.Table.from_pylist(rows, end_samples.ENDS)).to_pylist()
        assert [(one["begin"], one["last_stable"]) for one in left] == [(3, 7)]
    late = [{**rows[0], "at": moment(5), "end": end} for end in (4, None, 6)]
    left = end_samples.thinned_samples(pa.Table.from_pylist(late, end_samples.ENDS)).to_pylist()
    assert [one["end"] for one in left] == [None, 4, 6]


def test_topics_of_which_no_end_was_sampled_keep_what_they_have() -> None:
    kind = schemas.arrow_schema(schemas.GROUP_STATE).field("topics").type
    entry = {"partition": 0, "racks": None, "begin": 2, "end": 8, "last_stable": None}
    topics = pa.array([[{"topic": "t", "topic_id": None, "partitions": [entry]}], []], kind)
    named = pa.Table.from_pylist([{"topic": "t", "partition": 0}], end_samples.TOPICS)
    logs = end_samples.described(end_samples.ENDS.empty_table(), named)
    assert end_samples.topics_then(topics, np.array([7, 7]), logs).equals(topics)
    ends = [{"topic": "t", "partition": 0, "at": moment(ms), "begin": 1, "end": ms} for ms in (10, 20, 30)]
    logs = end_samples.described(pa.Table.from_pylist(ends, end_samples.ENDS), named)
    base = 1_763_000_000_000
    for heard, end in ((0, 10), (10, 10), (11, 20), (30, 30), (31, 30)):
        then = end_samples.topics_then(topics, np.array([base + heard, 0]), logs).to_pylist()
        assert then[0][0]["partitions"] == [{**entry, "begin": 1, "end": end}], heard


def test_what_is_kept_of_groups_asks_nobody_again_where_nothing_is_new(tmp_path: Path) -> None:
    dump = traps.write(tmp_path / "dump")
    records, (ends, topics) = in_process.records_of(dump), in_process.logs_in(dump)
    _, kept, every = in_process.built(records, ends, topics, assignors=("range",))
    _, again, none = in_process.built(records.slice(0, 0), ends.slice(0, 0), topics, kept, assignors=("range",))
    assert (every > 0, none) == (True, 0)
    assert again.groups["digests"].equals(kept.groups["digests"])


def test_each_table_of_groups_is_of_the_types_that_it_says(tmp_path: Path) -> None:
    tables = in_process.tables_of(traps.write(tmp_path / "dump"), ("range",))
    for name, rows in tables.items():
        rows.validate(full=True)
        assert [column.type for column in rows.columns] == rows.schema.types, name


def test_records_have_the_columns_that_a_fold_takes() -> None:
    """Made anew, as when the module is loaded."""
    for kind, table in (("generations", GENERATIONS), ("epochs", EPOCHS)):
        names = [name for name in group_rows.RECORDS[kind].names if name not in ("group", "holes")]
        made = group_rows._record(table, *names)
        assert made.equals(group_rows.RECORDS[kind])
        assert made.names == ["group", *names, "holes"]
        stored = schemas.arrow_schema(table)
        for field in made:
            if field.name.endswith("_ms") or field.name == "holes":
                assert field.type == pa.int64()
            elif field.name != "members":
                assert field.type == stored.field(field.name).type
    member = group_rows.RECORDS["generations"].field("members").type.value_type
    assert [field.name for field in member] == list(group_rows._MEMBER)


def test_a_columns_meaning_is_kept_whole() -> None:
    made = schemas.column("n", "bigint", "how many", "unknown")
    assert (made.name, made.kind, made.comment, made.null) == ("n", "bigint", "how many", "unknown")
    assert schemas.column("n", "bigint", "how many").null == ""


def test_all_documents_are_written_below_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["documents", str(tmp_path)])
    for _ in range(2):
        documents.main()
        written = {
            str(file.relative_to(tmp_path)): file.read_text(encoding="utf-8")
            for file in tmp_path.rglob("*") if file.is_file()
        }  # fmt: skip
        assert written == {name: text() for name, text in documents.documents().items()}


MICROS_MAX = 2**63 - 1


@pytest.mark.parametrize("edge", [0, MICROS_MAX // 1000, -(MICROS_MAX // 1000), 2**63 - 1, -(2**63)])
def test_times_are_told_by_the_column_as_one_by_one(edge: int) -> None:
    values = [v for v in (edge - 2, edge - 1, edge, edge + 1, edge + 2) if -(2**63) <= v < 2**63]
    told = decode._times(np.array(values), np.ones(len(values), dtype=np.bool_))
    assert told.to_pylist() == [decode.micros(value) for value in values]
    assert decode._times(np.array(values), np.zeros(len(values), dtype=np.bool_)).null_count == len(values)


def test_groups_of_one_structure_have_one_key_and_others_have_others() -> None:
    questions = {seed: [question(seed, f"g{n}", f"p{n}", lag_seed=n) for n in range(3)] for seed in range(6)}
    rows = [row(*one) for alike in questions.values() for one in alike]
    whole = Batch(batch(rows))
    keys = [found.key if (found := whole.likeness(at)) is not None else None for at in range(len(rows))]
    assert sum(key is not None for key in keys) > len(keys) // 2
    distinct = []
    for at in range(0, len(keys), 3):
        assert keys[at] == keys[at + 1] == keys[at + 2], rows[at]["group"]
        if keys[at] is not None:
            distinct.append(keys[at])
    assert len(set(distinct)) == len(distinct)
    for at in range(len(rows)):
        found = whole.likeness(at)
        if found is not None:
            named = {topic["topic"] for topic in rows[at]["topics"]}
            assert set(found.topics) >= named
            assert found.size == sum(len(topic["partitions"]) for topic in rows[at]["topics"])
            plain = {k: v for k, v in rows[at].items() if k not in ("topics", "commits")}
            assert {k: v for k, v in whole.row(at).items() if k in ("group", "type", "readable")} == {
                k: v for k, v in plain.items() if k in ("group", "type", "readable")
            }
            assert set(whole.row(at)) == set(whole.rows.schema.names) - {"topics", "commits"}
            committed = [commit["topic"] for commit in rows[at]["commits"] or ()]
            assert whole.committed_topics(found) == list(dict.fromkeys(committed))


def test_the_oldest_patterns_are_forgotten_first_and_their_sizes_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(*question(seed, f"g{seed}-{n}", f"p{n}")) for seed in range(12) for n in range(2)]
    every = Plans(["range"])
    for one in rows:
        list(every.rows(batch([one])))
    keys = list(every._patterns)
    sizes = [1 + len(key[-1]) // 4 for key in keys]
    assert (every._partitions, len(keys) > 4) == (sum(sizes), True)
    monkeypatch.setattr(whatif, "KEPT_PARTITIONS", sum(sizes[-3:]))
    some = Plans(["range"])
    for one in rows:
        list(some.rows(batch([one])))
    assert list(some._patterns) == keys[-3:]
    assert some._partitions == sum(sizes[-3:])


def test_a_group_that_cannot_be_planned_says_so_in_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = dict.fromkeys(("type", "state", "protocol", "generation", "readable", "members", "topics", "commits"))
    rows = [row(*question(seed, f"g{seed}")) for seed in range(6)]
    rows.append({**rows[0], "group": "gone", **gone})
    present = {one["group"]: one["type"] is not None for one in rows}
    assert set(present.values()) == {True, False}

    def broken(*_: Any) -> Any:
        raise ValueError("no such thing")

    monkeypatch.setattr(whatif, "fold", broken)
    answers = [answer for some in whatif.whatif(pa.Table.from_batches([batch(rows)]), ["range"])
               for answer in some.to_pylist()]  # fmt: skip
    empty = dict.fromkeys(schemas.arrow_schema(schemas.WHATIF).names)
    assert sorted(answers, key=lambda one: str(one["group"])) == [
        {**empty, "group": name, "assignor": "", "scenario": AS_IS if stands else REPLAY, "generations": 0,
         "error": "ValueError: no such thing"}
        for name, stands in sorted(present.items())
    ]  # fmt: skip


def test_fields_of_structs_are_null_where_the_struct_is() -> None:
    structs = pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}])
    found = {name: column.to_pylist() for name, column in fields_of(structs.slice(1)).items()}
    assert found == {"a": [None, None], "b": [None, "y"]}
    numbers, known = Structs(pa.array([{"a": 1}, {"a": None}, {"a": -5}])).numbers("a")
    assert (numbers.tolist(), known.tolist()) == ([1, -1, -5], [True, False, True])
