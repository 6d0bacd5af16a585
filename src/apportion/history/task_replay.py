"""A streams group's epochs walked again with our own task assignor or the broker's, beside what really happened.

The broker's (``sticky``, Kafka 4.3) keeps tasks where they are within a quota and moves the others at once, whether
there is state of theirs or not. Ours moves a task with state only to a process that has caught up, and until then
restores a copy there: the rounds in between, which a group runs by itself, are walked here too, each as soon as the
copies are restored. Tasks and processes are judged alike for both, by what was to be restored. The broker's is also
walked itself, with other numbers of standbys than the group asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from apportion.history.predicted_targets import Score
from apportion.history.records import STREAMS, Generation, counts_after
from apportion.history.task_layouts import Layout, TaskStrategy, epoch_of, given_layout, measures_between, settle

MEASURES: Final = ("moves", "cold", "restored", "load_min", "load_max", "standbys")


@dataclass(frozen=True)
class TaskEpoch:
    """One epoch: what the assignor would have made of it, and what the broker made of it, by the same measures.

    measures, then
        ``moves``: active tasks that went from one process to another that both stay. ``cold``: of all active tasks with
        state that changed their process, those that began where there was no copy. ``restored``: copies that were
        begun from nothing, active or not. ``load_min``, ``load_max``: active tasks of a thread. ``standbys``.
    rounds
        Rebalances that it took; the broker takes one.
    """

    generation: Generation
    tasks: int
    measures: dict[str, int]
    then: dict[str, int]
    rounds: int


def replay_tasks(generations: Sequence[Generation], settings: TaskStrategy) -> list[TaskEpoch]:
    """Walk a streams group's epochs with an assignor; the first, and each after an empty group, starts with nothing.

    generations
        As ``fold`` gives them; those of other kinds, without members or without tasks are left out.
    Raises
        BadInput: more tasks on processes than can be planned.
    """
    walked: list[TaskEpoch] = []
    ours: Layout | None = None
    broker: Layout | None = None
    for generation, counts in zip(generations, counts_after(generations), strict=True):
        if generation.kind != STREAMS:
            continue
        if generation.fresh or not generation.members:
            ours = broker = None
        epoch = epoch_of(generation, counts)
        if not generation.members or not epoch.tasks:
            continue
        given = given_layout(epoch)
        planned, rounds, moved = settle(epoch, ours, settings)
        measures = measures_between(epoch, ours, planned) | moved
        walked.append(TaskEpoch(generation, epoch.tasks, measures, measures_between(epoch, broker, given), rounds))
        ours, broker = planned, given
    return walked


def replay_to_dict(name: str, assignor: str, walked: Sequence[TaskEpoch], score: Score | None = None) -> dict[str, Any]:
    """The JSON of ``apportion replay`` for a streams group: every epoch, and the totals.

    score
        How many of the broker's recorded targets its own assignor, as we follow it, gave to the task.
    """
    return {
        "version": 1,
        "group": name,
        "assignor": assignor,
        "generations": [_row(epoch) for epoch in walked],
        "total": total(walked),
        **({"score": {"epochs": score.epochs, "predicted": score.predicted}} if score is not None else {}),
    }


def _row(epoch: TaskEpoch) -> dict[str, Any]:
    row: dict[str, Any] = {
        "generation": epoch.generation.number,
        "kind": epoch.generation.kind,
        "source_offset": epoch.generation.offset,
        "at_ms": epoch.generation.at,
        "members": len(epoch.generation.members),
        "tasks": epoch.tasks,
        "rounds": epoch.rounds,
    }
    for measure in MEASURES:
        row[measure], row[f"{measure}_then"] = epoch.measures[measure], epoch.then[measure]
    return row


def total(walked: Sequence[TaskEpoch]) -> dict[str, int]:
    """Moves, cold starts and restored copies of all epochs, the widest difference of loads, and rebalances taken."""
    sums: dict[str, int] = {"generations": len(walked), "rounds": sum(epoch.rounds for epoch in walked)}
    for measure in ("moves", "cold", "restored"):
        sums[measure] = sum(epoch.measures[measure] for epoch in walked)
        sums[f"{measure}_then"] = sum(epoch.then[measure] for epoch in walked)
    for suffix in ("", "_then"):
        loads = [epoch.then if suffix else epoch.measures for epoch in walked]
        sums[f"skew_max{suffix}"] = max((load["load_max"] - load["load_min"] for load in loads), default=0)
    return sums
