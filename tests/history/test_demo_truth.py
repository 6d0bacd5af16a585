"""What a recorded cluster's dump tells agrees with what Kafka's own tools and the members themselves said of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.history import kafka_says
from tests.support.plain_reader import epochs_of

import apportion.demo
from apportion.history.group_history import GroupHistories
from apportion.model.protocols import CONSUMER
from apportion.sources import dump

DUMP = Path(apportion.demo.__file__).parent / "dump"
TRUTH = DUMP / "truth"


@pytest.fixture(scope="module")
def memory() -> GroupHistories:
    return dump.load_histories(DUMP)


def said(name: str) -> str:
    return (TRUTH / name).read_text(encoding="utf-8")


def test_every_offset_end_and_lag_is_as_the_tool_says(memory: GroupHistories) -> None:
    ours, theirs = kafka_says.our_offsets(memory), kafka_says.their_offsets(said("offsets.txt"))
    assert len(theirs) > 200
    assert {place: ours.get(place) for place in theirs} == theirs
    # The tool shows what members hold; a wanted partition that nobody holds is ours alone, and never committed.
    assert {ours[place][0] for place in ours.keys() - theirs.keys()} <= {"-"}


def test_every_partition_has_the_owner_that_the_tool_names(memory: GroupHistories) -> None:
    assert kafka_says.our_owners(memory.living) == kafka_says.their_owners(said("offsets.txt"))


def test_every_member_is_as_the_tool_says(memory: GroupHistories) -> None:
    theirs = kafka_says.their_members(said("members.txt"))
    listed = [memory.groups[name] for name in {row[0] for row in theirs}]
    assert kafka_says.our_members(listed) == theirs


def test_every_state_and_strategy_is_as_the_tool_says(memory: GroupHistories) -> None:
    theirs = kafka_says.their_states(said("state.txt"))
    assert kafka_says.our_states(memory.groups[name] for name in theirs) == theirs


def test_the_same_groups_live(memory: GroupHistories) -> None:
    listed = {row["GROUP"]: (row["TYPE"], row["STATE"]) for row in kafka_says.printed(said("list.txt"))}
    kinds = {"simple": "Classic", "classic": "Classic", "consumer": "Consumer", "share": "Share"}
    ours = {g.name: (kinds[g.present.type], g.present.state) for g in memory.living if g.present}
    # A listing of consumer groups leaves out share groups, and Connect's: classic groups with another protocol type.
    assert {name: ours[name] for name in listed} == listed
    assert all(not memory.groups[name].present.readable for name in ours.keys() - listed.keys())  # type: ignore[union-attr]


def test_every_generation_that_a_member_logged_has_the_same_owners(memory: GroupHistories) -> None:
    classic = {
        (name, generation.number, seat.member_id): {topic: list(ids) for topic, ids in seat.assigned.items() if ids}
        for name, group in memory.groups.items()
        for generation in group.folded.generations
        if generation.kind != CONSUMER
        for seat in generation.members
    }
    epochs = _currents(memory)
    seen = {"classic": 0, "consumer": 0}
    for line in json.loads(said("members.json")):
        key = (line["group"], line["generation"], line["member_id"])
        held = {topic: sorted(ids) for topic, ids in line["partitions"].items() if ids}
        if line["generation"] < 0 or (not held and key not in classic):
            continue  # a member of KIP-848 that left, or that heard of its epoch before it was given anything
        if key in classic and classic[key] == held:
            seen["classic"] += 1
        else:
            # A member hears of its epoch first and takes its partitions one callback later: all it says is given.
            assert any(set(places(held)) <= set(places(given)) for given in epochs[key]), key
            seen["consumer"] += held in epochs[key]
    assert seen["classic"] > 120
    assert seen["consumer"] >= 5


Owners = dict[str, dict[str, list[int]]]


def targets_as_kafka_reads_them() -> dict[tuple[str, int], tuple[int, Owners]]:
    """(group, offset of the record that completes an epoch) to the epoch and what each member was given.

    From the records as Kafka's own deserializer printed them: a target stands until its member's next one.
    """
    topics = pq.read_table(DUMP / "topics.parquet", columns=["topic_id", "topic"])
    names = dict(zip(*(column.to_pylist() for column in topics.columns), strict=True))
    with gzip.open(TRUTH / "records.ndjson.gz", "rt", encoding="utf-8") as file:
        records = sorted((json.loads(line) for line in file), key=lambda r: (r["partition"], r["offset"]))
    members: dict[str, set[str]] = {}
    targets: dict[str, Owners] = {}
    epochs = {}
    for record in records:
        group, value = record["key"].get("groupId", ""), record["value"]
        living, given = members.setdefault(group, set()), targets.setdefault(group, {})
        member = record["key"].get("memberId", "")
        if record["type"] == 5:
            (living.discard if value is None else living.add)(member)
        elif record["type"] == 7 and value is None:
            given.pop(member, None)
        elif record["type"] == 7:
            given[member] = {
                names[entry["topicId"]]: sorted(entry["partitions"])
                for entry in value["topicPartitions"]
                if entry["topicId"] in names
            }
        elif value is not None and (record["type"] == 6 or (record["type"] == 3 and not living)):
            number = value["assignmentEpoch" if record["type"] == 6 else "epoch"]
            epochs[group, record["offset"]] = (number, {m: given.get(m, {}) for m in living})
    return epochs


def owners(row: dict[str, Any]) -> Owners:
    return {m["member_id"]: {h["topic"]: h["partitions"] for h in m["assigned"]} for m in row["members"]}


def test_each_epoch_has_the_owners_that_kafka_reads_in_its_records(memory: GroupHistories) -> None:
    rows = [row for group in memory.groups.values() for row in epochs_of(group)]
    ours = {(row["group"], row["source_offset"]): (row["epoch"], owners(row)) for row in rows}
    theirs = targets_as_kafka_reads_them()
    assert ours == theirs
    assert len(ours) >= 11
    assert {group for group, _ in ours} == {"gone-kip848", "profiles-kip848", "routes-kip848-regex", "upgraded-live"}


def test_the_last_epoch_s_owners_are_those_that_the_tool_names(memory: GroupHistories) -> None:
    """By instance: a static member that restarted within the epoch has another id, and no epoch was made for it."""
    instances = {row[1]: row[4] for row in kafka_says.their_members(said("members.txt")) if row[4] != "-"}
    theirs = {
        place: instances.get(owner, owner) for place, owner in kafka_says.their_owners(said("offsets.txt")).items()
    }
    for name in ("profiles-kip848", "routes-kip848-regex", "upgraded-live"):
        ours = {
            (name, held["topic"], str(p)): member["instance_id"] or member["member_id"]
            for member in epochs_of(memory.groups[name])[-1]["members"]
            for held in member["assigned"]
            for p in held["partitions"]
        }
        assert ours
        assert ours == {place: owner for place, owner in theirs.items() if place[0] == name}


def places(held: dict[str, list[int]]) -> list[tuple[str, int]]:
    return [(topic, p) for topic, ids in held.items() for p in ids]


def _currents(memory: GroupHistories) -> dict[tuple[str, int, str], list[dict[str, list[int]]]]:
    """What the key-8 records gave each member in each epoch: it may change while others give up what they had."""
    found: dict[tuple[str, int, str], list[dict[str, list[int]]]] = {}
    for name, group in memory.groups.items():
        for event in group.events:
            body = getattr(event.record, "body", None)
            if body and event.record.key_type == 8:
                held = {memory.world.names[e["topicId"]]: sorted(e["partitions"]) for e in body["assignedPartitions"]}
                key = (name, body["memberEpoch"], str(event.record.member_id))  # type: ignore[union-attr]
                found.setdefault(key, []).append({topic: ids for topic, ids in held.items() if ids})
    return found


@pytest.mark.parametrize(
    ("group", "cause"),
    [
        ("prices-crash", "crash"),
        ("stock-static", "static"),
        ("inventory-grows", "topic grew"),
        ("tangled-wants", "subscription"),
        ("feed-cooperative", "hand-over"),
        ("legacy-reader", "topic gone"),
    ],
)
def test_what_was_done_to_a_group_is_recognised(memory: GroupHistories, group: str, cause: str) -> None:
    assert cause in [row.cause for row in memory.groups[group].rebalances]


def test_a_crash_is_no_leave_and_a_leave_no_crash(memory: GroupHistories) -> None:
    crashed = {name for name, group in memory.groups.items() for row in group.rebalances if "crash" in row.cause}
    assert crashed == {"prices-crash"}


def test_cooperative_sticky_replayed_moves_as_it_did(memory: GroupHistories) -> None:
    """The strategy that ruled, replayed, balances no worse and never moves more than Kafka's own did."""
    for name in ("search-sticky", "fraud-storm", "feed-cooperative", "inventory-grows"):
        total = memory.groups[name].replay("sticky")["total"]
        assert total["moves"] <= total["moves_then"], name


def test_range_replayed_is_what_happened(memory: GroupHistories) -> None:
    done = memory.groups["ads-range"].replay("range")
    assert [row["moves"] for row in done["generations"]] == [row["moves_then"] for row in done["generations"]]
    assert done["total"]["generations"] == 5
