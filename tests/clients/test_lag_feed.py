"""The lag feed: few requests for all topics, never a wait in a plan, and counts where it is late."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.clients.joining import JoiningMember, assign
from tests.serve.running import until
from tests.support.examples import thorough

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.options import Options
from apportion.clients.lag_feed import LagFeed, Sampled, folder_offsets, kafka_offsets
from apportion.testing.broker import Broker
from apportion.wire.subscription import Subscription

from .groups import Members, new_name, owned, settle

ROWS = {"t": {0: {"begin": 0, "end": 100, "committed": 0}, 1: {"begin": 0, "end": 9, "committed": 5}}}


class Topics:
    """A cluster of one topic with two partitions."""

    def partitions(self, topic: str) -> list[int]:
        return [0, 1]

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


def plan(feed: LagFeed, caplog: pytest.LogCaptureFixture) -> tuple[Any, str]:
    """The measures of one plan with the feed, and the log."""
    seen: list[Any] = []
    bridge = Bridge("lag-aware", Options(lag=feed, on_plan=seen.append))
    with caplog.at_level("INFO", logger="apportion.clients"):
        assign(bridge, [JoiningMember("a", None, Subscription(("t",)))], Topics())
    return seen[0].plan.measures, caplog.text


def test_a_plan_uses_the_newest_offsets(caplog: pytest.LogCaptureFixture):
    feed = LagFeed("g", lambda group, topics, deadline_s: ROWS, topics=["t"])
    assert feed.refresh()
    measures, log = plan(feed, caplog)
    assert measures["lag_max"] == 104
    assert "lag is unknown" not in log


@pytest.mark.parametrize("trouble", ["nothing yet", "too old", "failed"])
def test_a_late_or_failing_feed_means_counts_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture, trouble: str):
    def fetch(group: str, topics: Any, deadline_s: float) -> Any:
        if trouble == "failed":
            raise TimeoutError("the brokers are asleep")
        return ROWS

    feed = LagFeed("g", fetch, topics=["t"], max_age_s=0.01 if trouble == "too old" else 60)
    if trouble != "nothing yet":
        feed.refresh()
        time.sleep(0.05)
    measures, log = plan(feed, caplog)
    assert "lag_max" not in measures
    assert "the plan counts partitions, since lag is unknown" in log
    wanted = {"nothing yet": "nothing was fetched yet", "too old": "s old, at most 0.01", "failed": "are asleep"}
    assert wanted[trouble] in log


@pytest.mark.parametrize(
    "table",
    [None, {"t": [{"end": 1}]}, {"t": {0: 5}}, {"t": {0: {"end": float("nan")}}}, {"t": {0: {"end": 2**70}}}],
    ids=str,
)
def test_offsets_that_are_none_mean_counts_and_words_in_the_log(caplog: pytest.LogCaptureFixture, table: Any):
    """A function of a user's own that gives nonsense must not make every rebalance of the group fail."""
    feed = LagFeed("g", lambda group, topics, deadline_s: table, topics=["t"])
    feed.refresh()
    measures, log = plan(feed, caplog)
    assert "lag_max" not in measures
    assert "since the offsets of the lag feed cannot be used" in log


def test_without_a_feed_each_plan_warns_once_and_claims_nothing_of_lag(caplog: pytest.LogCaptureFixture):
    seen: list[Any] = []
    bridge = Bridge("lag-aware", Options(on_plan=seen.append))
    for generation in (1, 2):
        caplog.clear()
        with caplog.at_level("WARNING", logger="apportion.clients"):
            assign(bridge, [JoiningMember("a", None, Subscription(("t",)))], Topics(), "g", generation)
        assert [record.getMessage() for record in caplog.records] == [
            "the plan counts partitions: lag-aware was given no lag, as by assignor(..., lag=feed)"
        ]
    assert seen[-1].plan.proof == {"balance": "optimal", "lag": "heuristic", "moves": "optimal"}
    assert any("lag: not known of any partition" in line for line in seen[-1].plan.explain())


def test_a_strategy_that_looks_at_no_lag_does_not_miss_it(caplog: pytest.LogCaptureFixture):
    for strategy, options in (("sticky", {}), ("lag-aware", {"by": "weight"})):
        bridge = Bridge(strategy, Options(), options)
        assign(bridge, [JoiningMember("a", None, Subscription(("t",)))], Topics())
    assert "lag" not in caplog.text


def test_a_feed_that_hangs_makes_nobody_wait(caplog: pytest.LogCaptureFixture):
    """The fetch ends only after the plan is there, so that a plan that waited for it would wait for ever."""
    planned = threading.Event()

    def hanging(group: str, topics: Any, deadline_s: float) -> Any:
        planned.wait()
        return ROWS

    with LagFeed("g", hanging, topics=["t"]) as feed:
        measures, _ = plan(feed, caplog)
        planned.set()
        assert "lag_max" not in measures


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """Four partitions with 100, 60, 40 and 1 messages."""
    from kafka import KafkaProducer

    name = new_name("lag")
    broker.create_topic(name, 4)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for partition, count in enumerate((100, 60, 40, 1)):
        for _ in range(count):
            producer.send(name, b"x", partition=partition)
    producer.flush()
    producer.close()
    return name


@pytest.mark.broker
def test_all_topics_cost_few_requests(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch):
    """Begin, end and committed of six topics: as many requests as for one."""
    from kafka import KafkaAdminClient

    others = [new_name("lag") for _ in range(5)]
    for other in others:
        broker.create_topic(other, 2)
    sent: list[str] = []
    made = KafkaAdminClient.__init__

    def counting(self: Any, **configs: Any) -> None:
        made(self, **configs)
        send = self._manager.send

        def counted(request: Any, *args: Any, **kwargs: Any) -> Any:
            sent.append(type(request).__name__)
            return send(request, *args, **kwargs)

        self._manager.send = counted

    monkeypatch.setattr(KafkaAdminClient, "__init__", counting)
    fetch, group = kafka_offsets(bootstrap_servers=broker.bootstrap), new_name("nobody")
    fetch(group, [topic], 120)  # until a young broker has loaded its coordinator
    sent.clear()
    table = fetch(group, [topic, *others], 120)
    assert table[topic][0] == {"begin": 0, "end": 100}
    assert all(table[other] == {0: {"begin": 0, "end": 0}, 1: {"begin": 0, "end": 0}} for other in others)
    for_six = len(sent)
    fetch(group, [topic], 120)
    fetch.close()  # type: ignore[attr-defined]
    assert for_six <= 8, sent
    assert len(sent) - for_six <= for_six


@pytest.mark.broker
def test_a_closed_feed_leaves_no_thread_of_the_client_and_starts_again(broker: Broker, topic: str):
    before = set(threading.enumerate())
    feed = LagFeed(new_name("nobody"), kafka_offsets(bootstrap_servers=broker.bootstrap), topics=[topic], every_s=600)
    for _ in range(2):
        with feed:
            until(lambda: set(feed.table([topic])[0]) == {topic})
            assert len(set(threading.enumerate()) - before) == 2  # the feed's and the client's
        until(lambda: set(threading.enumerate()) <= before)
        feed._newest = None


def test_a_feed_that_was_started_again_keeps_what_it_fetches_with():
    """The thread of before ends while the new one fetches: it must not close the client under its hands."""

    class Client:
        closed = 0

        def __init__(self) -> None:
            self.asked, self.answers = threading.Semaphore(0), threading.Event()

        def __call__(self, group: str, topics: Any, deadline_s: float) -> Any:
            self.asked.release()
            self.answers.wait(60)
            return ROWS

        def close(self) -> None:
            self.closed += 1

    client = Client()
    feed = LagFeed("g", client, topics=["t"], every_s=600).start()
    first = feed._thread
    assert client.asked.acquire(timeout=60)
    feed.close()
    feed.start()
    assert client.asked.acquire(timeout=60)  # the second thread's
    client.answers.set()
    assert first is not None
    first.join(60)
    assert (first.is_alive(), client.closed) == (False, 0)
    feed.close()
    until(lambda: client.closed == 1)


@pytest.mark.broker
def test_a_topic_that_is_not_there_is_named(broker: Broker, topic: str):
    absent = new_name("absent")
    before = set(threading.enumerate())
    feed = LagFeed(new_name("nobody"), kafka_offsets(bootstrap_servers=broker.bootstrap), topics=[topic, absent])
    assert feed.refresh()
    table, missing = feed.table([topic, absent])
    assert (set(table), missing) == ({topic}, f"no offsets yet of {absent}")
    feed.close()
    until(lambda: set(threading.enumerate()) <= before)


@pytest.mark.broker
@pytest.mark.parametrize("client", ["kafka-python", thorough("aiokafka")])
def test_a_lag_aware_group_shares_by_messages(broker: Broker, topic: str, client: str, tmp_path: Path):
    """100 and 1 to one member, 60 and 40 to the other: 101 against 100 messages."""
    with Members(broker, new_name("lag"), [topic], tmp_path) as group:
        config = {"lag": True, "commit_ms": -1, "settings": {"auto_offset_reset": "earliest"}}
        members = [group.python(client, "lag-aware", **config) for _ in range(2)]
        settle(members, {topic: 4})
        assert sorted(owned(member)[topic] for member in members) == [[0, 3], [1, 2]]


def test_offsets_come_from_the_pipelines_table_too(tmp_path: Path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [("g", "t", 0, 0, 100, 40), ("g", "t", 1, 0, 9, None), ("other", "t", 0, 0, 5, 5)]
    names = ["group", "topic", "partition", "begin", "end", "committed"]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    parquet.write_table(pa.table(columns), tmp_path / "part-0.parquet")
    table = folder_offsets(tmp_path)("g", ["t"], 5)
    assert table == {"t": {0: {"begin": 0, "end": 100, "committed": 40}, 1: {"begin": 0, "end": 9}}}


def test_the_age_of_a_tables_offsets_counts_from_when_they_were_sampled(tmp_path: Path):
    """Read this instant, but sampled an hour ago: of no use to a feed that allows a minute; a fresh topic stays."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    now = datetime.now(UTC)
    sampled = {"old": now - timedelta(hours=1), "fresh": now - timedelta(seconds=5), "gone": None}
    rows: dict[str, list[Any]] = {"group": ["g"] * 3, "topic": list(sampled), "partition": [0] * 3}
    rows |= {"begin": [0, 0, None], "end": [9, 9, None], "committed": [1, 2, 3]}
    parquet.write_table(pa.table({**rows, "sampled_at": list(sampled.values())}), tmp_path / "part-0.parquet")
    table = folder_offsets(tmp_path)("g", list(sampled), 5)
    assert isinstance(table, Sampled)
    assert 3600 <= table.age_s["old"] < 3900
    assert 5 <= table.age_s["fresh"] < 300
    feed = LagFeed("g", folder_offsets(tmp_path), topics=sampled, max_age_s=600)
    assert feed.refresh()
    known, why = feed.table(["old", "fresh"])
    assert (set(known), why) == ({"fresh"}, "those of old are more than 600 s old")
    known, why = feed.table(["old"])
    assert known == {}
    assert why is not None
    assert why.startswith("the newest offsets are 36")
