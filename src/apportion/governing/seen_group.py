"""A group of a look as its governor takes it: by the members' targets, not by the partitions they still hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from apportion.model.protocols import CONSUMER
from apportion.sighting.sighting import Sighting
from apportion.sources.cluster_round import DescribedGroup, Round
from apportion.sources.live import sighted
from apportion.wire.plan_text import PlanPart

Carried = Sequence[tuple[Mapping[str, Any], PlanPart]]
"""The members of a group that carry a plan, each with its part."""


class GroupToGovern:
    """One group; expensive parts are made when they are asked for, since most groups are as they were.

    carried
        By whom, and what.
    computed
        Whether the broker's target is of the group's own epoch.
    mark
        What is equal as long as the group is: its epochs. None: nothing of the kind is known, or lag counts too.
    """

    def __init__(self, group: DescribedGroup, look: Round, asks_lag: bool) -> None:
        self.group, self.look = group, look
        facts = group.facts
        self.carried: Carried = facts.get("carriers", ())
        epochs = facts.get("generation"), facts.get("assignment_epoch")
        known = facts["protocol"] == CONSUMER
        self.computed = known and epochs[0] == epochs[1]
        self.mark = (*epochs, facts["assignor"]) if known and not asks_lag else None

    @cached_property
    def sighting(self) -> Sighting:
        """The group with the broker's target in the place of the members' present partitions."""
        facts = self.group.facts
        targets = facts.get("targets", {})
        members = {
            m: {**fields, "topics": self._topics(m, fields["topics"]), "owned": targets.get(m, fields["owned"])}
            for m, fields in facts["members"].items()
        }
        return sighted(replace(self.group, facts={**facts, "members": members}), self.look.topics, {})

    @property
    def by_expression(self) -> bool:
        """Whether a member subscribes by an expression, which the broker resolves some seconds after it was heard."""
        return any(self.group.facts.get("expressions", {}).values())

    def _topics(self, member: str, known: Sequence[str]) -> list[str]:
        """A member's wishes: a plan that gives it nothing must not be the reason why it is never given anything.

        Of its expression a broker tells only what it was given. So it is matched with the topics that others of the
        group want; what Python and the brokers (RE2J) read differently stays unknown until the brokers give it.
        """
        matched = set(known)
        with suppress(re.error):
            expression = re.compile(self.group.facts.get("expressions", {}).get(member) or "(?!)")
            matched |= {topic for topic in self.group.topics if expression.fullmatch(topic)}
        return sorted(matched)
