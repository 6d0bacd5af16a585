"""Which strategy a group ends up with, and which member is in the way if there is none.

Kafka's broker takes a strategy that every member supports; each member votes for the first of those in its own list,
and the most votes win. A member that shares none with the group is refused, and all it hears is
``INCONSISTENT_GROUP_PROTOCOL``; here that becomes a sentence that names both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from apportion.errors import ApportionError


class NoCommonStrategy(ApportionError):
    """Members of one group support no strategy in common.

    >>> print(NoCommonStrategy({"a": ["range"], "b": ["sticky", "roundrobin"]}))
    no strategy is common to all members: a has range; b has sticky, roundrobin. Give all of them one in common: first \
add it everywhere, then take the old one away.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        sides = "; ".join(f"{who} has {', '.join(names) or 'none'}" for who, names in lists.items())
        super().__init__(f"no strategy is common to all members: {sides}. {ADVICE}")


UUID_LENGTH: Final = 36
ADVICE = "Give all of them one in common: first add it everywhere, then take the old one away."


def chosen(lists: Mapping[str, Sequence[str]]) -> str:
    """The strategy that the broker takes for members with these lists, each in its own order.

    Raises
        NoCommonStrategy. A tie of votes is open in Kafka; here the first member's vote wins it.

    >>> chosen({"a": ["cooperative-sticky", "range"], "b": ["range"]})
    'range'
    """
    common = set.intersection(*(set(names) for names in lists.values())) if lists else set()
    if not common:
        raise NoCommonStrategy(lists)
    votes = Counter(next(name for name in names if name in common) for names in lists.values())
    return votes.most_common(1)[0][0]


def names_itself(leader: str | None, member_id: str, instance_id: str | None) -> bool:
    """Whether an answer to JoinGroup names as leader the static member's id before it restarted.

    The broker makes a static member's id of its instance id, a dash and a UUID.

    >>> names_itself("a-6ab2d1b8-7c1f-4b0e-9d3a-0a4a5b1c2d3e", "a-0f8fad5b-d9cb-469f-a165-70867728950e", "a")
    True
    """
    if not leader or not instance_id or leader == member_id:
        return False
    return leader.startswith(instance_id + "-") and len(leader) == len(instance_id) + 1 + UUID_LENGTH


def refused(
    group: str, ours: Iterable[str], theirs: str, members: Iterable[str], protocol_type: str, state: str = ""
) -> str:
    """Why the broker refused a member, as far as it says: the protocols of each side.

    theirs
        The strategy that the group uses now; "" where it cannot be seen.
    members
        The client ids of its members.
    protocol_type
        ``consumer``, or another program's, such as ``connect``.
    state
        As the broker describes a classic group of that name: ``Dead`` where the group that refused is none, so that it
        is one of the new protocol.
    """
    mine = ", ".join(ours)
    if protocol_type and protocol_type != "consumer":
        return f"group {group!r} is no group of consumers but of type {protocol_type!r}; take another group id."
    if state == "Dead":
        return (
            f"group {group!r} is of the new protocol now (group.protocol=consumer): the broker assigns, and its "
            f"classic members have no strategy in common with this one, which has {mine}. Start it with one of "
            "theirs, end the members of the new protocol first, or take another group id."
        )
    if not theirs:
        return f"group {group!r} has no strategy in common with this member, which has {mine}. {ADVICE}"
    who = sorted(set(members))
    shown = ", ".join(who[:5]) + (f" and {len(who) - 5} more" if len(who) > 5 else "")
    return (
        f"group {group!r} has no strategy in common with this member: it has {mine}; the group uses {theirs!r} "
        f"(clients {shown}). {ADVICE}"
    )
