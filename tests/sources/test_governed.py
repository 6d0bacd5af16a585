"""A governor's plan held against the group that carries it."""

from apportion.sighting.governed import governed
from apportion.wire import plan_text
from apportion.wire.plan_text import RELEASE, GovernedPlan, MemberKey

TOPIC = "rQcN1_L45HFQpfnIeDwgag"


def test_its_age_where_the_group_differs_and_whom_the_plan_does_not_know() -> None:
    keys = (MemberKey("a"), MemberKey("x", "static"), MemberKey("gone"))
    plan = GovernedPlan(4, 0, keys, (), {plan_text.topic_id(TOPIC): (0, 1, 1, 2, -1)})
    members = {
        "a": {"owned": {"t": [0, 1]}},
        "b": {"instance_id": "static", "owned": {"t": [3]}},
        "new": {"owned": {"t": [4]}},
    }
    raw = {"members": members, "topic_ids": {"t": TOPIC}}
    carried = [plan_text.read(text) for text in plan_text.texts(plan, "c", at_s=1_764_000_000)]
    under = governed(raw, carried)
    assert under is not None
    assert under.differs == {("t", 1): "b", ("t", 2): "b"}, "partition 3 is planned for somebody who is gone"
    assert under.unknown_members == ["new"]
    assert under.sentences == [
        "Governed by a plan of 2025-11-24 16:00:00 UTC, carried by a member that takes nothing.",
        "The plan wants 2 partitions elsewhere: t-1 to b, t-2 to b.",
        "The plan does not know 1 of the members: they came since.",
    ]
    let_go = GovernedPlan(5, RELEASE, keys, (), {})
    assert governed(raw, [*carried, *map(plan_text.read, plan_text.texts(let_go, "c"))]) is None
    assert governed(raw, []) is None
