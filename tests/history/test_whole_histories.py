"""Rules that hold for every history: bounded settings, the newest record, and plans shared by like groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.history.test_shared_plans import answers, question
from tests.support.plain_reader import EndSamples, what_if

import apportion.demo
from apportion.assignors import find
from apportion.errors import ApportionError
from apportion.history import ends_then
from apportion.history.group_history import GroupHistories
from apportion.history.shared_plans import SharedPlans
from apportion.sources import dump

DUMPS = {
    "demo": Path(apportion.demo.__file__).parent / "dump",
    "tasks": Path(__file__).parents[1] / "data" / "task_groups",
}


@pytest.fixture(scope="module")
def demo() -> GroupHistories:
    return dump.load_histories(DUMPS["demo"])


@pytest.fixture(scope="module")
def tasks() -> GroupHistories:
    return dump.load_histories(DUMPS["tasks"])


def test_settings_of_the_brokers_tasks_are_bounded() -> None:
    assert find("broker-sticky", {}) == find("broker-sticky", {}) != find("streams", {})
    assert getattr(find("broker-sticky", {"num_standby_replicas": "100"}), "num_standby_replicas") == 100  # noqa: B009
    for text in ("101", "10000", "", "x", "²", "1.0", " 1"):
        with pytest.raises(ApportionError) as error:
            find("broker-sticky", {"num_standby_replicas": text})
        assert "num_standby_replicas" in str(error.value)


def test_the_newest_record_counts_that_stands_and_has_a_time() -> None:
    def rows(*of: tuple[int, int, bool]) -> Any:
        group, ms, counts = zip(*of, strict=True)
        return np.array(group), np.array(ms, dtype=np.int64), np.array(counts, dtype=np.bool_)

    heard = ends_then.last_heard(4, rows((0, 5, True), (1, 9, False), (0, 3, True)), rows((2, -7, True), (0, 6, False)))
    assert heard.tolist() == [5, ends_then.SILENT, -7, ends_then.SILENT]
    assert heard.dtype == np.int64
    assert ends_then.last_heard(0).tolist() == []
    twice = EndSamples.ordered([("t", 0, (5, 1, None)), ("t", 0, (5, None, 2)), ("t", 0, (1, 0, 9))])
    assert [sample[0] for sample in twice.of["t", 0]] in ([1, 5, 5], [1, 5])


@pytest.mark.parametrize("seeds", [range(n, n + 3) for n in range(200, 218, 3)])
def test_groups_that_are_alike_share_plans_and_get_the_scenarios_of_each_alone(seeds: range) -> None:
    assignors = ["range", "sticky", "broker-uniform", "lag-aware"]
    shared = SharedPlans(assignors)
    for seed in seeds:
        for prefix, lags in (("", None), ("a", 7), ("b", 8), ("", 9)):
            asked = question(seed, f"{prefix}g", prefix, lags)
            rows = answers(shared, *asked)
            assert rows == what_if(*asked, assignors)
