"""A strategy's wishes for a governed group in the terms of a plan, and the changes that they make."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import numpy as np

from apportion.acting.rule import Outlook
from apportion.arrays import NOBODY, Ints, ints
from apportion.governing.rules_file import GroupRule
from apportion.model.group import Group
from apportion.planning import checked
from apportion.strategy.traits import traits_of
from apportion.wire import plan_text
from apportion.wire.plan_text import PROMISES, TOPICS_WHOLE, GovernedPlan, MemberKey

GONE: Final = -2
"""In the place of a member: one that the plan names, and that the group has not."""


def governed_plan(group: Group, rule: GroupRule, number: int) -> GovernedPlan:
    """The strategy's wishes for a group, in the plan's terms; topics with an unknown id are left out."""
    owner = checked(group, rule.assignor).owner
    members, rank = member_keys(group), _ranks(group)
    promise = PROMISES.get(traits_of(rule.assignor).kept_whole, 0)
    # The highest priority first; members without one, the lowest number, come last, as in ``failover``.
    turns = sorted(range(group.M), key=lambda m: (-int(group.priority[m]), int(rank[m])))
    ranked = tuple(int(rank[m]) for m in turns) if promise & TOPICS_WHOLE else ()
    return GovernedPlan(number, promise, members, ranked, _places(group, owner))


def member_keys(group: Group) -> tuple[MemberKey, ...]:
    """The members as a plan names them, in the order of their ids."""
    return tuple(MemberKey(*pair) for pair in sorted(zip(group.members, group.instance_ids, strict=True)))


def _ranks(group: Group) -> Ints:
    """(M,) each member's place in a plan."""
    rank = np.empty(group.M, dtype=np.int64)
    rank[sorted(range(group.M), key=group.members.__getitem__)] = np.arange(group.M)
    return rank


def _places(group: Group, owner: Ints) -> dict[bytes, tuple[int, ...]]:
    """A plan's owners: topic id to the place of each partition's member, -1 nobody or no such partition."""
    place = np.append(_ranks(group), NOBODY)[owner]
    owners = {}
    for t, topic in enumerate(group.topics):
        mine = group.partitions(t)
        if topic in group.topic_ids and len(number := group.number[mine]):
            row = np.full(int(number.max()) + 1, NOBODY)
            row[number] = place[mine]
            owners[plan_text.topic_id(group.topic_ids[topic])] = tuple(row.tolist())
    return owners


def planned_owner(plan: GovernedPlan, group: Group) -> Ints:
    """(P,) the member that the plan wants, -1 nobody; ``GONE`` if it left the group."""
    at = {member: m for m, member in enumerate(group.members)}
    member = ints([*(at.get(key.member_id, GONE) for key in plan.members), NOBODY])
    owner = np.full(group.P, NOBODY)
    for t, topic in enumerate(group.topics):
        mine = group.partitions(t)
        row = plan.owners.get(plan_text.topic_id(group.topic_ids[topic]), ()) if topic in group.topic_ids else ()
        known = group.number[mine] < len(row)
        owner[mine][known] = member[ints(row)[group.number[mine][known]]]
    return owner


def _held(group: Group) -> Ints:
    """(P,) the member that says it holds each partition; -1 none."""
    held = np.full(group.P, NOBODY)
    held[group.claims.partition] = group.claims.member
    return held


def outlook(plan: GovernedPlan, group: Group) -> Outlook:
    """The plan's effect on the heaviest member, in messages left to read for each of its capacity."""
    owner = planned_owner(plan, group)

    def loads(owners: Ints) -> Any:
        held = owners >= 0
        return np.bincount(owners[held], group.lag[held], group.M) / group.capacity

    before, after = loads(group.owner), loads(owner)
    moves = int(((owner != group.owner) & (group.owner != NOBODY)).sum())
    least = float(group.lag.sum() / group.capacity.sum())
    heaviest = group.members[int(before.argmax())]
    return Outlook(float(before.max()), float(after.max()), least, heaviest, moves, in_seconds=False)


def differences(plan: GovernedPlan, group: Group) -> int:
    """Partitions that the plan wants elsewhere than they are."""
    planned = planned_owner(plan, group)
    return int(((planned != NOBODY) & (planned != _held(group))).sum())


def adopted(plan: GovernedPlan, group: Group) -> GovernedPlan:
    """The plan with the owners that are there now, if each of its partitions has one and they share as evenly."""
    owners = _places(group, _held(group))
    pairs = [pair for topic_id, wanted in plan.owners.items() for pair in zip(owners[topic_id], wanted, strict=True)]
    if any(now == NOBODY != then for now, then in pairs):
        return plan
    present, planned = (sorted(Counter(places).values()) for places in zip(*pairs, strict=True))
    return replace(plan, owners=owners) if present == planned else plan
