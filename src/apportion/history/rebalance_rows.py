"""The changes of each rebalance: who came and went, which partitions moved, and how many of the moves were needless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import filterfalse
from operator import eq
from typing import Any, Final, TypeVar

from apportion.arrays import NOBODY
from apportion.assignors import Assignor, find
from apportion.defaults import DEFAULT_EAGER
from apportion.errors import ApportionError
from apportion.history.cause import CommitCadence, causes
from apportion.history.moves import Moves, Owners, count_moves
from apportion.history.records import Generation, counts_after
from apportion.history.steps import follow, step
from apportion.history.structure import change_key, history_key
from apportion.model.group import Group
from apportion.model.plan import Plan
from apportion.planning import plan

_INT32: Final = 2**31 - 1
LEAST: Final = {"order": "balance,moves"}
"""Settings of ``sticky`` for the fewest moves that an even assignment needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The changes of a rebalance without names, offsets and times.

    moved, kept, given
        Partitions that another member that stays had last, that had the same owner, and all others; a static member is
        its instance, whatever its member id. ``moves.py`` says what a move is.
    handed
        Of ``moved``, those that had been given up in a round before: a cooperative move's end.
    inherited
        Of ``given``, those that a member had which left.
    dropped
        Partitions that had an owner and have none now.
    needless
        Moves beyond the fewest that an even assignment needs from the same past; None
        where that least is not proved.
    """

    cause: str
    moved: int
    kept: int
    given: int
    handed: int
    inherited: int
    dropped: int
    needless: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance(Change):
    """One row of ``gold/rebalances``: a generation against the one before it.

    skipped
        Generations that left no record between the two.
    duration_ms
        From all members having joined to the assignment (classic), from the epoch's opening to its target (KIP-848).
        None for a static replacement, where the state's time does not move.
    complete
        Nothing between the two can be hidden: their numbers are neighbours, or no offset between them is missing.
    """

    source_offset: int
    at: int
    kind: str
    generation: int
    previous_generation: int
    members: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    skipped: int
    duration_ms: int | None
    complete: bool


def rebalanced_at(generations: Sequence[Generation]) -> list[int]:
    """When (ms) each of ``rebalances`` was, without working out its changes."""
    return [generations[k].at for _, k in _pairs(generations)]


def rebalances(generations: Sequence[Generation], habits: CommitCadence | None = None) -> list[Rebalance]:
    """A row for each generation that follows another with no tombstone between.

    generations
        Of one group, in order, as ``fold`` gives them; each is held against the one before it of its kind.
    habits
        Its commits, which tell a crash from a leave.
    """
    pairs = _pairs(generations)
    changes = _changes(generations, pairs, habits or CommitCadence()) if pairs else ()
    return [_row(generations[i], generations[k], change) for (i, k), change in zip(pairs, changes, strict=True)]


def latest(generations: Sequence[Generation], moves: Moves, habits: CommitCadence) -> Rebalance | None:
    """The last generation's row, None if it follows none; ``moves``, which saw all before, takes it too."""
    now, counts = generations[-1], counts_after(generations)
    past, later = moves.past(now), _Owned(now, counts[-1], now.owners())
    row = None
    for i, k in _pairs(generations):
        if k == len(generations) - 1:
            earlier = _Owned(generations[i], counts[i], generations[i].owners())
            row = _row(generations[i], now, _change(earlier, later, past, habits))
    moves.take(later.owners)
    return row


def _pairs(generations: Sequence[Generation]) -> list[tuple[int, int]]:
    """Places of the generations that are held against each other."""
    # By kind: where a tombstone was lost, epochs stand between two classic records that still follow each other.
    last: dict[str, int] = {}
    pairs = []
    for k, now in enumerate(generations):
        if not now.fresh and now.kind in last:
            pairs.append((last[now.kind], k))
        last[now.kind] = k
    return pairs


def _changes(
    generations: Sequence[Generation], pairs: Sequence[tuple[int, int]], habits: CommitCadence
) -> Sequence[Change]:
    """The changes between each pair; the result for one small group is kept for the next that is like it.

    Most groups of a cluster went through the same as others but for names. Where commits tell a crash, times count too.
    """
    key = None
    if not habits.known and _ids_of(generations) <= _SMALL:
        key = history_key(generations)
    if key is None:
        return compared(generations, pairs, habits)
    return _remembered(_changes_kept, (_least(), *key), lambda: compared(generations, pairs, habits))


def _ids_of(generations: Sequence[Generation]) -> int:
    """How many partitions were given in all of them."""
    return sum(
        [len(ids) for generation in generations for seat in generation.members for ids in seat.assigned.values()]
    )


def compared(
    generations: Sequence[Generation], pairs: Sequence[tuple[int, int]], habits: CommitCadence
) -> list[Change]:
    """The changes between each pair of generations, as ``_changes`` keeps them; worked out again.

    Of a long history only the newest generation of each kind is held with its owners: no pair asks for an older one.
    """
    later = {k for _, k in pairs}
    newest: dict[str, _Owned] = {}
    moves = Moves()
    changes = []
    for k, (generation, counts) in enumerate(zip(generations, counts_after(generations), strict=True)):
        past = moves.past(generation)
        now = _Owned(generation, counts, generation.owners())
        if k in later:
            changes.append(_change(newest[generation.kind], now, past, habits))
        moves.take(now.owners)
        newest[generation.kind] = now
    return changes


@dataclass(frozen=True, slots=True)
class _Owned:
    """A generation with the facts worked out from it: partitions of each wanted topic, and each partition's owner."""

    generation: Generation
    counts: dict[str, int]
    owners: Owners


def _change(earlier: _Owned, later: _Owned, past: Owners, habits: CommitCadence) -> Change:
    before, now, had, has = earlier.generation, later.generation, earlier.owners, later.owners
    # Over all partitions of all groups: no step of Python's own for each.
    moved = count_moves(past, has)
    retained = min(sum(map(eq, map(had.get, has), has.values())), len(has) - moved)
    fresh = list(filterfalse(had.__contains__, has))
    handed = sum([past.get(p, has[p]) != has[p] for p in fresh])
    gone = {seat.identity for seat in before.members} - {seat.identity for seat in now.members}
    inherited = sum([had.get(p) in gone for p in has]) if gone else 0
    least = _needless(_with_past(before, now, past) if handed else before, now, later.counts) if moved else 0
    return Change(
        cause=", ".join(causes(before, now, earlier.counts, later.counts, habits)),
        moved=moved,
        kept=retained,
        given=len(has) - retained - moved,
        handed=handed,
        inherited=inherited,
        dropped=len(had) - (len(has) - len(fresh)),
        needless=least,
    )


def _with_past(before: Generation, now: Generation, past: Owners) -> Generation:
    """The generation before as if each member that stays still had the partitions it gave up for others."""
    held: dict[str, dict[str, list[int]]] = {}
    for (topic, number), who in past.items():
        held.setdefault(who, {}).setdefault(topic, []).append(number)
    had = {who: {topic: tuple(sorted(ids)) for topic, ids in sorted(topics.items())} for who, topics in held.items()}
    seats = tuple([replace(seat, assigned=had.get(seat.identity, {})) for seat in now.members])
    return replace(before, members=seats)


def _row(before: Generation, now: Generation, change: Change) -> Rebalance:
    old, new = ({seat.member_id for seat in generation.members} for generation in (before, now))
    return Rebalance(
        source_offset=now.offset,
        at=now.at,
        kind=now.kind,
        generation=now.number,
        previous_generation=before.number,
        members=len(now.members),
        joined=tuple(sorted(new - old)),
        left=tuple(sorted(old - new)),
        skipped=skipped(before.number, now.number),
        duration_ms=duration(before.number, now.number, now.started, now.at),
        complete=is_complete(before.number, now.number, before.holes, now.holes),
        **{column: getattr(change, column) for column in _OF_CHANGE},
    )


def skipped(before: int, now: int) -> int:
    """Generations that left no record between the two of these numbers; at most as many as 32 bits hold."""
    return min(max(0, now - before - 1), _INT32)


def duration(before: int, now: int, started: int | None, at: int) -> int | None:
    """From the start to the record (ms); None in one generation, before 1970, or if a clock runs backwards."""
    if now == before or started is None or not 0 <= started <= at:
        return None
    return at - started


def is_complete(before: int, now: int, holes_before: int, holes: int) -> bool:
    """Whether nothing between two generations can be hidden; ``holes`` are offsets missing up to each record."""
    return before <= now <= before + 1 or holes == holes_before


_OF_CHANGE: Final = tuple(field.name for field in fields(Change))
_SMALL: Final = 1000
"""Partitions of groups that are often alike."""
_MOST_KEPT: Final = 2000
Answer = TypeVar("Answer")
_kept: Final[dict[tuple[Any, ...], int | None]] = {}
_changes_kept: Final[dict[tuple[Any, ...], Sequence[Change]]] = {}


@cache
def _least() -> Assignor:
    return find(DEFAULT_EAGER, LEAST)


def _needless(before: Generation, now: Generation, counts: dict[str, int]) -> int | None:
    """Moves between members that stay, beyond the proved least of an even assignment; None without a proof.

    Most rebalances of a cluster's groups are like others but for names: what was found for one is kept for the next.
    """
    key = change_key(before, now, counts) if sum(counts.values()) <= _SMALL else None
    if key is None:
        return needless_moves(before, now, counts)
    return _remembered(_kept, (_least(), *key), lambda: needless_moves(before, now, counts))


def _remembered(cache: dict[tuple[Any, ...], Answer], key: tuple[Any, ...], work_out: Callable[[], Answer]) -> Answer:
    """The value kept under a key, worked out if it is missing; of at most ``_MOST_KEPT`` keys."""
    if key not in cache:
        if len(cache) >= _MOST_KEPT:
            cache.clear()
        cache[key] = work_out()
    return cache[key]


def needless_moves(before: Generation, now: Generation, counts: dict[str, int]) -> int | None:
    """Moves beyond the proved least, as ``_needless`` keeps them; computed again."""
    earlier, later = step("", before, counts), step("", now, counts)
    group, really = follow(earlier, earlier.group.owner, later), later.group.owner
    past = group.owner
    moves = int(((past != NOBODY) & (really != NOBODY) & (past != really)).sum())
    if not moves:
        return 0
    best = fairest(group)
    if best is None:
        return None
    fewest = int(((past != NOBODY) & (best.owner != NOBODY) & (past != best.owner)).sum())
    return max(0, moves - fewest)


def fairest(group: Group) -> Plan | None:
    """The plan that moves least of the most balanced ones; None if that is not proved, or no plan can be made."""
    try:
        best = plan(group, _least())
    except ApportionError:  # a group that no strategy can take has no proved least
        return None
    return best if all(best.proof.get(goal) == "optimal" for goal in ("balance", "moves")) else None
