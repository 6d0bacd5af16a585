"""A coordinator's facts about one group, by its protocol: members, topics, partitions, state and epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from apportion.errors import UnreadableBytes
from apportion.history.consumer_groups import ConsumerRecords
from apportion.model.protocols import CONSUMER
from apportion.sighting.governed import governed
from apportion.sources import tasks_and_shares
from apportion.sources.cluster import topic_id_text
from apportion.wire.assignment import read_assignment
from apportion.wire.coordinator import EpochRecord
from apportion.wire.plan_text import carried_by, readable
from apportion.wire.subscription import read_subscription
from apportion.wire.task_data import PROTOCOL as TASKS
from apportion.wire.task_data import read_memory

NOT_FOUND: Final = 69
"""GROUP_ID_NOT_FOUND."""
CLASSIC: Final = 0
"""A member of the classic protocol in a group of the new one (ConsumerGroupDescribe, version 1: member type)."""


def kind_of(group: Mapping[str, Any]) -> str:
    """A listed group's kind; an older broker gives none."""
    return str(group.get("group_type") or "classic").lower()


def reads(group: Mapping[str, Any]) -> bool:
    """Whether a listed group reads topics: classic or simple, of KIP-848, a streams group, a share group."""
    kind = kind_of(group)
    if kind in tasks_and_shares.KINDS:
        return True
    return kind in ("classic", "consumer") and group.get("protocol_type", "consumer") in ("consumer", "")


def request(kind: str, names: Sequence[str]) -> Any:
    """The request that describes groups of a kind; some kafka-python does not offer itself."""
    if kind == "classic":
        from kafka.protocol.admin.groups import DescribeGroupsRequest

        return DescribeGroupsRequest(groups=list(names))
    if kind == "consumer":
        from apportion.sources.messages.consumer_group_describe import ConsumerGroupDescribeRequest

        return ConsumerGroupDescribeRequest(group_ids=list(names))
    return tasks_and_shares.request(kind, names)


def facts_of(kind: str, group: Any) -> dict[str, Any]:
    """The facts about one group in the answer to ``request``."""
    if kind == "classic":
        return classic_facts(group)
    fields = group.to_dict()
    return consumer_facts(fields) if kind == "consumer" else tasks_and_shares.facts(kind, fields)


def classic_facts(group: Any) -> dict[str, Any]:
    """DescribeGroups about one group: state, protocol, members by id, the topics that they name or hold."""
    members, sentences, assigned_data, addresses = {}, [], [], {}
    for member in group.members:
        fields = {
            "instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.client_host,
        }
        try:
            read = _read_member(bytes(member.member_metadata or b""), bytes(member.member_assignment or b""))
        except UnreadableBytes as wrong:
            read = {"topics": [], "owned": {}}
            sentences.append(f"What {member.member_id} says is no consumer's: {wrong}.")
        if read.pop("assigned_data", False):
            assigned_data.append(member.member_id)
        if group.protocol_data == TASKS and (address := _address(bytes(member.member_metadata or b""))):
            addresses[member.member_id] = address
        members[member.member_id] = {**fields, **read}
    kind = "classic" if members or group.protocol_type else "simple"  # it commits, and never had a member
    facts = {"state": group.group_state, "protocol": kind, "assignor": group.protocol_data or None, "notes": sentences}
    facts |= {"assigned_data": assigned_data, "addresses": addresses}
    return {**facts, "generation": None, "members": members, "wanted": _wanted(members)}


def _read_member(metadata: bytes, assignment: bytes) -> dict[str, Any]:
    """A member's topics and partitions; while the group rebalances a broker reports the latter alone, or neither."""
    subscription = read_subscription(metadata) if metadata else None
    assigned = read_assignment(assignment) if assignment else None
    owned = _by_topic(assigned.partitions) if assigned else {}
    return {
        "rack": subscription.rack if subscription else None,
        # While the group rebalances the broker tells no subscription: what a member holds is what we can know of it.
        "topics": sorted(set(subscription.topics) if subscription else owned),
        "owned": owned,
        "assigned_data": bool(assigned and assigned.user_data),
    }


def _address(metadata: bytes) -> str | None:
    """Where a member of a task group says that it answers queries."""
    return read_memory(read_subscription(metadata).user_data).tags.get("address") if metadata else None


def consumer_facts(group: Mapping[str, Any]) -> dict[str, Any]:
    """ConsumerGroupDescribe about a KIP-848 group."""
    carriers = [(_seat(member), part) for member, part in readable(group["members"])]
    group = {**group, "members": [member for member in group["members"] if not carried_by(member)]}
    records, carried = _consumer(group), [part for _, part in carriers]
    members = tasks_and_shares.described(records.present_members())
    ids = {name: known for known, name in records.names.items() if known != name}
    plan = governed({"members": members, "topic_ids": ids}, carried)
    return {
        "state": group["group_state"],
        "protocol": CONSUMER,
        "assignor": group["assignor_name"] or None,
        "notes": [*records.sentences, *(plan.sentences if plan else ())],
        "carriers": carriers,
        "carried": carried,
        "targets": {
            seat.member_id: {t: list(ids) for t, ids in seat.assigned.items()} for seat in records.target_members()
        },
        "governed": plan,
        "expressions": {m["member_id"]: m["subscribed_topic_regex"] for m in group["members"]},
        "classic_members": [m["member_id"] for m in group["members"] if m.get("member_type") == CLASSIC],
        "generation": group["group_epoch"],
        "assignment_epoch": group["assignment_epoch"],
        "as_records": partial(consumer_records, group),
        "members": members,
        "wanted": _wanted(members),
    }


def _seat(member: Mapping[str, Any]) -> dict[str, Any]:
    """Who a carrier is."""
    return {name: member[name] for name in ("member_id", "instance_id", "client_id", "client_host", "member_epoch")}


def _consumer(group: Mapping[str, Any]) -> ConsumerRecords:
    """A described KIP-848 group in the tables that its records fill; a topic without an id has its name for one."""
    names: dict[str, str] = {}
    records = ConsumerRecords(names=names)

    def held(assignment: Mapping[str, Any]) -> list[dict[str, Any]]:
        entries = []
        for entry in assignment["topic_partitions"]:
            known = topic_id_text(entry["topic_id"]) or entry["topic_name"]
            names[known] = entry["topic_name"]
            entries.append({"topicId": known, "partitions": entry["partitions"]})
        return entries

    for member in group["members"]:
        name = member["member_id"]
        records.members[name] = _member_body(member, group)
        records.targets[name] = {"topicPartitions": held(member["target_assignment"])}
        records.current[name] = {"assignedPartitions": held(member["assignment"])}
    return records


def consumer_records(group: Mapping[str, Any]) -> Iterator[EpochRecord]:
    """A described KIP-848 group in the form of the records that would have come to it; see ``tasks_and_shares``."""
    name, records = group["group_id"], _consumer(group)
    yield from tasks_and_shares.of_members(name, ConsumerRecords.MEMBER, records.members)
    yield from tasks_and_shares.of_members(name, ConsumerRecords.TARGET_OF, records.targets)
    yield from tasks_and_shares.of_members(name, ConsumerRecords.CURRENT, records.current)
    yield from tasks_and_shares.of_epochs(name, ConsumerRecords.GROUP, ConsumerRecords.TARGET, group)


def _member_body(member: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "instanceId": member["instance_id"],
        "rackId": member["rack_id"],
        "clientId": member["client_id"],
        "clientHost": member["client_host"],
        "subscribedTopicNames": member["subscribed_topic_names"],
        "subscribedTopicRegex": member["subscribed_topic_regex"],
        "serverAssignor": group["assignor_name"] or None,
    }


def _by_topic(pairs: Iterable[tuple[str, Sequence[int]]]) -> dict[str, list[int]]:
    """Topic to ascending ids; foreign bytes may name a topic twice."""
    ids_of: dict[str, set[int]] = {}
    for topic, numbers in pairs:
        ids_of.setdefault(topic, set()).update(numbers)
    return {topic: sorted(numbers) for topic, numbers in sorted(ids_of.items()) if numbers}


def _wanted(members: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {topic for member in members.values() for topic in (*member["topics"], *member["owned"])}
