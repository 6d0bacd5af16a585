"""The picture of time has one definition of a move, and tells no standstill that the records do not."""

from __future__ import annotations

import pytest

from apportion.demo import dump
from apportion.history.group_history import GroupHistory
from apportion.history.replay_totals import replay_totals
from apportion.history.stood_still import standstills
from apportion.inputs.load_history import load_histories
from apportion.report.timeline import moments, moves_between_living, where_they_end

GROUPS = {group.name: group for group in load_histories(str(dump())).groups.values()}
OF_PARTITIONS = [name for name, group in GROUPS.items() if group.rebalances and not group.runs_tasks]


@pytest.mark.parametrize("name", OF_PARTITIONS)
def test_a_move_of_the_lanes_is_a_move_of_the_bars(name: str) -> None:
    group = GROUPS[name]
    movers = moves_between_living(group.folded.generations)
    for totals in replay_totals(group).values():
        for offset, moves in totals["then"].items():
            assert len(movers[offset]) == moves


def test_another_strategys_moves_stand_beside_those_that_they_replace() -> None:
    """A cooperative rebalance of two rounds moves in the second: there its overlay stands, and none is lost."""
    rebalances = GROUPS["feed-cooperative"].rebalances
    moves = {one.source_offset: i + 1 for i, one in enumerate(rebalances)}
    shifted = where_they_end(rebalances, moves)
    assert sum(shifted) == sum(moves.values())
    hands_over = [one.cause == "hand-over" for one in rebalances]
    ends = [i for i, ended in enumerate(hands_over) if ended and not hands_over[i - 1]]
    assert ends
    assert all(shifted[i - 1] == 0 and shifted[i] == 2 * i + 1 for i in ends)


def still_of(group: GroupHistory) -> list[tuple[bool, int, int | None]]:
    stood = standstills(group.folded.generations, group.rebalances, group.habits)
    rows = [stood[one.source_offset] for one in group.rebalances]
    return [(row.eager, row.partitions, row.at_least_ms) for row in rows]


def test_an_eager_group_stops_whole_and_a_cooperative_one_only_for_what_is_handed_over() -> None:
    assert still_of(GROUPS["ads-range"])[1:3] == [(True, 20, 87), (True, 20, 2)]
    assert still_of(GROUPS["feed-cooperative"])[1:3] == [(False, 0, None), (False, 10, 308)]


@pytest.mark.parametrize("name", OF_PARTITIONS)
def test_bounds_enclose_and_no_partition_stops_twice_at_once(name: str) -> None:
    group = GROUPS[name]
    for row, moment in zip(group.rebalances, moments(group).values(), strict=True):
        n, least, most = moment["still"]
        assert 0 <= n <= row.kept + row.moved + row.handed
        assert least is None or least >= 0
        assert most is None or most >= 0
