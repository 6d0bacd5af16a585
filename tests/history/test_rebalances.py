"""Rebalances as Kafka's records tell them: who came and went, what moved, why, and what may be hidden."""

from __future__ import annotations

from typing import Any

import pytest
from tests.history.made import classic, epoch, gone, member

from apportion.history.cause import CommitCadence, CommitInterval
from apportion.history.fold import fold
from apportion.history.rebalance_rows import Rebalance, rebalances
from apportion.history.records import Generation, GenerationMember, GroupRecord


def rows(*events: GroupRecord, habits: CommitCadence | None = None) -> list[Rebalance]:
    return rebalances(fold(events).generations, habits)


def one(*events: GroupRecord, habits: CommitCadence | None = None) -> Rebalance:
    found = rows(*events, habits=habits)
    assert len(found) == 1
    return found[0]


A4 = member("a", {"t": [0, 1, 2, 3]})
A, B = member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]})


def test_a_member_that_joins_takes_what_another_held() -> None:
    row = one(classic(1, 1, A4), classic(2, 2, A, B))
    assert (row.cause, row.joined, row.left, row.members) == ("join", ("b",), (), 2)
    assert (row.moved, row.kept, row.given, row.dropped) == (2, 2, 0, 0)
    assert (row.generation, row.previous_generation, row.source_offset, row.at) == (2, 1, 2, 2000)
    assert row.duration_ms == 300
    assert row.needless == 0
    assert row.complete


def test_classic_records_follow_each_other_over_epochs_whose_tombstones_were_lost() -> None:
    row = one(classic(1, 5, A4), epoch(2, 3, {"epoch": 6}), classic(3, 7, A, B))
    assert (row.previous_generation, row.joined, row.kept, row.moved, row.given) == (5, ("b",), 2, 0, 2)
    assert row.inherited == 0, "nobody left, but the group was empty in between"


def test_moves_beyond_the_proved_least_are_needless() -> None:
    swapped = classic(2, 2, member("a", {"t": [2, 3]}), member("b", {"t": [0, 1]}))
    row = one(classic(1, 1, A, B), swapped)
    assert (row.moved, row.needless) == (4, 4)
    widened = one(classic(1, 1, A4), classic(2, 2, member("a", {"t": [2, 3]}), member("b", {"t": [0, 1]})))
    assert (widened.moved, widened.needless) == (2, 0)


def test_what_a_member_that_left_had_held_is_inherited_and_moves_not() -> None:
    row = one(classic(1, 1, A, B), classic(2, 2, A4))
    assert (row.cause, row.left, row.moved, row.given, row.inherited) == ("leave", ("b",), 0, 2, 2)
    assert row.needless == 0


def test_a_group_that_empties_drops_what_it_held_and_moves_nothing() -> None:
    row = one(classic(1, 1, A, B), classic(2, 2))
    assert (row.cause, row.members, row.left) == ("leave", 0, ("a", "b"))
    assert (row.moved, row.kept, row.given, row.dropped) == (0, 0, 0, 4)


def test_whoever_comes_to_an_empty_group_is_given_everything() -> None:
    row = rows(classic(1, 1, A, B), classic(2, 2), classic(3, 3, A4))[1]
    assert (row.cause, row.moved, row.given, row.handed) == ("join", 0, 4, 0)


def test_a_static_replacement_repeats_the_generation_and_moves_nothing() -> None:
    before = classic(1, 5, member("a-1", {"t": [0, 1]}, instance="pod-0"), B)
    after = classic(2, 5, member("a-2", {"t": [0, 1]}, instance="pod-0"), B, started=700)
    row = one(before, after)
    assert row.cause == "static"
    assert (row.generation, row.previous_generation) == (5, 5)
    assert (row.joined, row.left) == (("a-2",), ("a-1",))
    assert (row.moved, row.kept, row.skipped) == (0, 4, 0)
    assert row.duration_ms is None, "the state's time does not move with a static replacement"


def test_a_changed_subscription_is_seen_even_when_nobody_came() -> None:
    wider = member("a", {"t": [0, 1], "u": [0]})
    assert one(classic(1, 1, A, B), classic(2, 2, wider, B)).cause == "subscription"


def test_a_topic_that_grew_is_seen_by_its_new_partitions() -> None:
    row = one(classic(1, 1, A, B), classic(2, 2, A, member("b", {"t": [2, 3, 4, 5]})))
    assert (row.cause, row.given, row.kept) == ("topic grew", 2, 4)


def test_a_deleted_topic_is_seen_by_what_is_not_given_any_more() -> None:
    before = classic(1, 1, member("a", {"t": [0], "u": [0]}, topics=["t", "u"]))
    row = one(before, classic(2, 2, member("a", {"t": [0]}, topics=["t", "u"])))
    assert (row.cause, row.dropped, row.kept) == ("topic gone", 1, 1)


def test_nothing_changed_is_unknown() -> None:
    assert one(classic(1, 1, A, B), classic(2, 2, A, B)).cause == "unknown"


def test_several_causes_stand_beside_each_other() -> None:
    late = member("c", {"t": [0, 1]})
    assert one(classic(1, 1, A, B), classic(2, 2, late, B)).cause == "join, leave"


def test_a_cooperative_hand_over_ends_in_the_second_round() -> None:
    first, second = rows(
        classic(1, 1, A4),
        classic(2, 2, A, member("b", {}, topics=["t"])),
        classic(3, 3, A, B),
    )
    assert (first.cause, first.moved, first.dropped) == ("join", 0, 2)
    assert (second.cause, second.moved, second.given, second.handed) == ("hand-over", 2, 0, 2)


def test_a_tombstone_between_two_records_separates_them() -> None:
    assert rows(classic(1, 1, A4), gone(2), classic(3, 2, A, B)) == []


@pytest.mark.parametrize(
    ("generation", "holes", "complete", "skipped"),
    [(2, 0, True, 0), (2, 9, True, 0), (4, 0, True, 2), (4, 9, False, 2), (1, 9, True, 0)],
)
def test_only_a_gap_in_both_numbers_and_offsets_can_hide_something(
    generation: int, holes: int, complete: bool, skipped: int
) -> None:
    row = one(classic(1, 1, A, B), classic(20, generation, A, B, holes=holes))
    assert (row.complete, row.skipped) == (complete, skipped)


def test_the_first_record_of_a_group_is_no_rebalance() -> None:
    assert rows(classic(1, 3, A, B)) == []


def test_another_protocol_type_gives_rows_without_partitions() -> None:
    connect = [classic(1, 1, member("a"), protocol_type="connect"), classic(2, 2, member("a"), protocol_type="connect")]
    row = one(*connect)
    assert (row.moved, row.kept, row.given, row.needless) == (0, 0, 0, 0)


# -- crash or leave: member b committed every second, sessions last 6 s ---------------------------------------------


def died(silent_ms: int, every_ms: int = 1_000, n: int = 5) -> str:
    first = 10_000
    last = first + (n - 1) * every_ms
    habits = CommitCadence([CommitInterval(1, "t", 2, n, first, last)])
    at = last + silent_ms
    return one(classic(1, 1, A, B, at=5_000), classic(9, 2, A4, at=at + 100, started=at), habits=habits).cause


def test_a_member_that_fell_silent_for_a_session_crashed() -> None:
    assert died(6_000) == "crash"


def test_a_member_that_committed_just_now_left() -> None:
    assert died(200) == "leave"


def test_a_member_that_commits_seldom_gives_no_sign_of_a_crash() -> None:
    assert died(6_000, every_ms=5_000) == "leave"
    assert died(60_000, n=1) == "leave"


def test_one_commit_and_then_the_silence_of_a_session_is_a_crash() -> None:
    assert died(6_300, n=1) == "crash"
    assert died(1_000, n=1) == "leave"


def test_without_commits_a_member_that_is_gone_left() -> None:
    assert one(classic(1, 1, A, B), classic(2, 2, A4)).cause == "leave"


def test_one_may_crash_while_another_leaves() -> None:
    three = [member("a", {"t": [0]}), member("b", {"t": [1]}), member("c", {"t": [2]})]
    habits = CommitCadence([CommitInterval(1, "t", 1, 9, 1_000, 9_000), CommitInterval(1, "t", 2, 15, 1_000, 15_000)])
    row = one(
        classic(1, 1, *three, at=1_000),
        classic(9, 2, member("a", {"t": [0, 1, 2]}), at=15_500, started=15_400),
        habits=habits,
    )
    assert (row.cause, row.left) == ("leave, crash", ("b", "c"))


# -- what must not break it --------------------------------------------------------------------------------------------


def test_a_partition_assigned_twice_counts_once() -> None:
    both = classic(1, 1, A4, member("b", {"t": [0]}))
    assert one(both, classic(2, 2, A4)).kept == 4


def test_a_hostile_partition_id_does_not_make_a_topic_of_that_size() -> None:
    wild = member("a", {"t": [0, 2**31 - 1]})
    row = one(classic(1, 1, wild), classic(2, 2, member("b", {"t": [0, 2**31 - 1]})))
    assert row.inherited == 2
    negative = one(classic(1, 1, member("a", {"t": [-1]})), classic(2, 2, member("a", {"t": [-7]})))
    assert (negative.given, negative.dropped) == (1, 1)


def test_fifty_thousand_partitions_are_compared_in_a_moment() -> None:
    wide = [member(f"m{i:03d}", {"t": range(i * 500, i * 500 + 500)}) for i in range(100)]
    fewer = [member(f"m{i:03d}", {"t": range(i * 500, i * 500 + 500 + 500 * (i == 0))}) for i in range(99)]
    fewer[0] = member("m000", {"t": [*range(500), *range(99 * 500, 100 * 500)]})
    row = one(classic(1, 1, *wide), classic(2, 2, *fewer))
    assert (row.kept, row.inherited, row.left) == (49_500, 500, ("m099",))


def test_a_long_history_takes_no_more_memory_than_a_short_one() -> None:
    """Of ten times as many generations of 3,000 partitions, of two kinds in turn."""
    import tracemalloc

    def peak_bytes(count: int) -> int:
        assigned = {"t": tuple(range(3_000))}
        seats = tuple(GenerationMember(name, ("t",), assigned if name == "a" else {}) for name in "ab")
        generations = [
            Generation(k, k * 1000, ("classic", "consumer")[k % 2], k, seats, fresh=k == 0) for k in range(count)
        ]
        tracemalloc.start()
        changed = rebalances(generations)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [(row.kept, row.previous_generation) for row in changed] == [(3_000, k - 2) for k in range(2, count)]
        return peak

    assert peak_bytes(60) < 1.2 * peak_bytes(6)


def test_needless_moves_that_are_kept_for_groups_alike_are_those_that_each_group_has() -> None:
    """Two groups of each kind, with other names, against the count that remembers nothing."""
    from itertools import pairwise

    from tests.history.test_shared_plans import question

    from apportion.history import rebalance_rows as module
    from apportion.history.records import counts_after

    module._kept.clear()
    asked = 0
    for seed in range(120):
        for prefix in ("", "z-"):
            _, generations, _, _ = question(seed, prefix=prefix)
            counts = counts_after(generations)
            for (before, now), n in zip(pairwise(generations), counts[1:], strict=False):
                assert module._needless(before, now, n) == module.needless_moves(before, now, n), f"seed {seed}"
                asked += 1
    assert 0 < len(module._kept) < asked, "some were kept for others"
    module._kept.clear()


def test_a_group_that_cannot_be_planned_has_no_least_and_a_fault_of_ours_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the planner refuses is the group's; whatever else it raises must be seen."""
    from apportion.errors import BadInput
    from apportion.history import rebalance_rows as module

    def failing(error: Exception) -> Any:
        def plan(*_: Any) -> Any:
            raise error

        return plan

    swapped = member("a", {"t": [2, 3]}), member("b", {"t": [0, 1]})
    before, now = fold([classic(1, 1, A, B), classic(2, 2, *swapped)]).generations
    monkeypatch.setattr(module, "plan", failing(BadInput("group", "this", "that")))
    assert module.needless_moves(before, now, {"t": 4}) is None
    monkeypatch.setattr(module, "plan", failing(ValueError("a fault")))
    with pytest.raises(ValueError, match="a fault"):
        module.needless_moves(before, now, {"t": 4})
