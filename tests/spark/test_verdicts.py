"""Verdicts in the tables are the plain rules', on random windows and samples."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.history.verdict_of_one import verdict, with_lags

from apportion.history.verdicts import WINDOW

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
T0 = 1_763_000_000_000


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def plain(
    commits: list[tuple[int, int | None]], samples: list[tuple[int, int]], lag: int, seconds: float | None
) -> str:
    """The rules on one partition: commits (ms, offset; None a deletion) and log ends (ms, offset)."""
    while any(offset is None for _, offset in commits):
        commits = commits[[offset for _, offset in commits].index(None) + 1 :]
    window = with_lags([(at, offset) for at, offset in commits[-WINDOW:] if offset is not None], samples)
    since = None if seconds is None else T0 + 100_000 - int(seconds * 1000)
    return verdict(window, lag, T0 + 100_000, 3, since)


def test_random_partitions_get_the_same_word(spark: Any) -> None:
    from apportion.spark import schemas
    from apportion.spark.verdicts import verdicts

    r = random.Random(7)
    commits, lags, ends, expected = [], [], [], {}
    for p in range(600):
        n, offset, at, said = r.randrange(1, 16), 100, T0 + r.choice((0, 60_000)), []
        for k in range(n):
            at += r.choice((500, 2_000, 5_000))
            offset += r.choice((0, 0, 1, 5, -3)) if p % 3 else r.choice((0, 1))
            said.append((at, None if r.random() < 0.05 and k < n - 1 else offset))
        times = sorted(r.sample(range(T0, T0 + 100_000, 250), r.choice((0, 2, 5, 9))))
        ended = sorted(r.randrange(*r.choice(((95, 140), (130, 900)))) for _ in times)
        samples = list(zip(times, ended, strict=True))
        lag, seconds = r.choice((0, 3, 4, 50)), r.choice((None, 0.0, 3.25, 20.0))
        expected[p] = plain(said, samples, lag, seconds)
        commits += [(p, when, value, k) for k, (when, value) in enumerate(said)]
        lags.append((p, lag, seconds))
        ends.append(("t", p, [{"at_ms": at_ms, "end": end} for at_ms, end in samples]))

    def row(p: int, when: int, value: int | None, k: int) -> tuple[Any, ...]:
        at = None if value is None else moment(when)
        return ("g", "t", p, value, None, None, at, None, None, value is None, 3, 0, k, moment(when), 1)

    silver = [row(*commit) for commit in commits]
    columns = (
        "group string, topic string, partition int, lag bigint, committed bigint, sampled_at timestamp, seconds double"
    )
    gold = [("g", "t", p, lag, 1, moment(T0 + 100_000), seconds) for p, lag, seconds in lags]
    rows = verdicts(
        spark.createDataFrame(silver, schemas.COMMITS.schema),
        spark.createDataFrame(gold, columns),
        spark.createDataFrame(ends, "topic string, partition int, samples array<struct<at_ms: bigint, end: bigint>>"),
        allowed_lag=3,
    ).collect()
    assert {row["partition"]: row["verdict"] for row in rows} == expected
    assert set(expected.values()) == {"OK", "WARN", "STALL", "STOP", "REWIND"}
