"""What static ids and batching make of recorded joins and leaves under the broker's assignors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.history.made import classic, gone, member

from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.history.records import Generation, GenerationMember, GroupRecord
from apportion.history.replay import replay_steps, total
from apportion.history.steps import Step, steps
from apportion.history.switch_history import as_dynamic, as_static, batched, sentences
from apportion.history.switch_history import moves as moved
from apportion.history.switch_measures import GroupFacts, busiest
from apportion.history.switching import switch
from apportion.model.group_json import read_group
from apportion.model.protocols import CONSUMER

SIZE = 12
TOPICS = {"clicks": [{"partition": p} for p in range(SIZE)]}


def generation(number: int, at_s: float, *members: tuple[str, str], instances: bool = False) -> Generation:
    """An epoch of members (client id, member id) that share one topic as evenly as can be, in their order."""
    seats = tuple(
        GenerationMember(
            member, ("clicks",), {"clicks": tuple(range(i, SIZE, len(members)))}, client if instances else None, client
        )
        for i, (client, member) in enumerate(members)
    )
    return Generation(number, int(at_s * 1000), CONSUMER, number, seats, fresh=number == 1)


def rolling(pause_s: float, instances: bool = False) -> list[Generation]:
    """Three pods restart one after the other; each is away for a pause, and comes back under another member id."""
    ids = {pod: f"{pod}-1" for pod in ("a", "b", "c")}
    walk = [generation(1, 0, *ids.items(), instances=instances)]
    for pod in ("a", "b", "c"):
        at = walk[-1].at / 1000 + 600
        left = [pair for pair in ids.items() if pair[0] != pod]
        walk.append(generation(len(walk) + 1, at, *left, instances=instances))
        ids[pod] = f"{pod}-2"
        walk.append(generation(len(walk) + 1, at + pause_s, *ids.items(), instances=instances))
    return walk


def walked(generations: list[Generation]) -> list[Step]:
    return steps("g", generations, TOPICS)


def moves(walk: list[Step]) -> int:
    return total(replay_steps(walk, "broker-uniform"))["moves"]


def test_with_static_ids_a_rolling_restart_that_is_quick_enough_moves_nothing() -> None:
    walk = walked(rolling(30))
    assert moves(walk) > 0
    static = as_static(walk)
    assert static is not None
    assert (len(static), moves(static)) == (4, 0)
    assert [one.follows for one in static] == [False, True, True, True]


def test_what_a_walk_with_static_ids_comes_to_does_not_hinge_on_a_walk_without_them_before() -> None:
    """Pods that restart between two generations are others by member id, and the same ones by client id."""
    seats = [("a", "b", "c"), ("a", "b", "c", "d"), ("a", "b", "d"), ("a", "b", "c", "d")]
    ids = dict.fromkeys("abcd", 1)
    history = []
    for number, pods in enumerate(seats, 1):
        ids = {pod: n + (number > 1 and pod in "ab") for pod, n in ids.items()}
        history.append(generation(number, number * 600, *((pod, f"{'zyx'[ids[pod] % 3]}-{pod}") for pod in pods)))
    alone, after = walked(history), walked(history)
    assert moves(after) >= 0
    assert moves(as_static(after) or []) == moves(as_static(alone) or []) > 0


def past_of(*events: GroupRecord) -> GroupHistory:
    return GroupHistory("g", events, {}, (), TopicMetadata())


def test_members_that_a_deleted_group_had_gave_up_nothing_in_the_one_that_came_after_it() -> None:
    """Generation numbers begin anew: those of an eager life are those of a cooperative one."""
    two = [member("a", {"t": (0, 1)}), member("b", {"t": (2, 3)})]
    eager = [classic(n, n, *two) for n in (1, 2)]
    again, cooperative = (
        [classic(n, n - 3, *two, protocol=protocol) for n in (4, 5)] for protocol in ("range", "cooperative-sticky")
    )
    assert (moved(past_of(*eager)) or {})["stopped"] == 4
    assert (moved(past_of(*eager, gone(3), *cooperative)) or {})["stopped"] == 4
    assert (moved(past_of(*eager, gone(3), *again)) or {})["stopped"] == 8


def test_at_a_static_members_return_nobody_gives_anything_up() -> None:
    had = [member("a-1", {"t": (0, 1)}, instance="a"), member("b-1", {"t": (2, 3)}, instance="b")]
    back = [member("a-2", {"t": (0, 1)}, instance="a"), had[1]]
    records = [classic(1, 1, *had), classic(2, 2, *had), classic(3, 2, *back)]
    assert (moved(past_of(*records[:2])) or {})["stopped"] == 4
    assert (moved(past_of(*records)) or {})["stopped"] == 4


def test_one_that_comes_back_after_its_session_was_gone() -> None:
    walk = walked(rolling(60))
    static = as_static(walk)
    assert static is not None
    assert len(static) == len(walk)
    # It comes back as who it was, and nobody's partitions wait for it: as many moves as without static ids.
    assert moves(static) == moves(walk)
    # A figure to a function: nobody waits.
    assert len(as_static(walk, session_ms=61_000) or ()) == 4


def test_client_ids_that_several_members_have_tell_nobody_apart() -> None:
    assert as_static(walked([generation(1, 0, ("pod", "m1"), ("pod", "m2"))])) is None
    assert as_static(walked(rolling(30, instances=True))) is None, "all have static ids already"


def test_without_its_static_ids_a_group_takes_each_return_for_a_leave_and_a_join() -> None:
    ids = {"a": "a-1", "b": "b-1", "c": "c-1"}
    back = [generation(1, 0, *ids.items(), instances=True)]
    for number, pod in enumerate(ids, 2):
        back.append(generation(number, number * 600, *{**ids, pod: f"{pod}-2"}.items(), instances=True))
        ids[pod] = f"{pod}-2"
    assert moves(walked(back)) == 0
    dynamic = as_dynamic("g", back, TOPICS, {})
    assert dynamic is not None
    assert [one.group.M for one in dynamic] == [3, 2, 3, 2, 3, 2, 3]
    assert moves(dynamic) == moves(walked(rolling(30))) > 0
    assert as_dynamic("g", rolling(30), TOPICS, {}) is None, "it has none"


@pytest.mark.parametrize(
    ("at_s", "kept"),
    [
        ((0, 1, 2, 3), [1, 2, 3, 4]),
        ((0, 0.2, 0.4, 0.9), [1, 4]),  # the first at once, the others together when its second is over
        ((0, 0.2, 1.1, 5), [1, 2, 3, 4]),
        ((0, 0.2, 0.9, 1.5), [1, 3, 4]),
        ((0, 5, 5.1, 5.2), [1, 2, 4]),
    ],
)
def test_an_assignment_is_made_at_most_once_a_second_and_takes_in_all_that_came_by_then(
    at_s: tuple[float, ...], kept: list[int]
) -> None:
    members = [(name, f"{name}-1") for name in "abcde"]
    walk = walked([generation(n + 1, at, *members[: n + 1]) for n, at in enumerate(at_s)])
    assert [one.generation.number for one in batched(walk)] == kept


def test_four_that_join_at_once_cost_one_change() -> None:
    members = [(name, f"{name}-1") for name in "abcde"]
    at_once = walked([generation(n + 1, n / 10, *members[: n + 1]) for n in range(5)])
    assert moves(batched(at_once)) == 9  # from one member's 12 to 3, 3, 2, 2, 2
    assert moves(at_once) > 9


def test_a_break_in_the_history_is_not_gathered_with_what_was_before() -> None:
    members = [(name, f"{name}-1") for name in "abc"]
    walk = walked([generation(1, 0, *members), generation(2, 0.1, *members[:1]), generation(3, 0.2, *members[:2])])
    walk[2] = Step(walk[2].generation, walk[2].group, walk[2].identities, follows=False)
    assert [(one.generation.number, one.follows) for one in batched(walk)] == [(1, False), (2, True), (3, False)]


def test_the_sentences_name_what_differs_and_what_does_not() -> None:
    plain = {"broker-uniform": 12, "broker-uniform-static": 0, "broker-uniform-batched": 12}
    assert list(sentences(plain)) == [
        (
            "Of these 12 under broker-uniform it would be 0 with static ids, which keep a member's place while "
            "it restarts."
        ),
        "Batching would not have changed that.",
    ]
    assert list(sentences({"broker-uniform": 0, "broker-uniform-batched": 0})) == []


def busy(**weights: float) -> Any:
    """Two members with half of two topics each; a topic's partitions bring in its weight each."""
    topics = {name: [{"partition": p, "weight": weight} for p in range(2)] for name, weight in weights.items()}
    members = {m: {"topics": [*topics], "owned": {t: [i] for t in topics}} for i, m in enumerate(("m1", "m2"))}
    return read_group({"group": "g", "topics": topics, "members": members})


def test_the_work_of_a_busy_topic_falls_on_one_member_of_a_group_that_starts_anew() -> None:
    """Two topics of two partitions, one ten times as busy: fresh, uniform gives each member a whole topic."""
    found = switch(busy(hot=10, cold=1), GroupFacts("classic", "cooperative-sticky", ()))
    assert found.concentration["fresh"] == 1.0
    assert found.busiest == {"now": 0.5, "online": 0.5, "fresh": 0.9091, "even": 0.5}
    assert any("By rates the busiest member has 50% of the group's work now; 50% after" in s for s in found.advice)
    assert found.to_dict()["work"]["fresh"] == 0.9091


def test_without_rates_nothing_is_said_of_work_and_one_huge_partition_bounds_it() -> None:
    group = read_group({"topics": {"t": 2}, "members": {"m": {"topics": ["t"]}}})
    assert busiest(group, {"now": np.array([0, 0])}) == {}
    assert busiest(busy(hot=0, cold=0), {"now": np.array([0, 1, 0, 1])}) == {}
    raw = {"t": [{"partition": 0, "weight": 9}, {"partition": 1, "weight": 1}]}
    heavy = read_group({"topics": raw, "members": {"m": {"topics": ["t"]}, "n": {"topics": ["t"]}}})
    assert busiest(heavy, {"now": np.array([0, 1])})["even"] == 0.9
