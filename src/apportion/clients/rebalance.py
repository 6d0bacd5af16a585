"""The events of a rebalance: the record that ``on_plan`` gets, and one structured log line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.model.claims import STANDS
from apportion.model.group import Group
from apportion.model.plan import Plan
from apportion.model.to_names import Assignment, owners_to_names
from apportion.wording import count, some_of


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
        None where the broker assigned. Its ``assignment`` withholds every claim of somebody else; a group gets
        ``assignment``, since nobody waits for a member that has let go already (all eager clients, and aiokafka).
    cause
        ``lag`` where the leader asked for it to even out the lag; else ``group``: something in it changed.
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
    cause: str = "group"
    owner: Ints | None = field(default=None, repr=False, compare=False)

    @cached_property
    def assignment(self) -> Assignment:
        """Member to topic to partition ids: this round's assignment; empty if the broker assigned."""
        if self.plan is None or self.owner is None:
            return {}
        return owners_to_names(self.plan.group, self.owner)

    @classmethod
    def of_broker(cls, group: str, generation: int | None, assignor: str) -> PlannedRebalance:
        """The news that the broker assigns instead of this strategy."""
        why = "the broker assigns by the new protocol (group.protocol=consumer)"
        return cls(group, generation, assignor, 0, 0, 0, 0, 0, 0, 0, why, {}, 0.0, None, foreign=True)

    def to_dict(self) -> dict[str, Any]:
        """All numbers and words, ready for JSON: not the plan, nor the owners."""
        fields_of = vars(self)
        values = {name: fields_of[name] for name in _TOLD}
        values["proof"], values["ms"] = dict(self.proof), round(self.ms, 3)
        return values

    def line(self) -> str:
        """``rebalance group="ads" generation=7 ...``: names and JSON values, for people and for log readers."""
        return line_of("rebalance", self.to_dict())


def line_of(event: str, values: Mapping[str, Any]) -> str:
    """``rebalance group="ads" generation=7 proof="balance:optimal"``: names and JSON values, those of a dict in one."""
    words = {
        name: ",".join(f"{key}:{number}" for key, number in value.items()) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }
    return " ".join([event, *(f"{name}={_json(value)}" for name, value in words.items())])


_TOLD: Final = tuple(field.name for field in fields(PlannedRebalance) if field.name not in ("plan", "owner"))
_json: Final = json.JSONEncoder(ensure_ascii=False).encode
OnPlan = Callable[[PlannedRebalance], object]


def record(
    plan: Plan, now: Ints, withheld: Bools, generation: int | None, why: str, ms: float, cause: str = "group"
) -> PlannedRebalance:
    """The record of one plan; ``now`` (P,) owns in this round, ``withheld`` (P,) its new owner does not get yet."""
    group, owner = plan.group, plan.owner
    given, stayed, moved, fell = int(np.count_nonzero(owner != NOBODY)), 0, 0, len(group.claims.nonexistent)
    if len(group.claims.member):
        past, target = group.owner[plan.changed], owner[plan.changed]
        changed = past != NOBODY
        moved = int(np.count_nonzero(changed & (target != NOBODY)))
        given = int(np.count_nonzero(target != NOBODY)) - moved
        # Where every claim stands there is an owner for each.
        stand = len(group.claims.member) if group.verdict.undisputed else int(np.count_nonzero(group.owner != NOBODY))
        stayed = stand - int(np.count_nonzero(changed))
        fell += 0 if group.verdict.undisputed else int(np.count_nonzero(group.verdict.code != STANDS))
    return PlannedRebalance(
        group=group.name,
        generation=generation,
        assignor=plan.assignor,
        members=group.M,
        partitions=group.P if group.all_wanted else int(np.count_nonzero(group.wanted)),
        moved=moved,
        kept=stayed,
        given=given,
        withheld=int(np.count_nonzero(withheld)),
        ignored=fell,
        why=why,
        proof=plan.proof,
        ms=ms,
        plan=plan,
        cause=cause,
        owner=now,
    )


class LeadersView(NamedTuple):
    """A leader's view of a group, as in ``Group``: members, topics, sizes (T,); without the group's larger arrays.

    subscriptions
        The distinct ones and which one each member has.
    withheld
        Whether anything was, in that round.
    """

    topics: tuple[str, ...]
    size: Sequence[int]
    members: tuple[str, ...]
    instance_ids: tuple[str | None, ...]
    subscriptions: tuple[Sequence[Ints], Ints]
    withheld: bool = False

    @classmethod
    def of(cls, group: Group, withheld: bool) -> LeadersView:
        """The part of a group that counts for the next time."""
        sizes = (group.start[1:] - group.start[:-1]).tolist()
        subscriptions = (group.subscriptions, group.subscription_of)
        return cls(group.topics, sizes, group.members, group.instance_ids, subscriptions, withheld)

    def label(self) -> tuple[str, ...]:
        """(M,) a static member keeps its name over a restart, so that a restart is no cause by itself."""
        if not any(self.instance_ids):
            return self.members
        return tuple(i or m for i, m in zip(self.instance_ids, self.members, strict=True))

    def sizes(self) -> dict[str, int]:
        """Topics that have partitions."""
        return {topic: size for topic, size in zip(self.topics, self.size, strict=True) if size}


class Causes:
    """Says why a leader had to plan, by the group it saw the last time."""

    def __init__(self) -> None:
        self._seen: LeadersView | None = None

    def remember(self, seen: LeadersView) -> None:
        """The part that counts for the next time."""
        self._seen = seen

    def why(self, seen: LeadersView) -> str:
        """In words, for the log; the group is remembered for the next time."""
        before, self._seen = self._seen, seen
        if before is None:
            return "this member leads now"
        follow_up = "hand-over of what was withheld" if before.withheld else "rejoin without a change"
        return "; ".join(_compare(before, seen)) or follow_up


def _compare(before: LeadersView, now: LeadersView) -> list[str]:
    """The differences, in words."""
    old, new = before.label(), now.label()
    reasons = [] if old == new else [_count("joined", set(new) - set(old)), _count("left", set(old) - set(new))]
    reasons.append(_count("changed its topics", _changed(before, now, old, new)))
    if before.topics != now.topics or before.size != now.size:
        had, has = before.sizes(), now.sizes()
        changed = [t for t in sorted(had.keys() | has.keys()) if had.get(t, 0) != has.get(t, 0)]
        reasons += [f"{t} has {count(has.get(t, 0), 'partition')}, had {had.get(t, 0):,}" for t in changed[:3]]
    return [reason for reason in reasons if reason]


def _changed(before: LeadersView, now: LeadersView, before_label: tuple[str, ...], label: tuple[str, ...]) -> list[str]:
    """Members of both times whose topics differ; the labels (M,) of both times are at hand."""
    lists = before.subscriptions[0], now.subscriptions[0]
    if before.topics == now.topics and [*map(len, lists)] == [1, 1] and np.array_equal(lists[0][0], lists[1][0]):
        return []
    number: dict[frozenset[str], int] = {}

    def wish_of(seen: LeadersView) -> list[int]:
        """(M,) a number for each member's set of topics, the same in both times."""
        lists, list_of = seen.subscriptions
        numbers = [number.setdefault(frozenset(seen.topics[t] for t in topics), len(number)) for topics in lists]
        return [numbers[k] for k in list_of.tolist()]

    past = dict(zip(before_label, wish_of(before), strict=True))
    return [name for name, wish in zip(label, wish_of(now), strict=True) if past.get(name, wish) != wish]


def _count(subject: str, who: object) -> str:
    names: Sequence[str] = sorted(who)  # type: ignore[call-overload]
    if not names:
        return ""
    return f"{subject}: {some_of(names)}"
