"""Streams: tasks of co-read partitions move whole, onto warm state, in the manner of Kafka Streams.

It does not speak Kafka Streams' byte protocol, create internal topics, or probe versions; see ``apportion.tasks``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from apportion.arrays import CELLS, NOBODY, UNKNOWN, Ints, ints
from apportion.errors import BadInput, UnknownName
from apportion.model.group import Group, MemberState
from apportion.model.plan import Answer, Later, hand_over
from apportion.tasks.application_state import ApplicationState, Process, application_state
from apportion.tasks.assignor import GOALS, TaskAnswer, place_active
from apportion.tasks.explain import TaskReasons
from apportion.tasks.identical_processes import IdenticalState, NotCounted, active_of, copies_of, target_of
from apportion.tasks.place import LARGE, place_at_previous
from apportion.tasks.plan import TaskPlan, plan_tasks
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Partitions, Subtopology, Task, Topology

Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Streams(TaskSettings):
    """Tasks on processes with standbys and warm-ups; a group's own claims are the past active tasks.

    subtopologies
        Topics that are read together, each sub-topology's joined by ``+``; every other topic is one by itself.
    stateless
        Topics whose sub-topology keeps no state; the others' state is restored from a changelog.
    process
        What shares local state: each ``member`` alone, or all members of a ``host``.

    A task goes only to a member that wants all of its topics; with unequal subscriptions too the plan is exact.
    What a member claims counts as warm there, and what it keeps a standby of; where it tells how far its state is
    restored, that counts. The runtime in ``apportion.clients`` tells real lags and uses ``plan_tasks``.
    The second round gives the same target, but where the first one knew of state that nobody claims in the second: of
    a task that changes its thread within a host, or whose partitions two members claim. Of tasks with and without state
    together it may give another one, if nothing binds one of the former.
    Goals: every task active once > on a caught-up process > balanced per thread > balanced per process > fewest moved
    tasks > standbys apart, caught up and balanced. Source: KIP-441, KIP-708, KIP-925.
    """

    subtopologies: tuple[str, ...] = ()
    stateless: tuple[str, ...] = ()
    process: Literal["member", "host"] = "member"

    name: ClassVar[str] = "streams"
    on_foreign: ClassVar[str] = "stop"
    assigned_data: ClassVar[bool] = True
    stateful: ClassVar[bool] = True
    promise: ClassVar[str] = "tasks with their state, and standbys"
    also_known_as: ClassVar[Mapping[str, str]] = {
        "apportion-streams": "",
        "stream": " (Kafka Streams has a protocol of its own for that: streams)",
    }
    reads: ClassVar[frozenset[str]] = frozenset({"racks"})
    structural: ClassVar[str] = "order"
    goals: ClassVar[tuple[str, ...]] = GOALS
    cooperative: ClassVar[bool] = True
    leaves: ClassVar[bool] = True  # a task of which nobody wants all topics

    def assign(self, group: Group) -> Answer:
        """Return the owners of partitions by whole tasks, and the task plan with them."""
        self._check(group)
        topology = self.topology(group)
        partitions = _partitions(group)
        members = [m for m in range(group.M) if len(group.subscriptions[group.subscription_of[m]])]
        counts = topology.counts(partitions)
        if not members or not any(counts):
            return Answer(np.full(group.P, NOBODY, dtype=np.int64), together=np.arange(group.P))
        if (answer := self._on_identical(group, topology, partitions, members)) is not None:
            return answer
        number_of, tasks = _task_numbers(group, topology, counts), topology.tasks(partitions)
        together = np.where(number_of != NOBODY, number_of, len(tasks) + np.arange(group.P))
        racks = {} if self.rack_aware_assignment_strategy == "none" else _racks(group)  # else nobody asks for them
        wants = _wants(group, topology, partitions, members)

        def planned(of: Group) -> tuple[Ints, TaskPlan]:
            plan = plan_tasks(topology, partitions, self._processes(of, number_of, tasks, members, wants), self, racks)
            return _owners(of, number_of, tasks, plan), plan

        owner, plan = planned(group)
        state = plan.application
        if state.ran_at is None and state.threads.max() == 1:  # else the next round does not know what was whose host's
            again = _as_next_round(group, owner, together, planned)
            if again is not None:
                owner, plan = again[0], plan.with_active(again[1].answer.active)
        return Answer(
            owner,
            proof=plan.answer.proof,
            measures={
                "standbys": int(plan.answer.standby.sum()),
                "warmups": int(plan.answer.warmup.sum()),
                **({"restored": plan.restored} if plan.restored else {}),
            },
            extra={"tasks": _fields(plan)},
            certificate=TaskReasons(topology, plan),
            together=together,
            state=_restored(group, number_of, *_held(group, tasks, plan), np.arange(group.M)),
            waits=not plan.answer.settled,
        )

    def _check(self, group: Group) -> None:
        """Refuse names that no topic has, and settings that cannot count in this group."""
        joined = [part for text in self.subtopologies for part in text.split("+") if part]
        for setting, names in (("subtopologies", joined), ("stateless", self.stateless)):
            for name in names:
                if name not in group.topics:
                    raise UnknownName(f"topic in {setting}", name, group.topics)
        known = {tag for tags in group.state.tags for tag in tags} if group.state is not None else set[str]()
        for tag in self.rack_aware_assignment_tags:
            if tag not in known:
                reason = f"{tag!r}, a tag that no member has" if known else f"{tag!r}, and no member has tags"
                raise BadInput("rack.aware.assignment.tags", reason, "a key of members' tags (members.M.tags)")
        if self.rack_aware_assignment_tags and not self.num_standby_replicas:
            raise BadInput("rack.aware.assignment.tags", "no standbys to keep apart", "num.standby.replicas above 0")
        for cost in ("rack_aware_assignment_traffic_cost", "rack_aware_assignment_non_overlap_cost"):
            if self.rack_aware_assignment_strategy == "none" and getattr(self, cost) != getattr(TaskSettings(), cost):
                reason = f"{getattr(self, cost)}, and rack.aware.assignment.strategy is none"
                raise BadInput(cost.replace("_", "."), reason, "a strategy in which it counts")
        if self.rack_aware_assignment_strategy == "min_traffic" and not (group.racks and group.racks.known):
            reason = "min_traffic, and no member's or no partition's rack is known"
            raise BadInput("rack.aware.assignment.strategy", reason, "racks of members and of partitions, or none")

    def summary(self, group: Group) -> Answer:
        """The owners and the proof that ``assign`` gives, without the task plan: tasks stay on arrays."""
        plain = self.rack_aware_assignment_strategy == "none" and group.state is None
        if self.process != "member" or self.num_standby_replicas or not plain:
            return self.assign(group)
        self._check(group)
        if not self.subtopologies and not self.stateless and _all_warm(group):
            # Each partition is a task by itself, and its state is with its owner alone: there is nothing to choose.
            return Answer(group.owner, proof=dict.fromkeys(GOALS[:-1], "optimal"))
        topology = self.topology(group)
        partitions = _partitions(group)
        counts = topology.counts(partitions)
        members = sorted(
            (m for m in range(group.M) if len(group.subscriptions[group.subscription_of[m]])),
            key=group.members.__getitem__,
        )
        if not members or not any(counts) or sum(counts) * len(members) > CELLS:
            return self.assign(group)
        if (answer := self._on_identical(group, topology, partitions, members)) is not None:
            return answer
        task_of = _task_numbers(group, topology, counts)
        wants = _wants(group, topology, partitions, members)

        def planned(of: Group) -> tuple[Ints, dict[str, str]]:
            active, proof = self._active(of, topology, counts, task_of, members, wants)
            runs = (task_of != NOBODY) & (active[task_of] != NOBODY)
            return np.where(runs, ints(members)[active[task_of]], NOBODY), proof

        owner, proof = planned(group)
        alone = sum(counts) + np.arange(group.P)
        again = _as_next_round(group, owner, np.where(task_of != NOBODY, task_of, alone), planned)
        return Answer(owner if again is None else again[0], proof=proof)

    def _active(
        self, group: Group, topology: Topology, counts: list[int], task_of: Ints, members: list[int],
        wants: Mapping[str, frozenset[int]] | None,
    ) -> tuple[Ints, dict[str, str]]:  # fmt: skip
        """(tasks,) each task's member, by its index, and the proof of it."""
        if wants is None and not self.subtopologies and not self.stateless:
            # A partition is a task, and warm with its owner alone: it stays there, or goes anywhere at one price.
            home, process_of = np.full(sum(counts), NOBODY, dtype=np.int64), np.full(group.M, NOBODY, dtype=np.int64)
            process_of[members] = np.arange(len(members))
            held = np.flatnonzero((group.owner != NOBODY) & (task_of != NOBODY))
            home[task_of[held]] = process_of[group.owner[held]]
            active = place_at_previous(home, len(members))
            if active is not None:
                return active, dict.fromkeys(GOALS[:-1], "optimal")
        return place_active(_state(group, topology, counts, task_of, members, wants), self)

    def _on_identical(
        self, group: Group, topology: Topology, partitions: Partitions, members: list[int]
    ) -> Answer | None:
        """The answer by counting (``tasks.identical_processes``) to a large group of like members; else None.

        Names are made when somebody looks: a rollout plans such a group thousands of times.
        """
        counts = topology.counts(partitions)
        plain = self.rack_aware_assignment_strategy == "none" and not self.rack_aware_assignment_tags
        if self.process != "member" or self.num_standby_replicas > 1 or not plain:
            return None
        if not LARGE <= sum(counts) * len(members) <= CELLS or _wants(group, topology, partitions, members) is not None:
            return None
        if not all(sub.stateful for sub, n in zip(topology.subtopologies, counts, strict=True) if n):
            return None
        task_of = _task_numbers(group, topology, counts)
        ordered = ints(sorted(members, key=group.members.__getitem__))
        stated = _told_copies(group, task_of, ordered)
        by_number = np.append(ordered, NOBODY)

        def planned(of: Group) -> tuple[Ints, Ints]:
            active = active_of(_identical_state(of, task_of, ordered, sum(counts), stated), self)
            return by_number[np.append(active, NOBODY)[task_of]], active

        together = np.where(task_of != NOBODY, task_of, sum(counts) + np.arange(group.P))
        try:
            owner, active = planned(group)
            owner, active = _as_next_round(group, owner, together, planned) or (owner, active)
            state = _identical_state(group, task_of, ordered, sum(counts), stated)
            target = target_of(state, active)
            copies = copies_of(state, active, target, self)
        except NotCounted:
            return None
        proof = dict.fromkeys(GOALS if self.num_standby_replicas else GOALS[:-1], "optimal")
        keepers = ints([]) if copies.standby is None else copies.standby
        kept = np.arange(len(keepers))

        def whole() -> TaskPlan:
            processes = self._processes(group, task_of, topology.tasks(partitions), members, None)
            application = application_state(topology, partitions, processes)
            standby, warmup = np.zeros((2, *application.lag.shape), dtype=np.bool_)
            standby[kept, keepers] = True
            warmup[copies.task, copies.process] = True
            return TaskPlan(application, TaskAnswer(active, target, standby, warmup, proof, copies.even), self)

        held = np.concatenate([kept, copies.task]), np.concatenate([keepers, copies.process])
        return Answer(
            owner,
            proof=proof,
            measures={"standbys": len(kept), "warmups": len(copies.task)},
            extra=Later({"tasks": lambda: _fields(whole())}),
            certificate=_LaterReasons(topology, whole),
            together=together,
            state=_restored(group, task_of, *held, ordered),
            waits=not copies.even or bool((active != target).any()),
        )

    def topology(self, group: Group) -> Topology:
        """The sub-topologies that the settings name, then one for each topic that is left."""
        wanted = [topic for t, topic in enumerate(group.topics) if group.wanted_topic[t]]
        joined = [tuple(part for part in text.split("+") if part) for text in self.subtopologies]
        named = {topic for topics in joined for topic in topics}
        sets = [*joined, *((topic,) for topic in wanted if topic not in named)]
        subtopologies = []
        for topics in sets:
            stateful = not set(topics) & set(self.stateless)
            subtopologies.append(Subtopology(topics, "-".join(topics) + "-changelog" if stateful else None))
        return Topology(tuple(subtopologies))

    def _processes(
        self, group: Group, number_of: Ints, tasks: Sequence[Task], members: list[int],
        wants: Mapping[str, frozenset[int]] | None,
    ) -> list[Process]:  # fmt: skip
        """Members as processes, or gathered by host; past active tasks are those whose partitions they own."""
        ran: dict[int, dict[Task, str | None]] = {m: {} for m in members}
        for p in np.flatnonzero(group.owner != NOBODY).tolist():
            n, m = int(number_of[p]), int(group.owner[p])
            if n != NOBODY and m in ran:
                ran[m][tasks[n]] = group.members[m]
        copies: dict[int, dict[Task, int]] = {m: {} for m in members}
        stated = (column.tolist() for column in _told_copies(group, number_of, ints(members)))
        for n, place, lack in zip(*stated, strict=True):
            copies[members[place]][tasks[n]] = lack
        processes = []
        for process_id, mine in _gathered(group, members, by_host=self.process == "host").items():
            lag: dict[Task, int] = {}
            for m in mine:
                # Who runs a task and does not say otherwise has all of its state, whatever another of its host lacks.
                for task, missing in {**dict.fromkeys(ran[m], 0), **copies[m]}.items():
                    lag[task] = min(missing, lag.get(task, missing))
            tags = [group.state.tags[m] for m in reversed(mine)] if group.state is not None else []
            processes.append(
                Process(
                    process_id,
                    tuple(group.members[m] for m in mine),
                    active={task: who for m in mine for task, who in ran[m].items()},
                    lag=lag,
                    tags={tag: value for member_tags in tags for tag, value in member_tags.items()},
                    rack=_rack(group, mine[0]),
                    wants=wants,
                )
            )
        return processes


@dataclass(frozen=True, eq=False)
class _LaterReasons:
    """The certificate of a plan that is made when somebody asks."""

    topology: Topology
    plan: Callable[[], TaskPlan]

    def explain(self, group: Group) -> list[str]:
        """A sentence or two for each goal."""
        return TaskReasons(self.topology, self.plan()).explain(group)


def _fields(plan: TaskPlan) -> dict[str, Any]:
    """The facts in plan.json about tasks."""
    return {key: value for key, value in plan.to_dict().items() if key not in ("proof", "measures")}


def _gathered(group: Group, members: list[int], *, by_host: bool) -> dict[str, list[int]]:
    """Process to its members: those of a host, and each alone that has none or if hosts play no part."""
    hosts = {m: group.hosts[m] for m in members if by_host and group.hosts and group.hosts[m]}
    gathered: dict[str, list[int]] = {}
    for m in members:
        process = hosts.get(m) or group.members[m]
        while m not in hosts and process in hosts.values():
            process += " (no host)"  # a member may be called as another's host
        gathered.setdefault(process, []).append(m)
    return gathered


def _held(group: Group, tasks: Sequence[Task], plan: TaskPlan) -> tuple[Ints, Ints]:
    """(C,) the numbers of the tasks of which copies are kept or restored, and the members that do so."""
    number, index = {task: n for n, task in enumerate(tasks)}, {member: m for m, member in enumerate(group.members)}
    by_consumer = [held for role in (plan.standby, plan.warmup) for held in role.values()]
    pairs = [(number[task], index[m]) for held in by_consumer for m, kept in held.items() for task in kept]
    task, member = ints(pairs).reshape(-1, 2).T
    return task, member


def _told_copies(group: Group, task_of: Ints, members: Ints) -> tuple[Ints, Ints, Ints]:
    """(C,) tasks, positions among the members and messages lacking of the copies that members report, each once."""
    if group.state is None:
        return ints([]), ints([]), ints([])
    topic, state = {name: t for t, name in enumerate(group.topics)}, group.state
    places = list(enumerate(members.tolist()))
    # Topic, place, ids and what is lacking: copies of many ids at a time, which a rollout reads thousands of times.
    stated = [(name, q, ids, 0) for q, m in places for name, ids in state.standby[m].items() if name in topic]
    for q, m in places:
        lags = state.recovery_lag[m].items()
        stated += [(name, q, (number,), missing) for (name, number), missing in lags if name in topic]
    sizes = [len(ids) for _, _, ids, _ in stated]
    columns = ints([(topic[name], q, missing) for name, q, _, missing in stated]).reshape(-1, 3)
    t, at, lack = columns.repeat(sizes, axis=0).T
    number = ints([number for _, _, ids, _ in stated for number in ids])
    highest = max(int(number.max(initial=0)), int(group.number.max(initial=0))) + 1
    described, wanted = group.topic_of * highest + group.number, t * highest + number
    p = np.searchsorted(described, wanted)
    there = p < group.P
    there[there] = (described[p[there]] == wanted[there]) & (task_of[p[there]] != NOBODY)
    pairs, which = np.unique(task_of[p[there]] * len(members) + at[there], return_inverse=True)
    most = np.zeros(len(pairs), dtype=np.int64)
    np.maximum.at(most, which, lack[there])
    return pairs // len(members), pairs % len(members), most


def _identical_state(
    group: Group, task_of: Ints, members: Ints, tasks: int, copies: tuple[Ints, Ints, Ints]
) -> IdenticalState:  # fmt: skip
    """The state without names; ``NotCounted`` if two members ran one task, or its owner reports that state lacks."""
    process_of = np.full(group.M, NOBODY, dtype=np.int64)
    process_of[members] = np.arange(len(members))
    held = np.flatnonzero((group.owner != NOBODY) & (task_of != NOBODY))
    ran = np.full(tasks, NOBODY, dtype=np.int64)
    ran[task_of[held]] = process_of[group.owner[held]]
    task, process, lag = copies
    elsewhere = process != ran[task]
    if (ran[task_of[held]] != process_of[group.owner[held]]).any() or lag[~elsewhere].any():
        raise NotCounted
    return IdenticalState(ran, len(members), task[elsewhere], process[elsewhere], lag[elsewhere])


def _restored(group: Group, task_of: Ints, task: Ints, at: Ints, members: Ints) -> MemberState | None:
    """The members' reports once the plan's copies are restored; None if there are none and none were given.

    task, at
        (C,) copies, and the places among the members (Q,) of those that keep or restore them.
    """
    if group.state is None and not len(task):
        return None
    read = np.argsort(task_of, kind="stable")
    first, last = (np.searchsorted(task_of[read], task, side=side) for side in ("left", "right"))
    copy = np.arange(len(task)).repeat(last - first)
    p = read[np.arange(len(copy)) - (np.cumsum(last - first) - last)[copy]]
    order = np.lexsort((p, members[at][copy]))
    m, p = members[at][copy][order], p[order]
    begins = np.flatnonzero(np.diff(m * group.T + group.topic_of[p], prepend=-1))
    standby: list[dict[str, list[int]]] = [{} for _ in group.members]
    numbers = group.number[p].tolist()
    for begin, end in pairwise([*begins.tolist(), len(p)]):
        standby[m[begin]][group.topics[group.topic_of[p[begin]]]] = numbers[begin:end]
    nothing: tuple[Mapping[str, str], ...] = ({},) * group.M
    tags = nothing if group.state is None else group.state.tags
    return MemberState(tags, tuple(standby), ({},) * group.M)


def _as_next_round(
    group: Group, owner: Ints, together: Ints, planned: Callable[[Group], tuple[Ints, Answered]]
) -> tuple[Ints, Answered] | None:
    """The plan that the next round comes to as well, if that is as good as ``owner`` (P,) and another one.

    A task that is kept back for a round is nobody's in the next, and goes to one of the places that are as good. So it
    is given there at once. Where a task is kept back from the very member that has a part of it, though, the next round
    knows nothing of that, and its plan would be a worse one: then None.

    together
        (P,) a number for each task.
    planned
        The owners, and what comes with them, of this group with any past.
    """
    first = back = hand_over(group, owner, together=together)
    stays = (group.owner != NOBODY) & (group.owner == owner)
    if not back.any() or np.isin(together[stays], together[back]).any():
        return None
    # What is not kept back stays where it is, so that from round to round no more is kept back.
    for _ in range(len(np.unique(together[first])) + 1):
        later, answered = planned(group.holding(np.where(back, NOBODY, owner)))
        if (later == owner).all():
            return (owner, answered) if back is not first else None
        owner, before = later, back
        back = hand_over(group, owner, together=together)
        if (back & ~before).any():  # of a plan that is not proved
            return None
    return None


def _all_warm(group: Group) -> bool:
    """Whether every partition that somebody wants has an owner."""
    owned = int(np.count_nonzero(group.owner != NOBODY))  # nobody owns what nobody wants
    return 0 < int(np.count_nonzero(group.wanted)) == owned


def _state(
    group: Group, topology: Topology, counts: list[int], task_of: Ints, members: list[int],
    wants: Mapping[str, frozenset[int]] | None,
) -> ApplicationState:  # fmt: skip
    """The state that ``application_state`` gives of a process for each of the members, without names.

    task_of
        (P,) a number for each partition's task, -1 none.
    members
        In the order of their ids.
    """
    process_of = np.full(group.M, NOBODY, dtype=np.int64)
    process_of[members] = np.arange(len(members))
    subtopology_of = np.arange(len(counts)).repeat(counts)
    held = np.flatnonzero((group.owner != NOBODY) & (task_of != NOBODY))
    task, process = task_of[held], process_of[group.owner[held]]
    lag = np.full((len(subtopology_of), len(members)), UNKNOWN, dtype=np.int64)
    lag[task, process] = 0
    ran = np.full(len(subtopology_of), NOBODY, dtype=np.int64)
    ran[task] = process
    ran[np.count_nonzero(lag == 0, axis=1) > 1] = NOBODY  # two that both ran it
    wanted = None
    if wants is not None:
        of_member = [[s in wants[group.members[m]] for m in members] for s in range(len(counts))]
        wanted = np.array(of_member, dtype=np.bool_)[subtopology_of]
    return ApplicationState(
        tasks=(),
        processes=(),
        stateful=np.array([sub.stateful for sub in topology.subtopologies], dtype=np.bool_)[subtopology_of],
        subtopology_of=subtopology_of,
        threads=np.ones(len(members), dtype=np.int64),
        lag=lag,
        ran=ran,
        tags=np.empty((len(members), 0), dtype=np.int64),
        misses=np.zeros((len(subtopology_of), len(members)), dtype=np.int64),
        process_of=np.arange(len(members)),
        wants=wanted,
    )


def _wants(
    group: Group, topology: Topology, partitions: Partitions, members: list[int]
) -> dict[str, frozenset[int]] | None:
    """Member to the sub-topologies all of whose topics it subscribes to; None if members do not differ in that.

    A task reads a partition of each of its topics, so a member that wants some of them alone can run none of its tasks.
    """
    read = [{topic for topic in sub.topics if partitions.get(topic)} for sub in topology.subtopologies]
    wishes = [
        frozenset(s for s, topics in enumerate(read) if topics <= {group.topics[t] for t in wanted})
        for wanted in group.subscriptions
    ]
    of_members = group.subscription_of[members]
    if {wishes[k] for k in np.unique(of_members).tolist()} == {frozenset(range(len(read)))}:
        return None
    return {group.members[m]: wishes[k] for m, k in zip(members, of_members.tolist(), strict=True)}


def _partitions(group: Group) -> dict[str, int | list[int]]:
    """Topic that some member wants to the number of its partitions; to their ids if some are missing."""
    partitions: dict[str, int | list[int]] = {}
    for t in np.flatnonzero(group.wanted_topic).tolist():
        numbers = group.number[group.partitions(t)]
        dense = not len(numbers) or int(numbers[-1]) + 1 == len(numbers)
        partitions[group.topics[t]] = len(numbers) if dense else numbers.tolist()
    return partitions


def _task_numbers(group: Group, topology: Topology, counts: list[int]) -> Ints:
    """(P,) a number for each partition's task, in the order of ``Topology.tasks``; -1 if no member wants the topic."""
    first = np.cumsum([0, *counts])
    topic_number = {topic: t for t, topic in enumerate(group.topics) if group.wanted_topic[t]}
    task_of = np.full(group.P, NOBODY, dtype=np.int64)
    for s, subtopology in enumerate(topology.subtopologies):
        spans = [group.partitions(topic_number[topic]) for topic in subtopology.topics if topic in topic_number]
        at = np.concatenate([np.arange(span.start, span.stop) for span in spans]) if spans else ints([])
        alone = len(spans) == 1
        task_of[at] = first[s] + (np.arange(len(at)) if alone else np.unique(group.number[at], return_inverse=True)[1])
    return task_of


def _owners(group: Group, number_of: Ints, tasks: Sequence[Task], plan: TaskPlan) -> Ints:
    """(P,) the member that runs the partition's task."""
    index = {member: m for m, member in enumerate(group.members)}
    runs = {task: index[member] for hands in plan.active.values() for member, given in hands.items() for task in given}
    of_task = ints([*(runs.get(task, NOBODY) for task in tasks), NOBODY])  # nobody last, where -1 finds it
    owner: Ints = of_task[number_of]
    return owner


def _rack(group: Group, member: int) -> str | None:
    if group.racks is None:
        return None
    rack = int(group.racks.of_member[member])
    return group.racks.names[rack] if rack != UNKNOWN else None


def _racks(group: Group) -> Mapping[tuple[str, int], frozenset[str]]:
    racks = group.racks
    if racks is None:
        return {}
    named = [frozenset(racks.names[r] for r in held) for held in racks.sets]
    known = np.flatnonzero(racks.set_of != UNKNOWN).tolist()
    return {group.name_of(p): named[int(racks.set_of[p])] for p in known}
