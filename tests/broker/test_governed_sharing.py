"""Three governors share a cluster: each has its share, the dead are replaced, and by the records no target changes."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path

import pytest
from kafka.errors import KafkaError
from prometheus_client.parser import text_string_to_metric_families

from apportion.errors import ApportionError
from apportion.governing.carrier import EXPELLED
from apportion.governing.sharing import CLUB
from apportion.sources.cluster import connect
from apportion.sources.cluster_round import look
from apportion.sources.config import Connection
from apportion.sources.offsets_log import whole_groups
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker, free_ports
from apportion.wire.coordinator import EpochRecord

from .conftest import WITH_CLASS
from .members import RawMember, until
from .test_governed_rows import Command

pytestmark = pytest.mark.broker

MEMBER, COMPUTED, TARGET = 5, 6, 7
"""Types of a group's records: who is in it, which epoch was computed, and what each member was given."""
PATIENCE_S = 300
"""Until governors share as they should. It ends when they do; on a busy machine each step takes several sessions."""
SESSION_MS = 12_000
"""Long enough for a crowd that beats twice a second; dead governors are waited for as long."""
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
    """Failover groups of two static members that are nothing but their heartbeats, each sent by a thread of its own.

    One thread for all would wait for the member whose connection is slow to come back while the others expire.
    """

    def __init__(self, broker: Broker, groups: Sequence[str] = GROUPS) -> None:
        self.members = [RawMember(broker, g, topics=["t"], instance_id=f"pod-{p}") for g in groups for p in (10, 5)]
        self.over, self.thread_of = threading.Event(), dict[RawMember, threading.Thread]()
        for member in self.members:
            self.beat(member)

    def beat(self, member: RawMember) -> None:
        """Have a member beat until it is struck from ``members``."""
        self.thread_of[member] = threading.Thread(target=self._run, args=(member,), daemon=True)
        self.thread_of[member].start()

    def _run(self, member: RawMember) -> None:
        while not self.over.wait(0.5) and member in self.members:
            with suppress(KafkaError, ApportionError):  # the broker is away for a moment
                if member.beat_or_refused() in EXPELLED:
                    member.epoch, member.given = 0, set()

    def close(self) -> None:
        self.over.set()
        for thread in self.thread_of.values():
            thread.join(10)
        for member in self.members:
            member.admin.close()


class Scene:
    """A broker, its groups and the governors."""

    def __init__(self, broker: Broker, folder: Path, groups: Sequence[str] = GROUPS, *more: str) -> None:
        self.broker, self.folder, self.governors = broker, folder, list[Command]()
        self.names, self.more = groups, more
        self.crowd = Crowd(broker, groups)

    def govern(self, *args: str, behind_s: int = 0) -> Command:
        command = Command(self.broker, self.folder, "--all-groups", *self.more, *args, behind_s=behind_s, rules=RULES)
        self.governors.append(command)
        return command

    def holders(self) -> Counter[str]:
        """Governor to how many groups it carries the plan of; groups without a carrier count for ""."""
        with connect(self.broker.bootstrap) as cluster:
            groups = look(cluster).groups
        holds = Counter[str]()
        for name in self.names:
            carriers = groups[name].facts["carriers"] if name in groups else ()
            holds[next((seat["client_id"] for seat, _ in carriers if seat["member_epoch"] >= 0), "")] += 1
        return holds

    def shared(self, *groups: int) -> bool:
        """Whether each governor comes to have so many, from few to many, and no group is without one."""

        def as_wanted() -> bool:
            with suppress(ApportionError):
                holders = self.holders()
                return sorted(holders.values()) == list(groups) and "" not in holders
            return False

        return until(as_wanted, PATIENCE_S)

    def words(self) -> list[str]:
        """Who has how many, and what the governors printed."""
        return [str(self.holders()), *(command.text for command in self.governors)]

    def targets(self) -> dict[str, list[dict[str, int]]]:
        """Group to what its members were given, by priority, each time the broker computed, by its records."""
        log = whole_groups(Connection(self.broker.bootstrap, Properties()))
        assert not log.left_out
        return {name: list(_computed(r.record for r in log.groups.get(name, ()))) for name in self.names}


def _computed(records: Iterable[object]) -> Iterator[dict[str, int]]:
    instance: dict[str, str] = {}
    given: dict[str, int] = {}
    for record in records:
        if not isinstance(record, EpochRecord):
            continue
        member, body = str(record.member_id), record.body or {}
        if record.key_type == MEMBER and record.tombstone:
            instance.pop(member, None)
        elif record.key_type == MEMBER:
            instance[member] = str(body.get("instanceId"))
        elif record.key_type == TARGET:
            given[member] = sum(len(entry["partitions"]) for entry in body.get("topicPartitions") or [])
        elif record.key_type == COMPUTED and not record.tombstone:
            yield {pod: given.get(m, 0) for m, pod in instance.items() if pod.startswith("pod-")}


UNIFORM, FAILOVER = {"pod-10": 6, "pod-5": 6}, {"pod-10": 12, "pod-5": 0}


def nothing_moved(targets: Sequence[dict[str, int]]) -> bool:
    """Whether, once governed, one member always had all, and the first kept it as long as it was in the group.

    A member whose session ended on a busy machine is a newcomer, which has nothing until the next plan.
    """
    governed = targets[targets.index(UNIFORM) :]
    governed = governed[governed.index(FAILOVER) :]
    whole = all(12 in given.values() for given in governed if given)
    lost = any(was.get("pod-10") == 12 and now.get("pod-10", 12) != 12 for was, now in pairwise(governed))
    return len(governed) > 1 and whole and not lost


def asked(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def values(port: int, name: str) -> dict[str, float]:
    """Labels to the value of one of a governor's metrics."""
    families = text_string_to_metric_families(asked(port, "/metrics")[1])
    return {str(sorted(s.labels.values())): s.value for f in families for s in f.samples if s.name == name}


@pytest.fixture
def scene(broker_jar: Path, tmp_path: Path) -> Iterator[Scene]:
    properties = {**WITH_CLASS, "group.consumer.session.timeout.ms": str(SESSION_MS)}
    with Broker(class_path=[broker_jar], properties=properties) as broker:
        broker.create_topic("t", 12)
        scene = Scene(broker, tmp_path)
        assert until(lambda: all(UNIFORM in targets for targets in scene.targets().values()), PATIENCE_S)
        yield scene
        for command in scene.governors:
            command.end(signal.SIGKILL)
        scene.crowd.close()


def test_governors_share_the_groups_and_no_kill_moves_a_partition(scene: Scene) -> None:
    """Kill -9 of one of three, of the broker, of all; one that is started again; and one that is asked to end."""

    [port] = free_ports(1)  # one that no connection is lent while nobody listens there
    for more in ((), ("--listen", f"127.0.0.1:{port}"), ()):
        scene.govern(*more)
    assert scene.shared(2, 2, 2), scene.words()
    scene.governors[0].end(signal.SIGKILL)
    assert scene.shared(3, 3), scene.words()
    scene.govern()
    assert scene.shared(2, 2, 2), "a new one gets its share"
    computed = {name: len(targets) for name, targets in scene.targets().items()}
    scene.broker.kill()
    time.sleep(2)  # so that the governors miss it
    scene.broker.start()
    assert scene.shared(2, 2, 2), scene.words()
    assert until(lambda: all(len(targets) > computed[name] for name, targets in scene.targets().items())), "said again"
    # Its exit code is that of its last pass, which on a busy machine may be one without the broker.
    assert until(lambda: values(port, "apportion_governor_groups")["['failed']"] == 0)
    assert scene.governors[1].end() == 0, scene.governors[1].text
    assert scene.shared(3, 3), scene.words()
    for command in scene.governors:
        command.end(signal.SIGKILL)
    assert until(lambda: scene.holders() == {"": len(GROUPS)}, PATIENCE_S), "the sessions of the dead have ended"
    last = scene.govern()
    assert scene.shared(len(GROUPS)), scene.words()
    for name, targets in scene.targets().items():
        assert nothing_moved(targets), (name, targets)
    last.end(signal.SIGKILL)
    scene.broker.restart()  # the plan is forgotten: nobody is there to say it again
    scene.govern()
    assert until(lambda: all(targets[-1] == FAILOVER for targets in scene.targets().values()), PATIENCE_S), (
        scene.words()
    )
    assert scene.shared(len(GROUPS)), scene.words()


def test_a_governor_tells_its_groups_by_metrics_health_and_status(scene: Scene) -> None:
    [port] = free_ports(1)  # one that no connection is lent while nobody listens there
    command = scene.govern("--listen", f"127.0.0.1:{port}")

    def governed() -> bool:
        with suppress(OSError):
            return values(port, "apportion_governor_groups").get("['unchanged']") == len(GROUPS)
        return False

    assert until(governed), command.text
    assert values(port, "apportion_governor_governors") == {"[]": 1}
    assert max(values(port, "apportion_governor_differing_partitions").values()) == 0
    assert 0 < values(port, "apportion_governor_heartbeat_gap_seconds")["[]"] < SESSION_MS / 1000
    assert len(values(port, "apportion_governor_plan_timestamp_seconds")) == len(GROUPS)
    rules = Path(__file__).parents[2] / "examples" / "govern" / "alerts.yml"
    named = set(re.findall(r"apportion_governor_\w+", rules.read_text()))
    assert named <= set(re.findall(r"^apportion_governor_\w+", asked(port, "/metrics")[1], re.MULTILINE)), (
        "alerts are on these"
    )
    assert asked(port, "/healthz") == (200, "ok\n")
    assert asked(port, "/else")[0] == 404
    status = Command(scene.broker, scene.folder, "--status", rules=RULES)
    assert status.process.wait(60) == 0, status.text
    assert all(f"{name}: plan of " in status.text for name in GROUPS)
    assert status.text.count("carried by apportion-governor (apportion-governor-") == len(GROUPS)
    assert CLUB not in status.text
    lines = command.text.splitlines()
    assert len(lines) == len(GROUPS), "one line for each change"
    scene.broker.kill()

    assert until(lambda: asked(port, "/healthz")[0] == 503)
    assert "the cluster was last looked at" in asked(port, "/healthz")[1]
    scene.broker.start()
    assert until(governed)
