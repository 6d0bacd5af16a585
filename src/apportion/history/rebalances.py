"""What each rebalance changed: who came and went, which partitions moved, and how many of the moves were needless."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from apportion.history.structure import change_key
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
    habits = habits or CommitCadence()
    counts = counts_after(generations)
    rows = []
    last_owner: Owners = {}
    # By kind: where a tombstone was lost, epochs stand between two classic records that still follow each other.
    last: dict[str, tuple[int, Owners]] = {}
    for i, now in enumerate(generations):
        owners = now.owners()
        if now.fresh or not now.members:
            last_owner = {}
        if not now.fresh and now.kind in last:
            earlier, had = last[now.kind]
            before = generations[earlier]
            why = causes(before, now, counts[earlier], counts[i], habits)
            rows.append(_row((before, had), (now, owners), counts[i], last_owner, why))
        last_owner.update(owners)
        last[now.kind] = i, owners
    return rows


def _row(
    earlier: tuple[Generation, Owners],
    later: tuple[Generation, Owners],
    counts: dict[str, int],
    last_owner: Owners,
    why: Iterable[str],
) -> Rebalance:
    (before, had), (now, has) = earlier, later
    # Over all partitions of all groups: no step of Python's own for each.
    kept = sum(map(eq, map(had.get, has), has.values()))
    given = list(filterfalse(had.__contains__, has))
    moved = len(has) - kept - len(given)
    living = {seat.identity for seat in now.members}
    old, new = ({seat.member_id for seat in generation.members} for generation in (before, now))
    swap = now.number == before.number
    least = _needless(before, now, counts) if moved else 0
    return Rebalance(
        source_offset=now.offset,
        at=now.at,
        kind=now.kind,
        generation=now.number,
        previous_generation=before.number,
        cause=", ".join(why),
        members=len(now.members),
        joined=tuple(sorted(new - old)),
        left=tuple(sorted(old - new)),
        moved=moved,
        kept=kept,
        given=len(given),
        handed=sum(1 for p in given if last_owner.get(p, has[p]) not in (has[p], None) and last_owner[p] in living),
        dropped=len(had) - (len(has) - len(given)),
        needless=None if least is None else min(least, moved),
        skipped=min(max(0, now.number - before.number - 1), _INT32),
        duration_ms=None if swap else _duration(now),
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
