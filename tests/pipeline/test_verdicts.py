"""Verdicts in the tables are the plain rules', on random windows and samples."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from tests.history.verdict_of_one import lags_at, verdict, with_lags
from tests.pipeline.made_rows import table
from tests.pipeline.test_many_groups import asked_of

from apportion.history.verdicts import WINDOW
from apportion.pipeline import end_samples, lag_tables, newest_commits
from apportion.tables import schemas as kinds

T0 = 1_763_000_000_000


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def plain(
    commits: list[tuple[int, int | None]], samples: list[tuple[int, int]], lag: int, seconds: float | None
) -> str:
    """The rules on one partition: commits (ms, offset; None a deletion) and log ends (ms, offset)."""
    furthest: dict[int, int] = {}
    for at, offset in commits:
        if offset is not None:
            furthest[at] = max(offset, furthest.get(at, offset))
    sampled = lags_at(samples, sorted(furthest.items()), 0)
    while any(offset is None for _, offset in commits):
        commits = commits[[offset for _, offset in commits].index(None) + 1 :]
    window = with_lags([(at, offset) for at, offset in commits[-WINDOW:] if offset is not None], samples)
    since = None if seconds is None else T0 + 100_000 - int(seconds * 1000)
    return verdict(window, lag, T0 + 100_000, sampled, 3, since)


def test_random_partitions_get_the_same_word() -> None:
    """Of a group's places, from their commits and log ends, with the lag that ``gold/lag`` tells of each."""
    r = random.Random(7)
    commits, ends = [], []
    series: dict[int, tuple[list[tuple[int, int | None]], list[tuple[int, int]]]] = {}
    for p in range(600):
        n, offset, at, written = r.randrange(1, 16), 100, T0 + r.choice((0, 60_000)), []
        for k in range(n):
            at += r.choice((500, 2_000, 5_000, 20_000))
            offset += (r.choice((0, 0, 1, 5, -3)), r.choice((0, 1)), 0)[p % 3]
            written.append((at, None if r.random() < 0.05 and k < n - 1 else offset))
        times = sorted(r.sample(range(T0, T0 + 100_000, 250), r.choice((0, 2, 5, 9))))
        ended = sorted(r.randrange(*r.choice(((95, 140), (130, 900)))) for _ in times)
        samples = [*zip(times, ended, strict=True), (T0 + 100_000, offset + r.choice((0, 3, 4, 50)))]
        series[p] = (written, samples)
        commits += [(p, when, value, k) for k, (when, value) in enumerate(written)]
        ends += [{"topic": "t", "partition": p, "begin": 0, "end": end, "last_stable": end, "at": moment(at_ms)}
                 for at_ms, end in samples]  # fmt: skip

    rows = table([commit_row(*one) for one in commits], kinds.COMMITS, newest_commits.COLUMNS)
    left = asked_of(newest_commits.sorted_commits(rows), T0)
    topics = kinds.arrow_schema(kinds.TOPICS).empty_table()
    known = end_samples.described(table(ends, kinds.ENDS), topics)
    answers = lag_tables.lag_tables({**left, "logs": known}, T0 + 100_000, 3)
    lags = {
        one["partition"]: (one["lag"], None if one["seconds"] is None else one["seconds_least"])
        for one in answers["lag"].to_pylist()
    }
    verdicts = {one["partition"]: one["verdict"] for one in answers["verdicts"].to_pylist()}
    expected = {p: plain(*one, *lags[p]) for p, one in series.items()}
    assert verdicts == expected
    assert set(expected.values()) == {"OK", "WARN", "STALL", "STOP", "REWIND"}
    assert {lag for lag, _ in lags.values()} == {0, 3, 4, 50}
    assert None in {seconds for _, seconds in lags.values()}


def commit_row(p: int, when: int, value: int | None, k: int) -> dict[str, Any]:
    at = None if value is None else moment(when)
    return {
        "group": "g", "topic": "t", "partition": p, "committed": value, "commit_time": at, "tombstone": value is None,
        "source_partition": 3, "source_offset": k,
    }  # fmt: skip
