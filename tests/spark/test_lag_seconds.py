"""Lag in seconds: by the two samples around the moment when the log's end was where the commit is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apportion.spark import lag, schemas

pytestmark = pytest.mark.spark


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(1_763_730_000 + seconds, UTC)


def test_three_samples_and_more_tell_it_by_the_two_around_the_commit(spark: Any) -> None:
    """The log grew by 100 in the first 100 seconds, by 900 in the next, stood still, and grew by 1,000 in the last."""
    grown = ((0, 0), (100, 100), (200, 1000), (300, 1000), (400, 2000))
    commits = {0: 50, 1: 550, 2: 1500, 3: 2000, 4: 0, 5: 1000}
    ends = [("t", p, 0, end, end, moment(at)) for p in commits for at, end in grown]
    ends_now = lag.ends_now(
        spark.createDataFrame(ends, schemas.ENDS.schema), spark.createDataFrame([], schemas.TOPICS.schema)
    )
    newest = spark.createDataFrame(
        [("g", "t", p, committed, None, "", moment(0), None, 0, p) for p, committed in commits.items()],
        schemas.NEWEST.schema,
    )
    wanted = spark.createDataFrame([("g", ["t"])], "group string, wants array<string>")
    seconds = {row["partition"]: row["seconds"] for row in lag.lag(newest, wanted, ends_now).collect()}
    assert seconds == pytest.approx({0: 350.0, 1: 250.0, 2: 50.0, 3: 0.0, 4: 400.0, 5: 100.0})
