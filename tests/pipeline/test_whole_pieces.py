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

from apportion.history.scenarios import AS_IS, REPLAY
from apportion.pipeline import end_samples, whatif
from apportion.tables import documents, schemas
from bench.whatif_rows import batch, row


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
