"""Kafka's bytes in and out: what members say and are told, what they remember, and what the coordinator wrote."""
