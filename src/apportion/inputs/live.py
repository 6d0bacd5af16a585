"""Groups of a live cluster, through kafka-python's admin client: the same as Kafka's own tool prints, and more.

Beside owners and offsets a live cluster tells subscriptions, racks and log starts, which the printed text leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from apportion.errors import Unavailable, UnknownName, UnreadableBytes
from apportion.history import patterns
from apportion.history.lag_time import MARKERS_MAX
from apportion.history.records import SHARE, STREAMS
from apportion.inputs import tasks_and_shares
from apportion.inputs.cluster import Cluster, TopicPartition, connect, patiently, topic_id_text
from apportion.inputs.config import Connection
from apportion.inputs.described_group import Observed
from apportion.inputs.governed import governed
from apportion.inputs.log_tails import PLACES_MAX, Place, tails
from apportion.wire.assignment import read_assignment
from apportion.wire.coordinator import EpochRecord
from apportion.wire.plan_text import is_plan, readable
from apportion.wire.subscription import read_subscription

NOT_FOUND: Final = 69
"""GROUP_ID_NOT_FOUND."""
CLASSIC: Final = 0
"""A member of the classic protocol in a group of the new one (ConsumerGroupDescribe, version 1: member type)."""
_TOLD: Final = (
    "state", "protocol", "kind", "generation", "sentences", "assigned_data", "carried", "governed", "classic_members",
)  # fmt: skip
"""What a description has of an ``Observed``, by the same names."""
Committed = Mapping[tuple[str, int], int]


def groups(
    connection: Connection, names: Sequence[str] | None, leave_out: bool = False, refused: list[str] | None = None
) -> list[Observed]:
    """The named groups in that order, or by name all that read topics.

    leave_out
        A named group that is not there is left out.
    refused
        Where all are asked for: takes the names of groups that are left out, since this user may not look at them. If
        it is not given, one such group is an error.
    Raises
        Unavailable: no broker answers, or it refuses. UnknownName: no group of that name. MissingExtra: no client.
    """
    with connect(connection.bootstrap, connection.properties) as cluster:
        return read(cluster, names, leave_out, refused)


def read(
    cluster: Cluster, names: Sequence[str] | None, leave_out: bool = False, refused: list[str] | None = None
) -> list[Observed]:
    """The named groups, or all, over a connection that is open: see ``groups``."""
    admin, where = cluster._admin, cluster.bootstrap
    listed = {group["group_id"]: group for group in patiently(where, admin.list_groups)}
    every = sorted(name for name, group in listed.items() if reads(group))
    chosen = list(dict.fromkeys(names)) if names is not None else every
    if unknown := [name for name in chosen if name not in listed]:
        if not leave_out:
            raise UnknownName("group", unknown[0], sorted(listed))
        chosen = [name for name in chosen if name in listed]
    if names is None and refused is not None:
        refused += _refused(cluster, chosen)
        chosen = [name for name in chosen if name not in refused]
    if not chosen:
        return []
    kinds = {name: kind_of(listed[name]) for name in chosen}
    descriptions = patiently(where, lambda: _described(admin, kinds))
    if gone := [name for name in chosen if name not in descriptions]:  # ended since they were listed
        if names is not None and not leave_out:
            raise UnknownName("group", gone[0], sorted(listed.keys() - set(gone)))
        chosen = [name for name in chosen if name in descriptions]
    committing = [name for name in chosen if kinds[name] != SHARE]
    committed = patiently(where, lambda: _committed(admin, committing)) if committing else {}
    topics = {topic for group in descriptions.values() for topic in group["wanted"]}
    topics |= {topic for offsets in committed.values() for topic, _ in offsets}
    partitions = cluster.partitions(sorted(topics)) if topics else []
    entries = _entries(cluster, partitions)
    _pass_markers(cluster, committed, entries)
    ids = {part.topic: part.topic_id for part in partitions if part.topic_id}
    coordinators = _coordinators(cluster, chosen)
    return [
        observed_group(name, descriptions[name], committed.get(name, {}), entries, ids, coordinators.get(name))
        for name in chosen
    ]


def _pass_markers(
    cluster: Cluster, committed: Mapping[str, Committed], entries: Mapping[str, Mapping[int, dict[str, Any]]]
) -> None:
    """Note in ``entries`` from which commit on nothing but markers of transactions stands at a log's end.

    Logs are looked at where some group is one or two offsets behind, from the newest of such commits on, as far as this
    user may read them.
    """
    behind: dict[Place, int] = {}
    for offsets in committed.values():
        for (topic, p), offset in offsets.items():
            end = entries.get(topic, {}).get(p, {}).get("end")
            if end is not None and 0 < end - offset <= MARKERS_MAX:
                behind[topic, p] = max(offset, behind.get((topic, p), offset))
    places = dict(islice(behind.items(), PLACES_MAX))
    for (topic, p), tail in (tails(cluster, places) if places else {}).items():
        if not tail.message and tail.first >= entries[topic][p]["end"]:
            entries[topic][p]["read_at"] = places[topic, p]


def _coordinators(cluster: Cluster, names: Sequence[str]) -> dict[str, str]:
    """Group to its coordinator, as Kafka's tool writes it: ``host:port (id)``."""
    admin = cluster._admin
    brokers = {
        broker["broker_id"]: f"{broker['host']}:{broker['port']} ({broker['broker_id']})"
        for broker in patiently(cluster.bootstrap, admin.describe_cluster)["brokers"]
    }
    nodes = patiently(cluster.bootstrap, lambda: admin._manager.run(admin._find_coordinator_ids, list(names)))
    return {name: brokers[node] for name, node in nodes.items() if node in brokers}


def _refused(cluster: Cluster, names: Sequence[str]) -> list[str]:
    """Those of some groups that this user may not look at; who may describe the cluster is told all names."""
    from kafka import errors

    def ask(group_names: Sequence[str]) -> bool:
        try:  # who coordinates them, which is kept for what is asked next
            patiently(cluster.bootstrap, lambda: admin._manager.run(admin._find_coordinator_ids, list(group_names)))
        except Unavailable as error:
            if not isinstance(error.__cause__, errors.GroupAuthorizationFailedError):
                raise
            return False
        return True

    admin = cluster._admin
    return [] if ask(names) else [name for name in names if not ask([name])]


def kind_of(group: Mapping[str, Any]) -> str:
    """A listed group's kind; an older broker tells none."""
    return str(group.get("group_type") or "classic").lower()


def reads(group: Mapping[str, Any]) -> bool:
    """Whether a listed group reads topics: classic or simple, of KIP-848, a streams group, a share group."""
    kind = kind_of(group)
    if kind in tasks_and_shares.KINDS:
        return True
    return kind in ("classic", "consumer") and group.get("protocol_type", "consumer") in ("consumer", "")


def _described(admin: Any, kinds: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Each group's facts and members; what the classic request does not know is asked for as its protocol has it.

    A group that is not there any more is left out.
    """
    descriptions: dict[str, dict[str, Any]] = {}
    for kind in tasks_and_shares.KINDS:
        mine = [name for name in kinds if kinds[name] == kind]
        if mine:
            descriptions |= admin._manager.run(_describe, admin, mine, kind)
    names = [name for name in kinds if kinds[name] not in tasks_and_shares.KINDS]
    for kind in ("classic", "consumer"):
        if left := [name for name in names if name not in descriptions]:
            descriptions |= admin._manager.run(_describe, admin, left, kind)
    return descriptions


async def _describe(admin: Any, names: Sequence[str], kind: str) -> dict[str, dict[str, Any]]:
    """What each coordinator says of its groups, asked for as groups of a kind."""
    from kafka import errors

    asked: dict[tuple[int, str], list[str]] = {}
    for name, coordinator in (await admin._find_coordinator_ids(list(names))).items():
        # Of classic groups all of a coordinator at once: they are many.
        asked.setdefault((coordinator, "" if kind == "classic" else name), []).append(name)
    descriptions = {}
    for (coordinator, _), together in asked.items():
        answer = await admin._manager.send(request(kind, together), node_id=coordinator)
        for group in answer.groups:
            if group.error_code == NOT_FOUND or group.group_state == "Dead":
                continue  # it has ended, or is one of another protocol
            if group.error_code:
                raise errors.for_code(group.error_code)(group.group_id)
            descriptions[group.group_id] = facts_of(kind, group)
    return descriptions


def request(kind: str, names: Sequence[str]) -> Any:
    """The request that describes groups of a kind; some kafka-python does not offer itself."""
    if kind == "classic":
        from kafka.protocol.admin.groups import DescribeGroupsRequest

        return DescribeGroupsRequest(groups=list(names))
    if kind == "consumer":
        from apportion.inputs.messages.consumer_group_describe import ConsumerGroupDescribeRequest

        return ConsumerGroupDescribeRequest(group_ids=list(names))
    return tasks_and_shares.request(kind, names)


def facts_of(kind: str, group: Any) -> dict[str, Any]:
    """What the answer to ``request`` says of one group."""
    if kind == "classic":
        return classic_facts(group)
    fields = group.to_dict()
    return consumer_facts(fields) if kind == "consumer" else tasks_and_shares.facts(kind, fields)


def classic_facts(group: Any) -> dict[str, Any]:
    """What DescribeGroups tells of one group: state, protocol, members by id, the topics that they name or hold."""
    members, sentences, assigned_data = {}, [], []
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
        members[member.member_id] = {**fields, **read}
    kind = "classic" if members or group.protocol_type else "simple"  # it commits, and never had a member
    facts = {"state": group.group_state, "protocol": group.protocol_data or None, "kind": kind, "sentences": sentences}
    facts["assigned_data"] = assigned_data
    return {**facts, "generation": None, "members": members, "wanted": _wanted(members)}


def _read_member(metadata: bytes, assignment: bytes) -> dict[str, Any]:
    """What a member wants and holds; while the group rebalances a broker tells what it holds alone, or neither."""
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


def consumer_facts(group: Mapping[str, Any]) -> dict[str, Any]:
    """What ConsumerGroupDescribe tells of a KIP-848 group."""
    members: dict[str, dict[str, Any]] = {}
    carried = [member["rack_id"] for member in group["members"] if is_plan(member["rack_id"])]
    group = {**group, "members": [member for member in group["members"] if not is_plan(member["rack_id"])]}
    # An expression is resolved by the broker; what all that subscribe by it are given is what we can know of it.
    resolved: dict[str, set[str]] = {}
    for member in group["members"]:
        if member["subscribed_topic_regex"]:
            lists = [*member["assignment"]["topic_partitions"], *member["target_assignment"]["topic_partitions"]]
            names = {entry["topic_name"] for entry in lists if entry["partitions"]}
            resolved.setdefault(member["subscribed_topic_regex"], set()).update(names)
    for member in group["members"]:
        owned = _by_topic((p["topic_name"], p["partitions"]) for p in member["assignment"]["topic_partitions"])
        by_expression = resolved.get(member["subscribed_topic_regex"] or "", set())
        members[member["member_id"]] = {
            "instance_id": member["instance_id"],
            "client_id": member["client_id"],
            "host": member["client_host"],
            "rack": member["rack_id"],
            "topics": sorted({*member["subscribed_topic_names"], *by_expression}),
            "owned": owned,
        }
    facts = {"state": group["group_state"], "protocol": group["assignor_name"] or None, "kind": "consumer"}
    facts["sentences"] = list(patterns.of_members(member["subscribed_topic_regex"] for member in group["members"]))
    facts["carried"] = list(readable(carried))
    lists = [
        member[field]["topic_partitions"]
        for member in group["members"]
        for field in ("assignment", "target_assignment")
    ]
    parts = [entry for entries in lists for entry in entries] if facts["carried"] else []
    ids = {entry["topic_name"]: known for entry in parts if (known := topic_id_text(entry["topic_id"])) is not None}
    facts["governed"] = governed({"members": members, "topic_ids": ids}, facts["carried"])
    facts["sentences"] += facts["governed"].sentences if facts["governed"] else ()
    facts["classic_members"] = [
        member["member_id"] for member in group["members"] if member.get("member_type") == CLASSIC
    ]
    facts |= {"generation": group["group_epoch"], "as_records": partial(consumer_records, group)}
    return {**facts, "members": members, "wanted": _wanted(members)}


def consumer_records(group: Mapping[str, Any]) -> Iterator[EpochRecord]:
    """A described KIP-848 group in the form of the records that would have come to it; see ``tasks_and_shares``."""
    name, members = group["group_id"], {member["member_id"]: member for member in group["members"]}
    yield from tasks_and_shares.of_members(name, 5, {m: _member_body(body, group) for m, body in members.items()})
    for key_type, lists, field in (
        (7, "topicPartitions", "target_assignment"),
        (8, "assignedPartitions", "assignment"),
    ):
        bodies = {
            m: {
                lists: [
                    {"topicId": topic_id_text(entry["topic_id"]), "partitions": entry["partitions"]}
                    for entry in body[field]["topic_partitions"]
                ]
            }
            for m, body in members.items()
        }
        yield from tasks_and_shares.of_members(name, key_type, bodies)
    yield from tasks_and_shares.of_epochs(name, 3, 6, group)


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


def _committed(admin: Any, names: Sequence[str]) -> dict[str, dict[tuple[str, int], int]]:
    """Group to (topic, partition) to the next offset that it reads; -1, never committed, is left out."""
    offsets_of = admin.list_group_offsets(list(names))
    return {
        name: {
            (topic_partition.topic, topic_partition.partition): at.offset
            for topic_partition, at in offsets.items()
            if at.offset >= 0
        }
        for name, offsets in offsets_of.items()
    }


def _entries(cluster: Cluster, partitions: Sequence[TopicPartition]) -> dict[str, dict[int, dict[str, Any]]]:
    """Topic to partition to its entry in group.json, without commits."""
    entries: dict[str, dict[int, dict[str, Any]]] = {}
    for part in partitions:
        racks = {"racks": list(part.racks)} if part.racks else {}
        entries.setdefault(part.topic, {})[part.partition] = {"partition": part.partition, **racks}
    for log in cluster.ends(partitions):
        entries[log.topic][log.partition] |= {"begin": log.begin, "end": log.end}
    return entries


def _with_commit(entry: Mapping[str, Any], committed: int | None) -> dict[str, Any]:
    """A partition's entry in group.json; who stands before markers alone has read all."""
    fields = {key: value for key, value in entry.items() if key != "read_at"}
    if committed is None:
        return fields
    read = {"lag": 0} if "read_at" in entry and entry["read_at"] <= committed <= entry["end"] else {}
    return {**fields, "committed": committed, **read}


def observed_group(
    name: str,
    description: Mapping[str, Any],
    committed: Committed,
    entries: Mapping[str, Mapping[int, Mapping[str, Any]]],
    ids: Mapping[str, str] | None = None,
    coordinator: str | None = None,
) -> Observed:
    """The group as group.json: all partitions of wanted topics, and those that it committed elsewhere.

    ids
        Topic to its id, where the cluster told it.
    """
    commits: dict[str, dict[int, int]] = {}
    for (topic, p), offset in committed.items():
        commits.setdefault(topic, {})[p] = offset
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic in sorted({*description["wanted"], *commits}):
        known, mine = entries.get(topic, {}), commits.get(topic, {})
        numbers = mine.keys() | (known.keys() if topic in description["wanted"] else set())
        if not numbers:
            continue  # wanted, but not there
        topics[topic] = [_with_commit(known.get(p, {"partition": p}), mine.get(p)) for p in sorted(numbers)]
    members = {}
    runs_tasks = description["kind"] == STREAMS
    for member_id, member in description["members"].items():
        fields = {key: value for key, value in member.items() if value or key == "topics"}
        if runs_tasks and "owned" in fields:  # a task's number may pass the end of the narrower of its topics
            held = {t: [p for p in ids if p in entries.get(t, {})] for t, ids in member["owned"].items()}
            fields["owned"] = {topic: ids for topic, ids in held.items() if ids}
        members[member_id] = {**fields, **({"generation": 0} if member["owned"] else {})}
    named = {topic: ids[topic] for topic in topics if topic in ids} if ids else {}
    with_ids = {"topic_ids": named} if named else {}
    raw = {"version": 1, "group": name, "topics": topics, **with_ids, "members": members}
    told = {field: description[field] for field in _TOLD if field in description}
    return Observed(raw, coordinator=coordinator, members=description.get("seats", ()), **told)
