"""Which plan of the frontier is advised, and the sentences that say why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apportion.sizing.frontier_point import FrontierPoint
from apportion.wording import count

NAMED: Final = 5
"""Partitions that a sentence names before it only counts."""


@dataclass(frozen=True)
class Facts:
    """The full answer to the question.

    least_asked
        Members that there must be.
    oversize
        Topic, partition and work of each partition that no member can take.
    largest
        What the largest member takes.
    unknown, unknown_count
        The first partitions whose work is not known, and how many there are.
    newcomers_want
        Topics of newcomers, where members differ in what they want.
    """

    members_now: int
    least_asked: int
    partitions: int
    by: str
    capacity: float
    total: float
    oversize: list[tuple[str, int, float]]
    largest: float
    unknown: list[tuple[str, int]]
    unknown_count: int
    threads: int
    newcomers_want: tuple[str, ...]


def choose(
    frontier: Sequence[FrontierPoint], prefer: str | None, capacity: float, least: int = 0
) -> tuple[int | None, str]:
    """Which plan, and the reason as the end of a sentence; None if none has ``least`` members.

    Without a preference a member is taken to be worth a move of all that one member takes: members cost as long as
    they run, a move once, and more weight than that moves for no saving that lasts.

    >>> from apportion.sizing.size import size
    >>> pair = size({"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}}}, capacity=2, by="partitions")
    >>> choose(pair.frontier, "members", capacity=2)
    (0, 'the fewest members were preferred')
    """
    if prefer == "members":
        return len(frontier) - 1, "the fewest members were preferred"
    if prefer == "moves":
        return 0, "the least moved work was preferred"
    price = [sized.members + sized.moved / capacity for sized in frontier]
    enough = [i for i, sized in enumerate(frontier) if sized.members >= least]
    if not enough:
        return None, ""
    # Of equal prices the plan that moves less: what is not moved cannot go wrong.
    chosen = min(enough, key=lambda i: (round(price[i], 9), i))
    if least and chosen < len(frontier) - 1:
        return chosen, "fewer would do for the rest, but one falls behind under every plan"
    if len(frontier) == 1:
        return 0, "no other number moves less or needs fewer"
    if frontier[chosen].moved == 0:
        return chosen, "a member less would move more than one member's work"
    parts = []
    if chosen > 0:
        parts.append("more members would save less moved work than they take")
    if chosen < len(frontier) - 1:
        parts.append("fewer would move more than the work of the members saved")
    return chosen, ", ".join(parts)


def sentences(facts: Facts, frontier: Sequence[FrontierPoint], chosen: int, reason: str, bound: int) -> list[str]:
    """The choice with its reason first, then its limits.

    >>> from apportion.sizing.size import size
    >>> pair = size({"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}}}, capacity=2, by="partitions")
    >>> facts = Facts(1, 1, 3, "partitions", 2.0, 3.0, [], 2.0, [], 0, 1, ())
    >>> sentences(facts, pair.frontier, 0, "one is too few", bound=2)[0]
    '2 members, 1 more than now; nothing moves; the fullest is at 100%: one is too few.'
    """
    plan = frontier[chosen]
    lines = [f"{_headline(facts, plan)}: {reason}."]
    lines.append(_bound(facts, plan, frontier, bound))
    if not plan.proven:
        lines.append(f"Every plan of {count(plan.members, 'member')} moves {_amount(plan.moved_bound)} or more; "
                     f"this one {_amount(plan.moved)}.")  # fmt: skip
    if facts.oversize:
        lines.append(_oversize(facts))
    lines += _uncounted(facts)
    if plan.members > facts.partitions:
        lines.append(f"There are only {count(facts.partitions, 'partition')}: members beyond that number stay idle.")
    if facts.threads > 1:
        busy = count(-(-facts.partitions // facts.threads), "process", "processes")
        keep = f"{count(facts.partitions, 'partition')} {'keeps' if facts.partitions == 1 else 'keep'}"
        lines.append(f"That is {count(plan.members // facts.threads, 'process', 'processes')} of {facts.threads} "
                     f"members each; {keep} no more than {busy} busy.")  # fmt: skip
    if facts.newcomers_want and plan.join:
        topics = named(list(facts.newcomers_want), len(facts.newcomers_want))
        lines.append(f"Members want different topics; those that join want {topics}.")
    return lines


def idle(facts: Facts) -> list[str]:
    """The sentence for partitions without any work: there is no advice.

    >>> facts = Facts(1, 1, 3, "partitions", 2.0, 3.0, [], 2.0, [], 0, 1, ())
    >>> idle(facts)[0][:24]
    'No traffic was measured,'
    """
    if facts.by == "lag":
        line = "Nothing is left to read, so no number of members is advised. Size by weight: what comes in a second."
    else:
        line = "No traffic was measured, so no number of members is advised. Size again while messages come in."
    return [line, *_uncounted(facts)]


def overloaded(facts: Facts) -> list[str]:
    """The sentence if a member falls behind under every plan and the others could do with fewer: none is to go.

    >>> overloaded(Facts(3, 1, 3, "weight", 2.0, 9.0, [("t", 0, 9.0)], 2.0, [], 0, 1, ()))[0][:18]
    '3 members, as now:'
    """
    line = "fewer would do for the rest, but one falls behind under every plan, so that no member should go"
    return [f"{count(facts.members_now, 'member')}, as now: {line}.", _oversize(facts), *_uncounted(facts)]


def _uncounted(facts: Facts) -> list[str]:
    """The parts that the work leaves out."""
    lines = []
    if facts.unknown_count:
        lines.append(f"The {facts.by} of {count(facts.unknown_count, 'partition')} is unknown and counts 0: "
                     f"{named([f'{t}-{p}' for t, p in facts.unknown], facts.unknown_count)}.")  # fmt: skip
    if facts.by == "lag":
        lines.append("Only messages left to read are counted; what comes in meanwhile is not.")
    return lines


def _headline(facts: Facts, plan: FrontierPoint) -> str:
    change = plan.members - facts.members_now
    compared = "as now" if change == 0 else f"{abs(change):,} {'more' if change > 0 else 'fewer'} than now"
    moved = "nothing moves"
    if plan.moves:
        share = f" ({100 * plan.moved / facts.total:.1f}% of the work)" if facts.total else ""
        moved = f"{count(plan.moves, 'partition')}{share} {'changes' if plan.moves == 1 else 'change'} hands"
    return f"{count(plan.members, 'member')}, {compared}; {moved}; the fullest is at {100 * plan.busiest:.0f}%"


def _bound(facts: Facts, plan: FrontierPoint, frontier: Sequence[FrontierPoint], bound: int) -> str:
    fewest = frontier[-1].members
    if fewest == facts.least_asked > bound:
        return f"No plan needs fewer than {bound}; {fewest} were asked for at least."
    if plan.members == bound:
        return f"No plan needs fewer than {bound}."
    if fewest == bound:
        return f"{bound} would do and no plan needs fewer; that moves {_amount(frontier[-1].moved)}."
    return f"No plan needs fewer than {bound}; the fewest found are {fewest}."


def _oversize(facts: Facts) -> str:
    heavy = named([f"{topic}-{p} ({_amount(work)})" for topic, p, work in facts.oversize], len(facts.oversize))
    verb = "is" if len(facts.oversize) == 1 else "are"
    return (
        f"{heavy} {verb} more than any member takes ({_amount(facts.largest)}): each has one to itself and "
        "still falls behind; more members cannot help, more partitions or a faster member can."
    )


def named(names: list[str], total: int) -> str:
    """The first names, and how many more there are.

    >>> named(["a", "b", "c", "d", "e", "f"], total=8)
    'a, b, c, d, e and 3 more'
    """
    return ", ".join(names[:NAMED]) + (f" and {total - NAMED:,} more" if total > NAMED else "")


def _amount(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
