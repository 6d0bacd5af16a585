"""A group's generations walked again with another strategy, each plan the past of the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.assignors import Assignor
from apportion.history.rebalance_rows import Rebalance
from apportion.history.records import Generation
from apportion.history.steps import Step, TopicEntries, follow, steps, without_past
from apportion.history.stood_still import standstills
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.model.plan import Answer
from apportion.planning import checked, strategy_of

MEASURES = ("moves", "kept", "load_min", "load_max", "load_squares", "rack_misses", "lag_max")


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """One recorded generation: the strategy's plan, and the assignment that the group had, by the same measures.

    measures, then
        As in plan.json, of the strategy's target and of the real assignment. ``moves`` counts partitions that went
        from one member that stays to another; a cooperative move counts in the round that hands it over.
    group, owner
        What was planned, and (P,) the plan.
    """

    generation: Generation
    members: int
    partitions: int
    measures: dict[str, int]
    then: dict[str, int]
    group: Group
    owner: Ints


def replay(
    name: str,
    generations: Sequence[Generation],
    assignor: str | Assignor,
    topics: TopicEntries | None = None,
) -> list[Replayed]:
    """Walk one group's generations with a strategy; the first, and each after an empty group, starts with nothing.

    name
        The group's, as plans carry it.
    topics
        Today's partitions, for racks and, in the last generation, lag.
    Raises
        What the strategy raises.
    """
    return replay_steps(steps(name, generations, topics), assignor)


def replay_steps(
    walk: Sequence[Step],
    assignor: str | Assignor,
    then: Sequence[dict[str, int]] | None = None,
    measured: Callable[[Group, Ints], dict[str, int]] = measure,
) -> list[Replayed]:
    """Walk generations that are groups already, as ``steps`` gives them, so that several strategies share them.

    then
        What ``happened`` gives for this walk, if it is at hand.
    measured
        ``table_measures`` where that is enough.
    """
    strategy = strategy_of(assignor)
    replayed = []
    walked = carried_along(walk, strategy)
    for (now, group, answer), really in zip(walked, happened(walk) if then is None else then, strict=True):
        measures = {**measured(group, answer.owner), **answer.measures}
        replayed.append(
            Replayed(now.generation, group.M, measures["partitions"], measures, really, group, answer.owner)
        )
    return replayed


def carried_along(walk: Iterable[Step], strategy: Assignor) -> Iterator[tuple[Step, Group, Answer]]:
    """Each generation with the group that the strategy is asked about, its past the plan before, and its answer."""
    earlier: Step | None = None
    owner: Ints = np.empty(0, dtype=np.int64)
    for now in walk:
        group = without_past(now) if earlier is None or not now.follows else follow(earlier, owner, now)
        answer = checked(group, strategy)
        yield now, group, answer
        owner, earlier = answer.owner, now


def happened(walk: Iterable[Step], measured: Callable[[Group, Ints], dict[str, int]] = measure) -> list[dict[str, int]]:
    """The measures of each generation's real plan, with the one before as its past.

    measured
        ``table_measures`` where that is enough.
    """
    measures = []
    earlier: Step | None = None
    owner: Ints = np.empty(0, dtype=np.int64)
    for now in walk:
        past = without_past(now) if earlier is None or not now.follows else follow(earlier, owner, now)
        given = now.group.owner
        measures.append(measured(past, given))
        # What was withheld stays its last owner's until somebody else has it: a move is counted once, when it ends.
        owner, earlier = np.where(given != NOBODY, given, past.owner), now
    return measures


def replay_to_dict(
    name: str, assignor: str, walked: Sequence[Replayed], rows: Sequence[Rebalance] = ()
) -> dict[str, Any]:
    """The JSON of ``apportion replay``: every generation, and the totals.

    rows
        The group's rebalances: how long each really took and what really stood still stands beside its moves.
    """
    stood = standstills([step.generation for step in walked], rows)
    still_of = {
        row.source_offset: {
            "duration_ms_then": row.duration_ms,
            **{f"{column}_then": value for column, value in stood[row.source_offset].columns(row.kind).items()},
        }
        for row in rows
    }
    return {
        "version": 1,
        "group": name,
        "assignor": assignor,
        "generations": [_row(step) | still_of.get(step.generation.offset, {}) for step in walked],
        "total": total(walked),
    }


def _row(step: Replayed) -> dict[str, Any]:
    row: dict[str, Any] = {
        "generation": step.generation.number,
        "kind": step.generation.kind,
        "source_offset": step.generation.offset,
        "at_ms": step.generation.at,
        "members": step.members,
        "partitions": step.partitions,
    }
    for name in MEASURES:
        if name in step.measures:
            row[name] = step.measures[name]
        if name in step.then:
            row[f"{name}_then"] = step.then[name]
    return row


def total(walked: Sequence[Replayed]) -> dict[str, int]:
    """Moves and rack misses in all generations, and the widest difference of loads."""
    return {
        "generations": len(walked),
        "moves": sum(step.measures["moves"] for step in walked),
        "moves_then": sum(step.then["moves"] for step in walked),
        "rack_misses": sum(step.measures["rack_misses"] for step in walked),
        "rack_misses_then": sum(step.then["rack_misses"] for step in walked),
        "skew_max": max((step.measures["load_max"] - step.measures["load_min"] for step in walked), default=0),
        "skew_max_then": max((step.then["load_max"] - step.then["load_min"] for step in walked), default=0),
    }
