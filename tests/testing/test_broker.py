"""The broker of the test kit is a real one: it starts, keeps what was written, and survives kill -9."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apportion.errors import Unavailable
from apportion.testing import jars as jar_box
from apportion.testing.broker import Broker

pytestmark = pytest.mark.broker


def partitions_of(broker: Broker, topic: str) -> list[dict]:
    with broker.admin() as admin:
        return admin.describe_topics([topic])[0]["partitions"]


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_topics_are_made_grown_and_deleted(broker: Broker) -> None:
    broker.create_topic("kit-grows", 2, retention_ms="60000")
    broker.grow_topic("kit-grows", 5)
    assert len(partitions_of(broker, "kit-grows")) == 5
    broker.delete_topic("kit-grows")
    with broker.admin() as admin:
        assert "kit-grows" not in admin.list_topics()


def test_committed_offsets_outlive_kill_9_and_nothing_outlives_the_end(jars: str) -> None:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    with Broker() as broker:
        broker.create_topic("clicks", 1)
        at = TopicPartition("clicks", 0)
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False)
        consumer.assign([at])
        consumer.commit({at: OffsetAndMetadata(7, "seven", -1)})
        consumer.close()
        first = broker.process
        assert first is not None
        broker.kill()
        assert first.returncode == -9
        assert not broker.running
        broker.start()
        again = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False)
        assert again.committed(at) == 7
        again.close()
        folder, second = broker.folder, broker.process
        broker.stop()
        assert second is not None
        assert second.returncode != -9, "it was asked to end"
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(second.pid, 0)


def test_a_broker_and_its_folder_go_when_their_parent_is_killed(jars: str) -> None:
    run = [sys.executable, "-m", "apportion.testing.broker"]
    parent = subprocess.Popen(run, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    said = parent.stdout.readline()
    port, folder = re.search(r"127\.0\.0\.1:(\d+); data in (\S+);", said).groups()
    assert listens(int(port))
    parent.kill()
    parent.wait()
    until = time.monotonic() + 60
    while (Path(folder).exists() or listens(int(port))) and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(folder).exists()
    assert not listens(int(port))


def test_ctrl_c_ends_a_persons_broker_quietly(jars: str) -> None:
    run = [sys.executable, "-m", "apportion.testing.broker"]
    person = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert person.stdout is not None
    said = person.stdout.readline()
    person.send_signal(signal.SIGINT)
    _, errors = person.communicate(timeout=60)
    assert person.returncode == 0
    assert "Traceback" not in errors
    assert not Path(re.search(r"data in (\S+);", said)[1]).exists()


def test_a_broker_that_cannot_start_says_its_last_words(jars: str) -> None:
    with pytest.raises(Unavailable, match=r"num\.network\.threads"):
        Broker(properties={"num.network.threads": "many"}).start()


def test_without_java_the_error_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jar_box.java.cache_clear()
    with pytest.raises(Unavailable, match=r"Java 17 or newer is needed.*install"):
        jar_box.java()


@pytest.mark.parametrize(("option", "code", "words"), [("--help", 0, "until Ctrl-C"), ("--port", 2, "--port")])
def test_who_asks_for_help_or_mistypes_starts_no_broker(option: str, code: int, words: str) -> None:
    command = [sys.executable, "-m", "apportion.testing.broker", option]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == code
    assert words in answer.stdout + answer.stderr
