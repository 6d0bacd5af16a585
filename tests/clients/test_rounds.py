"""Rounds of groups of every kind: each task runs once, and what a leader says of the cause of a rebalance is so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import pytest
from tests.clients.joining import JoiningMember, assign
from tests.clients.metadata import as_client

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.warm_up import AT_ONCE, FACT, WARM_UP, WarmUp, checksum
from apportion.clients.lag_feed import folder_offsets
from apportion.clients.rebalance import Causes, LeadersView
from apportion.clients.runtime.task_bridge import TaskBridge
from apportion.errors import Unavailable
from apportion.model.group_json import read_group
from apportion.strategy.codec import with_facts
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology
from apportion.wire.assignment import Assignment, read_assignment, write_assignment
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.task_data import TaskAssignment, TaskMemory, read_orders, write_orders
from apportion.wire.user_data import read_sticky

SIZES = {"clicks": 5, "views": 3, "words": 4, "заказы": 2}


class Cluster:
    """Topics of these sizes, each partition in two racks of three."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes

    def partitions(self, topic: str) -> range | None:
        return range(self.sizes[topic]) if topic in self.sizes else None

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {p: ["abc"[p % 3], "abc"[(p + 1) % 3]] for p in range(self.sizes.get(topic, 0))}


def held_once(given: dict[str, bytes]) -> None:
    """Each partition is read by one member, and each task runs on one."""
    answers = [read_assignment(raw) for raw in given.values()]
    owned = [(topic, p) for one in answers for topic, numbers in one.partitions for p in numbers]
    running = [task for one in answers for task in read_orders(one.user_data).active]
    assert len(owned) == len(set(owned))
    assert len(running) == len(set(running))


class Gaps(Cluster):
    """Topics whose metadata are known by and by, with partitions that are missing."""

    def partitions(self, topic: str) -> Any:
        return [p for p in range(self.sizes[topic]) if (topic, p) != ("views", 1)] if topic in self.sizes else None


LARGE = Topology.of(
    Subtopology(("clicks", "views"), "joins"), Subtopology(("words",)), Subtopology(("заказы",), "kept")
)
ALL = [topic for one in LARGE.subtopologies for topic in one.topics]


@pytest.mark.parametrize("seed", range(8))
def test_each_task_of_odd_groups_runs_on_one_member(seed: int) -> None:
    """Frozen members, static ones, old generations, other topologies, lags, tags, racks; topics come and grow."""
    draw = Random(seed)
    settings = TaskSettings(
        num_standby_replicas=seed % 3, acceptable_recovery_lag=(50, 0)[seed % 2], max_warmup_replicas=1 + seed % 2,
        rack_aware_assignment_tags=("zone",) if seed % 4 == 1 else (),
        rack_aware_assignment_strategy="min_traffic" if seed in (2, 5) else "none",
    )  # fmt: skip
    bridges: dict[str, TaskBridge] = {}
    sizes = {"clicks": 3, "words": 2} if seed % 2 else dict(SIZES)
    strange = TaskBridge(Topology.of(*LARGE.subtopologies[::-1]), settings)
    for generation in range(1, 9):
        if draw.random() < 0.6 or len(bridges) < 2:
            bridges[f"m{generation}"] = TaskBridge(LARGE, settings, rack=draw.choice((None, "a", "b")))
        elif draw.random() < 0.5:
            del bridges[draw.choice(list(bridges))]
        if generation == 4:
            sizes |= {"views": 4, "заказы": 2, "clicks": 5}
        said: dict[str, Subscription] = {}
        for n, (who, bridge) in enumerate(bridges.items()):
            orders = bridge.orders
            lag_of = {task: draw.choice((0, 30, 400)) for task in (*orders.standby, *orders.warmup, *orders.active[1:])}
            tags = {"zone": "xy"[n % 2]} if seed % 4 == 1 else {}
            process = "" if seed == 7 else f"p{n // 2}"
            bridge.memory_now = TaskMemory(process, 0, orders.active, orders.standby, lag_of, tags)
            holds = None if draw.random() < 0.8 else bridge.last.owned[:1]
            said[who] = bridge.subscription(reversed(ALL), keeps=draw.random() < 0.9, holds=holds)
            if draw.random() < 0.15:
                said[who] = replace(said[who], generation=draw.choice((None, generation - 2)))
        if generation in (3, 6):
            strange.memory_now = TaskMemory("strange")
            said["another"] = strange.subscription(ALL, keeps=True, holds=(("clicks", (0, 1)), ("words", (1,))))
            said["less"] = Subscription(("clicks", "words"), None, (("clicks", (2,)), ("views", (0,))), generation - 1)
            said["cut"] = Subscription(tuple(ALL), b"\x00\x01", (("clicks", (0,)),), generation - 1)
        joined = JoinedGroup(
            list(said), [f"i-{who}" if who == "m2" else None for who in said],
            [write_subscription(one) for one in said.values()],
        )  # fmt: skip
        leader = draw.choice(list(bridges.values()))
        given = leader.lead(joined, as_client(Gaps(sizes)), "g", generation)
        members = [JoiningMember(who, None, one) for who, one in said.items()]
        again = assign(leader, members, Gaps(sizes), "g", generation)
        assert {who: write_assignment(one) for who, one in again.items()} == given
        for who, bridge in bridges.items():
            if draw.random() < 0.85:
                bridge.on_assignment(read_assignment(given[who]), generation, "g")
        held_once(given)


def test_a_leader_without_a_member_that_may_run_tasks_tells_each_that_it_has_nothing() -> None:
    bridge = TaskBridge(LARGE, TaskSettings(), rack="a")
    assert (bridge.name, bridge.cooperative, bridge.kept_whole, bridge.on_foreign) == (
        "apportion-streams", True, "", "stop"
    )  # fmt: skip
    assert (bridge.options.rack, bridge.rounds, bridge.last.generation) == ("a", 0, None)
    said = [JoiningMember(who, None, Subscription(("clicks",))) for who in "ba"]
    nothing = Assignment((), write_orders(TaskAssignment()))
    assert list(assign(bridge, said, Cluster(SIZES)).items()) == [("a", nothing), ("b", nothing)]
    bridge.on_assignment(Assignment((("clicks", (1,)),), write_orders(TaskAssignment(active=((0, 1),)))), 7)
    assert (bridge.last.owned, bridge.last.generation, bridge.last.keeps, bridge.rounds) == (
        (("clicks", (1,)),), 7, True, 1
    )  # fmt: skip
    assert bridge.subscription(["words", "clicks"], keeps=False).owned == ()
    kept = bridge.subscription(["words", "clicks"], keeps=True)
    assert (kept.topics, kept.owned, kept.generation, kept.rack) == (
        ("clicks", "words"), (("clicks", (1,)),), 7, "a"
    )  # fmt: skip


def seen(raw: dict[str, Any], withheld: bool = False) -> LeadersView:
    """A group as a leader sees it."""
    return LeadersView.of(read_group(raw), withheld)


def test_causes_name_what_differs_from_the_last_time() -> None:
    base: dict[str, Any] = {"topics": {"t": 2, "u": 3}, "members": {m: {"topics": ["t", "u"]} for m in "abc"}}

    def changed(topics: dict[str, int] | None = None, **members: Any) -> dict[str, Any]:
        every = {**base["members"], **members}
        return {"topics": topics or base["topics"], "members": {m: one for m, one in every.items() if one}}

    only = {"topics": ["t"]}
    static, again = {"a": {**only, "instance_id": "i"}, "b": only}, {"x": {**only, "instance_id": "i"}, "b": only}
    cases = [
        (base, base, "rejoin without a change"),
        (base, changed(c=None), "left: c"),
        (base, changed(d={"topics": ["t", "u"]}), "joined: d"),
        (base, changed(a=None, d={"topics": ["t", "u"]}), "joined: d; left: a"),
        (base, changed(a=only), "changed its topics: a"),
        (changed(a=only), base, "changed its topics: a"),
        (changed(a=only), changed(b=only), "changed its topics: a, b"),
        (changed(a=only, c=None), changed(b=only, c=None, d=only), "joined: d; changed its topics: a, b"),
        (base, changed({"t": 2, "u": 5}), "u has 5 partitions, had 3"),
        (
            base,
            changed({"t": 2, "u": 3, "v": 1}, a={"topics": ["v"]}),
            "changed its topics: a; v has 1 partition, had 0",
        ),
        (changed({"t": 2, "u": 3, "v": 1}), base, "v has 0 partitions, had 1"),
        (
            changed({"t": 2, "u": 3, "a": 1}, c=only),
            changed(b=only),
            "changed its topics: b, c; a has 0 partitions, had 1",
        ),
        ({"topics": {"t": 1}, "members": static}, {"topics": {"t": 1}, "members": again}, "rejoin without a change"),
        (base, changed(None, **{f"d{n}": only for n in range(5)}), "joined: d0, d1, d2 and 2 more"),
        (base, {"topics": {f"t{n}": 1 for n in range(5)}, "members": {m: {"topics": ["t0"]} for m in "abc"}}, None),
    ]
    for before, after, words in cases:
        causes = Causes()
        assert causes.why(seen(before)) == "this member leads now"
        why = causes.why(seen(after))
        assert words in (None, why)
    causes = Causes()
    causes.remember(seen(base, withheld=True))
    assert causes.why(seen(base)) == "hand-over of what was withheld"
    causes.remember(seen(base, withheld=True))
    assert causes.why(seen(changed(c=None))) == "left: c"


def test_what_a_member_is_told_to_warm_up_for_makes_it_join_again_once_it_is_ready() -> None:
    worked: list[Any] = []
    warm = WarmUp(worked.append, patience_s=1000)
    told = read_told(("t", (1, 2)))
    both = {("t", 1), ("t", 2)}
    assert (warm.fact(), warm.look()) == (0, (False, set()))
    warm.assigned(Assignment((("t", (0,)),), told))
    for _ in range(400):
        again, coming = warm.look()
        if again:
            break
        sleep(0.005)
    assert (again, coming, worked) == (True, both, [sorted(both)])
    assert warm.fact() == checksum(told)
    assert warm.look() == (False, both), "it has said so"
    warm.assigned(Assignment((("t", (0, 1)),), read_told(("t", (2,)))))
    assert warm.fact() == 0, "it was told of other ones"
    assert warm.look() == (True, both), "2 is warm already, and 1 has come"
    warm.assigned(Assignment((("t", (0, 1)),), None))
    assert (warm.fact(), warm.look()) == (0, (False, set())), "2 goes elsewhere"
    late = WarmUp(worked.append, patience_s=0)
    late.assigned(Assignment((), told))
    assert late.look() == (True, set())
    assert late.fact() == AT_ONCE
    assert with_facts(Bridge("range", Options()).memory, None, {FACT: -1}, {FACT: WARM_UP}) is None
    broken = WarmUp(lambda places: 1 / 0, patience_s=1000)
    broken.assigned(Assignment((), told))
    for _ in range(400):
        if broken.look()[0]:
            break
        sleep(0.005)
    assert broken.fact() == checksum(told), "they count as ready"
    assert broken.look() == (False, both)


def read_told(*held: Any) -> bytes:
    """What a leader tells of partitions that are coming."""
    from apportion.wire.user_data import write_sticky

    raw = write_sticky(held, None)
    assert read_sticky(raw).owned
    return raw


def test_a_folder_of_lags_is_read_by_group_and_topic_with_its_age(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(Unavailable) as refused:
        folder_offsets(tmp_path / "none")("g", ["t"], 1.0)
    assert str(refused.value) == f"no lag table: {tmp_path / 'none'} is no folder; needed the pipeline's gold/lag."
    rows = {
        "group": ["g", "g", "g", "h"], "topic": ["t", "t", "u", "t"], "partition": [0, 1, 0, 0],
        "begin": [0, None, 3, 4], "end": [9, 8, None, 4], "committed": [5, None, 2, 1],
    }  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    read = folder_offsets(str(tmp_path))
    table = read("g", ["t"], 1.0)
    assert dict(table) == {"t": {0: {"begin": 0, "end": 9, "committed": 5}, 1: {"end": 8}}}
    assert getattr(table, "age_s", None) == {}
    assert dict(read("g", ["t", "u"], 1.0))["u"] == {0: {"begin": 3, "committed": 2}}
    assert dict(read("h", ["u"], 1.0)) == {}
