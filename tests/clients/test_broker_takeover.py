"""A consumer of the new protocol joins a classic group, on a real broker: no strategy is lost in silence.

By default one strategy of each kind in each client; with APPORTION_THOROUGH=1 all of them, with Java members too.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from tests.support.examples import thorough
from tests.support.member import PythonMember
from tests.support.sighted import raw

import apportion
from apportion.cli import main
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.broker_takeover import StrategyNotAsked, TakeoverWatch
from apportion.clients.group.options import Options
from apportion.errors import BadInput
from apportion.testing.broker import Broker

from .groups import Members, new_name, owned, settle

THOROUGH = os.environ.get("APPORTION_THOROUGH") == "1"
CLIENTS = ("kafka-python", "aiokafka", "confluent")
READS_ON = ("sticky", "cooperative-sticky", "lag-aware", "range", "roundrobin") if THOROUGH else ("cooperative-sticky",)


class Newcomer:
    """A confluent-kafka consumer with ``group.protocol=consumer``, polled by a thread of its own."""

    def __init__(self, broker: Broker, group: str, topics: list[str]) -> None:
        from confluent_kafka import Consumer

        self.errors: list[str] = []
        self.held: set[tuple[str, int]] = set()
        self._end = threading.Event()
        self._consumer: Any = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": "consumer",
             "auto.offset.reset": "earliest"}
        )  # fmt: skip
        self._consumer.subscribe(topics)
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._end.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error():
                self.errors.append(message.error().str())
            self.held = {(at.topic, at.partition) for at in self._consumer.assignment()}

    def __enter__(self) -> Newcomer:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    def leave(self) -> None:
        """Leave the group in good order; a second time does nothing."""
        if not self._end.is_set():
            self._end.set()
            self._thread.join(120)
            self._consumer.close()


def until(true: Callable[[], object], patience_s: float = 180) -> None:
    """Wait until something holds, and fail where it does not."""
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def poll_for_ever(runner: Any) -> None:
    while True:
        runner.poll(200)


def lines(member: PythonMember, folder: Path, words: str) -> list[str]:
    """The member's log lines with these words."""
    name = next(iter(member.events))["member"] if member.events else ""
    return [line for line in (folder / f"{name}.log").read_text().splitlines() if words in line]


def refusals(member: PythonMember) -> list[str]:
    """What the member heard from ``poll``."""
    said = [event["why"] for event in (*member.of("error"), *member.of("refused"))]
    return [why for why in said if "group.protocol=consumer" in why]


@pytest.mark.broker
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("strategy", READS_ON)
def test_a_member_that_reads_on_says_once_that_the_broker_assigns(
    broker: Broker, client: str, strategy: str, tmp_path: Path
) -> None:
    """Upgraded by one newcomer, and classic again when that one leaves: a warning and a record for on_plan."""
    topic, group = new_name("t"), new_name("foreign")
    broker.create_topic(topic, 12)
    with Members(broker, group, [topic], tmp_path) as members:
        two = [members.python(client, strategy) for _ in range(2)]
        settle(two, {topic: 12})
        with Newcomer(broker, group, [topic]) as newcomer:
            until(lambda: len(newcomer.held) == 4 and all(len(owned(m).get(topic, ())) == 4 for m in two))
            for member in two:
                warnings = lines(member, tmp_path, "is no longer asked")
                assert len(warnings) == 1
                assert "WARNING" in warnings[0]
                assert f"group '{group}' is of the new protocol" in warnings[0]
                assert sum(plan["foreign"] for plan in member.of("planned")) == 1
                assert not refusals(member)
            newcomer.leave()
        settle(two, {topic: 12})
        for member in two:
            assert len(lines(member, tmp_path, "is asked again")) == 1
        assert any(not plan["foreign"] for plan in two[0].of("planned") + two[1].of("planned"))


@pytest.mark.broker
@pytest.mark.parametrize("client", CLIENTS)
def test_a_failover_standby_reads_nothing_when_the_broker_assigns(broker: Broker, client: str, tmp_path: Path) -> None:
    """Both members give everything back and raise from each poll with what to do; the newcomer has it all."""
    topic, group = new_name("t"), new_name("foreign")
    broker.create_topic(topic, 12)
    with Members(broker, group, [topic], tmp_path) as members:
        first, standby = (members.python(client, "failover", priority=priority) for priority in (10, 1))
        settle([first, standby], {topic: 12})
        assert not owned(standby)
        before = len(standby.of("assigned"))
        with Newcomer(broker, group, [topic]) as newcomer:
            until(lambda: len(newcomer.held) == 12)
            for member in (first, standby):
                until(lambda member=member: len(refusals(member)) > 1)
                assert "'failover' is no longer asked" in refusals(member)[0]
                assert "on_foreign='continue'" in refusals(member)[0]
                assert len(lines(member, tmp_path, "ERROR group")) == 1
                assert sum(plan["foreign"] for plan in member.of("planned")) == 1
            assert all(event["partitions"] == {} for event in standby.of("assigned")[before:])
            assert first.of("revoked")[-1]["partitions"] == {topic: list(range(12))}


@pytest.mark.broker
@pytest.mark.parametrize("client", [CLIENTS[0], *map(thorough, CLIENTS[1:])])
def test_who_says_continue_reads_on_quietly(broker: Broker, client: str, tmp_path: Path) -> None:
    topic, group = new_name("t"), new_name("foreign")
    broker.create_topic(topic, 12)
    with Members(broker, group, [topic], tmp_path) as members:
        options = {"settings": {"on_foreign": "continue"}}
        two = [members.python(client, "failover", priority=priority, **options) for priority in (10, 1)]
        settle(two, {topic: 12})
        with Newcomer(broker, group, [topic]) as newcomer:
            until(lambda: len(newcomer.held) == 4 and all(len(owned(m).get(topic, ())) == 4 for m in two))
            assert [len(lines(m, tmp_path, "is no longer asked")) for m in two] == [1, 1]
            assert all("INFO" in lines(m, tmp_path, "is no longer asked")[0] for m in two)
            newcomer.leave()
        until(lambda: [len(owned(m).get(topic, ())) for m in two] == [12, 0])


@pytest.mark.broker
@pytest.mark.parametrize("client", [CLIENTS[0], *map(thorough, CLIENTS[1:])])
def test_a_stream_join_member_does_not_join_by_halves(broker: Broker, client: str, tmp_path: Path) -> None:
    """The group is of the new protocol already: the broker would let it in and give it half of each topic."""
    topics, group = [new_name("a"), new_name("b")], new_name("foreign")
    for topic in topics:
        broker.create_topic(topic, 6)
    with Newcomer(broker, group, topics) as newcomer, Members(broker, group, topics, tmp_path) as members:
        until(lambda: len(newcomer.held) == 12)
        late = members.python(client, "sticky-stream-join")
        until(lambda: refusals(late))
        until(lambda: len(newcomer.held) == 12)
        assert all(event["partitions"] == {} for event in late.of("assigned"))


@pytest.mark.broker
def test_user_data_in_assignments_keeps_the_newcomer_out(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream join is left alone, librdkafka says only that the group id does not exist; ``switch`` said so before."""
    topics, group = [new_name("a"), new_name("b")], new_name("foreign")
    for topic in topics:
        broker.create_topic(topic, 6)
    with Members(broker, group, topics, tmp_path) as members:
        two = [members.python("kafka-python", "sticky-stream-join") for _ in range(2)]
        settle(two, dict.fromkeys(topics, 6))
        with Newcomer(broker, group, topics) as newcomer:
            until(lambda: newcomer.errors)
            assert "group id does not exist" in newcomer.errors[0]
            assert not newcomer.held
        settle(two, dict.fromkeys(topics, 6))
        assert not any(lines(member, tmp_path, "is no longer asked") for member in two)
        command = ["switch", "--bootstrap-server", broker.bootstrap, "--group", group, "-o", "json"]
        assert main(command) == 0
        found = json.loads(capsys.readouterr().out)["groups"][0]
        assert found["upgradable"] is False
        assert sorted(found["blockers"][0]["members"]) == sorted(member.member_id for member in two)


@pytest.mark.broker
def test_the_first_target_after_an_upgrade_is_the_predicted_one(broker: Broker, tmp_path: Path) -> None:
    """From the last classic assignment and the newcomer's id: to the partition where the prediction is exact."""
    from apportion.sources import live
    from apportion.sources.config import connection

    topics, group = [new_name("a"), new_name("b"), new_name("c")], new_name("foreign")
    for topic in topics:
        broker.create_topic(topic, 6)
    where = connection(broker.bootstrap, None, None)
    with Members(broker, group, topics, tmp_path) as members:
        two = [members.python("kafka-python", "cooperative-sticky") for _ in range(2)]
        settle(two, dict.fromkeys(topics, 6))
        before = dict(raw(live.groups(where, [group])[0]))
        with Newcomer(broker, group, topics) as newcomer:
            until(lambda: len(newcomer.held) == 6 and all(sum(map(len, owned(m).values())) == 6 for m in two))
            after = live.groups(where, [group])[0]
    assert after.protocol == "consumer"
    fields = {name: {"topics": member["topics"]} for name, member in raw(after)["members"].items()}
    asked = {**before, "members": {**fields, **before["members"]}}
    plan = apportion.plan(asked, "broker-uniform")
    given = {name: member.get("owned", {}) for name, member in raw(after)["members"].items()}
    assert plan.measures["moves"] == 6
    if plan.to_dict()["prediction"] == "exact":
        assert plan.assignment == given
    assert sorted(sum(map(len, held.values())) for held in given.values()) == [6, 6, 6]


@pytest.mark.broker
@pytest.mark.parametrize("policy", ["disabled", "downgrade"] if THOROUGH else ["disabled"])
def test_a_broker_that_forbids_upgrades_keeps_the_newcomer_out(jars: str, policy: str, tmp_path: Path) -> None:
    """group.consumer.migration.policy: the group stays as it is, and the newcomer reads nothing."""
    topic, group = new_name("t"), new_name("foreign")
    with Broker(properties={"group.consumer.migration.policy": policy}) as strict:
        strict.create_topic(topic, 6)
        with Members(strict, group, [topic], tmp_path) as members:
            two = [members.python("kafka-python", "failover", priority=priority) for priority in (10, 1)]
            settle(two, {topic: 6})
            with Newcomer(strict, group, [topic]) as newcomer:
                until(lambda: newcomer.errors)
                assert "group id does not exist" in newcomer.errors[0]
                assert not newcomer.held
            assert [len(owned(m).get(topic, ())) for m in two] == [6, 0]
            assert not any(refusals(m) or lines(m, tmp_path, "is no longer asked") for m in two)


@pytest.mark.broker
@pytest.mark.parametrize("client", CLIENTS if THOROUGH else ("kafka-python",))
def test_java_members_are_upgraded_with_ours_and_come_back(broker: Broker, client: str, tmp_path: Path) -> None:
    """Ours says so once; Java's client says nothing. Both read on, and share again when the newcomer has left."""
    topic, group = new_name("t"), new_name("foreign")
    broker.create_topic(topic, 12)
    with Members(broker, group, [topic], tmp_path) as members:
        ours, java = members.python(client, "sticky"), members.java("sticky")
        settle([ours, java], {topic: 12})
        with Newcomer(broker, group, [topic]) as newcomer:
            until(lambda: len(newcomer.held) == 4 and all(len(owned(m).get(topic, ())) == 4 for m in (ours, java)))
            assert len(lines(ours, tmp_path, "is no longer asked")) == 1
            newcomer.leave()
        settle([ours, java], {topic: 12})
        assert len(lines(ours, tmp_path, "is asked again")) == 1


@pytest.mark.broker
@pytest.mark.parametrize("client", CLIENTS if THOROUGH else ("aiokafka",))
def test_who_shares_no_strategy_with_the_classic_members_of_such_a_group_is_told_so(
    broker: Broker, client: str, tmp_path: Path
) -> None:
    topic, group = new_name("t"), new_name("foreign")
    broker.create_topic(topic, 6)
    with Newcomer(broker, group, [topic]) as newcomer, Members(broker, group, [topic], tmp_path) as members:
        until(lambda: len(newcomer.held) == 6)
        first = members.python("kafka-python", "sticky")
        until(lambda: len(owned(first).get(topic, ())) == 3)
        late = members.python(client, "lag-aware")
        until(lambda: refusals(late))
        assert "its classic members have no strategy in common with this one, which has lag-aware" in refusals(late)[0]


@pytest.mark.broker
def test_a_task_runner_runs_no_task_where_the_broker_assigns(broker: Broker, tmp_path: Path) -> None:
    """The group is of the new protocol already; the runner raises from poll, each time, and never gets a task."""
    from apportion.clients.tasks import TaskRunner
    from apportion.tasks.topology import Subtopology, Topology

    topic, log, group = new_name("t"), new_name("log"), new_name("app")
    broker.create_topic(topic, 4)
    broker.create_topic(log, 4, cleanup_policy="compact")
    with Newcomer(broker, group, [topic]) as newcomer:
        until(lambda: len(newcomer.held) == 4)
        with TaskRunner(
            Topology.of(Subtopology((topic,), log)),
            application=group,
            bootstrap_servers=broker.bootstrap,
            state_dir=tmp_path / "state",
            consumer={"session_timeout_ms": 3000, "heartbeat_interval_ms": 300},
        ) as runner:
            for _ in range(2):
                with pytest.raises(StrategyNotAsked, match=r"group.protocol=consumer"):
                    poll_for_ever(runner)
            assert runner.active == []
        until(lambda: len(newcomer.held) == 4)


def test_the_strictest_of_several_strategies_counts_and_a_hook_that_fails_harms_nobody() -> None:
    heard: list[Any] = []

    def hook(event: Any) -> None:
        heard.append(event)
        raise ValueError

    watch = TakeoverWatch([Bridge("sticky", Options(on_plan=hook)), Bridge("failover", Options(on_plan=hook))])
    assert [watch.joined(leader, "g", 5) for leader in ("m", "", "", "m", "")] == [False, True, True, False, True]
    assert [(event.foreign, event.plan, event.generation) for event in heard] == [(True, None, 5)] * 2
    assert TakeoverWatch([Bridge("sticky", Options())]).policy == "log"
    assert TakeoverWatch([Bridge("failover", Options(on_foreign="log"))]).policy == "log"


def test_a_word_that_is_no_policy_is_refused() -> None:
    with pytest.raises(BadInput, match="found 'ignore'; needed one of stop, log, continue"):
        Bridge("sticky", Options(on_foreign="ignore"))  # type: ignore[arg-type]


def test_a_group_consumer_is_no_member_of_the_new_protocol() -> None:
    confluent = pytest.importorskip("apportion.clients.confluent")
    with pytest.raises(BadInput, match=r"group.protocol=consumer.*no client has a strategy there"):
        confluent.GroupConsumer({"group.id": "g", "group.protocol": "consumer"}, ["t"], "sticky")
