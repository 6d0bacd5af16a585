"""ConsumerGroupHeartbeat (API key 68, KIP-848) as kafka-python's own messages are made: from its fields as JSON.

Source of the fields: Apache Kafka's protocol guide, ConsumerGroupHeartbeat versions 0 and 1.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """A member of the new protocol joins, says that it lives, or leaves."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=__package__):  # type: ignore[misc,call-arg]
    """Its epoch, when to beat again, and its future partitions."""
