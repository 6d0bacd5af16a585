"""A streams group's epochs walked again with our own task assignor or the broker's, beside what really happened.

The broker's (``sticky``, Kafka 4.3) keeps tasks where they are within a quota and moves the others at once, whether
there is state of theirs or not. Ours moves a task with state only to a process that has caught up, and until then
restores a copy there: the rounds in between, which a group runs by itself, are walked here too, each as soon as the
copies are restored. Tasks and processes are judged alike for both, by what was to be restored. The broker's is also
walked itself, with other numbers of standbys than the group asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from apportion.history.broker_tasks import BrokerSticky, given_by
from apportion.history.predicted_targets import Score
from apportion.history.records import STREAMS, Generation, GenerationMember, counts_after
from apportion.history.scenarios import AS_IS, REPLAY, ScenarioResult, sentence
from apportion.server_side.sticky_tasks import MemberTasks
from apportion.tasks.application_state import Process
from apportion.tasks.plan import TaskPlan, plan_tasks
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology

MOST_ROUNDS: Final = 100
"""Rounds after one epoch; two copies a round are restored by default."""
TaskStrategy = TaskSettings | BrokerSticky
VARIANTS: Final[Mapping[str, TaskStrategy]] = {
    f"{name}{f' num_standby_replicas={n}' if n else ''}": of(num_standby_replicas=n)
    for name, of in (("streams", TaskSettings), (BrokerSticky.name, BrokerSticky))
    for n in range(3)
}
"""How tables call our assignor and the broker's -> with how many standbys each."""
MEASURES: Final = ("moves", "cold", "restored", "load_min", "load_max", "standbys")

Held = Mapping[str, frozenset[Task]]
"""Process to tasks."""


@dataclass(frozen=True)
class Layout:
    """Who runs what, and who keeps copies: process to tasks; loads are active tasks of each thread.

    by_member
        The same by member (its identity), where the broker's assignor gave it: it goes on from there.
    """

    active: Held
    copies: Held
    loads: tuple[int, ...]
    by_member: Mapping[str, MemberTasks] = field(default_factory=dict)


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


@dataclass(frozen=True)
class _Epoch:
    """An epoch as our assignor sees it: sub-topologies by number, members gathered by process."""

    generation: Generation
    topology: Topology
    partitions: Mapping[str, int]
    number: Mapping[str, int]
    members: Mapping[str, tuple[GenerationMember, ...]]

    @property
    def tasks(self) -> int:
        return sum(self.partitions.values())


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
        epoch = _epoch(generation, counts)
        if not generation.members or not epoch.tasks:
            continue
        given = _given(epoch)
        planned, rounds, moved = _settle(epoch, ours, settings)
        measures = _measures(epoch, ours, planned) | moved
        walked.append(TaskEpoch(generation, epoch.tasks, measures, _measures(epoch, broker, given), rounds))
        ours, broker = planned, given
    return walked


def _epoch(generation: Generation, counts: Mapping[str, int]) -> _Epoch:
    stateless = set(generation.facts.get("stateless") or ())
    names = sorted(counts)
    subtopologies = [Subtopology((name,), None if name in stateless else f"{name}-changelog") for name in names]
    members: dict[str, list[GenerationMember]] = {}
    for member in generation.members:
        members.setdefault(member.process_id or member.identity, []).append(member)
    return _Epoch(
        generation,
        Topology(tuple(subtopologies)),
        counts,
        {name: n for n, name in enumerate(names)},
        {process: tuple(mine) for process, mine in sorted(members.items())},
    )


def _given(epoch: _Epoch) -> Layout:
    """What the broker's targets gave."""
    active, copies = (
        {process: frozenset(_tasks(epoch, mine, roles)) for process, mine in epoch.members.items()}
        for roles in (("active",), ("standby", "warmup"))
    )
    loads = [sum(map(len, member.roles.get("active", {}).values())) for member in epoch.generation.members]
    return Layout(active, copies, tuple(loads), given_by(epoch.generation.members))


def _tasks(epoch: _Epoch, members: Iterable[GenerationMember], roles: Sequence[str]) -> Iterable[Task]:
    for member in members:
        for role in roles:
            for name, ids in member.roles.get(role, {}).items():
                if name in epoch.number:
                    yield from (Task(epoch.number[name], p) for p in ids if 0 <= p < epoch.partitions[name])


def _settle(epoch: _Epoch, past: Layout | None, settings: TaskStrategy) -> tuple[Layout, int, dict[str, int]]:
    """Plan until every task runs where it should: the last layout, the rounds, and moves and restores on the way."""
    if isinstance(settings, BrokerSticky):
        layout = _by_the_broker(epoch, past, settings)
        return layout, 1, _on_the_way(epoch, past, layout)
    layout, settled = _plan(epoch, past, settings)
    walked = _on_the_way(epoch, past, layout)
    rounds = 1
    while not settled and rounds < MOST_ROUNDS:
        after, settled = _plan(epoch, layout, settings)
        step = _on_the_way(epoch, layout, after)
        walked = {name: walked[name] + step[name] for name in walked}
        layout, rounds = after, rounds + 1
    return layout, rounds, walked


def _by_the_broker(epoch: _Epoch, past: Layout | None, settings: BrokerSticky) -> Layout:
    """What the broker's assignor gives the epoch's members, from what it gave them before."""
    given = settings.give(epoch.generation, epoch.partitions, past.by_member if past else {})

    def gathered(role: str) -> Held:
        return {
            process: frozenset(
                Task(epoch.number[name], p) for member in mine for name, p in getattr(given[member.identity], role)
            )
            for process, mine in epoch.members.items()
        }

    loads = tuple(len(given[member.identity].active) for member in epoch.generation.members)
    return Layout(gathered("active"), gathered("standby"), loads, given)


def _plan(epoch: _Epoch, past: Layout | None, settings: TaskSettings) -> tuple[Layout, bool]:
    plan = plan_tasks(epoch.topology, epoch.partitions, _processes(epoch, past), settings)
    return _layout(plan), plan.answer.settled


def _on_the_way(epoch: _Epoch, before: Layout | None, after: Layout) -> dict[str, int]:
    measures = _measures(epoch, before, after)
    return {name: measures[name] for name in ("moves", "cold", "restored")}


def _processes(epoch: _Epoch, past: Layout | None) -> list[Process]:
    """The members of an epoch by process, with what each process ran and kept before; what it kept is caught up."""
    processes = []
    for process, members in epoch.members.items():
        ran = past.active.get(process, frozenset()) if past else frozenset()
        kept = past.copies.get(process, frozenset()) if past else frozenset()
        processes.append(
            Process(
                process,
                tuple(member.identity for member in members),
                active=dict.fromkeys(ran),
                standby=kept,
                lag=dict.fromkeys(kept, 0),
                rack=members[0].rack,
            )
        )
    return processes


def _layout(plan: TaskPlan) -> Layout:
    def gathered(*roles: Mapping[str, Mapping[str, list[Task]]]) -> Held:
        return {
            process: frozenset(task for held in roles for tasks in held[process].values() for task in tasks)
            for process in plan.active
        }

    loads = tuple(len(tasks) for held in plan.active.values() for tasks in held.values())
    return Layout(gathered(plan.active), gathered(plan.standby, plan.warmup), loads)


def _measures(epoch: _Epoch, before: Layout | None, after: Layout) -> dict[str, int]:
    """How one layout follows from another."""
    owner = {task: process for process, tasks in (before.active if before else {}).items() for task in tasks}
    had = {process: _state(before, process) for process in after.active}
    moves = cold = restored = 0
    for process, tasks in after.active.items():
        for task in tasks:
            stateful = epoch.topology.subtopologies[task.subtopology].stateful
            moves += owner.get(task, process) != process and owner[task] in after.active
            cold += stateful and task in owner and task not in had[process]
            restored += stateful and task not in had[process]
        restored += len(after.copies.get(process, frozenset()) - had[process])
    return {
        "moves": moves,
        "cold": cold,
        "restored": restored,
        "load_min": min(after.loads),
        "load_max": max(after.loads),
        "standbys": sum(map(len, after.copies.values())),
    }


def _state(layout: Layout | None, process: str) -> frozenset[Task]:
    """Tasks whose state a process has: those that it ran and those that it kept."""
    if layout is None:
        return frozenset()
    return layout.active.get(process, frozenset()) | layout.copies.get(process, frozenset())


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


def _present(generations: Sequence[Generation]) -> list[tuple[str, _Epoch, Layout]]:
    """The scenarios on the last epoch, each with what the broker had given before."""
    last = generations[-1]
    epoch = _epoch(last, counts_after(generations)[-1])
    if last.kind != STREAMS or not last.members or not epoch.tasks:
        return []
    given = _given(epoch)
    joined = replace(last, members=(*last.members, GenerationMember("new-1")))
    scenarios = [(AS_IS, epoch, given), ("join", _epoch(joined, epoch.partitions), given)]
    if len(epoch.members) > 1:
        busiest = max(sorted(given.active), key=lambda process: len(given.active[process]))
        stay = tuple(member for process, mine in epoch.members.items() if process != busiest for member in mine)
        scenarios.append(("leave", _epoch(replace(last, members=stay), epoch.partitions), given))
    return scenarios


def _changed(name: str, settings: TaskStrategy, scenario: str, epoch: _Epoch, given: Layout) -> ScenarioResult:
    layout, _, walked = _settle(epoch, given, settings)
    return ScenarioResult(name, scenario, 1, walked["moves"], load_min=min(layout.loads), load_max=max(layout.loads))


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
        sums[f"skew_max{suffix}"] = max((one["load_max"] - one["load_min"] for one in loads), default=0)
    return sums
