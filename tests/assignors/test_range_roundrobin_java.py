"""Range and round robin give what Kafka's own assignors give, member by member, on thousands of random groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import apportion
from apportion.testing import Kinds, many_groups
from apportion.testing.peers import JavaAssignors

EVERYTHING = Kinds(gaps=False, lag=False, priorities=False)
"""Without gaps: Kafka's range, dealing by racks, walks the ids 0 to n - 1 whether they exist or not."""
BIGGER = Kinds(topics=8, partitions=12, members=9, gaps=False, lag=False, priorities=False)


@pytest.fixture(scope="module")
def kafka(jars: str) -> Iterator[JavaAssignors]:
    with JavaAssignors() as assignors:
        yield assignors


def groups(seed: int) -> list[dict[str, Any]]:
    return [*many_groups(1000, seed, EVERYTHING), *many_groups(300, seed, BIGGER)]


@pytest.mark.parametrize(("name", "seed"), [("range", 1), ("roundrobin", 2)])
def test_random_groups_come_out_as_kafkas_own(kafka: JavaAssignors, name: str, seed: int) -> None:
    asked = groups(seed)
    said = kafka.assign_all((name, group) for group in asked)
    racked = 0
    for group, theirs in zip(asked, said, strict=True):
        plan = apportion.plan(group, name)
        ours = plan.assignment
        assert ours == {member: {t: ps for t, ps in sorted(theirs[member].items()) if ps} for member in ours}, group
        racked += plan.group.racks is not None and plan.group.racks.known
    assert racked > 250, "enough groups have racks on both sides"
