"""A move and a needless one are the same thing wherever they are told: rows, bars, edges, replays, text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

from apportion.demo import dump
from apportion.history.cause import CommitCadence
from apportion.history.moves import Moves, moves_between_living
from apportion.history.rebalance_rows import Rebalance, latest, rebalances
from apportion.history.records import Generation, GenerationMember
from apportion.history.replay_totals import replay_totals
from apportion.model.protocols import STREAMS
from apportion.report import history_text, page_groups
from apportion.serve.past import GroupPast
from apportion.sources.load_history import load_histories

TASKS = Path(__file__).parents[1] / "data" / "task_groups"
GROUPS = {
    group.name: group
    for source in (dump(), TASKS)
    for group in load_histories(str(source)).groups.values()
    if group.rebalances
}


@pytest.mark.parametrize("name", GROUPS)
def test_every_place_tells_the_moves_of_a_recorded_group_alike(name: str) -> None:
    """The storm, the cooperative and the eager groups, those of the new protocol, and one whose tasks move."""
    group = GROUPS[name]
    rows = group.rebalances
    moved, needless = [row.moved for row in rows], [row.needless for row in rows]
    movers = moves_between_living(group.folded.generations)
    assert [len(movers[row.source_offset]) for row in rows] == moved, "edges"
    page = page_groups.history(group)
    assert [row["moved"] for row in page] == [len(row["movers"]) for row in page] == moved, "bars and table"
    assert [row["needless"] for row in page] == needless
    for totals in replay_totals(group).values():
        assert [totals["then"].get(row.source_offset, 0) for row in rows] == moved, "replays and JSON"
    shown = history_text.last(rows)
    cells = [(row[shown.columns.index("MOVED")], row[shown.columns.index("NEEDLESS")]) for row in shown.rows]
    assert cells == list(zip(moved, needless, strict=True))[-history_text.LAST :], "text"
    served = GroupPast(name, group.world.names)
    served.seed([])
    for record in group.events:
        served.take(record)
    assert [(row.moved, row.needless) for row in served.rebalances] == list(zip(moved, needless, strict=True)), "serve"
    assert (served.moved, served.needless) == (sum(moved), sum(n or 0 for n in needless)), "metrics"


def test_the_recorded_groups_are_of_each_sort() -> None:
    assert sum(row.moved for row in GROUPS["fraud-storm"].rebalances) > 0
    assert sum(row.handed for row in GROUPS["feed-cooperative"].rebalances) > 0
    assert sum(row.inherited for row in GROUPS["ads-range"].rebalances) > 0
    assert sum(row.moved for row in GROUPS["enrich"].rebalances) == 13


@st.composite
def histories(draw: st.DrawFn) -> list[Generation]:
    """Up to eight generations of up to four members: eager, cooperative with partitions in hand-over, empty, anew."""
    kind = draw(st.sampled_from(["classic", "consumer", STREAMS]))
    generations = []
    for number in range(1, draw(st.integers(2, 8)) + 1):
        living = draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4))
        owner = [draw(st.sampled_from(["", *living])) for _ in range(6)]
        seats = tuple(
            GenerationMember(
                f"{name}-{draw(st.integers(1, 2))}" if static else name, ("t",),
                {"t": held} if (held := tuple(p for p, who in enumerate(owner) if who == name)) else {},
                instance_id=name if static else None,
            )
            for name in sorted(living) for static in [name in "ab"]
        )  # fmt: skip
        fresh = number == 1 or draw(st.integers(0, 9)) == 0
        generations.append(Generation(number, number * 1000, kind, number, seats, fresh=fresh))
    return generations


def by_hand(generations: Sequence[Generation]) -> dict[int, set[tuple[str, int]]]:
    """The definition, partition by partition: its last owner has been there ever since, and another has it now."""
    moved: dict[int, set[tuple[str, int]]] = {}
    for k, now in enumerate(generations):
        moved[now.offset] = set()
        for key, who in now.owners().items():
            for i in range(k - 1, -1, -1):
                if generations[i + 1].fresh:
                    break
                last = generations[i].owners().get(key)
                if last is not None:
                    stayed = all(last in {seat.identity for seat in one.members} for one in generations[i : k + 1])
                    moved[now.offset] |= {key} if stayed and last != who else set()
                    break
    return moved


@pytest.mark.slow
@examples(300)
@given(histories())
def test_made_histories_are_counted_by_the_definition(generations: list[Generation]) -> None:
    rows = rebalances(generations)
    moved = by_hand(generations)
    assert {offset: set(keys) for offset, keys in moves_between_living(generations).items()} == moved
    assert [row.moved for row in rows] == [len(moved[row.source_offset]) for row in rows]
    moves, one_by_one = Moves(), list[Rebalance]()
    for k in range(len(generations)):
        row = latest(generations[max(0, k - 2) : k + 1], moves, CommitCadence())
        one_by_one += [] if row is None else [row]
    assert [(row.moved, row.handed, row.inherited) for row in one_by_one] == [
        (row.moved, row.handed, row.inherited) for row in rows
    ]
    by_offset = {one.offset: one for one in generations}
    for row in rows:
        assert row.needless is None or 0 <= row.needless <= row.moved
        assert row.kept + row.moved + row.given == len(by_offset[row.source_offset].owners())
        assert row.handed <= row.moved
        assert row.inherited <= row.given


def test_a_cooperative_move_that_no_evenness_asked_for_is_needless() -> None:
    """a gives up all for b in one round, and b gives up all for a: four moves where none was needed."""

    def seats(a: Sequence[int], b: Sequence[int]) -> tuple[GenerationMember, ...]:
        return tuple(
            GenerationMember(name, ("t",), {"t": tuple(ids)} if ids else {}) for name, ids in (("a", a), ("b", b))
        )

    turns = [seats([0, 1], [2, 3]), seats([], []), seats([2, 3], [0, 1])]
    walk = [Generation(n, n, "classic", n, one, fresh=n == 1) for n, one in enumerate(turns, 1)]
    given_up, handed = rebalances(walk)
    assert (given_up.moved, given_up.needless) == (0, 0)
    assert (handed.moved, handed.handed, handed.needless) == (4, 4, 4)
    joined = [seats([0, 1, 2, 3], [])[:1], seats([0, 1], []), seats([0, 1], [2, 3])]
    walk = [Generation(n, n, "classic", n, one, fresh=n == 1) for n, one in enumerate(joined, 1)]
    assert [(row.moved, row.needless) for row in rebalances(walk)] == [(0, 0), (2, 0)]
