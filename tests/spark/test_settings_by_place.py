"""What suits one machine is not given to a cluster: its splits, its planning and its page stay Spark's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apportion.spark import session, settings

OF_ONE_MACHINE = ("spark.sql.files.maxPartitionBytes", "spark.sql.adaptive.enabled", "spark.ui.enabled")


@pytest.mark.parametrize("quick", [True, False])
def test_a_cluster_keeps_its_splits_its_planning_and_its_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick: bool
) -> None:
    monkeypatch.setenv(settings.MASTER, "spark://master:7077")
    on_a_cluster = settings.settings(tmp_path, 2, quick, [])
    assert not set(OF_ONE_MACHINE) & set(on_a_cluster)
    assert "TieredStopAtLevel" not in str(on_a_cluster)
    monkeypatch.delenv(settings.MASTER)
    assert set(OF_ONE_MACHINE) <= set(settings.settings(tmp_path, 2, quick, []))


def test_jobs_bear_the_name_of_their_step(spark: Any) -> None:
    steps: list[str] = []
    session.naming_jobs(spark, steps.append)("decoding records")
    spark.range(3).count()
    store = spark.sparkContext._jsc.sc().statusStore()
    names = [store.jobsList(None).apply(number).description().getOrElse(None) for number in range(1)]
    assert names == ["apportion: decoding records"]
    assert steps == ["decoding records"]
