"""Whole groups with a past, made at random as Kafka's coordinators write them; of one seed always the same."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.history.made import classic, current, epoch, gone, joined, member, target

from apportion.history.cause import CommitInterval
from apportion.history.commits import CommittedOffset
from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.history.records import GroupRecord
from apportion.wire.coordinator import EpochRecord

NAMES = ("a", "b", "c", "d", "e")
IDS = {f"AAAAAAAAAAAAAAAAAAAA{last}": topic for topic, last in zip("tuv", ("AQ", "Ag", "Aw"), strict=True)}
ID_OF = {topic: id_ for id_, topic in IDS.items()}
Held = dict[str, list[int]]


def random_group(seed: int, kind: str) -> GroupHistory:
    """A group of one kind: its records, its commits and the topics that it reads."""
    rng = random.Random(f"{kind} {seed}")
    sizes = {topic: rng.randrange(1, 7) for topic in "tuv"}
    events = {"classic": of_clients, "consumer": of_the_broker, "streams": of_tasks}[kind](rng, sizes)
    commits = {
        (topic, p): CommittedOffset(
            rng.randrange(60), rng.choice((None, ID_OF[topic], "AAAAAAAAAAAAAAAAAAAAgg")),
            rng.choice((None, rng.randrange(40_000), rng.randrange(40_000))),
        )
        for topic, n in sizes.items() for p in range(n + (rng.random() < 0.1)) if rng.random() < 0.6
    }  # fmt: skip
    return GroupHistory("g", events, commits, habits(rng, events, sizes), metadata(rng, sizes))


def metadata(rng: random.Random, sizes: Mapping[str, int]) -> TopicMetadata:
    """Topics with their logs, most of them known."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, n in sizes.items():
        if rng.random() < 0.1:
            continue
        topics[topic] = []
        for p in range(n):
            begin, size = rng.randrange(20), rng.randrange(60)
            told = {"begin": begin, "end": begin + size, "last_stable": begin + size - rng.randrange(3)}
            entry = {"partition": p, "racks": rng.sample("xyz", 2), **(told if rng.random() < 0.8 else {})}
            topics[topic].append(entry)
    return TopicMetadata(topics, {t: ID_OF[t] for t in topics}, dict(IDS))


def habits(rng: random.Random, events: Sequence[GroupRecord], sizes: Mapping[str, int]) -> list[CommitInterval]:
    """How often partitions were committed between the records."""
    rows = []
    for event in events:
        for topic, n in sizes.items():
            if rng.random() < 0.5:
                first = event.at + rng.randrange(900)
                last = first + rng.randrange(9_000)
                rows.append(CommitInterval(event.offset, topic, rng.randrange(n), rng.randrange(1, 9), first, last))
    return rows


def dealt(rng: random.Random, names: Sequence[str], sizes: Mapping[str, int], left_out: float = 0.05) -> list[Held]:
    """Partitions on members, in no order, some on nobody."""
    held: list[Held] = [{} for _ in names]
    for topic, n in sizes.items() if held else ():
        for p in rng.sample(range(n), n):
            if rng.random() >= left_out:
                rng.choice(held).setdefault(topic, []).append(p)
    return held


def of_clients(rng: random.Random, sizes: Mapping[str, int]) -> list[GroupRecord]:
    """A classic group: generations that follow each other, with claims, gaps, tombstones and foreign members."""
    events: list[GroupRecord] = []
    offset = at = number = 0
    before: dict[str, tuple[int, Any]] = {}
    wide = {topic: rng.randrange(1, n + 1) for topic, n in sizes.items()}
    for _ in range(rng.randrange(2, 8)):
        offset, at = offset + rng.randrange(1, 4), at + rng.choice((1_000, 4_000, 12_000, 70_000))
        if rng.random() < 0.08:
            events.append(replace(gone(offset), at=at))
            before, number = {}, 0
            continue
        number += rng.choice((1, 1, 1, 1, 0, 2))
        if rng.random() < 0.2:
            wide = dict(sizes)
        names = rng.sample(NAMES, rng.choice((0, 1, 2, 2, 3, 3, 4)))
        members = []
        for name, held in zip(names, dealt(rng, names, wide), strict=True):
            instance = f"i{name}" if name in "cd" and rng.random() < 0.8 else None
            member_id = f"{name}{rng.randrange(2)}" if instance else name
            topics = [*held] if rng.random() < 0.2 else ["t", "u", "v"]
            seat = member(member_id, held, topics=topics, instance=instance)
            claim = before.get(name) if rng.random() < 0.8 else None
            owned_in, owned = claim or (None, ())
            seat = replace(seat, owned=owned, owned_generation=owned_in, rack=rng.choice((None, "x", "y")))
            if rng.random() < 0.03:
                seat = replace(seat, unreadable="it is odd")
            members.append(seat)
            before[name] = (number, seat.assigned)
        kind = "connect" if rng.random() < 0.04 else "consumer"
        protocol = rng.choice(("range", "cooperative-sticky", "sticky"))
        started = at - rng.choice((0, 20, 300, 3_000))
        event = classic(
            offset, number, *members, protocol_type=kind, protocol=protocol, started=started, at=at,
            holes=rng.choice((0, 0, 0, 2)),
        )  # fmt: skip
        events.append(event)
    return events


def at_moments(rng: random.Random, events: Sequence[GroupRecord]) -> list[GroupRecord]:
    """The records at ascending moments; those of one batch close together."""
    at, moved = 0, []
    for event in events:
        at += rng.choice((0, 0, 1, 30)) if event.record.key_type not in (5, 19) else rng.choice((900, 5_000, 60_000))  # type: ignore[union-attr]
        moved.append(replace(event, at=at, holes=int(rng.random() < 0.05)))
    return moved


def given(rng: random.Random, bodies: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Held]:
    """What ``range`` gives, or any target at all."""
    if rng.random() < 0.3:
        return dict(zip(bodies, dealt(rng, [*bodies], sizes, 0), strict=True))
    held: dict[str, Held] = {name: {} for name in bodies}
    line = sorted(bodies, key=lambda name: (bodies[name]["instanceId"] is None, bodies[name]["instanceId"] or name))
    for topic, n in sizes.items():
        takers = [name for name in line if topic in bodies[name]["subscribedTopicNames"]]
        for k, name in enumerate(takers):
            share, extra = divmod(n, len(takers))
            first = k * share + min(k, extra)
            if ids := [*range(first, first + share + (k < extra))]:
                held[name][topic] = ids
    return held


def by_id(held: Held) -> Held:
    return {ID_OF[topic]: ids for topic, ids in held.items()}


def of_the_broker(rng: random.Random, sizes: Mapping[str, int]) -> list[GroupRecord]:
    """A group of the new protocol: joins, leaves, changed wishes, targets by ``range`` and others, hand-overs."""
    events: list[GroupRecord] = []

    def write(key_type: int, body: Mapping[str, Any] | None, name: str | None = None) -> None:
        events.append(epoch(len(events), key_type, body, name))

    bodies: dict[str, dict[str, Any]] = {}
    for number in range(1, rng.randrange(3, 10)):
        leaver = rng.choice([*bodies]) if bodies and rng.random() < 0.35 else None
        if leaver is not None:
            del bodies[leaver]
            for key_type in (8, 7, 5):
                write(key_type, None, leaver)
        else:
            name = rng.choice(NAMES)
            pattern = "[tu]" if rng.random() < 0.15 else ""
            topics = rng.choice((["t", "u", "v"], ["t", "u", "v"], ["t"], ["u", "v"]))
            bodies[name] = joined(
                topics, regex=pattern, instance=f"i{name}" if name in "cd" else None,
                serverAssignor=rng.choice(("range", "range", "range", None, "odd")), rackId=rng.choice((None, "x", "")),
            )  # fmt: skip
            if rng.random() < 0.1:
                bodies[name]["classicMemberMetadata"] = {"sessionTimeoutMs": 9_000}
            write(5, bodies[name], name)
        write(3, {"epoch": number})
        if rng.random() < 0.1:
            continue  # the next bump comes before a target
        targets = given(rng, bodies, sizes)
        for name, held in targets.items():
            if rng.random() < 0.95:
                write(7, target(by_id(held)), name)
        if bodies:
            write(6, {"assignmentEpoch": number, "assignmentTimestamp": rng.choice((5, 9, 9, 0))})
        for name, held in targets.items():
            if rng.random() < 0.8:
                lost = {} if rng.random() < 0.8 else {ID_OF["t"]: [0]}
                write(8, current(number, by_id(held), rng.randrange(3), lost), name)
    if rng.random() < 0.1:
        write(3, None)
    return at_moments(rng, events)


def of_tasks(rng: random.Random, sizes: Mapping[str, int]) -> list[GroupRecord]:
    """A streams group: processes of several members, standbys and warm-ups, settings and topologies that change."""
    events: list[GroupRecord] = []

    def write(key_type: int, body: Mapping[str, Any] | None, name: str | None = None) -> None:
        number = (body or {}).get({17: "epoch", 20: "assignmentEpoch", 22: "memberEpoch"}.get(key_type, ""))
        record = EpochRecord("g", key_type, body is None, name, number, None if body is None else dict(body))
        events.append(GroupRecord(len(events), 0, record))

    def topology(number: int) -> dict[str, Any]:
        stores = [{"name": "log", "partitions": 0}] if rng.random() < 0.7 else []
        return {
            "epoch": number,
            "subtopologies": [
                {"subtopologyId": "0", "sourceTopics": ["t", "u"], "repartitionSourceTopics": [],
                 "stateChangelogTopics": stores, "repartitionSinkTopics": ["v"], "sourceTopicRegex": []},
                {"subtopologyId": "1", "sourceTopics": [], "repartitionSourceTopics": [{"name": "v"}],
                 "stateChangelogTopics": [], "repartitionSinkTopics": [],
                 "sourceTopicRegex": ["x.*"] if rng.random() < 0.2 else []},
            ],
        }  # fmt: skip

    widths = {"0": max(sizes["t"], sizes["u"]), "1": sizes["v"]}
    bodies: dict[str, dict[str, Any]] = {}
    settings = [{"key": "num.standby.replicas", "value": "0"}]
    write(23, topology(0))
    metadata_hash = 0
    for number in range(1, rng.randrange(3, 9)):
        leaver = rng.choice([*bodies]) if bodies and rng.random() < 0.35 else None
        if leaver is not None:
            del bodies[leaver]
            for key_type in (22, 21, 19):
                write(key_type, None, leaver)
        else:
            name = rng.choice(NAMES)
            bodies[name] = {
                "instanceId": f"i{name}" if name == "d" else None, "rackId": None, "clientId": "c", "clientHost": "/h",
                "processId": f"process-{'abcde'.index(name) // 2}", "rebalanceTimeoutMs": 1, "topologyEpoch": 0,
                "userEndpoint": None, "clientTags": [],
            }  # fmt: skip
            write(19, bodies[name], name)
        metadata_hash += rng.random() < 0.2
        if rng.random() < 0.2:
            settings = [{"key": "num.standby.replicas", "value": rng.choice(("0", "1", "x"))}]
        if rng.random() < 0.1:
            write(23, topology(number))
        write(17, {"epoch": number, "metadataHash": metadata_hash, "lastAssignmentConfigs": settings})
        roles = [dealt(rng, [*bodies], widths, out) for out in (0, 0.5, 0.9)]
        tasks = {
            name: {
                field: [{"subtopologyId": sub, "partitions": ids} for sub, ids in of[m].items()]
                for field, of in zip(("activeTasks", "standbyTasks", "warmupTasks"), roles, strict=True)
            }
            for m, name in enumerate(bodies)
        }
        for name, body in tasks.items():
            write(21, body, name)
        if bodies:
            write(20, {"assignmentEpoch": number, "assignmentTimestamp": 9})
        for name, body in tasks.items():
            if rng.random() < 0.8:
                write(22, {"memberEpoch": number, **body}, name)
    return at_moments(rng, events)
