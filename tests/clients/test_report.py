"""What a rebalance leaves behind: a log line, a record for the hook, and the metrics of the documentation's example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.clients.joining import JoiningMember, assign

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.options import Options
from apportion.clients.rebalance import PlannedRebalance
from apportion.model.build import build
from apportion.model.plan import hand_over
from apportion.planning import plan
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
