"""ShareGroupDescribe (API key 77, KIP-932) as kafka-python's own messages are made: from its fields as JSON.

Source of the fields: Apache Kafka's protocol guide, ShareGroupDescribe version 1.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ShareGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """Ask a coordinator for share groups."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """Its answer: epochs, members, and their present shares."""
