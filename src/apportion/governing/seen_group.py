"""A group of a look as its governor takes it: by what members are to have, not by what they still hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from apportion.sources.cluster_round import DescribedGroup, Round, entries_of
from apportion.sources.described_group import Observed
from apportion.sources.live import observed_group
from apportion.wire.plan_text import PlanPart

Carried = Sequence[tuple[Mapping[str, Any], PlanPart]]
"""The members of a group that carry a plan, each with its part."""


class GroupToGovern:
    """One group; what costs time is made when it is asked for, since most groups are as they were.

    carried
        By whom, and what.
    computed
        Whether the broker's target is of the group's own epoch.
    mark
        What is equal as long as the group is: its epochs. None: nothing of the kind is known, or lag counts too.
    """

    def __init__(self, group: DescribedGroup, look: Round, asks_lag: bool) -> None:
        self.group, self.look = group, look
        facts = group.description
        self.carried: Carried = facts.get("carriers", ())
        epochs = facts.get("generation"), facts.get("assignment_epoch")
        known = facts["kind"] == "consumer"
        self.computed = known and epochs[0] == epochs[1]
        self.mark = (*epochs, facts["protocol"]) if known and not asks_lag else None

    @cached_property
    def observed(self) -> Observed:
        """As group.json, with the broker's target in the place of what members hold."""
        group, facts, topics = self.group, self.group.description, self.look.topics
        targets = facts.get("targets", {})
        members = {
            m: {**fields, "topics": self._topics(m, fields["topics"]), "owned": targets.get(m, fields["owned"])}
            for m, fields in facts["members"].items()
        }
        entries = entries_of({topic: topics[topic] for topic in group.topics if topic in topics})
        facts = {**facts, "members": members}
        return observed_group(group.name, facts, group.committed, entries.by_number, entries.ids, group.coordinator)

    @property
    def by_expression(self) -> bool:
        """Whether a member subscribes by an expression, which the broker resolves some seconds after it was heard."""
        return any(self.group.description.get("expressions", {}).values())

    def _topics(self, member: str, known: Sequence[str]) -> list[str]:
        """What a member wants: a plan that gives it nothing must not be the reason why it is never given anything.

        Of its expression a broker tells only what it was given. So it is matched with the topics that others of the
        group want; what Python and the brokers (RE2J) read differently stays unknown until the brokers give it.
        """
        matched = set(known)
        with suppress(re.error):
            expression = re.compile(self.group.description.get("expressions", {}).get(member) or "(?!)")
            matched |= {topic for topic in self.group.topics if expression.fullmatch(topic)}
        return sorted(matched)
