"""Settings are read as their types say, and what strategies remember goes out and comes back whole."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

import apportion
from apportion import assignors
from apportion.assignors.failover import Priority
from apportion.assignors.sticky_stream_join import StreamJoin
from apportion.errors import BadInput
from apportion.strategy.codec import Holding
from apportion.wire.subscription import Subscription


@pytest.mark.parametrize(
    ("name", "settings", "where", "needed"),
    [
        ("lag-aware", {"scope": "world"}, "scope", "topic, group"),
        ("lag-aware", {"max_skew": "x"}, "max_skew", ""),
        ("failover", {"preempt": "perhaps"}, "preempt", ""),
        ("streams", {"process": "planet"}, "process", ""),
        ("streams", {"max_warmup_replicas": 0}, "streams", "values in bounds"),
        ("streams", {"stateless": [5]}, "stateless", "a value of type str"),
        ("lag-aware", {"tolerance": -1.0}, "setting tolerance of lag-aware", "0.1"),
    ],
)
def test_a_setting_that_cannot_be_says_which_and_what_would_be_right(
    name: str, settings: dict[str, Any], where: str, needed: str
) -> None:
    with pytest.raises(BadInput) as refused:
        apportion.find(name, settings)
    assert where in refused.value.where
    assert needed in refused.value.needed
    told = refused.value.found.strip("'")
    assert told == str(next(iter(settings.values()))).strip("[]") or (
        name == "streams" and needed == "values in bounds"
    )
    assert "None" not in f"{refused.value.where} {refused.value.needed}"


@pytest.mark.parametrize("tolerance", ["much", True, float("inf"), float("nan"), -0.1, None])
def test_a_tolerance_that_is_no_part_of_the_lag_is_refused_where_the_strategy_is_made(tolerance: Any) -> None:
    with pytest.raises(BadInput, match="setting tolerance of lag-aware"):
        apportion.LagAware(tolerance=tolerance)


@pytest.mark.parametrize("max_skew", ["1", True, 1.0, -1])
def test_a_skew_that_is_no_number_of_partitions_is_refused_where_the_strategy_is_made(max_skew: Any) -> None:
    with pytest.raises(BadInput, match="setting max_skew of lag-aware"):
        apportion.LagAware(max_skew=max_skew)


def test_a_member_of_failover_brings_its_priority_and_what_it_held() -> None:
    codec = Priority()
    data = codec.user_data(Holding((("t", (1, 2)),), 4, facts={"priority": 7}))
    claim = codec.read(Subscription(("t",), data))
    assert (claim.owned, claim.generation, claim.facts["priority"], claim.lost) == ({"t": [1, 2]}, 4, 7, None)


def test_the_leader_of_a_stream_join_tells_the_epoch_that_members_bring_along() -> None:
    members = {m: {"topics": ["t"]} for m in "ab"}
    codec = StreamJoin()
    told = codec.assignment_data(apportion.plan({"topics": {"t": 4}, "members": members}, "sticky-stream-join"))
    assert told is not None
    assert codec.epoch(told) is not None
    assert codec.assignment_data(apportion.plan({"topics": {"t": 4}, "members": members}, "range")) is None


def joined(n: int) -> bytes | None:
    """What a member sends that had so many numbers."""
    return StreamJoin().user_data(Holding(owned=(("t", tuple(range(n))),), epoch=5))


def test_a_few_bytes_are_no_claims_by_the_million() -> None:
    """Every number is a claim in every topic: of fifty kilobytes became 25 million claims, and 3 GB of memory."""
    topics = tuple(f"t{n}" for n in range(2_000))
    claims = {n: StreamJoin().read(Subscription(topics, joined(n))) for n in (500, 600)}
    assert (len(claims[500].owned), claims[500].generation, claims[500].lost) == (2_000, 5, None)
    assert (claims[600].owned, claims[600].generation) == ({}, None)
    assert claims[600].lost == "600 numbers in each of 2,000 topics"
    sent = {n: joined(n) for n in (1024, 1025)}
    lost = [StreamJoin().read(Subscription(topics[:1024], sent[n])).lost for n in sent]
    assert lost == [None, "1,025 numbers in each of 1,024 topics"]


def test_members_of_one_host_share_their_state_so_that_its_standby_is_elsewhere() -> None:
    members = {f"m{m}": {"topics": ["words"], "host": f"/10.0.0.{m % 2}"} for m in range(4)}
    settings = {"process": "host", "num_standby_replicas": 1}
    tasks = apportion.plan({"topics": {"words": 4}, "members": members}, "streams", settings).to_dict()["tasks"]
    assert {host: sorted(threads) for host, threads in tasks["active"].items()} == {
        "/10.0.0.0": ["m0", "m2"], "/10.0.0.1": ["m1", "m3"],
    }  # fmt: skip
    for host, threads in tasks["standby"].items():
        copies = {task for mine in threads.values() for task in mine}
        runs = {task for mine in tasks["active"][host].values() for task in mine}
        assert copies | runs == {"0_0", "0_1", "0_2", "0_3"}
        assert not copies & runs


def test_tasks_are_run_where_their_partitions_have_a_replica_if_racks_are_asked_for() -> None:
    topic = [{"partition": p, "racks": ["north" if p % 2 else "south"]} for p in range(4)]
    members = {rack: {"topics": ["words"], "rack": rack} for rack in ("north", "south")}
    settings = {"rack_aware_assignment_strategy": "min_traffic"}
    plan = apportion.plan({"topics": {"words": topic}, "members": members}, "streams", settings)
    assert plan.assignment == {"north": {"words": [1, 3]}, "south": {"words": [0, 2]}}


def test_a_plan_tells_the_settings_that_were_changed_as_json_has_them() -> None:
    members = {"a": {"topics": ["t", "u"]}}
    plan = apportion.plan({"topics": {"t": 1, "u": 1}, "members": members}, "streams", {"stateless": "t,u"})
    assert plan.to_dict()["settings"] == {"stateless": ["t", "u"]}
    assert set(plan.to_dict()["tasks"]) == {"active", "standby", "warmup", "next_probing_rebalance_ms"}
    assert [apportion.find("failover", {"preempt": text}) for text in ("true", "false", True)] == [
        apportion.find("failover", {"preempt": wish}) for wish in (True, False, True)
    ]


def test_weights_that_nobody_told_are_not_weighed() -> None:
    members = {m: {"topics": ["t"]} for m in "ab"}
    plan = apportion.plan({"topics": {"t": 4}, "members": members}, "lag-aware", {"by": "weight"})
    assert sorted(map(len, (plan.assignment["a"]["t"], plan.assignment["b"]["t"]))) == [2, 2]
    assert not any(name.startswith("weight") for name in plan.measures)


def test_a_group_of_capacities_without_partitions_has_a_plan() -> None:
    members = {"a": {"topics": ["t"], "capacity": 2}, "b": {"topics": ["t"]}}
    for topics in ({"t": 0}, {}):
        assert apportion.plan({"topics": topics, "members": members}, "lag-aware").measures["load_max"] == 0


@pytest.mark.parametrize(
    "name", ["range", "broker-range", "broker-uniform", "sticky", "sticky-stream-join", "failover", "lag-aware"]
)
def test_a_plan_gives_the_reasons_of_its_promises_and_promises_nothing_but_goals(name: str) -> None:
    members = {m: {"topics": ["t"]} for m in "ab"}
    plan = apportion.plan({"topics": {"t": 4}, "members": members}, name)
    assert plan.proof
    assert set(plan.proof) <= set(assignors.known()[name].goals)
    assert plan.explain() != [f"{goal}: {word}." for goal, word in plan.proof.items()], "reasons, not words alone"


def test_the_brokers_strategy_says_in_words_why_its_plan_is_known_in_shape_alone() -> None:
    topics = {"t": 2, "u": 3, "v": 1}
    members = {"a": {"topics": ["t", "u", "v"]}, "b": {"topics": ["u", "v"]}}

    def explained(**more: Any) -> str:
        return " ".join(apportion.plan({"topics": topics, "members": members, **more}, "broker-uniform").explain())

    assert "Subscriptions differ: the broker evens out one topic after the other" in explained()
    assert "the topic id of t and 2 more is not known, so loads and moves are the broker's" in explained()
    ids = dict(zip("tu", ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"), strict=True))
    assert "the topic id of v is not known, so" in explained(topic_ids=ids)


def test_the_first_partition_of_two_topics_moves_whole_like_any() -> None:
    """Task 0 is numbered 0: both of its partitions wait, though only one is held by another."""
    held = {"topics": ["x", "y"], "owned": {"x": [0, 1], "y": [1]}, "generation": 1}
    members = {"b": held, "a": {"topics": ["x", "y"]}}
    settings = {"subtopologies": ["x+y"], "stateless": ["x"]}
    plan = apportion.plan({"topics": {"x": 2, "y": 2}, "members": members}, "streams", settings).to_dict()
    moved = {topic: ids for topic, ids in plan["target"]["a"].items() if ids}
    assert moved == plan["withheld"]
    assert {topic: len(ids) for topic, ids in moved.items()} == {"x": 1, "y": 1}


def test_a_process_whose_rack_is_unknown_reads_nothing_from_afar() -> None:
    """All replicas are in rack a. One of three tasks is too many for equal shares: who has no rack takes it."""
    topic = [{"partition": p, "racks": ["a"]} for p in range(3)]
    settings = {"rack_aware_assignment_strategy": "min_traffic", "stateless": ["t"]}
    for far, nowhere in (("b", "n"), ("n", "b")):
        members = {far: {"topics": ["t"], "rack": "c"}, nowhere: {"topics": ["t"]}}
        plan = apportion.plan({"topics": {"t": topic}, "members": members}, "streams", settings)
        assert len(plan.assignment[nowhere]["t"]) == 2


def test_a_join_of_nothing_keeps_all_its_promises() -> None:
    plan = apportion.plan({"topics": {"t": 0}, "members": {"a": {"topics": ["t"]}}}, "sticky-stream-join")
    assert plan.proof == dict.fromkeys(("co-location", "balance", "moves"), "optimal")


def test_partitions_that_share_a_hash_bin_make_a_prediction_likely() -> None:
    """0, 16 and 31 fall into bins of 16 with others; which comes first there the group does not tell."""
    held = {"a": [0, 1, 3, 15, 20, 22, 24, 25, 27, 29, 30, 31], "b": [4, 8, 9, 11, 12, 16, 18, 26], "c": []}
    members = {name: {"topics": ["t"], "owned": {"t": ids}, "generation": 1} for name, ids in held.items()}
    raw = {"topics": {"t": 33}, "members": members, "topic_ids": {"t": "ALKNitHYaEF5UmyGzVWSTw"}}
    assert apportion.plan(raw, "broker-uniform").to_dict()["prediction"] == "likely"


def test_twelve_topics_make_a_prediction_likely_since_javas_releases_size_their_set_differently() -> None:
    """``new HashSet<>(of 12)`` has 32 bins in Java 17, and 16 since Java 19."""
    r = random.Random(0)
    names = [f"t{n}" for n in range(12)]
    ids = {name: b64(r.getrandbits(120)) for name in names}
    raw = {"topics": dict.fromkeys(names, 1), "members": {m: {"topics": names} for m in "abcde"}, "topic_ids": ids}
    assert apportion.plan(raw, "broker-uniform").to_dict()["prediction"] == "likely"


def b64(number: int) -> str:
    """A topic's id as Kafka writes it."""
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
