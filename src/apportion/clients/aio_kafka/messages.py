"""ConsumerGroupDescribe (API key 69, KIP-848) in aiokafka's own form, which has no message of the new protocol.

Source of the fields: Apache Kafka's protocol guide, ConsumerGroupDescribe version 0; 16 bytes of a topic's id are two
Int64 here.
"""

from __future__ import annotations

from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

_TEXT = CompactString("utf-8")


def _fields(**types: Any) -> list[tuple[str, Any]]:
    """A structure's fields in their order, with tags behind them, as in each flexible version."""
    return [*types.items(), ("tags", TaggedFields)]


_TOPICS = CompactArray(*_fields(id_high=Int64, id_low=Int64, topic_name=_TEXT, partitions=CompactArray(Int32)))
_MEMBER = _fields(
    **dict.fromkeys(("member_id", "instance_id", "rack_id"), _TEXT),
    member_epoch=Int32,
    **dict.fromkeys(("client_id", "client_host"), _TEXT),
    subscribed_topic_names=CompactArray(_TEXT),
    subscribed_topic_regex=_TEXT,
    **dict.fromkeys(("assignment", "target_assignment"), Schema(*_fields(topic_partitions=_TOPICS))),
)
_GROUP = _fields(
    error_code=Int16,
    **dict.fromkeys(("error_message", "group_id", "group_state"), _TEXT),
    **dict.fromkeys(("group_epoch", "assignment_epoch"), Int32),
    assignor_name=_TEXT,
    members=CompactArray(*_MEMBER),
    authorized_operations=Int32,
)


class GroupDescribeResponse(Response):  # type: ignore[misc]
    """Epochs, members, and their present and future partitions."""

    API_KEY = 69
    API_VERSION = 0
    SCHEMA = Schema(*_fields(throttle_time_ms=Int32, groups=CompactArray(*_GROUP)))


class GroupDescribeRequest(RequestStruct):  # type: ignore[misc]
    """The bytes of the request."""

    FLEXIBLE_VERSION = True
    API_KEY = 69
    API_VERSION = 0
    RESPONSE_TYPE = GroupDescribeResponse
    SCHEMA = Schema(*_fields(group_ids=CompactArray(_TEXT), include_authorized_operations=Boolean))


class GroupDescribe(Request[GroupDescribeRequest]):  # type: ignore[misc]
    """Ask a coordinator for one group of the new protocol."""

    API_KEY = 69

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[GroupDescribeRequest]) -> GroupDescribeRequest:
        """The request as bytes' form."""
        return request_struct_class([self._group], False, {})
