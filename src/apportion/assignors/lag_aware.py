"""Lag-aware: nobody holds many more partitions than another, nor has much more left to read."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

import numpy as np

from apportion.arrays import CELLS, NOBODY, Bools, Ints, Longs, distinct
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.model.measures import summable
from apportion.model.plan import Answer
from apportion.solvers.makespan import Shared, Sharing, lower_bound, share
from apportion.solvers.number_partitioning import deal_rounds, deal_skewed


@dataclass(frozen=True)
class LagAware:
    """Counts are balanced first, then lag, then past owners keep what they can.

    Goals: balance of counts > balance of lag > fewest moves; with ``scope="topic"`` the first two within each topic
    alone, as the KIP has it, and no past. The price: counts before lag, so a heavy partition brings its owner light
    company, not less of it. Source: KIP-169, "Algorithm"; lag there is subtracted the wrong way round.

    scope
        ``topic``: per topic, partitions by lag descending then id, each to the subscriber with fewest of this topic,
        then least lag of this topic, then first. ``group``: counts and lag over all topics.
    max_skew
        Lag wins over counts by up to so many partitions: members with the same wishes then differ by at most
        ``1 + max_skew``. In ``topic`` a subscriber up to ``max_skew`` ahead of the least is chosen if its lag is less.
    tolerance
        Past owners keep partitions as long as the heaviest member has at most ``1 + tolerance`` times the lag that is
        shown to be possible at least, or what the best plan found reaches, if that is more. In ``topic`` the best
        plan is the rule's own, per topic; at 0 it is the rule exactly.
    """

    name: ClassVar[str] = "lag-aware"
    goals: ClassVar[tuple[str, ...]] = ("topic-balance", "balance", "lag", "moves")

    scope: Literal["topic", "group"] = "topic"
    max_skew: int = 0
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if self.scope not in ("topic", "group"):
            raise BadInput("setting scope of lag-aware", repr(self.scope), "one of topic, group")
        if not isinstance(self.max_skew, int) or self.max_skew < 0:
            raise BadInput("setting max_skew of lag-aware", str(self.max_skew), "0 or more partitions")
        if not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise BadInput("setting tolerance of lag-aware", str(self.tolerance), "a part of the lag, such as 0.1")

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition, with the bound on the heaviest member's lag."""
        everything = _sharing(group, np.flatnonzero(group.wanted), self.max_skew)
        if everything is None:
            said = ("topic-balance", "lag") if self.scope == "topic" else ("balance", "lag", "moves")
            return Answer(np.full(group.P, NOBODY, dtype=np.int64), dict.fromkeys(said, "optimal"))
        if self.scope == "topic":
            return self._by_topic(group, everything)
        result = share(everything.sharing, self.tolerance)
        owner = everything.owners(group, result.owner)
        heaviest = everything.sharing.heaviest(result.owner)
        proof = {
            "balance": "bounded" if self.max_skew else "optimal",
            "lag": "optimal" if heaviest == result.bound else "bounded",
            "moves": "optimal" if result.max_kept else "heuristic",
        }
        return Answer(owner, proof, _measures(group, result.bound), certificate=_Certificate(heaviest, result, self))

    def _by_topic(self, group: Group, everything: _Part) -> Answer:
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        for topic in np.flatnonzero(group.wanted_topic & (np.diff(group.start) > 0)).tolist():
            place = group.partitions(topic)
            owner[place] = self._one_topic(group, topic, summable(group.lag[place]))
        # Balance within each topic does not balance the sums: a member may hold one fewer of every topic.
        each = np.diff(group.start)[group.wanted_topic] // len(everything.members) - min(self.max_skew, group.P)
        bound = lower_bound(everything.sharing, int(np.maximum(each, 0).sum()))
        heaviest = everything.sharing.heaviest(everything.places(owner))
        proof = {
            "topic-balance": "bounded" if self.max_skew else "optimal",
            "lag": "optimal" if heaviest == bound else "bounded",
        }
        if self.tolerance:
            proof["moves"] = "heuristic"
        shared = Shared(owner, bound, max_kept=False)
        return Answer(owner, proof, _measures(group, bound), certificate=_Certificate(heaviest, shared, self))

    def _one_topic(self, group: Group, topic: int, lag: Longs) -> Ints:
        """(partitions of the topic,) their owners by the rule, and past ones within the tolerance."""
        subscribers = group.subscribers(topic)
        dealt = (
            deal_skewed(lag, len(subscribers), self.max_skew) if self.max_skew else deal_rounds(lag, len(subscribers))
        )
        if self.tolerance:
            place = group.partitions(topic)
            part = _sharing(group, np.arange(place.start, place.stop), self.max_skew)
            if part is not None:
                dealt = share(part.sharing, self.tolerance, start=dealt).owner
        return subscribers[dealt]


def _measures(group: Group, bound: int) -> dict[str, int]:
    """The bound, where the plan shows lag at all."""
    return {"lag_bound": bound} if (group.lag_known & group.wanted).any() else {}


@dataclass(frozen=True, eq=False)
class _Part:
    """Some partitions of a group and the members that want any of them, numbered anew for the solvers."""

    sharing: Sharing
    members: Ints
    partitions: Ints
    place: Ints

    def owners(self, group: Group, shared: Ints) -> Ints:
        """(P,) owners in the group's numbers."""
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        owner[self.partitions] = self.members[shared]
        return owner

    def places(self, owner: Ints) -> Ints:
        """The part's owners in its own numbers."""
        return self.place[owner[self.partitions]]


def _sharing(group: Group, partitions: Ints, max_skew: int) -> _Part | None:
    """The partitions with their wishes, in numbers of their own; None where there is nothing to share."""
    if not len(partitions):
        return None
    kind_of_topic, may = _kinds(group, distinct(group.topic_of[partitions]))
    members = np.flatnonzero(may.any(axis=0))
    place = np.full(group.M + 1, NOBODY, dtype=np.int64)
    place[members] = np.arange(len(members))
    kind = kind_of_topic[group.topic_of[partitions]]
    lag = summable(group.lag[partitions])
    past = place[group.owner[partitions]]
    skew = min(max_skew, len(partitions))  # counts never differ by more, and array integers have an end
    return _Part(Sharing(lag, past, kind, may[:, members], skew), members, partitions, place)


def _kinds(group: Group, topics: Ints) -> tuple[Ints, Bools]:
    """(T,) the kind of each topic, (C, M) who wants which kind: topics of one kind have the same subscribers."""
    kind_of_topic = np.full(group.T, NOBODY, dtype=np.int64)
    kinds: dict[bytes, int] = {}
    rows: list[Ints] = []
    for topic in topics.tolist():
        subscribers = group.subscribers(topic)
        kind = kinds.setdefault(subscribers.tobytes(), len(kinds))
        if kind == len(rows):
            rows.append(subscribers)
            if len(rows) * group.M > CELLS:
                raise BadInput("lag-aware", "too many different subscriptions", f"at most {CELLS:,} members x topics")
        kind_of_topic[topic] = kind
    may = np.zeros((len(rows), group.M), dtype=np.bool_)
    for kind, subscribers in enumerate(rows):
        may[kind, subscribers] = True
    return kind_of_topic, may


@dataclass(frozen=True, eq=False)
class _Certificate:
    """Why the heaviest member cannot be much lighter."""

    heaviest: int
    shared: Shared
    how: LagAware

    def explain(self, group: Group) -> list[str]:
        """The argument, a sentence a line."""
        gap = self.heaviest - self.shared.bound
        where = "within each topic" if self.how.scope == "topic" else "over all topics"
        counts = f"by at most {1 + self.how.max_skew}"
        lines = [f"balance: counts of members with the same wishes differ {counts} {where}."]
        if gap:
            part = 100 * gap / max(self.shared.bound, 1)
            lines.append(
                f"lag: the heaviest member has {self.heaviest:,} messages; no plan gets below {self.shared.bound:,}, "
                f"so it is at most {gap:,} ({part:.2f} %) above the best."
            )
        else:
            lines.append(f"lag: the heaviest member has {self.heaviest:,} messages, and no plan gets below that.")
        if self.how.scope == "group":
            shown = (
                "no plan of these counts and lag keeps more" if self.shared.max_kept else "a local search found no more"
            )
            lines.append(f"moves: {shown}.")
        return lines
