"""Lag in seconds: by the two samples around the moment when the log's end was where the commit is."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.made_rows import table
from tests.pipeline.test_many_groups import asked_of
from tests.spark import made, traps

from apportion.arrays import UNKNOWN
from apportion.cli.report import of_folder
from apportion.history.lag_time import IN_WORDS, of_readers
from apportion.pipeline import end_samples, lag_tables, newest_commits
from apportion.report.lag_text import in_a_sentence, page_data
from apportion.serve.derived_state import lag_times_of
from apportion.serve.end_times import AllEnds, Commits, EndTimes
from apportion.sources import dump as of_dump
from apportion.sources import tables as of_tables
from apportion.sources.dump import sighted
from apportion.sources.load_history import load_histories
from apportion.spark import job
from apportion.tables import schemas

pytestmark = pytest.mark.spark


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(1_763_730_000 + seconds, UTC)


def test_three_samples_and_more_tell_it_by_the_two_around_the_commit() -> None:
    """The log grew by 100 in the first 100 seconds, by 900 in the next, stood still, and grew by 1,000 in the last."""
    grown = ((0, 0), (100, 100), (200, 1000), (300, 1000), (400, 2000))
    commits = {0: 50, 1: 550, 2: 1500, 3: 2000, 4: 0, 5: 1000}
    ends = [
        {"topic": "t", "partition": p, "begin": 0, "end": end, "last_stable": end, "at": moment(at)}
        for p in commits
        for at, end in grown
    ]
    written = [
        {"group": "g", "topic": "t", "partition": p, "committed": committed, "commit_time": moment(0),
         "tombstone": False, "source_partition": 0, "source_offset": p}
        for p, committed in commits.items()
    ]  # fmt: skip
    now_ms = round(moment(400).timestamp() * 1000)
    rows = table(written, schemas.COMMITS, newest_commits.COLUMNS)
    left = asked_of(newest_commits.sorted_commits(rows), now_ms - 1)
    known = end_samples.described(table(ends, schemas.ENDS), schemas.arrow_schema(schemas.TOPICS).empty_table())
    lags = lag_tables.lag_tables({**left, "logs": known}, now_ms, 0)["lag"]
    seconds = {row["partition"]: row["seconds"] for row in lags.to_pylist()}
    assert seconds == pytest.approx({0: 349.0, 1: 250 - 100 / 900, 2: 49.9, 3: 0.0, 4: 399.0, 5: 99.9})


ROUNDS, STEP_S = 30, 20
"""Ten minutes of samples."""


def ends_then(i: int) -> list[int]:
    """Log ends of t-0 to t-3 at a round: the third stands, the last was made anew on the way."""
    return [1000 + 40 * i, 5000 + 100 * i, 9000, 40 * i if i < 10 else 10 * i]


def commits_then(i: int) -> list[int]:
    """What was committed by then: just behind; slower than written; faster; and nothing after some rounds."""
    return [1000 + 40 * i - 20, 4000 + 30 * i, 100 * i, 30 * min(i, 5)]


def moment_ms(i: int) -> int:
    """When a round was."""
    return made.START_MS + i * STEP_S * 1000


def sampled_dump(folder: Path) -> Path:
    """A group of two members, its commits and the log ends at each round, as a capture leaves them."""
    pairs = [made.generation(5)]
    for i in range(ROUNDS):
        for p, offset in enumerate(commits_then(i)):
            # The third commits now and then alone.
            if p != 2 or i % 7 == 0:
                pairs.append(made.commit(offset, partition=p, version=3, commit_time=moment_ms(i)))
    made.write_dump(folder, pairs, partitions=1, ends=False)
    kinds = [("topic", pa.string()), ("partition", pa.int32())]
    kinds += [(name, pa.int64()) for name in ("begin", "end", "last_stable", "at")]
    (folder / "samples").mkdir()
    for i in range(ROUNDS):
        rows = [
            {"topic": "t", "partition": p, "begin": 0, "end": end, "last_stable": end, "at": moment_ms(i)}
            for p, end in enumerate(ends_then(i))
        ]
        table = pa.Table.from_pylist(rows, pa.schema(kinds))
        table = table.set_column(5, "at", table.column("at").cast(pa.timestamp("ms", tz="UTC")))
        pq.write_table(table, folder / "samples" / f"ends-{moment_ms(i)}.parquet")
        pq.write_table(table, folder / "ends.parquet")
    return folder


def lived(folder: Path) -> Any:
    """The same ten minutes as a server saw them: partitions, members and the group."""
    memory = load_histories(folder)
    group = sighted(memory.group("g")).group
    table, commits = EndTimes(None, np.arange(4)), Commits.none(4)
    newest = np.full(4, UNKNOWN)
    for i in range(ROUNDS):
        at = moment_ms(i) / 1000
        table.add(at, np.array(ends_then(i)))
        for p, offset in enumerate(commits_then(i)):
            newest[p] = offset if p != 2 or i % 7 == 0 else newest[p]
        commits = commits.then(at, newest)
    ((times, whole),) = lag_times_of([(group, commits, None)], AllEnds({"t": table}), at)
    return times, of_readers(times, group.owner, group.M), whole


def test_one_history_gives_one_answer_in_the_table_on_the_command_line_and_live(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from apportion.cli import main

    dump, tables = sampled_dump(tmp_path / "dump"), tmp_path / "tables"
    job.build(dump, tables, assignors=["range"], spark=spark)
    live, members, whole = lived(dump)
    words = [IN_WORDS[state] for state in live.states()]
    assert words == ["keeping up", "growing", "shrinking", "growing"]
    assert np.isinf(live.catch_up_s[[1, 3]]).all()
    assert 0 < live.catch_up_s[2] < np.inf
    rows = sorted(pq.read_table(tables / "gold/lag").to_pylist(), key=lambda row: row["partition"])
    shown = {}
    for source in (dump, tables):
        assert main(["describe", str(source), "--group", "g", "--time", "-o", "ndjson"]) == 0
        shown[source] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert shown[dump] == shown[tables]
    for p, row in enumerate(rows):
        one = live.row(p)
        age = (one.age.seconds, one.age.at_least, one.age.at_most)
        assert (row["seconds"], row["seconds_least"], row["seconds_most"]) == pytest.approx(age)
        assert (row["lag"], row["in_words"]) == (one.lag, words[p])
        # The server sees a commit at each round, so that who commits seldom has a pace of another stretch there.
        if p != 2:
            assert (row["written"], row["read"], row["trend"]) == pytest.approx((one.written, one.read, one.trend))
        told = None if one.catch_up_s == float("inf") else one.catch_up_s
        assert row["catch_up_s"] == (told if p != 2 else pytest.approx(told, rel=0.2))
        line = shown[tables][p]
        assert (line["lag"], line["in_words"]) == (row["lag"], row["in_words"])
        for name in ("trend", "written", "read", "catch_up_s"):
            assert line[name] == (None if row[name] is None else pytest.approx(row[name], abs=0.051))
        bound = None if row["seconds"] is not None else f">= {row['seconds_least']:.0f}"
        assert line["seconds"] == (bound or pytest.approx(row["seconds"], abs=0.051))
    assert main(["describe", str(dump), "--group", "g", "--time"]) == 0
    assert in_a_sentence(whole) in capsys.readouterr().out
    for source in (dump, tables):
        asked = ["size", str(source), "--group", "g", "--by", "weight", "--capacity", "learned", "-o", "json"]
        assert main(asked) == 0
        sized = json.loads(capsys.readouterr().out)
        assert sized["total"] == pytest.approx(2 + 5 + 0 + 0.5)
        assert "of 4 partitions by what was written to their logs" in sized["advice"]
        assert "as 2 members of 2 did while they had lag" in sized["advice"]
    live_page = page_data(["a", "b"], members, whole)
    on_page, of_tables = (of_folder(str(source), ["g"])[0] for source in (dump, tables))
    for name in ("lag_in_time", "times", "catch_up_s"):
        assert on_page[name] == of_tables[name]
    assert on_page["lag_in_time"] == live_page["lag_in_time"]
    assert on_page["times"]["rows"][0][1:] == live_page["times"]["rows"][0][1:]
    assert on_page["times"]["rows"][0][4:] == ["growing", "never"]


@pytest.mark.parametrize("write", [traps.write, sampled_dump], ids=["traps", "sampled"])
def test_a_dump_and_its_tables_tell_the_same_commits_and_samples(
    spark: Any, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    """Commits of any time, and samples that were taken before the newest ones."""
    folder, built = write(tmp_path / "dump"), tmp_path / "tables"
    job.build(folder, built, assignors=["range"], spark=spark)
    for name in ("every_commit", "end_samples"):
        told = [sorted(set(getattr(reader, name)(place))) for reader, place in ((of_dump, folder), (of_tables, built))]
        assert told[0] == told[1] != [], name
