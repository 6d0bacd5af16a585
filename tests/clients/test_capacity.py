"""A member's capacity travels behind what Java reads, the leader plans by it, and without it no byte changes."""

from __future__ import annotations

import pytest
from tests.clients.joining import JoiningMember, assign

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.strategy.codec import Claim, Holding, Stateless
from apportion.wire.assignment import Assignment
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.user_data import read_cooperative, read_sticky, without_capacity, write_capacity


class Metadata:
    """Ten partitions of every topic."""

    def partitions(self, topic: str) -> range:
        return range(10)

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


def joining(strategy: str, capacity: dict[str, int], keeps: bool = False) -> list[JoiningMember]:
    bridges = {name: Bridge(strategy, Options(capacity=n)) for name, n in capacity.items()}
    return [JoiningMember(name, None, bridge.subscription(["t"], keeps=keeps)) for name, bridge in bridges.items()]


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky", "lag-aware"])
def test_a_leader_plans_by_the_capacities_that_members_bring(strategy: str) -> None:
    members = joining(strategy, {"a": 4, "b": 1})
    told = assign(Bridge(strategy, Options()), members, Metadata())
    assert {name: sum(len(ids) for _, ids in given.partitions) for name, given in told.items()} == {"a": 8, "b": 2}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "failover", "sticky-stream-join"])
def test_strategies_that_pass_capacities_over_do_not_send_them(strategy: str) -> None:
    one, four = (Bridge(strategy, Options(capacity=n)).subscription(["t"], keeps=False) for n in (1, 4))
    assert one == four


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_the_bytes_that_java_reads_stay_and_the_memory_is_read_back(strategy: str, keeps: bool) -> None:
    for given in ((), (("t", (1, 2)),)):
        sent = {}
        for n in (1, 7):
            bridge = Bridge(strategy, Options(capacity=n))
            if given:
                bridge.on_assignment(Assignment(given), 5)
            sent[n] = bridge.subscription(["t"], keeps=keeps)
        plain, more = sent[1].user_data or b"", sent[7].user_data or b""
        assert more.startswith(plain)
        assert more.endswith(write_capacity(7))
        assert without_capacity(plain) == plain
        reader = read_sticky if strategy == "sticky" else read_cooperative
        assert reader(more) == reader(plain)
        claims = [Bridge(strategy, Options()).memory.read(sent[n]) for n in (1, 7)]
        assert (claims[0].owned, claims[0].held, claims[1].lost) == (claims[1].owned, claims[1].held, None)


def test_what_cannot_be_a_capacity_counts_as_one() -> None:
    good = write_capacity(9)
    sent = [
        None,
        b"",
        good[1:],
        b"x" + good,
        write_capacity(0),
        write_capacity(-3),
        write_capacity(1_000_000),
        write_capacity(1_000_001),
        good + b"x",
    ]
    subscriptions = [write_subscription(Subscription(("t",), data)) for data in sent]
    columns = JoinedGroup([f"m{i}" for i in range(len(sent))], [None] * len(sent), subscriptions)
    expected = [1, 1, 1, 9, 1, 1, 1_000_000, 1, 1]
    assert columns.columns(columns.memories(Stateless())).facts["capacity"].tolist() == expected


def test_a_strategy_of_ones_own_reads_its_bytes_without_the_tail() -> None:
    class Mine(Stateless):
        def user_data(self, holding: Holding) -> bytes | None:
            return b"mine"

        def read(self, subscription: Subscription) -> Claim:
            return Claim({"t": [len(subscription.user_data or b"")]})

    joined = JoinedGroup(["m"], [None], [write_subscription(Subscription(("t",), b"mine" + write_capacity(3)))])
    memories = joined.memories(Mine())
    assert memories.owned == [{"t": [4]}]
    assert joined.columns(memories).facts["capacity"].tolist() == [3]
