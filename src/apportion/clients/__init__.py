"""Strategies inside the consumers that people already have, beside Java members, whoever leads.

kafka_python, aio_kafka, confluent
    One module a client: its interface and nothing else.
bridge
    Names in, names out, the same for all of them.
memory
    What members of each strategy remember between rebalances, and how it travels.
rebalance
    What happened: the record that ``on_plan`` gets and the log line.
lag_feed
    Offsets for lag-aware plans, fetched in the background.
choice
    Which strategy a group ends up with, and who stands in the way of one.
tasks
    Whole tasks with state on kafka-python: active, standby, warm-up; ``stores``, ``restore`` and ``folder`` keep it.
task_bridge
    What members of such a group say, and how their leader plans it.
"""
