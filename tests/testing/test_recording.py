"""What the recorder writes down of a cluster is what was done to it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from apportion.testing.broker import BrokerCluster
from apportion.testing.peers import JavaCodec
from tools.recording import dump, truth
from tools.recording.stage import Stage
from tools.recording.workload import ledger

# What ``make record`` wrote is read by every test of the demo.
pytestmark = [pytest.mark.broker, pytest.mark.thorough]


def test_a_small_cluster_is_written_down_whole(jars: str, tmp_path: Path) -> None:
    with BrokerCluster(["a", "b"]) as cluster:
        stage = Stage(cluster)
        cluster.create_topic("payments", 6, replication=2)
        stage.fill({"payments": [10, 20, 30, 40, 50, 60]})
        ledger(stage)
        rows = dump.write_records(tmp_path, stage.bootstrap)
        dump.write_ends(tmp_path, cluster, dump.write_topics(tmp_path, cluster))
        truth.write_tools(tmp_path / "truth", cluster)
        truth.write_members(tmp_path / "truth", stage)
        member = stage.cast[0][2]
        member.leave()
    with JavaCodec() as codec:
        read = codec.decode_records((row["key"], row["value"]) for row in rows)
    commits = [one["value"]["offset"] for one in read if one["type"] == 1 and one["key"]["partition"] == 0]
    assert commits == [1200, 2400]  # a third and six tenths of 4,000; the one between was aborted
    ends = {row["partition"]: row for row in pq.read_table(tmp_path / "ends.parquet").to_pylist()}
    assert [ends[partition]["end"] for partition in range(6)] == [10, 20, 30, 40, 50, 60]
    racks = {tuple(row["racks"]) for row in pq.read_table(tmp_path / "topics.parquet").to_pylist()}
    assert racks == {("a", "b")}
    assert "ledger-transactions" in (tmp_path / "truth" / "state.txt").read_text()
    assert '"generation":1' in (tmp_path / "truth" / "members.json").read_text()
