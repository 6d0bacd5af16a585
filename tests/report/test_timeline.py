"""The picture of time has one definition of a move, and tells no standstill that the records do not."""

from __future__ import annotations

from typing import Any

import pytest

import apportion
from apportion import rollouts, whatif
from apportion.assignors import find
from apportion.defaults import PROTOCOLS
from apportion.demo import dump
from apportion.history.group_history import GroupHistory
from apportion.history.lag_time import Series
from apportion.history.moves import moves_between_living
from apportion.history.replay_totals import replay_totals
from apportion.history.stood_still import standstills
from apportion.report.rollouts import as_shown, notes, page_data, table
from apportion.report.timeline import commits_in_lanes, lag_line, moments, where_they_end
from apportion.rollouts import Protocol
from apportion.sighting.sighting import Sighting
from apportion.sources.load_history import load_histories

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
        n, least, most, since = moment["still"]
        assert 0 <= n <= row.kept + row.moved + row.inherited
        assert least is None or least >= 0
        assert (most is None) == (since is None)
        assert most is None or most >= 0
        # What is certain lies within what is possible, but for a clock of a member that is a little off.
        assert most is None or since - 50 <= row.at - (least or 0) <= since + most + 50


def rolled(protocol: Protocol, static: bool = False) -> tuple[list[rollouts.Stage], dict[str, Any]]:
    """A rolling restart of three members, two of one client's name, and the page's data."""
    members = {f"{client}-{i}": {"topics": ["t"], "client_id": client} for i, client in enumerate("aab")}
    group = whatif.settled(apportion.plan({"topics": {"t": 7}, "members": members}, PROTOCOLS[protocol]))
    stages = rollouts.rollout(group, ["rolling", "grow t:9"], protocol, static=static)
    observed = Sighting(group)
    page = page_data(observed, group, stages, rollouts.Times())
    assert page["advice"][0] == rollouts.total_sentence(stages)
    return stages, page["history"]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "streams"])
def test_what_is_kept_of_a_large_rollout_is_all_that_is_shown(strategy: str) -> None:
    group = whatif.settled(
        apportion.plan({"topics": {"t": 9}, "members": {m: {"topics": ["t"]} for m in "abc"}}, strategy)
    )
    protocol = rollouts.protocol_of(find(strategy, {}))
    stages = rollouts.rollout(group, ["rolling", "grow t:12"], protocol, strategy)
    kept = [*map(as_shown, stages[:-1]), stages[-1]]
    assert table(kept).records() == table(stages).records()
    assert notes(kept, protocol) == notes(stages, protocol)
    drawn = [page_data(Sighting(group), group, shown, rollouts.Times()) for shown in (kept, stages)]
    assert drawn[0] == drawn[1]
    assert not any(len(stage.plan.group.claims.member) or stage.plan.answer.state for stage in kept[:-1])


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_a_rollout_is_drawn_with_the_standstill_and_the_moves_that_its_table_has(protocol: Any, static: bool) -> None:
    stages, drawn = rolled(protocol, static)
    assert drawn["planned"] is True
    times = [moment["at_ms"] for moment in drawn["rebalances"]]
    assert times == sorted(times)
    for stage, moment in zip(stages, drawn["rebalances"][1:], strict=True):
        assert sum(moment["stopped"].values()) == 1000 * stage.standstill_s
        assert max(moment["stopped"].values(), default=0) == 1000 * stage.longest_s
        assert moment["still"][0] == len(moment["stopped"])
        assert moment["moved"] == stage.moved
        assert moment["duration_ms"] >= 1000 * stage.longest_s
    assert [len(rows) for rows in drawn["movers"][1:]] == [stage.moved for stage in stages]


def test_who_restarts_keeps_its_name_where_its_client_is_one_alone() -> None:
    _, drawn = rolled("cooperative")
    assert [label for label in drawn["labels"] if label == "b"] == ["b"]
    causes = [moment["cause"] for moment in drawn["rebalances"]]
    assert any(cause.endswith(": b gone") for cause in causes), causes
    assert len([label for label in drawn["labels"] if label.startswith("a-")]) == 4, "two of one name, each twice"


def test_members_come_back_when_their_restart_is_over() -> None:
    stages, _ = rolled("eager")
    moments = rollouts.begins_and_ends(stages[:4], rollouts.Times(restart_s=10, rebalance_s=3))
    assert moments == [(0, 3), (10, 13), (13, 16), (23, 26)]


def test_the_line_of_lag_has_the_end_and_the_commit_that_stood_at_each_sample() -> None:
    series = {
        ("t", 0): Series(ends=[(1000, 10), (3000, 30)], commits=[(900, 4), (3500, 30)]),
        ("t", 1): Series(ends=[(2000, 7)], commits=[(2500, 5)]),
    }
    assert lag_line(series) == [[1000, 6], [2000, 6], [3000, 28]]


@pytest.mark.parametrize("name", OF_PARTITIONS)
def test_commits_in_lanes_are_those_that_were_counted(name: str) -> None:
    group = GROUPS[name]
    rows = sorted({f"{one.topic}-{one.partition}" for one in group.habits})
    drawn = commits_in_lanes(group, rows)
    assert sum(n for _, n, _, _ in drawn) == sum(
        one.n for one in group.habits if f"{one.topic}-{one.partition}" in rows[:40]
    )
    assert all(first <= last for _, _, first, last in drawn)


@pytest.mark.parametrize("name", ["ads-range", "feed-cooperative", "profiles-kip848"])
def test_a_replay_says_what_stood_still_beside_what_moved(name: str) -> None:
    group = GROUPS[name]
    stood = standstills(group.folded.generations, group.rebalances)
    told = {row["source_offset"]: row for row in group.replay("sticky")["generations"]}
    for row in group.rebalances:
        columns = stood[row.source_offset].columns(row.kind)
        beside = [told[row.source_offset][f"{column}_then"] for column in ("duration_ms", *columns)]
        assert beside == [row.duration_ms, *columns.values()]
