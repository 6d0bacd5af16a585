"""What each rebalance changed: who came and went, which partitions moved, and how many of the moves were needless."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import filterfalse
from operator import eq
from typing import Any, Final

from apportion.arrays import NOBODY
from apportion.assignors import Assignor, find
from apportion.history.cause import CommitCadence, causes
from apportion.history.records import Generation, counts_after
from apportion.history.steps import follow, step
from apportion.history.structure import change_key, history_key
from apportion.planning import plan

Owners = dict[tuple[str, int], str]
"""Each assigned partition's owner by identity."""
_INT32: Final = 2**31 - 1
LEAST: Final = {"order": "balance,moves"}
"""Settings of ``sticky`` for the fewest moves that an even assignment needs."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One row of ``gold/rebalances``: a generation against the one before it.

    moved, kept, given
        Partitions that had another owner, the same, or none; a static member is its instance, whatever its member id.
    handed
        Of ``given``, those that another living member had given up in the round before: a cooperative move's end.
    dropped
        Partitions that had an owner and have none now.
    needless
        Moves between members that stay, beyond the fewest that an even assignment needs from the same past; None
        where that least is not proved.
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
    cause: str
    members: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    moved: int
    kept: int
    given: int
    handed: int
    dropped: int
    needless: int | None
    skipped: int
    duration_ms: int | None
    complete: bool


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


@dataclass(frozen=True, slots=True)
class Change:
    """What of a rebalance says no name, offset or time: columns of its row."""

    cause: str
    moved: int
    kept: int
    given: int
    handed: int
    dropped: int
    needless: int | None


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
    """What changed between each pair; what was found for one small group is kept for the next that is like it.

    Most groups of a cluster went through the same as others but for names. Where commits tell a crash, times count too.
    """
    key = None
    if not habits.known and _ids_of(generations) <= _SMALL:
        key = history_key(generations)
    if key is None:
        return compared(generations, pairs, habits)
    key = (_least(), *key)
    if key not in _changes_kept:
        if len(_changes_kept) >= _MOST_KEPT:
            _changes_kept.clear()
        _changes_kept[key] = compared(generations, pairs, habits)
    return _changes_kept[key]


def _ids_of(generations: Sequence[Generation]) -> int:
    """How many partitions were given in all of them."""
    return sum([len(ids) for one in generations for seat in one.members for ids in seat.assigned.values()])


def compared(
    generations: Sequence[Generation], pairs: Sequence[tuple[int, int]], habits: CommitCadence
) -> list[Change]:
    """What changed between each pair of generations, as ``_changes`` keeps it; worked out anew."""
    counts = counts_after(generations)
    owners = [generation.owners() for generation in generations]
    before = {k: i for i, k in pairs}
    last_owner: Owners = {}
    changes = []
    for k, now in enumerate(generations):
        if now.fresh or not now.members:
            last_owner = {}
        if (i := before.get(k)) is not None:
            why = causes(generations[i], now, counts[i], counts[k], habits)
            earlier, later = (generations[i], owners[i]), (now, owners[k])
            changes.append(_change(earlier, later, counts[k], last_owner, ", ".join(why)))
        last_owner.update(owners[k])
    return changes


def _change(
    earlier: tuple[Generation, Owners],
    later: tuple[Generation, Owners],
    counts: dict[str, int],
    last_owner: Owners,
    cause: str,
) -> Change:
    (before, had), (now, has) = earlier, later
    # Over all partitions of all groups: no step of Python's own for each.
    kept = sum(map(eq, map(had.get, has), has.values()))
    given = list(filterfalse(had.__contains__, has))
    moved = len(has) - kept - len(given)
    living = {seat.identity for seat in now.members}
    handed = sum(1 for p in given if last_owner.get(p, has[p]) not in (has[p], None) and last_owner[p] in living)
    dropped = len(had) - (len(has) - len(given))
    least = _needless(before, now, counts) if moved else 0
    return Change(
        cause, moved, kept, len(given), handed, dropped, needless=None if least is None else min(least, moved)
    )  # fmt: skip


def _row(before: Generation, now: Generation, change: Change) -> Rebalance:
    old, new = ({seat.member_id for seat in generation.members} for generation in (before, now))
    return Rebalance(
        source_offset=now.offset,
        at=now.at,
        kind=now.kind,
        generation=now.number,
        previous_generation=before.number,
        cause=change.cause,
        members=len(now.members),
        joined=tuple(sorted(new - old)),
        left=tuple(sorted(old - new)),
        moved=change.moved,
        kept=change.kept,
        given=change.given,
        handed=change.handed,
        dropped=change.dropped,
        needless=change.needless,
        skipped=min(max(0, now.number - before.number - 1), _INT32),
        duration_ms=None if now.number == before.number else _duration(now),
        complete=before.number <= now.number <= before.number + 1 or now.holes == before.holes,
    )


def _duration(now: Generation) -> int | None:
    """From the start to the record, in milliseconds; None where a clock tells no time after 1970, or runs backwards."""
    if now.started is None or not 0 <= now.started <= now.at:
        return None
    return now.at - now.started


_SMALL: Final = 1000
"""Partitions of groups that are often alike."""
_MOST_KEPT: Final = 2000
_kept: Final[dict[tuple[Any, ...], int | None]] = {}
_changes_kept: Final[dict[tuple[Any, ...], Sequence[Change]]] = {}


@cache
def _least() -> Assignor:
    return find("sticky", LEAST)


def _needless(before: Generation, now: Generation, counts: dict[str, int]) -> int | None:
    """Moves between members that stay, beyond the proved least of an even assignment; None without a proof.

    Most rebalances of a cluster's groups are like others but for names: what was found for one is kept for the next.
    """
    key = change_key(before, now, counts) if sum(counts.values()) <= _SMALL else None
    if key is None:
        return needless_moves(before, now, counts)
    key = (_least(), *key)
    if key not in _kept:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = needless_moves(before, now, counts)
    return _kept[key]


def needless_moves(before: Generation, now: Generation, counts: dict[str, int]) -> int | None:
    """Moves beyond the proved least, as ``_needless`` keeps them; computed anew."""
    earlier, later = step("", before, counts), step("", now, counts)
    group, really = follow(earlier, earlier.group.owner, later), later.group.owner
    past = group.owner
    moves = int(((past != NOBODY) & (really != NOBODY) & (past != really)).sum())
    if not moves:
        return 0
    try:
        best = plan(group, _least())
    except Exception:  # a group that no strategy can take has no proved least
        return None
    if any(best.proof.get(goal) != "optimal" for goal in ("balance", "moves")):
        return None
    fewest = int(((past != NOBODY) & (best.owner != NOBODY) & (past != best.owner)).sum())
    return max(0, moves - fewest)
