"""The inputs of governors: their groups and the wishes of those, and offsets only if a strategy asks for lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.governing.rules_file import GroupRule
from apportion.governing.sharing import CLUB
from apportion.sources.cluster_round import STABLE, ListedGroup, Look
from apportion.sources.group_descriptions import kind_of, reads


@dataclass(frozen=True)
class Selection:
    """Which groups are governed, and how.

    names
        The groups by name, each by the first rule that matches; None: all that some rule matches.
    """

    rules: Sequence[GroupRule]
    names: Sequence[str] | None = None

    def rule_of(self, group: str) -> GroupRule | None:
        """The first rule that is about a group."""
        if self.names is not None and group not in self.names:
            return None
        return next((rule for rule in self.rules if rule.pattern.fullmatch(group)), None)

    def listed(self, group: str, fields: Mapping[str, Any]) -> bool:
        """Whether a listed group is governed: a classic one if its rule converts it, or if it is asked for by name."""
        rule = self.rule_of(group) if reads(fields) else None
        return rule is not None and (kind_of(fields) == "consumer" or rule.convert or self.names is not None)


class GovernedLook(Look):
    """One look at all governed groups, at the topics that they want, and at the group of the governors."""

    of_groups = True

    def __init__(self, admin: Any, selection: Selection) -> None:
        super().__init__(admin)
        self.selection = selection

    def _choose(self, listed: Mapping[str, ListedGroup]) -> Mapping[str, ListedGroup]:
        return {n: group for n, group in listed.items() if n == CLUB or self.selection.listed(n, group[1])}

    def _asks_lag(self, group: str) -> bool:
        rule = self.selection.rule_of(group)
        return rule is not None and "lag" in rule.assignor.goals

    async def _committed(self, groups: Mapping[str, int]) -> dict[str, dict[tuple[str, int], int]]:
        asking = {name: node for name, node in groups.items() if self._asks_lag(name)}
        return {**{name: {} for name in groups if name not in asking}, **await super()._committed(asking)}

    async def _ends(self, places: Any, drafts: Any, which: int) -> None:
        if which == STABLE:
            return  # no strategy asks for it
        lagging = {t for name, group in self.round.groups.items() if self._asks_lag(name) for t in group.topics}
        near = {node: [place for place in mine if place[0] in lagging] for node, mine in places.items()}
        await super()._ends({node: mine for node, mine in near.items() if mine}, drafts, which)
