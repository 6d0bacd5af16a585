"""Strategies for kafka-python 3: ``KafkaConsumer(..., partition_assignment_strategy=[assignor("sticky")])``.

A consumer that has one of them gets ``ApportionCoordinator`` and ``ApportionFetcher`` in place of the client's own
classes, from which they derive.
"""

from __future__ import annotations

try:
    from kafka.consumer.fetcher import Fetcher
    from kafka.coordinator.consumer import ConsumerCoordinator

    from apportion.clients.kafka_python.coordinator import ApportionCoordinator, NotAsked
    from apportion.clients.kafka_python.fetcher import ApportionFetcher
    from apportion.clients.kafka_python.strategy import KafkaPythonAssignor, assignor
except ImportError as error:  # pragma: no cover - tried in an environment without the client
    from apportion.clients.group.client_versions import KAFKA_PYTHON, unusable

    if (error.name or "").partition(".")[0] != "kafka":
        raise
    raise unusable(KAFKA_PYTHON, "apportion.clients.kafka_python") from None

from apportion.clients.group.adapter import install
from apportion.clients.group.client_versions import KAFKA_PYTHON, require_known

__all__ = ["KafkaPythonAssignor", "NotAsked", "assignor"]

require_known(KAFKA_PYTHON, ApportionCoordinator, ApportionFetcher)
install(ConsumerCoordinator, ApportionCoordinator, KafkaPythonAssignor, "assignors")
install(Fetcher, ApportionFetcher, KafkaPythonAssignor, "partition_assignment_strategy")
