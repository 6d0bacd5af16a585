"""Settings of ``streams`` that cannot count are refused in a sentence that names the setting."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import apportion
from apportion.errors import ApportionError


def application(seed: int) -> dict[str, Any]:
    """A streams application's group: three topics, hosts, racks, zones, copies and how far they lag."""
    draw = Random(seed)
    sizes = {f"t{n}": draw.randint(1, 5) for n in range(3)}
    topics: dict[str, Any] = {
        topic: [{"partition": p, "racks": draw.sample(["a", "b", "c"], 2)} for p in range(size)]
        for topic, size in sizes.items()
    }
    members: dict[str, Any] = {}
    for m in range(draw.randint(2, 6)):
        wants = list(sizes) if draw.random() < 0.8 else draw.sample(list(sizes), 2)
        members[f"c{m}"] = {
            "topics": wants, "rack": draw.choice("abc"), "host": f"/h{m // 2}", "owned": {}, "generation": 4,
            "tags": {"zone": draw.choice("xy")}, "standby": {}, "recovery_lag": {},
        }  # fmt: skip
    for topic, size in sizes.items():
        readers = [m for m, fields in members.items() if topic in fields["topics"]]
        for number in range(size):
            if readers and draw.random() < 0.8:
                members[draw.choice(readers)]["owned"].setdefault(topic, []).append(number)
            for who in draw.sample(readers, min(len(readers), draw.randint(0, 2))):
                if draw.random() < 0.5:
                    members[who]["standby"].setdefault(topic, []).append(number)
                lag = draw.choice((0, 40, 51, 20_000))
                members[who]["recovery_lag"].setdefault(topic, []).append({"partition": number, "lag": lag})
    return {"group": "app", "topics": topics, "members": members}


@pytest.mark.parametrize(
    "settings",
    [
        {"subtopologies": ["t0+nope"]}, {"stateless": ["t9"]}, {"rack.aware.assignment.tags": ["zone"]},
        {"num.standby.replicas": 1, "rack.aware.assignment.tags": ["cell"]},
        {"rack.aware.assignment.traffic.cost": 3}, {"rack.aware.assignment.non.overlap.cost": 3},
        {"subtopologies": ["t0+t1", "t1+t2"]}, {"process": "cell"}, {"num.standby.replicas": -1},
        {"max.warmup.replicas": 0}, {"acceptable.recovery.lag": -1}, {"probing.rebalance.interval.ms": 59_999},
        {"num.standby.replicas": 2**31}, {"acceptable.recovery.lag": 2**63},
    ],
)  # fmt: skip
def test_settings_that_cannot_count_are_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(ApportionError) as refused:
        apportion.plan(application(1), "streams", settings)
    last = list(settings)[-1]
    assert any(word in str(refused.value) for word in (last, last.rstrip("s"), "t1")), "the sentence names it"


def test_settings_without_anything_to_count_on_are_refused() -> None:
    bare = {"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}
    for settings, words in (
        (
            {"rack.aware.assignment.strategy": "min_traffic"},
            "rack.aware.assignment.strategy: found min_traffic, and no member's or no partition's rack is known",
        ),
        (
            {"num.standby.replicas": 1, "rack.aware.assignment.tags": ["zone"]},
            "rack.aware.assignment.tags: found 'zone', and no member has tags; needed a key of members' tags (members.",
        ),
    ):
        with pytest.raises(ApportionError) as refused:
            apportion.plan(bare, "streams", settings)
        assert str(refused.value).startswith(words)
