"""Streams-style task assignment: sub-topologies become tasks; processes get active, standby and warm-up tasks.

It follows the goals and the configuration names of Kafka Streams' own assignor. It does not speak Kafka Streams' byte
protocol, create internal topics, or probe versions: its members are Python's, and a Java Streams application cannot
join them.
"""
