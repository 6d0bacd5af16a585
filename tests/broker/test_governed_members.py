"""Who is in a governed group besides confluent-kafka: classic members of ours, Java's, hostile carriers, kills."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.clients.groups import SESSION_MS, SHORT_MS, Members, new_name, owned
from tests.clients.test_broker_takeover import refusals
from tests.support.sighted import raw

from apportion.assignors import find
from apportion.governing.rules_file import FactRule, GroupRule
from apportion.planning import strategy_of
from apportion.sources import live
from apportion.sources.cluster import Cluster
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember
from apportion.wire import plan_text
from apportion.wire.plan_text import GovernedPlan, MemberKey

from .members import Governor, Member, RawMember, Running, until

pytestmark = pytest.mark.broker

PRIORITIES = (FactRule("priority", "client_id", re.compile(r".*-p(\d+)")),)
TOPICS = ["a", "b"]


def count(*members: Any) -> list[int]:
    """How many partitions each has by its own word."""
    return [len(m.held) if isinstance(m, Member) else sum(map(len, owned(m).values())) for m in members]


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka", "confluent"])
def test_a_classic_failover_group_is_converted_keeps_24_and_0_and_comes_home(
    governed_broker: Broker, cluster: Cluster, client: str, tmp_path: Path
) -> None:
    """By the governor's own joining: nobody stops, nothing moves, and members of both protocols are one group."""
    group = new_name("converted")
    rule = GroupRule(re.compile(group), find("failover"), PRIORITIES, convert=True)
    with Members(governed_broker, group, TOPICS, tmp_path) as members:
        first, standby = (
            members.python(client, "failover", priority=p, name=f"pod-p{p}", session_ms=session_ms)
            for p, session_ms in ((10, SHORT_MS), (9, SESSION_MS))
        )
        assert until(lambda: count(first, standby) == [24, 0] and bool(standby.of("assigned")))
        running = Running(Governor(cluster, group, rule))
        try:
            assert until(lambda: live.read(cluster, [group])[0].protocol == "consumer")
            newcomer = Member(governed_broker, group, "pod-p8", TOPICS)
            assert until(lambda: len(raw(live.read(cluster, [group])[0])["members"]) == 3)
            time.sleep(2)  # the group is computed each 0.1 s, so what would move has moved
            assert count(first, standby, newcomer) == [24, 0, 0]
            assert not refusals(first) + refusals(standby)
            assert all(sum(map(len, e["partitions"].values())) in (0, 24) for e in first.of("assigned"))
            first.kill()
            assert until(lambda: count(standby, newcomer) == [24, 0]), "the next by priority, a classic member"
            newcomer.close()
        finally:
            running.stop()
        running.governor.release()
        assert until(lambda: live.read(cluster, [group])[0].protocol == "classic"), "home again"
        assert until(lambda: count(standby) == [24])
        assert not refusals(standby)


def test_javas_members_follow_a_stream_join_and_then_a_spread(
    governed_broker: Broker, cluster: Cluster, tmp_path: Path
) -> None:
    """Java and confluent-kafka in one group: equal numbers together; then the plan of another strategy at once."""
    group = new_name("java")
    properties = {"group.protocol": "consumer", "group.remote.assignor": "apportion", "client.id": "j"}
    java = JavaMember(governed_broker.bootstrap, group, TOPICS, properties)
    members: list[JavaMember | Member] = [java, Member(governed_broker, group, "c", TOPICS)]
    running = Running(Governor(cluster, group, GroupRule(re.compile(group), find("sticky-stream-join"))))

    def numbers(member: JavaMember | Member, topic: str) -> set[int]:
        if isinstance(member, Member):
            return {p for t, p in member.held if t == topic}
        return set(owned(member).get(topic, ()))

    try:
        assert until(lambda: count(*members) == [12, 12])
        assert until(lambda: all(numbers(m, "a") == numbers(m, "b") for m in members))
        running.governor.rule = GroupRule(re.compile(group), strategy_of("sticky", {"order": "spread,moves"}))
        assert until(lambda: running.rounds[-1].outcome == "unchanged")
        assert until(lambda: sorted(len(numbers(m, t)) for m in members for t in TOPICS) == [6, 6, 6, 6])
    finally:
        running.stop()
        java.close()
        members[1].close()


def test_who_may_not_govern_moves_nothing(governed_broker: Broker, cluster: Cluster) -> None:
    """A carrier of another instance id, torn plans, and one that names nobody who is there."""
    group = new_name("hostile")
    members = [Member(governed_broker, group, f"h-{n}", ["a"]) for n in range(2)]
    assert until(lambda: count(*members) == [6, 6])
    before = [set(member.held) for member in members]
    [seen] = live.read(cluster, [group])
    keys = tuple(MemberKey(m) for m in raw(seen)["members"])
    everything = {plan_text.topic_id(raw(seen)["topic_ids"]["a"]): (0,) * 12}
    plan = GovernedPlan(10**17, 0, keys, (), everything)
    for instance, reads in (("somebody-else", False), ("apportion-governor", True)):
        carrier = RawMember(governed_broker, group, instance_id=instance)
        [text] = plan_text.texts(plan, carrier.member_id)
        [for_another] = plan_text.texts(plan, "another carrier")
        torn = (text[:-7], "apportion-plan:", "apportion-plan:2:x:y", f"apportion-plan:2:{10**17}:" + "A" * 30_000)
        for rack in (*torn, for_another, *([] if reads else [text])):
            carrier.say(rack, "a")
            time.sleep(0.5)
            assert [member.held for member in members] == before, rack[:40]
        if reads:
            carrier.say(text, "a")
            assert until(lambda: sorted(count(*members)) == [0, 12]), "the same plan by who may carry it"
        carrier.leave()
    for member in members:
        member.close()


@pytest.mark.thorough  # test_governed_rows.py has a plan that outlives both
def test_a_governor_that_is_killed_leaves_the_plan_in_force_through_a_brokers_restart(
    governed_broker: Broker, cluster: Cluster
) -> None:
    """The command itself, kill -9, then the broker stopped in order: 24 and 0 before, between and after."""
    group = new_name("killed")
    members = {n: Member(governed_broker, group, f"k-p{n}", TOPICS) for n in (10, 5)}
    assert until(lambda: count(*members.values()) == [12, 12])
    command = [sys.executable, "-m", "apportion", "govern", "--bootstrap-server", governed_broker.bootstrap]
    file = governed_broker.folder / "govern.toml"
    file.write_text(
        f'[[group]]\npattern = "{group}"\nassignor = "failover"\n'
        '[[group.facts]]\nfact = "priority"\nclient_id = ".*-p(\\\\d+)"\n'
    )
    governor = subprocess.Popen([*command, "--all-groups", "--config", str(file), "--interval", "1"])
    try:
        assert until(lambda: count(*members.values()) == [24, 0])
    finally:
        governor.kill()
        governor.wait(10)

    def goes_on_alone() -> bool:
        # Stable: what its going asked for is computed. A class that restarted before that would know no plan.
        [seen] = live.read(cluster, [group])
        return not seen.carried and seen.state == "Stable"

    assert until(goes_on_alone), "the carrier's session is over"
    assert count(*members.values()) == [24, 0]
    governed_broker.restart()
    time.sleep(3)  # all have joined the restarted broker again
    assert count(*members.values()) == [24, 0], "a restart computes nothing"
    for member in members.values():
        member.close()
