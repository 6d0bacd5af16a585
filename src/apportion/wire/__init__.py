"""Kafka's bytes in and out: subscriptions, assignments, members' memories, and the coordinator's records."""
