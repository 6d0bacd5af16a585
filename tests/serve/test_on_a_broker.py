"""A server beside a real broker: what it tells is so, and stays so when members, topics and the broker come and go."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.support.sighted import raw

from apportion.comparison import compare
from apportion.sources import live
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker, free_ports
from bench import many_groups

from .running import Serving, serving, until

pytestmark = pytest.mark.broker
TOPICS, PARTITIONS, GROUPS = 2, 5, 3
GROUP, TOPIC = many_groups.group_name(1), many_groups.topic_of(1, TOPICS)
HOSTILE = '<b>"a/../b\\n{x="1"}\u202e'
EXAMPLES = Path(__file__).parents[2] / "examples" / "serve"
DASHBOARDS = tomllib.loads((Path(__file__).parent / "dashboards.toml").read_text())


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """A broker that may be stopped, with three groups of two members and one whose name means no good."""
    with Broker() as broker:
        many_groups.make_topics(broker, TOPICS, PARTITIONS)
        many_groups.make_groups(broker, range(GROUPS), TOPICS, PARTITIONS)
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        with broker.admin() as admin:
            admin.alter_group_offsets(HOSTILE, {TopicPartition(TOPIC, 0): OffsetAndMetadata(1, "", -1)})
        yield broker


@pytest.fixture(scope="module")
def server(own_broker: Broker) -> Iterator[Serving]:
    with serving(
        "--interval", "1", "--names", "all", "--cluster-name", "test", "--no-personal", bootstrap=own_broker.bootstrap
    ) as running:
        until(lambda: running.ask("/readyz")[0] == 200)
        yield running


def test_each_lag_offset_and_member_count_is_the_one_that_the_admin_client_tells(
    own_broker: Broker, server: Serving
) -> None:
    [seen] = live.groups(Connection(own_broker.bootstrap, Properties()), [GROUP])
    for entry in raw(seen)["topics"][TOPIC]:
        p, lag = str(entry["partition"]), entry["end"] - entry["committed"]
        assert server.value("kafka_consumergroup_group_lag", group=GROUP, topic=TOPIC, partition=p) == lag
        assert server.value("kafka_consumergroup_lag", consumergroup=GROUP, topic=TOPIC, partition=p) == lag
        labels = {"group_id": GROUP, "topic_name": TOPIC, "partition_id": p}
        assert server.value("kminion_kafka_consumer_group_topic_partition_lag", **labels) == lag
        assert server.value("kafka_consumergroup_group_offset", group=GROUP, partition=p) == entry["committed"]
        assert server.value("kafka_partition_latest_offset", topic=TOPIC, partition=p) == entry["end"]
    assert server.value("kafka_consumergroup_members", consumergroup=GROUP) == 2
    assert server.value("kafka_consumergroup_group_sum_lag", group=GROUP) == PARTITIONS
    assert server.value("apportion_group_excess_moves", group=GROUP, cluster_name="test") == 0
    assert server.value("apportion_group_topic_concentration", group=GROUP) == 0.6


def test_every_name_of_the_contract_is_scraped(server: Serving) -> None:
    lag = "kafka_consumergroup_group_"
    contract = {
        *(lag + tail for tail in ("lag", "lag_seconds", "offset", "max_lag", "max_lag_seconds", "sum_lag")),
        lag + "topic_sum_lag", "kafka_partition_latest_offset", "kafka_partition_earliest_offset",
        "kafka_consumergroup_lag", "kafka_consumergroup_current_offset", "kafka_consumergroup_members",
        "kminion_kafka_consumer_group_topic_partition_lag", "kminion_kafka_consumer_group_topic_lag",
        "apportion_group_rebalances_total", "apportion_group_moved_partitions_total",
        "apportion_group_needless_moves_total", "apportion_group_excess_moves", "apportion_group_excess_squares",
        "apportion_group_topic_concentration", "apportion_up", "apportion_scrape_series",
    }  # fmt: skip
    # An age is told once it is known that the one message that waits is no marker.
    until(lambda: contract <= {name for name, _, _ in server.samples()})


def test_the_api_gives_group_json_with_the_plans_that_compare_gives(own_broker: Broker, server: Serving) -> None:
    [seen] = live.groups(Connection(own_broker.bootstrap, Properties()), [GROUP])
    told = server.json(f"/api/v1/groups/{GROUP}")
    assert told["topics"][TOPIC] == raw(seen)["topics"][TOPIC]
    assert told["topic_ids"] == raw(seen)["topic_ids"]
    expected = compare(seen.group).to_dict()
    assert told["plans"] == expected["plans"]
    assert told["best"] == expected["best"]
    listed = {group["group"]: group for group in server.json("/api/v1/groups")["groups"]}
    assert listed[GROUP]["lag"] == PARTITIONS
    status, _, body = server.ask("/api/v1/groups/group-00011")
    assert status == 404
    assert "Maybe you meant" in json.loads(body)["error"]["message"]


def test_the_api_gives_what_a_switch_would_do_as_the_command_gives_it(own_broker: Broker, server: Serving) -> None:
    command = [sys.executable, "-m", "apportion", "switch", "--bootstrap-server", own_broker.bootstrap]
    run = subprocess.run([*command, "--group", GROUP, "-o", "json"], check=True, capture_output=True)
    [expected] = json.loads(run.stdout)["groups"]
    told = server.json(f"/api/v1/groups/{GROUP}")["switch"]
    assert told.keys() == expected.keys()
    for plan in ("online", "fresh"):  # member ids are shown without their client ids, in the same order
        assert list(told[plan].pop("assignment").values()) == list(expected[plan].pop("assignment").values())
        told[plan].pop("target", None), expected[plan].pop("target", None)
    assert told == expected
    assert told["upgradable"]


def test_client_ids_and_hosts_are_shown_on_this_machine_and_in_labels_where_asked_for(
    own_broker: Broker, server: Serving
) -> None:
    everything = b"".join(server.ask(path)[2] for path in ("/metrics", "/api/v1/groups", f"/api/v1/groups/{GROUP}"))
    everything += page_events(server, GROUP, 1)
    assert b"kafka-python-3" not in everything
    assert b"/127.0.0.1" not in everything
    with serving("--interval", "1", "--no-tail", bootstrap=own_broker.bootstrap) as here:
        until(lambda: here.ask("/readyz")[0] == 200)
        told = here.json(f"/api/v1/groups/{GROUP}")["members"].values()
        assert {(one["host"], one["client_id"]) for one in told} == {("/127.0.0.1", "kafka-python-3.0.12")}
        assert b"kafka-python-3" in page_events(here, GROUP, 1)
        assert b"kafka-python-3" not in here.ask("/metrics")[2]
    with serving("--interval", "1", "--personal", "--no-tail", bootstrap=own_broker.bootstrap) as other:
        until(lambda: other.ask("/readyz")[0] == 200)
        labels = {"group": GROUP, "topic": TOPIC, "partition": "0"}
        [found] = [had for n, had, _ in other.samples() if n.endswith("group_lag") and labels.items() <= had.items()]
        assert (found["client_id"], found["member_host"]) == ("kafka-python-3.0.12", "/127.0.0.1")


def test_a_group_is_asked_for_by_its_name_whatever_it_is_called(server: Serving) -> None:
    told = server.json("/api/v1/groups/" + quote(HOSTILE, safe=""))
    assert told["group"] == HOSTILE
    assert server.value("kafka_consumergroup_group_sum_lag", group=HOSTILE) == 2
    assert b"<b>" not in server.ask("/")[2].partition(b"<script type=")[2].partition(b"</script>")[0]


def page_events(server: Serving, group: str, rounds: int) -> bytes:
    """What the page's stream sends until so many rounds have come."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("GET", f"/events?group={quote(group, safe='')}")
    answer, sent = connection.getresponse(), b""
    while sent.rpartition(b"\n\n")[0].count(b"event: group") < rounds + 1:  # each as a whole, which takes many pieces
        piece = answer.read1(65536)
        assert piece, "the stream has ended"
        sent += piece
    connection.close()
    return sent


def test_a_rebalance_is_told_with_its_cause_and_its_moves_as_it_happens(own_broker: Broker, server: Serving) -> None:
    before = page_events(server, GROUP, 0)
    assert b'"cause"' not in before
    one = many_groups.group_name(2)
    until(lambda: server.value("apportion_tail_up") == 1)
    leave(own_broker, one, "pod-1")
    until(lambda: server.value("apportion_group_rebalances_total", group=one, cause="leave"))
    told = json.loads(page_events(server, one, 0).split(b"event: group\ndata: ")[1].split(b"\n")[0])
    [last] = told["history"]["rebalances"]
    assert (last["cause"], last["members"]) == ("leave", 1)
    assert told["switch"]["history"]["generations"] == 2


def leave(broker: Broker, group: str, instance: str) -> None:
    """One static member goes, and the other takes everything."""
    from kafka.protocol.consumer import LeaveGroupRequest, SyncGroupRequest

    from apportion.wire.assignment import Assignment, write_assignment

    identity = LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id=instance)
    with broker.admin() as admin:
        [member] = [m for m in admin.describe_groups([group])[group]["members"] if m["group_instance_id"] != instance]
        request = LeaveGroupRequest(group_id=group, members=[identity], min_version=3)
        admin._manager.run(many_groups._send, admin, request, group)
        topic = many_groups.topic_of(int(group[-5:]), TOPICS)
        join = many_groups._join(group, int(member["group_instance_id"][-1]), topic, member["member_id"])
        joined = admin._manager.run(many_groups._send, admin, join, group)
        share = write_assignment(Assignment(((topic, tuple(range(PARTITIONS))),)))
        given = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=share)
        sync = SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id=None,
            protocol_type="consumer", protocol_name="range", assignments=[given], max_version=5,
        )  # fmt: skip
        admin._manager.run(many_groups._send, admin, sync, group)


@pytest.mark.timeout(600)
def test_a_group_that_vanishes_is_said_to_be_gone(own_broker: Broker, server: Serving) -> None:
    with own_broker.admin() as admin:
        admin.delete_groups([HOSTILE])
    path = "/api/v1/groups/" + quote(HOSTILE, safe="")
    # Minutes only where a slow broker has left a round unanswered.
    told = until(lambda: (found := server.json(path))["gone"] and found, 400)
    assert re.fullmatch(r"The group is gone since \d{4}-\d\d-\d\d [\d:]{8} UTC\.", told["odd"][0])
    assert server.value("kafka_consumergroup_group_sum_lag", group=HOSTILE) is None


def test_a_topic_that_is_made_anew_is_said_to_be(own_broker: Broker, server: Serving) -> None:
    topic = many_groups.topic_of(0, TOPICS)
    own_broker.delete_topic(topic)
    own_broker.create_topic(topic, PARTITIONS)
    path = f"/api/v1/groups/{many_groups.group_name(0)}"
    sentence = f"The topic {topic} was deleted and created again: older commits mean other messages."
    until(lambda: sentence in server.json(path)["odd"])


def test_a_broker_that_goes_and_comes_back_costs_a_sentence_and_no_restart(own_broker: Broker, server: Serving) -> None:
    own_broker.stop()
    until(lambda: server.ask("/readyz")[0] == 503)
    assert server.ask("/healthz")[0] == 200
    told = server.json("/api/v1/groups")
    assert re.match(r"Nothing is known since \d{4}-\d\d-\d\d [\d:]{8} UTC: ", told["notes"][0])
    assert server.value("apportion_up") == 0
    assert {group["group"] for group in told["groups"]} >= {GROUP}, "what was known stays"
    own_broker.start()
    until(lambda: server.ask("/readyz")[0] == 200)
    until(lambda: server.value("kafka_consumergroup_group_sum_lag", group=GROUP) == PARTITIONS)
    until(lambda: server.value("apportion_tail_up") == 1)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus here: apt-get install prometheus")
def test_a_real_prometheus_scrapes_it_and_every_panel_of_the_known_dashboards_shows_numbers(
    own_broker: Broker, server: Serving, tmp_path: Path
) -> None:
    with prometheus(server, tmp_path) as ask:
        produce_and_commit(own_broker)
        for panel in DASHBOARDS["panel"]:
            query = panel["query"]
            told = {"INSTANCE": f"127.0.0.1:{server.port}", "TOPIC": TOPIC, "GROUP": GROUP, "CLUSTER": "test"}
            for variable, value in sorted(DASHBOARDS["variables"].items(), key=lambda item: -len(item[0])):
                query = query.replace(variable, told.get(value, value))
            # A rate of a first scrape may be no number yet.
            assert until(lambda query=query: numbers(ask(query))), panel["title"]
        assert until(lambda: ask("rate(kafka_topic_partition_current_offset[1m]) > 0"))
        dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$cluster", "test").replace("$group", ".*")
                # Not asked for here, or nothing to show in a group that is fair and was left in peace.
                none = ("advised", "excess", "increase(", "catch_up")
                if not any(word in query for word in none):
                    assert until(lambda query=query: ask(query)), panel["title"]


def numbers(series: list[dict[str, Any]]) -> list[float]:
    """The values of series that are all numbers, else none."""
    values = [float(one["value"][1]) for one in series]
    return values if all(value == value for value in values) else []


def produce_and_commit(broker: Broker) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap.split(","))
    for _ in range(4):
        for p in range(PARTITIONS):
            producer.send(TOPIC, b"x", partition=p)
        producer.flush()
        time.sleep(1)  # one of the server's rounds
    producer.close()


class prometheus:
    """Prometheus itself, scraping every second; gives a function from a query to its series."""

    def __init__(self, server: Serving, folder: Path) -> None:
        [self.port] = free_ports(1)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [{"job_name": "a", "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.command = [
            "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error",
        ]  # fmt: skip

    def __enter__(self) -> Any:
        self.process = subprocess.Popen(self.command)
        until(lambda: self.ask("up == 1"))
        return self.ask

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, query: str) -> list[dict[str, Any]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/api/v1/query?" + urlencode({"query": query}))
            answer = json.loads(connection.getresponse().read())
        except (OSError, ValueError):
            return []
        assert answer["status"] == "success", answer
        return answer["data"]["result"]


def test_a_group_that_has_read_all_of_a_transaction_owes_nothing_though_its_log_ends_in_a_marker(
    own_broker: Broker, server: Serving
) -> None:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata
    from tests.sources.test_log_tails import transact

    own_broker.create_topic("marked", 2)
    transact(own_broker, "marked", 0, 3)
    transact(own_broker, "marked", 1, 3)
    with own_broker.admin() as admin:
        behind = {TopicPartition("marked", p): OffsetAndMetadata(3 - p, "", -1) for p in (0, 1)}
        admin.alter_group_offsets("reads-transactions", behind)

    def lags() -> list[float | None]:
        return [
            server.value("kafka_consumergroup_group_lag", group="reads-transactions", partition=str(p)) for p in (0, 1)
        ]

    assert until(lambda: lags() == [0, 2])
    assert server.value("apportion_group_partitions_maybe_at_marker", group="reads-transactions") == 0
    assert server.value("kafka_consumergroup_group_sum_lag", group="reads-transactions") == 2
