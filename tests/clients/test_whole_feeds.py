"""What a lag feed asks of whom, when, and in which words; the client stands in, and writes down each call."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from apportion.clients import lag_feed
from apportion.clients.lag_feed import Sampled, folder_offsets, kafka_offsets
from apportion.errors import MissingExtra

FOUND = [("t", 0), ("t", 1), ("u", 2)]
COMMITTED = {("t", 0): 0, ("t", 1): -1}


class Admin:
    """Three partitions of two topics; every call is written down, and the first ones may fail."""

    def __init__(self, failing: list[Exception], **settings: Any) -> None:
        self.calls: list[tuple[Any, ...]] = [("made", settings)]
        self.failing, self.nudges = failing, dict[Any, Any]()

    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        self.calls.append(("topics", topics))
        if self.failing:
            raise self.failing.pop(0)
        of = {name: [{"partition_index": p} for topic, p in FOUND if topic == name] for name in topics}
        return [{"name": name, "partitions": parts} for name, parts in of.items()]

    def list_partition_offsets(self, wanted: dict[Any, Any], timeout_ms: int) -> dict[Any, Any]:
        self.calls.append(("offsets", wanted, timeout_ms))
        first = OffsetSpec.EARLIEST in wanted.values()
        return {part: SimpleNamespace(offset=part.partition + (1 if first else 100)) for part in wanted}

    def list_group_offsets(self, wanted: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(("committed", wanted))
        [(group, parts)] = wanted.items()
        if parts is None:
            return {group: self.nudges}
        return {group: {TopicPartition(*part): SimpleNamespace(offset=at) for part, at in COMMITTED.items()}}

    def alter_group_offsets(self, group: str, offsets: dict[Any, Any]) -> dict[Any, Any]:
        self.calls.append(("altered", group, offsets))
        return {part: SimpleNamespace(errno=0) for part in offsets}

    def close(self) -> None:
        self.calls.append(("closed",))


@pytest.fixture
def admins(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clients that were made; errors that the next calls raise; a clock that goes on when somebody sleeps."""
    told = SimpleNamespace(made=list[Admin](), failing=list[Exception](), now=1000.0, slept=list[float]())

    def made(**settings: Any) -> Admin:
        told.made.append(Admin(told.failing, **settings))
        return told.made[-1]  # type: ignore[no-any-return]

    def sleep(seconds: float) -> None:
        told.slept.append(seconds)
        told.now += seconds

    monkeypatch.setattr("kafka.KafkaAdminClient", made)
    monkeypatch.setattr(lag_feed, "time", SimpleNamespace(monotonic=lambda: told.now, sleep=sleep))
    return told


def test_the_clients_configuration_never_reaches_a_log(
    admins: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kafka.admin.client")
    kafka_offsets()("g", ["t"], 5.0)
    theirs = logging.getLogger("kafka.admin.client")
    theirs.debug("Starting KafkaAdminClient with configuration: %s", {"sasl_plain_password": "p"})
    theirs.debug("KafkaAdminClient started.")
    assert caplog.messages == ["KafkaAdminClient started."]


def test_a_nudge_is_marked_as_heeded_where_it_is_taken(
    admins: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "apportion.clients")
    monkeypatch.setattr("apportion.sources.nudge_commit.time.time", lambda: 1_000.0)
    fetch: Any = kafka_offsets()
    fetch("g", ["t"], 5.0)
    [admin] = admins.made
    name = "g.apportion-nudge"

    def nudged(*at: tuple[str, int, str], takes: bool = True) -> tuple[list[Any], list[str]]:
        """The calls of one look at these commits, and how often somebody was asked."""
        admin.nudges = {
            TopicPartition(topic, 0): SimpleNamespace(offset=ms, metadata=said) for topic, ms, said in at
        }  # fmt: skip
        asked: list[str] = []
        admin.calls.clear()

        def on_nudge() -> bool:
            asked.append("asked")
            return takes

        fetch.heed("g", on_nudge)
        return admin.calls[1:], asked

    marked = [("altered", name, {TopicPartition("t", 0): (900_000, "heeded", -1)})]
    assert nudged(("s", 800_000, ""), ("t", 900_000, "")) == (marked, ["asked"])
    assert admin.calls[0] == ("committed", {name: None})
    assert nudged(("t", 900_000, ""), takes=False) == ([], ["asked"])
    assert nudged(("t", 900_000, "heeded")) == ([], [])
    assert nudged(("t", 400_000, "")) == ([], []), "ten minutes are too long ago"
    assert nudged(("t", 400_001, ""))[1] == ["asked"]
    assert nudged(("t", 1_600_000, "")) == ([], [])
    assert nudged(("t", -1, "")) == ([], [])
    assert nudged() == ([], [])
    admin.list_group_offsets = lambda _: 1 / 0  # type: ignore[method-assign]
    fetch.heed("g", lambda: True)
    assert caplog.messages == ["nudges of group 'g' could not be read: ZeroDivisionError: division by zero"]


def test_a_library_that_is_not_there_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, extra, fetch in (
        ("kafka_offsets", "kafka-python", kafka_offsets()), ("folder_offsets", "spark", folder_offsets(tmp_path))
    ):  # fmt: skip
        with pytest.raises(MissingExtra) as refused:
            fetch("g", ["t"], 5.0)
        assert str(refused.value).startswith(f"{name} needs a library that is not installed: pip install '")
        assert refused.value.extra == extra


@pytest.mark.parametrize("zone", [UTC, None])
def test_a_table_is_as_old_as_its_oldest_sample(tmp_path: Path, zone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments without a zone are UTC's; one that lies ahead of this machine's clock is no age below 0."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            assert tz is UTC
            return now

    monkeypatch.setattr(lag_feed, "datetime", Clock)
    past: dict[str, list[int | None]] = {"t": [30, 90, 60], "u": [-5, 0, -9], "v": [-5, -6, -7], "none": [None] * 3}
    rows: dict[str, list[Any]] = {name: [] for name in ("group", "topic", "partition", "begin", "end", "committed")}
    rows["sampled_at"] = []
    for topic, ages in past.items():
        for p, age in enumerate(ages):
            at = None if age is None else (now - timedelta(seconds=age)).replace(tzinfo=zone)
            values = ("g", topic, p, 1, 2, 3, at)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    table = folder_offsets(tmp_path)("g", list(past), 1.0)
    assert isinstance(table, Sampled)
    assert table.age_s == {"t": 90.0, "u": 0.0, "v": 0.0}
    whole = {p: {"begin": 1, "end": 2, "committed": 3} for p in range(3)}
    assert dict(table) == dict.fromkeys(past, whole)
