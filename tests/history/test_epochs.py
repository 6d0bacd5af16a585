"""KIP-848 groups: records of one epoch folded into one state, in the order that a 4.3 broker writes them."""

from __future__ import annotations

from tests.history.made import NAMES, classic, current, epoch, gone, joined, member, target

from apportion.history.consumer_groups import DEFAULT_ASSIGNOR
from apportion.history.fold import Folded, fold
from apportion.history.rebalance_rows import rebalances
from apportion.history.records import GroupRecord


def folded(*events: GroupRecord) -> Folded:
    return fold(events, NAMES)


FIRST = (
    epoch(1, 5, joined(), "a"),
    epoch(2, 3, {"epoch": 2}),
    epoch(3, 7, target({"t": [3, 1, 2, 0]}), "a"),
    epoch(4, 6, {"assignmentEpoch": 2}),
    epoch(5, 8, current(2, {"t": [2, 0, 3, 1]}), "a"),
)
SECOND = (
    epoch(6, 5, joined(), "b"),
    epoch(7, 3, {"epoch": 3}),
    epoch(8, 7, target({"t": [0, 1]}), "a"),
    epoch(9, 7, target({"t": [2, 3]}), "b"),
    epoch(10, 6, {"assignmentEpoch": 3}),
    epoch(11, 8, current(2, {"t": [0, 1]}, 1, {"t": [3, 2]}), "a"),
)


def test_an_epoch_is_complete_when_its_target_is() -> None:
    (generation,) = folded(*FIRST).generations
    assert (generation.number, generation.offset, generation.kind) == (2, 4, "consumer")
    assert generation.started == 2000, "opened by key 3"
    (seat,) = generation.members
    assert (seat.member_id, seat.topics, seat.assigned) == ("a", ("t",), {"t": (0, 1, 2, 3)})


def test_a_second_member_makes_a_second_state() -> None:
    _, second = folded(*FIRST, *SECOND).generations
    assert {seat.member_id: seat.assigned for seat in second.members} == {"a": {"t": (0, 1)}, "b": {"t": (2, 3)}}
    (row,) = rebalances(folded(*FIRST, *SECOND).generations)
    assert (row.cause, row.moved, row.kept, row.duration_ms, row.kind) == ("join", 2, 2, 3000, "consumer")


def test_the_present_is_what_members_hold_and_not_what_they_are_to_hold() -> None:
    present = folded(*FIRST, *SECOND).present
    assert present is not None
    assert (present.type, present.state, present.generation) == ("consumer", "Stable", 3)
    assert present.protocol == DEFAULT_ASSIGNOR
    assert {seat.member_id: seat.assigned for seat in present.members} == {"a": {"t": (0, 1)}, "b": {}}


def test_epochs_that_were_overtaken_before_their_target_are_no_states() -> None:
    bumps = [
        epoch(6, 5, joined(), "b"),
        epoch(7, 3, {"epoch": 3}),
        epoch(8, 5, joined(), "c"),
        epoch(9, 3, {"epoch": 4}),
    ]
    states = folded(*FIRST, *bumps, epoch(12, 6, {"assignmentEpoch": 4})).generations
    assert [state.number for state in states] == [2, 4]
    assert states[1].started == 7000, "opened by the first bump that had no target"
    (row,) = rebalances(states)
    assert (row.skipped, row.joined) == (1, ("b", "c"))


def test_a_group_that_emptied_is_complete_without_a_target() -> None:
    left = [epoch(6, 8, None, "a"), epoch(7, 7, None, "a"), epoch(8, 5, None, "a"), epoch(9, 3, {"epoch": 3})]
    found = folded(*FIRST, *left)
    assert [(state.number, len(state.members)) for state in found.generations] == [(2, 1), (3, 0)]
    assert found.present is not None
    assert (found.present.state, found.present.protocol, found.present.generation) == ("Empty", None, 3)


def test_a_deleted_group_is_gone_whatever_tombstones_come() -> None:
    empty = [epoch(6, 8, None, "a"), epoch(7, 7, None, "a"), epoch(8, 5, None, "a"), epoch(9, 3, {"epoch": 3})]
    deleted = [epoch(10, 6, None), epoch(11, 4, None), epoch(12, 3, None)]
    assert folded(*FIRST, *empty, *deleted).present is None


def test_a_regular_expression_group_wants_what_its_members_were_given() -> None:
    events = (
        epoch(1, 5, joined((), regex="t.*"), "a"),
        epoch(2, 8, current(1, {}), "a"),
        epoch(3, 3, {"epoch": 2}),
        epoch(4, 7, target({"t": [0], "u": [0]}), "a"),
        epoch(5, 5, joined((), regex="t.*"), "b"),
        epoch(6, 6, {"assignmentEpoch": 2}),
    )
    (state,) = folded(*events).generations
    assert [seat.topics for seat in state.members] == [("t", "u"), ("t", "u")]


def test_a_live_upgrade_starts_anew_at_the_number_of_the_classic_generation() -> None:
    upgrade = (
        classic(1, 3, member("a", {"t": [0, 1]})),
        gone(2),
        epoch(3, 5, joined(classicMemberMetadata={"sessionTimeoutMs": 9000, "supportedProtocols": []}), "a"),
        epoch(4, 3, {"epoch": 3}),
        epoch(5, 7, target({"t": [0, 1]}), "a"),
        epoch(6, 6, {"assignmentEpoch": 3}),
        epoch(7, 8, current(3, {"t": [0, 1]}), "a"),
    )
    found = folded(*upgrade)
    assert [(state.kind, state.number, state.fresh) for state in found.generations] == [
        ("classic", 3, True),
        ("consumer", 3, True),
    ]
    assert found.present is not None
    assert found.present.type == "consumer"
    assert found.generations[1].members[0].session_timeout_ms == 9000
    assert rebalances(found.generations) == []


def test_a_downgrade_is_classic_again_by_offset_not_by_number() -> None:
    down = [
        *(epoch(12 + i, kind, None, "a" if kind in (5, 7, 8) else None) for i, kind in enumerate((8, 7, 6, 5, 4, 3))),
        classic(20, 3, member("a", {"t": [0]})),
        classic(21, 4, member("a", {"t": [0, 1, 2, 3]})),
    ]
    found = folded(*FIRST, *down)
    assert found.present is not None
    assert (found.present.type, found.present.generation) == ("classic", 4)
    (row,) = rebalances(found.generations)
    assert (row.previous_generation, row.generation, row.kept, row.given) == (3, 4, 1, 3)


def test_a_static_member_that_is_replaced_keeps_its_partitions() -> None:
    before = (
        epoch(1, 5, joined(instance="pod"), "a-1"),
        epoch(2, 3, {"epoch": 2}),
        epoch(3, 7, target({"t": [0]}), "a-1"),
        epoch(4, 6, {"assignmentEpoch": 2}),
        epoch(5, 8, current(2, {"t": [0]}), "a-1"),
    )
    away = (epoch(6, 8, current(-2, {"t": [0]}), "a-1"),)
    back = (
        *(epoch(7 + i, kind, None, "a-1") for i, kind in enumerate((8, 7, 5))),
        epoch(10, 5, joined(instance="pod"), "a-2"),
        epoch(11, 7, target({"t": [0]}), "a-2"),
        epoch(12, 8, current(0, {"t": [0]}), "a-2"),
        epoch(13, 5, joined(instance="pod"), "a-2"),
        epoch(14, 8, current(2, {"t": [0]}), "a-2"),
    )
    found = folded(*before, *away, *back)
    assert found.present is not None
    assert [(seat.member_id, seat.assigned) for seat in found.present.members] == [("a-2", {"t": (0,)})]
    grown = (
        epoch(15, 3, {"epoch": 3}),
        epoch(16, 7, target({"t": [0, 1]}), "a-2"),
        epoch(17, 6, {"assignmentEpoch": 3}),
    )
    (row,) = rebalances(folded(*before, *away, *back, *grown).generations)
    assert row.cause == "static, topic grew"
    assert (row.kept, row.given, row.moved) == (1, 1, 0)


def test_ids_that_nobody_can_name_are_left_out() -> None:
    found = fold([*FIRST[:2], epoch(3, 7, target({"deleted": [0], "t": [1]}), "a"), *FIRST[3:]], NAMES)
    assert found.generations[0].members[0].assigned == {"t": (1,)}


def test_the_assignor_that_most_members_ask_for_counts() -> None:
    asked = [
        epoch(i, 5, joined(serverAssignor=name), f"m{i}") for i, name in enumerate(["range", "uniform", "range", None])
    ]
    present = folded(*asked, epoch(9, 3, {"epoch": 2})).present
    assert present is not None
    assert present.protocol == "range"
