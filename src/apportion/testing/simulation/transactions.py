"""The transaction coordinator: who writes under which producer id and epoch, and how transactions end.

As Kafka's ``TransactionCoordinator`` does for clients of transaction version 1: InitProducerId ends what its
predecessor left open and fences it by a higher epoch; an end is decided at once, and its markers come a while later; a
transaction that nobody ends is aborted after its time-out, under a higher epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from apportion.testing.simulation.kernel import World

MARKERS_S: Final = (0.001, 0.05)
"""Seconds from the decision to the markers."""
NONE, INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, CONCURRENT, FENCED = 0, 47, 48, 49, 51, 90


@dataclass
class Transactional:
    """One transactional id.

    ending
        Whether its markers are on their way.
    serial
        Counts transactions, for their time-outs.
    """

    producer: int
    epoch: int
    timeout_s: float
    partitions: set[tuple[str, int]] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    open: bool = False
    ending: bool = False
    last_end: bool | None = None
    serial: int = 0


class Transactions:
    """All transactional ids of a cluster.

    write_marker
        Called with (producer, epoch, partitions, groups, commit) once a decision is to be written everywhere.
    """

    def __init__(self, world: World, write_marker: Callable[[int, int, Any, Any, bool], None]) -> None:
        self.world, self.write_marker = world, write_marker
        self.ids: dict[str, Transactional] = {}
        self._next_producer = 1000

    def init(self, name: str | None, timeout_ms: int, producer: int, epoch: int) -> tuple[int, int, int]:
        """(error, producer id, epoch) for a producer that begins; a plain one without a name."""
        if name is None:
            return NONE, self._new_producer(), 0
        state = self.ids.get(name)
        if state is None:
            state = self.ids[name] = Transactional(self._new_producer(), -1, 0.0)
        elif state.ending:
            return CONCURRENT, -1, -1
        elif producer >= 0 and (producer, epoch) != (state.producer, state.epoch):
            return FENCED, -1, -1
        elif state.open:
            state.epoch += 1  # the predecessor is fenced before its transaction is undone
            self._end(name, state, commit=False)
            return CONCURRENT, -1, -1
        state.epoch += 1
        state.timeout_s, state.last_end = timeout_ms / 1000, None
        return NONE, state.producer, state.epoch

    def add(self, name: str, producer: int, epoch: int, partitions: Any = (), groups: Any = ()) -> int:
        """Partitions and groups into the open transaction; the first ones begin it."""
        state, error = self._of(name, producer, epoch)
        if state is None or state.ending:
            return error or CONCURRENT
        if not state.open:
            state.open, state.last_end = True, None
            state.serial += 1
            serial = state.serial
            self.world.at(state.timeout_s, lambda: self._time_out(name, serial))
        state.partitions.update(partitions)
        state.groups.update(groups)
        return NONE

    def end(self, name: str, producer: int, epoch: int, *, commit: bool) -> int:
        """Decide an open transaction; a decision that is asked for again is answered again."""
        state, error = self._of(name, producer, epoch)
        if state is None:
            return error
        if state.ending or not state.open:
            return INVALID_STATE if state.last_end != commit else CONCURRENT if state.ending else NONE
        self._end(name, state, commit=commit)
        return NONE

    def may_write(self, name: str | None, producer: int, epoch: int, partition: tuple[str, int]) -> int:
        """Whether a transactional batch belongs to an open transaction of that partition (KIP-890)."""
        state, error = self._of(name or "", producer, epoch)
        if state is None:
            return INVALID_EPOCH if error == FENCED else error
        return NONE if state.open and partition in state.partitions else INVALID_STATE

    def _of(self, name: str, producer: int, epoch: int) -> tuple[Transactional | None, int]:
        state = self.ids.get(name)
        if state is None or state.producer != producer:
            return None, INVALID_MAPPING
        return (state, NONE) if epoch == state.epoch else (None, FENCED)

    def _time_out(self, name: str, serial: int) -> None:
        state = self.ids[name]
        if state.open and state.serial == serial:
            self.world.note("transaction timed out", id=name)
            state.epoch += 1
            self._end(name, state, commit=False)

    def _end(self, name: str, state: Transactional, *, commit: bool) -> None:
        self.world.note("transaction decided", id=name, commit=commit)
        state.open, state.ending, state.last_end = False, True, commit
        partitions, groups = sorted(state.partitions), sorted(state.groups)
        state.partitions.clear()
        state.groups.clear()
        producer, epoch = state.producer, state.epoch

        def write() -> None:
            self.write_marker(producer, epoch, partitions, groups, commit)
            state.ending = False

        self.world.at(self.world.random.uniform(*MARKERS_S), write)

    def _new_producer(self) -> int:
        self._next_producer += 1
        return self._next_producer
