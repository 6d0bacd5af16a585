"""Strategies for confluent-kafka, whose client takes no assignor: ``GroupConsumer(settings, topics, "sticky")``."""

from apportion.clients.confluent.consumer import GroupConsumer

__all__ = ["GroupConsumer"]
