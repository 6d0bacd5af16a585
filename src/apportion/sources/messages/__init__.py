"""Kafka's messages that kafka-python does not know yet, in the form that it makes its own from."""
