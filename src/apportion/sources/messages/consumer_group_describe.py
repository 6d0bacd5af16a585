"""ConsumerGroupDescribe (API key 69, KIP-848) as kafka-python's own messages are made: from its fields as JSON.

Source of the fields: Apache Kafka's protocol guide, ConsumerGroupDescribe versions 0 and 1.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """Ask a coordinator for groups of the new protocol."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """Its answer: epochs, members, and their present and future partitions."""
