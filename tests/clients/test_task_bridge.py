"""Groups of task members in memory: whatever joins, leaves or talks nonsense, tasks move whole and settle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clients.joining import JoiningMember, assign
from tests.support.examples import examples

from apportion.clients.runtime.task_bridge import TaskBridge
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology
from apportion.wire.assignment import Assignment
from apportion.wire.partitions import Held
from apportion.wire.task_data import (
    PROTOCOL,
    Pair,
    TaskAssignment,
    TaskMemory,
    read_memory,
    read_orders,
    write_memory,
    write_orders,
)

SIZES = {"clicks": 4, "views": 3, "words": 5}
TOPOLOGY = Topology.of(Subtopology(("clicks", "views"), "joins"), Subtopology(("words",)))
TASKS = {(0, p) for p in range(4)} | {(1, p) for p in range(5)}


class BrokerCluster:
    def partitions(self, topic: str) -> Iterable[int] | None:
        return range(SIZES[topic]) if topic in SIZES else None

    def racks(self, topic: str) -> Mapping[int, Sequence[str]]:
        return {p: [f"rack-{p % 2}"] for p in range(SIZES[topic])}


class Member:
    """A bridge, what its process has on disk, and what it holds."""

    def __init__(self, name: str, process: str, disk: dict[Pair, int], settings: TaskSettings) -> None:
        self.name, self.process, self.disk, self.run = name, process, disk, ""
        self.bridge = TaskBridge(TOPOLOGY, settings, rack=f"rack-{len(name) % 2}")
        self.held: Held = ()
        self.nonsense: bytes | None = None

    def says(self) -> JoiningMember:
        orders = self.bridge.orders
        lag = {task: lag for task, lag in self.disk.items() if task not in orders.active}
        self.bridge.memory_now = TaskMemory(self.process, 0, orders.active, orders.standby, lag, run=self.run)
        said = self.bridge.subscription(SIZES, keeps=True, holds=self.held)
        if self.nonsense is not None:
            said = type(said)(said.topics, self.nonsense, said.owned, said.generation, said.rack)
        return JoiningMember(self.name, None, said)


class Group:
    def __init__(self, settings: TaskSettings) -> None:
        self.settings, self.members, self.generation = settings, list[Member](), 0
        self.disks: dict[str, dict[Pair, int]] = {}
        self.made = 0

    def join(self, process: str) -> None:
        self.made += 1
        name = f"m{self.made}" + "x" * (self.made % 2)
        self.members.append(Member(name, process, self.disks.setdefault(process, {}), self.settings))

    def round(self) -> bool:
        """One rebalance, led by the first member; whether anybody has to ask for another one."""
        self.generation += 1
        joined = [member.says() for member in self.members]
        shares = assign(self.members[0].bridge, joined, BrokerCluster(), "g", self.generation)
        assert set(shares) == {member.name for member in self.members}
        given = [(t, p) for share in shares.values() for t, ids in share.partitions for p in ids]
        assert len(given) == len(set(given)), "no partition goes to two"
        again = False
        for member in self.members:
            share = shares[member.name]
            self._check_whole(member, dict(share.partitions), read_orders(share.user_data).active)
            lost = {(t, p) for t, ids in member.held for p in ids} - {
                (t, p) for t, ids in share.partitions for p in ids
            }
            for other in self.members:
                theirs = {(t, p) for t, ids in shares[other.name].partitions for p in ids}
                assert other is member or not lost & theirs, "nothing is given before it is let go"
            member.bridge.on_assignment(share, self.generation, "g")
            member.held = share.partitions
            orders = member.bridge.orders
            again |= bool(lost) or orders.probe_ms is not None
            for task in (*orders.active, *orders.standby, *orders.warmup):
                if task[0] == 0:
                    member.disk[task] = 0
        return again

    def _check_whole(self, member: Member, owned: dict[str, tuple[int, ...]], active: Sequence[Pair]) -> None:
        for number in range(3):
            both = [number in owned.get(topic, ()) for topic in ("clicks", "views")]
            assert both[0] == both[1] == ((0, number) in active), "a task moves whole or not at all"

    def settle(self) -> None:
        for _ in range(20):
            if not self.round():
                break
        else:
            raise AssertionError("not settled after 20 rounds")
        running = [task for member in self.members for task in member.bridge.orders.active]
        assert sorted(running) == sorted(TASKS), "every task runs once"
        before = [member.held for member in self.members]
        assert not self.round()
        assert [member.held for member in self.members] == before, "a settled group stays as it is"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from(["p", "q", "r"])),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("nonsense"), st.integers(0, 9), st.binary(max_size=40)),
        st.tuples(st.just("half a round")),
    ),
    max_size=8,
)


@examples(60)
@given(STEPS, st.integers(0, 2), st.integers(1, 2))
def test_any_group_settles_with_whole_tasks_that_are_never_in_two_hands(
    steps: list[tuple[object, ...]], standbys: int, warmups: int
) -> None:
    group = Group(TaskSettings(num_standby_replicas=standbys, max_warmup_replicas=warmups))
    group.join("p")
    for step in steps:
        if step[0] == "join":
            group.join(str(step[1]))
        elif step[0] == "leave" and len(group.members) > 1:
            group.members.pop(int(str(step[1])) % len(group.members))
        elif step[0] == "nonsense":
            assert isinstance(step[2], bytes)
            group.members[int(str(step[1])) % len(group.members)].nonsense = step[2]
        group.round()
    for member in group.members:
        member.nonsense = None
    group.settle()


def test_the_protocol_has_a_name_that_no_java_application_has() -> None:
    """Kafka Streams' own is ``stream``."""
    assert TaskBridge(TOPOLOGY, TaskSettings()).name == PROTOCOL == "apportion-streams"


def test_a_member_that_does_not_read_the_sources_gets_nothing_and_breaks_nothing() -> None:
    group = Group(TaskSettings())
    group.join("p")
    stranger = TaskBridge(TOPOLOGY, TaskSettings()).subscription(["other"], keeps=True)
    mine = group.members[0]
    shares = assign(mine.bridge, [mine.says(), JoiningMember("stranger", None, stranger)], BrokerCluster())
    assert shares["stranger"].partitions == ()
    assert sum(len(ids) for _, ids in shares[mine.name].partitions) == sum(SIZES.values())


def test_a_member_with_another_topology_under_one_name_is_named_and_gets_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It reads the same topics, but joins them into other tasks: number 0_0 would be other work there."""
    group = Group(TaskSettings())
    group.join("p")
    mine = group.members[0]
    topics = [topic for one in TOPOLOGY.subtopologies for topic in one.topics]
    other = Topology.of(*[Subtopology((topic,), f"{topic}-log") for topic in reversed(topics)])
    assert other.digest != TOPOLOGY.digest == Topology(TOPOLOGY.subtopologies).digest
    theirs = TaskBridge(other, TaskSettings())
    theirs.memory_now = TaskMemory("q")
    said = theirs.subscription(topics, keeps=True)
    shares = assign(mine.bridge, [mine.says(), JoiningMember("stranger", None, said)], BrokerCluster(), "counts")
    assert shares["stranger"].partitions == ()
    assert sum(len(ids) for _, ids in shares[mine.name].partitions) == sum(SIZES.values())
    (line,) = [record.getMessage() for record in caplog.records if "another topology" in record.getMessage()]
    assert "member 'stranger' (process 'q') of group 'counts'" in line
    assert other.digest in line
    assert TOPOLOGY.digest in line


@pytest.mark.parametrize("role", ["active", "standby", "warmup", "coming"])
def test_orders_of_tasks_that_the_topology_does_not_have_are_none(role: str, caplog: pytest.LogCaptureFixture) -> None:
    """A leader that does not look at topologies: its member must not end at each look at its own."""
    bridge = TaskBridge(TOPOLOGY, TaskSettings())
    named: dict[str, Any] = {"active": ((0, 1),), role: ((1, 0), (2, 0))}
    orders = TaskAssignment(**named)
    bridge.on_assignment(Assignment((("clicks", (1,)),), write_orders(orders)), 3, "counts")
    assert bridge.orders.active == getattr(bridge.orders, role) == ()
    assert "unreadable, nothing is run: they name task 2_0, and there are 2 sub-topologies" in caplog.text


def test_a_member_of_an_older_version_that_tells_no_topology_runs_its_tasks() -> None:
    memory = TaskMemory("p", 3, ((0, 1),), (), {(0, 2): 5}, {"zone": "a"}, topology="abc")
    raw = write_memory(memory)
    assert read_memory(raw) == memory
    older = b"\x00\x01" + raw[2:-7]  # version 1 ends before the topology
    assert read_memory(older) == replace(memory, topology="")


class Compared(str):
    """A name that counts how often it is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.compared += 1
        return str.__eq__(self, other)


def test_who_missed_a_rebalance_has_no_claim_on_what_others_run_now() -> None:
    """A frozen member of an older generation still says that it holds everything; it runs nothing by that."""
    group = Group(TaskSettings())
    for process in "pq":
        group.join(process)
    group.settle()
    late, current = group.members
    late.bridge.last = type(late.bridge.last)(late.held, 0, keeps=True)
    shares = assign(current.bridge, [late.says(), current.says()], BrokerCluster())
    assert set(current.held) <= set(shares[current.name].partitions), "the newer claim stands"
    late.held = current.held
    shares = assign(current.bridge, [late.says(), current.says()], BrokerCluster())
    assert set(current.held) <= set(shares[current.name].partitions), "on the same tasks, too"


def test_a_member_of_another_topology_lets_go_before_its_tasks_run_elsewhere() -> None:
    """Half an application is of a new version, one of which leads: what the old one runs waits for a round."""
    group = Group(TaskSettings())
    for process in "pq":
        group.join(process)
    group.settle()
    old, new = group.members
    topics = [topic for one in TOPOLOGY.subtopologies for topic in one.topics]
    theirs = TaskBridge(Topology.of(*[Subtopology((topic,), f"{topic}-log") for topic in topics]), TaskSettings())
    theirs.memory_now = TaskMemory("p")
    theirs.last = old.bridge.last
    said = theirs.subscription(topics, keeps=True, holds=old.held)
    shares = assign(new.bridge, [JoiningMember("old", None, said), new.says()], BrokerCluster())
    given = {(topic, p) for topic, ids in shares[new.name].partitions for p in ids}
    assert given == {(topic, p) for topic, ids in new.held for p in ids}, "only what it had"
    assert shares["old"].partitions == ()
    said = theirs.subscription(topics, keeps=True, holds=())
    shares = assign(new.bridge, [JoiningMember("old", None, said), new.says()], BrokerCluster())
    assert sum(len(ids) for _, ids in shares[new.name].partitions) == sum(SIZES.values())


def test_two_runs_of_one_process_id_are_two_processes_and_the_later_one_is_told() -> None:
    """Their folders are copies: as one process, neither would keep a copy for the other. Threads share a run."""
    group = Group(TaskSettings(num_standby_replicas=1))
    for run in ("first", "first", "second"):
        group.join("p")
        group.members[-1].run = run
        group.members[-1].disk = {} if run == "second" else group.members[0].disk
    group.settle()
    *threads, other = group.members
    assert [member.bridge.orders.not_its_own for member in group.members] == ["", "", "p"]
    stateful = {task for task in TASKS if task[0] == 0}
    for members, others in ((threads, [other]), ([other], threads)):
        runs = {task for member in members for task in member.bridge.orders.active} & stateful
        assert runs
        assert runs == {task for member in others for task in member.bridge.orders.standby}
    other.process = "renewed"
    group.settle()
    assert [member.bridge.orders.not_its_own for member in group.members] == ["", "", ""]


def test_a_task_stays_where_it_runs_whatever_another_member_of_that_process_tells_of_its_copy() -> None:
    """Two threads of one process and a lone one whose copies lack less than the idle thread says."""
    group = Group(TaskSettings())
    for process in "ppq":
        group.join(process)
    group.settle()
    threads, alone = group.members[:2], group.members[2]
    runs = {task for member in threads for task in member.bridge.orders.active}
    assert runs
    group.disks["p"].update(dict.fromkeys(runs, 99_999))
    group.disks["q"].update(dict.fromkeys(runs, 10_001))
    group.round()
    assert {task for member in threads for task in member.bridge.orders.active} == runs
    assert not runs & set(alone.bridge.orders.active)
