"""Pieces of the pipeline's steps, whole: how rows are cut, which sample counts, what is kept, and who is alike."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from random import Random

import pyarrow as pa

from apportion.pipeline import end_samples


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
