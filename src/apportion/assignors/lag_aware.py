"""Lag-aware: no member holds many more partitions than another, nor has much more left to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Final, Literal

import numpy as np

from apportion.arrays import CELLS, NOBODY, Bools, Ints, Longs, distinct
from apportion.errors import BadInput
from apportion.model.facts import CAPACITY, Fact
from apportion.model.group import Group
from apportion.model.measures import summable
from apportion.model.plan import Answer, in_two_rounds
from apportion.solvers.completion import complete
from apportion.solvers.makespan import Shared, Sharing, lower_bound, share
from apportion.solvers.number_partitioning import deal_rounds, deal_skewed
from apportion.solvers.problem import units
from apportion.solvers.uniform_machines import Machines, deal_topic, share_by_capacity
from apportion.strategy.cooperation import Cooperation
from apportion.wording import count

UNEVEN_MAX_PARTITIONS: Final = 5_000
"""Partitions up to which a plan's text tells what free counts would reach: that is a plan more."""


@dataclass(frozen=True)
class LagAware(Cooperation):
    """Counts are balanced first, then lag, then past owners keep what they can.

    Goals: balance of counts > balance of lag > fewest moves; with ``scope="topic"`` the first two within each topic
    alone, as the KIP has it, and no past. The price: counts before lag, so a heavy partition brings its owner light
    company, not less of it. Source: KIP-169, "Algorithm"; lag there is subtracted the wrong way round.

    scope
        ``group``: counts and lag over all topics. ``topic``: the KIP's rule; per topic, partitions by lag descending
        then id, each to the subscriber with fewest of this topic, then least lag of this topic, then first. What is
        even in each topic need not be even over all of them, so that the rule can leave the heaviest member worse off
        than a plan that looks at no lag.
    max_skew
        Lag wins over counts by up to so many partitions: members with the same subscription then differ by at most
        ``1 + max_skew``. In ``topic`` a subscriber up to ``max_skew`` ahead of the least is chosen if its lag is less.
    by
        ``lag``: messages still to read; ``weight``: work that partitions bring in a second, of which an unknown one
        counts 0. It stands where lag stands above.
    tolerance
        Past owners keep partitions as long as the heaviest member has at most ``1 + tolerance`` times the lag that is
        shown to be possible at least, or what the best plan found reaches, if that is more. In ``topic`` the best
        plan is the rule's own, per topic; at 0 it is the rule exactly.
    cooperative
        What changes hands rests for one round while all else is read on; in ``group`` alone. Where some partition has
        no owner, the others stay with theirs if counts allow it: so a member that leaves moves nothing but what it
        had, and the second round gives the target of the first. For that the partitions that change hands are dealt in
        both rounds as a function of what stays (``solvers.completion``), heaviest first. ``max_skew`` counts where all
        members want the same.

    Where capacities differ, counts follow them and what is evened out is lag / capacity: by exchanges in ``group``, in
    ``topic`` among the subscribers whose next partition costs least. In ``group``, where all want the same, counts may
    be ``max_skew`` from the fair ones then; in ``topic`` neither ``max_skew`` nor ``tolerance`` is used.
    """

    name: ClassVar[str] = "lag-aware"
    promise: ClassVar[str] = "partitions shared by lag"
    reads: ClassVar[frozenset[str]] = frozenset({"lag", "weights"})
    goals: ClassVar[tuple[str, ...]] = ("topic-balance", "balance", "lag", "weight", "moves")
    structural: ClassVar[str] = "lag"
    # A plan over all topics takes 0.5 to 6 ms; this rule is dealt for thousands of groups in a few calls.
    tabled: ClassVar[str] = "lag-aware scope=topic"
    facts: ClassVar[Mapping[str, Fact]] = {"capacity": CAPACITY}

    scope: Literal["topic", "group"] = "group"
    max_skew: int = 0
    tolerance: float = 0.0
    by: Literal["lag", "weight"] = "lag"

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"of {self.name}"
        if self.scope not in ("topic", "group"):
            raise BadInput(f"setting scope {where}", repr(self.scope), "one of topic, group")
        if self.by not in ("lag", "weight"):
            raise BadInput(f"setting by {where}", repr(self.by), "one of lag, weight")
        if type(self.max_skew) is not int or self.max_skew < 0:
            raise BadInput(f"setting max_skew {where}", str(self.max_skew), "0 or more partitions")
        number = isinstance(self.tolerance, int | float) and not isinstance(self.tolerance, bool)
        if not number or not 0 <= self.tolerance < inf:
            raise BadInput(f"setting tolerance {where}", str(self.tolerance), "a part of the lag, such as 0.1")
        object.__setattr__(self, "reads", frozenset({"lag" if self.by == "lag" else "weights"}))
        if self.cooperative and self.scope == "topic":
            raise BadInput(f"setting scope {where}", "'topic', which has no past", "group")
        if (self.scope, self.max_skew, self.tolerance, self.by) == ("topic", 0, 0.0, "lag"):
            object.__setattr__(self, "structural", "rounds")

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition in the end, with the bound on the heaviest member's lag."""
        work = _work(group, self.by)
        part = _sharing(group, work, np.flatnonzero(group.wanted), self.max_skew)
        if not self.cooperative or part is None:
            return self._fresh(group, work, part)
        how = self if part.sharing.equal else replace(self, max_skew=0)
        anew = bool((group.owner[group.wanted] == NOBODY).any())
        owner = how.completed(group, work) if anew else None
        answer = None if owner is not None else how.planned(group)
        first = owner if answer is None else answer.owner
        assert first is not None  # noqa: S101 - one of the two is made
        target = in_two_rounds(group, first, lambda stays: how.completed(stays, work))
        return answer if answer is not None and target is first else how.judged(group, work, target)

    def planned(self, group: Group) -> Answer:
        """The plan that withholds nothing."""
        work = _work(group, self.by)
        return self._fresh(group, work, _sharing(group, work, np.flatnonzero(group.wanted), self.max_skew))

    def _fresh(self, group: Group, work: _Work, everything: _Part | None) -> Answer:
        if everything is None:
            goals = ("topic-balance", self.by) if self.scope == "topic" else ("balance", self.by, "moves")
            return Answer(np.full(group.P, NOBODY, dtype=np.int64), dict.fromkeys(goals, "optimal"))
        if not group.equal_capacities:
            return self._by_capacity(group, work, everything)
        if self.scope == "topic":
            return self._by_topic(group, work, everything)
        result = share(everything.sharing, self.tolerance)
        owner = everything.owners(group, result.owner)
        heaviest = everything.sharing.heaviest(result.owner)
        proof = {
            "balance": "bounded" if self.max_skew else "optimal",
            self.by: "optimal" if heaviest == result.bound else "bounded",
            "moves": "optimal" if result.max_kept else "heuristic",
        }
        return self._answer(group, work, heaviest, proof, replace(result, owner=owner))

    def completed(self, group: Group, work: _Work) -> Ints | None:
        """(P,) all keep theirs, and the rest is dealt; a fresh plan if there are no owners; else None."""
        if not (group.owner != NOBODY).any():
            return self.planned(group).owner
        part = _sharing(group, work, np.flatnonzero(group.wanted), self.max_skew)
        if part is None:
            return np.full(group.P, NOBODY, dtype=np.int64)
        owner = complete(part.sharing, group.capacity[part.members])
        return None if owner is None else part.owners(group, owner)

    def judged(self, group: Group, work: _Work, owner: Ints) -> Answer:
        """A plan of fair counts that another way made, with all that can be said about it."""
        part = _sharing(group, work, np.flatnonzero(group.wanted), self.max_skew)
        assert part is not None  # noqa: S101 - asked for plans of something alone
        sharing, places = part.sharing, part.places(owner)
        heaviest = sharing.heaviest(places)
        if group.equal_capacities:
            bound = lower_bound(sharing)
            shown = heaviest == bound
        else:
            unit = units(group.capacity)[part.members]
            machines = Machines(sharing.lag, sharing.past, sharing.kind, sharing.may, unit)
            bound = _least(sharing)
            shown = max(machines.burdens(places)) == machines.least_burden()
        all_kept = bool((owner == group.owner)[group.owner != NOBODY].all())
        proof = {
            "balance": "bounded" if self.max_skew else "optimal",
            self.by: "optimal" if shown else "bounded",
            "moves": "optimal" if all_kept else "heuristic",
        }
        return self._answer(group, work, heaviest, proof, Shared(owner, bound, all_kept))

    def _answer(self, group: Group, work: _Work, heaviest: int, proof: dict[str, str], shared: Shared) -> Answer:
        """The owners with the measures and the argument; nothing is claimed about lags that are unknown."""
        if not (work.known & group.wanted).any():
            proof = {**proof, self.by: "heuristic"}
        measures = work.measures(group, heaviest, shared.bound)
        return Answer(shared.owner, proof, measures, certificate=_LagBound(heaviest, shared, self, work))

    def _by_topic(self, group: Group, work: _Work, everything: _Part) -> Answer:
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        sizes = group.start[1:] - group.start[:-1]
        for topic in group.assignable_topics:
            owner[group.partitions(topic)] = self._one_topic(group, work, topic)
        # Balance within each topic does not balance the sums: a member may hold one fewer of every topic.
        each = sizes[group.wanted_topic] // len(everything.members) - min(self.max_skew, group.P)
        bound = lower_bound(everything.sharing, int(np.maximum(each, 0).sum()))
        heaviest = everything.sharing.heaviest(everything.places(owner))
        proof = {
            "topic-balance": "bounded" if self.max_skew else "optimal",
            self.by: "optimal" if heaviest == bound else "bounded",
        }
        if self.tolerance:
            proof["moves"] = "heuristic"
        return self._answer(group, work, heaviest, proof, Shared(owner, bound, max_kept=False))

    def _one_topic(self, group: Group, work: _Work, topic: int) -> Ints:
        """(partitions of the topic,) their owners by the rule, and past ones within the tolerance."""
        span = group.partitions(topic)
        subscribers, lag = group.subscribers(topic), summable(work.amount[span])
        slot = (
            deal_skewed(lag, len(subscribers), self.max_skew) if self.max_skew else deal_rounds(lag, len(subscribers))
        )
        if self.tolerance:
            part = _sharing(group, work, np.arange(span.start, span.stop), self.max_skew)
            if part is not None:
                slot = share(part.sharing, self.tolerance, start=slot).owner
        return subscribers[slot]

    def _by_capacity(self, group: Group, work: _Work, everything: _Part) -> Answer:
        """Deal to members of different capacity: counts follow capacities, lag / capacity is evened out."""
        unit = units(group.capacity)
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        sharing = everything.sharing
        skew = sharing.max_skew if sharing.equal and self.scope == "group" else 0
        machines = Machines(sharing.lag, sharing.past, sharing.kind, sharing.may, unit[everything.members], skew)
        if self.scope == "topic":
            for topic in group.assignable_topics:
                span, who = group.partitions(topic), group.subscribers(topic)
                owner[span] = who[deal_topic(work.amount[span], unit[who])]
        else:
            owner = everything.owners(group, share_by_capacity(machines, self.tolerance))
        places = everything.places(owner)
        shown = max(machines.burdens(places)) == machines.least_burden()
        proof = {
            "topic-balance" if self.scope == "topic" else "balance": "bounded" if skew else "optimal",
            self.by: "optimal" if shown else "bounded",
        }
        if self.scope == "group":
            proof["moves"] = "heuristic"
        return self._answer(
            group, work, sharing.heaviest(places), proof, Shared(owner, _least(sharing), max_kept=False)
        )


@dataclass(frozen=True)
class CooperativeLagAware(LagAware):
    """Counts are balanced first, then lag, and what changes hands rests for one round while all else is read on.

    tolerance
        A tenth, so that small differences move nothing. All else as for ``lag-aware`` with ``cooperative``.

    Goals: balance of counts > balance of lag > fewest moves. Source: KIP-169, "Algorithm"; KIP-429.
    """

    name: ClassVar[str] = "cooperative-lag-aware"
    unlisted: ClassVar[bool] = True
    tabled: ClassVar[str] = "cooperative-lag-aware"
    goals: ClassVar[tuple[str, ...]] = ("balance", "lag", "weight", "moves")
    tolerance: float = 0.1
    cooperative: ClassVar[bool] = True  # type: ignore[misc]  # its name says so, so it is no setting


@dataclass(frozen=True, eq=False)
class _Work:
    """The weights that are evened out: lag in messages, or weights in whole parts of their unit.

    amount
        (P,) whole numbers, Python's own where 64 bits are too few; what is not known counts 0.
    parts
        How many of them make one unit.
    known
        (P,) whether it is known.
    """

    by: str
    amount: Longs
    parts: int
    known: Bools

    def value(self, amount: int) -> int | float:
        """So many parts in the unit that the group speaks."""
        whole, rest = divmod(amount, self.parts)
        return amount / self.parts if rest else whole

    def measures(self, group: Group, heaviest: int, bound: int) -> dict[str, Any]:
        """The bound, and for weights the unit that lag has without us, if the plan shows any at all."""
        if not (self.known & group.wanted).any():
            return {}
        if self.by == "lag":
            return {"lag_bound": bound}
        unknown = int(np.count_nonzero(group.wanted & ~self.known))
        return {
            "weight_max": self.value(heaviest),
            "weight_bound": min(self.value(bound), self.value(heaviest)),
            "weight_unknown": unknown,
        }


def _least(sharing: Sharing) -> int:
    """Messages that the heaviest member has under any plan, no matter how much members can take."""
    return max(int(sharing.lag.max(initial=0)), -(-int(sharing.lag.sum()) // sharing.members))


def _work(group: Group, by: str) -> _Work:
    """The group's lag, or its weights in whole numbers: floats are fractions of powers of two, so nothing is lost."""
    if by == "lag":
        return _Work(by, group.lag, 1, group.lag_known)
    weight = np.zeros(group.P) if group.weight is None else np.nan_to_num(group.weight, nan=0.0)
    known = np.zeros(group.P, dtype=np.bool_) if group.weight is None else ~np.isnan(group.weight)
    ratios = [w.as_integer_ratio() for w in weight.tolist()]
    parts = max((below for _, below in ratios), default=1)
    amount = np.array([above * (parts // below) for above, below in ratios], dtype=object)
    small = not group.P or int(amount.max()) < 2**62
    return _Work(by, amount.astype(np.int64) if small else amount, parts, known)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some partitions of a group and the members that want any of them, renumbered for the solvers."""

    sharing: Sharing
    members: Ints
    partitions: Ints
    column: Ints

    def owners(self, group: Group, shared: Ints) -> Ints:
        """(P,) owners in the group's numbers."""
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        owner[self.partitions] = self.members[shared]
        return owner

    def places(self, owner: Ints) -> Ints:
        """The part's owners in its own numbers."""
        return self.column[owner[self.partitions]]


def _sharing(group: Group, work: _Work, partitions: Ints, max_skew: int) -> _Part | None:
    """The partitions with their wishes, in numbers of their own; None if there is nothing to share."""
    if not len(partitions):
        return None
    kind_of_topic, may = _kinds(group, distinct(group.topic_of[partitions]))
    members = np.flatnonzero(may.any(axis=0))
    position = np.full(group.M + 1, NOBODY, dtype=np.int64)
    position[members] = np.arange(len(members))
    kind = kind_of_topic[group.topic_of[partitions]]
    lag = summable(work.amount[partitions])
    past = position[group.owner[partitions]]
    skew = min(max_skew, len(partitions))  # counts never differ by more, and array integers have an end
    return _Part(Sharing(lag, past, kind, may[:, members], skew), members, partitions, position)


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
class _LagBound:
    """Why the heaviest member cannot be much lighter."""

    heaviest: int
    shared: Shared
    how: LagAware
    work: _Work

    def uneven(self, group: Group) -> str:
        """The heaviest member's load if counts were free, with the setting; "" if that is not less."""
        everything = _sharing(group, self.work, np.flatnonzero(group.wanted), group.P)
        if everything is None or not (everything.sharing.equal and group.equal_capacities):
            return ""
        if self.heaviest <= _least(everything.sharing) or group.P > UNEVEN_MAX_PARTITIONS:
            return ""
        owner = share(everything.sharing, 0.0).owner
        load, heaviest = np.bincount(owner, minlength=everything.sharing.members), everything.sharing.heaviest(owner)
        if heaviest >= self.heaviest:
            return ""
        setting = f"max_skew={max(int(load.max() - load.min()) - 1, 0)}"
        wide = f"scope=group and {setting}" if self.how.scope == "topic" else setting
        return f"With {wide} the heaviest member would have {self.work.value(heaviest):,}."

    def _counts_bind(self, group: Group) -> bool:
        """Whether the bound holds for counts like these alone, so that less even ones may get below it."""
        everything = _sharing(group, self.work, np.flatnonzero(group.wanted), group.P)
        return everything is not None and self.shared.bound > _least(everything.sharing)

    def explain(self, group: Group) -> list[str]:
        """The argument, a sentence a line."""
        gap = self.heaviest - self.shared.bound
        no_plan = "no plan with counts as even gets" if self._counts_bind(group) else "no plan gets"
        where = "within each topic" if self.how.scope == "topic" else "over all topics"
        heaviest, least = f"{self.work.value(self.heaviest):,}", f"{self.work.value(self.shared.bound):,}"
        burden = count(self.heaviest, "message") if self.work.by == "lag" else f"a weight of {heaviest}"
        by = self.work.by
        if not (self.work.known & group.wanted).any():
            unknown = f"{by}: not known of any partition, so it counts for nothing."
            return [f"balance: counts {where} are the fairest there are.", unknown]
        if not group.equal_capacities:
            way = "by exchanges" if self.how.scope == "group" else "where a topic's counts leave a choice"
            return [
                f"balance: counts {where} are the fairest for the members' capacities.",
                f"{by}: {by} over capacity is evened out {way}; the heaviest member has {burden}.",
            ]
        lines = [
            f"balance: counts of members with the same subscription differ by at most {1 + self.how.max_skew} {where}."
        ]
        if gap:
            part = 100 * gap / max(self.shared.bound, 1)
            lines.append(
                f"{by}: the heaviest member has {burden}; {no_plan} below {least}, "
                f"so it is at most {self.work.value(gap):,} ({part:.2f} %) above the best."
            )
        else:
            lines.append(f"{by}: the heaviest member has {burden}, and {no_plan} below that.")
        if self.how.scope == "group":
            shown = (
                "no plan of these counts and lag keeps more" if self.shared.max_kept else "a local search found no more"
            )
            lines.append(f"moves: {shown}.")
        return lines
