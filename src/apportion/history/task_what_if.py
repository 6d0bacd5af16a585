"""What another assignor, a newcomer or a loss would mean for a streams group's tasks, from what the broker gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from apportion.errors import BadInput, UnknownName
from apportion.history.records import STREAMS, Generation, GenerationMember, counts_after
from apportion.history.scenarios import AS_IS, REPLAY, ScenarioResult, sentence
from apportion.history.task_layouts import (
    VARIANTS,
    Epoch,
    Layout,
    TaskStrategy,
    epoch_of,
    given_layout,
    measures_between,
    settle,
)
from apportion.history.task_replay import TaskEpoch, replay_tasks, total

NOW: Final = "(now)"
MOST_PROCESSES: Final = 10_000
"""Newcomers of one step."""


@dataclass(frozen=True)
class TaskStage:
    """One step, once an assignor has settled it.

    assignor
        As ``VARIANTS`` calls it; ``broker`` for what stands now.
    measures
        As ``TaskEpoch`` has them, over all rounds of the step.
    """

    assignor: str
    step: str
    processes: int
    members: int
    tasks: int
    rounds: int
    measures: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """A row of the JSON of ``apportion what-if`` for a streams group."""
        counts = {"processes": self.processes, "members": self.members, "tasks": self.tasks, "rounds": self.rounds}
        return {"assignor": self.assignor, "step": self.step, **counts, **self.measures}


def task_stages(
    generations: Sequence[Generation], steps: Sequence[str], strategies: Mapping[str, TaskStrategy] = VARIANTS
) -> list[TaskStage]:
    """What stands now, and each step under each assignor, on what the same assignor left in the step before.

    generations
        As ``fold`` gives them; the last one is where the steps begin.
    steps
        ``join N``: N processes of one thread come. ``leave NAME``: a process goes, or one member of it.
    Raises
        BadInput, UnknownName: no living streams group; a step that is none, or leaves nobody.
    """
    last = generations[-1] if generations else None
    epoch = epoch_of(last, counts_after(generations)[-1]) if last is not None and last.kind == STREAMS else None
    if epoch is None or not epoch.members or not epoch.tasks:
        raise BadInput("group", "a streams group without members or tasks", "one that runs")
    given = given_layout(epoch)
    stages = [_stage("broker", NOW, epoch, 0, measures_between(epoch, given, given))]
    for name, strategy in strategies.items():
        at, layout = epoch, given
        for step in steps:
            at = _changed_by(at, step)
            after, rounds, moved = settle(at, layout, strategy)
            stages.append(_stage(name, step, at, rounds, measures_between(at, layout, after) | moved))
            layout = after
    return stages


def _stage(name: str, step: str, epoch: Epoch, rounds: int, measures: Mapping[str, int]) -> TaskStage:
    members = len(epoch.generation.members)
    return TaskStage(name, step, len(epoch.members), members, epoch.tasks, rounds, measures)


def _changed_by(epoch: Epoch, step: str) -> Epoch:
    verb, _, argument = step.partition(" ")
    generation, members = epoch.generation, epoch.generation.members
    if verb == "join":
        members = (*members, *_newcomers(members, argument))
    elif verb == "leave":
        members = _without(epoch, argument)
    else:
        raise BadInput(step, "a step that has no meaning for tasks", "join N or leave NAME (a process or a member)")
    return epoch_of(replace(generation, members=members), epoch.partitions)


def _newcomers(members: Sequence[GenerationMember], argument: str) -> list[GenerationMember]:
    if not (argument.isascii() and argument.isdecimal() and len(argument) < 6 and 0 < int(argument) <= MOST_PROCESSES):
        raise BadInput("join", repr(argument[:60]), f"how many processes come, from 1 to {MOST_PROCESSES:,}")
    taken = {member.member_id for member in members}
    free = (name for n in range(1, MOST_PROCESSES + len(taken) + 1) if (name := f"new-{n}") not in taken)
    return [GenerationMember(next(free)) for _ in range(int(argument))]


def _without(epoch: Epoch, name: str) -> tuple[GenerationMember, ...]:
    """The members that stay when a process goes, or a member by its id, instance id or a client id of its own."""
    members = epoch.generation.members
    gone = epoch.members.get(name) or [member for member in members if name in (member.member_id, member.instance_id)]
    gone = gone or [member for member in members if member.client_id == name]
    if not gone:
        raise UnknownName("process or member", name, [*epoch.members, *(member.member_id for member in members)])
    if len(gone) > 1 and name not in epoch.members:
        ids = ", ".join(member.member_id for member in gone)
        raise BadInput("leave", f"{name!r}, the client id of {len(gone)} members", f"one of {ids}")
    gone_ids = {member.member_id for member in gone}
    stay = tuple(member for member in members if member.member_id not in gone_ids)
    if not stay:
        raise BadInput(f"leave {name}", "nobody left in the group", "a member that stays")
    return stay


def task_results(generations: Sequence[Generation]) -> list[ScenarioResult]:
    """Rows of ``gold/whatif`` for a streams group: our assignor and the broker's with 0, 1 and 2 standbys each.

    Scenarios: the whole history (``replay``, where ``moves_then`` is what the broker moved), and on the present what
    it would move (``as-is``), if a process of one thread joined, and if the one with most active tasks left.
    """
    results: list[ScenarioResult] = []
    if not any(generation.kind == STREAMS for generation in generations):
        return results
    present = _present(generations)
    for name, settings in VARIANTS.items():
        try:
            walked = replay_tasks(generations, settings)
            if walked:
                results.append(_replayed(name, walked))
            results += [_changed(name, settings, *change) for change in present]
        except Exception as error:  # the errors of one group end in its rows
            results.append(ScenarioResult(name, REPLAY, 0, error=sentence(error)))
    return results


def _replayed(name: str, walked: Sequence[TaskEpoch]) -> ScenarioResult:
    whole, end, then = total(walked), walked[-1].measures, walked[-1].then
    return ScenarioResult(
        name, REPLAY, len(walked), whole["moves"], whole["moves_then"], end["load_min"], end["load_max"],
        load_min_then=then["load_min"], load_max_then=then["load_max"],
    )  # fmt: skip


def _present(generations: Sequence[Generation]) -> list[tuple[str, Epoch, Layout]]:
    """The scenarios on the last epoch, each with what the broker had given before."""
    last = generations[-1]
    epoch = epoch_of(last, counts_after(generations)[-1])
    if last.kind != STREAMS or not last.members or not epoch.tasks:
        return []
    given = given_layout(epoch)
    joined = replace(last, members=(*last.members, GenerationMember("new-1")))
    scenarios = [(AS_IS, epoch, given), ("join", epoch_of(joined, epoch.partitions), given)]
    if len(epoch.members) > 1:
        busiest = max(sorted(given.active), key=lambda process: len(given.active[process]))
        stay = tuple(member for process, mine in epoch.members.items() if process != busiest for member in mine)
        scenarios.append(("leave", epoch_of(replace(last, members=stay), epoch.partitions), given))
    return scenarios


def _changed(name: str, settings: TaskStrategy, scenario: str, epoch: Epoch, given: Layout) -> ScenarioResult:
    layout, _, walked = settle(epoch, given, settings)
    return ScenarioResult(name, scenario, 1, walked["moves"], load_min=min(layout.loads), load_max=max(layout.loads))
