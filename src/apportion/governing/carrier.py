"""A member of the new protocol that takes nothing and carries a plan in its rack id.

It speaks ConsumerGroupHeartbeat (KIP-848) through kafka-python's connections, so it has their TLS and logins. It is
static: the broker lets one member at a time have an instance id, so a second governor waits. Rights that it needs:
READ on the group, DESCRIBE on one topic of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from apportion.errors import ApportionError, Unavailable
from apportion.inputs.cluster import Cluster, sentences
from apportion.wire.plan_text import ASSIGNOR

REBALANCE_TIMEOUT_MS: Final = 30_000
LEAVE: Final = -1

ELSEWHERE: Final = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: ask again, maybe another broker."""
EXPELLED: Final = frozenset({25, 82, 110})
"""UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH: join anew."""
TAKEN: Final = 111
"""UNRELEASED_INSTANCE_ID: another governor has the lease."""
WITHOUT_CLASS: Final = 112
"""UNSUPPORTED_ASSIGNOR: the coordinator's broker has not the class."""


class LeaseTaken(ApportionError):
    """Another governor carries this group's plan."""


class Carrier:
    """One carrier of one group; ``beat`` is called again and again, at least every ``interval_s``.

    instance_id
        The lease: whoever holds it governs.
    names_assignor
        Whether it asks for the class, as it must where nobody else does, in a classic group that its joining converts.
        Elsewhere the members' wish counts: on a broker without the class, one member that names it is enough for
        every computation to fail, and librdkafka takes that error as fatal.
    """

    def __init__(self, cluster: Cluster, group: str, instance_id: str, names_assignor: bool = False) -> None:
        self.cluster, self.group, self.instance_id = cluster, group, instance_id
        self.assignor = ASSIGNOR if names_assignor else None
        self.member_id = str(uuid4())
        self.epoch = 0
        self.interval_s = 1.0
        self._rack = ""
        self._topics: list[str] = []
        self._holds = False

    @property
    def joined(self) -> bool:
        """Whether the broker knows it as a member."""
        return self.epoch > 0

    def beat(self) -> None:
        """Join, or say that it lives.

        Raises
            LeaseTaken: another has the instance id. Unavailable: the broker does not answer, or has not the class.
        """
        self._send({} if self.joined else self._everything(self._topics))

    def join(self, rack: str) -> None:
        """Join with a plan: a classic group that this converts has its plan before anything is computed."""
        self._rack = rack
        self.beat()

    def carry(self, rack: str, topic: str) -> None:
        """Have the plan taken: a new rack id alone computes nothing, one that comes with other topics does.

        topic
            Any topic that may be described; it is subscribed to and left in turns, and nothing of it is ever taken.
        """
        self._rack = rack
        self._topics = [] if self._topics else [topic]
        self._send(self._everything(self._topics))

    def leave(self) -> None:
        """Give the lease back."""
        if self.joined:
            self._send({"member_epoch": LEAVE})
            self.epoch = 0

    def _everything(self, topics: Sequence[str]) -> dict[str, Any]:
        return {
            "instance_id": self.instance_id,
            "rack_id": self._rack or None,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "subscribed_topic_names": list(topics),
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }

    def _send(self, fields: Mapping[str, Any]) -> None:
        own = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        with sentences(self.cluster.bootstrap):
            answer = self.cluster._admin._manager.run(self._ask, {**own, "instance_id": self.instance_id, **fields})
        code = answer["error_code"]
        if code in ELSEWHERE:
            return  # the next beat asks for the coordinator anew
        if code in EXPELLED:
            self.epoch, self.member_id = 0, str(uuid4())
            return
        if code == TAKEN:
            raise LeaseTaken(f"another governor has {self.instance_id} in group {self.group}")
        if code == WITHOUT_CLASS:
            raise Unavailable(f"the coordinator of {self.group} has no assignor {ASSIGNOR}: apportion govern --check")
        if code:
            raise Unavailable(f"the coordinator of {self.group} refused the carrier: {answer['error_message'] or code}")
        self.epoch = answer["member_epoch"]
        self.interval_s = max(0.1, answer["heartbeat_interval_ms"] / 1000)
        given = (answer["assignment"] or {}).get("topic_partitions") or []
        if any(entry["partitions"] for entry in given) and not self._holds:
            # Another assignor than ours is in force: it deals to everybody who subscribes. Give it back at once.
            self._holds, self._topics = True, []
            self._send(self._everything([]))
            self._holds = False

    async def _ask(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        from apportion.inputs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        admin = self.cluster._admin
        coordinators = await admin._find_coordinator_ids([self.group])
        request = ConsumerGroupHeartbeatRequest(**fields)
        answer: dict[str, Any] = (await admin._manager.send(request, node_id=coordinators[self.group])).to_dict()
        if answer["error_code"] in ELSEWHERE:
            self.cluster.forget_coordinator(self.group)
        return answer
