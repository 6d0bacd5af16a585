"""The state that the members of a group share, in any client.

bridge, joined_group
    Bytes in, bytes out, the same for all of them.
adapter, topic_metadata, client_versions
    What the clients' packages share: how a consumer gets our classes, and the versions that they were tried with.
options, member_facts
    What a member brings along beside its strategy.
warm_up, leaving, finished
    Hand over once the successor is warm; ``leave``: hand over before you go; ``done``: once its records are finished.
acting
    Asks for a rebalance where the lag is uneven, while its member leads.
protocol_selection, error_sentences, broker_takeover
    Which strategy a group ends up with, what a client's error means, and what a member does once the broker assigns by
    the new protocol.
"""
