"""The states of a GroupConsumer's partitions: one each, and the table of the events that lead from one to another.

| state | the group's member | the fetcher | the application |
|---|---|---|---|
| away | does not have it | does not read it | knows nothing of it |
| coming | will get it | does not read it | gets ready for it, or is (``warm_up``) |
| owned | has it | does not read it: no position is known, or it was let go of | knows it |
| reading | has it | reads it | knows it |
| paused | has it | does not read it | wants nothing of it |
| leaving | gives it up in good order | does not read it | has to hear ``on_revoked`` |
| lost | was expelled | does not read it | has to hear ``on_lost`` |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from kafka.structs import TopicPartition as Part


class PartitionState(Enum):
    """See the head of this file."""

    AWAY = auto()
    COMING = auto()
    OWNED = auto()
    READING = auto()
    PAUSED = auto()
    LEAVING = auto()
    LOST = auto()


class Event(Enum):
    """An event of one partition, and its cause."""

    ANNOUNCED = "the leader will give it"
    GIVEN = "the member has it"
    FETCHED = "the fetcher begins"
    STOPPED = "the fetcher ends"
    PAUSED = "the application wants nothing of it"
    RESUMED = "the application wants it again"
    TAKEN = "the member gives it up"
    EXPELLED = "the member was expelled"
    TOLD = "the application has heard of it"


AWAY, COMING, OWNED, READING, PAUSED, LEAVING, LOST = PartitionState
HELD: Final = (OWNED, READING, PAUSED)
"""States of what the member has."""
GONE: Final = (LEAVING, LOST)
"""States of what the application has to hear of."""

TRANSITIONS: Final[Mapping[PartitionState, Mapping[Event, PartitionState]]] = {
    AWAY: {Event.ANNOUNCED: COMING, Event.GIVEN: OWNED, Event.TAKEN: AWAY, Event.EXPELLED: AWAY},
    COMING: {Event.GIVEN: OWNED, Event.TAKEN: LEAVING, Event.EXPELLED: LOST},
    OWNED: {
        Event.FETCHED: READING,
        Event.PAUSED: PAUSED,
        Event.RESUMED: OWNED,
        Event.TAKEN: LEAVING,
        Event.EXPELLED: LOST,
    },
    READING: {
        Event.STOPPED: OWNED,
        Event.RESUMED: READING,
        Event.TAKEN: LEAVING,
        Event.EXPELLED: LOST,
    },
    PAUSED: {Event.PAUSED: PAUSED, Event.RESUMED: OWNED, Event.TAKEN: LEAVING, Event.EXPELLED: LOST},
    LEAVING: {Event.TAKEN: LEAVING, Event.EXPELLED: LOST, Event.TOLD: AWAY},
    LOST: {Event.TAKEN: LOST, Event.EXPELLED: LOST, Event.TOLD: AWAY},
}  # fmt: skip
"""State to what may happen in it, and the state after it."""


class Partitions:
    """The state of every partition that is not away; changed by the consumer's own thread alone."""

    def __init__(self) -> None:
        self._state: dict[Part, PartitionState] = {}

    def move(self, parts: Iterable[Part], event: Event) -> None:
        """Have it happen to each of these.

        Raises
            RuntimeError where it cannot: that is a fault of ours.
        """
        for part in parts:
            before = self._state.get(part, AWAY)
            after = TRANSITIONS[before].get(event)
            if after is None:
                raise RuntimeError(
                    f"{part.topic}-{part.partition} is {before.name.lower()}: {event.value}, it cannot be"
                )
            if after is AWAY:
                self._state.pop(part, None)
            else:
                self._state[part] = after

    def among(self, *states: PartitionState) -> set[Part]:
        """Those that are in one of these states; callable from any thread."""
        return {part for part, state in list(self._state.items()) if state in states}
