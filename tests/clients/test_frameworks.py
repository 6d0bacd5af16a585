"""Strategies inside frameworks: the page's own example, started twice on a real broker."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from apportion.testing.broker import Broker

from .groups import new_name
from .test_group_consumer import until

pytest.importorskip("faststream")
pytestmark = pytest.mark.broker
PAGE = Path(__file__).parents[2] / "docs" / "live.md"


def example(heading: str) -> str:
    """The first Python block below a heading of the page."""
    below = PAGE.read_text().split(f"### {heading}\n")[1]
    block = re.search(r"```python\n(.*?)```", below, re.DOTALL)
    assert block, heading
    return block.group(1)


def assigned(log: Path) -> list[int]:
    """How many partitions each of its generations gave it, by our own log line."""
    return [
        int(count) for count in re.findall(r"assigned group=\S+ generation=\d+ .* partitions=(\d+)", log.read_text())
    ]


def start(source: str, folder: Path, name: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A process that runs it, and the file with all that it prints."""
    script, log = folder / f"{name}.py", folder / f"{name}.log"
    script.write_text("import logging\nlogging.basicConfig(level=logging.INFO)\n" + source)
    with log.open("wb") as out:
        return subprocess.Popen([sys.executable, script], stdout=out, stderr=subprocess.STDOUT), log


@pytest.mark.parametrize("heading", ["FastStream", "aiokafka"])
def test_two_applications_share_a_topic_and_hand_over(broker: Broker, tmp_path: Path, heading: str):
    """Six partitions: three each, all six after one was stopped, and every record is read once."""
    topic, group = new_name("framework"), new_name("framework")
    broker.create_topic(topic, 6)
    source = example(heading).replace('"clicks"', repr(topic)).replace('"ads"', repr(group))
    source = source.replace("localhost:9092", broker.bootstrap)
    members = [start(source, tmp_path, "first"), start(source, tmp_path, "second")]
    try:
        (_, first_log), (second, second_log) = members
        until(lambda: (assigned(first_log) or [0])[-1] == (assigned(second_log) or [0])[-1] == 3)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for n in range(60):
            producer.produce(topic, b"record %d." % n, partition=n % 6)
        producer.flush()
        until(lambda: len(set(re.findall(r"record \d+\.", first_log.read_text() + second_log.read_text()))) == 60)
        assert len(re.findall(r"record \d+\.", first_log.read_text())) == 30
        second.send_signal(signal.SIGTERM)
        assert second.wait(120) in (0, -signal.SIGTERM)
        until(lambda: assigned(first_log)[-1] == 6)
    finally:
        for process, _ in members:
            process.kill()
            process.wait()


def test_three_workers_of_one_faststream_subscriber_are_three_members(broker: Broker, tmp_path: Path) -> None:
    """FastStream hands the same assignor to a consumer for each worker."""
    topic, group = new_name("workers"), new_name("workers")
    broker.create_topic(topic, 6)
    source = example("FastStream").replace('"clicks"', repr(topic)).replace('"ads"', repr(group))
    source = source.replace("localhost:9092", broker.bootstrap)
    source = source.replace('auto_offset_reset="earliest",', 'auto_offset_reset="earliest", max_workers=3,')
    source = source.replace("from faststream import FastStream", "from faststream import AckPolicy, FastStream")
    source = source.replace("max_workers=3,", "max_workers=3, ack_policy=AckPolicy.ACK,")
    process, log = start(source, tmp_path, "workers")
    try:
        until(lambda: assigned(log)[-3:] == [2, 2, 2])
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for n in range(60):
            producer.produce(topic, b"record %d." % n, partition=n % 6)
        producer.flush()
        until(lambda: len(set(re.findall(r"record \d+\.", log.read_text()))) == 60)
    finally:
        process.kill()
        process.wait()
