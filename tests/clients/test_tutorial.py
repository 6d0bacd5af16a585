"""The tutorial of docs/exactly-once.md: its program is killed between words, and its counts are exact all the same."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from apportion.testing.broker import Broker

from .groups import new_name

pytestmark = pytest.mark.broker
PAGE = Path(__file__).parents[2] / "docs" / "exactly-once.md"


def test_the_tutorials_program_counts_each_word_once_though_it_is_killed(broker: Broker, tmp_path: Path) -> None:
    below = PAGE.read_text().split("## Try it\n")[1]
    block = re.search(r"```python\n(.*?)```", below, re.DOTALL)
    assert block
    words, counts, name = new_name("words"), new_name("counts"), new_name("app")
    for topic in (words, counts):
        broker.create_topic(topic, 2)
    broker.create_topic(f"{name}-changelog", 2, cleanup_policy="compact")
    source = block[1]
    for printed, ours in {
        '("words",)': f"({words!r},)", "word-counts-changelog": f"{name}-changelog",
        '"word-counts", bootstrap': f"{name!r}, bootstrap", 'send("word-counts"': f"send({counts!r}",
        "localhost:9092": broker.bootstrap,
        "commit_every_s=0.1,": 'commit_every_s=0.1, consumer={"session_timeout_ms": 6000},',
    }.items():  # fmt: skip
        source = source.replace(printed, ours)
    (tmp_path / "words.py").write_text(source)
    reader = KafkaConsumer(
        counts, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    seen: list[tuple[bytes, bytes]] = []
    for round_of in range(3):
        with (tmp_path / "out.log").open("ab") as out:
            process = subprocess.Popen([sys.executable, "words.py"], cwd=tmp_path, stdout=out, stderr=out)
        try:
            for word in (b"tea", b"milk", b"tea"):
                producer.send(words, word, word)
            producer.flush()
            until = time.monotonic() + 90
            while len(seen) < 3 * (round_of + 1):
                assert time.monotonic() < until, (tmp_path / "out.log").read_text()
                assert process.poll() is None, (tmp_path / "out.log").read_text()
                for records in reader.poll(timeout_ms=500).values():
                    seen += [(record.key, record.value) for record in records]
        finally:
            process.kill()
            process.wait()
    assert sorted(seen) == sorted(
        [(b"tea", b"%d" % n) for n in range(1, 7)] + [(b"milk", b"%d" % n) for n in (1, 2, 3)]
    )
    reader.close()
    producer.close()
