"""Leave a group without making any member wait: hand over while you read on, and go once you hold nothing."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from apportion.errors import BadInput

log = logging.getLogger("apportion.clients")

DEADLINE_S: Final = 20.0
"""Shorter than the 30 s that Kubernetes waits before it kills."""
MOST_S: Final = 86_400
"""Seconds that a deadline may be away."""


def leave(consumer: Any, deadline_s: float = DEADLINE_S) -> bool:
    """Hand all partitions over; True once there is nothing left to wait for, and the consumer is to be closed.

        while not (stop.is_set() and leave(consumer)):
            for partition, records in consumer.poll(timeout_ms=1000).items():
                ...
        consumer.close()

    consumer
        A KafkaConsumer or AIOKafkaConsumer with a strategy of ours, a GroupConsumer, a TaskRunner.
    deadline_s
        Seconds from the first call on, above 0, after which it is True whatever happened.

    The first call has the member join once more, as one that takes nothing, and each further one looks. Meanwhile the
    application goes on as ever: it reads, works and commits until the others have joined too. Then its partitions go as
    at any rebalance of a cooperative group, with a last commit where that is automatic, and the others have them soon.
    A member that is killed meanwhile is missed as any other.

    Under an eager strategy (all of aiokafka's are) it reads on as long, but the others stop for this rebalance, and the
    log says so. A ``TaskRunner`` runs its tasks until the others have restored their state. There is nothing to wait
    for, and the log says why, for a static member, whose partitions wait for it, and for one that holds nothing.

    Raises
        BadInput for another object, or a deadline that cannot be.
    """
    if not 0 < deadline_s <= MOST_S:
        raise BadInput("deadline_s", repr(deadline_s), f"seconds, above 0 and up to {MOST_S:,}")
    member = getattr(consumer, "_member", None) or getattr(consumer, "_consumer", None) or consumer
    coordinator = getattr(member, "_coordinator", None)
    hand_over = getattr(coordinator, "hand_over", None)
    if hand_over is None:
        raise BadInput("consumer", type(consumer).__name__, "a consumer that has a strategy of apportion's")
    return bool(hand_over(deadline_s))


@dataclass
class HandOver:
    """One member's side of it.

    begun
        Whether it joins as a member that takes nothing.
    sent
        Whether a join has said so: one that was under way when it began has not, and the client forgets meanwhile that
        it was asked for another.
    over
        Whether its partitions have gone, so that it leaves and joins no more.
    """

    begun: bool = False
    sent: bool = False
    over: bool = False
    _until: float | None = None

    def look(self, group: str, deadline_s: float, at_once: str, *, eager: bool) -> bool:
        """Begin with the first call, unless there is a reason to go ``at_once``; whether it begins now."""
        if self._until is not None:
            return False
        self._until = -inf if at_once else time.monotonic() + deadline_s
        self.begun = not at_once
        if at_once:
            log.info("group %r: this member leaves without a hand-over, since %s", group, at_once)
        elif eager:
            log.info("group %r: this member hands over; its strategy is eager, so all others stop meanwhile", group)
        return self.begun

    def wanted(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """What a join that is sent now asks for, of the topics that the member subscribes to."""
        self.sent = self.begun
        return () if self.begun else topics

    @property
    def due(self) -> bool:
        """Whether a join is to say so yet."""
        return self.begun and not self.sent

    @property
    def late(self) -> bool:
        """Whether there is nothing more to wait for, whatever it holds."""
        return self.over or (self._until is not None and time.monotonic() >= self._until)
