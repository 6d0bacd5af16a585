"""What a lag feed asks of whom, when, and in which words; the client stands in, and writes down each call."""

from __future__ import annotations

import logging
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import NotCoordinatorError, TopicAuthorizationFailedError
from tests.serve.running import until

from apportion.clients import lag_feed
from apportion.clients.lag_feed import LagFeed, Sampled, folder_offsets, kafka_offsets
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


PARTS = [TopicPartition(*part) for part in FOUND]
ASKED = [
    ("topics", ["t", "u", "none"]),
    ("offsets", dict.fromkeys(PARTS, OffsetSpec.EARLIEST), 7500),
    ("offsets", dict.fromkeys(PARTS, OffsetSpec.LATEST), 7500),
    ("committed", {"g": PARTS}),
]
TABLE = {
    "t": {0: {"begin": 1, "end": 100, "committed": 0}, 1: {"begin": 2, "end": 101}}, "u": {2: {"begin": 3, "end": 102}}
}  # fmt: skip
PATIENCE = {"request_timeout_ms": 7500, "bootstrap_timeout_ms": 7500}


def test_one_client_is_asked_for_begins_ends_and_commits(admins: SimpleNamespace) -> None:
    fetch = kafka_offsets(bootstrap_servers="b:1", request_timeout_ms=9)
    for _ in range(2):
        assert fetch("g", ("t", "u", "none"), 7.5) == TABLE  # type: ignore[arg-type]
    [admin] = admins.made
    assert admin.calls == [("made", {**PATIENCE, "bootstrap_servers": "b:1", "request_timeout_ms": 9}), *ASKED, *ASKED]
    fetch.close()  # type: ignore[attr-defined]
    fetch.close()  # type: ignore[attr-defined]
    assert admin.calls[-2:] == [ASKED[-1], ("closed",)]
    assert fetch("g", ["t", "u", "none"], 7.5) == TABLE
    assert len(admins.made) == 2
    assert admins.slept == []


def test_what_passes_is_asked_again_by_a_new_client_until_the_deadline(admins: SimpleNamespace) -> None:
    admins.failing += [NotCoordinatorError(), NotCoordinatorError()]
    assert kafka_offsets()("g", ["t", "u", "none"], 7.5) == TABLE
    assert (admins.slept, [one.calls[-1] for one in admins.made]) == ([0.2] * 2, [("closed",)] * 2 + [ASKED[-1]])
    for deadline_s, asked in ((0.2, 2), (0.1, 1), (0.65, 4)):
        admins.made.clear()
        admins.failing[:] = [NotCoordinatorError(str(n)) for n in range(9)]
        admins.now = 0.0
        with pytest.raises(NotCoordinatorError):
            kafka_offsets()("g", ["t"], deadline_s)
        assert [len(one.calls) for one in admins.made] == [3] * asked
    admins.made.clear()
    admins.failing[:] = [TopicAuthorizationFailedError(), NotCoordinatorError()]
    with pytest.raises(TopicAuthorizationFailedError):
        kafka_offsets()("g", ["t"], 60.0)
    assert [one.calls[-1] for one in admins.made] == [("closed",)]


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
    monkeypatch.setattr("apportion.inputs.nudge_commit.time.time", lambda: 1_000.0)
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


def test_a_feed_hands_nudges_on_and_says_when_it_was_slow(
    admins: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")
    heeded: list[Any] = []

    class Fetch:
        takes = 5.0

        def __call__(self, *asked: Any) -> Any:
            heeded.append(asked)
            admins.now += self.takes
            return TABLE

        def heed(self, *asked: Any) -> None:
            heeded.append(asked)

    fetch = Fetch()
    feed = LagFeed("g", fetch, topics=("u", "t"))
    assert feed.refresh()
    assert heeded == [("g", ["t", "u"], 5)]
    feed.on_nudge = lambda: True
    assert feed.refresh()
    assert heeded[1:] == [("g", ["t", "u"], 5), ("g", feed.on_nudge)]
    assert caplog.messages == [], "just in time"
    fetch.takes = 5.25
    assert feed.refresh()
    assert caplog.messages == ["the lag of group 'g' took 5.2 s"]
    assert feed.asked_s == 1010.0, "when it was asked, not when it was answered"
    plain = LagFeed("g", lambda *_: TABLE, topics=["t"])
    plain.on_nudge = lambda: True
    assert plain.refresh(), "a function of a user's own hears of no nudges"


def test_the_thread_of_a_feed_asks_at_once_for_what_a_plan_wants_and_ends_with_it() -> None:
    asked: list[Any] = []

    class Fetch:
        closed = 0

        def __call__(self, group: str, topics: Any, deadline_s: float) -> Any:
            asked.append((group, list(topics), deadline_s))
            return TABLE

        def close(self) -> None:
            self.closed += 1

    fetch = Fetch()
    feed = LagFeed("g", fetch, topics=["t"], every_s=3600, deadline_s=2)
    with feed as entered:
        assert entered is feed
        thread = feed._thread
        assert thread is not None
        assert (thread.name, thread.daemon) == ("lag of g", True)
        assert feed.start() is feed
        assert feed._thread is thread, "one is enough"
        until(lambda: len(asked) == 1)
        assert feed.table(["t"]) == ({"t": TABLE["t"]}, None)
        feed.table(["t", "u"])
        until(lambda: len(asked) == 2)
        assert asked == [("g", ["t"], 2), ("g", ["t", "u"], 2)]
        assert fetch.closed == 0
    thread.join(60)
    assert (thread.is_alive(), fetch.closed, len(asked)) == (False, 1, 2)
    feed.close()
    assert fetch.closed == 1
    with LagFeed("g", lambda *_: TABLE, topics=["t"], every_s=3600) as other:
        threads = [one for one in threading.enumerate() if one is other._thread]
    [thread] = threads
    thread.join(60)
    assert not thread.is_alive(), "a function has no close"
    often = LagFeed("g", fetch, topics=["t"], every_s=0.001)
    asked.clear()
    with often:
        until(lambda: len(asked) > 3)


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
