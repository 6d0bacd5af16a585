"""The columns' walk reads in steps what is worth a step, and a name's number is a polynomial of its words."""

from __future__ import annotations

import random
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from apportion.errors import UnreadableBytes
from apportion.wire import columns
from apportion.wire.columns import Buffer, number_names, read_held_lists
from apportion.wire.partitions import read_held
from apportion.wire.primitives import MAX_TOPIC, Reader


def a_list(r: random.Random, parts: int) -> bytes:
    """One list as bytes, of so many parts."""
    out = BytesIO()
    out.write(parts.to_bytes(4, "big"))
    for _ in range(parts):
        topic, ids = r.choice((b"", b"t", b"clicks", b"x" * 300)), r.choice((0, 1, 1, 2, 5))
        out.write(len(topic).to_bytes(2, "big") + topic + ids.to_bytes(4, "big") + r.randbytes(4 * ids))
    return out.getvalue()


def read_all(lists: list[bytes]) -> tuple[list[Any], int]:
    """What stands in each list, None where it is refused; and how many parts were read one by one."""
    alone = 0

    def one(walk: Any, at: int, slot: int, last: int, bound: int) -> int:
        nonlocal alone
        alone += last - slot
        return int(plain(walk, at, slot, last, bound))

    plain = columns._Walk._one
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns._Walk, "_one", one)
        buffer = Buffer(lists)
        size = np.array([len(raw) for raw in lists])
        end = size.cumsum()
        read = read_held_lists(buffer, end - size, end)
    ids, first = read.numbers(buffer).tolist(), read.first.tolist()
    upto = [0, *read.ids.cumsum().tolist()]
    back: list[Any] = []
    for n in range(len(lists)):
        parts = range(first[n], first[n + 1])
        names = [buffer.raw[int(read.name_at[e]) :][: int(read.name_size[e])].decode() for e in parts]
        held = tuple((name, tuple(ids[upto[e] : upto[e + 1]])) for name, e in zip(names, parts, strict=True))
        back.append(None if read.stop[n] < 0 else (held, int(read.stop[n] - (end - size)[n])))
    return back, alone


def read_alone(raw: bytes) -> Any:
    """What the reference makes of one list: its parts and where it ends; None where it refuses it."""
    reader = Reader(raw)
    try:
        return read_held(reader), reader.at
    except UnreadableBytes:
        return None


@pytest.mark.parametrize("few", [0, 1, 3, 48])
def test_steps_are_taken_while_more_lists_go_on_than_are_few(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts that stand beside more than a few others are read in steps, the rest one by one."""
    monkeypatch.setattr(columns, "_FEW", few)
    for seed in range(40):
        r = random.Random(seed)
        most = r.choice((1, 4, 30))
        counts = [r.randrange(most + 1) for _ in range(r.choice((1, 2, few + 1, few + 2, 3 * few + 5)))]
        lists = [a_list(r, count) for count in counts]
        back, alone = read_all(lists)
        assert back == [read_alone(raw) for raw in lists]
        steps = sum(sum(count > step for count in counts) > few for step in range(most))
        assert alone == sum(max(count - steps, 0) for count in counts)


@pytest.mark.parametrize("few", [0, 3, 48])
def test_one_list_that_does_not_fit_has_all_read_one_by_one(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its end, in a name's length, or in a number of ids; the others say what they say alone."""
    monkeypatch.setattr(columns, "_FEW", few)
    for seed in range(40):
        r = random.Random(seed)
        lists = [a_list(r, r.randrange(1, 6)) for _ in range(2 * few + 4)]
        bad = r.randrange(len(lists))
        begin = 4 + 2 + int.from_bytes(lists[bad][4:6], "big")
        hurt = (
            lists[bad][:4] + b"\x80\x00" + lists[bad][6:],
            lists[bad][:begin] + b"\xff\xff\xff\xff" + lists[bad][begin + 4 :],
            lists[bad][:begin] + b"\x7f\xff\xff\xff" + lists[bad][begin + 4 :],
            lists[bad][:begin] + b"\x00\x00\x04\x00" + lists[bad][begin + 4 :],
        )
        lists[bad] = hurt[seed % 4]
        back, alone = read_all(lists)
        assert back == [read_alone(raw) for raw in lists]
        assert back[bad] is None
        assert alone >= sum(int.from_bytes(raw[:4], "big") for n, raw in enumerate(lists) if n != bad)


def test_names_have_the_numbers_of_those_that_are_known_and_no_others() -> None:
    """Some known, some longer than any known, some that differ in one byte; also where keys of different names meet."""
    for seed in range(30):
        r = random.Random(seed)
        known = {r.choice((b"", b"topic-", b"a long name of a topic ")) + r.randbytes(r.randrange(12)).hex().encode(): n
                 for n in range(r.choice((0, 1, 5, 40)))}  # fmt: skip
        if seed % 3 == 0:
            known[b"y" * (MAX_TOPIC + 1)] = 77
        names = [r.choice([*known, b"", b"z" * 9]) for _ in range(60)]
        names += [name[:-1] + b"~" for name in names[:10] if name] + [name + b"\0" for name in names[:10]]
        size = np.array([len(name) for name in names])
        expected = [known.get(name, -1) for name in names]
        for alike in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                if alike:
                    patch.setattr(columns, "_keys", lambda words, size: np.zeros(len(size), dtype=np.uint64))
                numbers = number_names(Buffer(names), size.cumsum() - size, size, known).tolist()
            assert numbers == expected
