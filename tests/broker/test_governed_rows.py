"""A plan belongs to one group, and a governor says what the brokers do: each way in which somebody got past it once.

Failover groups of two members on a broker of each release, with the brokers' own pace (a group is computed once a
second at most). Governors are commands, killed and started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sighted import raw

from apportion.sources import live
from apportion.sources.cluster import Cluster, connect
from apportion.testing.broker import Broker
from apportion.wire import plan_text
from apportion.wire.plan_text import RELEASE, GovernedPlan, MemberKey

from .conftest import LIVE, SESSION_S, WITH_CLASS
from .members import Member, RawMember, new_group, until

pytestmark = pytest.mark.broker

TOPIC = "t"
PACE = {key: value for key, value in WITH_CLASS.items() if "assignment.interval" not in key}
KEY = "a key that signs plans"
PATIENCE_S = 180
"""Until the brokers have resolved an expression, which a busy machine may put off for long."""
RULES = """
[[group]]
pattern = ".*"
assignor = "failover"
[[group.facts]]
fact = "priority"
client_id = "m-p(\\\\d+)"
"""


@pytest.fixture(scope="module", params=LIVE)
def plain(request: pytest.FixtureRequest, broker_jar: Path) -> Iterator[Broker]:
    """A broker that goes by instance ids."""
    with Broker(version=request.param, class_path=[broker_jar], properties=PACE) as broker:
        broker.create_topic(TOPIC, 12)
        yield broker


@pytest.fixture(scope="module", params=LIVE)
def keyed(
    request: pytest.FixtureRequest, broker_jar: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker that asks for signed plans."""
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_text(KEY)
    properties = {**PACE, "apportion.plan.key.file": str(key)}
    with Broker(version=request.param, class_path=[broker_jar], properties=properties) as broker:
        broker.create_topic(TOPIC, 12)
        yield broker


class Command:
    """``apportion govern`` as a process, and what it printed."""

    def __init__(self, broker: Broker, folder: Path, *args: str, behind_s: int = 0, rules: str = RULES) -> None:
        file = folder / "govern.toml"
        file.write_text(rules)
        self.log = folder / f"{time.monotonic_ns()}.log"
        back = f"import time; now = time.time; time.time = lambda: now() - {behind_s}; "
        main = "import sys; from apportion.cli import main; sys.exit(main())"
        words = ["govern", "--bootstrap-server", broker.bootstrap, "--config", str(file), "--interval", "1", *args]
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", (back if behind_s else "") + main, *words], stdout=out, stderr=out
            )

    @property
    def text(self) -> str:
        return self.log.read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        return self.process.wait(60)


class Two:
    """A failover group: the member with priority 10, the standby with 5, and the governor."""

    def __init__(self, broker: Broker, folder: Path, *more: str) -> None:
        self.broker, self.folder, self.more, self.name = broker, folder, more, new_group()
        self.first, self.standby = (Member(broker, self.name, f"m-p{p}", [TOPIC]) for p in (10, 5))
        assert until(lambda: self.held == (6, 6)), "without a plan: uniform"
        self.command = self.govern()
        assert until(lambda: self.held == (12, 0)), self.command.text

    def govern(self, *args: str, behind_s: int = 0) -> Command:
        return Command(self.broker, self.folder, "--group", self.name, *self.more, *args, behind_s=behind_s)

    @property
    def held(self) -> tuple[int, int]:
        return len(self.first.held), len(self.standby.held)

    def stays(self, *held: int, seconds: float = 4) -> bool:
        """Whether the members hold so many for some seconds, though the group is computed once more in between."""
        self.provoke()
        return not until(lambda: self.held != held, seconds)

    def provoke(self) -> None:
        """Have the group computed: a member that wants nothing leaves."""
        guest = RawMember(self.broker, self.name, "guest-" + self.name)
        guest.beat()
        time.sleep(1.2)  # a beat of its own, after the pace at which the group is computed
        guest.beat()
        guest.leave()

    def members(self, cluster: Cluster) -> dict[str, str]:
        """Client id to member id."""
        [seen] = live.read(cluster, [self.name])
        return {fields["client_id"]: member for member, fields in raw(seen)["members"].items() if fields["client_id"]}

    def plan_for_standby(self, cluster: Cluster, number: int = 10**17, promise: int = 0) -> GovernedPlan:
        """All partitions to the one with the lower priority."""
        ids, members = cluster.partitions([TOPIC])[0].topic_id or "", self.members(cluster)
        keys = tuple(MemberKey(members[client]) for client in ("m-p10", "m-p5"))
        return GovernedPlan(number, promise, keys, (), {} if promise else {plan_text.topic_id(ids): [1] * 12})

    def close(self) -> None:
        self.command.end()
        for member in (self.first, self.standby):
            member.close()


@pytest.fixture
def two(plain: Broker, tmp_path: Path) -> Iterator[Two]:
    group = Two(plain, tmp_path)
    yield group
    group.close()


@pytest.fixture
def cluster(two: Two) -> Iterator[Cluster]:
    with connect(two.broker.bootstrap) as cluster:
        yield cluster


def carrying(broker: Broker, plan: GovernedPlan, group: str, instance: str, key: bytes | None = None) -> RawMember:
    """A member of somebody else that carries a plan which it wrote."""
    carrier = RawMember(broker, group, instance_id=instance)
    [text] = plan_text.texts(plan, carrier.member_id, key)
    carrier.fields |= {
        **plan_text.joining(text),
        "subscribed_topic_names": [TOPIC],
    }  # without a topic nothing is computed
    carrier.beat()
    return carrier


def test_another_carrier_with_a_higher_number_is_named_and_overtaken_and_counts_no_more_once_it_left(
    two: Two, cluster: Cluster
) -> None:
    thief = carrying(two.broker, two.plan_for_standby(cluster), two.name, "apportion-governor-2")
    assert until(lambda: "apportion-governor-2 (" in two.command.text), two.command.text
    assert f"carries plan {10**17}" in two.command.text
    assert until(lambda: two.held == (12, 0)), "while it is still there"
    thief.beat()
    thief.leave()
    assert two.stays(12, 0)
    assert two.command.end(signal.SIGKILL) != 0
    two.command = two.govern()
    assert until(lambda: f"{two.name}: published" in two.command.text), two.command.text
    two.first.close()
    assert until(lambda: two.held == (0, 12))


@pytest.mark.thorough  # test_governed_assignor.py asks the class itself
def test_a_group_of_somebody_else_with_our_member_ids_changes_nothing_here(two: Two, cluster: Cluster) -> None:
    ours, members = two.members(cluster), []
    for member_id in ours.values():
        members.append(RawMember(two.broker, f"own-{two.name}", member_id, [TOPIC]))
        members[-1].beat()
    thief = carrying(two.broker, two.plan_for_standby(cluster), f"own-{two.name}", "apportion-governor")
    for _ in range(3):
        time.sleep(1.2)  # a beat of its own, after the pace at which the group is computed
        for one in (*members, thief):
            one.beat()
    assert sorted(map(len, (one.given for one in members))) == [0, 12], "there the plan is followed"
    assert two.stays(12, 0)
    two.command.end(signal.SIGKILL)
    time.sleep(SESSION_S + 2)  # the session of the dead is over
    assert two.stays(12, 0), "by the plan that the brokers remember"
    two.command = two.govern()
    two.first.close()
    assert until(lambda: two.held == (0, 12)), "and a new one is heard"


@pytest.mark.thorough  # test_governed_assignor.py asks the class itself
def test_a_signed_release_of_another_group_releases_nobody_here(keyed: Broker, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    two = Two(keyed, tmp_path, "--key-file", str(tmp_path / "key"))
    with connect(keyed.bootstrap) as cluster:
        other = GovernedPlan(10**17, RELEASE, (MemberKey("somebody"), MemberKey("of another group")), (), {})
        replayed = carrying(two.broker, other, two.name, "replayed", KEY.encode())
        own = carrying(two.broker, two.plan_for_standby(cluster), two.name, "unsigned")
        assert two.stays(12, 0)
        for one in (replayed, own):
            one.beat()
            one.leave()
        assert two.command.end() == 0, two.command.text
        assert two.stays(12, 0)
    two.close()


def test_the_next_governors_clock_is_an_hour_behind_and_its_plan_is_followed_at_once(two: Two) -> None:
    two.command.end(signal.SIGKILL)
    two.command = two.govern(behind_s=3600)
    assert until(lambda: f"{two.name}: published" in two.command.text), two.command.text
    two.first.close()
    assert until(lambda: two.held == (0, 12))
    two.first = Member(two.broker, two.name, "m-p10", [TOPIC])
    assert until(lambda: two.held == (12, 0)), "preempted by a plan that is younger"


def test_a_plan_holds_after_the_broker_restarted_and_its_governor_died_though_nothing_changed(two: Two) -> None:
    two.broker.restart()
    assert until(lambda: two.held == (12, 0))
    time.sleep(SESSION_S + 2)  # whoever was lost with the broker is expelled
    two.command.end(signal.SIGKILL)
    time.sleep(SESSION_S + 2)  # the session of the dead is over
    assert two.held == (12, 0)
    assert two.stays(12, 0), "the class has heard the plan since the restart"


def test_a_member_by_expression_gets_what_one_by_names_would_get(plain: Broker, tmp_path: Path) -> None:
    """It joins a governed group last, so the plan that is followed gives it nothing that could tell what it wants."""
    two = Two.__new__(Two)
    two.broker, two.folder, two.more, two.name = plain, tmp_path, (), new_group()
    two.standby = Member(plain, two.name, "m-p5", [TOPIC])
    two.command = two.govern()
    try:
        assert until(lambda: f"{two.name}: published" in two.command.text, PATIENCE_S), two.command.text
        two.first = Member(plain, two.name, "m-p10", ["^t$"])
        assert until(lambda: two.held == (12, 0), PATIENCE_S), two.command.text
        assert "elsewhere" not in two.command.text, "while brokers resolve the expression nobody is suspected"
        two.first.close()
        assert until(lambda: two.held == (0, 12), PATIENCE_S), two.command.text
    finally:
        two.close()


def test_a_release_is_said_once_the_brokers_have_let_the_group_go(two: Two) -> None:
    two.standby.close()
    two.command.end()
    two.standby = Member(two.broker, two.name, "m-p5", [TOPIC])
    released = two.govern("--release")
    assert released.process.wait(60) == 0, released.text
    assert f"{two.name}: released" in released.text
    assert until(lambda: two.held == (6, 6)), released.text
    assert two.stays(6, 6)


def test_a_release_while_another_governor_governs_says_who(two: Two) -> None:
    refused = two.govern("--release")
    assert refused.process.wait(60) == 3
    assert f"{two.name}: not released: apportion-governor (apportion-governor-" in refused.text
    assert two.stays(12, 0)


def test_a_governor_that_the_brokers_do_not_trust_says_so_in_its_log_and_exit_code(
    keyed: Broker, tmp_path: Path
) -> None:
    """It signs nothing, and these brokers ask for a key."""
    two = Two.__new__(Two)
    two.broker, two.folder, two.more, two.name = keyed, tmp_path, (), new_group()
    two.first, two.standby = (Member(keyed, two.name, f"m-p{p}", [TOPIC]) for p in (10, 5))
    assert until(lambda: two.held == (6, 6))
    two.command = two.govern()
    assert until(lambda: f"{two.name}: refused" in two.command.text), two.command.text
    assert "is apportion.plan.key.file on the brokers another key" in two.command.text
    assert two.held == (6, 6)
    assert two.command.end() == 3
    assert f"The brokers do not follow the plan of {two.name}." in two.command.text
    two.close()
