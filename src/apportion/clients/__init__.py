"""Strategies inside the consumers that people already have, beside Java members, whoever leads.

kafka_python, aio_kafka, confluent
    One module a client: its interface and nothing else; ``adapter`` and ``topic_metadata`` are what they share.
client_versions
    The versions of the clients that our classes were tried with, and the table of what they change.
leaving
    ``leave``: hand over before you go.
options, member_facts
    What a member brings along beside its strategy.
bridge
    Bytes in, bytes out, the same for all of them: ``joined_group`` reads them. ``member_bridge`` is what it is to an
    adapter.
rebalance
    What happened: the record that ``on_plan`` gets and the log line.
lag_feed
    Offsets for lag-aware plans, fetched in the background.
acting
    Asks for a rebalance where the lag is uneven, while its member leads.
protocol_selection, error_sentences
    Which strategy a group ends up with, and what a client's error means.
broker_takeover
    What a member does once the broker assigns by the new protocol.
tasks
    Whole tasks with state on kafka-python: active, standby, warm-up; ``stores``, ``restore`` and ``state_dir`` keep it.
task_bridge
    What members of such a group say, and how their leader plans it.
"""

from apportion.acting.rule import Acting
from apportion.clients.leaving import leave

__all__ = ["Acting", "leave"]
