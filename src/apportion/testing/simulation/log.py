"""A partition's log: batches as producers sent them, control batches, and the view of a committed-records reader.

Rules as in Kafka's ``UnifiedLog`` and ``ProducerStateManager``: the last five batches of a producer are known again,
sequences have no gap within an epoch, an older epoch is refused, the last stable offset is where the earliest open
transaction begins, and a reader gets the aborted transactions that overlap what it reads.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last delta, timestamps, producer, sequence, count."""
TRANSACTIONAL, CONTROL = 0x10, 0x20
REMEMBERED: Final = 5

OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH = 45, 47


class Batch(NamedTuple):
    """One batch where it is in the log."""

    base: int
    last: int
    octets: bytes
    producer: int
    transactional: bool
    control: bool


class Aborted(NamedTuple):
    """A transaction that does not count; ``end`` is the offset of its marker."""

    producer: int
    first: int
    end: int


@dataclass
class Producer:
    """A partition's memory of one producer: epoch, (first, last sequence, base offset) of its latest batches."""

    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    open_since: int | None = None


class Refused(Exception):
    """An append that Kafka answers with this error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class PartitionLog:
    """Batches by offset; nothing is ever deleted but with the topic."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.bases: list[int] = []
        self.end = 0
        self.producers: dict[int, Producer] = {}
        self.aborted: list[Aborted] = []
        self.unverified: dict[int, tuple[int, int]] = {}
        """Producer to the newest epoch, and its lowest sequence, that came before a transaction was known (KIP-890)."""

    @property
    def stable(self) -> int:
        """The last stable offset: all before it is decided."""
        return min((p.open_since for p in self.producers.values() if p.open_since is not None), default=self.end)

    def append(self, records: bytes) -> int:
        """Append a producer's batches, and return the offset of the first record.

        Raises
            Refused as Kafka would.
        """
        base, at = self.end, 0
        while at < len(records):
            length = 12 + struct.unpack_from(">i", records, at + 8)[0]
            base = min(base, self._append(records[at : at + length]))
            at += length
        return base

    def _append(self, octets: bytes) -> int:
        head = HEADER.unpack_from(octets)
        attributes, delta, producer, epoch, sequence = head[5], head[6], head[9], head[10], head[11]
        transactional = bool(attributes & TRANSACTIONAL)
        if producer >= 0:
            if transactional and sequence > self.unverified.get(producer, (epoch, sequence))[1]:
                raise Refused(OUT_OF_ORDER_SEQUENCE)
            known = self._accept(producer, epoch, sequence, sequence + delta)
            if known is not None:
                return known
        self._put(octets, delta, producer, transactional, control=False)
        return self.batches[-1].base

    def verify(self, producer: int, epoch: int, sequence: int) -> None:
        """Note a transactional batch before its transaction is looked up, unless that is open here already."""
        state = self.producers.get(producer)
        if state is None or state.open_since is None or state.epoch != epoch:
            newest, lowest = self.unverified.get(producer, (epoch, sequence))
            if epoch == newest:
                self.unverified[producer] = epoch, min(lowest, sequence)
            elif epoch > newest:
                self.unverified[producer] = epoch, sequence

    def _accept(self, producer: int, epoch: int, first: int, last: int) -> int | None:
        """Note a producer's batch; the base offset of one that is here already, None for a new one."""
        state = self.producers.setdefault(producer, Producer())
        if epoch < state.epoch:
            raise Refused(INVALID_PRODUCER_EPOCH)
        follows = state.batches[-1][1] + 1 if state.batches else 0
        if epoch > state.epoch:
            follows = 0 if state.epoch >= 0 else first
            state.epoch, state.batches = epoch, []
        for begin, end, base in state.batches:
            if (begin, end) == (first, last):
                return base
        if first != follows:
            raise Refused(OUT_OF_ORDER_SEQUENCE)
        state.batches = [*state.batches, (first, last, self.end)][-REMEMBERED:]
        return None

    def _put(self, octets: bytes, delta: int, producer: int, transactional: bool, *, control: bool) -> None:
        base = self.end
        self.batches.append(
            Batch(base, base + delta, struct.pack(">q", base) + octets[8:], producer, transactional, control)
        )
        self.bases.append(base)
        self.end = base + delta + 1
        if transactional:
            self.unverified.pop(producer, None)
        if transactional and not control:
            state = self.producers.setdefault(producer, Producer())
            state.open_since = base if state.open_since is None else state.open_since

    def mark(self, producer: int, epoch: int, timestamp_ms: int, *, commit: bool) -> None:
        """Write the marker that ends a producer's transaction here; from now on its epoch is the least that counts."""
        state = self.producers.setdefault(producer, Producer())
        if not commit and state.open_since is not None:
            self.aborted.append(Aborted(producer, state.open_since, self.end))
        state.open_since = None
        if epoch > state.epoch:
            state.epoch, state.batches = epoch, []
        self._put(control_batch(producer, epoch, timestamp_ms, commit=commit), 0, producer, True, control=True)

    def read(self, offset: int, most: int, committed: bool) -> tuple[bytes, list[Aborted]]:
        """Batches from the one with that offset, and the aborted transactions that reach into them."""
        upper = self.stable if committed else self.end
        taken: list[bytes] = []
        size, at = 0, max(0, bisect_right(self.bases, offset) - 1)
        reached = offset
        while at < len(self.batches) and (batch := self.batches[at]).base < upper and (not taken or size < most):
            if batch.last >= offset:
                taken.append(batch.octets)
                size += len(batch.octets)
                reached = batch.last
            at += 1
        gone = [x for x in self.aborted if committed and x.end >= offset and x.first <= reached]
        return b"".join(taken), gone

    def values(self, begin: int = 0) -> list[tuple[int, bytes | None, bytes | None, list[Any]]]:
        """(offset, key, value, headers) of the records from there that count, by the client's own decoder."""
        gone = {(x.producer, offset) for x in self.aborted if x.end > begin for offset in range(x.first, x.end)}
        upper = self.stable
        out: list[tuple[int, bytes | None, bytes | None, list[Any]]] = []
        for batch in self.batches[bisect_right(self.bases, begin - 1) :]:
            if batch.control or batch.base >= upper or (batch.transactional and (batch.producer, batch.base) in gone):
                continue
            for decoded in iter(MemoryRecords(batch.octets).next_batch, None):
                out += [(r.offset, r.key, r.value, list(r.headers)) for r in decoded]
        return out


def batch_of(values: list[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> bytes:
    """One batch of plain records."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 24)
    for n, (key, value) in enumerate(values):
        builder.append(n, timestamp_ms, key, value, [])
    return bytes(builder.build())


def control_batch(producer: int, epoch: int, timestamp_ms: int, *, commit: bool) -> bytes:
    """The marker at the end of a transaction (KIP-98): key version and type, value version and coordinator epoch."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
    record = b"\0\0\0" + bytes([len(key) * 2]) + key + bytes([len(value) * 2]) + value + b"\0"
    record = bytes([len(record) * 2]) + record
    tail = struct.pack(">hiqqqhii", TRANSACTIONAL | CONTROL, 0, timestamp_ms, timestamp_ms, producer, epoch, -1, 1)
    head = struct.pack(">qiibI", 0, 9 + len(tail) + len(record), 0, 2, calc_crc32c(tail + record))
    return head + tail + record
