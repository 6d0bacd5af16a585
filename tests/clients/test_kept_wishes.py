"""What follows from members' lists of topics and from sizes is kept for the next group; no answer depends on it."""

from __future__ import annotations

import logging
import random

import numpy as np
import pytest

from apportion.clients.bridge import Bridge
from apportion.clients.joined_group import JoinedGroup
from apportion.clients.options import Options
from apportion.clients.topic_metadata import ClientMetadata
from apportion.model.build import _kept_lists, _kept_places, _numbered
from apportion.solvers.partition_classes import _kept_kinds
from apportion.wire import subscriptions
from apportion.wire.assignment import read_assignment
from apportion.wire.assignments import _all_names, _Names
from apportion.wire.columns import _table_of
from apportion.wire.partitions import Held
from apportion.wire.primitives import MAX_TOPIC
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.subscriptions import _RECENT_BYTES, _RecentHeads, read_subscriptions
from apportion.wire.userdata import write_cooperative, write_sticky

from .metadata import Cluster, logged

Asked = tuple[list[str], list[bytes], Cluster]


def forget() -> None:
    """As in a fresh process."""
    subscriptions._recent.by_prefix.clear()
    for kept in (_kept_lists, _kept_places, _kept_kinds, _all_names, _table_of):
        kept.cache_clear()


def sent(strategy: str, wish: list[str], owned: Held, generation: int) -> bytes:
    """What a member sends that holds these since the generation."""
    if strategy == "sticky":
        user_data = write_sticky(owned, generation)
        return write_subscription(Subscription(tuple(wish), user_data, (), generation))
    return write_subscription(Subscription(tuple(wish), write_cooperative(generation), owned, generation))


def rebalances(r: random.Random, strategy: str) -> list[Asked]:
    """Some rebalances of one group: its members come and go, and change their minds; topics come and grow."""
    base = r.choice(("t", "\u0437\u0430\u043a\u0430\u0437", "payments.orders.completed.europe-west.version"))
    topics = [f"{base}{n}" for n in range(r.choice((1, 4, 30)))]
    sizes = {topic: r.randrange(40) for topic in topics}
    kinds = [r.sample(topics, r.randrange(1, len(topics) + 1)) for _ in range(3)]
    wish = {f"m{n}": r.choice(kinds) for n in range(r.choice((1, 5, 60)))}
    owned: dict[str, Held] = {}
    asked: list[Asked] = []
    plain = Bridge(strategy, Options())
    for generation in range(4):
        known = {topic: list(range(size)) for topic, size in sizes.items() if r.random() < 0.97}
        one = list(wish), [sent(strategy, wish[m], owned.get(m, ()), generation) for m in wish], Cluster(known)
        asked.append(one)
        forget()
        owned = {m: read_assignment(answer).partitions for m, answer in lead(plain, one).items()}
        wish[f"n{generation}"] = r.choice(kinds)
        wish[r.choice(list(wish))] = r.sample(topics, len(topics))
        wish.pop(r.choice(list(wish)))
        sizes[r.choice(topics)] += 1
    return asked


def lead(bridge: Bridge, asked: Asked) -> dict[str, bytes]:
    """What every member is sent."""
    ids, words, cluster = asked
    return bridge.lead(JoinedGroup(ids, [None] * len(ids), words), ClientMetadata(cluster, "replicas"), "g", 4)


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "sticky", "range"])
def test_a_leader_that_remembers_answers_as_one_that_does_not(strategy: str, caplog: pytest.LogCaptureFixture) -> None:
    """Two groups by turns, so that what is kept is now this one's and now the other's."""
    caplog.set_level(logging.INFO, "apportion.clients")
    r, hits = random.Random(12), 0
    for _ in range(12):
        groups = [rebalances(r, strategy) for _ in range(2)]
        forget()
        caplog.clear()
        answers = []
        for remembers in (True, False):
            bridges = [Bridge(strategy, Options()) for _ in groups]
            for turn in range(4):
                for bridge, group in zip(bridges, groups, strict=True):
                    if not remembers:
                        forget()
                    answers.append((lead(bridge, group[turn]), logged(caplog)))
            hits += remembers and _all_names.cache_info().hits
        assert answers[: len(answers) // 2] == answers[len(answers) // 2 :]
    assert hits > 20


def test_heads_that_begin_alike_are_told_apart() -> None:
    """One prefix, two heads: who begins with the one that is known has it, the other is read."""
    prefix = "x" * 60
    wishes = [(prefix + "a", "y"), (prefix + "c", "y"), (prefix + "a", "y"), (prefix + "a", "z")]
    for wish in wishes * 2:
        read = read_subscriptions([write_subscription(Subscription(wish))])
        assert read.lists == (wish,)
        assert list(read.names.values()) == list(wish)


def test_names_that_no_topic_can_have_are_not_kept() -> None:
    """A hostile member's names of 32 KB would stay in the leader's memory until two other groups were led."""
    for length, kept in ((MAX_TOPIC, 1), (MAX_TOPIC + 1, 0)):
        forget()
        name = "x" * length
        assert _numbered(((name,),), {}).topics == (name,)
        _Names.of([name], np.zeros(1, dtype=np.int64))
        assert (_kept_lists.cache_info().currsize, _all_names.cache_info().currsize) == (kept, kept)


def test_heads_are_kept_up_to_a_bound_and_large_ones_not_at_all() -> None:
    recent = _RecentHeads()
    large = write_subscription(Subscription(tuple(f"t{n}" for n in range(_RECENT_BYTES // 8))))
    assert len(recent.split(large).names) == _RECENT_BYTES // 8
    assert not recent.by_prefix
    for n in range(3_000):
        recent.split(write_subscription(Subscription((f"{n:05}" * 20, "z"))))
        assert sum(len(one.head) for one in recent.by_prefix.values()) <= recent.size <= _RECENT_BYTES
    assert len(recent.by_prefix) > 100
