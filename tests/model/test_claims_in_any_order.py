"""Members say what they held in any order, and two may claim one partition: each partition is still named once."""

from __future__ import annotations

import random

import numpy as np
import pytest

from apportion.model.build import build
from apportion.model.to_names import owners_to_names


def some_group(draw: random.Random) -> dict[str, object]:
    """Topics, and members who claim some of their partitions, topics and ids in any order, some claimed twice."""
    sizes = {f"t{i}": draw.randint(1, 8) for i in range(draw.randint(1, 3))}
    members: dict[str, object] = {}
    for m in range(draw.randint(1, 6)):
        owned = {t: draw.sample(range(size), draw.randint(1, size)) for t, size in sizes.items() if draw.random() < 0.6}
        shuffled = dict(draw.sample(list(owned.items()), len(owned)))
        members[f"m{m}"] = {"topics": list(sizes), "owned": shuffled, "generation": 3}
    return {"group": "g", "topics": sizes, "members": members}


@pytest.mark.parametrize("seed", range(4))
def test_shared_lists_say_just_what_the_owners_are(seed: int):
    """Seen in a group of Java members, whose ids are not in order, beside one with an old claim."""
    draw = random.Random(seed)
    for _ in range(40):
        group = build(some_group(draw))
        owner = np.array([draw.randrange(-1, group.M) if draw.random() < 0.4 else o for o in group.owner])
        named = {
            (member, topic, p)
            for member, share in owners_to_names(group, owner).items()
            for topic, ids in share.items()
            for p in ids
        }
        places = zip(owner, group.topic_of, group.number, strict=True)
        assert named == {(group.members[m], group.topics[t], int(p)) for m, t, p in places if m >= 0}
