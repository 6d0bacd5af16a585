"""The text form of a group: group.json judged field by field, every error naming its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from apportion.arrays import UNKNOWN
from apportion.errors import BadInput, Unavailable, within
from apportion.model.build import build
from apportion.model.facts import MEMBER_FIELDS, UNSET, check_facts
from apportion.model.group import WEIGHT_MAX, Group, MemberState, Racks
from apportion.model.json_checks import (
    INT32_MAX,
    INT64_MAX,
    Check,
    check_object,
    check_range,
    check_text,
    check_version,
    integer,
    is_a,
    one_line,
    read_json,
)
from apportion.model.lag import RESETS

MOST_PARTITIONS: Final = 2_000_000
"""In one group, so that one line of text cannot exhaust the memory."""
_TOPIC_ID: Final = re.compile("[A-Za-z0-9_-]{22}")
MOST_RACK_CELLS: Final = 100_000_000
"""Racks x distinct sets of racks, a byte each."""


GroupLike = Group | Mapping[str, Any] | str | bytes | Path
"""What each public call takes as a group: one that was read, group.json as a dict or as text, or the path of a file."""


def read_group(given: Mapping[str, Any] | str | bytes | Path, *, empty: bool = False) -> Group:
    """A group from a dict, from text or from a file, after every field was looked at.

    empty
        Whether it may have no member.
    Raises
        BadInput, which names the first bad place; Unavailable for a file that cannot be read.

    >>> read_group({"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}})
    Group('', topics=1, partitions=2, members=1)
    """
    if isinstance(given, Path):
        with within(str(given)):
            return read_group(_content(given), empty=empty)
    if isinstance(given, str) and given.endswith(".json"):
        raise BadInput("group", one_line(given), "JSON text; of a file, its pathlib.Path")
    raw = read_json(given, finite=False) if isinstance(given, str | bytes | bytearray) else given
    raw = dict(raw) if isinstance(raw, Mapping) else raw
    check_group(raw, empty)
    group = build(raw)
    _racks_fit(group.racks)
    return group


def group_of(given: GroupLike) -> Group:
    """The group, read if it is not one yet; raises as ``read_group`` does."""
    return given if isinstance(given, Group) else read_group(given)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unavailable(f"cannot read {str(path)!r}: {error.strerror or error}.") from None


def _racks_fit(racks: Racks | None) -> None:
    """Real clusters have a handful of racks; a text with thousands in thousands of sets would only fill the memory."""
    if racks is not None and len(racks.names) * len(racks.sets) > MOST_RACK_CELLS:
        size = f"{len(racks.names):,} racks in {len(racks.sets):,} different sets"
        raise BadInput("topics", size, f"racks x sets at most {MOST_RACK_CELLS:,}")


def check_group(raw: Any, empty: bool = False) -> None:
    """Raise ``BadInput`` at the first place in which the dict is not a group of version 1."""
    check_object("", raw, _GROUP, required=("topics", "members"))
    _distinct_ids(raw.get("topic_ids") or {})
    if not raw["members"] and not empty:
        raise BadInput("members", "no member at all", "at least one")
    _instances(raw["members"])


def _topics(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of topics")
    room = MOST_PARTITIONS
    for topic, description in value.items():
        at = f"{where}.{topic}"
        check_text(at, topic)
        if type(description) is int:
            check_range(at, description, 0, INT32_MAX + 1)
            room -= description
        else:
            is_a(at, description, list, "a number of partitions or a list of them")
            _partitions(at, description)
            room -= len(description)
        if room < 0:
            raise BadInput(at, f"more than {MOST_PARTITIONS:,} partitions in all", f"at most {MOST_PARTITIONS:,}")


def _partitions(where: str, entries: list[Any]) -> None:
    seen: set[int] = set()
    for i, entry in enumerate(entries):
        at = f"{where}[{i}]"
        check_object(at, entry, _PARTITION, required=("partition",))
        if entry["partition"] in seen:
            raise BadInput(f"{at}.partition", f"partition {entry['partition']} a second time", "each partition once")
        seen.add(entry["partition"])


def _members(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of members")
    for member, fields in value.items():
        at = f"{where}.{member}"
        check_text(at, member)
        check_object(at, fields, _MEMBER, required=("topics",))


def _instances(members: dict[str, Any]) -> None:
    """No instance id names two members."""
    seen: dict[str, str] = {}
    for member, fields in members.items():
        instance = fields.get("instance_id")
        if instance and seen.setdefault(instance, member) != member:
            at = f"members.{member}.instance_id"
            raise BadInput(at, f"{one_line(instance)}, which {seen[instance]} has too", "an instance id of one member")


def _topic_ids(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of topic ids")
    for topic, topic_id in value.items():
        at = f"{where}.{topic}"
        check_text(at, topic)
        if topic_id is None:
            continue
        check_text(at, topic_id)
        if not _TOPIC_ID.fullmatch(topic_id):
            raise BadInput(at, one_line(topic_id), "an id as Kafka prints it: 22 of A-Z, a-z, 0-9, - and _")


def _distinct_ids(topic_ids: dict[str, str | None]) -> None:
    """No topic id names two topics."""
    topic_of: dict[str, str] = {}
    for topic, topic_id in topic_ids.items():
        if topic_id is not None and topic_of.setdefault(topic_id, topic) != topic:
            taken = f"{one_line(topic_id)}, which {topic_of[topic_id]} has too"
            raise BadInput(f"topic_ids.{topic}", taken, "an id of one topic")


def _weight(where: str, value: Any) -> None:
    if type(value) not in (int, float) or not 0 <= value <= WEIGHT_MAX:  # NaN compares false
        raise BadInput(where, one_line(value), "a number from 0 to 2^53")


def _owned(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of topics")
    for topic, partitions in value.items():
        at = f"{where}.{topic}"
        check_text(at, topic)
        is_a(at, partitions, list, "a list of partition ids")
        # A claim is another's word, so any id is well-formed that a 32-bit field can hold.
        if partitions and not _all_int32(partitions):
            for i, partition in enumerate(partitions):
                integer(-INT32_MAX - 1, INT32_MAX)(f"{at}[{i}]", partition)


def _tags(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of client tags")
    for tag, text in value.items():
        check_text(f"{where}.{tag}", tag)
        check_text(f"{where}.{tag}", text)


def _recovery_lag(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object of topics")
    for topic, entries in value.items():
        at = f"{where}.{topic}"
        check_text(at, topic)
        is_a(at, entries, list, "a list of partitions with their lag")
        seen: set[int] = set()
        for i, entry in enumerate(entries):
            check_object(f"{at}[{i}]", entry, _RECOVERY_LAG, required=("partition", "lag"))
            if entry["partition"] in seen:
                repeated = f"partition {entry['partition']} a second time"
                raise BadInput(f"{at}[{i}].partition", repeated, "each partition once")
            seen.add(entry["partition"])


def _all_int32(values: list[Any]) -> bool:
    return set(map(type, values)) == {int} and min(values) >= -INT32_MAX - 1 and max(values) <= INT32_MAX


def _names(where: str, value: Any) -> None:
    is_a(where, value, list, "a list of names")
    for i, name in enumerate(value):
        check_text(f"{where}[{i}]", name)


def check_reset(where: str, value: Any) -> None:
    """A value of ``auto.offset.reset``."""
    check_text(where, value)
    if value not in RESETS:
        raise BadInput(where, one_line(value), "one of " + ", ".join(RESETS))


_OFFSET: Final = integer(0, INT64_MAX)
_PARTITION: Final[dict[str, Check]] = {
    "partition": integer(0, INT32_MAX),
    "racks": _names,
    "begin": _OFFSET,
    "end": _OFFSET,
    "committed": _OFFSET,
    "lag": _OFFSET,
    "weight": _weight,
}
_RECOVERY_LAG: Final[dict[str, Check]] = {"partition": integer(0, INT32_MAX), "lag": _OFFSET}
_MEMBER: Final[dict[str, Check]] = {
    "instance_id": check_text,
    "client_id": check_text,
    "host": check_text,
    "rack": check_text,
    "topics": _names,
    "owned": _owned,
    "generation": integer(-1, INT32_MAX),
    **{name: fact.check for name, fact in MEMBER_FIELDS.items()},
    "facts": check_facts,
    "tags": _tags,
    "standby": _owned,
    "recovery_lag": _recovery_lag,
}


def _passed_over(where: str, value: Any) -> None:
    is_a(where, value, dict, "an object")


_GROUP: Final[dict[str, Check]] = {
    "version": check_version,
    "group": check_text,
    "auto_offset_reset": check_reset,
    "topics": _topics,
    "members": _members,
    "topic_ids": _topic_ids,
    "described": _passed_over,  # what describe adds, and what no plan rests on
}


def group_to_dict(group: GroupLike) -> dict[str, Any]:
    """group.json of a group: the text from which ``read_group`` makes the same group.

    >>> group_to_dict({"topics": {"t": 2}, "members": {"a": {"topics": ["t", "t"], "rack": None}}})["members"]
    {'a': {'topics': ['t']}}
    """
    group = group_of(group)
    members = {member: _member_to_dict(group, m) for m, member in enumerate(group.members)}
    for m, t, p in zip(
        group.claims.member.tolist(),
        group.topic_of[group.claims.partition].tolist(),
        group.number[group.claims.partition].tolist(),
        strict=True,
    ):
        members[group.members[m]].setdefault("owned", {}).setdefault(group.topics[t], []).append(p)
    for m, topic, number in group.claims.nonexistent:
        members[group.members[m]].setdefault("owned", {}).setdefault(topic, []).append(number)
    for fields in members.values():
        if "owned" in fields:
            fields["owned"] = {topic: sorted(ids) for topic, ids in sorted(fields["owned"].items())}
    topics = {topic: _topic_to_dict(group, t) for t, topic in enumerate(group.topics) if group.described[t]}
    reset = group.auto_offset_reset
    raw = {"version": 1, "group": group.name, "auto_offset_reset": reset, "topics": topics, "members": members}
    return {**raw, "topic_ids": dict(sorted(group.topic_ids.items()))} if group.topic_ids else raw


def _member_to_dict(group: Group, m: int) -> dict[str, Any]:
    other_facts = sorted(group.facts.keys() - MEMBER_FIELDS.keys())
    rack = group.racks.of_member[m] if group.racks is not None else UNKNOWN
    fields: dict[str, Any] = {
        "instance_id": group.instance_ids[m],
        "client_id": group.client_ids[m] if group.client_ids else None,
        "host": group.hosts[m] if group.hosts else None,
        "rack": group.racks.names[rack] if group.racks is not None and rack != UNKNOWN else None,
        "topics": [group.topics[t] for t in group.subscriptions[group.subscription_of[m]]],
        "generation": int(group.generation[m]) if group.generation[m] >= 0 else None,
        "facts": {name: int(group.facts[name][m]) for name in other_facts if group.facts[name][m] != UNSET} or None,
        **{
            name: int(group.facts[name][m])
            for name, fact in MEMBER_FIELDS.items()
            if group.facts[name][m] != fact.default
        },
    }
    if group.state is not None:
        fields |= _state_to_dict(group.state, m)
    return {name: value for name, value in fields.items() if value is not None}


def _state_to_dict(state: MemberState, m: int) -> dict[str, Any]:
    """A member's words about its state; None for each field that it leaves out."""
    lags: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), lag in sorted(state.recovery_lag[m].items()):
        lags.setdefault(topic, []).append({"partition": partition, "lag": lag})
    return {
        "tags": dict(sorted(state.tags[m].items())) or None,
        "standby": {topic: sorted(set(ids)) for topic, ids in sorted(state.standby[m].items()) if ids} or None,
        "recovery_lag": lags or None,
    }


def _topic_to_dict(group: Group, t: int) -> int | list[dict[str, Any]]:
    """A topic's entries, or only their number if nothing else is known."""
    span = group.partitions(t)
    entries: list[dict[str, Any]] = [{"partition": number} for number in group.number[span].tolist()]
    _add_racks(group.racks, span, entries)
    if group.offsets is not None:
        for name in ("begin", "end", "committed", "lag"):
            for entry, value in zip(entries, getattr(group.offsets, name)[span].tolist(), strict=True):
                if value != UNKNOWN:
                    entry[name] = value
    if group.weight is not None:
        for entry, weight in zip(entries, group.weight[span].tolist(), strict=True):
            if weight == weight:  # NaN, the unknown one, is not equal to itself
                entry["weight"] = int(weight) if weight.is_integer() else weight
    if all(entry == {"partition": p} for p, entry in enumerate(entries)):
        return len(entries)
    return entries


def _add_racks(racks: Racks | None, span: slice, entries: list[dict[str, Any]]) -> None:
    if racks is None:
        return
    for entry, s in zip(entries, racks.set_of[span].tolist(), strict=True):
        if s != UNKNOWN:
            entry["racks"] = [racks.names[r] for r in racks.sets[s]]
