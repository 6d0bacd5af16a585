"""Our strategies on real brokers of the new protocol: planned outside, carried by the group, applied by the class."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from tests.serve.running import serving
from tests.support.sighted import raw

from apportion.acting import Acting
from apportion.assignors import find
from apportion.errors import Unavailable
from apportion.governing.governor import CLASS, Governed, without_class
from apportion.governing.rules_file import FactRule, GroupRule, read_rules
from apportion.model.group_json import read_group
from apportion.sources import live
from apportion.sources.cluster import Cluster, connect
from apportion.testing.broker import Broker
from apportion.wire import plan_text

from .members import Governor, Member, Running, until

pytestmark = pytest.mark.broker

PRIORITIES = (FactRule("priority", "client_id", re.compile(r".*-p(\d+)")),)


def shown(broker: Broker, *command: str) -> str:
    """What a command says of a cluster."""
    command = (sys.executable, "-m", "apportion", *command, "--bootstrap-server", broker.bootstrap)
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout


def test_failover_by_client_ids_holds_through_deaths_of_owner_and_governor(
    governed_broker: Broker, cluster: Cluster
) -> None:
    topics = ["a", "b"]
    members = {n: Member(governed_broker, "g", f"m-p{n}", topics) for n in (10, 5, 7)}
    assert until(lambda: sorted(len(m.held) for m in members.values()) == [8, 8, 8]), "without a plan: uniform"
    running = Running(Governor(cluster, "g", GroupRule(re.compile("g"), find("failover"), PRIORITIES)))
    try:
        assert until(lambda: [len(members[n].held) for n in (10, 5, 7)] == [24, 0, 0])
        [seen] = live.read(cluster, ["g"])
        assert len(raw(seen)["members"]) == 3, "the carrier is no member"
        assert any("Governed by a plan of 20" in sentences for sentences in seen.notes)
        for command in (["describe"], ["watch", "--once"], ["switch"]):
            told = shown(governed_broker, *command, "--group", "g")
            assert "Governed by a plan of 20" in told, command
        with serving("--interval", "1", bootstrap=governed_broker.bootstrap) as server:
            prefix = "apportion_group_governed_plan_"
            assert until(lambda: (server.value(f"{prefix}timestamp_seconds", group="g") or 0) > time.time() - 300)
            assert server.value(f"{prefix}differing_partitions", group="g") == 0
        members[10].close()
        assert until(lambda: len(members[7].held) == 24), "the next by priority"
        assert len(members[5].held) == 0
    finally:
        running.stop()
    running.governor.release()
    time.sleep(1)  # the group is computed each 0.1 s, so what would move has moved
    assert (len(members[7].held), len(members[5].held)) == (24, 0), "the governor is gone and nothing moves"
    newcomer = Member(governed_broker, "g", "m-p1", topics)
    time.sleep(3)  # the newcomer has joined, and the group was computed
    assert (len(members[7].held), len(newcomer.held)) == (24, 0)
    members[7].close()
    assert until(lambda: len(members[5].held) == 24), "the rank of the last plan"
    for member in (members[5], newcomer):
        member.close()


def test_a_second_governor_waits_and_takes_over_and_a_group_is_given_back(
    governed_broker: Broker, cluster: Cluster
) -> None:
    members = [Member(governed_broker, "two", f"w-{n}", ["a", "b"]) for n in range(2)]
    rule = GroupRule(re.compile("two"), find("sticky-stream-join"))
    first, second = (Governor(cluster, "two", rule) for _ in range(2))
    assert until(lambda: first.round().members == 2)
    assert second.round().outcome == "waiting"
    assert until(lambda: all(len(m.held) == 12 for m in members))
    assert all({p for t, p in m.held if t == "a"} == {p for t, p in m.held if t == "b"} for m in members), "joined"
    assert first.round().outcome == "unchanged"
    first.release()
    assert until(lambda: second.round().outcome in ("published", "unchanged"))
    assert not second.let_go()
    assert until(lambda: not live.read(cluster, ["two"])[0].carried)
    for member in members:
        member.close()


def test_lag_moves_partitions_though_nobody_joins_and_only_where_it_pays(
    governed_broker: Broker, cluster: Cluster
) -> None:
    """Real offsets: two heavy partitions on one member are parted, once; then the rule says why no more."""
    topic = "heavy"
    governed_broker.create_topic(topic, 4)
    quiet = {"enable.auto.commit": "false"}
    members = [Member(governed_broker, "lagging", f"l-{n}", [topic], **quiet) for n in range(2)]
    acting = Acting(gain=0.2, hold_s=0, rest_s=1, horizon_s=1)
    governor = Governor(cluster, "lagging", GroupRule(re.compile(".*"), find("lag-aware"), (), acting))

    def shared() -> bool:
        try:
            return governor.round().outcome != "failed" and all(len(m.held) == 2 for m in members)
        except Unavailable:  # a broker that has just started still loads its groups
            return False

    assert until(shared)
    heavy = sorted(p for _, p in members[0].held)
    members[0].to_commit = [TopicPartition(topic, p, 0) for p in range(4)]
    assert until(lambda: not members[0].to_commit)
    producer = Producer({"bootstrap.servers": governed_broker.bootstrap})
    for _ in range(300):
        for p in heavy:
            producer.produce(topic, b"x", partition=p)
    producer.flush()
    rounds: list[Governed] = []

    def parted() -> bool:
        rounds.append(governor.round())
        return all(len({p for _, p in m.held} & set(heavy)) == 1 for m in members)

    assert until(parted)
    assert [one.outcome for one in rounds].count("published") == 1
    assert until(lambda: governor.round().outcome == "unchanged")
    governor.release()
    for member in members:
        member.close()


def test_a_group_that_uses_another_assignor_is_left_alone(governed_broker: Broker, cluster: Cluster) -> None:
    member = Member(governed_broker, "theirs", "u", ["a"], **{"group.remote.assignor": "uniform"})
    assert until(lambda: len(member.held) == 12)
    governor = Governor(cluster, "theirs", GroupRule(re.compile(".*"), find("sticky")))
    seen = governor.round()
    assert (seen.outcome, governor.carriers) == ("not ours", [])
    assert "needed is group.remote.assignor=apportion" in seen.sentences[0]
    member.close()


def test_the_command_refuses_while_a_broker_lacks_the_class(governed_broker: Broker, broker: Broker) -> None:
    def check(at: Broker) -> Any:
        command = [sys.executable, "-m", "apportion", "govern", "--bootstrap-server", at.bootstrap, "--check"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)

    with connect(broker.bootstrap) as other, connect(governed_broker.bootstrap) as ours:
        assert list(without_class(other)) == ["1"]
        assert without_class(ours) == {}
    refused = check(broker)
    assert refused.returncode == 3
    assert f"broker 1 lacks {CLASS}" in refused.stdout
    assert check(governed_broker).returncode == 0


def test_rules_are_read_from_a_file_and_mistakes_are_sentences(tmp_path: Path) -> None:
    from apportion.errors import BadInput

    file = tmp_path / "govern.toml"
    file.write_text(
        '[[group]]\nname = "ads"\nassignor = "failover"\nsettings = {preempt = false}\n'
        '[[group.facts]]\nfact = "priority"\ninstance_id = "pod-0"\nvalue = 10\n'
        '[[group.facts]]\nfact = "capacity"\nclient_id = "w-c(\\\\d+)"\n'
        '[[group.facts]]\nfact = "warmth"\nclient_id = "w.*"\nvalue = 3\n'
    )
    [rule] = read_rules(str(file))
    members = {"x": {"instance_id": "pod-0", "client_id": "w-c4"}, "y": {"client_id": "v"}}
    group = read_group({"topics": {"t": 1}, "members": {name: {"topics": ["t"], **of} for name, of in members.items()}})
    facts = rule.with_facts(group).facts
    assert {name: int(facts[name][group.members.index("x")]) for name in facts} == {
        "priority": 10, "capacity": 4, "warmth": 3
    }  # fmt: skip
    assert facts["capacity"][group.members.index("y")] == 1
    for text, sentences in (
        ("[[group]]\nassignor = 'sticky'\n", "group 1"),
        ("[[group]]\nname = 'a'\nassignor = 'stiky'\n", "Maybe you meant 'sticky'"),
        ("[[group]]\npattern = '('\n", "a regular expression"),
        ("[[group]]\nname = 'a'\n[[group.facts]]\nfact = 'x'\nclient_id = 'y'\n", "brackets that find the number"),
        ("group = 3", "[[group]] entries"),
    ):
        file.write_text(text)
        with pytest.raises(BadInput, match=re.escape(sentences)):
            read_rules(str(file))


def test_a_plan_beyond_one_rack_id_takes_several_carriers_and_moves_as_one(
    governed_broker: Broker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rack ids that are short for the test: two topics need two carriers; then one, and the other leaves."""
    members = [Member(governed_broker, "wide", f"w-p{p}", ["a", "b"]) for p in (9, 5)]
    assert until(lambda: [len(m.held) for m in members] == [12, 12])
    governor = Governor(cluster, "wide", GroupRule(re.compile("wide"), find("failover"), PRIORITIES))
    monkeypatch.setattr(plan_text, "RACK_MAX_BYTES", 100)
    assert governor.round().outcome == "published"
    assert [carrier.instance_id for carrier in governor.carriers] == ["apportion-governor", "apportion-governor-2"]
    assert until(lambda: [len(m.held) for m in members] == [24, 0])
    [seen] = live.read(cluster, ["wide"])
    assert len(seen.carried) == 2
    assert governor.round().outcome == "unchanged"
    monkeypatch.undo()
    members[1].close()
    assert until(lambda: governor.round().members == 1 and len(live.read(cluster, ["wide"])[0].carried) == 1)
    assert len(members[0].held) == 24
    governor.release()
    members[0].close()
