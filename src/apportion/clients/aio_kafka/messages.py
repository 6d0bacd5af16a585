"""ConsumerGroupDescribe (API key 69, KIP-848) in aiokafka's own form, which has no message of the new protocol.

Source of the fields: Apache Kafka's protocol guide, ConsumerGroupDescribe version 0; 16 bytes of a topic's id are two
Int64 here.
"""

from __future__ import annotations

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

_TEXT = CompactString("utf-8")
_ASSIGNMENT = Schema(
    (
        "topic_partitions",
        CompactArray(
            ("id_high", Int64),
            ("id_low", Int64),
            ("topic_name", _TEXT),
            ("partitions", CompactArray(Int32)),
            ("tags", TaggedFields),
        ),
    ),
    ("tags", TaggedFields),
)


class GroupDescribeResponse(Response):  # type: ignore[misc]
    """Epochs, members, what they have and shall have."""

    API_KEY = 69
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _TEXT),
                ("group_id", _TEXT),
                ("group_state", _TEXT),
                ("group_epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor_name", _TEXT),
                (
                    "members",
                    CompactArray(
                        ("member_id", _TEXT),
                        ("instance_id", _TEXT),
                        ("rack_id", _TEXT),
                        ("member_epoch", Int32),
                        ("client_id", _TEXT),
                        ("client_host", _TEXT),
                        ("subscribed_topic_names", CompactArray(_TEXT)),
                        ("subscribed_topic_regex", _TEXT),
                        ("assignment", _ASSIGNMENT),
                        ("target_assignment", _ASSIGNMENT),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class GroupDescribeRequest(RequestStruct):  # type: ignore[misc]
    """The bytes of the request."""

    FLEXIBLE_VERSION = True
    API_KEY = 69
    API_VERSION = 0
    RESPONSE_TYPE = GroupDescribeResponse
    SCHEMA = Schema(
        ("group_ids", CompactArray(_TEXT)),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class GroupDescribe(Request[GroupDescribeRequest]):  # type: ignore[misc]
    """Ask a coordinator for one group of the new protocol."""

    API_KEY = 69

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[GroupDescribeRequest]) -> GroupDescribeRequest:
        """The request as bytes' form."""
        return request_struct_class([self._group], False, {})
