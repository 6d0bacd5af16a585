"""What happened at a rebalance: the record that ``on_plan`` gets, and one structured log line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.arrays import NOBODY
from apportion.model.claims import STANDS
from apportion.model.group import Group
from apportion.model.plan import Plan


@dataclass(frozen=True)
class PlannedRebalance:
    """One rebalance as its leader planned it; or the news that the broker assigns now (``foreign``).

    generation
        None where the client does not tell.
    moved, kept, given
        Partitions that go to another member, stay, or had no owner; of the target, once every hand-over is done.
    withheld
        Partitions that nobody owns until their past owner lets go (cooperative strategies).
    ignored
        Claims that fell.
    why
        What differs from the plan before: who joined or left, which topics grew.
    proof
        Goal to ``optimal``, ``bounded`` or ``heuristic``.
    ms
        Time from the members' words to the answer, in milliseconds, this process's share alone.
    plan
        None where the broker assigned.
    foreign
        True in the one record that a member gets when its group turns to the new protocol: its strategy is no longer
        asked, and all counts are 0.
    """

    group: str
    generation: int | None
    assignor: str
    members: int
    partitions: int
    moved: int
    kept: int
    given: int
    withheld: int
    ignored: int
    why: str
    proof: Mapping[str, str]
    ms: float
    plan: Plan | None = field(repr=False, compare=False)
    foreign: bool = False

    @classmethod
    def of_broker(cls, group: str, generation: int | None, assignor: str) -> PlannedRebalance:
        """The news that the broker assigns instead of this strategy."""
        why = "the broker assigns by the new protocol (group.protocol=consumer)"
        return cls(group, generation, assignor, 0, 0, 0, 0, 0, 0, 0, why, {}, 0.0, None, foreign=True)

    def to_dict(self) -> dict[str, Any]:
        """All fields but the plan, ready for JSON."""
        fields = {name: value for name, value in vars(self).items() if name != "plan"}
        return {**fields, "proof": dict(self.proof), "ms": round(self.ms, 3)}

    def line(self) -> str:
        """``rebalance group="ads" generation=7 ...``: names and JSON values, for people and for log readers."""
        values = self.to_dict()
        values["proof"] = ",".join(f"{goal}:{how}" for goal, how in self.proof.items())
        return "rebalance " + " ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in values.items())


OnPlan = Callable[[PlannedRebalance], object]


def record(plan: Plan, withheld: int, generation: int | None, why: str, ms: float) -> PlannedRebalance:
    """The record of one plan."""
    group, owner, past = plan.group, plan.owner, plan.group.owner
    measures = plan.measures
    fell = int((group.verdict.code != STANDS).sum()) + len(group.claims.nonexistent)
    return PlannedRebalance(
        group=group.name,
        generation=generation,
        assignor=plan.assignor,
        members=group.M,
        partitions=measures["partitions"],
        moved=measures["moves"],
        kept=measures["kept"],
        given=int(((owner != NOBODY) & (past == NOBODY)).sum()),
        withheld=withheld,
        ignored=fell,
        why=why,
        proof=plan.proof,
        ms=ms,
        plan=plan,
    )


class Causes:
    """Tells why a leader had to plan, by what it saw the last time."""

    def __init__(self) -> None:
        self._members: dict[str, frozenset[str]] | None = None
        self._sizes: dict[str, int] = {}
        self._withheld = 0

    def why(self, group: Group, withheld: int) -> str:
        """In words, for the log; the group is remembered for the next time."""
        members = {_label(group, m): _topics(group, m) for m in range(group.M)}
        counts = np.diff(group.start).tolist()
        sizes = {topic: count for topic, count in zip(group.topics, counts, strict=True) if count}
        reasons = ["this member leads now"] if self._members is None else self._compare(members, sizes)
        follow_up = self._withheld > 0
        self._members, self._sizes, self._withheld = members, sizes, withheld
        return "; ".join(reasons) or ("hand-over of what was withheld" if follow_up else "rejoin without a change")

    def _compare(self, members: Mapping[str, frozenset[str]], sizes: Mapping[str, int]) -> list[str]:
        before = self._members or {}
        both = members.keys() & before.keys()
        reasons = [
            _count("joined", members.keys() - before.keys()),
            _count("left", before.keys() - members.keys()),
            _count("changed its topics", [m for m in both if members[m] != before[m]]),
        ]
        topics = self._sizes.keys() | sizes.keys()
        changed = [t for t in sorted(topics) if self._sizes.get(t, 0) != sizes.get(t, 0)]
        reasons += [f"{t} has {sizes.get(t, 0)} partitions, had {self._sizes.get(t, 0)}" for t in changed[:3]]
        return [reason for reason in reasons if reason]


def _label(group: Group, m: int) -> str:
    """A static member keeps its name over a restart, so that a restart is no cause by itself."""
    return group.instance_ids[m] or group.members[m]


def _topics(group: Group, m: int) -> frozenset[str]:
    return frozenset(group.topics[t] for t in group.subscriptions[int(group.subscription_of[m])])


def _count(what: str, who: object) -> str:
    names: Sequence[str] = sorted(who)  # type: ignore[call-overload]
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{what}: {shown}"
