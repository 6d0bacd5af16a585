"""The messages between members of a task group and their leader, inside user data.

Both layouts are ours and begin with an int16 version; a reader of version n takes what it knows of n + 1 and leaves
the tail alone. They are not the bytes of Kafka Streams. Whatever comes, ``read_*`` answers: bytes that cannot be read
are no memory, and ``lost`` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from apportion.errors import UnreadableBytes
from apportion.wire.primitives import Reader
from apportion.wire.writer import Writer

PROTOCOL: Final = "apportion-streams"
"""The name under which members of a task group join."""
OLDEST: Final = 1
"""The oldest version that is read."""
MEMORY_VERSION: Final = 3
"""A member's report is written in this one; 2 added the topology's digest at the end, 3 the run."""
ORDERS_VERSION: Final = 2
"""Orders are written in this one; 2 added the process id that is another's at the end."""

Pair = tuple[int, int]
"""A task: the number of its sub-topology, and of its partition."""


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """A member's report when it joins.

    process
        What shares its local state; "" where nothing was said.
    asks
        How often it asked for a rebalance: a broker that hears the same bytes again starts none.
    active, standby
        Tasks that it runs, and that it keeps a copy of.
    lag
        Task to the messages that it would have to restore; every task with local state that it does not run.
    tags
        Key to value, for standbys that stand apart.
    topology
        A digest of its topology: task numbers mean the same to those who say the same; "" where nothing was said.
    run
        One start of the process: two members of one process id and two runs have copies of one folder.
    """

    process: str = ""
    asks: int = 0
    active: tuple[Pair, ...] = ()
    standby: tuple[Pair, ...] = ()
    lag: Mapping[Pair, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    lost: str | None = None
    topology: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """A member's orders in addition to its partitions.

    active, standby, warmup
        Its tasks in each role; an active one comes with all of its partitions or not at all.
    coming
        Standbys and warm-ups of its own that will run here as soon as they have caught up.
    probe_ms
        Milliseconds until the group should look again; None when nothing waits.
    asker
        Whether it is this member that asks for that rebalance.
    not_its_own
        The process id that it joined with, if another process keeps that one; else "".
    """

    active: tuple[Pair, ...] = ()
    standby: tuple[Pair, ...] = ()
    warmup: tuple[Pair, ...] = ()
    coming: tuple[Pair, ...] = ()
    probe_ms: int | None = None
    asker: bool = False
    lost: str | None = None
    not_its_own: str = ""


def write_memory(memory: TaskMemory) -> bytes:
    """int16 version, string process, int32 asks, active, standby, lags (task, int64), tags, topology, run."""
    writer = Writer().int16(MEMORY_VERSION).string(memory.process).int32(memory.asks)
    _write_tasks(writer, memory.active)
    _write_tasks(writer, memory.standby)
    writer.array(
        sorted(memory.lag.items()), lambda row: writer.int32(row[0][0]).int32(row[0][1]).int64(min(row[1], 2**63 - 1))
    )
    writer.array(sorted(memory.tags.items()), lambda tag: writer.string(tag[0]).string(tag[1]))
    return writer.string(memory.topology).string(memory.run).done()


def read_memory(raw: bytes | None) -> TaskMemory:
    """Read the bytes of ``write_memory``; tasks and lags with a negative number are left out, for there are none."""
    if not raw:
        return TaskMemory()
    try:
        reader, version = _begin(raw)
        process, asks = reader.string(), reader.int32()
        active, standby = _read_tasks(reader), _read_tasks(reader)
        lags = reader.array(lambda: ((reader.int32(), reader.int32()), reader.int64()), 16)
        tags = reader.array(lambda: (reader.string(), reader.string()), 4)
        topology = reader.string() if version >= 2 else ""
        run = reader.string() if version >= 3 else ""
    except UnreadableBytes as error:
        return TaskMemory(lost=_why(raw, error))
    known = {pair: messages for pair, messages in lags if min(pair) >= 0 and messages >= 0}
    return TaskMemory(process, asks, active, standby, known, dict(tags), topology=topology, run=run)


def write_orders(orders: TaskAssignment) -> bytes:
    """int16 version, active, standby, warm-ups, coming, int64 milliseconds (-1: none), int8 whether to ask, process."""
    writer = Writer().int16(ORDERS_VERSION)
    for tasks in (orders.active, orders.standby, orders.warmup, orders.coming):
        _write_tasks(writer, tasks)
    writer.int64(-1 if orders.probe_ms is None else orders.probe_ms).int8(orders.asker)
    return writer.string(orders.not_its_own).done()


def read_orders(raw: bytes | None) -> TaskAssignment:
    """Read the bytes of ``write_orders``; a member whose leader sends nonsense runs nothing, and says why."""
    if not raw:
        return TaskAssignment()
    try:
        reader, version = _begin(raw)
        active, standby, warmup, coming = (_read_tasks(reader) for _ in range(4))
        probe, asker = reader.int64(), reader.int8()
        process = reader.string() if version >= 2 else ""
    except UnreadableBytes as error:
        return TaskAssignment(lost=_why(raw, error))
    probe_ms = probe if probe >= 0 else None
    return TaskAssignment(active, standby, warmup, coming, probe_ms, bool(asker), not_its_own=process)


def _write_tasks(writer: Writer, tasks: Iterable[Pair]) -> None:
    """Sub-topology by sub-topology: its number and its partitions."""
    by_sub: dict[int, list[int]] = {}
    for sub, partition in sorted(set(tasks)):
        by_sub.setdefault(sub, []).append(partition)
    writer.array(list(by_sub.items()), lambda row: writer.int32(row[0]).int32s(row[1]))


def _read_tasks(reader: Reader) -> tuple[Pair, ...]:
    rows = reader.array(lambda: (reader.int32(), reader.int32s()), 8)
    pairs = {(sub, partition) for sub, numbers in rows for partition in numbers}
    return tuple(sorted(pair for pair in pairs if min(pair) >= 0))


def _begin(raw: bytes) -> tuple[Reader, int]:
    reader = Reader(raw)
    version = reader.int16()
    if version < OLDEST:
        raise reader.fail(f"version {version}, needed {OLDEST} or higher")
    return reader, version


def _why(raw: bytes, error: UnreadableBytes) -> str:
    return f"{len(raw)} bytes of user data are no memory of tasks: {error}"
