"""One consumer's strategy in kafka-python's own interface."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from apportion.clients.group.adapter import Adapter, assignor_for
from apportion.clients.group.bridge import Bridge, bridge_for
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.topic_metadata import ClientMetadata
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.wire.partitions import Held, held, in_order

REPLICAS: Final = "replica_nodes"
"""Where the client's metadata of a partition list the brokers of its replicas."""


class KafkaPythonAssignor(Adapter, AbstractPartitionAssignor):  # type: ignore[misc]
    """One consumer's strategy in kafka-python's own interface."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__(bridge)
        self._planned_racks: Mapping[str, list[tuple[str, ...]]] = {}
        self._compared: tuple[Any, Any] | None = None
        self._joined: tuple[JoinedGroup, float] | None = None
        self.may_join: Callable[[], bool] = lambda: True
        """Asked when a join is due; one that is put off is due again at the next poll."""

    def raise_if_fenced(self, *, heard: bool = False) -> None:
        """Raise FencedInstanceIdError once another member has this one's instance id; ``heard=True``: it has."""
        if self.coordinator is not None:
            self.coordinator.raise_if_fenced(heard=heard)

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Cooperative strategies work eagerly too, so that a group can be switched to them in two bounces."""
        if self.bridge.cooperative:
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """This member's subscription when it joins, as version 3."""
        coordinator = self.coordinator
        keeps = self.bridge.cooperative
        holds = None
        if coordinator is not None:
            keeps = coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE
            holds = _held(coordinator._subscription.assigned_partitions()) if keeps else None
        return ConsumerProtocolSubscription.decode(self.words(topics, keeps=keeps, holds=holds))

    def lead(self, joined: JoinedGroup, began: float) -> None:
        """As leader: plan the group that ``joined`` when the client calls ``assign`` next.

        began
            ``time.perf_counter()`` at which the members' bytes came.
        """
        self._joined = joined, began

    def assign(self, cluster: Any, _: Sequence[Any]) -> Mapping[str, Any]:
        """As leader, after ``lead``: every member's share. It does no I/O; the client calls it on its IO thread."""
        coordinator, joined = self.coordinator, self._joined
        assert joined is not None  # noqa: S101 - our coordinator has called ``lead``
        self._joined = None
        group, generation = str(coordinator.group_id), int(coordinator._generation.generation_id)
        view = ClientMetadata(cluster, REPLICAS)
        answer = self.bridge.lead(joined[0], view, group, generation, joined[1])
        self._planned_racks = view.seen_racks() if self.bridge.options.rack else {}
        return answer

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Remember this member's assignment."""
        self._compared = None
        self.remember(assignment.assigned_partitions, assignment.user_data, generation)

    @staticmethod
    def closed(coordinator: Any) -> bool:
        """Whether it has stopped beating."""
        return bool(coordinator._heartbeat_closed)

    def racks_moved(self, cluster: Any) -> bool:
        """Whether replicas are in other racks than at this leader's last plan (KIP-881: then it rejoins).

        It is asked at each poll. The client makes its tables of topics and of brokers anew with each answer of a
        broker, so the same two objects say the same racks, and are read once.
        """
        view = ClientMetadata(cluster, REPLICAS)
        tables = view.tables()
        if self._compared is not None and all(map(operator.is_, tables, self._compared)):
            return False
        for topic in self._planned_racks:
            view.rack_numbers(topic)
        moved = view.seen_racks() != self._planned_racks
        self._compared = None if moved else tables
        return moved


assignor = assignor_for(KafkaPythonAssignor, bridge_for, DEFAULT_ASSIGNOR)


def _held(partitions: Iterable[Any]) -> Held:
    owned: dict[str, list[int]] = {}
    for partition in partitions:
        owned.setdefault(partition.topic, []).append(partition.partition)
    return in_order(held(owned))
