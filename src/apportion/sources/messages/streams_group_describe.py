"""StreamsGroupDescribe (API key 89, KIP-1071) as kafka-python's own messages are made: from its fields as JSON.

Source of the fields: Apache Kafka's protocol guide, StreamsGroupDescribe version 0.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class StreamsGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """Ask a coordinator for streams groups."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """Its answer: epochs, the topology, members with their tasks."""
