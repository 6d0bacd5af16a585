"""Settings are read as their types say, and what strategies remember goes out and comes back whole."""

from __future__ import annotations

from typing import Any

import pytest

import apportion
from apportion.assignors.failover import Priority
from apportion.assignors.lag_aware import LagAware
from apportion.assignors.sticky_stream_join import StreamJoin
from apportion.errors import BadInput
from apportion.user_data import Holding
from apportion.wire.subscription import Subscription


@pytest.mark.parametrize(
    ("name", "settings", "where", "needed"),
    [
        ("lag-aware", {"scope": "world"}, "scope", "topic, group"),
        ("lag-aware", {"max_skew": "x"}, "max_skew", ""),
        ("failover", {"preempt": "perhaps"}, "preempt", ""),
        ("streams", {"process": "planet"}, "process", ""),
        ("streams", {"max_warmup_replicas": 0}, "streams", "values in bounds"),
    ],
)
def test_a_setting_that_cannot_be_says_which_and_what_would_be_right(
    name: str, settings: dict[str, Any], where: str, needed: str
) -> None:
    with pytest.raises(BadInput) as refused:
        apportion.find(name, settings)
    assert where in refused.value.where
    assert needed in refused.value.needed
    assert refused.value.found
    assert "None" not in f"{refused.value.where} {refused.value.needed}"


def test_a_member_of_failover_brings_its_priority_and_what_it_held() -> None:
    codec = Priority()
    data = codec.user_data(Holding((("t", (1, 2)),), 4, priority=7))
    claim = codec.read(Subscription(("t",), data))
    assert (claim.owned, claim.generation, claim.priority, claim.lost) == ({"t": [1, 2]}, 4, 7, None)


def test_the_leader_of_a_stream_join_tells_the_epoch_that_members_bring_along() -> None:
    members = {m: {"topics": ["t"]} for m in "ab"}
    codec = StreamJoin()
    told = codec.tell(apportion.plan({"topics": {"t": 4}, "members": members}, "sticky-stream-join"))
    assert told is not None
    assert codec.told(told) is not None
    assert codec.tell(apportion.plan({"topics": {"t": 4}, "members": members}, "range")) is None


def test_by_capacity_the_goal_is_called_by_its_scope() -> None:
    topic = [{"partition": p, "lag": 10 * p} for p in range(6)]
    group = {"topics": {"t": topic}, "members": {"a": {"topics": ["t"], "capacity": 2}, "b": {"topics": ["t"]}}}
    proofs = {scope: apportion.plan(group, "lag-aware", {"scope": scope}).proof for scope in ("topic", "group")}
    assert "topic-balance" in proofs["topic"]
    assert "topic-balance" not in proofs["group"]
    assert "balance" in proofs["group"]


def test_a_strategy_made_in_python_has_the_same_bounds() -> None:
    with pytest.raises(BadInput, match="one of topic, group"):
        LagAware(scope="world")  # type: ignore[arg-type]
