"""The price list in JSON proves the plan: whoever has plan, group and prices can check it, member by member."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apportion.cli import main
from apportion.testing.groups import Kinds, many_groups


def stands_least(group: dict[str, Any], document: dict[str, Any]) -> None:
    """Every partition stands where price + miss + move is least, and each price lies beside its member's load."""
    prices, weights = document["certificate"]["prices"], document["certificate"]["weights"]
    by_topic = document["certificate"].get("topic_prices", {})
    plan = document.get("target", document["assignment"])
    assert prices.keys() == plan.keys()
    owner = {(t, p): m for m, held in plan.items() for t, ids in held.items() for p in ids}
    stands: dict[tuple[str, int], str] = {}
    for m, fields in group["members"].items():
        for t, ids in fields.get("owned", {}).items():
            stands |= {(t, p): m for p in ids}
    for m, price in prices.items():
        load = sum(map(len, plan[m].values()))
        if by_topic and not any(m in members for members in by_topic.values()):
            continue
        assert weights["balance"] * load <= price <= weights["balance"] * (load + 1)
    for (topic, partition), at in owner.items():

        def cost(m: str, topic: str = topic, partition: int = partition) -> int:
            moves = stands.get((topic, partition), m) != m
            return by_topic.get(topic, {}).get(m, prices[m]) + weights.get("moves", 0) * moves

        wants = [m for m, fields in group["members"].items() if topic in fields["topics"]]
        assert cost(at) == min(map(cost, wants)), (topic, partition)


@pytest.mark.parametrize("order", ["balance,moves", "balance,spread,moves"])
def test_prices_of_every_member_are_in_the_json_and_prove_the_plan(
    order: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Random groups with overlapping subscriptions, claims of one generation and no racks."""
    listed = 0
    for group in many_groups(40, 3, Kinds(6, 4, 9)):
        members = {
            m: {"topics": fields["topics"], "generation": 1, "owned": {}} for m, fields in group["members"].items()
        }
        taken: set[tuple[str, int]] = set()
        topics = {t: entries if isinstance(entries, int) else len(entries) for t, entries in group["topics"].items()}
        for m, fields in group["members"].items():
            for t, ids in fields.get("owned", {}).items():
                for p in ids:
                    if t in fields["topics"] and 0 <= p < topics.get(t, 0) and (t, p) not in taken:
                        taken.add((t, p))
                        members[m]["owned"].setdefault(t, []).append(p)
        plain = {"topics": topics, "members": members}
        (tmp_path / "group.json").write_text(json.dumps(plain))
        words = ["plan", str(tmp_path / "group.json"), "-A", "sticky", "--set", f"order={order}", "--explain"]
        assert main([*words, "-o", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        if "certificate" in document:
            listed += 1
            stands_least(plain, document)
    assert listed > 5
