"""The owners of ``streams`` without its plan of tasks: the same as with it, on random groups and settings."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.assignors.streams import Streams
from apportion.model.group_json import read_group
from apportion.tasks import place
from apportion.testing.groups import many_groups

SETTINGS = (
    Streams(),
    Streams(subtopologies=("t0+t1",), stateless=("t1",)),
    Streams(stateless=("t0", "t2"), acceptable_recovery_lag=0),
    Streams(subtopologies=("t2+t0+nowhere",), num_standby_replicas=1, rack_aware_assignment_tags=("zone",)),
    Streams(num_standby_replicas=1),
    Streams(process="host"),
    Streams(rack_aware_assignment_strategy="min_traffic"),
)


@pytest.mark.parametrize("strategy", SETTINGS, ids=repr)
def test_owners_and_proof_are_those_of_the_whole_plan(strategy: Streams) -> None:
    compared = 0
    for raw in many_groups(150, seed=11):
        for topic in ("t0", "t1", "t2", "nowhere"):
            raw["topics"].setdefault(topic, 0)  # the settings may name it
        if strategy.rack_aware_assignment_tags:
            for m, fields in enumerate(raw["members"].values()):
                fields["tags"] = {"zone": "ab"[m % 2]}
        group = read_group(raw)
        if strategy.rack_aware_assignment_strategy != "none" and not (group.racks and group.racks.known):
            continue  # refused
        compared += 1
        whole, brief = strategy.assign(group), strategy.summary(group)
        assert brief.owner.dtype == whole.owner.dtype
        assert brief.owner.tolist() == whole.owner.tolist(), f"{raw}"
        assert brief.proof == whole.proof, f"{raw}"
    assert compared > 30


@pytest.mark.parametrize("factor", [place._FACTOR, np.uint64(1), np.uint64(2**32)])
def test_like_tasks_are_gathered_however_their_sums_fall(factor: np.uint64, monkeypatch: pytest.MonkeyPatch) -> None:
    """With factors under which different rows have equal sums, rows are still told apart."""
    monkeypatch.setattr(place, "_FACTOR", factor)
    rng = np.random.default_rng(3)
    for width in (1, 2, 5):
        for height in (1, 7, 60):
            table = rng.integers(-1, 2, (height, width))
            rows, class_of = place.like_rows(table)
            assert rows[class_of].tolist() == table.tolist()
            assert len({row.tobytes() for row in rows}) == len(rows)
            assert list(dict.fromkeys(class_of.tolist())) == list(range(len(rows))), "in order of first appearance"
