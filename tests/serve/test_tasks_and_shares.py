"""Live share and streams groups are told as Kafka's own tools print them at the same moment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.support.sighted import raw

from apportion.assignors import BrokerSticky
from apportion.cli import main
from apportion.history.records import GenerationMember
from apportion.serve.collector import Collector
from apportion.serve.settings import ServerSettings
from apportion.sighting.sighting import Sighting
from apportion.sources import live
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember
from tools.record_task_groups import PROPERTIES, TOPICS, Sharer, StreamsApp, fill, set_group, until

pytestmark = pytest.mark.broker
STREAMS, SHARE, NEW = "live-enrich", "live-workers", "live-new-jobs"


@pytest.fixture(scope="module")
def cluster(jars: str) -> Iterator[Broker]:
    """A Java Streams application of two processes that keeps standbys, and two members that share a topic."""
    with Broker(properties=PROPERTIES) as broker, ExitStack() as living:
        for topic, partitions in TOPICS.items():
            broker.create_topic(topic, partitions)
        fill(broker.bootstrap)
        set_group(broker, STREAMS, "streams.num.standby.replicas=1")
        for client in ("worker-0", "worker-1"):
            living.enter_context(Sharer(broker.bootstrap, SHARE, client))
        apps = [living.enter_context(StreamsApp(broker.bootstrap, STREAMS, f"pod-{n}", 1 + n)) for n in range(2)]
        until(lambda: sum(app.tasks for app in apps) == 16 and all(app.standbys for app in apps), "all tasks run", 240)
        until(lambda: settled(broker), "both groups are at rest", 240)
        yield broker


def seen(broker: Broker, name: str) -> Sighting:
    return live.groups(Connection(broker.bootstrap, Properties()), [name])[0]


def settled(broker: Broker) -> bool:
    tasks, shared = seen(broker, STREAMS), seen(broker, SHARE)
    running = sum(len(ids) for member in tasks.roles for ids in member.roles["active"].values())
    sharing = [member.roles["shared"] for member in shared.roles]
    return tasks.state == shared.state == "Stable" and running == 16 and len(sharing) == 2 and all(sharing)


def printed(broker: Broker, tool: str, *args: str) -> list[str]:
    text = broker.tool(tool, "--describe", *args)
    return [line for line in text.splitlines() if line.strip() and not line.startswith(("GROUP", "Error"))]


def lists(text: str) -> dict[str, tuple[int, ...]]:
    return {sub: tuple(map(int, ids.split(","))) for sub, ids in re.findall(r"(\w+):\[([0-9,]+)\]", text)}


def tasks_of(group: Sighting, role: str, process: str = "") -> list[tuple[str, int]]:
    """Tasks that members have in a role; those of one process, if it is named."""
    members = [member for member in group.roles if process in ("", member.process_id)]
    return [(sub, one) for member in members for sub, ids in member.roles[role].items() for one in ids]


def by_id(group: Sighting) -> dict[str, GenerationMember]:
    return {member.member_id: member for member in group.roles}


def test_members_of_a_streams_group_hold_the_tasks_that_kafkas_tool_prints(cluster: Broker) -> None:
    group = seen(cluster, STREAMS)
    members = by_id(group)
    lines = printed(
        cluster, "org.apache.kafka.tools.streams.StreamsGroupCommand", "--group", STREAMS, "--members", "--verbose"
    )
    assert len(lines) == len(members) == 3
    assert len({member.process_id for member in group.roles}) == 2
    assert (group.protocol, group.assignor) == ("streams", "sticky")
    for line in lines:
        _, epoch, _, member_id, _, _, process, client = line.split()[:8]
        member, tasks = members[member_id], line.split("ACTIVE: ", 1)[1].split("TARGET-")[0]
        active, _, standby = tasks.partition("STANDBY: ")
        assert int(epoch) == group.generation
        assert (member.process_id, member.client_id) == (process, client)
        assert member.roles == {"active": lists(active), "standby": lists(standby), "warmup": {}}
    standbys = tasks_of(group, "standby")
    assert len(standbys) == len(set(standbys)), "one replica of each"
    for process in sorted(str(one) for one in {member.process_id for member in group.roles}):
        kept = set(tasks_of(group, "standby", process))
        assert kept, "standbys are kept"  # by which of a process's threads is Kafka's to say
        assert not kept & set(tasks_of(group, "active", process)), "in another process than the task"


def test_a_streams_groups_members_own_what_their_active_tasks_read(cluster: Broker) -> None:
    told = raw(seen(cluster, STREAMS))
    owned = [(topic, p) for member in told["members"].values() for topic, ids in member["owned"].items() for p in ids]
    assert len(owned) == len(set(owned))
    there = {(topic, entry["partition"]) for topic in ("users", "clicks", "views") for entry in told["topics"][topic]}
    assert there <= set(owned)
    assert all("committed" in entry for entry in told["topics"]["clicks"]), "its offsets stand where consumers' do"
    assert seen(cluster, STREAMS).group.M == 3


def test_share_members_share_what_kafkas_tool_prints_and_own_nothing(cluster: Broker) -> None:
    group = seen(cluster, SHARE)
    members = by_id(group)
    for line in printed(
        cluster, "org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--group", SHARE, "--members", "--verbose"
    ):
        name, member_id, host, client, _, epoch, held = line.split()
        topic, ids = held.split(":")
        member = members.pop(member_id)
        assert (name, int(epoch), host, client) == (SHARE, group.generation, member.host, member.client_id)
        assert member.roles == {"shared": {topic: tuple(map(int, ids.split(",")))}}
    assert not members
    assert not any(member.get("owned") for member in raw(group)["members"].values())


def test_describe_shows_both_among_all_groups(cluster: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    at = ["describe", "--bootstrap-server", cluster.bootstrap]
    assert main([*at, "--all-groups", "-o", "json"]) == 0
    groups: dict[str, Any] = {group["group"]: group for group in json.loads(capfd.readouterr().out)["groups"]}
    assert {STREAMS, SHARE} <= set(groups)
    shown = {
        STREAMS: ("ACTIVE", "STANDBY", "WARMUP", "pod-0", "pod-1"),
        SHARE: ("SHARED", "__share_group_state", "worker-1"),
    }
    for name, words in shown.items():
        assert main([*at, "--group", name]) == 0
        text = capfd.readouterr().out
        assert [word for word in words if word not in text] == []
        assert "TARGET" not in text, "a live coordinator does not tell it"
        assert "is to share" not in text


def test_a_server_shows_both_and_follows_their_epochs_by_record(cluster: Broker) -> None:
    """A group of consumers and one of Streams change: each epoch comes down the topic, with its cause."""
    with (
        StreamsApp(cluster.bootstrap, "later", "late-0") as first,
        JavaMember(cluster.bootstrap, NEW, ["jobs"], {"group.protocol": "consumer", "client.id": "n1"}),
    ):
        until(lambda: first.tasks == 16, "the application runs", 240)
        collector = Collector(
            ServerSettings(interval_s=0.5, personal=True), Connection(cluster.bootstrap, Properties())
        )
        collector.start()
        try:
            until(lambda: {STREAMS, SHARE, NEW, "later"} <= set(collector.snapshot.groups), "all are seen", 240)
            for name in (NEW, "later"):
                until(lambda name=name: collector.snapshot.groups[name].past.generations, "its epoch is known", 240)
            groups = collector.snapshot.groups
            assert {m.roles["shared"]["jobs"] for m in groups[SHARE].sighting.roles}
            assert groups[SHARE].past.generations == []
            assert groups[SHARE].verdict == "OK", "that its progress stands elsewhere is no trouble"
            assert groups[STREAMS].distance is None
            known = len(groups["later"].past.generations)
            described = groups["later"].past.generations[known - 1]
            with (
                StreamsApp(cluster.bootstrap, "later", "late-1") as second,
                JavaMember(cluster.bootstrap, NEW, ["jobs"], {"group.protocol": "consumer", "client.id": "n2"}),
            ):
                until(lambda: first.tasks + second.tasks == 16 and second.tasks >= 5, "the second has its share", 240)
                until(lambda: collector.snapshot.groups["later"].past.rebalances, "its epoch was read", 240)
                until(lambda: collector.snapshot.groups[NEW].past.rebalances, "its epoch was read", 240)
            for name in ("later", NEW):
                past = collector.snapshot.groups[name].past
                assert past.rebalances[0].cause == "join"
                assert past.rebalances[0].moved > 0
            read = collector.snapshot.groups["later"].past.generations[known]
            assert (read.number, len(read.members)) == (described.number + 1, 2)
            assert read.offset != read.at, "the place of a record, not the time of a look"
            assert collector.snapshot.groups["later"].past.frozen().replay(BrokerSticky(0))["total"]["generations"] >= 2
        finally:
            collector.close()
