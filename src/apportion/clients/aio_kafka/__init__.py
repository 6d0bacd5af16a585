"""Strategies for aiokafka 0.14: ``AIOKafkaConsumer(..., partition_assignment_strategy=[assignor("sticky")])``.

A consumer that has one of them gets ``ApportionGroupCoordinator`` in place of the client's own class, from which it
derives. What stays out of reach: the client gives up all partitions at every join, so a cooperative strategy works
eagerly here.
"""

from __future__ import annotations

try:
    from aiokafka.consumer.group_coordinator import GroupCoordinator

    from apportion.clients.aio_kafka.coordinator import ApportionGroupCoordinator, NotAsked
    from apportion.clients.aio_kafka.strategy import AioKafkaAssignor, assignor
except ImportError as error:  # pragma: no cover - tried in an environment without the client
    from apportion.clients.group.client_versions import AIOKAFKA, unusable

    if (error.name or "").partition(".")[0] != "aiokafka":
        raise
    raise unusable(AIOKAFKA, "apportion.clients.aio_kafka") from None

from apportion.clients.group.adapter import install
from apportion.clients.group.client_versions import AIOKAFKA, require_known

__all__ = ["AioKafkaAssignor", "NotAsked", "assignor"]

require_known(AIOKAFKA, ApportionGroupCoordinator)
install(GroupCoordinator, ApportionGroupCoordinator, AioKafkaAssignor, "assignors")
