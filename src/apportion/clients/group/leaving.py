"""Leave a group without making any member wait: hand over while you read on, and go once you hold nothing."""

from __future__ import annotations

from typing import Any, Final

from apportion.errors import BadInput

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

    There is nothing to wait for, and the log says why, under an eager strategy (all of aiokafka's are), for tasks with
    state, and for a static member, whose partitions wait for it.

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
