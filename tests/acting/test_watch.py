"""A member's watch without its thread: what it pins, lets go and tells; and the ends of the rule's bounds."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.acting.loop import KnownLoad
from apportion.acting.rule import Acting, Outlook, acts_at_most, decide, is_resting, resting, saved
from apportion.clients.group import acting as acting_module
from apportion.clients.group.acting import LagWatch, PinnedPlan, SampledFeed
from apportion.clients.group.bridge import bridge_for
from apportion.clients.lag_feed import LagFeed
from apportion.errors import BadInput, UnknownName
from apportion.history.member_speeds import Speed
from apportion.model.group import Group
from apportion.model.group_json import read_group
from apportion.model.plan import Answer

ACTING = Acting(gain=0.2, hold_s=10, rest_s=30, horizon_s=30)
COUNTED, FREE_COUNTS = (apportion.find("cooperative-lag-aware", {"max_skew": n}) for n in (0, 9))
SLOW = Acting(gain=0.2, hold_s=30, rest_s=300, horizon_s=1)


def group_of(sizes: dict[str, int] | None = None, name: str = "g", **owned: dict[str, list[int]]) -> Group:
    """Members of one topic of four partitions, or of others."""
    sizes = sizes or {"t": 4}
    return read_group({
        "group": name, "topics": sizes,
        "members": {m: {"topics": list(sizes), "owned": held, "generation": 3} for m, held in owned.items()},
    })  # fmt: skip


GROUP = group_of(a={"t": [0, 1]}, b={"t": [2, 3]})


class Feed:
    """Offsets as of a moment."""

    def __init__(self) -> None:
        self.asked_s: float | None = None
        self.on_nudge: Any = None
        self.lag = [0, 0, 0, 0]
        self.asked: list[tuple[str, ...]] = []

    def table(self, topics: Any) -> Any:
        self.asked.append(tuple(topics))
        end = 10_000 + int((self.asked_s or 0.0) * 100)
        return {"t": {p: {"begin": 0, "end": end, "committed": end - lag} for p, lag in enumerate(self.lag)}}, None


class Consumer:
    """What the watch asks to join once more."""

    def __init__(self) -> None:
        self.ended, self.asked = False, 0

    def ask_rejoin(self) -> None:
        self.asked += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock that stands, and threads that are only written down."""
    told = SimpleNamespace(s=100.0, threads=list[dict[str, Any]](), alive=True, slept=list[float](), then=list[Any]())

    class Thread:
        def __init__(self, **told_of: Any) -> None:
            told.threads.append(told_of)

        def start(self) -> None:
            told.threads[-1]["started"] = True

        def is_alive(self) -> bool:
            return bool(told.alive)

    def sleep(seconds: float) -> None:
        told.slept.append(seconds)
        told.then.pop(0)()

    monkeypatch.setattr(acting_module, "threading", SimpleNamespace(Thread=Thread, Lock=threading.Lock))
    monkeypatch.setattr(acting_module, "time", SimpleNamespace(monotonic=lambda: told.s, sleep=sleep))
    return told


def watching(learned: bool = False) -> tuple[LagWatch, Feed, Consumer]:
    feed, consumer = Feed(), Consumer()
    watch = LagWatch(ACTING, feed, COUNTED, FREE_COUNTS, learned=learned)
    watch.serve(lambda: consumer)
    return watch, feed, consumer


def until_it_acts(watch: LagWatch, feed: Feed, begin: float = 105.0, looks: int = 20) -> float | None:
    """Look each 5 s; when it acted."""
    for at in np.arange(looks) * 5.0 + begin:
        feed.asked_s = float(at)
        watch._look()
        if watch._pinned is not None:
            return float(at)
    return None


def test_it_pins_what_it_planned_and_gives_it_once(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "apportion.clients")
    watch, feed, consumer = watching()
    assert isinstance(feed, SampledFeed)
    assert watch.take_plan(GROUP) is None
    watch.led(GROUP, GROUP.owner)
    assert [{**one, "target": None} for one in clock.threads] == [
        {"target": None, "name": "lag of g acts", "daemon": True, "started": True}
    ]
    assert clock.threads[0]["target"] == watch._run
    feed.lag = [5000, 5000, 0, 0]
    assert until_it_acts(watch, feed) == 130.0, "30 s after the rebalance"
    assert consumer.asked == 1
    why = "a needs 15,000 messages to catch up, after 2 moves the heaviest would need 10,500 messages: 30% less"
    assert caplog.messages[-1] == f"group 'g' evens itself out: {why}"
    assert caplog.records[-1].apportion == {"group": "g", "acting": why}  # type: ignore[attr-defined]
    assert caplog.messages[0].startswith("group 'g' is left as it is: the last rebalance was 5 s ago, and the group")
    pinned = watch._pinned
    assert pinned is not None
    assert (pinned.why, pinned.answer.proof) == (
        why,
        dict.fromkeys(("balance", "lag", "weight", "moves"), "heuristic"),
    )
    assert pinned.answer.extra == {}
    assert sorted(np.bincount(pinned.answer.owner).tolist()) == [2, 2]
    assert np.array_equal(pinned.group.owner, GROUP.owner)
    looks = len(feed.asked)
    assert until_it_acts(watch, feed, 135.0) == 135.0
    assert (len(feed.asked), consumer.asked) == (looks, 1), "it waits for the rebalance that it asked for"
    assert watch.take_plan(GROUP) is pinned
    assert watch.take_plan(GROUP) is None
    watch._pinned = pinned
    assert watch.take_plan(group_of(a={"t": [0, 1]}, b={"t": [2]}, c={"t": [3]})) is None
    assert watch._pinned is None
    clock.s = 140.0
    watch._pinned = pinned
    watch.led(GROUP, pinned.answer.owner)
    assert watch._pinned is None
    assert len(clock.threads) == 1
    clock.alive = False
    watch.led(GROUP, pinned.answer.owner)
    assert len(clock.threads) == 2
    assert until_it_acts(watch, feed, 150.0, 30) is None, "it is even now"


def test_a_look_needs_a_group_and_new_offsets(clock: Any) -> None:
    watch, feed, consumer = watching()
    feed.asked_s = 100.0
    watch._look()
    assert (feed.asked, watch._seen) == ([], None)
    watch.led(GROUP, GROUP.owner)
    feed.asked_s = None
    watch._look()
    assert feed.asked == []
    feed.asked_s = 101.0
    for _ in range(2):
        watch._look()
    assert feed.asked == [("t",)], "what was looked at tells nothing new"
    feed.asked_s = 102.0
    watch._look()
    assert len(feed.asked) == 2
    assert watch._seen is not None
    watch.assigned("g")
    assert watch._group is GROUP, "who led leads on"
    watch.assigned("g")
    assert (watch._group, watch._pinned, watch._seen) == (None, None, None)
    feed.asked_s = 103.0
    watch._look()
    assert len(feed.asked) == 2, "another leads"
    watch.led(GROUP, GROUP.owner)
    feed.lag = [5000, 5000, 0, 0]
    other = group_of(a={"t": [0, 1]}, b={"t": [2, 3]})
    for at in range(105, 200, 5):
        feed.asked_s = float(at)
        watch._group = other
        watch._look()
    assert (watch._pinned, consumer.asked) == (None, 0), "another generation is on its way"
    watch._group = GROUP
    watch.serve(lambda: None)
    assert until_it_acts(watch, feed, 200.0) is not None
    assert consumer.asked == 0


def test_who_follows_says_so_once_until_it_leads_again(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")
    watch, _, _ = watching()
    told = (
        "group 'g' has another leader: this member acts on lag once it leads. A leader of ours acts, if it was given "
        "acting= too; under a Java leader nothing does"
    )
    for _ in range(3):
        watch.assigned("g")
    assert caplog.messages == [told]
    watch.led(GROUP, GROUP.owner)
    watch.assigned("g")
    assert caplog.messages == [told]
    watch.assigned("g")
    assert caplog.messages == [told, told]


def test_a_nudge_is_taken_by_who_leads_and_lives(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")
    watch, feed, consumer = watching()
    assert feed.on_nudge == watch._nudged
    assert feed.on_nudge() is False
    watch.led(GROUP, GROUP.owner)
    assert (feed.on_nudge(), consumer.asked, caplog.messages) == (True, 1, ["group 'g' was nudged: it rebalances now"])
    consumer.ended = True
    assert (feed.on_nudge(), consumer.asked) == (False, 1)
    watch.serve(lambda: None)
    assert feed.on_nudge() is False
    plain = SimpleNamespace(asked_s=None, table=lambda topics: ({}, None))
    LagWatch(ACTING, plain, COUNTED, COUNTED, learned=False).serve(lambda: None)
    assert not hasattr(plain, "on_nudge"), "a feed of a user's own that knows no nudges"


def test_the_thread_looks_on_until_it_is_not_needed(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    watch, _, consumer = watching()
    looked: list[float] = []

    def look() -> None:
        looked.append(clock.s)
        raise ZeroDivisionError

    watch._look = look  # type: ignore[method-assign]
    watch.led(GROUP, GROUP.owner)
    clock.then[:] = [lambda: None, lambda: None, lambda: setattr(consumer, "ended", True)]
    watch._run()
    assert (clock.slept, len(looked)) == ([0.25] * 3, 2)
    assert caplog.messages == ["the look at the lag failed; the group stays as it is"] * 2
    assert watch._thread is not None
    consumer.ended = False
    watch._group = None
    clock.then[:] = [lambda: None, lambda: watch._generations.clear()]
    watch._run()
    assert len(looked) == 3, "a generation that is left for it is looked at"
    assert watch._thread is None
    watch.led(GROUP, GROUP.owner)
    watch.serve(lambda: None)
    clock.then[:] = [lambda: None]
    watch._run()
    assert len(looked) == 3


@pytest.mark.parametrize("learned", [False, True])
def test_what_comes_in_and_speeds_count_in_the_leaders_plan(clock: Any, learned: bool) -> None:
    watch, feed, _ = watching(learned)
    assert watch._loop.learned is learned
    assert watch._loop.acting is ACTING
    assert watch.prepared(GROUP) == (GROUP, COUNTED), "of the load nothing is known yet"
    watch.led(GROUP, GROUP.owner)
    feed.lag = [400, 0, 0, 70]
    for at in (101.0, 103.0, 106.0):
        feed.asked_s = at
        watch._look()
    known = replace(GROUP, offsets=None)
    assert watch.prepared(known) == (known, COUNTED), "the lag is not known"
    lag = np.array([400, 0, 0, 70])
    asked, strategy = watch.prepared(replace(GROUP, offsets=apportion.read_group({
        "topics": {"t": [{"partition": p, "lag": int(lag[p])} for p in range(4)]}, "members": {"a": {"topics": ["t"]}},
    }).offsets))  # fmt: skip
    assert asked.lag.tolist() == [3100, 3000, 3000, 3000], "100 a second for 30 s, and what 3 s do not explain"
    assert strategy is FREE_COUNTS
    assert asked.weight is not None
    assert asked.weight.tolist() == asked.lag.tolist()


def test_a_pinned_plan_fits_its_own_group_alone() -> None:
    target = np.array([0, 1, 1, 1])
    plan = PinnedPlan(GROUP, Answer(target, {}))
    assert plan.why == ""

    def fits(**changes: Any) -> bool:
        return plan.fits(replace(GROUP, **changes))

    assert plan.fits(GROUP)
    assert plan.fits(GROUP.holding(target))
    assert plan.fits(GROUP.holding(np.array([0, -1, -1, 1])))
    assert not plan.fits(GROUP.holding(np.array([1, 1, 1, 1])))
    assert not plan.fits(GROUP.holding(np.array([0, 0, 0, 1])))
    assert not fits(members=("a", "c"))
    assert not fits(topics=("u",))
    assert not fits(number=GROUP.number + 1)
    assert not fits(subscription_of=GROUP.subscription_of + 1)
    two = group_of({"t": 3, "u": 1}, a={"t": [0, 1]}, b={"t": [2], "u": [0]})
    both = PinnedPlan(two, Answer(two.owner, {}))
    assert both.fits(two)
    assert not both.fits(replace(two, start=np.array([0, 2, 4])))


def test_a_load_is_known_where_each_wanted_partition_is() -> None:
    group = read_group({
        "topics": {"t": 2, "nobodys": 1}, "members": {
            "a": {"topics": ["t"]}, "b": {"topics": ["t"], "instance_id": "i", "capacity": 3},
        },
    })  # fmt: skip
    incoming = np.array([np.nan, 2.0, 5.0]) if group.topics[0] == "nobodys" else np.array([2.0, 5.0, np.nan])
    none = np.zeros(group.P)
    known = KnownLoad(group, incoming, {}, {"i": 50.0, "b": 9.0}, none, none.astype(np.bool_), 30.0)
    lag = np.where(np.isnan(incoming), 999, [10, 20, 30])
    load = known.load(group, lag, ~np.isnan(incoming))
    assert load is not None
    assert load.work.tolist() == [0.0 if r != r else n + r * 30 for n, r in zip(lag.tolist(), incoming, strict=True)]
    own = [3 if instance else 1 for instance in group.instance_ids]
    assert (load.pace.tolist(), load.capacity.tolist(), load.in_seconds) == (own, own, False)
    fast = Speed(50.0, 50.0, 50.0, 9)
    learned = replace(known, speeds={"a": fast}, at_least={"i": 75.0, "a": 1e6}).load(group, lag, ~np.isnan(incoming))
    assert learned is not None
    assert learned.pace.tolist() == pytest.approx([50.0 * one for one in own], rel=0.06)
    assert sorted(learned.capacity.tolist()) == [7, 20]
    equal = replace(group, facts={"capacity": np.ones(2, dtype=np.int64)})
    kept_up = replace(known, speeds={"a": fast}, at_least={"i": 75.0}).load(equal, lag, ~np.isnan(incoming))
    assert kept_up is not None
    assert kept_up.pace.tolist() == pytest.approx([75.0 if i else 50.0 for i in group.instance_ids], rel=0.06)
    for p in np.flatnonzero(group.wanted):
        assert known.load(group, lag, np.arange(3) != p) is None
        less = replace(known, incoming=np.where(np.arange(3) == p, np.nan, incoming))
        assert less.load(group, lag, ~np.isnan(incoming)) is None
    for change in ({"topics": ("t", "u")}, {"start": group.start + 1}, {"number": group.number + 1}):
        assert known.load(replace(group, **change), lag, ~np.isnan(incoming)) is None  # type: ignore[arg-type]


# -- the rule's bounds and words ---------------------------------------------------------------------------------------

SHARE = "a share of the time to catch up, above 0 and below 1"
MOVES = "a whole number of partitions from 1 on, a share of the work below 1, or None"
HOLD, REST = (f"seconds, from {least} to 2,592,000" for least in (0, 1))


@pytest.mark.parametrize(
    ("name", "wrong", "right", "needed"),
    [
        ("gain", (0, 0.0, 1, -0.1, 1.5, float("nan"), "0.2", True), (1e-9, 0.999), SHARE),
        ("hold_s", (-0.001, 2_592_000.5, float("inf"), None, False), (0, 0.0, 2_592_000), HOLD),
        ("horizon_s", (0.999, 2_592_001, float("nan"), True, "9"), (1, 1.0, 2_592_000.0), REST),
        ("rest_s", (0.999, 2_592_001, float("nan"), True, "9"), (1, 1.0, 2_592_000.0), REST),
        ("moves", (0, -1, 1.0, 1.5, 0.0, -0.5, True, "3", float("nan")), (1, 2, 10**9, 0.001, 0.999, None), MOVES),
    ],
)
def test_each_number_of_the_rule_has_its_bounds(name: str, wrong: Any, right: Any, needed: str) -> None:
    for value in wrong:
        with pytest.raises(BadInput) as refused:
            Acting(**{name: value})
        assert str(refused.value) == f"acting.{name}: found {value!r}; needed {needed}."
    for value in right:
        assert getattr(Acting(**{name: value}), name) == value
    assert Acting() == Acting(0.2, 10.0, 60.0, None, 60.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gain", "--acting gain: found ''; needed a number."),
        ("gain=", "--acting gain: found ''; needed a number."),
        ("hold=a=b", "--acting hold: found 'a=b'; needed a number."),
        ("rest=1_0", "--acting rest: found '1_0'; needed a number."),
        ("rest=nan", "--acting rest: found 'nan'; needed a number."),
        ("moves=\u0663", "--acting moves: found '\u0663'; needed a number."),
        ("gain=0.3, gain=0.4", "--acting: found gain twice in 'gain=0.3, gain=0.4'; needed each name once."),
        ("moves=1.5", f"acting.moves: found 1.5; needed {MOVES}."),
        ("moves=0", f"acting.moves: found 0.0; needed {MOVES}."),
        ("gain=2", f"acting.gain: found 2.0; needed {SHARE}."),
        (
            "hold_s=3",
            "no --acting is named 'hold_s'; there are gain, hold, rest, moves, horizon. Maybe you meant 'hold'.",
        ),
        ("=3", "no --acting is named ''; there are gain, hold, rest, moves, horizon."),
    ],
)
def test_a_text_that_is_no_rule_says_why(text: str, words: str) -> None:
    with pytest.raises((BadInput, UnknownName)) as refused:
        Acting.of_text(text)
    assert str(refused.value) == words


def test_texts_that_are_rules() -> None:
    for text, rule in (
        (" rest = 60 ,, hold=5", Acting(hold_s=5.0, rest_s=60.0)), ("moves=1", Acting(moves=1)),
        ("moves=2.0", Acting(moves=2)), ("moves=0.5", Acting(moves=0.5)), ("gain=1e-3", Acting(gain=0.001)),
    ):  # fmt: skip
        read = Acting.of_text(text)
        assert read == rule
        assert type(read.moves) is type(rule.moves)


def looked(before: float, after: float, least: float = 1.0, moves: int = 2, *, seconds: bool = True) -> Outlook:
    return Outlook(before, after, least, "a", moves, seconds)


@pytest.mark.parametrize(
    ("outlook", "why"),
    [
        (looked(0.0, 0.0), "nobody has anything to catch up with"),
        (looked(100.0, 80.1), "a new plan saves 19% of 100 s, and 20% are needed"),
        (looked(100.0, 120.0), "a new plan saves 0% of 100 s, and 20% are needed"),
        (looked(100.0, 100.0, 90.0, 0), "no plan saves more than 10% of 100 s, and 20% are needed"),
        (looked(100.0, 100.0, 80.5, 0), "no plan saves more than 19% of 100 s, and 20% are needed"),
        (looked(100.0, 100.0, 80.0, 0), "a new plan saves 0% of 100 s, and 20% are needed"),
        (looked(100.0, 85.0, 90.0, 1), "a new plan saves 15% of 100 s, and 20% are needed"),
        (looked(1234.6, 1230.0, seconds=False), "a new plan saves 0% of 1,235 messages, and 20% are needed"),
        (looked(2345.4, 2345.4), "a new plan saves 0% of 2,345 s, and 20% are needed"),
        (looked(9.96, 9.9), "a new plan saves 0% of 10.0 s, and 20% are needed"),
        (looked(10.4, 10.3), "a new plan saves 0% of 10 s, and 20% are needed"),
        (looked(9.0, 8.9), "a new plan saves 1% of 9 s, and 20% are needed"),
        (looked(0.25, 0.21), "every member catches up within 1 s"),
    ],
)
def test_what_is_too_little_is_told_with_what_is_needed(outlook: Outlook, why: str) -> None:
    decision = decide(SLOW, 1000.0, 0.0, 900.0, outlook)
    assert (decision.act, decision.why, decision.since_s) == (False, why, None)


def test_moments_and_shares_at_their_bounds() -> None:
    half = looked(100.0, 50.0, moves=1)
    saving = "a needs 100 s to catch up, after 1 move the heaviest would need 50 s: 50% less"
    for now, generation, since, told in (
        (1000.0, 700.0, 970.0, (True, saving, None)),
        (1000.0, 700.5, 970.0,
         (False, f"{saving}, but the last rebalance was 300 s ago, and the group rests for 300 s", 970.0)),
        (1000.0, 991.5, 970.0,
         (False, f"{saving}, but the last rebalance was 8.5 s ago, and the group rests for 300 s", 970.0)),
        (1000.0, 0.0, 970.5, (False, f"{saving}, but only for 30 s of 30 s", 970.5)),
        (1000.0, 0.0, 997.5, (False, f"{saving}, but only for 2.5 s of 30 s", 997.5)),
        (1000.0, 0.0, None, (False, f"{saving}, but only for 0 s of 30 s", 1000.0)),
        (1000.0, 0.0, 0.0, (True, saving, None)),
    ):  # fmt: skip
        one = decide(SLOW, now, generation, since, half)
        assert (one.act, one.why, one.since_s) == told
    for after, acts in ((80.0, True), (80.00000004, True), (80.00000006, False), (80.1, False)):
        assert decide(SLOW, 1000.0, 0.0, 0.0, looked(100.0, after)).act is acts
    assert decide(Acting(gain=0.3), 1000.0, 0.0, 0.0, looked(20.0, 20.0 * 0.7, seconds=False)).why == (
        "a needs 20 messages to catch up, after 2 moves the heaviest would need 14 messages: 30% less"
    )
    assert [is_resting(SLOW, at, 0.0) for at in (0.0, 269.9, 270.0)] == [True, True, False]
    rests = resting(Acting(rest_s=1.5), 10.0, 0.0)
    assert (rests.act, rests.why, rests.since_s) == (
        False, "the last rebalance was 10 s ago, and the group rests for 1.5 s", None
    )  # fmt: skip
    assert [saved(100.0, one) for one in (0.0, 25.0, 100.0, 130.0)] == [1.0, 0.75, 0.0, 0.0]
    assert [saved(0.0, 5.0), saved(-1.0, 5.0), saved(0.5, 0.25)] == [0.0, 0.0, 0.5]
    bounds = [
        ((100.0, 99.0, 0.2), 0), ((100.0, 80.0, 0.2), 1), ((100.0, 64.0, 0.2), 2), ((100.0, 64.1, 0.2), 1),
        ((100.0, 1.0, 0.5), 6), ((0.5, 0.25, 0.5), 1), ((100.0, 0.5, 0.5), 7), ((-5.0, 1.0, 0.2), 0),
        ((5.0, -1.0, 0.2), 0), ((50.0, 100.0, 0.2), 0), ((100.0, 12.5, 0.5), 3),
    ]  # fmt: skip
    assert [acts_at_most(*asked) for asked, _ in bounds] == [most for _, most in bounds]


def test_acting_frees_counts_unless_max_skew_is_given_and_learns_speeds_unless_a_capacity_is() -> None:
    """By the defaults alone, with no other setting, the loop is the one that helps."""
    feed = LagFeed("g", lambda group, topics, timeout_s: {}, topics=["t"])

    def loop_of(strategy: Any = "cooperative-lag-aware", **options: Any) -> Any:
        watch = bridge_for(strategy, lag=feed, acting=Acting(), **options).watch
        assert watch is not None
        return watch._loop

    plain = loop_of()
    assert (plain.learned, plain.strategy.max_skew > 2_000_000) == (True, True)
    assert loop_of(apportion.CooperativeLagAware()).strategy.max_skew > 2_000_000
    for strategy, options in (
        ("cooperative-lag-aware", {"max_skew": 0}),
        ("lag-aware", {"max_skew": 3, "capacity": 2}),
        (apportion.CooperativeLagAware(max_skew=3), {"capacity": 1}),
    ):
        loop = loop_of(strategy, **options)
        assert loop.strategy.max_skew == options.get("max_skew", 3)
        assert loop.learned == ("capacity" not in options)
    assert loop_of("cooperative-sticky").strategy == apportion.find("cooperative-sticky")


def test_a_stuck_partition_is_told_once(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    watch, feed, _ = watching(learned=True)
    watch.led(GROUP, GROUP.owner)
    stuck = 0
    for at in range(101, 301, 5):
        stuck += 500
        feed.lag = [0, stuck, 0, 0]
        feed.asked_s = float(at)
        watch._look()
    (warned,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned.startswith("group 'g': t-1: unread, although the owner keeps up with the rest.")
