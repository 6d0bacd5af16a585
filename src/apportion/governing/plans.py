"""A strategy's wishes for a governed group in the terms of a plan, and the changes that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from apportion.acting.rule import Outlook
from apportion.arrays import NOBODY, Ints
from apportion.governing.rules_file import GroupRule
from apportion.model.group import Group
from apportion.planning import checked
from apportion.sighting.governed import holders
from apportion.strategy.traits import traits_of
from apportion.wire import plan_text
from apportion.wire.plan_text import PROMISES, TOPICS_WHOLE, GovernedPlan, MemberKey


def governed_plan(group: Group, raw: Mapping[str, Any], rule: GroupRule, number: int) -> GovernedPlan:
    """The strategy's wishes for a group, in the plan's terms; topics with an unknown id are left out."""
    owner = checked(group, rule.assignor).owner
    fields = raw["members"]
    rank_of = {member: at for at, member in enumerate(sorted(group.members))}
    members = tuple(MemberKey(m, fields[m].get("instance_id")) for m in sorted(group.members))
    promise = PROMISES.get(traits_of(rule.assignor).kept_whole, 0)
    ranked = (
        sorted(fields, key=lambda m: (_turn(fields[m].get("priority")), rank_of[m])) if promise & TOPICS_WHOLE else []
    )
    sizes: dict[str, dict[int, int]] = {}
    for p, member in enumerate(owner.tolist()):
        topic, partition = group.name_of(p)
        sizes.setdefault(topic, {})[partition] = NOBODY if member == NOBODY else rank_of[group.members[member]]
    ids = raw.get("topic_ids", {})
    owners = {
        plan_text.topic_id(ids[topic]): tuple(by_number.get(n, NOBODY) for n in range(max(by_number) + 1))
        for topic, by_number in sizes.items()
        if topic in ids
    }
    return GovernedPlan(number, promise, members, tuple(rank_of[m] for m in ranked), owners)


def _turn(priority: int | None) -> tuple[bool, int]:
    """The highest priority first; members without one come last, as in ``failover``."""
    return priority is None, -(priority or 0)


def outlook(plan: GovernedPlan, group: Group, raw: Mapping[str, Any]) -> Outlook:
    """The plan's effect on the heaviest member, in messages left to read for each of its capacity."""
    owner = np.full(group.P, NOBODY)
    ids, at = raw.get("topic_ids", {}), {member: number for number, member in enumerate(group.members)}
    for p in range(group.P):
        topic, number = group.name_of(p)
        places = plan.owners.get(plan_text.topic_id(ids[topic]), ()) if topic in ids else ()
        owner[p] = (
            at[plan.members[places[number]].member_id] if number < len(places) and places[number] >= 0 else NOBODY
        )

    def loads(owners: Ints) -> Any:
        held = owners != NOBODY
        return np.bincount(owners[held], group.lag[held], group.M) / group.capacity

    before, after = loads(group.owner), loads(owner)
    moves = int(((owner != group.owner) & (group.owner != NOBODY)).sum())
    least = float(group.lag.sum() / group.capacity.sum())
    heaviest = group.members[int(before.argmax())]
    return Outlook(float(before.max()), float(after.max()), least, heaviest, moves, in_seconds=False)


def differences(plan: GovernedPlan, raw: Mapping[str, Any]) -> int:
    """Partitions that the plan wants elsewhere than they are."""
    names = [key.member_id for key in plan.members]
    ids = {plan_text.topic_id(text): topic for topic, text in raw.get("topic_ids", {}).items()}
    held = holders(raw["members"])
    return sum(
        position != NOBODY and held.get((ids[topic_id], p)) != names[position]
        for topic_id, places in plan.owners.items()
        if topic_id in ids
        for p, position in enumerate(places)
    )


def adopted(plan: GovernedPlan, raw: Mapping[str, Any]) -> GovernedPlan:
    """The plan with the owners that are there now, if each of its partitions has one and they share as evenly."""
    place_of = {key.member_id: place for place, key in enumerate(plan.members)}
    ids = {plan_text.topic_id(text): topic for topic, text in raw.get("topic_ids", {}).items()}
    held = holders(raw["members"])
    owners = {
        topic_id: tuple(place_of.get(held.get((ids[topic_id], p), ""), NOBODY) for p in range(len(places)))
        for topic_id, places in plan.owners.items()
    }
    pairs = [pair for topic_id, wanted in plan.owners.items() for pair in zip(owners[topic_id], wanted, strict=True)]
    if any(now == NOBODY != then for now, then in pairs):
        return plan
    present, planned = (sorted(Counter(places).values()) for places in zip(*pairs, strict=True))
    return replace(plan, owners=owners) if present == planned else plan
