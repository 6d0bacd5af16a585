"""Streams: tasks of co-read partitions move whole, onto warm state, in the manner of Kafka Streams.

It does not speak Kafka Streams' byte protocol, create internal topics, or probe versions; see ``apportion.tasks``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, TypeVar

import numpy as np

from apportion.arrays import CELLS, NOBODY, Ints, ints
from apportion.errors import BadInput, UnknownName
from apportion.model.group import Group, MemberState
from apportion.model.plan import Answer, Later, hand_over
from apportion.tasks.application_state import Application
from apportion.tasks.assignor import GOALS, TaskAnswer, place_active
from apportion.tasks.explain import TaskReasons
from apportion.tasks.identical_processes import IdenticalState, NotCounted, active_of, copies_of, target_of
from apportion.tasks.place import LARGE
from apportion.tasks.plan import TaskPlan, plan_tasks
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology

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
    restored, that counts. The runtime in ``apportion.clients`` tells real lags.
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
        if (application := self._application(group)) is None:
            return Answer(np.full(group.P, NOBODY, dtype=np.int64), together=np.arange(group.P))
        if (answer := self._on_identical(group, application)) is not None:
            return answer

        def planned(of: Group) -> tuple[Ints, TaskPlan]:
            plan = plan_tasks(application, of, self)
            return _owners(application, plan), plan

        owner, plan = planned(group)
        if len(application.process_of) == len(application.process_ids) and application.threads.max() == 1:
            # Else the next round does not know what was whose host's.
            again = _as_next_round(group, owner, application.together, planned)
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
            extra={"tasks": plan.to_dict()},
            certificate=TaskReasons(application.topology, lambda: plan),
            together=application.together,
            state=_restored(group, application.task_of, *_held(group, plan)),
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
        """The owners and the proof that ``assign`` gives, without the task plan."""
        plain = self.rack_aware_assignment_strategy == "none" and group.state is None and self.process == "member"
        if not plain or self.num_standby_replicas:
            return self.assign(group)
        self._check(group)
        owned = int(np.count_nonzero(group.owner != NOBODY))  # nobody owns what nobody wants
        if not self.subtopologies and not self.stateless and 0 < owned == int(np.count_nonzero(group.wanted)):
            # Each partition is a task, and its state is with its owner alone: nothing to choose. A build plans most
            # groups so, in 0.01 ms instead of 0.2.
            return Answer(group.owner, proof=dict.fromkeys(GOALS[:-1], "optimal"))
        application = self._application(group)
        if application is None or application.cells > CELLS:
            return self.assign(group)
        if (answer := self._on_identical(group, application)) is not None:
            return answer
        member_of = np.full(len(application.process_of) + 1, NOBODY)
        member_of[application.column_of] = np.arange(group.M)
        member_of[-1] = NOBODY

        def planned(of: Group) -> tuple[Ints, dict[str, str]]:
            active, proof = place_active(application.state(of, self), self)
            return member_of[np.append(active, NOBODY)[application.task_of]], proof

        owner, proof = planned(group)
        again = _as_next_round(group, owner, application.together, planned)
        return Answer(owner if again is None else again[0], proof=proof)

    def _application(self, group: Group) -> Application | None:
        """Tasks and processes; None if nobody wants anything, or there are no tasks."""
        application = Application.of(group, self.topology(group), by_host=self.process == "host")
        return application if len(application.process_of) and any(application.counts) else None

    def _on_identical(self, group: Group, application: Application) -> Answer | None:
        """The answer by counting (``tasks.identical_processes``) to a large group of like members; else None.

        Names are made when somebody looks: a rollout plans such a group thousands of times.
        """
        plain = self.rack_aware_assignment_strategy == "none" and not self.rack_aware_assignment_tags
        if self.process != "member" or self.num_standby_replicas > 1 or not plain or application.wants is not None:
            return None
        subtopologies = zip(application.topology.subtopologies, application.counts, strict=True)
        if not LARGE <= application.cells <= CELLS or not all(sub.stateful for sub, n in subtopologies if n):
            return None
        stated = application.copies(group)
        by_number = np.append(np.argsort(application.column_of, kind="stable")[-len(application.process_of) :], NOBODY)

        def planned(of: Group) -> tuple[Ints, Ints]:
            active = active_of(_identical_state(application, of, stated), self)
            return by_number[np.append(active, NOBODY)[application.task_of]], active

        try:
            owner, active = planned(group)
            owner, active = _as_next_round(group, owner, application.together, planned) or (owner, active)
            state = _identical_state(application, group, stated)
            target = target_of(state, active)
            copies = copies_of(state, active, target, self)
        except NotCounted:
            return None
        proof = dict.fromkeys(GOALS if self.num_standby_replicas else GOALS[:-1], "optimal")
        keepers = ints([]) if copies.standby is None else copies.standby
        kept = np.arange(len(keepers))

        def whole() -> TaskPlan:
            standby, warmup = np.zeros((2, sum(application.counts), state.processes), dtype=np.bool_)
            standby[kept, keepers] = True
            warmup[copies.task, copies.process] = True
            answer = TaskAnswer(active, target, standby, warmup, proof, copies.even)
            return TaskPlan(application.state(group, self), answer, self)

        task, process = np.concatenate([kept, copies.task]), np.concatenate([keepers, copies.process])
        return Answer(
            owner,
            proof=proof,
            measures={"standbys": len(kept), "warmups": len(copies.task)},
            extra=Later({"tasks": lambda: whole().to_dict()}),
            certificate=TaskReasons(application.topology, whole),
            together=application.together,
            state=_restored(group, application.task_of, task, by_number[process]),
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


def _owners(application: Application, plan: TaskPlan) -> Ints:
    """(P,) the member that runs the partition's task."""
    index = {member: m for m, member in enumerate(application.group.members)}
    runs = {task: index[member] for hands in plan.active.values() for member, given in hands.items() for task in given}
    of_task = ints([*(runs.get(task, NOBODY) for task in plan.application.tasks), NOBODY])  # nobody last, where -1 is
    owner: Ints = of_task[application.task_of]
    return owner


def _held(group: Group, plan: TaskPlan) -> tuple[Ints, Ints]:
    """(C,) the numbers of the tasks of which copies are kept or restored, and the members that do so."""
    number = {task: n for n, task in enumerate(plan.application.tasks)}
    index = {member: m for m, member in enumerate(group.members)}
    by_consumer = [held for role in (plan.standby, plan.warmup) for held in role.values()]
    pairs = [(number[task], index[m]) for held in by_consumer for m, kept in held.items() for task in kept]
    task, member = ints(pairs).reshape(-1, 2).T
    return task, member


def _identical_state(application: Application, group: Group, copies: tuple[Ints, Ints, Ints]) -> IdenticalState:
    """The state without names; ``NotCounted`` if two members ran one task, or its owner reports that state lacks."""
    task, member = application.ran(group)
    ran = np.full(sum(application.counts), NOBODY)
    ran[task] = application.column_of[member]
    kept, process, lag = copies[0], application.column_of[copies[1]], copies[2]
    elsewhere = process != ran[kept]
    if (ran[task] != application.column_of[member]).any() or lag[~elsewhere].any():
        raise NotCounted
    return IdenticalState(ran, len(application.process_of), kept[elsewhere], process[elsewhere], lag[elsewhere])


def _restored(group: Group, task_of: Ints, task: Ints, member: Ints) -> MemberState | None:
    """The members' reports once the plan's copies are restored; None if there are none and none were given.

    task, member
        (C,) copies, and the members that keep or restore them.
    """
    if group.state is None and not len(task):
        return None
    read = np.argsort(task_of, kind="stable")
    first, last = (np.searchsorted(task_of[read], task, side=side) for side in ("left", "right"))
    copy = np.arange(len(task)).repeat(last - first)
    p = read[np.arange(len(copy)) - (np.cumsum(last - first) - last)[copy]]
    order = np.lexsort((p, member[copy]))
    m, p = member[copy][order], p[order]
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
