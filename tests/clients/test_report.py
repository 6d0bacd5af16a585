"""What a rebalance leaves behind: a log line, a record for the hook, and the metrics of the documentation's example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.clients.joining import JoiningMember, assign

from apportion.arrays import NOBODY
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.options import Options
from apportion.clients.rebalance import PlannedRebalance, record
from apportion.model.build import build
from apportion.model.plan import hand_over
from apportion.planning import plan
from apportion.strategy.codec import Claim, Stateless
from apportion.wire.subscription import Subscription

DOCS = Path(__file__).parents[2] / "docs"


class Topics:
    """Four partitions of whatever is asked for."""

    def __init__(self, size: int = 4) -> None:
        self.size = size

    def partitions(self, topic: str) -> range:
        return range(self.size)

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


def joined(name: str, owned: tuple[int, ...] = (), generation: int | None = None) -> JoiningMember:
    return JoiningMember(name, None, Subscription(("t",), None, (("t", owned),) if owned else (), generation))


def test_every_plan_leaves_one_line_and_calls_the_hook(caplog: pytest.LogCaptureFixture):
    seen: list[PlannedRebalance] = []
    bridge = Bridge("cooperative-sticky", Options(on_plan=seen.append))
    with caplog.at_level("INFO", logger="apportion.clients"):
        assign(bridge, [joined("a")], Topics(), "g", 1)
        assign(bridge, [joined("a", (0, 1, 2, 3), 1), joined("b")], Topics(), "g", 2)
        assign(bridge, [joined("a", (0, 1), 2), joined("b")], Topics(), "g", 3)
        assign(bridge, [joined("a", (0, 1), 3), joined("b", (2, 3), 3)], Topics(5), "g", 4)
    lines = [record for record in caplog.records if record.getMessage().startswith("rebalance ")]
    assert [line.apportion for line in lines] == [rebalance.to_dict() for rebalance in seen]  # type: ignore[attr-defined]
    assert [(r.generation, r.moved, r.kept, r.given, r.withheld) for r in seen] == [
        (1, 0, 0, 4, 0),
        (2, 2, 2, 0, 2),
        (3, 0, 2, 2, 0),
        (4, 0, 4, 1, 0),
    ]
    wanted = ["leads now", "joined: b", "hand-over of what was withheld", "t has 5 partitions, had 4"]
    assert all(why in r.why for r, why in zip(seen, wanted, strict=True))
    assert seen[1].proof == {"balance": "optimal", "moves": "optimal"}
    fields = dict(re.findall(r'(\w+)=("[^"]*"|[^ ]+)', lines[1].getMessage()))
    assert json.loads(fields["moved"]) == 2
    assert json.loads(fields["why"]) == "joined: b"


def test_a_hook_that_fails_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture):
    bridge = Bridge("range", Options(on_plan=lambda rebalance: 1 / 0))
    told = assign(bridge, [joined("a")], Topics())
    assert told["a"].partitions == (("t", (0, 1, 2, 3)),)
    assert "the on_plan hook failed" in caplog.text


def test_the_prometheus_example_of_the_docs_counts(prometheus):
    client = prometheus
    code = re.search(r"### Prometheus\n\n```python\n(.*?)```", (DOCS / "live.md").read_text(), re.DOTALL)
    assert code
    scope: dict[str, Any] = {}
    exec(code[1], scope)  # noqa: S102 - our own page
    bridge = Bridge("cooperative-sticky", Options(on_plan=scope["to_prometheus"]))
    assign(bridge, [joined("a", (0, 1, 2, 3), 1), joined("b")], Topics(), "g", 2)
    value = client.REGISTRY.get_sample_value
    assert value("apportion_rebalances_total", {"group": "g"}) == 1
    assert value("apportion_moved_partitions_total", {"group": "g"}) == 2
    assert value("apportion_members", {"group": "g"}) == 2


@pytest.mark.parametrize("seed", range(40))
def test_what_is_withheld_is_what_the_plan_withholds_where_all_claims_are_held(seed: int):
    """The bridge's rule is that of plan.json, but for members that have let go."""
    random = np.random.default_rng(seed)
    members = {
        f"m{m}": {
            "topics": ["t"],
            "owned": {"t": random.choice(9, random.integers(0, 6), replace=False).tolist()},
            "generation": int(random.integers(3, 6)),
        }
        for m in range(int(random.integers(1, 5)))
    }
    made = plan(build({"topics": {"t": 8}, "members": members}), "cooperative-sticky")
    assert (hand_over(made.group, made.owner, np.ones(made.group.M, dtype=bool)) == made.withheld).all()
    assert not hand_over(made.group, made.owner, np.zeros(made.group.M, dtype=bool)).any()


@pytest.mark.parametrize("seed", range(40))
def test_the_record_and_what_waits_are_counted_from_what_changes(seed: int):
    """Partition by partition, in groups whose claims all stand, and in others."""
    draw = Random(seed)
    free = [(topic, p) for topic in ("a", "b") for p in range(12)]
    draw.shuffle(free)
    members: dict[str, Any] = {}
    for m in range(draw.randrange(1, 6)):
        owned: dict[str, list[int]] = {}
        for topic, p in [free.pop() for _ in range(draw.randrange(5))] + [("a", 0)] * (seed % 3 == 0):
            owned.setdefault(topic, []).append(p)
        topics = ["a"] if seed % 4 == 1 and m == 0 else ["a", "b"]
        members[f"m{m}"] = {"topics": topics, "owned": owned, "generation": 3 if seed % 3 else draw.choice((2, 3))}
    group = build({"topics": {"a": 12, "b": 12, **({"nobody's": 3} if seed % 2 else {})}, "members": members})
    planned = plan(group, "cooperative-sticky")
    holds = np.array([draw.random() < 0.7 for _ in range(group.M)])
    waits = hand_over(group, planned.owner, holds)
    claims = list(zip(group.claims.member.tolist(), group.claims.partition.tolist(), strict=True))
    past, now = group.owner.tolist(), planned.owner.tolist()
    if group.verdict.undisputed:
        rightly = {p for m, p in claims if holds[m] and now[p] not in (m, NOBODY)}
        assert set(waits.nonzero()[0].tolist()) == rightly
    one = record(planned, planned.owner, waits, 4, "", 0.0)
    both = list(zip(past, now, strict=True))
    wanted = {topic for fields in members.values() for topic in fields["topics"]}
    assert (one.members, one.partitions, one.generation) == (group.M, 12 * len(wanted), 4)
    assert one.withheld == sum(waits.tolist())
    assert one.kept == sum(a == b != NOBODY for a, b in both)
    assert one.moved == sum(a != NOBODY and b not in (a, NOBODY) for a, b in both)
    assert one.given == sum(a == NOBODY != b for a, b in both)
    assert one.ignored == len(claims) - sum(past[p] == m for m, p in claims)


def test_a_strategy_of_your_own_brings_its_own_memory():
    class Loud(Stateless):
        def read(self, said: Subscription) -> Claim:
            return Claim({"t": [3]}, 1)

    class Mine:
        name: ClassVar[str] = "mine"
        goals: ClassVar[tuple[str, ...]] = ()
        memory = Loud()

        def assign(self, group: Any) -> Any:
            return group.owner

    told = assign(Bridge(Mine(), Options()), [joined("a")], Topics())
    assert told["a"].partitions == (("t", (3,)),)
