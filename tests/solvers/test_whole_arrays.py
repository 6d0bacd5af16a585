"""What each solver answers to arrays of every kind, number by number: a tie that falls elsewhere is another plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.support.written_down import as_written

from apportion.arrays import NOBODY, Bools, Ints, Longs
from apportion.solvers import (
    completion,
    dealing,
    equal_shares,
    fair_loads,
    local_search,
    makespan,
    partition_classes,
    range_racks,
    retention,
    uniform_machines,
)
from apportion.solvers import number_partitioning as numbers
from apportion.solvers.branch_and_bound import Search
from apportion.solvers.makespan import Sharing
from apportion.solvers.max_flow import Transport, feasible_flow
from apportion.solvers.number_partitioning import Limits
from apportion.solvers.problem import units

WRITTEN = Path(__file__).parent / "whole_arrays.json"


def plain(value: Any) -> Any:
    """Arrays, truth values and pairs as lists."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return int(value) if isinstance(value, bool | np.generic) else value


def some_lags(draw: Random, n: int) -> Longs:
    """Lags with ties, noughts, and a few that outweigh the rest."""
    kinds: list[Any] = [(0, 1, 2, 3), (7,), (0, 0, 0, 900), range(1000), (10**15, 1, 5)]
    few = draw.choice(kinds)
    return np.array([draw.choice(few) for _ in range(n)], dtype=np.int64)


def owners(draw: Random, n: int, members: int, free: float = 0.3) -> Ints:
    """Owners at random; some nobody's."""
    return np.array([NOBODY if draw.random() < free else draw.randrange(members) for _ in range(n)], dtype=np.int64)


def table(draw: Random, rows: int, columns: int, share: float = 0.7) -> Bools:
    """Who may take what; each row has somebody."""
    may = np.array([[draw.random() < share for _ in range(columns)] for _ in range(rows)], dtype=np.bool_)
    may[range(rows), [draw.randrange(columns) for _ in range(rows)]] = True
    return may


def draws(name: str, count: int) -> Iterator[Random]:
    """The same random numbers each time, others for each test."""
    return (Random(f"{name} {i}") for i in range(count))


def test_rounds_are_dealt_alike_to_one_table_and_to_many() -> None:
    answers: list[Any] = []
    for draw in draws("rounds", 12):
        lags = [np.array([some_lags(draw, n) for _ in range(2)]) for n in (1, 5, 8, 40, 9)]
        members = [draw.choice((1, 2, 3, 5, 16, 17, 18)) for _ in lags]
        many = numbers.deal_rounds_many(lags, members)
        for lag, m, owner in zip(lags, members, many, strict=True):
            assert [numbers.deal_rounds(row, m).tolist() for row in lag] == owner.tolist()
        answers.append(many)
    huge = np.array([[2**58, 2**58 - 1, 2**57, 5, 5, 1, 0]])
    for m in (2, 3, 4):
        (owner,) = numbers.deal_rounds_many([huge], [m])
        assert owner.tolist() == [numbers.deal_rounds(huge[0], m).tolist()]
        answers.append(owner)
    assert numbers.deal_rounds(np.array([], dtype=np.int64), 3).tolist() == []
    as_written(WRITTEN, "rounds", plain(answers))


def test_tables_of_like_length_are_dealt_together() -> None:
    members = [2, 2, 2, 2, 3, 3, 3]
    rounds = [1, 8, 10, 11, 8, 9, 40]
    assert list(numbers._of_like_length([], [], [])) == []
    assert list(numbers._of_like_length(range(7), members, rounds)) == [[0, 1], [2, 3], [4, 5], [6]]
    assert list(numbers._of_like_length(range(4), [1] * 4, [8, 10, 11, 13])) == [[0, 1], [2, 3]]


def test_lags_are_partitioned_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw in draws("partitioned", 24):
        members = draw.choice((1, 2, 3, 5, 9))
        lag = some_lags(draw, draw.randint(members, 5 * members))
        fewest, odd = divmod(len(lag), members)
        even = Limits(np.full(members, fewest), np.full(members, fewest + bool(odd)))
        wide = Limits(np.maximum(even.low - 2, 0), even.high + 1)
        uneven = Limits(np.zeros(members, dtype=np.int64), np.array([0] + [len(lag)] * (members - 1)))
        limits = [even, wide, *([uneven] if members > 1 else [])]
        dealt = [numbers.deal_limited(lag, one) for one in limits]
        skewed = [numbers.deal_skewed(lag, members, skew) for skew in (0, 1, 3)]
        apart = numbers.difference(lag, members)
        levelled = [numbers.level(lag, one, members, goal) for one in (apart, skewed[0]) for goal in (0, 900)]
        held = numbers.lag_by_member(lag, owners(draw, len(lag), members), members + 1)
        answers.append([numbers.heaviest_first(lag), dealt, skewed, apart, levelled, held])
    as_written(WRITTEN, "partitioned", plain(answers))


def test_rounds_of_exchanges_level_what_is_far_apart() -> None:
    answers: list[Any] = []
    for draw in draws("levelled", 10):
        members, each = draw.choice((4, 5, 8)), draw.choice((1, 3, 8))
        lag = np.array([draw.choice((1, 5, 9, 30, 31, 200)) for _ in range(members * each + draw.randrange(3))])
        owner = np.sort(np.arange(len(lag)) % members)
        before = owner.tolist()
        answers.append([numbers.level(lag, owner, members, goal) for goal in (0, int(lag.sum()) // members + 20)])
        assert owner.tolist() == before
    crowded = np.arange(4 * 33)
    assert numbers.level(crowded, crowded // 33, 4, 0).tolist() == (crowded // 33).tolist(), "more than is looked at"
    roomy = np.arange(4 * 32)
    assert numbers.level(roomy, roomy // 32, 4, 0).tolist() != (roomy // 32).tolist()
    as_written(WRITTEN, "levelled", plain(answers))


def test_slots_of_each_kind_are_filled_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw in draws("slots", 12):
        members, kinds = draw.randint(1, 5), draw.randint(1, 3)
        lag = some_lags(draw, draw.randint(kinds, 14))
        kind = np.array([draw.randrange(kinds) for _ in lag])
        slots: dict[int, list[tuple[int, int]]] = {}
        for k in range(kinds):
            count = np.bincount([draw.randrange(members) for _ in range(int((kind == k).sum()))], minlength=members)
            slots[k] = [*enumerate(count.tolist())]
        held = [draw.choice((0, 3, 40)) for _ in range(members)]
        answers.append(numbers.deal_to_slots(lag, kind, slots, held))
    as_written(WRITTEN, "slots", plain(answers))


def test_rows_are_dealt_in_laps_and_topics_apart() -> None:
    answers: list[Any] = []
    for draw in draws("laps", 30):
        rows, columns, topics = draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 4)
        amounts = np.array([[draw.choice((0, 1, 2, 5)) for _ in range(columns)] for _ in range(rows)])
        column = np.array(sorted(list(range(columns)) + [draw.randrange(columns) for _ in range(draw.randint(0, 4))]))
        column = column[draw.sample(range(len(column)), len(column))]
        need, load = np.zeros(len(column), dtype=np.int64), np.array([draw.randint(0, 4) for _ in column])
        for j, total in enumerate(amounts.sum(axis=0).tolist()):
            for _ in range(total):
                need[draw.choice(np.flatnonzero(column == j).tolist())] += 1
        row = np.arange(rows).repeat(amounts.sum(axis=1))
        row = row[draw.sample(range(len(row)), len(row))]
        topic = np.array([draw.randrange(topics) for _ in row], dtype=np.int64)
        held = np.array([[draw.choice((0, 0, 1, 2)) for _ in column] for _ in range(topics)])
        before = held.tolist()
        answers.append([dealing.laps(need, column, load), [dealing.interleave(one) for one in amounts]])
        answers[-1].append(dealing.deal(row, amounts, need, column, load) if len(row) else [])
        by_topic = dealing.deal_by_topic(row, topic, amounts, need, column, held)
        assert np.bincount(by_topic, minlength=len(need)).tolist() == need.tolist()
        assert held.tolist() == before
        answers[-1].append(by_topic)
    as_written(WRITTEN, "laps", plain(answers))


def test_keys_are_sorted_together_and_one_after_the_other() -> None:
    answers: list[Any] = []
    for draw in draws("keys", 16):
        n = draw.choice((1, 2, 9, 30))
        most = [draw.choice((1, 2, 7, 181, 182, 400, 40_000, 10**6)) for _ in range(draw.randint(1, 4))]
        keys = [np.array([draw.randrange(one) for _ in range(n)]) for one in most]
        order = dealing.order_by_keys(keys)
        assert order.tolist() == np.lexsort(keys).tolist()
        assert dealing.stable_order(keys[0]).tolist() == np.argsort(keys[0], kind="stable").tolist()
        answers.append(order)
    for top in (dealing.RADIX_MAX - 1, dealing.RADIX_MAX, dealing.RADIX_MAX + 1, 2**16 + 5):
        key = np.array([top, 3, top - 1, 3, 0])
        assert dealing.stable_order(key).tolist() == [4, 1, 3, 2, 0]
        assert dealing.order_by_keys([np.array([1, 0, 1, 0, 1]), key]).tolist() == [4, 1, 3, 2, 0]
    for size in (181, 182, 256):  # about as many as fit beside each other into a short key
        pair = [np.array([size, 0, size, 1]), np.array([size, size, 0, 1])]
        assert dealing.order_by_keys(pair).tolist() == np.lexsort(pair).tolist()
    assert dealing.order_by_keys([np.array([], dtype=np.int64)]).tolist() == []
    as_written(WRITTEN, "keys", plain(answers))


def test_loads_are_fair_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw in draws("fair", 40):
        rows, columns = draw.randint(1, 4), draw.randint(1, 4)
        supply = np.array([draw.choice((0, 1, 3, 10)) for _ in range(rows)])
        eligible, size = table(draw, rows, columns, 0.5), np.array([draw.randint(1, 3) for _ in range(columns)])
        base = np.array([draw.choice((0, 0, 1, 4)) for _ in range(columns)])
        capacity = np.array([draw.choice((1, 2, 3, 1000)) for _ in range(columns)])
        for unit in (None, units(capacity)):
            face = fair_loads.fair_loads(supply, eligible, size, base, unit)
            answers.append([face.low, face.high, face.eligible, face.part, face.total])
            total = int(supply.sum())
            answers[-1].append(fair_loads.cheapest_units(total, size, base, unit))
            answers[-1].append(fair_loads.pour(total, base, unit))
        answers[-1].append([fair_loads.water_level(total, size, base), fair_loads.water_level(total, size, base * 0)])
        pieces = fair_loads.components(np.arange(rows), np.arange(columns), eligible)
        answers[-1].append([list(piece) for piece in pieces])
        low, high = face.low * size, face.high * size
        answers[-1].append(feasible_flow(supply, low, high, eligible))
        answers[-1].append(feasible_flow(supply, low, high, eligible, table(draw, rows, columns, 0.2) & eligible))
        answers[-1].append(feasible_flow(supply, low, np.maximum(high - 1, low), eligible))
        answers[-1].append(feasible_flow(supply, low + 1, high + 1, eligible))
    as_written(WRITTEN, "fair", plain(answers))


def test_a_flow_that_cannot_be_says_which_rows_and_columns_are_in_the_way() -> None:
    answers: list[Any] = []
    for draw in draws("cuts", 20):
        rows, columns = draw.randint(2, 4), draw.randint(2, 5)
        supply = np.array([draw.choice((1, 3, 6)) for _ in range(rows)])
        filling = Transport(supply, table(draw, rows, columns, 0.4))
        cap = np.array([draw.choice((1, 2, 4)) for _ in range(columns)])
        placed = filling.fits(np.zeros_like(cap), cap)
        answers.append([placed, filling.flow, filling.unplaced, filling.held, filling.rows, filling.columns])
        begun = Transport(supply, filling.eligible, filling.flow)
        answers[-1].append([begun.fill(cap + 1), begun.flow, begun.unplaced, begun.held])
    as_written(WRITTEN, "cuts", plain(answers))


def test_shares_of_like_things_and_what_stays_are_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw in draws("shares", 30):
        members = draw.randint(1, 6)
        past = owners(draw, draw.randint(0, 20), members)
        answers.append([equal_shares.equal_shares(past, members), equal_shares.max_kept(past, members)])
        kind = np.array([draw.randrange(3) for _ in range(draw.randint(1, 12))])
        cap = np.array([draw.randint(0, 4) for _ in range(3)])
        keys = tuple(np.array([draw.randrange(most) for _ in kind]) for most in (2, 5))
        answers[-1] += [retention.first_ones(kind, cap, keys[:n]) for n in range(3)]
        worth = np.array([draw.randrange(3) for _ in kind])
        topic = np.array([draw.randrange(3) for _ in kind])
        answers[-1].append(retention.given_up_in_turn(kind, cap, topic, worth))
        own, low = (np.array([draw.randint(0, 4) for _ in range(members)]) for _ in range(2))
        part = np.array([draw.randrange(2) for _ in range(members)])
        high, worth = low + np.array([draw.randint(0, 1) for _ in part]), np.array([draw.randrange(3) for _ in part])
        answers[-1].append(retention.capped(own, low, high, part, np.array([1, 2]), worth))
    as_written(WRITTEN, "shares", plain(answers))


def sharings(name: str, count: int, partitions: int = 14) -> Iterator[tuple[Random, Sharing]]:
    """Problems of lag of every kind."""
    for draw in draws(name, count):
        members, kinds = draw.randint(1, 5), draw.choice((1, 1, 2, 3))
        may = table(draw, kinds, members) if kinds > 1 else np.ones((1, members), dtype=np.bool_)
        lag = some_lags(draw, draw.randint(1, partitions))
        kind = np.array([draw.randrange(kinds) for _ in lag])
        past = owners(draw, len(lag), members)
        past[(past != NOBODY) & ~may[kind, past]] = NOBODY
        yield draw, Sharing(lag, past, kind, may, draw.choice((0, 0, 1, 2, 3)))


def test_lag_is_shared_as_was_written_down() -> None:
    answers: list[Any] = []
    for _, sharing in sharings("shared", 40):
        for tolerance in (0.0, 0.25):
            shared = makespan.share(sharing, tolerance)
            answers.append([shared.owner, shared.bound, shared.max_kept])
        again = makespan.share(sharing, 0.1, shared.owner)
        answers[-1] += [again.owner, again.bound, again.max_kept, makespan.lower_bound(sharing)]
        answers[-1] += [makespan.lower_bound(sharing, least) for least in (0, 1, 2)]
        answers[-1].append(makespan.fair_counts(sharing.kind, sharing.may, sharing.past))
        answers[-1].append([[one.low, one.high] for one in makespan._limits(sharing)])
    as_written(WRITTEN, "shared", plain(answers))


def test_what_stays_is_completed_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw, sharing in sharings("completed", 40):
        alike = np.ones(sharing.members, dtype=np.int64)
        for capacity in (alike, np.array([draw.choice((1, 2, 5)) for _ in alike])):
            answers.append([completion.complete(sharing, capacity)])
            if sharing.equal:
                answers[-1] += completion.fair_window(sharing, capacity)
    assert any(answer[0] is None for answer in answers)
    as_written(WRITTEN, "completed", plain(answers))


def test_lag_goes_by_capacity_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw, sharing in sharings("machines", 40):
        unit = units(np.array([draw.choice((1, 2, 3, 8)) for _ in range(sharing.members)]))
        lag = np.minimum(sharing.lag, 10**6)
        machines = uniform_machines.Machines(lag, sharing.past, sharing.kind, sharing.may, unit, sharing.max_skew)
        owner = [uniform_machines.share_by_capacity(machines, tolerance) for tolerance in (0.0, 0.3)]
        answers.append([owner, str(machines.least_burden()), machines.burdens(owner[0])])
        answers[-1].append(uniform_machines.deal_topic(lag, unit))
    as_written(WRITTEN, "machines", plain(answers))


def test_trades_and_what_comes_home_are_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw in draws("trades", 30):
        members = draw.randint(2, 5)
        lag = some_lags(draw, draw.randint(members, 16))
        owner = owners(draw, len(lag), members, free=0)
        may = table(draw, len(lag), members, 0.8)
        may[np.arange(len(lag)), owner] = True
        count = np.bincount(owner, minlength=members)
        for bounds, own in product(((None, None), (count - 1, count + 1)), (None, may)):
            allowed = None if own is None else lambda m, p, own=own: own[p, m]
            draft = local_search.Draft(lag, owner.copy(), members, *bounds, allowed)
            goal = int(lag.sum()) // members
            local_search.settle(draft, goal, draw.choice((0, 60, 10_000)))
            answers.append([draft.owner, draft.held, draft.count, draft.lists])
            limit = int(draft.held.max()) + draw.choice((0, 2))
            past = np.where(may[np.arange(len(lag)), (owner + 1) % members], (owner + 1) % members, NOBODY)
            local_search.keep_more(draft, past, limit, draw.choice((0, 40, 10_000)))
            answers[-1] += [draft.owner, draft.held]
    as_written(WRITTEN, "trades", plain(answers))


def test_a_search_through_all_plans_ends_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw, sharing in sharings("searched", 20, partitions=7):
        may = sharing.may[sharing.kind]
        start = np.array([draw.choice(np.flatnonzero(row).tolist()) for row in may])
        high = np.full(sharing.members, -(-len(start) // sharing.members) + 1)
        for nodes in (30, 20_000):
            search = Search(sharing.lag, may, sharing.past, high, lambda count: max(count) - min(count) <= 2, nodes)
            done = [search.least_lag(start), search.best, search.heaviest, search.nodes]
            search = Search(sharing.lag, may, sharing.past, high, lambda count: True, nodes)
            limit = int(sharing.lag.max()) + int(sharing.lag.sum()) // sharing.members
            answers.append([*done, search.max_kept(start, limit), search.best, search.retained, search.nodes])
    as_written(WRITTEN, "searched", plain(answers))


def test_racks_are_dealt_as_was_written_down() -> None:
    answers: list[Any] = []
    for draw in draws("racks", 30):
        members, partitions, racks, sets = draw.randint(1, 4), draw.randint(1, 8), draw.randint(1, 3), 3
        near = table(draw, racks, sets, 0.4)
        rack = np.array([draw.randint(-1, racks - 1) for _ in range(members)])

        cuts = []
        for _ in range(3):
            set_of, nobody = (
                np.array([draw.randint(-1, sets - 1) for _ in range(partitions)]),
                np.full(partitions, NOBODY),
            )
            cuts.append(range_racks.TopicDeal(np.arange(members) * 2, rack, set_of, near, nobody))
        cut, *two = cuts
        answers.append([range_racks.needs_racks(cut)])
        range_racks.deal_near(cut)
        answers[-1] += [cut.owner.copy(), list(cut.held), cut.extra, [cut.room(s) for s in range(members)]]
        range_racks.deal_rest(cut)
        answers[-1] += [cut.owner.copy(), list(cut.held), cut.extra]
        gaps = np.array(sorted(draw.sample(range(partitions + 2), partitions)))
        range_racks.deal_in_step(two, [np.arange(partitions), gaps])
        answers[-1] += [[one.owner, one.held, one.extra] for one in two]
    as_written(WRITTEN, "racks", plain(answers))


@pytest.mark.parametrize("n", [1, 3, 40])
def test_kinds_are_told_apart_by_table_and_by_sort(n: int) -> None:
    for draw in draws(f"kinds {n}", 6):
        most = draw.choice((2, partition_classes.DENSE * n, partition_classes.DENSE * n + 1, 10**6))
        key = np.array([draw.randint(-1, most) for _ in range(n - 1)] + [most])
        kinds, kind = partition_classes.distinct_kinds(key)
        assert kinds.tolist() == sorted({one for one in key.tolist() if one >= 0})
        assert [kinds[k] if k >= 0 else -1 for k in kind.tolist()] == key.tolist()
