"""The hooks around the loop: what a leader pins, who acts, and which settings are refused. No broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.clients.joining import JoiningMember, assign

from apportion.clients import Acting
from apportion.clients.group import acting as acting_module
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.options import Options
from apportion.clients.lag_feed import LagFeed
from apportion.errors import BadInput
from apportion.wire.assignment import Assignment
from apportion.wire.subscription import Subscription


class Four:
    """A cluster of one topic with four partitions."""

    def partitions(self, topic: str) -> list[int]:
        return [0, 1, 2, 3]

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


class Consumer:
    """What the watch asks to join once more."""

    ended = False

    def __init__(self) -> None:
        self.asked = threading.Event()

    def ask_rejoin(self) -> None:
        self.asked.set()


class Cluster:
    """Offsets that grow with the clock: messages a second and lag of each of four partitions."""

    def __init__(self, lag: list[int]) -> None:
        self.lag, self.began = lag, time.monotonic()

    def __call__(self, group: str, topics: Any, deadline_s: float) -> Any:
        end = 10_000 + int((time.monotonic() - self.began) * 100)
        return {"t": {p: {"begin": 0, "end": end, "committed": end - lag} for p, lag in enumerate(self.lag)}}


def owned(assignment: Assignment) -> list[int]:
    return sorted(n for _, ids in assignment.partitions for n in ids)


LEADERS: list[Leader] = []


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    """A leader's thread would look on after its test, and meet the stand-ins of a simulation that runs then."""
    yield
    while LEADERS:
        LEADERS.pop().consumer.ended = True
    for thread in threading.enumerate():
        if thread.name == "lag of g acts":
            thread.join(30)


class Leader:
    """A bridge that leads members a and b, with a feed that a test refreshes itself."""

    def __init__(self, lag: list[int], strategy: str = "cooperative-lag-aware", **settings: Any) -> None:
        self.cluster = Cluster(lag)
        self.feed = LagFeed("g", self.cluster, topics=["t"])
        self.plans: list[Any] = []
        acting = Acting(gain=0.2, hold_s=0.5, rest_s=1.0)
        self.bridge = Bridge(strategy, Options(lag=self.feed, acting=acting, on_plan=self.plans.append, **settings))
        self.consumer = Consumer()
        assert self.bridge.watch is not None
        self.bridge.watch.serve(lambda: self.consumer)
        self.generation = 0
        LEADERS.append(self)

    def rebalance(self, **holds: list[int]) -> dict[str, list[int]]:
        """A round in which members hold these."""
        self.generation += 1
        members = [
            JoiningMember(name, None, Subscription(("t",), owned=(("t", tuple(ids)),) if ids else (), generation=5))
            for name, ids in holds.items()
        ]
        answers = assign(self.bridge, members, Four(), "g", self.generation)
        self.bridge.on_assignment(answers["a"], self.generation, "g")
        return {name: owned(answer) for name, answer in answers.items()}

    def acts(self, patience_s: float = 120) -> bool:
        """Refresh the feed until it asks for a rejoin."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until and not self.consumer.asked.is_set():
            self.feed.refresh()
            self.consumer.asked.wait(0.1)
        return self.consumer.asked.is_set()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_module, "LOOK_S", 0.02)


def test_what_it_asked_for_is_what_both_rounds_give(quick: None, caplog: pytest.LogCaptureFixture) -> None:
    """The lag turns round between the look and the rebalance, and again between its rounds: the plan stays."""
    leader = Leader([0, 0, 0, 0])
    leader.rebalance(a=[0, 1], b=[2, 3])
    leader.cluster.lag = [5000, 5000, 0, 0]
    with caplog.at_level("INFO", logger="apportion.clients"):
        assert leader.acts()
    assert "evens itself out: a needs" in caplog.text
    leader.cluster.lag = [0, 0, 9000, 9000]
    leader.feed.refresh()
    first = leader.rebalance(a=[0, 1], b=[2, 3])
    assert leader.plans[-1].cause == "lag"
    assert leader.plans[-1].why.startswith("a needs")
    assert leader.plans[-1].withheld == 2
    target = {name: topics["t"] for name, topics in leader.plans[-1].plan.target.items()}
    leader.cluster.lag = [7, 5000, 1, 9000]
    leader.feed.refresh()
    assert leader.rebalance(**first) == target
    assert (leader.plans[-1].cause, leader.plans[-1].withheld) == ("group", 0)
    assert len(set(target["a"]) & {0, 1}) == len(set(target["b"]) & {2, 3}) == 1


def test_what_comes_in_counts_in_the_leaders_plan_as_soon_as_it_is_known(quick: None) -> None:
    """A hundred messages a second come into each partition, which weigh more than the five that wait."""
    leader, end = Leader([5, 5, 5, 5]), time.monotonic() + 120
    leader.feed.refresh()
    leader.rebalance(a=[0, 1], b=[2, 3])
    assert leader.plans[-1].plan.group.lag.tolist() == [5] * 4
    while leader.plans[-1].plan.group.lag.min() < 50:
        assert time.monotonic() < end
        for _ in range(10):
            leader.feed.refresh()
            time.sleep(0.05)
        leader.rebalance(a=[0, 1], b=[2, 3])


def test_a_member_that_joins_meanwhile_has_the_group_planned_anew(quick: None) -> None:
    leader = Leader([0, 0, 0, 0])
    leader.rebalance(a=[0, 1], b=[2, 3])
    leader.cluster.lag = [5000, 5000, 0, 0]
    assert leader.acts()
    leader.rebalance(a=[0, 1], b=[2, 3], c=[])
    assert leader.plans[-1].cause == "group"
    assert leader.plans[-1].members == 3


def test_a_nudge_makes_the_leader_join_again_and_nobody_else(quick: None) -> None:
    leader = Leader([0, 0, 0, 0])
    assert leader.feed.on_nudge is not None
    assert not leader.feed.on_nudge(), "it leads nothing yet"
    leader.rebalance(a=[0, 1], b=[2, 3])
    assert leader.feed.on_nudge()
    assert leader.consumer.asked.is_set()
    leader.consumer.ended = True
    assert not leader.feed.on_nudge()


def test_it_asks_once_and_a_member_that_does_not_lead_never(quick: None, caplog: pytest.LogCaptureFixture) -> None:
    leader = Leader([5000, 5000, 0, 0])
    leader.feed.refresh()
    with caplog.at_level("INFO", logger="apportion.clients"):
        for generation in (1, 2):
            leader.bridge.on_assignment(Assignment((("t", (0, 1)),)), generation, "g")
        assert not leader.acts(patience_s=2)
    assert caplog.text.count("group 'g' has another leader") == 1
    assert "a Java leader never does" in caplog.text


def test_a_feed_that_fails_or_is_old_means_no_act_and_the_log_says_so(
    quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader([0, 0, 0, 0])
    leader.rebalance(a=[0, 1], b=[2, 3])
    leader.cluster.lag = [5000, 5000, 0, 0]
    leader.feed.max_age_s = 0.0
    with caplog.at_level("DEBUG", logger="apportion.clients"):
        assert not leader.acts(patience_s=3)
    assert "group 'g' is left as it is: the newest offsets are" in caplog.text


def test_the_thread_ends_with_its_consumer(quick: None) -> None:
    leader = Leader([0, 0, 0, 0])
    leader.rebalance(a=[0, 1], b=[2, 3])
    thread = leader.bridge.watch._thread  # type: ignore[union-attr]
    assert thread is not None
    leader.consumer.ended = True
    thread.join(120)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (lambda: Options(acting=Acting()), "acting without lag"),
        (lambda: Options(acting=Acting(), lag=Four()), "lag: found "),  # type: ignore[arg-type]
        (lambda: Options(capacity="learned"), "'learned' without acting"),
        (lambda: Options(capacity="fast"), "capacity"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_cannot_act_are_refused(settings: Callable[[], Options], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        settings()
