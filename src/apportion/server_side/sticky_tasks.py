"""Kafka 4.3's ``StickyTaskAssignor``, for the tasks of streams groups (KIP-1071), in the orders of its hash maps.

The problem: every task active at one member, and as many copies of the stateful ones as the group asks for, none
beside another. The coordinator walks the tasks. One stays with the member that ran it, as long as that has fewer tasks
than an equal share; what is left goes to a member that kept a copy, on the same condition, and then to the process
with fewest tasks a member, and there to the member with fewest. Copies likewise: to the member that ran the task, to
one that kept a copy, to the least loaded process that has nothing of it; where none is left there are fewer copies.
Shares are counted down: a member that is full takes its tasks out of the sum that the others share.

It knows no lag, no rack and no warm-up: a task moves at once, whether its state is there or not. Which of several
equally loaded processes gets a task is decided by a binary heap that compares loads alone, so the heap is followed
sift by sift; and which of several that kept a copy, by a search whose last question is put to the first of them.
Cost: O(N (log Q + log M)) for N tasks and copies, while copies find a place at the first try. Source: Apache Kafka
4.3.0, ``StickyTaskAssignor`` and ``ProcessState``; OpenJDK, ``PriorityQueue``; compared with them in ``tests/tasks``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from apportion.model.group import java_order
from apportion.server_side.java_hash import bin_order, string_hash

TaskId = tuple[str, int]
"""Sub-topology, partition."""
Item = TypeVar("Item")
STANDBYS_SETTING: Final = "num.standby.replicas"
"""The setting of the group that the assignor reads; the clients' own is passed over."""


@dataclass(frozen=True)
class CoordinatorSubtopology:
    """A sub-topology as the coordinator sees it: its id, how many tasks it has, and whether they have state."""

    name: str
    tasks: int
    stateful: bool


@dataclass(frozen=True)
class TaskMember:
    """A member with its process and its previous target; its present partitions count for nothing."""

    member_id: str
    process_id: str
    active: Collection[TaskId] = ()
    standby: Collection[TaskId] = ()


@dataclass
class MemberTasks:
    """A member's assignment."""

    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)


def sticky_tasks(
    members: Sequence[TaskMember], subtopologies: Iterable[CoordinatorSubtopology], standbys: int = 0
) -> dict[str, MemberTasks]:
    """Member to tasks, by the order of ids.

    members
        In the order in which the coordinator's table hands them on; it decides between ids of one hash bin.
    standbys
        Copies that the group asks for of each stateful task.
    """
    if not members:
        return {}
    return _Sharing(members, tuple(subtopologies), standbys).share()


def _by_partition(task: TaskId) -> tuple[int, bytes]:
    return task[1], java_order(task[0])


def _by_subtopology(task: TaskId) -> tuple[bytes, int]:
    return java_order(task[0]), task[1]


class _JavaHeap(Generic[Item]):
    """``java.util.PriorityQueue``: of equals the one comes first that its sifting brings to the root."""

    # heapq sifts a hole down to a leaf and up again, which leaves equals in another order than Java does.

    def __init__(self, key: Callable[[Item], float], items: Iterable[Item] = ()) -> None:
        self._key = key
        self._heap: list[Item] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: Item) -> None:
        """Put it last, and let it rise past all that are greater."""
        heap, key = self._heap, self._key
        heap.append(item)
        k, mine = len(heap) - 1, key(item)
        while k > 0 and mine < key(heap[(k - 1) >> 1]):
            heap[k] = heap[(k - 1) >> 1]
            k = (k - 1) >> 1
        heap[k] = item

    def poll(self) -> Item:
        """Take the root; the last one sinks from there below all that are less."""
        heap, key = self._heap, self._key
        first, last = heap[0], heap.pop()
        if heap:
            k, mine, size = 0, key(last), len(heap)
            while k < size >> 1:
                child = 2 * k + 1
                if child + 1 < size and key(heap[child]) > key(heap[child + 1]):
                    child += 1
                if mine <= key(heap[child]):
                    break
                heap[k] = heap[child]
                k = child
            heap[k] = last
        return first


class _ProcessTasks:
    """A process with its members, by how many tasks each has."""

    def __init__(self) -> None:
        self.joined: list[str] = []
        self.count: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self.load = 0.0
        self._total = 0
        self._order: Sequence[str] = ()
        self._by_load: _JavaHeap[str] | None = None

    def close(self) -> None:
        """All members are there: put them into the order of their map."""
        order = bin_order([string_hash(member) for member in self.joined])
        self._order = [self.joined[position] for position in order.positions]
        self.count = dict.fromkeys(self._order, 0)

    def add(self, member: str, task: TaskId) -> int:
        """Give the task to the member; how many it has now. The next search for the least loaded starts again."""
        self._by_load = None
        return self._add(member, task)

    def _add(self, member: str, task: TaskId) -> int:
        self.tasks.add(task)
        self.count[member] += 1
        self._total += 1
        self.load = self._total / len(self._order)
        return self.count[member]

    def add_to_least_loaded(self, task: TaskId) -> tuple[str, int]:
        """Give the task to the member with fewest: which, and how many it has now."""
        if len(self._order) == 1:
            return self._order[0], self._add(self._order[0], task)
        if self._by_load is None:  # else it goes on from where the last search left it
            self._by_load = _JavaHeap(self.count.__getitem__, self._order)
        member = self._by_load.poll()
        count = self._add(member, task)
        self._by_load.add(member)
        return member, count


class _Quota:
    """An equal share of the rest, for members that are not full: each that reaches it goes out with its tasks."""

    def __init__(self, tasks: int, members: int) -> None:
        self.tasks, self.members = tasks, members
        self.share = -(-tasks // members)

    def reached(self, count: int) -> None:
        """A member has so many tasks now."""
        if count == self.share:
            self.members -= 1
            self.tasks -= count
            # Java divides towards zero, and a share of what is less than nothing is none.
            self.share = 0 if self.members == 0 else _ceiling(self.tasks, self.members)


def _ceiling(tasks: int, members: int) -> int:
    whole = abs(tasks) // members * (1 if tasks >= 0 else -1)
    return whole + (tasks - whole * members > 0)


class _Sharing:
    """One call of the assignor."""

    def __init__(
        self, members: Sequence[TaskMember], subtopologies: Sequence[CoordinatorSubtopology], standbys: int
    ) -> None:
        order = bin_order([string_hash(member.member_id) for member in members])
        self.members = [members[position] for position in order.positions]
        self.subtopologies, self.standbys = subtopologies, standbys
        self.given = {member.member_id: MemberTasks() for member in members}
        self.process_of = {member.member_id: member.process_id for member in members}
        self.ran: dict[TaskId, str] = {}
        self.kept: dict[TaskId, list[str]] = {}
        self.processes: dict[str, _ProcessTasks] = {}
        for member in self.members:
            self.processes.setdefault(member.process_id, _ProcessTasks()).joined.append(member.member_id)
            self.ran.update(dict.fromkeys(member.active, member.member_id))
            for task in member.standby:
                self.kept.setdefault(task, []).append(member.member_id)
        for process in self.processes.values():
            process.close()
        ids = list(self.processes)
        bins = 1 << (len(members) - 1).bit_length()  # the table is made for as many processes as members
        positions = bin_order([string_hash(process) for process in ids], bins).positions
        self.by_table = [self.processes[ids[position]] for position in positions]
        active = sum(sub.tasks for sub in subtopologies)
        copies = sum(sub.tasks for sub in subtopologies if sub.stateful) * standbys
        self.active_quota = _Quota(active, len(members))
        self.quota = _Quota(active + copies, len(members))

    def share(self) -> dict[str, MemberTasks]:
        """Active tasks, then copies."""
        self._share_active([(sub.name, p) for sub in self.subtopologies for p in range(sub.tasks)])
        if self.standbys > 0:
            self._share_copies([(sub.name, p) for sub in self.subtopologies if sub.stateful for p in range(sub.tasks)])
        return {member: self.given[member] for member in sorted(self.given)}

    def _process(self, member: str) -> _ProcessTasks:
        return self.processes[self.process_of[member]]

    def _has_room(self, member: str, quota: _Quota) -> bool:
        return self._process(member).count[member] < quota.share

    def _run(self, member: str, task: TaskId, count: int) -> None:
        self.given[member].active.add(task)
        self.active_quota.reached(count)
        self.quota.reached(count)

    def _keep(self, member: str, task: TaskId, count: int) -> None:
        self.given[member].standby.add(task)
        self.quota.reached(count)

    def _share_active(self, tasks: list[TaskId]) -> None:
        tasks.sort(key=_by_partition)
        for before in (self.ran.get, self._kept_by_least_loaded):
            waiting = []
            for task in tasks:
                member = before(task)
                if member is not None and self._has_room(member, self.active_quota):
                    self._run(member, task, self._process(member).add(member, task))
                else:
                    waiting.append(task)
            tasks = waiting
        queue = self._queue()
        for task in sorted(tasks, key=_by_subtopology):
            process = queue.poll()
            self._run(*self._least(process, task))
            queue.add(process)

    def _least(self, process: _ProcessTasks, task: TaskId) -> tuple[str, TaskId, int]:
        member, count = process.add_to_least_loaded(task)
        return member, task, count

    def _queue(self) -> _JavaHeap[_ProcessTasks]:
        return _JavaHeap(lambda process: process.load, self.by_table)

    def _kept_by_least_loaded(self, task: TaskId, *, elsewhere: bool = False) -> str | None:
        """Of the members that kept a copy one with least load; it has to have less than the best in both loads.

        elsewhere
            Whether the process must have nothing of the task. Of the first member that is asked only in the end, and
            then whoever was found: Kafka asks the first one's process.
        """
        holders = self.kept.get(task)
        if not holders:
            return None
        best = holders[0]
        first = self._process(best)
        load, count = first.load, first.count[best]
        for member in holders[1:]:
            process = self._process(member)
            if process.load < load and not (elsewhere and task in process.tasks) and process.count[member] < count:
                best, load, count = member, process.load, process.count[member]
        return None if elsewhere and task in first.tasks else best

    def _share_copies(self, tasks: list[TaskId]) -> None:
        waiting: list[tuple[TaskId, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for copy in range(self.standbys):
                if not self._keep_where_it_was(task):
                    waiting.append((task, self.standbys - copy))
                    break
        queue = self._queue()
        for task, copies in sorted(waiting, key=lambda entry: _by_subtopology(entry[0]), reverse=True):
            for _ in range(copies):
                if not self._keep_at_least_loaded(queue, task):
                    break

    def _keep_where_it_was(self, task: TaskId) -> bool:
        """One copy to the member that ran the task, else to one that kept a copy; whether either has room."""
        ran = self.ran.get(task)
        if ran is not None and task not in self._process(ran).tasks and self._has_room(ran, self.quota):
            self._keep(ran, task, self._process(ran).add(ran, task))
            return True
        holder = self._kept_by_least_loaded(task, elsewhere=True)
        if holder is not None and self._has_room(holder, self.quota):
            self._keep(holder, task, self._process(holder).add(holder, task))
            return True
        return False

    def _keep_at_least_loaded(self, queue: _JavaHeap[_ProcessTasks], task: TaskId) -> bool:
        """One copy to the least loaded process that has nothing of the task; whether there is one."""
        polled, placed = [], False
        while len(queue) and not placed:
            process = queue.poll()
            polled.append(process)
            if task not in process.tasks:
                self._keep(*self._least(process, task))
                placed = True
        for process in reversed(polled):
            queue.add(process)
        return placed
