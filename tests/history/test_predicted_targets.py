"""Targets that a real broker computed are computed again from its own records; a wrong record is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.history.made import epoch, joined

import apportion
from apportion.history.group_history import GroupHistories
from apportion.history.predicted_targets import Score, score
from apportion.history.records import GroupRecord
from apportion.history.steps import Step, follow, steps, without_past
from apportion.model.protocols import CONSUMER
from apportion.planning import plan
from apportion.server_side.timeline import Timeline
from apportion.sources.load_history import load_histories
from apportion.wire.coordinator import EpochRecord

DEMO = Path(apportion.__file__).parent / "demo" / "dump"


def scores(histories: GroupHistories) -> dict[str, Score]:
    found = {name: score(group.events, histories.world.names) for name, group in histories.groups.items()}
    return {name: one for name, one in found.items() if one.epochs}


def test_every_target_of_the_recorded_cluster_is_predicted_to_the_partition() -> None:
    """uniform and range, joins and leaves, a static member that restarts, an expression, a live upgrade."""
    assert scores(load_histories(DEMO)) == {
        "gone-kip848": Score(1, 1),
        "profiles-kip848": Score(5, 5),
        "routes-kip848-regex": Score(2, 2),
        "upgraded-live": Score(1, 1),
    }


def test_a_target_that_no_assignor_of_kafkas_gives_is_not_predicted() -> None:
    """The same history, one partition of one target with another member."""
    histories = load_histories(DEMO)
    events = list(histories.groups["profiles-kip848"].events)
    place = next(
        i for i, event in enumerate(events) if isinstance(event.record, EpochRecord) and event.record.key_type == 7
    )
    body: Any = {"topicPartitions": [{"topicId": histories.world.ids["clicks"], "partitions": [0]}]}
    events[place] = replace(events[place], record=replace(events[place].record, body=body))
    one = score(events, histories.world.names)
    assert one.epochs == 5
    assert one.predicted < 5


@pytest.mark.parametrize("wants", [[["t"], ["t"]], [["t"], ["t", "u"]]], ids=["alike", "unlike"])
def test_a_hostile_target_of_partitions_below_zero_ends_no_prediction(wants: list[list[str]]) -> None:
    """No broker writes such ids, and the score of a cluster walks every group; the next target is computed as ever."""
    topic_id = "AAAAAAAAAAEAAAAAAAAAAg"

    def target(*ids: int) -> dict[str, Any]:
        return {"topicPartitions": [{"topicId": topic_id, "partitions": list(ids)}]}

    events = [epoch(n, 5, joined(topics), name) for n, (name, topics) in enumerate(zip("ab", wants, strict=True))]
    events += [epoch(2, 3, {"epoch": 1}), epoch(3, 7, target(0, -1, -1_000_000), "a"), epoch(4, 7, target(1), "b")]
    events += [epoch(5, 6, {"assignmentEpoch": 1, "assignmentTimestamp": 5}), epoch(6, 3, {"epoch": 2})]
    events += [epoch(7, 7, target(0), "a"), epoch(8, 6, {"assignmentEpoch": 2, "assignmentTimestamp": 6})]
    assert score(events, {topic_id: "t"}) == Score(2, 1)


def test_a_table_of_members_is_walked_slot_by_slot_and_each_slot_backwards() -> None:
    """Four ids with one hash code stay in one slot through every doubling."""
    table = Timeline()
    for member in ("AaAa", "AaBB", "BBAa", "BBBB", *(f"m{n}" for n in range(40)), "AaBB"):
        table.put(member)
    alike = [member for member in table.members() if set(member) <= set("AaB")]
    # Each of six doublings handed the slot on as it stood, so that only the walk itself turns it round.
    assert alike == ["BBBB", "BBAa", "AaBB", "AaAa"]
    table.remove("BBAa")
    assert "BBAa" not in table
    assert len(table.members()) == 43


def test_what_a_group_json_tells_is_enough_for_the_recorded_cluster_too() -> None:
    """From ids and previous targets alone, as ``plan`` has them: all but the target that the upgrade itself wrote."""
    histories = load_histories(DEMO)
    right: dict[str, list[bool]] = {}
    for name in scores(histories):
        group = histories.groups[name]
        generations = [one for one in group.folded.generations if one.kind == CONSUMER]
        earlier: Step | None = None
        for now in steps(name, generations, histories.world.topics, histories.world.ids):
            past = without_past(now) if earlier is None else follow(earlier, earlier.group.owner, now)
            planned = plan(past, f"broker-{now.generation.protocol}")
            right.setdefault(name, []).append(bool(np.array_equal(planned.owner, now.group.owner)))
            earlier = now
    assert right == {
        "gone-kip848": [True],
        "profiles-kip848": [True] * 5,
        "routes-kip848-regex": [True] * 2,
        "upgraded-live": [False, True],  # the first is the classic assignment as it stood
    }


@pytest.mark.parametrize(("epochs", "first"), [(1, "Aa"), (2, "BB")])
def test_a_member_is_in_the_table_once_another_epoch_follows_the_one_that_it_began(epochs: int, first: str) -> None:
    """Aa and BB have one hash code: who comes last in its bin hands on first once it is in the table."""
    topic, wish = "AAAAAAAAAAAAAAAAAAAAAQ", {"subscribedTopicNames": ["t"]}
    second = {"Aa": "BB", "BB": "Aa"}[first]
    given = {first: [{"topicId": topic, "partitions": [0]}], second: [{"topicId": topic, "partitions": [1]}]}
    bodies: list[tuple[int, str | None, dict[str, Any]]] = [
        (5, "Aa", wish), (3, None, {"epoch": 1}), (7, "Aa", {"topicPartitions": []}),
        (6, None, {"assignmentTimestamp": 5}), (5, "BB", wish), *[(3, None, {"epoch": 2})] * epochs,
        *((7, member, {"topicPartitions": given[member]}) for member in ("Aa", "BB")),
        (6, None, {"assignmentTimestamp": 9}),
    ]  # fmt: skip
    events = [
        GroupRecord(at, 1000 * at, EpochRecord("g", key_type, False, member, 1, body))
        for at, (key_type, member, body) in enumerate(bodies)
    ]
    assert score(events, {topic: "t"}) == Score(2, 2)
