"""The newest claims win, and wishes are not waited for: what a leader makes of members that were away for a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.clients.joining import JoiningMember, assign
from tests.support.examples import thorough
from tests.support.member import PythonMember

from apportion.assignors import find
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.options import Options
from apportion.strategy.codec import Holding
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember
from apportion.wire.partitions import Held
from apportion.wire.subscription import Subscription

from .groups import SHORT_MS, Members, new_name, pairs, settle

SIZE = 12


class Topics:
    """One topic of twelve partitions."""

    def partitions(self, topic: str) -> Iterable[int] | None:
        return range(SIZE)

    def racks(self, topic: str) -> Mapping[int, Sequence[str]]:
        return {}


def joining(name: str, strategy: str, owned: Held, generation: int | None, *, keeps: bool) -> JoiningMember:
    """A member as it comes back with what it was given in that generation."""
    bridge = Bridge(find(strategy), Options())
    bridge.last = Holding(owned, generation, keeps=keeps)
    return JoiningMember(name, None, bridge.subscription(["t"], keeps=keeps))


def led(strategy: str, members: Sequence[JoiningMember]) -> dict[str, set[int]]:
    shares = assign(Bridge(find(strategy), Options()), members, Topics(), "g", 9)
    return {name: {p for _, ids in share.partitions for p in ids} for name, share in shares.items()}


@pytest.mark.parametrize(
    ("strategy", "keeps"), [("sticky", False), ("cooperative-sticky", False), ("cooperative-sticky", True)]
)
def test_a_leader_believes_the_newer_of_two_claims(strategy: str, keeps: bool) -> None:
    """a was frozen since generation 5, when it had all; since 8 the others have six each and keep four of theirs."""
    everything = tuple(range(SIZE))
    low, high = everything[:6], everything[6:]
    members = [
        joining("a", strategy, (("t", everything),), 5, keeps=keeps),
        joining("b", strategy, (("t", high),), 8, keeps=keeps),
        joining("c", strategy, (("t", low),), 8, keeps=keeps),
    ]
    shares = led(strategy, members)
    assert len(shares["b"]) == len(shares["c"]) == 4
    assert shares["b"] <= set(high)
    assert shares["c"] <= set(low)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_member_of_version_one_tells_its_generation_in_user_data_alone(keeps: bool) -> None:
    """Before version 2 of the subscription Java's cooperative members had no other place for it."""
    everything = tuple(range(SIZE))
    low, high = everything[:6], everything[6:]
    claims = {"a": (everything, 5), "b": (high, 8), "c": (low, 8)}
    members = []
    for name, (ids, generation) in claims.items():
        now = joining(name, "cooperative-sticky", (("t", ids),), generation, keeps=keeps).subscription
        members.append(JoiningMember(name, None, Subscription(now.topics, now.user_data, now.owned, None, None, 1)))
    shares = led("cooperative-sticky", members)
    assert len(shares["b"]) == len(shares["c"]) == 4
    assert shares["b"] <= set(high)
    assert shares["c"] <= set(low)


def test_nobody_waits_for_a_member_that_has_let_go_already() -> None:
    """An eager client's claims are wishes: what goes elsewhere is given at once, not withheld for a round."""
    everything = tuple(range(SIZE))
    let_go = joining("a", "cooperative-sticky", (("t", everything),), 8, keeps=False)
    still_holds = joining("a", "cooperative-sticky", (("t", everything),), 8, keeps=True)
    new = joining("b", "cooperative-sticky", (), None, keeps=True)
    other = joining("c", "cooperative-sticky", (), None, keeps=True)
    assert [len(ids) for ids in led("cooperative-sticky", [let_go, new, other]).values()] == [4, 4, 4]
    assert [len(ids) for ids in led("cooperative-sticky", [still_holds, new, other]).values()] == [4, 0, 0]
    # One that holds and one that has let go, in one group: only what the first holds is waited for.
    holder = joining("b", "cooperative-sticky", (("t", everything[:6]),), 8, keeps=True)
    wisher = joining("a", "cooperative-sticky", (("t", everything[6:]),), 8, keeps=False)
    shares = led("cooperative-sticky", [holder, wisher, other])
    assert {name: len(ids) for name, ids in shares.items()} == {"a": 4, "b": 4, "c": 2}


@pytest.mark.broker
@pytest.mark.parametrize("leader", ["kafka-python", thorough("java")])
def test_a_member_that_wakes_with_old_claims_takes_nothing_that_others_may_keep(
    broker: Broker, leader: str, tmp_path: Path
) -> None:
    """Alone it had all; frozen past its session; three others came one by one, and each keeps three quarters.

    One by one, so that what they hold is not what a deal from nothing would give them by chance.
    """
    topic = new_name("woken")
    broker.create_topic(topic, 2 * SIZE)
    with Members(broker, new_name("woken"), [topic], tmp_path) as group:
        frozen = group.member("java" if leader != "java" else "kafka-python", "sticky", SHORT_MS)
        settle([frozen], {topic: 2 * SIZE})
        stop(frozen)
        others: list[PythonMember | JavaMember] = []
        for client in (leader, "kafka-python", "java"):
            others.append(group.member(client, "sticky"))
            settle(others, {topic: 2 * SIZE}, calm_s=0.2)
        before = [pairs(member) for member in others]
        assert [len(held) for held in before] == [8, 8, 8]
        wake(frozen)
        settle([frozen, *others], {topic: 2 * SIZE})
        for member, held in zip(others, before, strict=True):
            assert len(pairs(member)) == 6
            assert set(pairs(member)) <= set(held), f"{member} was given what it had not"


def stop(member: PythonMember | JavaMember) -> None:
    member.freeze() if isinstance(member, JavaMember) else member.process.send_signal(19)


def wake(member: PythonMember | JavaMember) -> None:
    member.thaw() if isinstance(member, JavaMember) else member.process.send_signal(18)
