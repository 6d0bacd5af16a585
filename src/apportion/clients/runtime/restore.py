"""Changelogs into stores: for tasks that are about to run, and for copies that are kept warm.

Committed records alone are read, whoever wrote them: what a transaction may yet abort is in no store. A task that is to
run waits until all that stood in its changelog when it began to wait is decided, and read.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

from apportion.clients.runtime.log_offsets import LogOffsets
from apportion.clients.runtime.state_dir import StateFolder
from apportion.clients.runtime.stores import Open, Store, StoreOrigin
from apportion.tasks.topology import Task, Topology

log = logging.getLogger("apportion.clients")

EPOCH: Final = "apportion-epoch"
"""Header of a changelog record: which writer, a number that grows at every change of the task's owner."""


KNOW_S: Final = 5.0
"""How long a start waits until the client knows the changelogs of what is stored."""
CLOSE_MS: Final = 5000
ABSENT_S: Final = 5.0
"""Seconds after which a changelog's partition that a store is open for, and that cannot be read, is told of."""
HELD_S: Final = 10.0
"""Seconds without a step forward after which the log says what a waiting task waits for."""
PAUSE_S: Final = 1.0
"""A process that did nothing for longer, and for longer than deletions are kept, looks at its copies anew."""
CLOCK_AHEAD_MS: Final = 1000
"""A store that is whole at a later moment than now, by more than this, was written while the clock was wrong."""


class Restorer:
    """Open stores of tasks that do not run here (yet), and how far behind each task with a local store is.

    restored, warmed
        Messages read for tasks that waited to run, and for copies.
    connection
        What kafka-python's consumer takes to connect.
    look_every_s
        Seconds between two looks at the changelogs' ends.
    offsets
        Where logs begin and end, and what holds their readers up.
    """

    def __init__(
        self,
        topology: Topology,
        connection: Mapping[str, Any],
        folder: StateFolder,
        open_store: Open,
        look_every_s: float = 0.5,
    ) -> None:
        self.topology, self.folder, self.open_store = topology, folder, open_store
        self.look_every_s = look_every_s
        self._number = {subtopology.changelog: s for s, subtopology in enumerate(topology.subtopologies)}
        self.open: dict[Task, Store] = {}
        self.restored = self.warmed = 0
        self._wanted: set[Task] = set()
        self._ends: dict[Task, int] = {}
        self._goal: dict[Task, int] = {}
        self._stale: dict[Task, set[bytes]] = {}
        self._absent: dict[Any, float] = {}
        self._life: dict[Task, str] = {}
        self._cut: dict[Any, str] = {}
        self._stands: dict[Task, tuple[int, float]] = {}
        self._ran_at = time.time()
        self._looked = self._searched = 0.0
        self._known = self._on_disk()
        self._consumer = KafkaConsumer(
            **connection,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",  # what is missing is for ``_reassign`` to judge
            isolation_level="read_committed",
        )
        self.offsets = LogOffsets(self._consumer)
        self._learn_topics(KNOW_S)
        self._look(force=True)

    def lags(self) -> dict[Task, int]:
        """Task to messages that its local store misses, as last looked up; other threads report their open stores."""
        open_elsewhere = self.folder.claimed().keys() - set(self.open)
        known = {task: at for task, at in self._known.items() if task in self._ends and task not in open_elsewhere}
        return {task: max(0, self._ends[task] - at) for task, at in known.items()}

    def keep(self, tasks: Collection[Task]) -> None:
        """Have exactly these stores open, and read their changelogs from each one's offset."""
        self._wanted = set(tasks)
        self._stands.clear()
        self._goal.clear()  # somebody else may have written since a task last waited here
        for task in sorted(set(self.open) - self._wanted):
            self.give_back(task, self.open.pop(task))
        self._open_wanted()
        self._reassign()

    def step(self, waiting: Collection[Task], timeout_ms: int) -> list[Task]:
        """Read a batch; returns the tasks of ``waiting`` whose stores now hold all that their changelogs do."""
        self._note_pause()
        self._open_wanted()
        self._reassign()
        if not self.open:
            self._look()
            return []
        self._set_goals(waiting)
        if self._whole(waiting):
            timeout_ms = 0
        for pair, records in self._read(timeout_ms).items():
            task = self._task_of(pair)
            if task in self.open and pair not in self._cut and not self._of_another_life(task):
                self._apply(task, records)
                if task in waiting:
                    self.restored += len(records)
                else:
                    self.warmed += len(records)
        self._look()
        self._tell_waits(waiting)
        return self._whole(waiting)

    def _read(self, timeout_ms: int) -> Mapping[Any, list[Any]]:
        """A batch; nothing of a changelog that has lost its next records, by retention or at the broker."""
        try:
            records: Mapping[Any, list[Any]] = self._consumer.poll(timeout_ms=timeout_ms, max_records=5000)
        except OffsetOutOfRangeError as error:
            self._cut |= dict.fromkeys(error.args[0], "the part of its changelog that it was to read next was deleted")
            return {}
        except LogTruncationError as error:
            self._cut |= dict.fromkeys(error.divergent_offsets, "its changelog lost records that it has")
            return {}
        self._note_pause()
        return records

    def _note_pause(self) -> None:
        """After a pause (of the process or its machine), judge copies again whose changelog may have forgotten."""
        now, before = time.time(), self._ran_at
        self._ran_at = now
        if now - before > PAUSE_S:
            pause_ms = 1000 * (now - before)
            pairs = [
                pair for pair in self._consumer.assignment() if pause_ms > self.offsets.delete_retention_ms(pair.topic)
            ]
            self._cut |= dict.fromkeys(pairs, "")

    def _whole(self, waiting: Iterable[Task]) -> list[Task]:
        read = {self._task_of(pair) for pair in self._consumer.assignment() - self._cut.keys()}
        known = [task for task in sorted(waiting) if task in self.open and task in self._goal and task in read]
        return [task for task in known if self._at(task) >= self._goal[task] and not self._of_another_life(task)]

    def take(self, task: Task) -> Store:
        """Hand over a store that is whole: its task runs from now on."""
        at, store = self._at(task), self.open[task]
        origin = self.origin(task, time.time() * 1000)
        store.apply({}, at, store.epoch, origin)  # where the disk is full it stays here, to be asked for again
        del self.open[task]
        self._wanted.discard(task)
        self._goal.pop(task, None)
        self._known.pop(task, None)
        self._reassign()
        return store

    def stale_keys(self, task: Task) -> set[bytes]:
        """Keys whose newest record is of a replaced writer: compaction keeps that one, which does not count."""
        return self._stale.pop(task, set())

    def give_back(self, task: Task, store: Store) -> None:
        """Close the store of a task that no longer runs here; its file stays, and is reported as local state."""
        self._stale.pop(task, None)
        self._known[task] = store.position
        try:
            store.close()
        finally:
            self.folder.release(task)

    def close(self) -> None:
        """Close every store and the consumer, even if one of the stores raises."""
        with ExitStack() as closing:
            closing.callback(self._consumer.close, autocommit=False, timeout_ms=CLOSE_MS)
            while self.open:
                closing.callback(self.give_back, *self.open.popitem())

    def _open_wanted(self) -> None:
        """Open wanted stores that are not open yet; one that another thread of ours still has comes at a later step."""
        for task in sorted(self._wanted - set(self.open)):
            if self.folder.claim(task):
                self._absent.pop(task, None)
                self._open(task)
            elif self._absent_for_long(task):
                log.warning(
                    "task %s waits: another runner of this process, in thread %r, still has its file open; it lets go "
                    "at its next poll",
                    *(task, self.folder.claimed().get(task, "")),
                )

    def _open(self, task: Task) -> None:
        """Open the store of a claimed task; if that fails it may be claimed again."""
        try:
            self.open[task] = self.open_store(self.folder.file(task))
        except BaseException:
            self.folder.release(task)
            raise
        self._known[task] = self.open[task].position

    def _apply(self, task: Task, records: Iterable[Any]) -> None:
        """A batch in one transaction; records that a replaced writer sent after its successor began do not count."""
        store = self.open[task]
        changes: dict[bytes, bytes | None] = {}
        epoch, position, stale = store.epoch, store.position, self._stale.setdefault(task, set())
        whole_ms = store.origin.whole_ms
        for record in records:
            position, whole_ms = record.offset + 1, max(whole_ms, record.timestamp)
            writer = _epoch(record.headers)
            if writer >= epoch and record.key:
                epoch = writer
                changes[record.key] = record.value
                stale.discard(record.key)
            elif record.key:
                stale.add(record.key)
        store.apply(changes, position, epoch, self.origin(task, min(whole_ms, time.time() * 1000)))
        self._known[task] = position

    def _set_goals(self, waiting: Collection[Task]) -> None:
        """Where the changelog of each waiting task ends: asked once, when it begins to wait."""
        for task in set(self._goal) - set(waiting):
            del self._goal[task]
        fresh = [task for task in waiting if task in self.open and task not in self._goal]
        ends = self.offsets.end(self._there([self._pair(task) for task in fresh]))
        for pair, end in ends.items():
            self._goal[self._task_of(pair)] = end
            self._note_end(self._task_of(pair), end)

    def _at(self, task: Task) -> int:
        """The next offset to read: compaction and ends of transactions leave holes that no record shows."""
        state = self._consumer._subscription.assignment.get(self._pair(task))
        read = None if state is None else state.position
        return max(0 if read is None else read.offset, self.open[task].position)

    def _look(self, force: bool = False) -> None:
        """Ask for the ends of the changelogs of all tasks that have a store here, now and then."""
        if not force and time.monotonic() - self._looked < self.look_every_s:
            return
        self._looked = time.monotonic()
        for pair, end in self.offsets.end(self._there(map(self._pair, self._known))).items():
            self._note_end(self._task_of(pair), end)

    def _note_end(self, task: Task, end: int) -> None:
        """A changelog that ends before its former end, or before the content of the store, has lost its end."""
        self._ends[task], goal = end, self._goal.get(task, end)
        if end < goal:
            self._goal[task] = end
            log.warning(
                "the changelog %s, partition %d, lost its end at the broker: it ended at %d, and ends at %d now; task "
                "%s waits until it has what is there",
                *(*self._pair(task), goal, end, task),
            )
        if task in self.open and end < self.open[task].position:
            self._cut[self._pair(task)] = "its changelog lost records that it has"

    def _tell_waits(self, waiting: Iterable[Task]) -> None:
        """Name the blocker of a task that has not come forward for some time: again each time that it is as long."""
        now = time.monotonic()
        for task in [task for task in waiting if task in self._goal and task in self.open]:
            at, since = self._stands.get(task, (-1, now))
            if at != self._at(task):
                self._stands[task] = self._at(task), now
            elif now - since > HELD_S and at < self._goal[task]:
                self._stands[task] = at, now
                log.warning("task %s waits for its state: %s", task, self.offsets.held(self._pair(task), at))

    def _learn_topics(self, patience_s: float) -> None:
        """Wait until the client knows the changelogs of the stores here, so that the first join can report them."""
        until, cluster = time.monotonic() + patience_s, self._consumer._cluster
        topics = {self._pair(task).topic for task in self._known}
        for topic in topics:
            cluster.add_topic(topic)
        while None in map(cluster.partitions_for_topic, topics) and time.monotonic() < until:
            time.sleep(0.02)

    def _there(self, pairs: Iterable[Any]) -> list[Any]:
        """Those that their changelogs have, with a leader that answers; for the others it looks again meanwhile."""
        cluster, now = self._consumer._cluster, time.monotonic()
        pairs = list(pairs)
        absent = {pair for pair in pairs if pair.partition not in (cluster.partitions_for_topic(pair.topic) or ())}
        unread = {pair for pair in pairs if pair in absent or not self.offsets.led(pair)}
        for pair in set(pairs) - unread:
            self._absent.pop(pair, None)
        for pair in unread:
            if self._task_of(pair) in self._wanted and self._absent_for_long(pair):
                log.warning(
                    "the changelog %s has no partition %d: task %s waits until it has as many as the widest source"
                    if pair in absent
                    else "the changelog %s has no leader that answers for partition %d: task %s waits for it",
                    *(pair.topic, pair.partition, self._task_of(pair)),
                )
        if unread and now - self._searched > self.look_every_s:
            self._searched = now
            for topic in {pair.topic for pair in unread}:
                cluster.add_topic(topic)  # the client forgets topics that it does not read
            cluster.request_update()
        return [pair for pair in pairs if pair not in absent]

    def _absent_for_long(self, key: Any) -> bool:
        """Whether a task's needs have been away for ABSENT_S now: true once."""
        now = time.monotonic()
        long = now - self._absent.setdefault(key, now) > ABSENT_S
        if long:
            self._absent[key] = math.inf
        return long

    def _reassign(self) -> None:
        """Read the changelogs of exactly the open stores, as far as it is known where they begin and end."""
        pairs = {pair: self._task_of(pair) for pair in self._there(map(self._pair, sorted(self.open)))}
        remade = {pair for pair, task in pairs.items() if pair in self._cut or self._of_another_life(task)}
        before = set(self._consumer.assignment())
        stay = before & set(pairs) - remade
        new = sorted(set(pairs) - stay)
        begin = self.offsets.begin(new)
        end = self.offsets.end(begin)
        known = [pair for pair in new if pair in end]
        if known or stay | remade != before:
            self._consumer.assign(sorted(stay | set(known)))
        for pair in known:
            task = pairs[pair]
            self._note_end(task, end[pair])
            why = self._cut.pop(pair, "")
            why = self._not_its_own(pair, begin[pair], end[pair]) or (why if self.open[task].position else "")
            if why:
                log.warning("the state of task %s starts again from the beginning: %s", task, why)
                self._anew(task)
                self._goal.pop(task, None)
                self._stale.pop(task, None)
            self._life[task] = self.offsets.topic_id(pair.topic)
            self._consumer.seek(pair, max(begin[pair], self.open[task].position))

    def _not_its_own(self, pair: Any, begin: int, end: int) -> str:
        """Why the task's store is not a beginning of this changelog; "" if it is one.

        Deletions are forgotten ``delete.retention.ms`` after they were written: an older store would bring such keys
        back, unless nothing was written since.
        """
        task = self._task_of(pair)
        position, origin = self.open[task].position, self.open[task].origin
        if not position:
            return ""
        topic_id = self.offsets.topic_id(pair.topic)
        if origin.changelog != pair.topic:
            return f"it is of the changelog {origin.changelog!r}, and the task's is {pair.topic!r}"
        if "" not in (origin.topic_id, topic_id) and origin.topic_id != topic_id:
            return f"the changelog {pair.topic} was deleted and created again since ({origin.topic_id}, now {topic_id})"
        if not begin <= position <= end:
            return f"its position {position} is not within the changelog {pair.topic}, {begin} to {end}"
        age_ms = time.time() * 1000 - origin.whole_ms
        if position < end and age_ms < -CLOCK_AHEAD_MS:
            return (
                f"by the clock, it is whole {-age_ms / 1000:.0f} s from now: the clock was ahead when it was written "
                f"or is behind now, and the changelog {pair.topic} may have forgotten deletions since"
            )
        if position < end and age_ms > (retention_ms := self.offsets.delete_retention_ms(pair.topic)):
            return (
                f"it was last whole {age_ms / 1000:.0f} s ago, and the changelog {pair.topic} forgets after "
                f"{retention_ms / 1000:g} s (delete.retention.ms) that a key was deleted"
            )
        return ""

    def _of_another_life(self, task: Task) -> bool:
        """Whether the changelog was deleted and created again since this process read it: its id is another one.

        Offsets alone would not tell where the new one is as long, and the client goes on at its end where it is not.
        """
        ids = self._life.get(task, ""), self.offsets.topic_id(self._pair(task).topic)
        return "" not in ids and ids[0] != ids[1]

    def origin(self, task: Task, whole_ms: float) -> StoreOrigin:
        """The changelog that a store of the task belongs to, whole at that moment (Unix milliseconds)."""
        topic = self._pair(task).topic
        return StoreOrigin(topic, self.offsets.topic_id(topic), int(whole_ms))

    def _anew(self, task: Task) -> None:
        """Put the task's file away, and open an empty store."""
        self.open.pop(task).close()
        path = self.folder.file(task)
        for piece in (path, *path.parent.glob(f"{path.name}-*")):
            piece.unlink(missing_ok=True)
        self._open(task)

    def _on_disk(self) -> dict[Task, int]:
        """Task to position, of every store that an earlier run left."""
        positions: dict[Task, int] = {}
        for task in self.folder.tasks():
            if self._has(task) and self.folder.claim(task):
                try:
                    store = self.open_store(self.folder.file(task))
                    positions[task] = store.position
                    store.close()
                finally:
                    self.folder.release(task)
        return positions

    def _has(self, task: Task) -> bool:
        subtopologies = self.topology.subtopologies
        return task.subtopology < len(subtopologies) and subtopologies[task.subtopology].stateful

    def _pair(self, task: Task) -> Any:
        return TopicPartition(self.topology.subtopologies[task.subtopology].changelog, task.partition)

    def _task_of(self, pair: Any) -> Task:
        return Task(self._number[pair.topic], pair.partition)


def _epoch(headers: Iterable[tuple[str, bytes]] | None) -> int:
    """The writer's epoch; 0 if the record was written by another program, or makes no sense."""
    for name, value in headers or ():
        if name == EPOCH and value is not None and value.isdigit() and len(value) < 19:
            return int(value)
    return 0
