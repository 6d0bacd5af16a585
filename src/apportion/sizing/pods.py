"""Which pods should go when a group shrinks: deletion costs for Kubernetes, from a sizing's plan.

A ReplicaSet removes the pods with the lowest ``controller.kubernetes.io/pod-deletion-cost`` first; it is advice, and
needs no restart. A StatefulSet ignores it and removes the highest ordinals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.planning import plan
from apportion.sizing.frontier_point import FrontierPoint
from apportion.whatif import with_changed_members
from apportion.wording import count

COST: Final = "controller.kubernetes.io/pod-deletion-cost"
FIELDS: Final = ("instance-id", "client-id", "host")
NEEDED: Final = "instance-id, client-id or host, alone or as client-id=REGEX, whose first group is the pod's name"


@dataclass(frozen=True)
class Pods:
    """The pods of a group, and which of them a plan takes away.

    pod_of
        Member id to its pod's name; members that the rule does not match are missing.
    point
        The plan for the number of members that is to be.
    """

    pod_of: Mapping[str, str]
    point: FrontierPoint

    @cached_property
    def unnamed(self) -> tuple[str, ...]:
        """Members whose pod is unknown: without them nothing is to be applied."""
        return tuple(member for member in self.point.group.members if member not in self.pod_of)

    @cached_property
    def leave(self) -> tuple[str, ...]:
        """Pods all of whose members the plan takes away."""
        gone = set(self.point.leave)
        stay = {pod for member, pod in self.pod_of.items() if member not in gone}
        return tuple(sorted(set(self.pod_of.values()) - stay))

    @cached_property
    def cost(self) -> dict[str, int]:
        """Pod to its deletion cost: 0 for those that should go, else one more than its partitions; {} if unsure."""
        if self.unnamed:
            return {}
        group, cost = self.point.group, dict[str, int]()
        for member, owned in zip(
            group.members, np.bincount(group.owner[group.owner >= 0], minlength=group.M), strict=True
        ):
            pod = self.pod_of[member]
            cost[pod] = 0 if pod in self.leave else cost.get(pod, 1) + int(owned)
        return dict(sorted(cost.items()))

    @cached_property
    def highest(self) -> tuple[tuple[str, ...], int] | None:
        """Of a StatefulSet: the highest ordinals, as many as ``leave``, and the partitions that their going moves."""
        numbered = [re.fullmatch(r"(.*)-(0|[1-9][0-9]*)", pod) for pod in set(self.pod_of.values())]
        parts = sorted((int(match[2]), match[1]) for match in numbered if match)
        if (
            not self.leave
            or self.unnamed
            or [n for n, _ in parts] != list(range(len(numbered)))
            or len({s for _, s in parts}) > 1
        ):
            return None
        pods = tuple(f"{stem}-{n}" for n, stem in parts[: -len(self.leave) - 1 : -1])
        group, gone = self.point.group, {member for member, pod in self.pod_of.items() if pod in pods}
        after = plan(with_changed_members(group, gone, {}))
        before = {group.name_of(p): group.members[m] for p, m in enumerate(group.owner.tolist()) if m >= 0}
        now = {after.group.name_of(p): after.group.members[m] for p, m in enumerate(after.owner.tolist()) if m >= 0}
        return pods, sum(now.get(name) != member for name, member in before.items())

    @property
    def sentences(self) -> list[str]:
        """Who goes, how good that is, and what a StatefulSet would do."""
        point, sentences = self.point, list[str]()
        if self.unnamed:
            members, first = count(len(self.unnamed), "member"), ", ".join(self.unnamed[:3])
            sentences.append(f"The rule finds no pod for {members} ({first}), so there is nothing to apply.")
        if point.leave:
            proof = "no choice moves less work" if point.proven else "whether another choice moves less work is open"
            who = ", ".join(self.leave or point.leave)
            sentences.append(f"These go: {who}; {count(point.moves, 'partition')} move, and {proof}.")
        else:
            sentences.append("No pod should go.")
        if self.highest is not None:
            pods, moves = self.highest
            sentences.append(
                f"A StatefulSet removes its highest ordinals ({', '.join(pods)}): {count(moves, 'partition')} move."
            )
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """``{"leave", "deletion_cost", "unnamed", "patch"}``; ``patch`` is for ``kubectl apply --server-side``."""
        items = [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "annotations": {COST: str(cost)}}}
            for pod, cost in self.cost.items()
        ]
        patch = {"patch": {"apiVersion": "v1", "kind": "List", "items": items}} if items else {}
        return {"leave": list(self.leave), "deletion_cost": self.cost, "unnamed": list(self.unnamed), **patch}


def pods(point: FrontierPoint, rule: str) -> Pods:
    """The pods of the group's members, by a rule.

    rule
        What names the pod: ``instance-id``, ``client-id`` or ``host``; behind ``=`` a regular expression for the whole
        of it, whose first group is the pod's name.
    Raises
        BadInput: another rule.

    >>> from apportion.sizing.size import size
    >>> members = {f"m{m}": {"topics": ["t"], "client_id": f"app-{m}-x", "owned": {"t": [m]}} for m in range(2)}
    >>> point = size({"topics": {"t": 2}, "members": members}, 2, by="partitions").advised
    >>> pods(point, "client-id=(app-[0-9]+)-x").cost
    {'app-0': 2, 'app-1': 0}
    """
    field, _, pattern = rule.partition("=")
    try:
        name = re.compile(pattern or "(.+)")
    except re.error as error:
        raise BadInput("pods", f"{pattern[:80]!r}: {error}", NEEDED) from None
    if field not in FIELDS or name.groups < 1:
        raise BadInput("pods", repr(rule[:80]), NEEDED)
    matches = {member: name.fullmatch(text.removeprefix("/")) for member, text in _texts(point.group, field).items()}
    return Pods({member: match[1] for member, match in matches.items() if match}, point)


def _texts(group: Group, field: str) -> dict[str, str]:
    known = {"instance-id": group.instance_ids, "client-id": group.client_ids, "host": group.hosts}[field]
    return {member: text for member, text in zip(group.members, known, strict=False) if text}
