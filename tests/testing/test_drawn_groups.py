"""The groups that strategies are tried on, and what a strategy that breaks its promises is told: written down."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.written_down import as_written

import apportion
from apportion.model.facts import PRIORITY, Fact
from apportion.model.group_json import read_group
from apportion.testing.contract import ContractBroken, check_assignor, hard_groups, shrink
from apportion.testing.groups import Kinds, many_groups

WRITTEN = Path(__file__).parent / "drawn_groups.json"
KINDS = {
    "plain": Kinds(), "capacities": Kinds(capacities=True), "large": Kinds(12, 12, 12, capacities=True),
    "facts": Kinds(facts={"warmth": Fact(3, 1, 9), "priority": PRIORITY}),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_groups_are_drawn_as_was_written_down(name: str) -> None:
    """Whoever reports a group that breaks a strategy names a seed: it must be the same group tomorrow."""
    drawn = list(many_groups(120, seed=4, kinds=KINDS[name]))
    for raw in drawn:
        read_group(raw)
    sums = [hashlib.sha256(json.dumps(raw).encode()).hexdigest()[:8] for raw in drawn]
    as_written(WRITTEN, name, {"first": drawn[:2], "sums": "".join(sums)})


def test_hard_groups_are_those_written_down() -> None:
    groups = list(hard_groups())
    for raw in groups:
        read_group(raw)
    as_written(WRITTEN, "hard", groups)


class Lazy:
    """It gives all to the first subscriber, and forgets the second partition of each topic."""

    name, goals = "lazy", ("balance",)

    def assign(self, group: apportion.Group) -> Any:
        """A number for each partition."""
        owner = np.full(group.P, -1, dtype=np.int64)
        for t in range(group.T):
            members = group.subscribers(t)
            if len(members):
                owner[group.partitions(t)] = members[0]
                owner[group.partitions(t)][1:2] = -1
        return owner


class Wild(Lazy):
    """It answers otherwise each time, writes into the group, and gives what nobody wants."""

    name, calls = "wild", 0

    def assign(self, group: apportion.Group) -> Any:
        """Turns by turns."""
        Wild.calls += 1
        if group.P:
            group.lag[:1] = 5
        return np.full(group.P, Wild.calls % max(group.M, 1), dtype=np.int64)


@pytest.mark.parametrize("kind", [Lazy, Wild])
def test_a_broken_promise_is_told_with_the_smallest_group_that_shows_it(kind: Any) -> None:
    Wild.calls = 0
    with pytest.raises(ContractBroken) as broken:
        check_assignor(kind(), groups=30)
    as_written(WRITTEN, f"broken {kind.name}", [str(broken.value).splitlines(), list(broken.value.promises)])


def test_a_group_shrinks_to_what_still_shows_it() -> None:
    raw = {"topics": {"t": 9, "u": [{"partition": 0, "lag": 4}, {"partition": 1}]}, "members": {"a": {"topics": ["t"]}}}
    assert shrink(raw, lambda group: "t" in group.get("topics", {}) and group["topics"]["t"] >= 3)["topics"] == {"t": 3}
    small = shrink(raw, lambda group: any("lag" in one for one in group.get("topics", {}).get("u", ())))
    assert small == {"topics": {"u": [{"lag": 4}]}}
