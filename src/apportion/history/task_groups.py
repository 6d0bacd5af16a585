"""A streams group's epochs as groups whose partitions are tasks: replayed, changed and planned as others are.

Sub-topologies stand for topics, task numbers for partitions, processes for hosts; members tell of the copies that they
keep, warm-ups among them. Each epoch is settled: our strategy moves a task with state only to a process that has caught
up, and the rounds in between, which a group runs by itself, are walked too, each as soon as the copies are restored.
The broker's moves tasks at once. Both are judged alike, by processes, and by what was to be restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from apportion import whatif
from apportion.arrays import NOBODY
from apportion.assignors import Assignor, find, known
from apportion.errors import BadInput
from apportion.history.broker_tasks import standbys_of
from apportion.history.predicted_targets import Score
from apportion.history.records import Generation, GenerationMember, counts_after, member_fields
from apportion.history.scenarios import AS_IS, REPLAY, ScenarioResult, sentence
from apportion.history.steps import Step, follow
from apportion.model.build import build
from apportion.model.group import Group, MemberState
from apportion.model.protocols import STREAMS
from apportion.planning import plan
from apportion.strategy.settings import key_of, settings_of
from apportion.strategy.traits import traits_of
from apportion.wording import count

MEASURES: Final = ("moves", "cold", "restored", "load_min", "load_max", "standbys")
SUMMED: Final = ("moves", "cold", "restored")
NOW: Final = "(now)"
STANDBYS: Final = "num_standby_replicas"
VARIANTS: Final = 3
"""Tables hold each assignor of tasks with 0, 1 and 2 standbys."""
Task = tuple[str, int]
"""Sub-topology, number."""


@dataclass(frozen=True)
class Layout:
    """The processes of tasks and of copies: process to tasks; loads are active tasks of each member."""

    active: Mapping[str, set[Task]]
    copies: Mapping[str, set[Task]]
    loads: Sequence[int]


@dataclass(frozen=True)
class TaskEpoch:
    """One epoch: the assignor's plan for it, and the broker's, by the same measures.

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
class TaskStage:
    """One step, once an assignor has settled it.

    assignor
        As ``variants`` calls it; ``broker`` for what stands now.
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


def for_tasks() -> tuple[str, ...]:
    """Strategies of tasks, those that clients run first."""
    traits = {name: traits_of(strategy) for name, strategy in known().items()}
    return tuple(sorted((name for name, mine in traits.items() if mine.stateful), key=lambda n: traits[n].server_side))


def give_tasks(strategy: object) -> bool:
    """Whether it is a strategy of tasks, or the class of one."""
    return traits_of(strategy).stateful


def asks_for_tasks(recipes: Iterable[str]) -> bool:
    """Whether one of them is a strategy of tasks; its rows are then made with every number of standbys."""
    return any(recipe.partition(" ")[0] in for_tasks() for recipe in recipes)


def refused(name: str, group: str) -> BadInput:
    """The error of a strategy that gives partitions, asked about a streams group."""
    needed = f"{' or '.join(for_tasks())}: {group!r} is a streams group, whose tasks move whole"
    return BadInput("assignor", repr(name), needed)


@cache
def variants() -> Mapping[str, Assignor]:
    """How tables call each assignor of tasks -> with how many standbys."""
    return {
        f"{name}{f' {STANDBYS}={n}' if n else ''}": find(name, {STANDBYS: str(n)})
        for name in for_tasks()
        if STANDBYS in settings_of(known()[name])
        for n in range(VARIANTS)
    }


def task_step(name: str, generation: Generation, counts: Mapping[str, int]) -> Step | None:
    """An epoch as a group with the broker's plan in force; None without members or tasks, or of another kind.

    counts
        Sub-topology to its tasks.
    """
    if generation.kind != STREAMS or not generation.members or not sum(counts.values()):
        return None
    names = sorted(counts)
    members = {member.member_id: _fields(member, names, generation.number) for member in generation.members}
    group = build({"group": name, "topics": {name: counts[name] for name in names}, "members": members})
    who = {member.member_id: member.identity for member in generation.members}
    return Step(generation, group, tuple(who[member] for member in group.members))


def _fields(member: GenerationMember, names: Sequence[str], generation: int) -> dict[str, object]:
    copies: dict[str, list[int]] = {}
    for role in ("standby", "warmup"):
        for subtopology, ids in member.roles.get(role, {}).items():
            copies[subtopology] = sorted({*copies.get(subtopology, ()), *ids})
    fields = member_fields(member, member.assigned, generation)
    fields |= {"topics": list(names), "host": member.process_id or member.identity, "standby": copies}
    return {field: value for field, value in fields.items() if value not in (None, {})}


def last_step(name: str, generations: Sequence[Generation]) -> Step:
    """The group of the last epoch.

    Raises
        BadInput: no living streams group.
    """
    last = task_step(name, generations[-1], counts_after(generations)[-1]) if generations else None
    if last is None:
        raise BadInput("group", "a streams group without members or tasks", "one that runs")
    return last


def strategy_for(step: Step, strategy: Assignor, *, standbys: bool = False) -> Assignor:
    """The strategy with the records' facts about the epoch: processes, tasks without state, and copies asked for.

    standbys
        Whether copies count where the strategy has none; else only where it leaves them to the group.
    """
    known_settings = settings_of(type(strategy))
    stateless = sorted(set(step.generation.facts.get("stateless") or ()) & set(step.group.topics))
    fields: dict[str, object] = {"process": "host", "stateless": tuple(stateless)}
    if getattr(strategy, STANDBYS, 0) is None or standbys:
        fields[STANDBYS] = standbys_of(step.generation)
    mine: Any = strategy
    changed: Assignor = replace(mine, **{field: fields[field] for field in fields if field in known_settings})
    return changed


def asked_for(step: Step, name: str | None, settings: Mapping[str, str]) -> Assignor:
    """The strategy of tasks of that name, with the standbys that the group asks for; None: the broker's own.

    Raises
        BadInput, UnknownName: it gives partitions, no tasks; a name or a setting that does not exist.
    """
    strategy = find(for_tasks()[-1] if name is None else name, settings)
    if not give_tasks(strategy):
        raise refused(strategy.name, step.group.name)
    return strategy_for(step, strategy, standbys=STANDBYS not in map(key_of, settings))


def process_of(group: Group, m: int) -> str:
    """The member's process; its own if it names none."""
    return (group.hosts[m] if group.hosts else None) or group.members[m]


def layout(group: Group) -> Layout:
    """The holders of tasks and copies in a group."""
    active: dict[str, set[Task]] = {process_of(group, m): set() for m in range(group.M)}
    copies: dict[str, set[Task]] = {process: set() for process in active}
    sizes = dict(zip(group.topics, np.diff(group.start).tolist(), strict=True))
    for p in np.flatnonzero(group.owner != NOBODY).tolist():
        active[process_of(group, int(group.owner[p]))].add(group.name_of(p))
    for m, standby in enumerate(group.state.standby if group.state is not None else ()):
        copies[process_of(group, m)].update((t, p) for t, ids in standby.items() for p in ids if p < sizes.get(t, 0))
    return Layout(active, copies, np.bincount(group.owner[group.owner != NOBODY], minlength=group.M).tolist())


def measures_between(before: Layout | None, after: Layout, stateless: Iterable[str]) -> dict[str, int]:
    """How one layout follows from another."""
    owner = {task: process for process, tasks in (before.active if before else {}).items() for task in tasks}
    had = {process: _state(before, process) for process in after.active}
    moves = cold = restored = 0
    for process, tasks in after.active.items():
        for task in tasks:
            absent = task[0] not in stateless and task not in had[process]
            moves += owner.get(task, process) != process and owner[task] in after.active
            cold += absent and task in owner
            restored += absent
        restored += len(after.copies[process] - had[process])
    return {
        "moves": moves,
        "cold": cold,
        "restored": restored,
        "load_min": min(after.loads),
        "load_max": max(after.loads),
        "standbys": sum(map(len, after.copies.values())),
    }


def _state(layout: Layout | None, process: str) -> set[Task]:
    """Tasks whose state a process has: those that it ran and those that it kept."""
    return set() if layout is None else layout.active.get(process, set()) | layout.copies.get(process, set())


def _settle(group: Group, before: Layout | None, strategy: Assignor) -> tuple[Group, int, dict[str, int]]:
    """Plan until every task runs where it should: the last group, the rounds, and the measures over all of them."""
    plans = whatif.rounds(plan(group, strategy), strategy)
    stateless = getattr(strategy, "stateless", ())
    summed, measures = dict.fromkeys(SUMMED, 0), dict[str, int]()
    for each in plans:
        after = layout(whatif.settled(each))
        measures = measures_between(before, after, stateless)
        summed = {name: summed[name] + measures[name] for name in SUMMED}
        before = after
    return whatif.settled(plans[-1]), len(plans), measures | summed


def _on_disk(before: Group, ids: Sequence[str], group: Group, later: Sequence[str], strategy: Assignor) -> Group:
    """The group whose members report the copies that they kept; a living process still has its other members' copies.

    The broker's assignor knows a member's own past alone.
    """
    at = {identity: m for m, identity in enumerate(later)}
    mate = {process_of(group, m): m for m in reversed(range(group.M))}
    standby: list[dict[str, list[int]]] = [{} for _ in range(group.M)]
    for m, identity in enumerate(ids):
        gone = identity not in at
        heir = mate.get(process_of(before, m)) if gone else at[identity]
        if heir is None or (gone and traits_of(strategy).server_side):
            continue
        ran = np.flatnonzero(before.owner == m).tolist() if gone else []
        kept = before.state.standby[m].items() if before.state is not None else ()
        for topic, number in [*((t, p) for t, ns in kept for p in ns), *(before.name_of(p) for p in ran)]:
            standby[heir].setdefault(topic, []).append(number)
    return group.with_state(MemberState(({},) * group.M, tuple(standby), ({},) * group.M))


def replay_tasks(name: str, generations: Sequence[Generation], strategy: Assignor) -> list[TaskEpoch]:
    """Walk a streams group's epochs with an assignor; the first, and each after an empty group, starts with nothing.

    generations
        As ``fold`` gives them; those of other kinds, without members or without tasks are left out.
    Raises
        BadInput: more tasks on processes than can be planned.
    """
    walked: list[TaskEpoch] = []
    past: tuple[Step, Group] | None = None
    broker: Layout | None = None
    for generation, counts in zip(generations, counts_after(generations), strict=True):
        if generation.kind == STREAMS and (generation.fresh or not generation.members):
            past = broker = None
        if (now := task_step(name, generation, counts)) is None:
            continue
        mine, given = strategy_for(now, strategy), layout(now.group)
        group = now.group.without_past().with_state(None)
        if past is not None:
            earlier, ours = past
            group = _on_disk(ours, earlier.identities, follow(earlier, ours.owner, now), now.identities, mine)
        settled, rounds, measures = _settle(group, layout(past[1]) if past else None, mine)
        then = measures_between(broker, given, generation.facts.get("stateless") or ())
        walked.append(TaskEpoch(generation, now.group.P, measures, then, rounds))
        past, broker = (now, settled), given
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
    for measure in SUMMED:
        sums[measure] = sum(epoch.measures[measure] for epoch in walked)
        sums[f"{measure}_then"] = sum(epoch.then[measure] for epoch in walked)
    for suffix in ("", "_then"):
        loads = [epoch.then if suffix else epoch.measures for epoch in walked]
        sums[f"skew_max{suffix}"] = max((load["load_max"] - load["load_min"] for load in loads), default=0)
    return sums


def task_stages(
    name: str, generations: Sequence[Generation], steps: Sequence[str], strategies: Mapping[str, Assignor]
) -> list[TaskStage]:
    """The present, and each step under each assignor, on the result of the same assignor in the step before.

    generations
        As ``fold`` gives them; the last one is where the steps begin.
    steps
        ``join N``: N processes of one thread come. ``leave NAME``: a process goes, or one member of it.
    Raises
        BadInput, UnknownName: no living streams group; a step that is none, or leaves nobody.
    """
    now = last_step(name, generations)
    for text in steps:
        if text.partition(" ")[0] not in ("join", "leave"):
            raise BadInput(text, "a step that has no meaning for tasks", "join N or leave NAME (a process or a member)")
    given = layout(now.group)
    stages = [_stage("broker", NOW, now.group, 0, measures_between(given, given, now.group.topics))]
    for label, strategy in strategies.items():
        group, mine = now.group, strategy_for(now, strategy)
        for text in steps:
            group, rounds, measures = _changed(group, text, mine)
            stages.append(_stage(label, text, group, rounds, measures))
    return stages


def _stage(name: str, step: str, group: Group, rounds: int, measures: Mapping[str, int]) -> TaskStage:
    processes = {process_of(group, m) for m in range(group.M)}
    return TaskStage(name, step, len(processes), group.M, group.P, rounds, measures)


def _changed(before: Group, text: str, strategy: Assignor) -> tuple[Group, int, dict[str, int]]:
    group = whatif.change(before, text) if text else before
    return _settle(_on_disk(before, before.members, group, group.members, strategy), layout(before), strategy)


def task_results(generations: Sequence[Generation]) -> list[ScenarioResult]:
    """Rows of ``gold/whatif`` for a streams group: each assignor of tasks with 0, 1 and 2 standbys.

    Scenarios: the whole history (``replay``, where ``moves_then`` is what the broker moved), and on the present what
    it would move (``as-is``), if a process of one thread joined, and if the one with most active tasks left.
    """
    results: list[ScenarioResult] = []
    if not any(generation.kind == STREAMS for generation in generations):
        return results
    now = task_step("", generations[-1], counts_after(generations)[-1])
    for name, strategy in variants().items():
        try:
            if walked := replay_tasks("", generations, strategy):
                results.append(_replayed(name, walked))
            for scenario, text in _scenarios(now) if now is not None else ():
                assert now is not None  # noqa: S101 - it has scenarios
                _, _, measures = _changed(now.group, text, strategy_for(now, strategy))
                low, high = measures["load_min"], measures["load_max"]
                results.append(ScenarioResult(name, scenario, 1, measures["moves"], load_min=low, load_max=high))
        except Exception as error:  # the errors of one group end in its rows
            results.append(ScenarioResult(name, REPLAY, 0, error=sentence(error)))
    return results


def _scenarios(now: Step) -> Iterable[tuple[str, str]]:
    """Scenario to its step; a group of one process cannot lose it."""
    yield from ((AS_IS, ""), ("join", "join 1"))
    active = layout(now.group).active
    if len(active) > 1:
        yield "leave", f"leave {max(sorted(active), key=lambda process: len(active[process]))}"


def _replayed(name: str, walked: Sequence[TaskEpoch]) -> ScenarioResult:
    whole, end, then = total(walked), walked[-1].measures, walked[-1].then
    return ScenarioResult(
        name, REPLAY, len(walked), whole["moves"], whole["moves_then"], end["load_min"], end["load_max"],
        load_min_then=then["load_min"], load_max_then=then["load_max"],
    )  # fmt: skip


def rollout_sentences(step: Step) -> list[str]:
    """The meaning of a rollout's words for tasks, and the facts that the records leave out."""
    standbys = count(standbys_of(step.generation), "standby")
    means = "Partitions are tasks here, by sub-topology and number, and members are threads; those of one process"
    unknown = "No record shows how far a copy is restored, or whether a process finds its state again"
    return [
        f"{means} restart together. The group asks for {standbys} of each task with state.",
        f"{unknown}: copies count as whole, and a process that comes back begins without state.",
    ]
