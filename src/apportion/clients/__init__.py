"""Strategies inside the consumers that people already have, next to Java members, whoever leads.

kafka_python, aio_kafka, confluent
    One package a client: its interface and nothing else.
group
    What all of them share: the bytes of a group in and out, claims, plans, hand-over, what a client's error means.
runtime
    What ``tasks`` is made of: stores, their restore, delivery, and how a group of such members is planned.
tasks
    Whole tasks with state on kafka-python: active, standby, warm-up.
lag_feed
    Offsets for lag-aware plans, fetched in the background.
rebalance
    What happened: the record that ``on_plan`` gets and the log line.
"""

from apportion.acting.rule import Acting
from apportion.clients.group.finished import done
from apportion.clients.group.leaving import leave

__all__ = ["Acting", "done", "leave"]
