"""One version back: members, governors, state folders and tables of an earlier wheel and today's, both ways round."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import WITH_CLASS
from tests.broker.members import Member, until
from tests.clients.groups import SESSION_MS, new_name, settle
from tests.clients.judge import Life, two_owners
from tests.spark import made
from tests.support import java_artifacts
from tests.support.earlier import ROOT, TODAY, Version, earlier
from tests.support.examples import thorough
from tests.support.member import PythonMember

from apportion.testing.broker import Broker

pytestmark = pytest.mark.slow
PARTITIONS = 6
BOTH_WAYS = ["earlier first", "today first"]


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Version]]:
    then = earlier(tmp_path_factory.mktemp("earlier"))
    return {"earlier first": [then, TODAY], "today first": [TODAY, then]}


@pytest.mark.broker
@pytest.mark.parametrize(
    ("client", "strategy", "order"),
    [
        ("kafka-python", "cooperative-sticky", "earlier first"), ("aiokafka", "sticky", "today first"),
        ("confluent", "failover", "earlier first"), thorough("kafka-python", "cooperative-sticky", "today first"),
        thorough("aiokafka", "sticky", "earlier first"), thorough("confluent", "failover", "today first"),
        *(thorough("kafka-python", name, order) for name in ("lag-aware", "cooperative-sticky-stream-join")
          for order in BOTH_WAYS),
    ],
)  # fmt: skip
def test_members_of_both_versions_share_a_group_whoever_leads(
    broker: Broker, versions: dict[str, list[Version]], order: str, client: str, strategy: str, tmp_path: Path
) -> None:
    """Each partition has one owner at any time, also after the leader's version has gone."""
    topic, group = new_name("versions"), new_name("versions")
    broker.create_topic(topic, PARTITIONS)
    members: list[PythonMember] = []
    try:
        for number, version in enumerate([*versions[order], versions[order][0]]):
            member = PythonMember(
                tmp_path / f"{number}.log", version.process, client=client, bootstrap=broker.bootstrap, group=group,
                topics=[topic], strategies=[strategy], session_ms=SESSION_MS, beat_ms=300, name=f"{client}-{number}",
            )  # fmt: skip
            members.append(member)
            settle(members, {topic: PARTITIONS}, calm_s=0.2)
        members[0].leave()
        settle(members[1:], {topic: PARTITIONS}, calm_s=0.2)
        # aiokafka's cooperative members give all up while they join, as eager ones do.
        keeps = strategy.startswith("cooperative") and client != "aiokafka"
        lives = [Life(one.name, keeps, list(one.events), None, client).live() for one in members]
        assert not list(two_owners(lives))
        assert not [event for one in members for event in one.of("error")]
    finally:
        for member in members:
            member.close()


@pytest.mark.broker
@pytest.mark.parametrize("order", [thorough("earlier first"), "today first"])  # as the changelog says: the class first
def test_a_governors_plan_is_applied_by_the_class_of_the_other_version_or_changes_nothing(
    jars: str, versions: dict[str, list[Version]], order: str, tmp_path: Path
) -> None:
    """``failover`` plans all partitions to one member, and the class's own answer spreads them; the changelog says what
    to do where no plan of the other version is applied. The order is that of the class and the governor."""
    in_the_broker, governs = versions[order]
    jar = java_artifacts.broker_jar(in_the_broker.root / "broker", f"broker of {order}".replace(" ", "-"))
    rules, log = tmp_path / "govern.toml", tmp_path / "governor.log"
    rules.write_text('[[group]]\nname = "governed"\nassignor = "failover"\n')
    with Broker(class_path=[jar], properties=WITH_CLASS) as broker, log.open("w") as written:
        broker.create_topic("t", PARTITIONS)
        members = [Member(broker, "governed", f"m{n}", ["t"]) for n in range(2)]
        words = ["--bootstrap-server", broker.bootstrap, "--group", "governed", "--config", str(rules)]
        command = [sys.executable, "-m", "apportion", "govern", *words, "--interval", "1"]
        seen: list[list[int]] = []

        def held() -> list[int]:
            seen.append(sorted(len(one.held) for one in members))
            return seen[-1]

        try:
            assert until(lambda: held() == [PARTITIONS // 2] * 2)
            seen.clear()
            governor = subprocess.Popen(command, stdout=written, stderr=written, **governs.process)
            try:
                assert until(lambda: "published" in log.read_text()), log.read_text()
                applied = until(lambda: held() == [0, PARTITIONS], SETTLED_S)
            finally:
                governor.terminate()
                governor.wait(60)
            assert applied or seen == [[PARTITIONS // 2] * 2] * len(seen), "as planned, or nobody was disturbed"
            assert applied or UNFOLLOWED in " ".join((ROOT / "CHANGELOG.md").read_text().split())
            assert not [error for one in members for error in one.errors]
        finally:
            for one in members:
                one.close()


SETTLED_S = 8.0
"""The group is computed at most each 0.1 s, and its members say each second that they live: eight such rounds."""
UNFOLLOWED = "Bring the new class to every broker, then start the new governor."


TASKS = """
import json, sys, time
from pathlib import Path
from apportion.clients.tasks import TaskRunner
from apportion.tasks.topology import Subtopology, Topology

bootstrap, application, source, changelog, folder, count = sys.argv[1:]
runner = TaskRunner(
    Topology.of(Subtopology((source,), changelog)), application=application, bootstrap_servers=bootstrap,
    state_dir=Path(folder), guarantee="at_least_once",
    consumer={"session_timeout_ms": 20000, "heartbeat_interval_ms": 300},
)
read, end = 0, time.monotonic() + 120

def stored():
    return sum(len(list(runner.state(task).store.items())) for task in runner.active)

while not (len(runner.active) == 2 and stored() >= int(count)):
    assert time.monotonic() < end, (runner.active, read)
    for task, records in runner.poll(20).items():
        for record in records:
            runner.state(task).put(record.value, str(record.offset).encode())
            read += 1
    runner.commit()
print(json.dumps({"read": read, "stored": stored(), "restored": runner.restored}))
runner.close()
"""


@pytest.mark.broker
@pytest.mark.parametrize("order", ["earlier first", thorough("today first")])
def test_a_state_folder_of_the_other_version_is_taken_up_where_it_ended(
    broker: Broker, versions: dict[str, list[Version]], order: str, tmp_path: Path
) -> None:
    """Nothing is read again, and nothing is restored that is in the folder."""
    from kafka import KafkaProducer

    source, changelog, application = new_name("source"), new_name("changelog"), new_name("app")
    broker.create_topic(source, 2)
    broker.create_topic(changelog, 2, cleanup_policy="compact")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap.split(","))
    told: list[dict[str, Any]] = []
    for turn, version in enumerate(versions[order], 1):
        for n in range(100 * (turn - 1), 100 * turn):
            producer.send(source, str(n).encode(), partition=n % 2)
        producer.flush()
        names = [broker.bootstrap, application, source, changelog, str(tmp_path / "state")]
        told.append(json.loads(version.run("-c", TASKS, *names, str(100 * turn)).splitlines()[0]))
    producer.close()
    assert told == [
        {"read": 100, "stored": 100, "restored": 0},
        {"read": 100, "stored": 200, "restored": 0},
    ]


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("order", ["earlier first", thorough("today first")])
def test_tables_of_the_other_version_are_gone_on_with_or_it_is_said_why_not(
    java_for_tables: None, versions: dict[str, list[Version]], order: str, tmp_path: Path
) -> None:
    """A second build on the same dump keeps the files of the first, or says what has changed since."""
    dump = made.write_dump(tmp_path / "dump", made.every_kind())
    out = tmp_path / "out"
    first, second = versions[order]
    words = ["-m", "apportion", "pipeline", "build", "--from", str(dump), "--to", str(out)]
    first.run(*words)
    before = files(out, ["silver"])
    assert before
    progress = second.run(*words)
    its_words = {"earlier first": "rebuilding everything: ", "today first": "making everything anew: "}[order]
    assert files(out, ["silver"]) == before or its_words in progress, progress


@pytest.fixture(scope="module")
def java_for_tables() -> None:
    from apportion.errors import Unavailable
    from apportion.spark import session

    try:
        session.java()
    except Unavailable as missing:
        pytest.skip(str(missing))


def files(out: Path, layers: Sequence[str]) -> dict[str, int]:
    """Each data file of some layers to when it was written, in nanoseconds."""
    return {
        str(file.relative_to(out)): file.stat().st_mtime_ns
        for layer in layers
        for file in sorted((out / layer).rglob("*.parquet"))
    }
