"""Three governors share a cluster: each has its share, the dead are replaced, and by the records no target changes."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from kafka.errors import KafkaError
from prometheus_client.parser import text_string_to_metric_families

from apportion.errors import ApportionError
from apportion.governing.sharing import CLUB
from apportion.sources.cluster import connect
from apportion.sources.cluster_round import look
from apportion.sources.config import Connection
from apportion.sources.offsets_log import whole_groups
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker
from apportion.wire.coordinator import EpochRecord

from .conftest import WITH_CLASS
from .members import RawMember, until
from .test_governed_rows import Command

pytestmark = pytest.mark.broker

TARGET, COMPUTED = 7, 6
GROUPS = [f"share-{n}" for n in range(6)]
RULES = """
[[group]]
pattern = "share-.*"
assignor = "failover"
[[group.facts]]
fact = "priority"
instance_id = "pod-(\\\\d+)"
"""


class Crowd:
    """Failover groups of two static members that are nothing but their heartbeats, sent by one thread."""

    def __init__(self, broker: Broker) -> None:
        self.members = [RawMember(broker, g, topics=["t"], instance_id=f"pod-{p}") for g in GROUPS for p in (10, 5)]
        self.first = {m.group: m.member_id for m in self.members if m.fields["instance_id"] == "pod-10"}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.over.wait(0.5):
            for member in self.members:
                with suppress(KafkaError, ApportionError, AssertionError):  # the broker is away for a moment
                    member.beat()

    def close(self) -> None:
        self.over.set()
        self.thread.join(10)
        for member in self.members:
            member.admin.close()


class Scene:
    """A broker, its groups and the governors."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.folder, self.governors = broker, folder, list[Command]()
        self.crowd = Crowd(broker)

    def govern(self, *args: str) -> Command:
        command = Command(self.broker, self.folder, "--all-groups", *args, rules=RULES)
        self.governors.append(command)
        return command

    def holders(self) -> Counter[str]:
        """Governor to how many groups it carries the plan of; groups without a carrier count for ""."""
        with connect(self.broker.bootstrap) as cluster:
            groups = look(cluster).groups
        holds = Counter[str]()
        for name in GROUPS:
            carriers = groups[name].description["carriers"] if name in groups else ()
            holds[next((seat["client_id"] for seat, _ in carriers if seat["member_epoch"] >= 0), "")] += 1
        return holds

    def share(self) -> list[int]:
        """How many each governor has, sorted."""
        try:
            return sorted(self.holders().values())
        except ApportionError:
            return []

    def targets(self) -> dict[str, list[tuple[int, int]]]:
        """Group to (partitions of the first member, of all others) each time the broker computed, by its records."""
        log = whole_groups(Connection(self.broker.bootstrap, Properties()))
        assert not log.left_out
        return {name: list(self._computed(name, [r.record for r in log.groups.get(name, ())])) for name in GROUPS}

    def _computed(self, name: str, records: list[object]) -> Iterator[tuple[int, int]]:
        held: dict[str, int] = {}
        for record in records:
            if not isinstance(record, EpochRecord):
                continue
            if record.key_type == TARGET:
                lists = (record.body or {}).get("topicPartitions") or []
                held[str(record.member_id)] = sum(len(entry["partitions"]) for entry in lists)
            elif record.key_type == COMPUTED and not record.tombstone:
                first = held.get(self.crowd.first[name], 0)
                yield first, sum(held.values()) - first


@pytest.fixture
def scene(broker_jar: Path, tmp_path: Path) -> Iterator[Scene]:
    with Broker(class_path=[broker_jar], properties=WITH_CLASS) as broker:
        broker.create_topic("t", 12)
        scene = Scene(broker, tmp_path)
        assert until(lambda: all((6, 6) in targets for targets in scene.targets().values())), "uniform"
        yield scene
        for command in scene.governors:
            command.end(signal.SIGKILL)
        scene.crowd.close()


@pytest.mark.thorough  # minutes of sessions that must time out: the last share is not reached in time on a busy machine
def test_governors_share_the_groups_and_no_kill_moves_a_partition(scene: Scene) -> None:
    """Kill -9 of one of three, of the broker, of all; one that is started again; and one that is asked to end."""
    for _ in range(3):
        scene.govern()
    assert until(lambda: scene.share() == [2, 2, 2]), [command.text for command in scene.governors]
    scene.governors[0].end(signal.SIGKILL)
    assert until(lambda: scene.share() == [3, 3]), scene.holders()
    scene.govern()
    assert until(lambda: scene.share() == [2, 2, 2]), "a new one gets its share"
    scene.broker.kill()
    time.sleep(2)
    scene.broker.start()
    assert until(lambda: scene.share() == [2, 2, 2])
    assert scene.governors[1].end() == 0, scene.governors[1].text
    assert until(lambda: scene.share() == [3, 3]), [command.text for command in scene.governors]
    for command in scene.governors:
        command.end(signal.SIGKILL)
    scene.broker.kill()
    scene.broker.start()
    assert until(lambda: bool(scene.share()))
    scene.govern()
    assert until(lambda: scene.share() == [6], 240), [command.text for command in scene.governors]
    for name, targets in scene.targets().items():
        governed = targets[targets.index((6, 6)) + 1 :]
        assert len(governed) > 1, "the broker computed again"
        assert set(governed) == {(12, 0)}, (name, targets)


def test_a_governor_tells_its_groups_by_metrics_health_and_status(scene: Scene) -> None:
    command = scene.govern("--listen", "127.0.0.1:19479")

    def asked(path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", 19479, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def values(name: str) -> dict[str, float]:
        families = text_string_to_metric_families(asked("/metrics")[1])
        return {str(sorted(s.labels.values())): s.value for f in families for s in f.samples if s.name == name}

    def governed() -> bool:
        with suppress(OSError):
            return values("apportion_governor_groups").get("['unchanged']") == len(GROUPS)
        return False

    assert until(governed), command.text
    assert values("apportion_governor_governors") == {"[]": 1}
    assert max(values("apportion_governor_differing_partitions").values()) == 0
    assert 0 < values("apportion_governor_heartbeat_gap_seconds")["[]"] < 4
    assert len(values("apportion_governor_plan_timestamp_seconds")) == len(GROUPS)
    rules = Path(__file__).parents[2] / "examples" / "govern" / "alerts.yml"
    named = set(re.findall(r"apportion_governor_\w+", rules.read_text()))
    assert named <= set(re.findall(r"^apportion_governor_\w+", asked("/metrics")[1], re.MULTILINE)), (
        "alerts are on these"
    )
    assert asked("/healthz") == (200, "ok\n")
    assert asked("/else")[0] == 404
    status = Command(scene.broker, scene.folder, "--status", rules=RULES)
    assert status.process.wait(60) == 0, status.text
    assert all(f"{name}: plan of " in status.text for name in GROUPS)
    assert status.text.count("carried by apportion-governor (apportion-governor-") == len(GROUPS)
    assert CLUB not in status.text
    lines = command.text.splitlines()
    assert len(lines) == len(GROUPS), "one line for each change"
    scene.broker.kill()

    assert until(lambda: asked("/healthz")[0] == 503)
    assert "the cluster was last looked at" in asked("/healthz")[1]
    scene.broker.start()
    assert until(governed)
