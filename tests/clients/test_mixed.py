"""Java and Python members share a group, whoever leads, and each side reads what the other remembers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest
from tests.support.examples import thorough
from tests.support.member import PythonMember
from tests.support.sighted import raw

import apportion
from apportion.sources import live
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaAssignors, JavaMember

from .groups import Members, leads, new_name, owned, pairs, settle, words

pytestmark = pytest.mark.broker
SIZE = 7
ONE_AT_A_TIME = Lock()
PYTHON = ("kafka-python", "aiokafka")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = new_name("mixed")
    broker.create_topic(name, SIZE)
    return name


@pytest.fixture(scope="module")
def kafka(jars: str):
    with JavaAssignors() as assignors:
        yield assignors


@pytest.mark.parametrize(
    ("client", "leader"),
    [
        ("kafka-python", "python"),
        ("aiokafka", "java"),
        thorough("aiokafka", "python"),
        thorough("kafka-python", "java"),
    ],
)
def test_a_mixed_group_settles_on_the_leaders_plan(
    broker: Broker, topic: str, kafka: JavaAssignors, client: str, leader: str, tmp_path: Path
):
    """Three members settle, keep what they can when the third leaves, and the plan is the leader's strategy's.

    Four groups at a time, one a strategy: most of it is waiting.
    """

    def try_one(strategy: str) -> None:
        mixed_group(broker, topic, kafka, strategy, client, leader, tmp_path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(try_one, STRATEGIES))


def mixed_group(
    broker: Broker, topic: str, kafka: JavaAssignors, strategy: str, client: str, leader: str, logs: Path
) -> None:
    """One cell of the matrix."""
    with Members(broker, new_name(f"mixed-{strategy}"), [topic], logs) as group:
        clients = ["java", client, client] if leader == "java" else [client, "java", client]
        members = [one_member(group, clients[0], strategy)]
        settle(members, {topic: SIZE}, calm_s=0.2)
        members += [one_member(group, kind, strategy) for kind in clients[1:]]
        settle(members, {topic: SIZE})
        check_plan(members, topic, strategy, kafka)
        check_leaders_words(group, members, by_python=leader == "python")
        python_leads = any(leads(m) for m in members if isinstance(m, PythonMember))
        assert python_leads == (leader == "python")
        *rest, third = members
        before = [pairs(member) for member in rest]
        third.leave()
        settle(rest, {topic: SIZE})
        check_plan(rest, topic, strategy, kafka)
        check_leaders_words(group, rest, by_python=leader == "python")
        if "sticky" in strategy:
            check_kept(rest, before, cooperative=strategy.startswith("coop"), leader=leader, client=client)


def check_plan(members: list[PythonMember | JavaMember], topic: str, strategy: str, kafka: JavaAssignors) -> None:
    """Range and round robin give exactly Kafka's answer; the sticky ones one of equal loads."""
    shares = {member.member_id: owned(member) for member in members}
    group = {"topics": {topic: SIZE}, "members": {member: {"topics": [topic]} for member in shares}}
    if strategy in ("range", "roundrobin"):
        with ONE_AT_A_TIME:
            wanted = kafka.assign(strategy, group)
        assert shares == {member: {t: sorted(ids) for t, ids in share.items()} for member, share in wanted.items()}
        assert shares == apportion.plan(group, strategy).assignment
    loads = sorted(len(share.get(topic, [])) for share in shares.values())
    assert loads[-1] - loads[0] <= 1


def one_member(group: Members, kind: str, strategy: str) -> PythonMember | JavaMember:
    """A member in Java, or in a client of Python that tells its plans where it leads."""
    return group.java(strategy) if kind == "java" else group.python(kind, strategy, plans=True)


def check_leaders_words(group: Members, members: list[PythonMember | JavaMember], *, by_python: bool) -> None:
    """Everybody has exactly what the leader wrote: as the broker keeps it, and as a leader of ours planned it."""
    shares = {member.member_id: owned(member) for member in members}
    (kept,) = live.groups(Connection(group.broker.bootstrap, Properties()), [group.group])
    assert {name: fields.get("owned", {}) for name, fields in raw(kept)["members"].items()} == shares
    plans = [plan for one in members if isinstance(one, PythonMember) for plan in one.of("planned")]
    # A member whose partitions stay is not told of every generation, so the newest plan counts.
    newest = sorted(plans, key=lambda plan: plan["generation"])[-1:]
    assert [plan["assignment"] for plan in newest] == ([shares] if by_python else [])


def check_kept(
    rest: list[PythonMember | JavaMember],
    before: list[set[tuple[str, int]]],
    *,
    cooperative: bool,
    leader: str,
    client: str,
) -> None:
    """Whoever stays keeps all it had. One exception: aiokafka under Java's cooperative leader, which sees no wishes."""
    for member, had in zip(rest, before, strict=True):
        if cooperative and leader == "java" and client == "aiokafka" and isinstance(member, PythonMember):
            continue
        assert had <= pairs(member), (had, pairs(member), words(rest))
