"""A Spark streaming query, which joins no group, has the lag that its own progress report tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer

from apportion.errors import BadInput
from apportion.serve.collector import Collector
from apportion.serve.settings import ServerSettings
from apportion.sources import live
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.sources.spark_checkpoint import progress
from apportion.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def write(broker: Broker, topic: str, messages: int) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for n in range(messages):
        producer.send(topic, b"%d" % n, partition=n % 3)
    producer.close()


def offsets(reported: str) -> dict[tuple[str, int], int]:
    """As Spark's progress has them."""
    return {(t, int(p)): at for t, of_topic in json.loads(reported).items() for p, at in of_topic.items()}


def test_a_querys_lag_is_that_of_its_own_report(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    topic, folder = "streamed", tmp_path / "orders"
    broker.create_topic(topic, 3)
    write(broker, topic, 40)
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 15)
    query = (
        source.load().writeStream.format("noop").option("checkpointLocation", str(folder)).trigger(availableNow=True)
    ).start()
    query.awaitTermination()
    reports: list[Any] = [json.loads(report.json) for report in query.recentProgress]
    ends = [offsets(json.dumps(report["sources"][0]["endOffset"])) for report in reports if report["numInputRows"]]
    assert len(ends) > 1
    assert progress(str(folder)) == ends[-1]
    write(broker, topic, 30)
    connection = Connection(broker.bootstrap, Properties())
    [seen] = live.groups(connection, [], checkpoints=[str(folder)])
    assert (seen.name, seen.protocol, seen.total_lag) == ("checkpoint:orders", "simple", 30)
    killed = tmp_path / "killed"  # in its last batch, whose end it has written and whose commit not
    shutil.copytree(folder, killed)
    newest = max(int(path.name) for path in (killed / "commits").iterdir() if path.name.isdecimal())
    (killed / "commits" / str(newest)).unlink()
    assert progress(str(killed)) == ends[-2]
    collector = Collector(ServerSettings(tail=False, checkpoints=(str(folder), str(tmp_path / "no"))), connection)
    try:
        snapshot = collector.round()
        assert snapshot.groups["checkpoint:orders"].sighting.total_lag == 30
        assert any("no finished batch" in note for note in snapshot.notes()), "and the other is named"
    finally:
        collector.close()


@pytest.mark.parametrize(
    ("offsets_log", "fault"),
    [("v9\n{}\n{}", "version 'v9'"), ('v1\n{}\n{"logOffset":3}', "no offsets of a Kafka source"), ("", "version ''")],
)
def test_another_folder_is_refused(tmp_path: Path, offsets_log: str, fault: str) -> None:
    for log, content in (("offsets", offsets_log), ("commits", "v1\n{}")):
        (tmp_path / log).mkdir()
        (tmp_path / log / "0").write_text(content)
    with pytest.raises(BadInput, match=fault):
        progress(str(tmp_path))
