"""A governor's plan for a group, next to the group itself: its age, and the partitions that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from apportion.wire.plan_text import RELEASE, MemberKey, PlanPart, topic_id
from apportion.wording import count

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SHOWN_MAX: Final = 3


@dataclass(frozen=True)
class CarriedPlan:
    """The newest plan that a group carries, as far as its carriers are there.

    published_s
        When it was published, seconds since 1970.
    differs
        (topic, partition) to who should have it: partitions that are with somebody else, or with nobody.
    unknown_members
        Members that the plan does not know: they came since.
    """

    published_s: int
    differs: Mapping[tuple[str, int], str]
    unknown_members: Sequence[str]

    @property
    def sentences(self) -> list[str]:
        """The plan's age, the group's differences from it, and the members it does not know, a sentence each."""
        at = _EPOCH + timedelta(seconds=self.published_s)
        sentences = [f"Governed by a plan of {at:%Y-%m-%d %H:%M:%S} UTC, carried by a member that takes nothing."]
        if self.differs:
            examples = [f"{topic}-{p} to {member}" for (topic, p), member in sorted(self.differs.items())[:SHOWN_MAX]]
            more = len(self.differs) - len(examples)
            rest = f" and {more} more" if more else ""
            sentences.append(
                f"The plan wants {count(len(self.differs), 'partition')} elsewhere: {', '.join(examples)}{rest}."
            )
        if self.unknown_members:
            sentences.append(f"The plan does not know {len(self.unknown_members)} of the members: they came since.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """For JSON: ``governed`` of ``describe -o json``."""
        return {
            "plan": self.published_s * 1000,
            "differs": [{"topic": t, "partition": p, "planned": m} for (t, p), m in sorted(self.differs.items())],
            "unknown_members": list(self.unknown_members),
        }


def governed(raw: Mapping[str, Any], carried: Sequence[PlanPart]) -> CarriedPlan | None:
    """The plan of a group's carriers, compared with group.json; None if it carries none, or was let go."""
    number = max((part.number for part in carried), default=0)
    parts = [part for part in carried if part.number == number and not part.promise & RELEASE]
    if not parts:
        return None
    members: Mapping[str, Mapping[str, Any]] = raw["members"]
    digest_of = {m: MemberKey(m, fields.get("instance_id")).digest(parts[0].salt) for m, fields in members.items()}
    by_digest = {digest: m for m, digest in digest_of.items()}
    names = {topic_id(text): topic for topic, text in raw.get("topic_ids", {}).items()}
    held = {(topic, p): m for m, fields in members.items() for topic, ids in fields["owned"].items() for p in ids}
    differs: dict[tuple[str, int], str] = {}
    for part in parts:
        planned = [by_digest.get(digest) for digest in part.digests]
        for known, owners in part.owners.items():
            if (topic := names.get(known)) is None:
                continue
            for p, position in enumerate(owners):
                member = planned[position] if position >= 0 else None
                if member is not None and held.get((topic, p)) != member:
                    differs[topic, p] = member
    plans_know = {digest for part in parts for digest in part.digests}
    return CarriedPlan(parts[0].at_s, differs, sorted(m for m, digest in digest_of.items() if digest not in plans_know))
