"""``apportion.size``: from a group and a member's capacity to the members that it should have, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from apportion.arrays import NOBODY, Bools
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.model.group_json import GroupLike, group_of
from apportion.sizing import advice
from apportion.sizing.frontier import Candidate, Frontier, frontier
from apportion.sizing.frontier_point import FrontierPoint, busiest, number
from apportion.sizing.problem import SizingProblem, in_units
from apportion.sizing.work import Work, work_of
from apportion.whatif import MOST_MEMBERS, member_named

Prefer = Literal["members", "moves"]
SWING: Final = 0.05
"""How far a partition's work is taken to drift until the next call, as a share of what a newcomer takes."""
UNITS_MAX: Final = 2**1000
"""Units that all work or one member may come to."""


@dataclass(frozen=True, eq=False)
class Sizing:
    """How many members a group should have.

    capacity
        Work that a member of capacity 1 takes.
    total
        All the work there is.
    bound
        Members that every plan needs.
    frontier
        Plans, most members and least moved work first; none is beaten by another on both.
    chosen
        Which of them is advised; None where there is no work to go by, or where fewer members would do although one
        falls behind under every plan. ``sentences`` say why.
    """

    group: Group
    work: Work
    capacity: float
    total: float
    bound: int
    frontier: tuple[FrontierPoint, ...]
    chosen: int | None
    sentences: tuple[str, ...] = field(default=())

    @property
    def advised(self) -> FrontierPoint | None:
        """The plan that is advised; None if none is."""
        return None if self.chosen is None else self.frontier[self.chosen]

    @cached_property
    def advice(self) -> str:
        """The choice and its reason, and the other facts that matter."""
        return " ".join(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``apportion size``."""
        return {
            "version": 1,
            "group": self.group.name,
            "by": self.work.by,
            "capacity": number(self.capacity),
            "total": number(self.total),
            "bound": self.bound,
            "frontier": [sized.to_dict() for sized in self.frontier],
            "chosen": self.chosen,
            "advice": self.advice,
        }


def size(
    group: GroupLike,
    capacity: float,
    by: str | None = None,
    members: tuple[int, int] | None = None,
    prefer: Prefer | None = None,
    *,
    catch_up: float | None = None,
    like: str | None = None,
    threads: int = 1,
    swing: float = SWING,
) -> Sizing:
    """How many members the group should have, and how much each number of them moves.

    group
        A ``Group``, group.json as a dict or text, or the ``Path`` of a file.
    capacity
        Work per second that a member of capacity 1 takes; by ``partitions``, how many it takes.
    by
        ``weight``, ``lag`` or ``partitions``; None: ``weight`` where some weight is known.
    members
        The least and most members that may be.
    prefer
        Which end of the frontier: fewest ``members`` or fewest ``moves``. None: the least of members plus moved work
        in members' worth.
    catch_up
        Seconds in which the present lag is to be worked off besides.
    like
        The member whose subscription newcomers have; None: all topics that some member wants.
    threads
        Members that run in one process and come and go together, as a Streams application's or a pod's do.
    swing
        How far a partition's work may drift until the next call, a standard deviation as a share of ``capacity``; it
        decides only between plans that move the same, for the one that will move less then.
    Raises
        BadInput for a bad group or option, and where nothing fits ``members``: the sentence has the bound.

    >>> topics = {"t": [{"partition": p, "weight": 30} for p in range(4)]}
    >>> group = {"topics": topics, "members": {"a": {"topics": ["t"]}}}
    >>> [(plan.members, plan.join) for plan in size(group, capacity=100).frontier]
    [(2, ('new-1',))]
    """
    group = group_of(group)
    capacity = _positive("capacity", capacity)
    catch_up = None if catch_up is None else _positive("catch_up", catch_up)
    if not 1 <= threads <= MOST_MEMBERS:
        raise BadInput("threads", str(threads), f"members of one process, from 1 to {MOST_MEMBERS}")
    if prefer not in (None, "members", "moves"):
        raise BadInput("prefer", repr(prefer), "members or moves")
    low, high = _limits(members, threads)
    question = _Question(group, work_of(group, by, catch_up), capacity, _newcomers_want(group, like), threads)
    most = min(high, max(len(question.wanted) * threads, low, 1))  # no more processes than partitions have work
    shown = frontier(question.problem, low, most, swing)
    if not shown.candidates:
        raise _nothing_fits(question, low if members else None, most, high, shown.bound)
    return question.answer(shown, prefer, low)


def _nothing_fits(question: _Question, low: int | None, most: int, high: int, bound: int) -> BadInput:
    limits = f"at most {most}" if low is None else f"{low} to {high}"
    more = f"at least {bound} members" if bound > most else "more members, or larger ones"
    needed = more if most == high else "larger members"  # so many that each has one partition did not do
    takes = f"a member takes {number(question.capacity):,}{question.unwanted()}"
    limits_tried = f"{limits}, which no plan that was found fits"
    return BadInput("members", limits_tried, f"{needed}: the work is {number(question.total):,}, and {takes}")


def _positive(where: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 2**53:
        raise BadInput(where, repr(value), "a number above 0, at most 2^53")
    return value


def _limits(members: tuple[int, int] | None, threads: int) -> tuple[int, int]:
    """The least and most members, with room for a number of whole processes."""
    low, high = members or (1, MOST_MEMBERS)
    if not 1 <= low <= high:
        raise BadInput("members", f"{low}..{high}", "A..B with 1 <= A <= B, as in 2..10")
    if low > MOST_MEMBERS:
        raise BadInput("members", f"{low}..{high}", f"at most {MOST_MEMBERS:,}")
    high = min(high, MOST_MEMBERS)
    if high - high % threads < low:
        whole = f"a number of whole processes among them, as {max(low - low % threads, threads)}"
        raise BadInput("members", f"{low} to {high} for processes of {threads} members each", whole)
    return low, high


def _newcomers_want(group: Group, like: str | None) -> tuple[str, ...]:
    """Topics of a newcomer: those of the member it is like, else all that anybody wants."""
    if like is None:
        return tuple(topic for topic, wanted in zip(group.topics, group.wanted_topic.tolist(), strict=True) if wanted)
    member = group.members.index(member_named(group, like))
    return tuple(group.topics[t] for t in group.subscriptions[int(group.subscription_of[member])].tolist())


class _Question:
    """The question as a packing on the wanted partitions alone, and its answers with names."""

    def __init__(self, group: Group, work: Work, capacity: float, want: tuple[str, ...], threads: int) -> None:
        self.group, self.work, self.capacity, self.want = group, work, capacity, want
        newcomer_wants = np.isin(np.arange(group.T), [group.topics.index(t) for t in want])
        self.wanted = np.flatnonzero(group.wanted)
        # Decimals as written, so that a member of capacity 3 takes three times 0.1, and not a little more.
        takes = [capacity, *(capacity * c for c in group.capacity.tolist())]
        weights, units, self.scale = in_units(work.work[self.wanted].tolist(), takes)
        self.problem = SizingProblem(
            weight=weights,
            capacity=[units[0] * c for c in group.capacity.tolist()],
            new_capacity=units[0],
            previous_owner=group.owner[self.wanted].tolist(),
            kind=group.topic_of[self.wanted].tolist(),
            eligible=_eligible(group, newcomer_wants),
            process=_processes(group, threads) if threads > 1 else (),
            threads=threads,
        )
        # What plans are compared by are floats, of which none is as large.
        if self.problem.total + units[0] >= UNITS_MAX or units[0] * int(group.capacity.max()) >= UNITS_MAX:
            least = min(x for x in (capacity, *work.work[self.wanted].tolist()) if x > 0)
            most = max(capacity, *work.work[self.wanted].tolist())
            raise BadInput(
                "capacity",
                f"work and capacities from {least:g} to {most:g}",
                "numbers that are less far from each other",
            )
        self.total = self.problem.total / self.scale
        taken = set(group.members)
        self.new_names = (name for i in range(1, 2 * MOST_MEMBERS) if (name := f"new-{i}") not in taken)
        self._names: list[str] = []

    def _newcomer(self, i: int) -> str:
        while len(self._names) <= i:
            self._names.append(next(self.new_names))
        return self._names[i]

    def sized(self, candidate: Candidate) -> FrontierPoint:
        """A candidate with names; members without work complete processes, else they stay before others come."""
        group, M = self.group, self.group.M
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        owner[self.wanted] = candidate.owner
        busy = set(candidate.owner)
        stay = {m for m in busy if m < M}
        come = len([m for m in busy if m >= M])
        spare = candidate.members - len(busy)
        idle_beside, idle_elsewhere = self._idle(stay)
        stay.update(idle_beside[:spare])
        spare -= len(idle_beside[:spare])
        completed = min(-come % self.problem.threads, spare)
        stay.update(idle_elsewhere[: spare - completed])
        come += max(spare - len(idle_elsewhere), completed)
        previous = group.owner
        moved = (previous != NOBODY) & (owner != previous) & group.wanted
        takes = [self.capacity * c for c in [*group.capacity.tolist(), *([1] * come)]]
        return FrontierPoint(
            group=group,
            owner=owner,
            members=candidate.members,
            moves=int(moved.sum()),
            moved=candidate.moved / self.scale,
            moved_bound=candidate.moved_bound / self.scale,
            busiest=busiest(owner, self.work.work, takes),
            join=tuple(self._newcomer(i) for i in range(come)),
            leave=tuple(group.members[m] for m in range(M) if m not in stay),
            newcomers_want=self.want,
        )

    def answer(self, shown: Frontier, prefer: Prefer | None, low: int) -> Sizing:
        """The plans with names, the one that is advised, and why."""
        sized = tuple(self.sized(candidate) for candidate in shown.candidates)
        facts = self.facts(low)
        chosen: int | None = None
        if not self.total:
            words = advice.idle(facts)
        else:
            # Somebody falls behind whatever is planned: no time to advise that members go.
            least = self.group.M if facts.oversize and prefer is None else 0
            chosen, reason = advice.choose(sized, prefer, self.capacity, least)
            words = (
                advice.overloaded(facts)
                if chosen is None
                else advice.sentences(facts, sized, chosen, reason, shown.bound)
            )
        return Sizing(self.group, self.work, self.capacity, self.total, shown.bound, sized, chosen, tuple(words))

    def _idle(self, stay: set[int]) -> tuple[list[int], list[int]]:
        """Present members without work: those of processes that stay anyway, and the others, process by process."""
        process = self.problem.process_of
        remaining = {process[m] for m in stay}
        idle = sorted((m for m in range(self.group.M) if m not in stay), key=lambda m: (process[m], m))
        return [m for m in idle if process[m] in remaining], [m for m in idle if process[m] not in remaining]

    def unwanted(self) -> str:
        """The topics that newcomers leave to present members, as the end of a sentence; empty if they want all."""
        wanted_topics = [t for t, wanted in zip(self.group.topics, self.group.wanted_topic, strict=True) if wanted]
        unwanted = [topic for topic in wanted_topics if topic not in self.want]
        return f"; those that join do not want {advice.named(unwanted, len(unwanted))}" if unwanted else ""

    def facts(self, least_asked: int) -> advice.Facts:
        """The subjects of the advice in addition to the plans."""
        group, problem = self.group, self.problem
        named = [group.name_of(int(self.wanted[p])) for p in sorted(problem.oversize)]
        equal = len(group.subscriptions) == 1
        return advice.Facts(
            members_now=group.M,
            least_asked=least_asked,
            partitions=len(self.wanted),
            by=self.work.by,
            capacity=self.capacity,
            total=self.total,
            oversize=[
                (t, p, problem.weight[i] / self.scale)
                for (t, p), i in zip(named, sorted(problem.oversize), strict=True)
            ],
            largest=self.capacity * max([1, *group.capacity.tolist()]),
            unknown=[group.name_of(p) for p in np.flatnonzero(self.work.unknown)[: advice.NAMED + 1].tolist()],
            unknown_count=int(self.work.unknown.sum()),
            threads=problem.threads,
            newcomers_want=() if equal else self.want,
        )


def _eligible(group: Group, newcomer_wants: Bools) -> list[list[bool]] | None:
    """(M + 1, T) who may own which topic; None if every member may own all that is wanted."""
    if len(group.subscriptions) == 1 and bool(newcomer_wants[group.wanted_topic].all()):
        return None
    rows = []
    for topics in group.subscriptions:
        row = [False] * group.T
        for t in topics.tolist():
            row[t] = True
        rows.append(row)
    return [*(rows[k] for k in group.subscription_of.tolist()), newcomer_wants.tolist()]


def _processes(group: Group, threads: int) -> list[int]:
    """(M,) the process of each member: those of one host, else so many members at a time in member order."""
    hosts = [group.hosts[m] if group.hosts else None for m in range(group.M)]
    count = {host: hosts.count(host) for host in set(hosts)}
    if all(host and n == threads for host, n in count.items()):
        number_of = {host: i for i, host in enumerate(dict.fromkeys(hosts))}
        return [number_of[host] for host in hosts]
    return [m // threads for m in range(group.M)]
