"""The rule by which a plan is applied, once more in Python, as slowly as it reads: what the class is held to."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping
from typing import Any

from apportion.wire.plan_text import NUMBERS_WHOLE, TOPICS_WHOLE, GovernedPlan, MemberKey
from apportion.wire.primitives import utf16

Shares = dict[str, dict[str, list[int]]]


def id_text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def apply(plan: GovernedPlan, members: Mapping[str, Mapping[str, Any]], partitions: Mapping[str, int]) -> Shares:
    """Each wanted partition to one member: planned, held together as promised, previous, by rank, least loaded."""
    order = sorted(members, key=utf16)
    number_of = {key: place for place, key in enumerate(plan.members)}
    present = {
        place: member for member in order if (place := number_of.get(key_of(member, members[member]))) is not None
    }
    topics = sorted({t for m in members.values() for t in m["topics"]}, key=lambda t: urlsafe_b64decode(t + "=="))
    eligible = {t: [m for m in order if t in members[m]["topics"]] for t in topics}
    owner: dict[tuple[str, int], str] = {}
    load = Counter(dict.fromkeys(order, 0))

    def give(topic: str, p: int, member: str) -> None:
        owner[topic, p] = member
        load[member] += 1

    def open_of(topic: str) -> list[int]:
        return [p for p in range(partitions.get(topic, 0)) if (topic, p) not in owner]

    def previous(topic: str, p: int) -> str | None:
        return next((m for m in eligible[topic] if p in members[m].get("previous", {}).get(topic, ())), None)

    def ranked(topic: str) -> str | None:
        return next((present[r] for r in plan.rank if r in present and present[r] in eligible[topic]), None)

    def least(some: list[str]) -> str:
        return min(some, key=lambda m: (load[m], order.index(m)))

    def most(topic: str, owners: list[str | None]) -> str | None:
        count = Counter(m for m in owners if m is not None)
        return max(count, key=lambda m: (count[m], -order.index(m))) if count else None

    for topic in topics:
        wanted = plan.owners.get(urlsafe_b64decode(topic + "=="), ())
        for p, place in enumerate(wanted[: partitions.get(topic, 0)]):
            if place >= 0 and present.get(place) in eligible[topic]:
                give(topic, p, present[place])
    if plan.promise & TOPICS_WHOLE:
        for topic in topics:
            ids = range(partitions.get(topic, 0))
            holder = most(topic, [owner.get((topic, p)) for p in ids]) or most(topic, [previous(topic, p) for p in ids])
            for p in open_of(topic):
                holder = holder or ranked(topic) or least(eligible[topic])
                give(topic, p, holder)
    if plan.promise & NUMBERS_WHOLE:
        for p in range(max((partitions.get(t, 0) for t in topics), default=0)):
            having = [t for t in topics if p < partitions.get(t, 0)]
            all_of_them = [m for m in order if all(m in eligible[t] for t in having)]
            held = [owner[t, p] for t in having if (t, p) in owner] or [m for t in having if (m := previous(t, p))]
            holder = held[0] if held else least(all_of_them) if all_of_them else None
            for topic in having:
                if holder is not None and (topic, p) not in owner and holder in eligible[topic]:
                    give(topic, p, holder)
    for topic in topics:
        for p in open_of(topic):
            if had := previous(topic, p):
                give(topic, p, had)
    for topic in topics:
        for p in open_of(topic):
            give(topic, p, ranked(topic) or least(eligible[topic]))
    shares: Shares = {member: {} for member in order}
    for (topic, p), member in sorted(owner.items()):
        shares[member].setdefault(topic, []).append(p)
    return shares


def key_of(member: str, fields: Mapping[str, Any]) -> MemberKey:
    return MemberKey(member, fields.get("instance"))
