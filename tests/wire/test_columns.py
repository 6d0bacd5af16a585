"""Texts and names by the column: texts side by side, ids of sixteen bytes, and numbers of names, at every edge."""

from __future__ import annotations

import tracemalloc

import numpy as np

from apportion.wire.columns import Buffer, number_names
from apportion.wire.primitives import MAX_STRING


def test_a_name_that_no_topic_can_have_costs_no_memory_for_each_name_that_is_read() -> None:
    """One member may want a topic of 32,767 letters."""
    short, long = [f"t{n}".encode() for n in range(20)], b"x" * MAX_STRING
    names = [*short * 100, long, b"t20"]
    size = np.array([len(name) for name in names])
    at = size.cumsum() - size
    buffer, known = Buffer(names), {name: number for number, name in enumerate([*short, long])}
    tracemalloc.start()
    numbers = number_names(buffer, at, size, known)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert numbers.tolist() == [*list(range(20)) * 100, 20, -1]
    assert peak < 4 << 20
