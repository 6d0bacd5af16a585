"""Families, bounds and lag in time of the server, on made-up snapshots."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from apportion.demo import dump
from apportion.errors import UnknownName
from apportion.history.stood_still import standstills
from apportion.model.group import Group, Offsets
from apportion.model.group_json import read_group
from apportion.serve import advice
from apportion.serve.advice import Advisor, advised
from apportion.serve.answers import Answers
from apportion.serve.collector import Collector
from apportion.serve.derived_state import (
    commits_then,
    group_state,
    group_with_offsets,
    lag_times_of,
)
from apportion.serve.end_times import AllEnds, Commits, EndTimes
from apportion.serve.exposition import EMPTY
from apportion.serve.faults import Faults
from apportion.serve.metrics import Renderer, chosen, every
from apportion.serve.names import shown_ids
from apportion.serve.past import GroupPast
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import CAUSES, GroupState, Snapshot
from apportion.sighting.governed import CarriedPlan
from apportion.sources.cluster import partition_of_group
from apportion.sources.cluster_round import DescribedGroup, Round, TopicLog
from apportion.sources.config import Connection
from apportion.sources.load_history import load_histories
from apportion.sources.properties import Properties

Found = dict[str, list[tuple[dict[str, str], float]]]
MEMBERS = ("cli-1", "cli-2")
NAME = 'a"b\\c\nd{e="f"} é'
TOPICS = {
    "clicks": TopicLog("AAAAAAAAAAAAAAAAAAAAAQ", np.arange(4), np.array([0, 0, 0, 5]), np.full(4, 10), ((),) * 4),
    NAME: TopicLog(None, np.arange(2), np.zeros(2, dtype=np.int64), np.array([3, -1]), ((),) * 2),
}


def seen(name: str, owned: Mapping[str, list[int]], committed: Mapping[tuple[str, int], int]) -> DescribedGroup:
    """A group whose first member holds what is owned, and whose second holds nothing."""
    fields = {"instance_id": None, "client_id": "cli", "host": "/10.0.0.1", "rack": None, "topics": ["clicks"]}
    members = {"cli-1": {**fields, "owned": owned}, "cli-2": {**fields, "owned": {}}}
    told = {"state": "Stable", "protocol": "classic", "assignor": "range", "generation": None, "notes": []}
    return DescribedGroup(name, "b:1 (1)", {**told, "members": members, "wanted": {"clicks"}}, committed)


def snapshot(*groups: DescribedGroup, settings: ServerSettings, at: float | None = None) -> Snapshot:
    """Two rounds that saw these groups as they are, the second just now."""
    now = time.time() if at is None else at
    states, ends = {}, {}
    for topic, log in TOPICS.items():
        ends[topic] = EndTimes(log.topic_id, log.number)
        ends[topic].add(now - 20, log.end - 4)
        ends[topic].add(now, log.end)
    for one in groups:
        built = group_with_offsets(one, TOPICS, None)
        group = built.group
        past = GroupPast(one.name, {})
        commits = commits_then(group, now - 20, None).then(now, offsets_of(group).committed)
        ((times, whole),) = lag_times_of([(group, commits, None)], AllEnds(ends), now)
        states[one.name] = group_state(one, built, TOPICS, now, past, None, (times, whole), commits, settings, ())
    told = Round(now, cluster_id="cluster-id", brokers=3, topics=TOPICS)
    return Snapshot(1, told, states, trouble="")


def offsets_of(group: Group) -> Offsets:
    """What is known of its logs."""
    assert group.offsets is not None
    return group.offsets


def samples(
    settings: ServerSettings, one: Snapshot, now: float | None = None
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Name to labels and values, read by the official client's parser."""
    rendered = Renderer(settings).render(one, time.time() if now is None else now)
    found: Found = {}
    for family in text_string_to_metric_families(b"".join(rendered.pieces()).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    assert sum(map(len, found.values())) == rendered.series
    return found


GOVERNED = tuple(f"apportion_group_governed_plan_{what}" for what in ("timestamp_seconds", "differing_partitions"))


def test_a_governed_group_tells_when_its_plan_is_of_and_how_many_partitions_differ() -> None:
    settings = ServerSettings(cluster_name="c")
    one = seen(NAME, {"clicks": [0]}, {("clicks", 0): 1})
    under = CarriedPlan(1_764_000_000, {("clicks", p): "m" for p in range(3)}, ())
    one = replace(one, facts={**one.facts, "governed": under})
    found = samples(settings, snapshot(one, settings=settings))
    assert [found[name][0][1] for name in GOVERNED] == [1_764_000_000, 3]


def test_every_family_is_told_by_its_name_with_values_that_add_up() -> None:
    settings = ServerSettings(cluster_name='c"1', names="all")
    one = seen(NAME, {"clicks": [0, 1, 2, 3]}, {("clicks", 0): 10, ("clicks", 1): 4, ("clicks", 3): 1, (NAME, 0): 1})
    found = samples(settings, snapshot(one, settings=settings))
    assert set(found) == {family.name for family in every()} - {
        "apportion_group_advised_members", "apportion_group_partition_stuck_seconds", *GOVERNED
    }  # fmt: skip
    label = {"cluster_name": 'c"1', "group": NAME}
    nobody = {"member_host": "", "consumer_id": "", "client_id": ""}
    lag = {tuple(had.values())[2:4]: value for had, value in found["kafka_consumergroup_group_lag"]}
    assert lag == {("clicks", "0"): 0, ("clicks", "1"): 6, ("clicks", "3"): 5, (NAME, "0"): 2}
    assert ({**label, "topic": "clicks", "partition": "0", **nobody}, 0.0) in found["kafka_consumergroup_group_lag"]
    assert found["kafka_consumergroup_group_sum_lag"] == [(label, 11.0)], "nobody wants the other topic any more"
    assert found["kafka_consumergroup_group_max_lag"] == [(label, 6.0)]
    never = {"consumergroup": NAME, "topic": "clicks", "partition": "2"}
    assert (never, -1.0) in found["kafka_consumergroup_lag"]
    assert (never, -1.0) in found["kafka_consumergroup_current_offset"]
    assert found["kafka_consumergroup_members"] == [({"consumergroup": NAME}, 2.0)]
    assert found["apportion_group_excess_moves"] == [(label, 2.0)], "4 and 0 become 2 and 2"
    assert found["apportion_group_excess_squares"] == [(label, 8.0)]
    assert found["apportion_group_topic_concentration"] == [(label, 1.0)]
    assert found["apportion_group_partitions_expired_unread"] == [(label, 1.0)]
    assert sorted(had["cause"] for had, _ in found["apportion_group_rebalances_total"]) == sorted(CAUSES)
    assert found["kafka_brokers"] == [({}, 3.0)]
    about = {"group_id": NAME, "protocol": "range", "protocol_type": "consumer", "state": "Stable"}
    assert found["kminion_kafka_consumer_group_info"] == [(about, 1.0)]


def test_what_is_shared_or_read_by_several_is_not_counted_as_without_an_owner() -> None:
    settings, name = ServerSettings(), "apportion_group_unowned_partitions"
    both = {"clicks": [0, 1]}
    one = seen("twice", both, {})
    members = one.facts["members"]
    twice = replace(one, facts={**one.facts, "members": {m: {**members[m], "owned": both} for m in MEMBERS}})
    shared = seen("shared", {}, {})
    shared = replace(shared, facts={**shared.facts, "protocol": "share"})
    found = samples(settings, snapshot(twice, shared, settings=settings))[name]
    assert [(labels["group"], value) for labels, value in found] == [("twice", 2)], "clicks-2 and clicks-3"


def test_an_empty_cluster_has_brokers() -> None:
    found = samples(ServerSettings(names="all"), Snapshot(1, Round(time.time(), brokers=3), trouble=""))
    assert found["kafka_brokers"] == [({}, 3.0)]
    assert "kafka_brokers" not in samples(
        ServerSettings(), Snapshot(1, Round(time.time() - 100, brokers=3), trouble="")
    )


def test_families_are_chosen_by_whose_they_are_and_by_name() -> None:
    assert {family.of for family in chosen("kminion")} == {"kminion"}
    assert [family.name for family in chosen("kafka_brokers")] == ["kafka_brokers"]
    assert len(chosen("all")) == len(every())
    assert {family.of for family in chosen("")} == {"kafka-lag-exporter", "apportion"}
    of_partitions = [
        "kafka_consumergroup_group_lag",
        "kafka_consumergroup_group_lag_seconds",
        "kafka_consumergroup_group_offset",
    ]
    by_default = [
        family.name for family in chosen("") if family.measure.level == "partition" and family.of != "apportion"
    ]
    assert by_default == of_partitions, "each lag once"
    assert set(chosen("-kafka-lag-exporter")) == set(chosen("apportion"))
    assert len(chosen("all,-kafka_brokers")) == len(every()) - 1
    assert "kafka_brokers" not in {family.name for family in chosen("kafka_exporter,-kafka_brokers")}
    with pytest.raises(UnknownName, match="no family of metrics is named 'burrow'"):
        chosen("burrow")
    settings = ServerSettings(names="apportion,-apportion_group_rebalances_total")
    found = samples(settings, snapshot(seen("g", {"clicks": [0, 1, 2, 3]}, {}), settings=settings))
    assert found
    assert all(name.startswith("apportion_group_") for name in found)


def test_beyond_the_bound_partitions_are_left_out_before_groups_and_how_many_is_told() -> None:
    groups = [seen(f"g-{n:02}", {"clicks": [0, 1, 2, 3]}, {("clicks", p): 1 for p in range(4)}) for n in range(20)]
    settings = ServerSettings(most_series=600)
    one = snapshot(*groups, settings=settings)
    whole = Renderer(ServerSettings()).render(one, time.time())
    bounded = Renderer(settings).render(one, time.time())
    assert bounded.series == 600
    assert bounded.left_out == whole.series - 600
    answers = Answers(Collector(replace(settings, tail=False), Connection("127.0.0.1:1", Properties())))
    answers.collector._publish(one)
    assert answers.notes(one)[-1].startswith(f"{bounded.left_out:,} series are beyond the bound of 600 and are not")
    found = samples(settings, one)
    assert len(found["kafka_consumergroup_group_sum_lag"]) == 20
    assert "kminion_kafka_consumer_group_topic_partition_lag" not in found


def test_what_is_too_old_is_not_told_as_if_it_were_now() -> None:
    settings = ServerSettings(interval_s=10)
    one = snapshot(seen("g", {"clicks": [0]}, {("clicks", 0): 1}), settings=settings)
    assert samples(settings, one, one.round.at + 59)
    assert not samples(settings, one, one.round.at + 61)
    assert b"".join(EMPTY.pieces()) == b""


def test_lag_in_time_is_how_long_ago_the_log_passed_the_commit() -> None:
    """Half way to 110; after 120, when the next one came; half way to 130: of the message at the commit."""
    group = read_group({"topics": {"t": 6}, "members": {"a": {"topics": ["t"]}}})
    table = EndTimes("id", np.arange(6))
    for at, end in ((100.0, 0), (110.0, 100), (120.0, 100), (130.0, 300)):
        table.add(at, np.full(6, end))
    commits = np.array([300, 400, 50, 100, 200, -1])
    offsets = Offsets(np.zeros(6, np.int64), np.full(6, 300), commits, np.full(6, -1))
    rounds = Commits.none(6).then(130.0, commits)
    ((lag, _),) = lag_times_of([(replace(group, offsets=offsets), rounds, None)], AllEnds({"t": table}), 140.0)
    assert lag.seconds[:5].tolist() == pytest.approx([0, 0, 34.9, 19.95, 14.95])
    assert lag.at_least[:5].tolist() == [0, 0, 30, 10, 10]
    assert np.isnan(lag.seconds[5])


def test_an_older_commit_than_the_table_has_is_at_least_as_old_as_the_table() -> None:
    settings = ServerSettings()
    shown = snapshot(seen("g", {}, {("clicks", 0): 3}), settings=settings, at=1000.0)
    (state,) = shown.groups.values()
    (p,) = [p for p in range(state.group.P) if state.group.name_of(p) == ("clicks", 0)]
    assert (state.times.at_least[p], state.seconds[p]) == (20, 20), "the log was at 6 twenty seconds ago"
    assert np.isnan(state.times.seconds[p])
    assert not EndTimes("id", np.arange(1)).fits("other", np.arange(1))


def test_client_ids_are_taken_out_of_member_ids_and_these_stay_different() -> None:
    members: dict[str, dict[str, Any]] = {
        "ann-0f": {"client_id": "ann"},
        "bob-0f": {"client_id": "bob"},
        "ann-ann-1": {"client_id": "ann"},
        "Xy_z": {"client_id": ""},
        "c": {"client_id": "c"},
    }
    shown = shown_ids(members)
    assert len(set(shown.values())) == 5
    assert not any("ann" in name or "bob" in name for name in shown.values())


THE_COLLECTORS = {
    "kafka.consumer_group.lag", "kafka.consumer_group.lag_sum", "kafka.consumer_group.members",
    "kafka.consumer_group.offset", "kafka.consumer_group.offset_sum", "kafka.partition.current_offset",
    "kafka.partition.oldest_offset", "kafka.topic.partitions",
}  # fmt: skip
"""Names of the OpenTelemetry collector's ``kafkametricsreceiver``, by its documentation.md."""
OURS = {
    f"apportion.group.{name}"
    for name in ("excess_moves", "excess_squares", "topic_concentration", "rebalance_time", "standstill_time")
}
"""Those that docs/serve.md lists beside them."""


def test_otlp_sends_what_a_receiver_reads_under_the_collectors_names() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    from apportion.serve.otlp import Exporter

    bodies: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            import gzip

            raw = self.rfile.read(int(self.headers["content-length"]))
            bodies.append(gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    receiver = HTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=receiver.serve_forever, daemon=True).start()
    settings = ServerSettings(cluster_name="c", otlp_endpoint=f"http://127.0.0.1:{receiver.server_port}/v1/metrics")

    class Collected:
        faults = Faults()

    one: Any = Collected()
    one.snapshot = snapshot(seen(NAME, {"clicks": [0, 1, 2, 3]}, {("clicks", 0): 7}), settings=settings)
    past = one.snapshot.groups[NAME].past
    past.rebalance_ms, past.standstill_ms = 1500, 4000
    Exporter(settings, one).close()
    receiver.shutdown()
    receiver.server_close()
    told = ExportMetricsServiceRequest.FromString(b"".join(bodies))
    metrics = {m.name: m for r in told.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert set(metrics) == THE_COLLECTORS | OURS
    sums = [metrics[f"apportion.group.{name}_time"].sum for name in ("rebalance", "standstill")]
    assert [(one.is_monotonic, one.data_points[0].as_double) for one in sums] == [(True, 1.5), (True, 4.0)]
    [point] = metrics["kafka.consumer_group.lag"].gauge.data_points
    labels = {a.key: a.value.string_value or a.value.int_value for a in point.attributes}
    assert (point.as_int, labels) == (3, {"kafka.cluster.alias": "c", "group": NAME, "topic": "clicks", "partition": 0})
    assert json.dumps(labels)


def test_a_receiver_that_is_away_is_one_line_when_it_goes_and_one_when_it_is_back(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the SDK tries, and whatever it says each time."""
    pytest.importorskip("opentelemetry.sdk")
    from apportion.serve.otlp import Exporter

    answers = [400, 400, 500, 200, 200, 404]

    class Moody(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(answers.pop(0))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Collected:
        faults = Faults()

    receiver = HTTPServer(("127.0.0.1", 0), Moody)
    Thread(target=receiver.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # so that it does not try again, each time later
    settings = ServerSettings(cluster_name="c")
    collected: Any = Collected()
    collected.snapshot = snapshot(seen(NAME, {"clicks": [0]}, {("clicks", 0): 7}), settings=settings)
    url = f"http://ann:s3cret@127.0.0.1:{receiver.server_port}/v1/metrics?key=s3cret"
    exporter = Exporter(replace(settings, otlp_endpoint=url), collected)
    while answers:
        exporter._provider.force_flush()
    receiver.shutdown()
    receiver.server_close()
    exporter._provider.force_flush()
    exporter.close()
    lines = [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]
    gone = "the receiver at --otlp-endpoint takes no numbers ({}); they are sent on until it does"
    back = "the receiver at --otlp-endpoint takes numbers again"
    assert lines == [gone.format("400 Bad Request"), back, gone.format("404 Not Found")]
    assert "s3cret" not in caplog.text + capfd.readouterr().err
    caplog.clear()
    away = Exporter(replace(settings, otlp_endpoint=url), collected)
    away._provider.force_flush()
    away.close()
    [line] = [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]
    late = "Failed to export metrics batch due to timeout, max retries or shutdown."  # on a machine that is busy
    assert line in (gone.format("Connection refused"), gone.format(late))


def test_the_time_to_catch_up_is_that_of_the_slowest_member_at_the_pace_of_the_last_rounds() -> None:
    one = seen("g", {"clicks": [0, 1, 2, 3]}, {("clicks", p): 0 for p in range(4)})
    group = group_with_offsets(one, TOPICS, None).group
    ends = {"clicks": EndTimes("id", np.arange(4))}
    ends["clicks"].add(0.0, np.full(4, 100))
    ends["clicks"].add(100.0, np.full(4, 110))

    def after(first: int, last: int, *rounds: float) -> float | None:
        read = np.full(4, last)
        seen_now = replace(group, offsets=Offsets(np.zeros(4, np.int64), np.full(4, 110), read, np.full(4, -1)))
        commits = Commits.none(4)
        for at, offset in zip(rounds, (first, last), strict=False):
            commits = commits.then(at, np.full(4, offset))
        ((_, whole),) = lag_times_of([(seen_now, commits, None)], AllEnds(ends), 130.0)
        return whole.catch_up_s

    assert after(0, 20, 0.0, 100.0) == pytest.approx(360 / 0.4), "360 messages left, 0.8 read and 0.4 written a second"
    assert after(0, 10, 0.0, 100.0) == float("inf"), "read as fast as written"
    assert after(0, 110, 0.0, 100.0) == 0
    assert after(20, 20, 100.0) is None, "seen once"


def test_the_advised_number_of_members_follows_the_work_that_comes_in() -> None:
    settings = ServerSettings(capacity=100)
    one = seen("g", {"clicks": [0, 1, 2, 3]}, {("clicks", p): 0 for p in range(4)})
    state = snapshot(one, settings=settings, at=1000.0).groups["g"]
    ends = {"clicks": EndTimes("id", np.arange(4))}
    ends["clicks"].add(900.0, np.zeros(4, dtype=np.int64))
    assert advised(state, AllEnds(ends), 100) is None, "seen once"
    ends["clicks"].add(1000.0, np.array([9000, 9000, 9000, 1000]))
    assert advised(state, AllEnds(ends), 100) == 3, "90, 90, 90 + 10 a second"
    assert advised(state, AllEnds(ends), 1000) == 1


def test_the_advised_number_does_not_swing_with_a_job_of_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve members for ten minutes, one for the next twenty, and so on: twelve stay until an hour is quiet."""
    needed = iter([12] * 10 + [1] * 20 + [12] * 10 + [1] * 80)
    monkeypatch.setattr(advice, "advised", lambda *_: next(needed))
    advisor = Advisor(ServerSettings(capacity=1.0), Faults())
    state = snapshot(seen("g", {"clicks": [0]}, {}), settings=ServerSettings()).groups["g"]
    given = []
    for minute in range(120):
        groups = {"g": replace(state, seen=60.0 * minute)}
        advisor.look(groups, AllEnds({}))
        given.append(groups["g"].advised_members)
    assert given == [12] * 100 + [1] * 20


def test_the_advised_number_counts_what_waits_where_that_is_wished_and_goes_on_without_members() -> None:
    settings, written = ServerSettings(capacity=100), np.array([9000, 9000, 9000, 1000])
    table = EndTimes("id", np.arange(4))
    table.add(900.0, np.zeros(4, dtype=np.int64))
    table.add(1000.0, written)
    ends, logs = (
        AllEnds({"clicks": table}),
        {"clicks": replace(TOPICS["clicks"], begin=np.zeros(4, dtype=np.int64), end=written)},
    )

    def after(one: DescribedGroup, old: GroupState | None) -> GroupState:
        built = group_with_offsets(one, logs, old)
        commits = Commits.none(built.group.P)
        ((times, whole),) = lag_times_of([(built.group, commits, None)], AllEnds({}), 1000.0)
        past = GroupPast("g", {})
        return group_state(one, built, logs, 1000.0, past, old, (times, whole), commits, settings, ())

    one = seen("g", {"clicks": [0, 1, 2, 3]}, {("clicks", p): 0 for p in range(4)})
    manned = after(one, None)
    assert advised(manned, ends, 200) == 2, "90, 90, 90 + 10 a second come in"
    assert advised(manned, ends, 200, 100.0) == 3, "and as much a second of what waits: 180, 180, 180 + 20"
    left = after(replace(one, facts={**one.facts, "members": {}, "state": "Empty"}), manned)
    assert left.group.M == 0
    assert advised(left, ends, 200, 100.0) == 3, "nobody reads now: by the subscriptions of before"


def test_of_a_topic_made_anew_no_lag_is_known_until_the_group_commits_there() -> None:
    one = seen("g", {"clicks": [0, 1, 2, 3]}, {("clicks", p): 7 for p in range(4)})
    assert group_with_offsets(one, TOPICS, None).group.lag_known.all()
    before = group_with_offsets(one, TOPICS, None, stale=dict(one.committed)).group
    assert not before.lag_known.any()
    again = replace(one, committed={**one.committed, ("clicks", 1): 2})
    known = group_with_offsets(again, TOPICS, None, stale=dict(one.committed)).group.lag_known
    assert known.tolist() == [False, True, False, False]


def test_a_topic_made_anew_is_told_with_its_groups_for_an_hour() -> None:
    collector = Collector(ServerSettings(tail=False), Connection("127.0.0.1:1", Properties()))
    one = seen("g", {"clicks": [0]}, {("clicks", 0): 7})

    def told(at: float, topic_id: str) -> bool:
        topics = {**TOPICS, "clicks": replace(TOPICS["clicks"], topic_id=topic_id)}
        found = Round(at=at, groups={"g": one}, topics=topics)
        collector.snapshot = Snapshot(round=found, groups=collector._groups(found))
        return any("clicks was deleted and created again" in line for line in collector.snapshot.groups["g"].noted)

    assert not told(1_000, "old")
    assert all(told(at, "new") for at in (1_010, 2_000, 4_600))
    assert not told(4_620, "new")


def test_a_group_is_gone_when_it_stays_away_and_not_when_a_broker_has_just_come_back() -> None:
    collector = Collector(ServerSettings(tail=False), Connection("127.0.0.1:1", Properties()))
    one = seen("g", {"clicks": [0, 1, 2, 3]}, {("clicks", 0): 1})

    def after(at: float, *groups: DescribedGroup, all_listed: bool = True) -> tuple[bool, float | None]:
        found = Round(at=at, ended=at, topics=dict(TOPICS), silent=frozenset() if all_listed else frozenset({1}))
        found.groups = {group.name: group for group in groups}
        collector._publish(Snapshot(1, found, groups=collector._groups(found), trouble=""))
        state = collector.snapshot.groups["g"]
        return state.gone, state.unknown_since

    assert after(100, one) == (False, None)
    assert after(105) == (False, 105), "not listed just now"
    assert after(108, one) == (False, None)
    assert after(110) == (False, 110)
    assert after(121) == (True, 110)
    assert after(130, one) == (False, None)
    assert after(400, all_listed=False) == (False, 130), "a broker that lists nothing says nothing of its groups"


def test_a_group_that_a_broker_does_not_list_after_its_return_is_unknown_until_it_had_time_to_load() -> None:
    collector = Collector(ServerSettings(tail=False), Connection("127.0.0.1:1", Properties()))
    one = seen("g", {"clicks": [0]}, {("clicks", 0): 7})

    def look(at: float, *groups: DescribedGroup, listed_all: bool = True) -> Any:
        listed = {group.name: group for group in groups}
        silent = frozenset() if listed_all else frozenset({1})
        found = Round(at=at, groups=listed, topics=TOPICS, silent=silent)
        collector.snapshot = Snapshot(round=found, groups=collector._groups(found))
        return collector.snapshot.groups["g"]

    assert look(1_000, one).unknown_since is None
    assert not look(1_001).gone
    assert look(1_012).gone, "no broker was away"
    assert not look(1_020, one).gone
    assert "its coordinator does not list its groups" in look(1_030, listed_all=False).noted[0]
    assert not look(1_040).gone
    assert not look(1_330).gone, "its broker may still load"
    assert look(1_350).gone
    assert look(2_000, one).unknown_since is None
    assert not look(2_010).gone
    assert look(2_025).gone


def test_a_group_whose_coordinator_has_changed_is_unknown_until_the_new_one_had_time_to_load() -> None:
    """A broker that stops in good order is not in the next answer: no request fails, and no list is missing."""
    collector = Collector(ServerSettings(tail=False), Connection("127.0.0.1:1", Properties()))
    one = seen("g", {"clicks": [0]}, {("clicks", 0): 7})

    def gone(at: float, leader: tuple[int, int], *groups: DescribedGroup) -> bool:
        listed = {group.name: group for group in groups}
        found = Round(at=at, groups=listed, topics=TOPICS, leaders={0: leader})
        collector.snapshot = Snapshot(round=found, groups=collector._groups(found))
        return collector.snapshot.groups["g"].gone

    assert not gone(1_000, (1, 5), one)
    assert not gone(1_010, (2, 6)), "moved to broker 2"
    assert not gone(1_100, (2, 6)), "which may still load"
    assert not gone(1_200, (2, 6), one)
    assert not gone(1_210, (2, 7)), "broker 2 was started anew between two rounds"
    assert not gone(1_500, (2, 7))
    assert gone(1_520, (2, 7))
    assert not gone(1_900, (2, 7), one)
    assert not gone(1_910, (-1, 7))
    assert not gone(9_000, (-1, 7)), "nobody can be asked"


def test_groups_that_come_and_go_beside_a_broker_that_cannot_be_reached_are_not_kept_for_ever() -> None:
    """Only what the silent broker coordinates may still be there."""
    collector = Collector(ServerSettings(tail=False), Connection("127.0.0.1:1", Properties()))
    leaders = {0: (1, 0), 1: (2, 0)}  # of two partitions, broker 2 does not answer
    names = [f"g-{n}" for n in range(40)]
    theirs = {name for name in names if partition_of_group(name, 2) == 1}
    assert 0 < len(theirs) < 40

    def look(at: float, *listed: str, silent: frozenset[int] = frozenset({2})) -> set[str]:
        groups = {name: seen(name, {"clicks": [0]}, {("clicks", 0): 7}) for name in listed}
        found = Round(at=at, groups=groups, topics=TOPICS, silent=silent, leaders=leaders)
        collector.snapshot = Snapshot(round=found, groups=collector._groups(found))
        return {name for name, state in collector.snapshot.groups.items() if not state.gone}

    assert look(0, *names, silent=frozenset()) == set(names)
    assert look(10) == set(names), "not listed just now"
    assert look(400) == theirs
    assert look(8_000) == theirs == collector.snapshot.groups.keys() == collector._pasts.keys()


def test_while_a_round_takes_long_what_was_known_grows_too_old_to_be_scraped(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(ServerSettings(tail=False), Connection("127.0.0.1:1", Properties()))
    answers = Answers(collector)
    collector._publish(snapshot(seen("g", {"clicks": [0]}, {("clicks", 0): 7}), settings=ServerSettings()))
    assert answers.scraped.series > 30
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + ServerSettings().stale_s + 1)
    assert answers.scraped is EMPTY
    own = answers.own.text()
    assert b"apportion_scrape_series 0.0" in own
    assert b"apportion_up 1.0" in own


def test_a_round_that_cannot_be_shown_ends_neither_the_rounds_nor_what_others_hear_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector = Collector(ServerSettings(tail=False, interval_s=0.01), Connection("127.0.0.1:1", Properties()))
    rounds: list[int] = []

    def broken(_: Snapshot) -> None:
        raise ValueError("no such picture")

    collector.listeners += [broken, lambda seen: rounds.append(seen.number)]
    monkeypatch.setattr(collector, "round", lambda: collector._publish(replace(collector.snapshot, number=len(rounds))))
    collector.start()
    end = time.monotonic() + 30
    while len(rounds) < 3 and collector._thread.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    collector.close()
    assert rounds[:3] == [0, 1, 2]


def test_where_the_cluster_is_not_reached_its_tail_is_not_said_to_be_read() -> None:
    answers = Answers(Collector(ServerSettings(tail=False), Connection("127.0.0.1:1", Properties())))
    for trouble, tail_trouble, leaderless, up in (
        ("", "", 0, b"1.0"), ("", "no", 0, b"0.0"), ("nobody answers", "", 0, b"0.0"), ("", "", 1, b"0.0"),
    ):  # fmt: skip
        told = Round(time.time(), leaders={0: (1 - 2 * leaderless, 0)})
        answers.snapshot = Snapshot(1, told, trouble=trouble, tail_trouble=tail_trouble)
        assert b"apportion_tail_up " + up in answers.own.text()


def test_seconds_of_rebalances_and_standstill_are_those_of_the_records() -> None:
    """What a recorded eager group's records prove, summed; a seeded past is shown and not counted."""
    group = load_histories(str(dump())).groups["ads-range"]
    past = GroupPast(group.name, {})
    for record in group.events:
        past.take(record)
    stood = standstills(group.folded.generations, group.rebalances).values()
    assert past.rebalance_ms == sum(row.duration_ms or 0 for row in group.rebalances) > 0
    assert past.standstill_ms == sum(row.partitions * (row.at_least_ms or 0) for row in stood) > 0
    seeded = GroupPast(group.name, {})
    seeded.seed(group.events)
    assert (seeded.rebalance_ms, seeded.standstill_ms) == (0, 0)
