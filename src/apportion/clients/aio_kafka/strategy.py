"""One consumer's strategy in aiokafka's own interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from apportion.clients.group.adapter import Adapter, assignor_for
from apportion.clients.group.bridge import Bridge, bridge_for
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.topic_metadata import ClientMetadata
from apportion.defaults import DEFAULT_EAGER
from apportion.errors import BadInput

REPLICAS: Final = "replicas"
"""Where the client's metadata of a partition list the brokers of its replicas."""


class AioKafkaAssignor(Adapter, AbstractPartitionAssignor):  # type: ignore[misc]
    """One consumer's strategy in aiokafka's own interface."""

    def __init__(self, bridge: Bridge) -> None:
        for name in ("warm_up", "drain_s"):
            if getattr(bridge.options, name) is not None:
                raise BadInput(name, "it in aiokafka, which gives all up at each join", "kafka-python or GroupConsumer")
        super().__init__(bridge)

    def ask_rejoin(self) -> None:
        """As in ``Adapter``; the client's future belongs to its event loop."""
        coordinator = self.coordinator
        if coordinator is not None and not (loop := coordinator._coordination_task.get_loop()).is_closed():
            loop.call_soon_threadsafe(coordinator.request_rejoin)

    def metadata(self, topics: Iterable[str]) -> bytes:
        """This member's subscription; it has let go of everything, unless it hands over."""
        coordinator = self.coordinator
        return self.words(topics, keeps=coordinator is not None and coordinator.reads_on)

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, bytes]:
        """Never called: our coordinator calls ``lead``."""
        raise NotImplementedError

    def lead(self, view: ClientMetadata, joined: JoinedGroup, began: float) -> dict[str, bytes]:
        """As leader, in a thread: the bytes of every member's assignment.

        began
            ``time.perf_counter()`` at which the members' bytes came, later by what the metadata took.
        """
        coordinator = self.coordinator
        return self.bridge.lead(joined, view, str(coordinator.group_id), coordinator.generation, began)

    def on_assignment(self, assignment: Any) -> None:
        """Remember this member's assignment."""
        coordinator = self.coordinator
        generation = None if coordinator is None else int(coordinator.generation)
        self.remember(assignment.assignment, assignment.user_data, generation)

    @staticmethod
    def closed(coordinator: Any) -> bool:
        """Whether it was asked to end."""
        return bool(coordinator._closing.done())


assignor = assignor_for(AioKafkaAssignor, bridge_for, DEFAULT_EAGER)
