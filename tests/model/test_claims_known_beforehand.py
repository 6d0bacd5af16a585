"""What is known of claims before they are judged spares looks at them, and changes neither them nor the verdict."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from apportion.arrays import Ints, ints
from apportion.model.build import _existing, build
from apportion.model.claims import judge
from apportion.model.group import Claims

SIZES = {"a": 5, "b": 0, "c": 12, "d": 1, "\u0437": 7}


def lists_of_claims(draw: random.Random) -> tuple[Ints, Ints, Ints, Ints, list[str]]:
    """Whose each list is, its topic, its size, all ids, and the topics; some lists are empty, some ids are nowhere."""
    topics = [*SIZES, "gone"] if draw.random() < 0.3 else list(SIZES)
    free = [(t, n) for t, size in enumerate(SIZES.values()) for n in range(size)]
    draw.shuffle(free)
    member, topic, ids = [], [], list[list[int]]()
    for m in range(draw.randrange(1, 6)):
        mine = sorted(free.pop() for _ in range(min(len(free), draw.randrange(6))))
        for t in sorted({t for t, _ in mine}):
            member.append(m)
            topic.append(t)
            ids.append([n for u, n in mine if u == t])
    for _ in range(draw.choice((0, 0, 0, 1, 3))):
        member.append(draw.randrange(6))
        topic.append(draw.randrange(len(topics)))
        ids.append([draw.randrange(-2, 14) for _ in range(draw.randrange(3))])
    return ints(member), ints(topic), ints(list(map(len, ids))), ints([n for one in ids for n in one]), topics


def pairs(claims: Claims) -> tuple[list[int], list[int], list[tuple[int, str, int]]]:
    return claims.member.tolist(), claims.partition.tolist(), list(claims.nonexistent)


def test_ids_that_are_known_to_be_dense_are_found_at_the_same_places() -> None:
    draw, start = random.Random(5), np.cumsum([0, *SIZES.values()])
    number = np.concatenate([np.arange(size) for size in SIZES.values()])
    known = {"single": 0, "lists": 0, "neither": 0}
    for _ in range(3000):
        member, topic, size, ids, topics = lists_of_claims(draw)
        quick = _existing(member, topic, size, ids, topics, start, number, dense=True)
        slow = _existing(member, topic, size, ids, topics, start, number, dense=False)
        assert pairs(quick) == pairs(slow)
        assert not quick.single or len(set(quick.partition.tolist())) == len(quick.partition)
        if quick.lists is not None:
            whose, of_topic = quick.lists
            assert whose.repeat(size).tolist() == quick.member.tolist()
            places = np.searchsorted(start, quick.partition, "right") - 1
            assert of_topic.repeat(size).tolist() == places.tolist()
        known["single"] += quick.single
        known["lists"] += quick.lists is not None
        known["neither"] += not quick.single and quick.lists is None
    assert min(known.values()) > 100


@pytest.mark.parametrize("seed", range(3))
def test_the_verdict_is_that_of_claims_of_which_nothing_is_known(seed: int) -> None:
    draw, undisputed = random.Random(seed), 0
    for _ in range(200):
        sizes = {f"t{n}": draw.randrange(1, 6) for n in range(draw.randrange(1, 4))}
        free = [(t, n) for t, size in sizes.items() for n in range(size)]
        draw.shuffle(free)
        members: dict[str, Any] = {}
        for m in range(draw.randrange(1, 5)):
            owned: dict[str, list[int]] = {}
            for _ in range(draw.randrange(4)):
                topic, n = free.pop() if free and draw.random() < 0.97 else ("t0", 0)
                owned.setdefault(topic, []).append(n)
            topics = draw.sample(list(sizes), draw.randrange(1, len(sizes) + 1)) if draw.random() < 0.2 else list(sizes)
            members[f"m{m}"] = {"topics": topics, "owned": owned, "generation": draw.choice((3, 3, 3, 2))}
        group = build({"topics": sizes, "members": members})
        claims = group.claims
        plain = judge(claims.member, claims.partition, group.generation, group.P, group.may_own)
        assert group.verdict.owner.tolist() == plain.owner.tolist()
        assert group.verdict.code.tolist() == plain.code.tolist()
        assert group.verdict.newest.tolist() == plain.newest.tolist()
        assert group.verdict.undisputed == plain.undisputed == (not plain.code.any())
        undisputed += plain.undisputed and len(claims.member) > 0
    assert 50 < undisputed < 190
