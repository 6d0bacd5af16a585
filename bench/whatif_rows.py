"""Rows of what-if's input made without Spark: what some groups left, and how they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from apportion.history.records import Generation, GenerationMember
from apportion.tables import schemas

_HELD = pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]))
_MEMBER = pa.struct(
    {**dict.fromkeys(("member_id", "instance_id", "client_id", "host", "rack", "unreadable"), pa.string()),
     "topics": pa.list_(pa.string()), "owned": _HELD, "owned_generation": pa.int32(), "assigned": _HELD,
     "session_timeout_ms": pa.int32()}
)  # fmt: skip
_GENERATION = pa.struct(
    {"source_offset": pa.int64(), "at_ms": pa.int64(), "tombstone": pa.bool_(), "generation": pa.int32(),
     "protocol_type": pa.string(), "protocol": pa.string(), "state_ms": pa.int64(), "members": pa.list_(_MEMBER),
     "holes": pa.int64()}
)  # fmt: skip
_EPOCH = pa.struct({"source_offset": pa.int64(), "body": pa.string()})


def schema() -> pa.Schema:
    """The columns that ``whatif`` hands its workers."""
    state = schemas.arrow_schema(schemas.GROUP_STATE)
    past = [
        pa.field("generations", pa.list_(_GENERATION)),
        pa.field("epochs", pa.list_(_EPOCH)),
        pa.field("names", pa.map_(pa.string(), pa.string())),
    ]
    return pa.schema([state.field("group"), *past, *[field for field in state if field.name != "group"]])


def row(
    name: str, generations: Sequence[Generation], present: Mapping[str, Any] | None, topics: Mapping[str, Any]
) -> dict[str, Any]:
    """A group that ``outcomes`` is asked about, as a row."""
    entries: dict[str, Any] = {**topics, **(present["topics"] if present else {})}
    commits = [
        {"topic": topic, "partition": entry["partition"], "committed": entry["committed"]}
        for topic in sorted(entries)
        for entry in entries[topic]
        if "committed" in entry
    ]
    described = [
        {
            "topic": topic,
            "topic_id": None,
            "partitions": [{"racks": None, **entry, "last_stable": None} for entry in entries[topic]],
        }
        for topic in sorted(entries)
    ]
    state: dict[str, Any] = dict.fromkeys(("type", "state", "protocol", "generation", "readable", "members"))
    if present is not None:
        seats = [_state_member(member, fields) for member, fields in present["members"].items()]
        number = next((f["generation"] for f in present["members"].values() if "generation" in f), 0)
        state = {"type": "classic", "state": "Stable", "protocol": "range", "generation": number, "readable": True,
                 "members": seats}  # fmt: skip
    return {
        "group": name,
        "generations": [_generation(one) for one in generations],
        "epochs": [],
        "names": [],
        **state,
        "topics": described,
        "commits": commits if present is not None else [],
    }


def _state_member(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    held = [{"topic": topic, "partitions": list(ids)} for topic, ids in (fields.get("owned") or {}).items()]
    plain = {key: fields.get(key) for key in ("instance_id", "client_id", "host", "rack")}
    return {"member_id": name, **plain, "assigned": held, "roles": [], "topics": list(fields["topics"])}


def _generation(one: Generation) -> dict[str, Any]:
    return {
        "source_offset": one.offset,
        "at_ms": one.at,
        "tombstone": False,
        "generation": one.number,
        "protocol_type": "consumer",
        "protocol": one.protocol,
        "state_ms": one.started,
        "members": [_member(seat) for seat in one.members],
        "holes": one.holes,
    }


def _member(seat: GenerationMember) -> dict[str, Any]:
    return {
        "member_id": seat.member_id,
        "instance_id": seat.instance_id,
        "client_id": seat.client_id,
        "host": seat.host,
        "rack": seat.rack,
        "topics": list(seat.topics),
        "owned": [],
        "assigned": [{"topic": topic, "partitions": list(ids)} for topic, ids in seat.assigned.items()],
        "session_timeout_ms": seat.session_timeout_ms,
    }


def batch(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows as a worker gets them."""
    return pa.RecordBatch.from_pylist(list(rows), schema=schema())
