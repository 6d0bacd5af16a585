"""What each reader makes of bytes that were changed at random, against what was written down: a value or a sentence."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.written_down import as_written
from tests.wire import samples, share_streams_samples

from apportion.errors import ApportionError
from apportion.wire.assignment import read_assignment
from apportion.wire.columns import Buffer, read_held_lists
from apportion.wire.coordinator import decode
from apportion.wire.primitives import text
from apportion.wire.subscription import read_subscription
from apportion.wire.task_data import TaskAssignment, TaskMemory, read_memory, read_orders, write_memory, write_orders

WRITTEN = Path(__file__).parent / "hostile_bytes.json"


def pairs(r: random.Random) -> tuple[tuple[int, int], ...]:
    return tuple((r.randrange(4), r.randrange(5)) for _ in range(r.randrange(5)))


def memory(r: random.Random) -> bytes:
    lag = {pair: r.choice((0, 7, 2**63 - 1)) for pair in pairs(r)}
    tags = dict.fromkeys(r.sample(["zone", "é"], r.randrange(3)), "x")
    return write_memory(TaskMemory(r.choice(("", "p")), r.randrange(3), pairs(r), pairs(r), lag, tags, topology="d"))


def orders(r: random.Random) -> bytes:
    active, standby, warmup, coming = (pairs(r) for _ in range(4))
    return write_orders(TaskAssignment(active, standby, warmup, coming, r.choice((None, 0, 600)), r.random() < 0.5))


READERS: dict[str, tuple[Any, Any]] = {
    "subscription": (samples.subscription, read_subscription),
    "assignment": (samples.assignment, read_assignment),
    "memory": (memory, read_memory),
    "orders": (orders, read_orders),
    "record": (samples.record, lambda pair: decode(*pair)),
    "generation": (samples.generation, lambda pair: decode(*pair)),
    **{
        f"type {n}": (lambda r, n=n: share_streams_samples.record(r, n), lambda pair: decode(*pair))
        for n in share_streams_samples.TYPES
    },
}


def in_short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:40]} {hashlib.sha256(text.encode()).hexdigest()[:12]}"


@pytest.mark.parametrize("name", READERS)
def test_changed_bytes_are_read_or_refused_as_was_written_down(name: str) -> None:
    sample, read = READERS[name]
    said = []
    for seed in range(40):
        r = random.Random(seed)
        raw = sample(r)
        hurt = samples.mutated(r, raw if isinstance(raw, bytes) else raw[1] or b"xx")
        changed = [raw, hurt if isinstance(raw, bytes) else (raw[0], hurt)]
        for one in changed:
            try:
                said.append(in_short(read(one)))
            except ApportionError as error:
                said.append(f"! {error}")
    as_written(WRITTEN, name, said)


@pytest.mark.parametrize("count", [1, 5, 90])
def test_lists_side_by_side_are_read_as_was_written_down(count: int) -> None:
    """With refused ones among them, of which nothing that was read stays."""
    said: list[Any] = []
    for seed in range(12):
        r = random.Random(seed)
        lists = []
        for _ in range(count):
            topics = [r.choice((b"t", b"uu", b"clicks")) for _ in range(r.randrange(4))]
            raw = len(topics).to_bytes(4, "big")
            for topic in topics:
                ids = [r.randrange(9) for _ in range(r.randrange(4))]
                raw += len(topic).to_bytes(2, "big") + topic + len(ids).to_bytes(4, "big")
                raw += b"".join(number.to_bytes(4, "big") for number in ids)
            lists.append(samples.mutated(r, raw).ljust(4, b"\0") if seed and r.random() < 0.2 else raw)
        buffer = Buffer(lists)
        size = np.array([len(raw) for raw in lists])
        end = size.cumsum()
        read = read_held_lists(buffer, end - size, end)
        stop = np.where(read.stop < 0, -1, read.stop - (end - size))
        names_at = read.name_at - (end - size)[read.list_of]
        columns = (stop, read.count, read.name_size, read.ids, names_at, read.numbers(buffer))
        said.append([column.tolist() for column in columns])
    as_written(WRITTEN, f"lists {count}", said)


def test_bytes_that_are_no_text_are_replaced_as_java_replaces_them() -> None:
    """Every pair and triple of bytes at the borders of UTF-8's classes."""
    borders = (
        0x00,
        0x7F,
        0x80,
        0x8F,
        0x90,
        0x9F,
        0xA0,
        0xBF,
        0xC0,
        0xC2,
        0xDF,
        0xE0,
        0xED,
        0xEF,
        0xF0,
        0xF4,
        0xF5,
        0xFF,
    )
    said = []
    for first in borders:
        told = [
            text(bytes([first, *more])) for more in [(a,) for a in borders] + [(a, b) for a in borders for b in borders]
        ]
        said.append(hashlib.sha256("|".join(told).encode()).hexdigest()[:16])
    as_written(WRITTEN, "texts", said)
