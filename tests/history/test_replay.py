"""Replays: every plan is the past of the next, and what happened is measured by the same rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from tests.history.made import classic, gone, member
from tests.support.plain_reader import what_if

from apportion.arrays import Ints
from apportion.assignors import known
from apportion.history.fold import fold
from apportion.history.records import Generation, GenerationMember, GroupRecord, counts_after
from apportion.history.replay import replay, replay_to_dict
from apportion.history.steps import sizes
from apportion.model.group import Group
from apportion.model.protocols import CLASSIC


def walked(assignor: str, *events: GroupRecord) -> dict[str, object]:
    return replay_to_dict("g", assignor, replay("g", fold(events).generations, assignor))


def moves(done: dict[str, object], field: str = "moves") -> list[int]:
    return [row[field] for row in done["generations"]]  # type: ignore[attr-defined]


ONE = member("a", {"t": [0, 1, 2, 3]})
A, B = member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]})
SWAPPED = (member("a", {"t": [2, 3]}), member("b", {"t": [0, 1]}))


def test_sticky_would_not_have_made_the_needless_moves() -> None:
    done = walked("sticky", classic(1, 1, ONE), classic(2, 2, A, B), classic(3, 3, *SWAPPED), classic(4, 4, A, B))
    assert moves(done) == [0, 2, 0, 0]
    assert moves(done, "moves_then") == [0, 2, 4, 4]
    assert done["total"]["moves"] == 2  # type: ignore[index]
    assert done["total"]["moves_then"] == 10  # type: ignore[index]


def test_each_plan_is_the_past_of_the_next_and_not_what_happened() -> None:
    """Round robin deals a 0 and 2; what really happened gave it 0 and 1. So generation 3 moves nothing."""
    done = walked("roundrobin", classic(1, 1, ONE), classic(2, 2, A, B), classic(3, 3, A, B))
    assert moves(done) == [0, 2, 0]


def test_the_strategy_that_ruled_repeats_what_happened() -> None:
    history = [
        classic(1, 1, ONE),
        classic(2, 2, A, B),
        classic(3, 3, member("a", {"t": [0, 1]}), member("b", {"t": [2]}), member("c", {"t": [3]})),
        classic(4, 4, member("a", {"t": [0, 1]}), member("c", {"t": [2, 3]})),
    ]
    done = walked("range", *history)
    assert moves(done) == moves(done, "moves_then") == [0, 2, 1, 0]


def test_an_empty_group_forgets() -> None:
    done = walked("range", classic(1, 1, A, B), classic(2, 2), classic(3, 3, *SWAPPED))
    assert moves(done, "moves_then") == [0, 0]
    assert [row["generation"] for row in done["generations"]] == [1, 3]  # type: ignore[attr-defined]
    again = walked("range", classic(1, 1, A, B), gone(2), classic(3, 1, *SWAPPED))
    assert moves(again, "moves_then") == [0, 0]


def test_a_static_member_is_carried_over_by_its_instance() -> None:
    before = classic(1, 1, member("x-1", {"t": [0, 1]}, instance="x"), member("y-1", {"t": [2, 3]}, instance="y"))
    after = classic(2, 2, member("x-2", {"t": [0, 1]}, instance="x"), member("y-2", {"t": [2, 3]}, instance="y"))
    done = walked("sticky", before, after)
    assert done["generations"][1]["kept"] == 4  # type: ignore[index]
    assert moves(done) == moves(done, "moves_then") == [0, 0]


def test_a_static_replacement_is_no_generation_of_its_own() -> None:
    before = classic(1, 5, member("x-1", {"t": [0]}, instance="x"))
    swap = classic(2, 5, member("x-2", {"t": [0]}, instance="x"))
    assert len(walked("range", before, swap)["generations"]) == 1  # type: ignore[arg-type]


def test_the_last_generation_has_its_lag_though_a_static_member_came_back_in_it() -> None:
    """Its record stands again, of the same generation; a member that left since takes the lag with it."""
    topics = {"t": [{"partition": p, "begin": 0, "end": 10 * (p + 1), "committed": 0} for p in range(2)]}
    before = classic(1, 5, member("x-1", {"t": [0]}, instance="x"), member("y", {"t": [1]}))
    swaps = [classic(n, 5, member(f"x-{n}", {"t": [0]}, instance="x"), member("y", {"t": [1]})) for n in (2, 3)]
    (only,) = replay("g", fold([before, *swaps]).generations, "range", topics)
    assert (only.measures["lag_max"], only.then["lag_max"]) == (20, 20)
    gone_since = replay("g", fold([before, *swaps, classic(4, 6)]).generations, "range", topics)
    assert ["lag_max" in one.measures for one in gone_since] == [False]


def test_a_cooperative_move_counts_when_it_ends() -> None:
    done = walked(
        "cooperative-sticky", classic(1, 1, ONE), classic(2, 2, A, member("b", topics=["t"])), classic(3, 3, A, B)
    )
    assert moves(done, "moves_then") == [0, 0, 2]
    assert done["total"]["moves"] == done["total"]["moves_then"] == 2  # type: ignore[index]


def test_other_protocols_and_unreadable_members_are_passed_over() -> None:
    assert walked("range", classic(1, 1, member("worker"), protocol_type="connect"))["generations"] == []


def test_partition_counts_are_those_of_the_time() -> None:
    """A topic of 2 that grew to 6: the earlier generation is judged with 2 partitions, not with today's 6."""
    grown = [classic(1, 1, member("a", {"t": [0, 1]})), classic(2, 2, member("a", {"t": range(6)}))]
    generations = fold(grown).generations
    assert counts_after(generations) == [{"t": 2}, {"t": 6}]
    today = {"t": [{"partition": p, "racks": ["r"]} for p in range(6)]}
    assert [done.partitions for done in replay("g", generations, "range", today)] == [2, 6]


def test_a_downgrade_that_lost_partitions_does_not_shrink_the_topic() -> None:
    partial = [classic(1, 1, member("a", {"t": range(6)})), classic(2, 2, member("a", {"t": [0, 1]}))]
    assert counts_after(fold(partial).generations)[1] == {"t": 6}


def test_a_topic_made_anew_with_fewer_partitions_has_no_more_since() -> None:
    """Today's count is below an id given before, and no topic shrinks: what was given since is all there is."""
    whole = classic(1, 1, member("a", {"t": range(6)}))
    history = [
        whole,
        classic(2, 2, member("a", {"t": [0, 1]})),
        classic(3, 3, *(member(m, {"t": [p]}) for p, m in enumerate("ab"))),
    ]
    generations = fold(history).generations
    entries = [{"partition": p, "begin": 0, "end": 5} for p in range(2)]
    walk = replay("g", generations, "range", {"t": entries})
    assert [(one.partitions, one.measures["load_max"]) for one in walk] == [(6, 6), (2, 2), (2, 1)]
    assert walk[-1].measures["lag_unknown"] == 0
    # Log ends of two partitions alone: the group reads all six still.
    back = fold([*history, classic(4, 4, member("a", {"t": range(6)}))]).generations
    assert [one.partitions for one in replay("g", back, "range", {"t": entries})] == [6, 6, 6, 6]


def test_a_sample_of_an_absurd_id_makes_no_record_of_it_believed() -> None:
    absurd = 2**31 - 1
    history = [classic(1, 1, member("a", {"t": [0, 1, absurd]})), classic(2, 2, member("a", {"t": [0, 1]}))]
    entries = [{"partition": p, "begin": 0, "end": 5} for p in (0, 1, absurd)]
    generations = fold(history).generations
    assert counts_after(generations, sizes({"t": entries}, generations)) == [{}, {"t": 2}]


def test_a_partition_whose_log_ends_are_unknown_does_not_make_the_topic_smaller() -> None:
    """Five of six are described; a cooperative round that keeps back the last ones is still one of six partitions."""
    rounds = [
        classic(1, 1, member("a", {"t": range(6)})),
        classic(2, 2, member("a", {"t": range(5)}), member("b", topics=["t"])),
    ]
    entries = [{"partition": p, "racks": ["r"]} for p in (0, 1, 2, 4, 5)]
    assert [one.partitions for one in replay("g", fold(rounds).generations, "sticky", {"t": entries})] == [6, 6]


@pytest.mark.parametrize("name", sorted(known()))
def test_every_known_strategy_walks_a_long_history(name: str) -> None:
    history = []
    for generation in range(1, 13):
        n = 1 + generation % 4
        dealt = [member(f"m{m}", {"t": range(m, 12, n), "u": range(m, 5, n)}, topics=["t", "u"]) for m in range(n)]
        history.append(classic(generation, generation, *dealt))
    done = walked(name, *history)
    assert len(done["generations"]) == 12  # type: ignore[arg-type]
    assert sum(moves(done)) == done["total"]["moves"]  # type: ignore[index]


@dataclass(frozen=True)
class Stubborn:
    """A strategy that fails."""

    name: ClassVar[str] = "stubborn"
    goals: ClassVar[tuple[str, ...]] = ()

    def assign(self, group: Group) -> Ints:
        raise RuntimeError("never")


def test_what_a_strategy_raises_comes_through() -> None:
    with pytest.raises(RuntimeError, match="never"):
        replay("g", fold([classic(1, 1, ONE)]).generations, Stubborn())


def test_what_if_has_what_really_was_beside_every_measure() -> None:
    """Two members in two racks; the last generation gave one of them three of four partitions.

    Lag is of today: it is told of what stands beside the plan of the present, never of a replay.
    """
    entries = [
        {"partition": p, "racks": ["x"] if p < 3 else ["y"], "begin": 0, "end": 100, "committed": 100 - 10 * p}
        for p in range(4)
    ]
    even = seat("a", 0, 1), seat("b", 2, 3)
    uneven = replace(seat("a", 1, 2, 3), rack="x"), replace(seat("b", 0), rack="y")
    generations = [Generation(1, 1, CLASSIC, 1, even, fresh=True), Generation(2, 2, CLASSIC, 2, uneven)]
    members = {"a": {"topics": ["t"], "owned": {"t": [1, 2, 3]}}, "b": {"topics": ["t"], "owned": {"t": [0]}}}
    present = {"version": 1, "group": "g", "topics": {"t": entries}, "members": members}
    row, as_is, *_ = what_if("g", generations, present, {"t": entries}, ["sticky"])
    assert (row.scenario, as_is.scenario) == ("replay", "as-is")
    assert (row.moves_then, row.load_min_then, row.load_max_then) == (3, 1, 3)
    # a reads 3, which is in y alone, and b reads 0, which is in x alone.
    assert (row.rack_misses_then, row.lag_max, row.lag_max_then) == (2, None, None)
    assert as_is.lag_max_then == 10 + 20 + 30  # a's, as it stands
    assert (row.moves, row.load_min, row.load_max) == (0, 2, 2)


def seat(name: str, *ids: int) -> GenerationMember:
    return GenerationMember(name, ("t",), {"t": ids}, None, "c", "/h")
