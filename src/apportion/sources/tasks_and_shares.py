"""Share groups and streams groups as their coordinators describe them, in the form of consumer groups.

kafka-python knows neither request; both are made from their fields (``apportion.sources.messages``). A streams group's
member owns the partitions that its active tasks read, and stands with its tasks beside them; a share group's member
owns nothing, and what it is to share is not told. Both go through the code that folds their records, so that a live
group and a recorded one are told alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from apportion.history.records import Assigned, GenerationMember, member_fields
from apportion.history.share_groups import ShareRecords
from apportion.history.streams_groups import ASSIGNOR, ROLES, StreamsRecords
from apportion.model.protocols import SHARE, STREAMS
from apportion.wire.coordinator import EpochRecord

KINDS: Final = (SHARE, STREAMS)


def request(kind: str, names: Sequence[str]) -> Any:
    """The request that describes groups of a kind."""
    from apportion.sources.messages.share_group_describe import ShareGroupDescribeRequest
    from apportion.sources.messages.streams_group_describe import StreamsGroupDescribeRequest

    return (ShareGroupDescribeRequest if kind == SHARE else StreamsGroupDescribeRequest)(group_ids=list(names))


def facts(kind: str, group: Mapping[str, Any]) -> dict[str, Any]:
    """The answer about one group: state, epoch, members by id, the topics that they read, tasks or shares.

    ``roles`` are the members with what they run, keep and warm up, or share; ``as_records``, of a streams group, gives
    the description in the form of the records that would have come to it.
    """
    seats = _sharing(group) if kind == SHARE else _streams(group).present_members()
    return {
        "state": group["group_state"],
        "protocol": kind,
        "assignor": group["assignor_name"] or None if kind == SHARE else ASSIGNOR,
        "notes": _sentences(kind, group),
        "generation": group["group_epoch"],
        "members": described(seats),
        "wanted": {topic for seat in seats for topic in (*seat.topics, *seat.assigned)},
        "roles": seats,
        "addresses": {
            member["member_id"]: f"{endpoint['host']}:{endpoint['port']}"
            for member in group["members"]
            if (endpoint := member.get("user_endpoint"))
        },
        **({"as_records": partial(streams_records, group)} if kind == STREAMS else {}),
    }


def described(seats: Iterable[GenerationMember]) -> dict[str, dict[str, Any]]:
    """Members by id, with what they want and own."""
    return {
        seat.member_id: member_fields(seat, None, None)
        | {"topics": sorted(seat.topics), "owned": by_topic(seat.assigned)}
        for seat in seats
    }


def by_topic(held: Assigned) -> dict[str, list[int]]:
    """Partitions as group.json has them."""
    return {topic: list(ids) for topic, ids in held.items()}


def _sentences(kind: str, group: Mapping[str, Any]) -> list[str]:
    if kind == STREAMS and group["group_state"] == "NotReady":
        return ["Not ready: topics that the topology reads are missing, or have other numbers of partitions."]
    return []


def _sharing(group: Mapping[str, Any]) -> tuple[GenerationMember, ...]:
    records = ShareRecords()
    for member in group["members"]:
        body = {name: member[field] for name, field in _NAMES.items()}
        body["subscribedTopicNames"] = member["subscribed_topic_names"]
        records.members[member["member_id"]] = body
        held = [
            {"topicId": entry["topic_name"] or str(entry["topic_id"]), "partitions": entry["partitions"]}
            for entry in member["assignment"]["topic_partitions"]
        ]
        records.current[member["member_id"]] = {"assignedPartitions": held}
    return tuple(replace(seat, roles={"shared": seat.roles["shared"]}) for seat in records.present_members())


def _streams(group: Mapping[str, Any]) -> StreamsRecords:
    records = StreamsRecords(topology={"subtopologies": _subtopologies(group["topology"])})
    for member in group["members"]:
        body = {name: member[field] for name, field in _NAMES.items()}
        records.members[member["member_id"]] = {
            **body,
            "instanceId": member["instance_id"],
            "processId": member["process_id"],
        }
        records.current[member["member_id"]] = tasks_body(member["assignment"])
        records.targets[member["member_id"]] = tasks_body(member["target_assignment"])
    return records


def streams_records(group: Mapping[str, Any]) -> Iterator[EpochRecord]:
    """A described streams group as records: the topology, members, targets, and the epoch that they come to."""
    name, records = group["group_id"], _streams(group)
    topology = {**records.topology, "epoch": (group["topology"] or {}).get("epoch", -1)}
    yield EpochRecord(name, StreamsRecords.TOPOLOGY, False, body=topology)
    yield from of_members(name, StreamsRecords.MEMBER, records.members)
    yield from of_members(name, StreamsRecords.TARGET_OF, records.targets)
    yield from of_members(name, StreamsRecords.CURRENT, records.current)
    yield from of_epochs(name, StreamsRecords.GROUP, StreamsRecords.TARGET, group)


def of_members(group: str, key_type: int, bodies: Mapping[str, Mapping[str, Any]]) -> Iterator[EpochRecord]:
    """A record of one type for each member."""
    return (EpochRecord(group, key_type, False, member, body=dict(body)) for member, body in bodies.items())


def of_epochs(name: str, group_type: int, target_type: int, group: Mapping[str, Any]) -> Iterator[EpochRecord]:
    """The epoch that is open, and the one that the targets are of; a group without members has none of these."""
    epochs = {"epoch": group["group_epoch"]}
    yield EpochRecord(name, group_type, False, epoch=group["group_epoch"], body=epochs)
    if group["members"]:
        target = {"assignmentEpoch": group["assignment_epoch"]}
        yield EpochRecord(name, target_type, False, epoch=group["assignment_epoch"], body=target)


_NAMES: Final = {"clientId": "client_id", "clientHost": "client_host", "rackId": "rack_id"}
_TASKS: Final = dict(zip(ROLES.values(), ("active_tasks", "standby_tasks", "warmup_tasks"), strict=True))


def tasks_body(assignment: Mapping[str, Any]) -> dict[str, Any]:
    """An assignment as the body of a record has it."""
    return {
        name: [
            {"subtopologyId": entry["subtopology_id"], "partitions": entry["partitions"]} for entry in assignment[field]
        ]
        for name, field in _TASKS.items()
    }


def _subtopologies(topology: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The topology as the record of key type 23 has it, as far as tasks go."""

    def named(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"name": entry["name"]} for entry in entries]

    return [
        {
            "subtopologyId": entry["subtopology_id"],
            "sourceTopics": entry["source_topics"],
            "repartitionSourceTopics": named(entry["repartition_source_topics"]),
            "stateChangelogTopics": named(entry["state_changelog_topics"]),
        }
        for entry in (topology or {}).get("subtopologies") or ()
    ]
