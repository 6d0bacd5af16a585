"""Every look of a loop at groups of all kinds, what it knew and why it did not act: what changes is looked at."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.history.made import classic, member
from tests.support.written_down import as_written

import apportion
from apportion.acting.forecast import Load, forecast, limited, loaded
from apportion.acting.loop import Loop
from apportion.acting.replayed import replay_acting
from apportion.acting.rule import Acting, Outlook, acts_at_most, decide
from apportion.acting.speeds import OffsetHistory, Sample, paces
from apportion.history.fold import fold
from apportion.history.lag_time import Series
from apportion.history.member_speeds import Speed
from apportion.history.steps import steps
from apportion.model.group import Group
from apportion.model.group_json import read_group

WRITTEN = Path(__file__).parent / "whole_answers.json"


def drawn(draw: Random, members: int, partitions: int) -> Group:
    """Members of one topic and of another that half of them want; some static, some larger."""
    fields: dict[str, Any] = {}
    for m in range(members):
        topics = ["t", "u"] if m % 2 == 0 else ["t"]
        fields[f"m{m}"] = {"topics": topics, "capacity": draw.choice((1, 1, 1, 3)), "owned": {}, "generation": 3}
        if m % 3 == 1:
            fields[f"m{m}"]["instance_id"] = f"i{m}"
    for p in range(partitions):
        fields[f"m{draw.randrange(members)}"]["owned"].setdefault("t", []).append(p)
    fields["m0"]["owned"]["u"] = [0, 1]
    return read_group({"group": "g", "topics": {"t": partitions, "u": 2, "nobodys": 1}, "members": fields})


def plain(outlook: Outlook | None) -> list[Any] | None:
    """An outlook as JSON."""
    if outlook is None:
        return None
    numbers = (outlook.before, outlook.after, outlook.least, outlook.saves)
    return [*(round(one, 6) for one in numbers), outlook.member, outlook.moves, outlook.in_seconds]


@pytest.mark.parametrize("seed", range(6))
def test_each_look_decides_as_was_written_down(seed: int) -> None:
    draw, answers = Random(seed), list[Any]()
    group = drawn(draw, draw.randint(2, 5), draw.randint(4, 9))
    acting = Acting(gain=0.15, hold_s=20, rest_s=60, moves=draw.choice((None, 1, 2, 0.4)))
    name = ("lag-aware", "cooperative-lag-aware", "failover")[seed % 3]
    loop = Loop(acting, apportion.find(name), learned=seed % 2 == 0)
    rate = np.array([draw.choice((0, 5, 40, 90)) for _ in range(group.P)])
    speed = np.array([draw.choice((5, 20, 60, 90)) for _ in range(group.P)])
    committed, end = np.zeros(group.P), np.full(group.P, 300.0)
    owner = group.owner
    for at in range(0, 260, 6):
        if at == 12:
            loop.generation(12.0, group, owner)
        if at == 150:
            group = group.holding(owner)
            loop.generation(149.0, group, owner)
        end = end + rate * 6
        committed = np.minimum(committed + speed * 6, end)
        sent = np.where(np.arange(group.P) == (at // 6) % 11, -1, committed) if at > 200 else committed
        known = np.asarray(sent >= 0)
        sample = Sample(float(at - 5 if at == 18 else at), end.astype(np.int64), sent.astype(np.int64))
        planned = loop.look(sample, (end - committed).astype(np.int64), known)
        load = planned.load
        answers.append([
            at, planned.decision.act, planned.decision.why, planned.decision.since_s, plain(planned.outlook),
            None if planned.owner is None else planned.owner.tolist(),
            load and [*(one.round(3).tolist() for one in (load.work, load.pace)), load.capacity.tolist()],
        ])  # fmt: skip
        if planned.owner is not None:
            owner = planned.owner
            loop.generation(float(at), group, owner)
            assert np.array_equal(loop.holding(group).owner, owner)
    as_written(WRITTEN, f"looks {seed}", answers)


def test_forecasts_are_those_written_down() -> None:
    draw, answers = Random(9), list[Any]()
    for n in range(30):
        group = drawn(draw, draw.randint(1, 5), draw.randint(1, 9))
        work = np.array([float(draw.choice((0, 1, 7, 50, 400))) for _ in range(group.P)])
        capacity = np.array([draw.randint(1, 4) for _ in range(group.M)])
        load = Load(work, capacity * 2.5, capacity, in_seconds=n % 2 == 0)
        owner = np.where(group.wanted, group.owner, -1)
        if n % 4 == 0:
            owner = np.where(np.arange(group.P) % 5 == 2, -1, owner)
        acting = Acting(gain=draw.choice((0.05, 0.3)), moves=draw.choice((None, 1, 3, 0.2, 0.9)))
        outlook, target = forecast(group, owner, apportion.find("lag-aware"), load, acting)
        assert (target[owner == -1] == -1).all(), "what nobody owns is left alone"
        asked = loaded(group, load)
        answers.append([plain(outlook), target.tolist(), asked.capacity.tolist(), asked.lag.tolist(), load.least()])
        assert asked.weight is not None
        assert asked.weight.tolist() == asked.lag.tolist()
    as_written(WRITTEN, "forecasts", answers)
    nothing = Load(np.empty(0), np.ones(2), np.ones(2, dtype=np.int64), in_seconds=True)
    assert nothing.least() == 0.0
    huge = loaded(read_group({"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}),
                  Load(np.array([2.0**60, 0.5]), np.ones(1), np.ones(1, dtype=np.int64), in_seconds=True))  # fmt: skip
    assert huge.lag.tolist() == [2**53, 0]


def test_as_few_moves_as_may_be_are_those_that_help_most() -> None:
    load = Load(np.array([90.0, 60, 30, 20, 10, 5]), np.array([1.0, 2, 1]), np.array([1, 2, 1]), in_seconds=True)
    owner, target = np.array([0, 0, 0, 0, 1, 2]), np.array([1, 1, 2, 2, 1, 2])
    as_written(WRITTEN, "limited", [
        [moves, limited(owner, target, load, moves).tolist()]
        for moves in (1, 2, 3, 4, 9, 0.05, 0.1, 0.3, 0.5, 0.7, 0.99)
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_speeds_are_learned_as_was_written_down(seed: int) -> None:
    draw, answers = Random(seed), list[Any]()
    history = OffsetHistory(4.0)
    owner = np.array([0, 0, 1, 2, -1])
    history.given(owner, ("a", "b", "c"))
    end, read = np.full(5, 500), np.zeros(5, dtype=np.int64)
    at = 0.0
    for n in range(90):
        at += draw.choice((1.0, 2.0, 4.0))
        end = end + np.array([9, 4, 20, 0, 3])
        read = np.minimum(read + np.array([draw.randint(2, 8), 3, draw.randint(15, 25), 30, 0]), end)
        gone = draw.randrange(12)
        sent = np.where(np.arange(5) == gone, -1, read)
        history.add(Sample(at, np.where(np.arange(5) == gone - 6, -1, end), sent))
        if n == 40:
            history.given(np.array([0, 1, 1, 1, 0]), ("a", "d"))
        if n == 70:
            history.restart()
        if n % 6 == 5:
            incoming = history.incoming(8.0)
            answers.append([
                len(history), [None if one != one else round(one, 4) for one in incoming.tolist()],
                [[repr(history.speed(who)), round(history.at_least(who), 4)] for who in ("a", "b", "c", "d")],
            ])  # fmt: skip
    as_written(WRITTEN, f"speeds {seed}", answers)


def test_paces_are_those_written_down() -> None:
    draw, answers = Random(3), list[Any]()
    nothing = OffsetHistory(1.0).speed("x")
    for _ in range(40):
        count = draw.randint(1, 5)
        capacity = np.array([draw.choice((1, 1, 2, 5)) for _ in range(count)])
        speeds: list[Speed | None] = []
        for _ in range(count):
            one = OffsetHistory(1.0)
            one._busy["x"] = deque([float(draw.choice((0, 3, 40, 41)))] * 9)
            speeds.append(draw.choice((None, nothing, one.speed("x"), one.speed("x"))))
        at_least = [float(draw.choice((0, 2, 90))) for _ in range(count)]
        pace, whole, in_seconds = paces(capacity, speeds, at_least)
        answers.append([pace.round(5).tolist(), whole.tolist(), in_seconds])
    as_written(WRITTEN, "paces", answers)


@pytest.mark.parametrize(
    ("hot", "commits"), [((0, 1), True), ((0, 1, 2), True), ((3,), True), ((0, 2), True), ((0,), False)]
)
def test_a_replay_tells_what_was_written_down(hot: tuple[int, ...], commits: bool) -> None:
    generations = [
        classic(1, 1, member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]}), at=1000),
        classic(2, 2, member("a", {"t": [0, 1]}), member("b", {"t": [2]}), member("c", {"t": [3]}), at=201_000),
    ]
    walk = steps("g", fold(generations).generations)
    series = {}
    for p in range(4):
        rate, speed = (100, 50) if p in hot else (10, 12)
        moments = range(0, 500_000, 10_000)
        ends = [(at, at // 1000 * rate) for at in moments if p or at < 400_000]
        read = [(at + 10 * p, min(at // 1000 * speed, at // 1000 * rate)) for at in moments]
        series["t", p] = Series(ends, read if commits else [])
    acting = Acting(gain=0.2, hold_s=20, rest_s=100, moves=None if len(hot) < 3 else 1)
    acted = replay_acting(walk, series, apportion.find("cooperative-lag-aware"), acting)
    as_written(WRITTEN, f"replayed {hot} {commits}", acted)


def test_a_replay_of_a_group_of_which_little_is_known_tells_what_was_written_down() -> None:
    """Two generations at one moment, a partition without samples, members that never commit, and a hand-over."""
    generations = [
        classic(1, 1, member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]}), at=5000),
        classic(2, 2, member("a", {"t": [0]}), member("b", {"t": [2, 3]}), at=150_000),
        classic(3, 3, member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]}), at=200_000),
    ]
    walk = steps("g", fold(generations).generations)
    answers = []
    for n, reset in enumerate(("latest", "earliest", "earliest")):
        reset_too = [replace(one, group=replace(one.group, auto_offset_reset=reset)) for one in walk]
        series = {}
        for p in range(4 if n else 3):
            ends = [(at, at // 100 * (p < 2) + 7) for at in range(1000, 400_000, 5_000)]
            commits = [(at, at // 200) for at, _ in ends] if n == 2 else []
            series["t", p] = Series(ends, commits)
        for acting in (Acting(gain=0.1, hold_s=30, rest_s=31), Acting(gain=0.45, hold_s=0, rest_s=100, moves=0.6)):
            answers.append(replay_acting(reset_too, series, apportion.find("cooperative-lag-aware"), acting))
    as_written(WRITTEN, "replayed of little", answers)
    assert replay_acting([], series, apportion.find("range"), Acting()) == {
        "rule": {"gain": 0.2, "hold_s": 30.0, "rest_s": 300.0, "moves": None}, "looks": 0, "acts": [], "left": {}
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_looks_at_restless_groups_decide_as_was_written_down(seed: int) -> None:
    """Short rests, ends that are not known, hand-overs, other partitions, offsets from before the last rebalance."""
    draw, answers = Random(100 + seed), list[Any]()
    members, partitions = draw.randint(2, 4), draw.randint(4, 8)
    group = drawn(draw, members, partitions)
    acting = Acting(gain=(0.05, 0.2)[seed % 2], hold_s=(0, 6, 9)[seed % 3], rest_s=(10, 25)[seed % 2])
    loop = Loop(acting, apportion.find(("cooperative-lag-aware", "lag-aware")[seed % 2]), learned=seed % 4 < 2)
    owner, at = group.owner, 0.0
    loop.generation(0.0, group, owner)
    rate = np.array([draw.choice((0, 3, 40)) for _ in range(group.P)])
    speed = np.array([draw.choice((1, 20, 60)) for _ in range(group.P)])
    committed, end = np.zeros(group.P), np.full(group.P, 200.0)
    for n in range(60):
        passed = draw.choice((1.0, 2.0, 5.0))
        at += passed
        end = end + rate * passed
        committed = np.minimum(committed + speed * passed, end)
        if n % 20 == 19:
            rate = rate[::-1].copy()
        if n in (25, 45):
            handed = np.where(np.arange(group.P) == n % group.P, -1, owner) if n == 25 else owner
            loop.generation(at + 0.5, group.holding(handed), handed)
        if n == 32:
            group = drawn(draw, members, partitions + 1)
            owner, rate, speed = group.owner, np.append(rate, 40), np.append(speed, 1)
            committed, end = np.append(committed, 0.0), np.append(end, 10.0)
            loop.generation(at, group, owner)
        gone = np.arange(group.P) == (n - 50 if n > 50 else -1)
        sample = Sample(at, np.where(gone, -1, end).astype(np.int64), committed.astype(np.int64))
        planned = loop.look(sample, (end - committed).astype(np.int64), ~gone if n % 2 else np.ones(group.P, np.bool_))
        answers.append([
            round(at, 1), planned.decision.act, planned.decision.why, planned.decision.since_s, plain(planned.outlook),
            planned.load and [*(one.round(3).tolist() for one in (planned.load.work, planned.load.pace))],
            None if planned.owner is None else planned.owner.tolist(),
        ])  # fmt: skip
        if planned.owner is not None:
            owner = planned.owner
            loop.generation(at, group, owner)
    as_written(WRITTEN, f"restless {seed}", answers)


NEEDS = "a needs 60 s to catch up, after 2 moves the heaviest would need"


@pytest.mark.parametrize(
    ("before", "after", "since", "generation", "act", "why"),
    [
        (60.0, 30.0, 80.0, 0.0, True, f"{NEEDS} 30 s: 50% less"),
        (60.0, 30.0, 81.0, 0.0, False, f"{NEEDS} 30 s: 50% less, but only for 19 s of 20 s"),
        (60.0, 30.0, None, 0.0, False, f"{NEEDS} 30 s: 50% less, but only for 0 s of 20 s"),
        (60.0, 48.0, 80.0, 40.0, True, f"{NEEDS} 48 s: 20% less"),
        (60.0, 48.0, 80.0, 40.5, False,
         f"{NEEDS} 48 s: 20% less, but the last rebalance was 60 s ago, and the group rests for 60 s"),
        (60.0, 48.1, 80.0, 0.0, False, "a new plan saves 19% of 60 s, and 20% are needed"),
        (60.0, 48.5, 80.0, 0.0, False, "a new plan saves 19% of 60 s, and 20% are needed"),
        (0.0, 0.0, 80.0, 0.0, False, "nobody has anything to catch up with"),
        (2.5, 1.25, 80.0, 0.0, True, f"{NEEDS[:8]}2.5 s{NEEDS[12:]} 1.2 s: 50% less"),
    ],
)  # fmt: skip
def test_a_decision_says_its_reason(
    before: float, after: float, since: float | None, generation: float, act: bool, why: str
) -> None:
    decision = decide(Acting(hold_s=20, rest_s=60), 100.0, generation, since, Outlook(before, after, 1.0, "a", 2))
    assert (decision.act, decision.why) == (act, why)


def test_acts_that_may_follow_are_bounded() -> None:
    cases = [
        (100.0, 50.0, 0.2, 3),
        (100.0, 100.0, 0.2, 0),
        (0.0, 1.0, 0.2, 0),
        (5.0, 0.0, 0.2, 0),
        (100.0, 80.0, 0.2, 1),
    ]
    assert [acts_at_most(*case[:3]) for case in cases] == [case[3] for case in cases]
