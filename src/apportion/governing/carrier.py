"""One member of the new protocol that takes nothing and carries a plan, from its joining to its leaving.

It is static: the broker lets one member at a time have an instance id, so whoever has it governs the group. Rights that
it needs: READ on the group, DESCRIBE on one topic of it.

| state | what is sent next | goes on to |
|---|---|---|
| out, with a plan | a join with it, epoch 0 | in; taken, if another member has the instance id |
| taken | nothing | out, with a plan, when it is given one again |
| in | a heartbeat when it is due | out and without a plan, if the broker expelled it |
| in, with a newer plan or behind a new coordinator | the plan, with other topics than before | in |
| in, and leaving | epoch -1; -2 hands the instance id over, and the plan stays until the session ends | gone |
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

from apportion.wire import plan_text

REBALANCE_TIMEOUT_MS: Final = 30_000
LEAVE: Final = -1
HAND_OVER: Final = -2
RETRY_S: Final = 0.5
"""Before a coordinator that could not answer is asked again."""
EARLY: Final = 0.85
"""The part of the coordinator's interval after which the next heartbeat is due: a busy machine takes the rest."""
REFUSED_S: Final = 5.0
"""Before a heartbeat is repeated that was refused."""

ELSEWHERE: Final = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: ask again, maybe another broker."""
EXPELLED: Final = frozenset({25, 82, 110})
"""UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH: join again, under another member id."""
TAKEN: Final = 111
"""UNRELEASED_INSTANCE_ID: another governor has the lease."""
WITHOUT_CLASS: Final = 112
"""UNSUPPORTED_ASSIGNOR: the coordinator's broker has not the class."""


class Carrier:
    """A carrier of one group; ``fields`` is its next heartbeat, ``take`` hears the answer. It does no I/O.

    instance_id
        The lease: whoever holds it governs. None for a member that carries nothing, and is only there to be counted.
    names_assignor
        Whether it asks for the class, as it must where nobody else does, in a classic group that its joining converts.
        Elsewhere the members' wish counts: on a broker without the class, one member that names it is enough for
        every computation to fail, and librdkafka takes that error as fatal.
    trouble
        Why its last heartbeat failed, a sentence; "" if it did not.
    due_s, beaten_s
        When its next heartbeat is due, and when the last one was answered, by the monotonic clock.
    """

    def __init__(self, group: str, instance_id: str | None, names_assignor: bool = False) -> None:
        self.group, self.instance_id = group, instance_id
        self.assignor = plan_text.ASSIGNOR if names_assignor else None
        self.member_id, self.epoch = str(uuid.uuid4()), 0
        self.text, self.rack, self.topic = "", "", ""
        self.topics: list[str] = []
        self.to_say, self.gives_back, self.taken = True, False, False
        self.leaving: int | None = None
        self.trouble = ""
        self.due_s, self.beaten_s, self.interval_s = 0.0, 0.0, 1.0
        self.connection: object = None

    @property
    def joined(self) -> bool:
        """Whether the broker knows it as a member."""
        return self.epoch > 0

    @property
    def settled(self) -> bool:
        """Whether the broker has all that it is to know; a carrier that was refused or expelled is settled too."""
        return self.taken or bool(self.trouble) or not self.text or (self.joined and not self.to_say)

    @property
    def gone(self) -> bool:
        """Whether it has left."""
        return self.leaving is not None and not self.joined

    def carry(self, text: str, topic: str) -> None:
        """Have a plan carried, from the next heartbeat on, which is due now.

        topic
            Any topic that may be described. It is subscribed to and left in turns, and nothing of it is ever taken: a
            new rack id alone computes nothing, one that comes with other topics does.
        """
        self.text, self.topic, self.to_say, self.taken, self.trouble = text, topic, True, False, ""
        self.due_s = time.monotonic()

    def announce(self) -> None:
        """Say the plan again: the broker behind may have forgotten it."""
        self.to_say, self.due_s = True, time.monotonic()

    def leave(self, epoch: int = LEAVE) -> None:
        """Leave with the next heartbeat, which is due now."""
        self.leaving, self.due_s = epoch, time.monotonic()

    def fields(self) -> Mapping[str, Any]:
        """The next heartbeat."""
        own = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        own["instance_id"] = self.instance_id
        if self.leaving is not None:
            return {**own, "member_epoch": self.leaving}
        topics = self.topics
        if self.joined and self.to_say and not self.gives_back:
            topics = [] if self.topics else [self.topic] if self.topic else []
        return {**own, **(self._everything(topics) if self.to_say or not self.joined else {})}

    def _everything(self, topics: Sequence[str]) -> dict[str, Any]:
        return {
            **(plan_text.joining(self.text) if self.text else {"rack_id": self.rack or None}),
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "subscribed_topic_names": list(topics),
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }

    def take(self, fields: Mapping[str, Any], answer: Mapping[str, Any], connection: object) -> None:
        """Hear the answer to a heartbeat.

        connection
            On which it came. Another one than before may lead to a broker that does not know what the group follows:
            it was started again, or has just become the group's coordinator.
        """
        now_s, code = time.monotonic(), answer["error_code"]
        self.due_s = now_s + REFUSED_S
        if code in ELSEWHERE:
            self.due_s = now_s + RETRY_S
        elif fields["member_epoch"] < 0 or code in EXPELLED:
            self.epoch, self.member_id, self.topics = 0, str(uuid.uuid4()), []
            self.to_say, self.connection = True, None
            # The plan names the member that carries it: without a new one this cannot join.
            self.text, self.due_s = "", now_s + RETRY_S if self.instance_id is None else inf
        elif code == TAKEN:
            self.taken, self.due_s = True, inf
        elif code == WITHOUT_CLASS:
            self.trouble = (
                f"the coordinator of {self.group} has no assignor {plan_text.ASSIGNOR}: apportion govern --check"
            )
        elif code:
            self.trouble = f"the coordinator of {self.group} refused the carrier: {answer['error_message'] or code}"
        else:
            self._taken_up(fields, answer, connection, now_s)

    def _taken_up(self, fields: Mapping[str, Any], answer: Mapping[str, Any], connection: object, now_s: float) -> None:
        """The broker knows it and its words; a newer plan is still to be sent."""
        joins, said = not self.joined, plan_text.joining(self.text).items() <= fields.items() or not self.text
        moved = not joins and self.connection is not connection
        # Only an answer decides: repeated with the topics that the broker knows, a lost plan would compute nothing.
        self.topics = list(fields.get("subscribed_topic_names", self.topics))
        self.epoch, self.connection, self.trouble = answer["member_epoch"], connection, ""
        self.interval_s = max(0.1, answer["heartbeat_interval_ms"] / 1000)
        # A member that joins under the instance id of one that handed over may change nothing that computes.
        self.to_say = (
            (joins and self.instance_id is not None and bool(self.topic)) or moved or (self.to_say and not said)
        )
        given = (answer["assignment"] or {}).get("topic_partitions") or []
        self.gives_back = any(entry["partitions"] for entry in given)
        if self.gives_back:  # another assignor than ours is in force: it deals to everybody who subscribes
            self.topics, self.to_say = [], True
        waits = not self.to_say and self.leaving is None
        self.beaten_s, self.due_s = now_s, now_s + EARLY * self.interval_s if waits else now_s
