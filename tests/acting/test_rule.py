"""The rule alone: when it acts, why it does not, and the two bounds that follow from it."""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

from apportion.acting.forecast import Load, forecast, limited
from apportion.acting.loop import Loop
from apportion.acting.rule import Acting, Outlook, decide, is_resting, saved
from apportion.acting.speeds import OffsetHistory, Sample, paces
from apportion.assignors import find
from apportion.errors import BadInput, UnknownName
from apportion.history.member_speeds import Speed
from apportion.model.build import build
from apportion.model.group import Group

HALF = Outlook(before=100.0, after=50.0, least=40.0, member="a", moves=3)
LITTLE = Outlook(before=100.0, after=90.0, least=40.0, member="a", moves=3)
ACTING = Acting(gain=0.2, hold_s=30, rest_s=300, horizon_s=1)


def group_of(partitions: int, members: int) -> Group:
    everybody = {f"m{n}": {"topics": ["t"]} for n in range(members)}
    return build({"topics": {"t": partitions}, "members": everybody})


def test_it_acts_once_the_plan_has_held_and_the_group_has_rested() -> None:
    first = decide(ACTING, 400.0, 0.0, None, HALF)
    assert (first.act, first.since_s) == (False, 400.0)
    assert "for 0 s of 30 s" in first.why
    assert not decide(ACTING, 429.0, 0.0, first.since_s, HALF).act
    acts = decide(ACTING, 430.0, 0.0, first.since_s, HALF)
    assert acts.act
    assert acts.why == "a needs 100 s to catch up, after 3 moves the heaviest would need 50 s: 50% less"


def test_a_look_that_saves_too_little_begins_the_hold_anew() -> None:
    wave = decide(ACTING, 420.0, 0.0, 400.0, LITTLE)
    assert (wave.act, wave.since_s) == (False, None)
    assert wave.why == "a new plan saves 10% of 100 s, and 20% are needed"
    assert not decide(ACTING, 440.0, 0.0, wave.since_s, HALF).act


def test_the_reason_tells_a_plan_that_saves_too_little_from_what_no_plan_could_save() -> None:
    """Where a plan was made and changes nothing, the bound that it did not reach is not given as what it saves."""
    idle = Outlook(before=100.0, after=100.0, least=60.0, member="a", moves=0)
    assert decide(ACTING, 400.0, 0.0, None, idle).why == "a new plan saves 0% of 100 s, and 20% are needed"
    bound = Outlook(before=100.0, after=100.0, least=90.0, member="a", moves=0)
    assert decide(ACTING, 400.0, 0.0, None, bound).why == "no plan saves more than 10% of 100 s, and 20% are needed"


def test_after_a_rebalance_of_whatever_cause_the_group_rests() -> None:
    held = decide(ACTING, 299.0, 0.0, 100.0, HALF)
    assert not held.act
    assert "the last rebalance was 299 s ago, and the group rests for 300 s" in held.why
    assert decide(ACTING, 300.0, 0.0, 100.0, HALF).act
    assert is_resting(ACTING, 269.0, 0.0)
    assert not is_resting(ACTING, 270.0, 0.0)


def test_the_rule_is_read_from_text() -> None:
    assert Acting.of_text("gain=0.3,hold=10,rest=60,moves=4") == Acting(0.3, 10.0, 60.0, 4)
    assert Acting.of_text("moves=0.1").moves == 0.1
    assert Acting.of_text("") == Acting()
    for text in ("gain", "gain=", "gain=a", "gain=1_0", "gain=0.2,gain=0.3", "hold=inf"):
        with pytest.raises(BadInput, match=r"gain|hold"):
            Acting.of_text(text)
    with pytest.raises(UnknownName, match="holds"):
        Acting.of_text("holds=3")


# -- what a plan would change ------------------------------------------------------------------------------------------


def load_of(work: list[float], pace: list[int]) -> Load:
    paced = np.array(pace, dtype=np.int64)
    return Load(np.array(work, dtype=np.float64), paced.astype(np.float64), paced, True)


def test_a_plan_is_judged_by_the_heaviest_members_time() -> None:
    """Two hot partitions with one member: they part, and the heaviest needs half as long."""
    load = load_of([100, 100, 1, 1], [1, 1])
    outlook, target = forecast(group_of(4, 2), np.array([0, 0, 1, 1]), find("cooperative-lag-aware"), load, ACTING)
    assert (outlook.before, outlook.after, outlook.member, outlook.moves) == (200.0, 101.0, "m0", 2)
    assert load.times(target).max() == 101.0


def test_no_plan_is_made_where_none_can_save_enough() -> None:
    outlook, target = forecast(
        group_of(2, 2), np.array([0, 1]), find("cooperative-lag-aware"), load_of([100, 1], [1, 1]), ACTING
    )
    assert (outlook.moves, outlook.after, outlook.least) == (0, 100.0, 100.0)
    assert target.tolist() == [0, 1]


def test_a_limit_on_moves_takes_those_that_help_most() -> None:
    owner, target = np.zeros(6, dtype=np.int64), np.array([0, 1, 2, 0, 1, 2])
    load = load_of([10, 50, 40, 1, 1, 1], [1, 1, 1])
    one = limited(owner, target, load, 1)
    assert one.tolist() == [0, 1, 0, 0, 0, 0]
    assert limited(owner, target, load, 2).tolist() == [0, 1, 2, 0, 0, 0]
    assert limited(owner, target, load, 99).tolist() == [0, 1, 2, 0, 0, 0], "what helps nobody stays"
    assert limited(owner, target, load, 0.4).tolist() == [0, 0, 2, 0, 1, 0], "41 of 103 messages, not the 50"


@examples(60)
@given(
    work=st.lists(st.integers(0, 1000), min_size=1, max_size=24),
    pace=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=5),
    gain=st.sampled_from([0.05, 0.2, 0.5]),
    moves=st.sampled_from([None, 1, 3, 0.2]),
    name=st.sampled_from(["lag-aware", "cooperative-lag-aware"]),
    horizon=st.sampled_from([1.0, 60.0, 300.0]),
    data=st.data(),
)
def test_while_the_load_stands_still_acts_end_within_the_bound(
    work: list[int], pace: list[int], gain: float, moves: Any, name: str, horizon: float, data: st.DataObject
) -> None:
    """Each act takes the heaviest member down by the gain, and no plan gets below what is least possible."""
    acting = Acting(gain=gain, hold_s=0, rest_s=1, moves=moves, horizon_s=horizon)
    group, load = group_of(len(work), len(pace)), load_of([float(n) for n in work], pace)
    owner = np.array([data.draw(st.integers(0, len(pace) - 1)) for _ in work], dtype=np.int64)
    acts, bound = 0, None
    for look in range(40):
        outlook, target = forecast(group, owner, find(name), load, acting)
        if bound is None:
            may_fall = 0 < outlook.least < outlook.before
            bound = (int(log(outlook.before / outlook.least) / -log(1 - gain) + 1e-9) if may_fall else 0) + 1
        assert outlook.least <= load.times(target).max() + 1e-9
        if not decide(acting, float(look * 2), float(look * 2 - 1), None, outlook).act:
            break
        after = float(load.times(target).max())
        assert saved(outlook.before, after) >= gain or after <= acting.horizon_s < outlook.before
        changes = target != owner
        assert moves is None or moves < 1 or np.count_nonzero(changes) <= moves
        assert moves is None or moves >= 1 or load.work[changes].sum() <= moves * load.work.sum()
        owner, acts = target, acts + 1
    assert acts <= bound


@examples(40)
@given(seed=st.integers(0, 10_000), rest=st.sampled_from([20.0, 60.0, 150.0]))
def test_acts_are_never_nearer_than_the_rest(seed: int, rest: float) -> None:
    """Whatever comes in where, an hour has at most 3600 / rest acts."""
    rng = np.random.default_rng(seed)
    acting, group = Acting(gain=0.05, hold_s=0, rest_s=rest), group_of(8, 3)
    loop, owner = Loop(acting, find("cooperative-lag-aware"), learned=True), np.arange(8) % 3
    loop.generation(0.0, group, owner)
    end, read, acts = np.zeros(8), np.zeros(8), [0.0]
    for at in range(10, 1200, 10):
        end += rng.integers(0, 500, 8) * (rng.random(8) < 0.4)
        read = np.minimum(end, read + rng.integers(0, 300, 8))
        sample = Sample(float(at), end.astype(np.int64), read.astype(np.int64))
        planned = loop.look(sample, sample.end - sample.committed, np.ones(8, dtype=np.bool_))
        if planned.owner is not None:
            acts.append(float(at))
            owner = planned.owner
            loop.generation(float(at), group, owner)
    assert all(b - a >= rest for a, b in pairwise(acts))


# -- speeds ------------------------------------------------------------------------------------------------------------


def fed(history: OffsetHistory, seconds: int, rate: list[float], speed: list[float], owner: list[int]) -> None:
    """Samples each 5 s of partitions that their members read as fast as they can; commits lag by up to 4 s."""
    end, read = np.zeros(len(rate)), np.zeros(len(rate))
    history.given(np.array(owner), [f"m{n}" for n in range(len(speed))])
    for second in range(seconds):
        end += rate
        for m, per_s in enumerate(speed):
            mine = [p for p in range(len(rate)) if owner[p] == m]
            for p in mine:
                read[p] = min(end[p], read[p] + per_s / len(mine))
        if second % 5 == 0:
            history.add(Sample(float(second), end.astype(np.int64), read.astype(np.int64)))


def test_a_speed_is_learned_of_a_member_that_always_had_something_to_read() -> None:
    history = OffsetHistory(15.0, 60.0)
    fed(history, 300, [100.0, 100.0], [40.0, 500.0], [0, 1])
    slow = history.speed("m0")
    assert slow.median == pytest.approx(40, rel=0.05)
    assert slow.intervals >= 5
    assert history.speed("m1").median is None, "it kept up: what it reads is what comes in"
    assert history.at_least("m1") == pytest.approx(100, rel=0.05)


def test_too_little_told_is_no_speed() -> None:
    history = OffsetHistory(15.0, 60.0)
    fed(history, 60, [100.0, 100.0], [40.0, 500.0], [0, 1])
    assert history.speed("m0").median is None
    assert history.speed("nobody").median is None


def test_members_that_are_gone_are_forgotten_and_new_owners_begin_a_new_stretch() -> None:
    history = OffsetHistory(15.0, 60.0)
    fed(history, 300, [100.0, 100.0], [40.0, 500.0], [0, 1])
    history.given(np.array([1, 1]), ["m1", "m2"])
    assert history.speed("m0").median is None
    assert history.at_least("m0") == 0


def speed(median: float | None) -> Speed:
    return Speed(median, median, median, 9)


def test_a_members_own_number_wins_over_what_was_learned() -> None:
    pace, capacity, in_seconds = paces(np.array([1, 1, 4]), [speed(100.0), speed(200.0), speed(999.0)], [0.0] * 3)
    assert in_seconds
    one = np.median([100.0, 200.0, 999.0 / 4])
    assert pace[2] == pytest.approx(4 * one, rel=0.05)
    assert capacity[1] == pytest.approx(2 * capacity[0], rel=0.3)


def test_members_of_which_nothing_is_known_count_as_the_median_or_as_fast_as_any_of_them_kept_up() -> None:
    ones = np.ones(3, dtype=np.int64)
    pace, capacity, _ = paces(ones, [speed(100.0), speed(None), None], [900.0, 30.0, 300.0])
    assert pace.tolist() == pytest.approx([100, 300, 300], rel=0.06)
    assert capacity.tolist() == [7, 20, 20]
    assert paces(ones, [speed(100.0), None, None], [0.0, 30.0, 50.0])[1].tolist() == [1, 1, 1]
    given_alone = np.array([2, 1, 1])
    pace, capacity, in_seconds = paces(given_alone, [speed(None)] * 3, [9.0] * 3)
    assert (capacity.tolist(), in_seconds) == ([2, 1, 1], False)


def test_a_member_that_stands_still_is_not_left_without_a_pace() -> None:
    pace, capacity, _ = paces(np.ones(2, dtype=np.int64), [speed(0.0), speed(100.0)], [0.0, 0.0])
    assert capacity.tolist() == [1, 20]
    assert (pace > 0).all()
    assert paces(np.ones(1, dtype=np.int64), [speed(0.0)], [0.0])[2] is False


# -- the loop ----------------------------------------------------------------------------------------------------------


def samples(loop: Loop, until: int, lag: list[int], known: bool = True, begin: int = 0) -> list[Any]:
    """Looks each 10 s at partitions that stand at that lag, with 10 messages a second coming into each."""
    looks = []
    for at in range(begin, until, 10):
        end = np.array(lag) + at * 10
        committed = end - np.array(lag)
        looks.append(loop.look(Sample(float(at), end, committed), np.array(lag), np.full(len(lag), known)))
    return looks


def loop_of(owner: list[int], members: int = 2) -> Loop:
    loop = Loop(Acting(hold_s=20, rest_s=60), find("cooperative-lag-aware"))
    loop.generation(0.0, group_of(len(owner), members), np.array(owner))
    return loop


def test_the_loop_never_acts_on_what_it_does_not_know() -> None:
    fresh = Loop(Acting(), find("cooperative-lag-aware"))
    assert samples(fresh, 10, [1, 1])[0].decision.why == "this member has planned nothing yet"
    looks = samples(loop_of([0, 0, 1, 1]), 200, [9000, 9000, 0, 0], known=False)
    assert not any(look.decision.act for look in looks)
    assert looks[-1].decision.why == "the lag of 4 partitions is not known"
    [only] = samples(loop_of([0, 0, 1, 1]), 110, [9000, 9000, 0, 0], begin=100)
    assert only.decision.why == "what comes into 4 partitions is not known yet"
    assert samples(loop_of([0, 0, 1, -1]), 200, [9000, 9000, 0, 0])[-1].decision.why == "a hand-over is under way"


def test_offsets_that_were_asked_for_before_the_last_rebalance_tell_nothing() -> None:
    """They are not taken for what the new owners read, and the reason has no negative time."""
    loop = loop_of([0, 0, 1, 1])
    samples(loop, 50, [9000, 9000, 0, 0])
    kept = len(loop.history)
    loop.generation(55.0, group_of(4, 2), np.array([0, 1, 0, 1]))
    [only] = samples(loop, 51, [9000, 9000, 0, 0], begin=50)
    assert only.decision.why == "the newest offsets are older than the last rebalance"
    assert len(loop.history) == kept


def test_the_loop_acts_once_and_rests_after_its_own_rebalance() -> None:
    loop = loop_of([0, 0, 1, 1])
    looks = samples(loop, 200, [9000, 9000, 0, 0])
    first = next(i for i, look in enumerate(looks) if look.decision.act)
    assert first * 10 == 60
    owner = looks[first].owner
    assert sorted(np.bincount(owner, weights=[9000, 9000, 0, 0]).tolist()) == [9000, 9000]
    loop.generation(200.0, group_of(4, 2), owner)
    after = samples(loop, 400, [9000, 9000, 0, 0], begin=200)
    assert not any(look.decision.act for look in after)
    assert after[0].decision.why == "the last rebalance was 0 s ago, and the group rests for 60 s"
    assert "no plan saves more than" in after[-1].decision.why


def test_other_partitions_begin_a_new_history() -> None:
    loop = loop_of([0, 0, 1, 1])
    samples(loop, 100, [9000, 9000, 0, 0])
    loop.generation(100.0, group_of(5, 2), np.array([0, 0, 1, 1, 1]))
    [only] = samples(loop, 180, [9000, 9000, 0, 0, 0], begin=170)
    assert only.decision.why == "what comes into 5 partitions is not known yet"
