"""The facts known about a group that may switch to the new protocol, and the changes of a switch, in figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.errors import UnreadableBytes
from apportion.history.group_history import GroupHistories, GroupHistory
from apportion.history.predicted_targets import Score, score
from apportion.history.records import GroupRecord
from apportion.model.group import Group
from apportion.model.plan import Plan
from apportion.model.present import LEAST_SHARED, topic_shares
from apportion.model.protocols import CONSUMER
from apportion.strategy.registry import traits_of_protocol
from apportion.wire.assignment import read_assignment
from apportion.wire.coordinator import GroupGeneration

CLASSIC_CLIENTS: Final = ("kafka-python", "aiokafka")
"""Client libraries without the new protocol; a client id that nobody chose begins with the name, others may have it."""


@dataclass(frozen=True)
class Blocker:
    """Why the broker would refuse the first consumer of the new protocol; ``members`` whose doing it is."""

    reason: str
    members: tuple[str, ...] = ()


ALREADY, CAN, STAY = "already", "can", "stay"


@dataclass(frozen=True)
class GroupFacts:
    """The facts known about the group in addition to its members and partitions.

    kind
        ``classic`` or ``consumer``; None unknown.
    strategy
        The protocol's name, None unknown.
    assigned_data
        Members whose assignment carries user data; None unknown.
    session_timeouts_ms
        Of the members, as far as known.
    """

    kind: str | None = None
    strategy: str | None = None
    assigned_data: Sequence[str] | None = None
    session_timeouts_ms: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Switch:
    """The effects of a switch on one group.

    blockers
        None where it is not known whether the broker would refuse.
    together
        How many partition numbers have all their topics on one member: of all, now, after an online upgrade, anew.
    busiest
        The greatest share of all work (the partitions' weights) on one member: now, online, fresh, and ``even``, the
        least that any sharing can have; empty where no weight is known.
    history
        See ``switch_history.moves``.
    classic_clients
        Client library without the new protocol to the members that run it, as far as client ids tell.
    """

    group: Group
    facts: GroupFacts
    blockers: Sequence[Blocker] | None
    now: Mapping[str, Any]
    online: Plan
    fresh: Plan
    concentration: Mapping[str, float]
    together: Mapping[str, int]
    history: Mapping[str, int] | None
    score: Score
    busiest: Mapping[str, float] = field(default_factory=dict)
    advice: Sequence[str] = ()
    traps: Sequence[str] = ()
    loses: Sequence[str] = ()
    classic_clients: Mapping[str, int] = field(default_factory=dict)

    @property
    def answer(self) -> str:
        """``already``, ``can`` or ``stay``."""
        if self.facts.kind == CONSUMER:
            return ALREADY
        return CAN if self.advice and self.advice[0].startswith("It can switch") else STAY

    def to_dict(self) -> dict[str, Any]:
        """One element of the JSON of ``apportion switch``; unknown facts are left out."""
        document: dict[str, Any] = {"group": self.group.name, "protocol": self.facts.kind}
        if self.blockers is not None and self.facts.kind != CONSUMER:
            document["upgradable"] = not self.blockers
            document["blockers"] = [
                {"what": blocker.reason, "members": list(blocker.members)} for blocker in self.blockers
            ]
        document |= {"now": dict(self.now), "online": self.online.to_dict(), "fresh": self.fresh.to_dict()}
        document |= {"concentration": dict(self.concentration), "together": dict(self.together)}
        if self.classic_clients:
            document["classic_clients"] = dict(self.classic_clients)
        if self.busiest:
            document["work"] = dict(self.busiest)
        if self.history is not None:
            document["history"] = dict(self.history)
        document |= {"loses": list(self.loses), "traps": list(self.traps)}
        if self.score.epochs:
            document["score"] = {"epochs": self.score.epochs, "predicted": self.score.predicted}
        return {
            name: value for name, value in (document | {"advice": " ".join(self.advice)}).items() if value is not None
        }


def classic_clients(group: Group) -> dict[str, int]:
    """Members by client library, of those that have no new protocol; a client id of the user's own shows nothing."""
    ids = [client or member for client, member in zip(group.client_ids or [None] * group.M, group.members, strict=True)]
    counts = {name: sum(f"-{name}-" in f"-{client_id}-" for client_id in ids) for name in CLASSIC_CLIENTS}
    return {name: n for name, n in counts.items() if n}


def left_out(past: GroupHistory) -> str:
    """Why a recorded group has no answer, as the words after "1 group"; "" if it has one."""
    present = past.present
    if present is None:
        return "that is gone"
    why = why_left_out(present.type, len(present.members))
    return why or ("" if present.readable else "whose subscriptions cannot be read")


def why_left_out(kind: str | None, members: int) -> str:
    """The same of a group that was described."""
    if kind not in (None, "classic", "simple", CONSUMER):
        return f"of the {kind} protocol, not of consumers"
    return "" if members else "without members"


def facts_of(past: GroupHistory) -> GroupFacts:
    """The facts of a recorded group in addition to its members."""
    present = past.present
    if present is None:
        return GroupFacts()
    timeouts = frozenset(seat.session_timeout_ms for seat in present.members if seat.session_timeout_ms)
    return GroupFacts(present.type, present.protocol, assigned_data(past.events), timeouts)


def scored(histories: GroupHistories) -> Score:
    """How many of all recorded targets of a cluster are predicted to the partition."""
    each = (score(group.events, histories.world.names) for group in histories.groups.values())
    return sum(each, Score())


def assigned_data(events: Iterable[GroupRecord]) -> tuple[str, ...] | None:
    """Members whose assignment in the last classic generation carries user data; None if the bytes are not kept."""
    last = None
    for event in events:
        if isinstance(event.record, GroupGeneration):
            last = event.record
    if last is None or last.tombstone:
        return ()
    if any(member.assigned and not member.assignment for member in last.members):
        return None
    return tuple(member.member_id for member in last.members if _carries(member.assignment))


def _carries(assignment: bytes) -> bool:
    try:
        return bool(assignment and read_assignment(assignment).user_data)
    except UnreadableBytes:
        return False


def blockers(facts: GroupFacts) -> list[Blocker] | None:
    """The reason for which the broker would refuse an upgrade, as far as members and strategy show; None unknown."""
    if facts.assigned_data:
        return [Blocker("user data in the assignment", tuple(facts.assigned_data))]
    if facts.assigned_data is not None:
        return []
    if facts.strategy is None:
        return None
    strategy = traits_of_protocol(facts.strategy)
    if strategy is not None and strategy.assigned_data:
        return [Blocker("user data in the assignment, as this strategy writes it")]
    return [] if strategy is not None else None


def concentration(group: Group, owner: Ints) -> float:
    """The greatest share of one topic's partitions on one member, of topics with two and more."""
    return round(max((share for _, share in topic_shares(group, owner)), default=0.0), 4)


def even(group: Group) -> float:
    """The concentration if each topic were shared as evenly as its subscribers allow."""
    worst = 0.0
    for topic in np.flatnonzero(group.wanted_topic & (np.diff(group.start) >= LEAST_SHARED)).tolist():
        size = int(group.start[topic + 1] - group.start[topic])
        worst = max(worst, -(-size // len(group.subscribers(topic))) / size)
    return round(worst, 4)


def busiest(group: Group, owners: Mapping[str, Ints]) -> dict[str, float]:
    """The greatest share of all known work on one member; nothing if no wanted partition's weight is known."""
    weight = np.nan_to_num(group.weight) if group.weight is not None else np.zeros(group.P)
    whole = float(weight[group.wanted].sum())
    if not whole:
        return {}
    shares_of = {}
    for name, owner in owners.items():
        held = group.wanted & (owner != NOBODY)
        load = np.bincount(owner[held], weights=weight[held], minlength=group.M)
        shares_of[name] = round(float(load.max()) / whole, 4)
    return {**shares_of, "even": round(max(1 / group.M, float(weight[group.wanted].max()) / whole), 4)}


def together(group: Group, owners: Mapping[str, Ints]) -> dict[str, int]:
    """Partition numbers that two wanted topics and more have: of all, and with one owner for all their topics."""
    wanted = np.flatnonzero(group.wanted)
    number, position = np.unique(group.number[wanted], return_inverse=True)
    several = np.bincount(position, minlength=len(number)) > 1
    counts = {"of": int(several.sum())}
    for name, owner in owners.items():
        low, high = np.full(len(number), np.iinfo(np.int64).max), np.full(len(number), NOBODY)
        np.minimum.at(low, position, owner[wanted])
        np.maximum.at(high, position, owner[wanted])
        counts[name] = int((several & (low == high) & (high != NOBODY)).sum())
    return counts
