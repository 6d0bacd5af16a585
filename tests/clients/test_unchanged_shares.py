"""Members that get just what they claim are sent the very bytes that the general writer gives."""

from __future__ import annotations

import random
from typing import Any

import pytest

from apportion.clients import unchanged_shares
from apportion.clients.bridge import Bridge
from apportion.clients.joined_group import JoinedGroup
from apportion.clients.options import Options
from apportion.clients.topic_metadata import ClientMetadata
from apportion.wire.assignment import read_assignment
from apportion.wire.partitions import Held
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.userdata import write_cooperative, write_sticky
from apportion.wire.writer import Writer

from .metadata import Cluster

TOPICS = {"clicks": 40, "views": 25, "\u0437\u0430\u043a\u0430\u0437\u044b": 30, "z": 5}


def raw_list(owned: Held) -> bytes:
    """A list as given: parts in this order, empty ones and all."""
    writer = Writer().int32(len(owned))
    for topic, ids in owned:
        writer.string(topic).int32(len(ids))
        for number in ids:
            writer.int32(number)
    return bytes(writer.done())


def troubled(r: random.Random, owned: Held) -> Held:
    """The same claims in another order, twice, with parts that are empty or on what does not exist."""
    parts = [(topic, list(ids)) for topic, ids in owned]
    trouble = r.choice(("order", "ids", "twice", "empty", "nowhere", "fewer", "split"))
    if trouble == "order":
        r.shuffle(parts)
    elif trouble == "ids":
        parts = [(topic, r.sample(ids, len(ids))) for topic, ids in parts]
    elif trouble == "twice" and parts:
        parts.append(parts[0])
    elif trouble == "empty":
        parts.insert(r.randrange(len(parts) + 1), ("clicks", []))
    elif trouble == "nowhere":
        parts.append(r.choice((("gone", [1]), ("z", [99]), ("z", [-1]))))
    elif trouble == "fewer":
        parts = parts[1:]
    elif parts and len(parts[0][1]) > 1:
        topic, ids = parts[0]
        parts[:1] = [(topic, ids[:1]), (topic, ids[1:])]
    return tuple((topic, tuple(ids)) for topic, ids in parts)


def sent(r: random.Random, strategy: str, topics: list[str], owned: Held) -> bytes:
    """What a member sends that owns these: in the subscription, in sticky's user data, or as wishes."""
    head = Subscription(tuple(topics))
    if strategy == "sticky":
        return write_subscription(Subscription(head.topics, raw_list(owned) + b"\0\0\0\3", (), 3))
    if r.random() < 0.1:
        return write_subscription(Subscription(head.topics, write_cooperative(3) + write_sticky(owned, 3), (), 3))
    whole = write_subscription(Subscription(head.topics, write_cooperative(3), (), 3))
    tail = b"\0\0\0\3\xff\xff"
    assert whole.endswith(b"\0\0\0\0" + tail)
    return whole[: -len(tail) - 4] + raw_list(owned) + tail


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "sticky", "range"])
def test_own_words_are_what_the_writer_writes(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r, again = random.Random(31), 0
    monkeypatch.setattr(unchanged_shares, "CLAIMS_MIN", 1)
    look = unchanged_shares._unchanged

    def spy(*args: Any) -> Any:
        nonlocal again
        same = look(*args)
        again += 0 if same is None else int(same.sum())
        return same

    for turn in range(60):
        cluster, bridge = (
            Cluster({topic: list(range(size)) for topic, size in TOPICS.items()}),
            Bridge(strategy, Options()),
        )
        ids = [f"m{n}" for n in r.sample(range(90), r.choice((2, 5, 12, 30)))]
        wishes = {one: sorted(r.sample(list(TOPICS), 4 if turn % 2 else r.randrange(1, 5))) for one in ids}
        first = {one: write_subscription(Subscription(tuple(wishes[one]))) for one in ids}
        view = ClientMetadata(cluster, "replicas")
        answers = bridge.lead(JoinedGroup(ids, [None] * len(ids), list(first.values())), view)
        share = r.choice((0.0, 0.0, 0.1, 0.5))
        owned = {one: read_assignment(answers[one]).partitions for one in ids}
        claims = {one: troubled(r, held) if r.random() < share else held for one, held in owned.items()}
        ids = r.sample(ids, len(ids) - r.randrange(2))
        wishes["new"] = list(TOPICS)
        claims["new"] = ()
        ids += ["new"] * r.randrange(2)
        said = [sent(r, strategy, wishes[one], claims[one]) for one in ids]
        joined = [JoinedGroup(ids, [None] * len(ids), said) for _ in range(2)]
        monkeypatch.setattr(unchanged_shares, "_unchanged", spy)
        short = bridge.lead(joined[0], view)
        monkeypatch.setattr(unchanged_shares, "_unchanged", lambda *_: None)
        assert short == bridge.lead(joined[1], view)
        monkeypatch.setattr(unchanged_shares, "_unchanged", look)
    assert again > 100


def test_names_with_malformed_bytes_are_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two spellings are one topic; the answer has the one that stands for every malformed byte."""
    monkeypatch.setattr(unchanged_shares, "CLAIMS_MIN", 1)
    good = write_subscription(Subscription(("ab",), write_cooperative(3), (("ab", (0, 1)),), 3))
    bad = good.replace(b"ab", b"a\xff")
    cluster = Cluster({"a\ufffd": [0, 1], "ab": [0, 1]})
    for raw, topic in ((good, "ab"), (bad, "a\ufffd")):
        joined = JoinedGroup(["a"], [None], [raw])
        answer = Bridge("cooperative-sticky", Options()).lead(joined, ClientMetadata(cluster, "replicas"))["a"]
        assert answer == b"\0\3" + raw_list(((topic, (0, 1)),)) + b"\xff\xff\xff\xff"
