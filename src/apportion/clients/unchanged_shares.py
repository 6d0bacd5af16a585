"""Members that get just what they claim are sent their own words back.

A list of topics and ids has the same layout in a subscription, in sticky's user data and in an assignment. When one
member joins or leaves, nearly all others keep what they have, and most of the time of writing goes into lists that
stand in the leader's buffer already.

When it applies: every claim is on a partition that exists, none stands twice, and no list names a topic without ids.
Then a member's bytes are just those that ``write_assignments`` would write where its claims are ascending, each topic
stands once, and the plan gives it these and no others; a topic's name has one spelling as long as nothing in it was
malformed. A test holds both ways to the same bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.clients.joined_group import JoinedGroup, Memories
from apportion.model.group import Group
from apportion.model.measures import loads
from apportion.model.to_names import by_owner
from apportion.wire.assignments import write_again, write_assignments
from apportion.wire.columns import HeldLists

CLAIMS_MIN: Final = 4_096
"""Claims below which the look takes as long as writing."""
WORTHWHILE: Final = 0.25
"""The share of members whose number of partitions stays, from which on a look at what they are pays off."""
_MALFORMED: Final = "\ufffd"


def write_answers(
    group: Group, owner: Ints, joined: JoinedGroup, memories: Memories, joined_at: Ints, user_data: bytes | None
) -> list[bytes]:
    """Every member's assignment of an owner array (P,); ``joined_at`` (M,) is each member's place in ``joined``."""
    same = _unchanged(group, owner, memories, joined_at)
    if same is None or not same.any():
        order, held = by_owner(owner, group.M)
        return write_assignments(group.topics, group.topic_of[order], group.number[order], held, user_data)
    differs = ~same
    given = (differs[owner] & (owner != NOBODY)).nonzero()[0]
    order, held = by_owner(owner[given], group.M)
    order = given[order]
    written = write_assignments(group.topics, group.topic_of[order], group.number[order], held[differs], user_data)
    fresh = iter(written)
    assert isinstance(memories.owned, HeldLists)  # noqa: S101 - else nobody is unchanged
    again = iter(write_again(joined.subscriptions.buffer, memories.owned, joined_at[same], user_data))
    return [next(again) if one else next(fresh) for one in same.tolist()]


def _unchanged(group: Group, owner: Ints, memories: Memories, joined_at: Ints) -> Bools | None:
    """(M,) who gets what it claims, in the order in which it claims it; None where hardly anybody can."""
    owned, claims = memories.owned, group.claims
    if not isinstance(owned, HeldLists) or len(claims.member) < CLAIMS_MIN:
        return None
    member, partition = claims.member, claims.partition
    if group.verdict.undisputed:
        # Then all that is claimed stays, but for what changes.
        changed = (owner != group.owner).nonzero()[0]
        same: Bools = owned.count[joined_at] > 0
        for others in (group.owner[changed], owner[changed]):
            same[others[others != NOBODY]] = False
    else:
        own = np.bincount(member, minlength=group.M)
        same = (own == loads(owner, group.M)) & (own > 0)
        same[member[owner[partition] != member]] = False
    if np.count_nonzero(same) < WORTHWHILE * group.M:
        return None
    # Claims that are all there come list by list, in the order of their bytes; lists without ids were left out before.
    if claims.lists is None or len(claims.lists[0]) < len(owned.ids) or _MALFORMED in "".join(group.topics):
        return None
    falls = (partition[1:] <= partition[:-1]).nonzero()[0]
    same[member[falls[member[falls + 1] == member[falls]]]] = False
    holder, topic = claims.lists
    again = (topic[1:] == topic[:-1]).nonzero()[0]  # a topic in two parts, or of two members
    same[holder[again[holder[again + 1] == holder[again]]]] = False
    return same
