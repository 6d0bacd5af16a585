"""The news that a runner of tasks needs from its kafka-python consumer, which by itself only logs it, if at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer

from apportion.clients.runtime.log_offsets import LogOffsets

log = logging.getLogger("apportion.clients")

LOOK_EVERY_S: Final = 1.0
STANDS_LOOKS: Final = 10
"""Looks, of one poll each, without a step forward after which the log says what holds a partition up."""


class InputWatch(ConsumerRebalanceListener):  # type: ignore[misc]
    """Listens to rebalances on the client's thread: new partitions wait for their task, gone ones are noted.

    gone
        Partitions that were revoked or lost, until somebody takes them out.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer, self._coordinator = consumer, consumer._coordinator
        self.gone: list[Any] = []
        self._stands: dict[Any, tuple[int | None, int]] = {}
        self._looked = 0.0

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """No record may be given out before its task's state is whole."""
        self._consumer.pause(*assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """They are another's from now on."""
        self.gone.extend(revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """They have been another's for some time."""
        self.gone.extend(lost)

    def tell_gaps(self, records: Mapping[Any, list[Any]]) -> None:
        """Warn of records that retention deleted before they were read: the client goes on at the log's beginning."""
        outside = self._consumer._fetcher.outside
        for pair in outside.keys() & records.keys():
            wanted, first = outside.pop(pair), records[pair][0].offset
            if first > wanted:
                log.warning(
                    "%d records of %s, partition %d, were deleted before they were read (offsets %d to %d): "
                    "the retention of the topic is shorter than the lag; reading continues at offset %d",
                    *(first - wanted, pair.topic, pair.partition, wanted, first - 1, first),
                )
            else:
                log.warning(
                    "%s, partition %d, ends before offset %d, which was to be read next: it was made anew, or lost its "
                    "end; it is read again from offset %d",
                    *(pair.topic, pair.partition, wanted, first),
                )

    def tell_waits(self, flowing: Collection[Any], offsets: LogOffsets) -> None:
        """Warn of partitions that could be read but gave nothing for some looks, and name the cause."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked, before, self._stands = time.monotonic(), self._stands, {}
        assignment = self._consumer._subscription.assignment
        for pair, state in [(pair, assignment[pair]) for pair in flowing if pair in assignment]:
            at = None if state.position is None else state.position.offset
            if at is not None and (state.highwater is None or at >= state.highwater):
                continue
            last, looks = before.get(pair, (at, 0))
            self._stands[pair] = at, looks + 1 if at == last else 0
            if self._stands[pair][1] == STANDS_LOOKS:
                self._stands[pair] = at, 0
                group = self._coordinator.group_id
                why = offsets.held_commit(group, pair) if at is None else offsets.held(pair, at)
                log.warning("partition %d of %s waits: %s", pair.partition, pair.topic, why)

    def hears_the_group(self, generation: int | None) -> bool:
        """Whether the broker has heard of this member within a session time-out, in that generation."""
        current = self._coordinator._generation.generation_id == generation
        return current and not self._coordinator.heartbeat.session_timeout_expired()

    def let_flow(self, flowing: set[Any]) -> None:
        """Fetch records of exactly these partitions."""
        paused, assigned = self._consumer.paused(), self._consumer.assignment()
        self._consumer.resume(*(paused & flowing))
        self._consumer.pause(*(assigned - paused - flowing))

    def forget_positions(self, pairs: Collection[Any] | None = None) -> None:
        """Read on in those (None: in all) from the committed offsets, which are looked up as after an assignment."""
        self._coordinator.forget_positions(pairs)
