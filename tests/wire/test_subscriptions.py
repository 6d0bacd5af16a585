"""All members' subscriptions read at once say the same as each read alone, and the same bytes are refused."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import numpy as np
import pytest

from apportion.errors import UnreadableBytes
from apportion.wire.partitions import Held
from apportion.wire.subscription import Subscription, read_subscription, write_subscription
from apportion.wire.subscription_columns import SubscriptionColumns, read_subscription_columns

from .samples import held, maybe, mutated, name, subscription

COUNT = 1_000_000 if os.environ.get("APPORTION_THOROUGH") else 20_000


def read_back(read: SubscriptionColumns, topics: list[str]) -> Sequence[tuple[object, ...]]:
    """Each member's words as the columns have them: topics, user data, owned, generation, rack."""
    index = {topic: t for t, topic in enumerate(topics)}
    of_topic = read.topic_numbers(read.owned, index).tolist()
    numbers, raw = read.owned.numbers(read.buffer).tolist(), read.buffer.raw
    back, at = [], 0
    parts = list(zip(read.owned.name_at.tolist(), read.owned.name_size.tolist(), read.owned.ids.tolist(), strict=True))
    first = read.owned.first.tolist()
    for m in range(len(read.sent)):
        owned = []
        for part in range(first[m], first[m + 1]):
            name_at, size, ids = parts[part]
            spelled = raw[name_at : name_at + size].decode("utf-8", "apportion-java")
            assert of_topic[part] == index.get(spelled, -1)
            owned.append((spelled, tuple(numbers[at : at + ids])))
            at += ids
        generation = int(read.generation[m])
        back.append(
            (
                read.lists[int(read.list_of[m])],
                read.user_data(m),
                tuple(owned),
                generation if generation >= 0 else None,
                read.rack[m],
            )
        )
    assert at == len(numbers)
    return back


def check(sent: list[bytes]) -> int:
    """Compare both readers on the members of one group; how many were refused."""
    read = read_subscription_columns(sent)
    topics = read.topics()
    for m, (one, back) in enumerate(zip(sent, read_back(read, topics), strict=True)):
        try:
            alone, reason = read_subscription(one), None
        except UnreadableBytes as error:
            alone, reason = Subscription(()), str(error)
        assert read.refused.get(m) == reason, one.hex()
        assert back == (alone.topics, alone.user_data, alone.owned, alone.generation, alone.rack), one.hex()
    return len(read.refused)


@pytest.mark.timeout(3600)
def test_mutated_subscriptions_are_read_or_refused_as_by_the_reader_of_one() -> None:
    """Groups of one to 200 members, most of whom begin alike; none, few or all of them sent nonsense."""
    r, seen, refused = random.Random(12), 0, 0
    while seen < COUNT:
        originals = [subscription(r) for _ in range(r.randrange(1, 5))]
        size = r.choice((1, 2, 10, 60, 200))
        share = r.choice((0.02, 0.2, 1.0))
        sent = [mutated(r, one) if r.random() < share else one for one in r.choices(originals, k=size)]
        refused += check(sent)
        seen += size
    assert refused > seen / 50


def of_known_names(r: random.Random, names: Sequence[str], odd: bool) -> bytes:
    """A member that owns what the group wants; ``odd``: some ids look like the beginning of a name, as racks do."""
    alike = [int.from_bytes(len(name).to_bytes(2, "big") + name.encode()[:2], "big") for name in names]
    owned: Held = tuple(
        (topic, tuple(r.choice(alike) if odd and r.random() < 0.1 else r.randrange(9) for _ in range(r.randrange(4))))
        for topic in r.sample(names, r.randrange(len(names)))
    )
    rack = r.choice((None, "a", r.choice(names)))
    user_data = r.choice((None, b"", b"\0\0\0\x05", b"\0\x02to"))
    return write_subscription(Subscription(tuple(names), user_data, owned, r.randrange(9), rack, 3))


@pytest.mark.timeout(3600)
def test_lists_of_names_that_the_group_wants_are_read_like_any_others() -> None:
    """Good ones, with numbers that look like names, and mutated ones."""
    r, seen, refused = random.Random(13), 0, 0
    while seen < COUNT // 4:
        names = [f"{r.choice(('to', 'u', 'a.b'))}{t}" for t in range(r.choice((3, 12, 30)))]
        size, bad = r.choice((50, 120)), r.choice((0, 0, 1, 20))
        odd = r.random() < 0.3
        sent = [of_known_names(r, names, odd) for _ in range(size)]
        for m in r.sample(range(size), bad):
            sent[m] = mutated(r, sent[m])
        refused += check(sent)
        seen += size
    assert refused > seen / 200


def test_long_lists_of_many_members_are_read_in_steps() -> None:
    """More lists than are read one by one, of unlike lengths, with ids of every count."""
    r = random.Random(5)
    sent = []
    for m in range(300):
        owned: Held = tuple((f"topic{t}", tuple(range(r.randrange(4)))) for t in r.sample(range(400), r.randrange(40)))
        topics = tuple(f"topic{t}" for t in range(0, 400, 1 + m % 3))
        sent.append(write_subscription(Subscription(topics, None, owned, m, r.choice((None, "a", "b")), 3)))
    assert check(sent) == 0
    for m in r.sample(range(300), 40):
        sent[m] = mutated(r, sent[m])
    check(sent)


@pytest.mark.parametrize("size", range(34))
def test_names_of_every_size_are_found(size: int) -> None:
    """Names that differ in one byte anywhere."""
    base = "x" * size
    names = [base] + [base[:i] + "y" + base[i + 1 :] for i in range(size)]
    owned = tuple((name, (i,)) for i, name in enumerate([*names, base + "z"]))
    sent = [write_subscription(Subscription(tuple(names), None, owned, 1)) for _ in range(60)]
    assert check(sent) == 0


def test_many_topics_are_told_apart_by_their_names() -> None:
    names = tuple(f"t{i:05}" for i in range(6000))
    owned = tuple((name, (1,)) for name in names)
    sent = [write_subscription(Subscription(names, None, owned, 1))] * 2
    read = read_subscription_columns(sent)
    index = {topic: t for t, topic in enumerate(names)}
    written = sorted(names)
    expected = [index[topic] for topic in written]
    assert (read.topic_numbers(read.owned, index).reshape(2, -1) == np.array(expected)).all()


def test_a_name_in_two_malformed_spellings_is_one_topic() -> None:
    """U+FFFD stands for every bad byte, as in Java."""
    good = write_subscription(Subscription(("a\ufffd",), None, (("a\ufffd", (1,)),), 1))
    bad = good.replace("a\ufffd".encode(), b"aa\xff\xff")
    assert check([good, bad]) == 0
    spelled = write_subscription(Subscription(("bbc",), None, (("bbb", (1,)), ("bbc", (2,))), 1))
    sent = [spelled.replace(b"bbb", b"b\xffb").replace(b"bbc", b"b\xfeb")]
    assert check(sent) == 0
    read = read_subscription_columns(sent)
    assert read.topic_numbers(read.owned, {"b\ufffdb": 0}).tolist() == [0, 0]


def test_random_owned_lists_with_odd_names_come_back() -> None:
    r = random.Random(3)
    for _ in range(30):
        sent = [
            write_subscription(
                Subscription(tuple(name(r) for _ in range(r.randrange(5))), None, held(r), r.randrange(9), maybe(r), 3)
            )
            for _ in range(80)
        ]
        assert check(sent) == 0


def test_one_subscription_stands_for_the_wishes_of_all() -> None:
    sent = [write_subscription(Subscription(topics)) for topics in (("a", "b"), ("b", "c d"), ())]
    read = read_subscription_columns(sent)
    assert read_subscription(read.wish_for({"a", "b"})).topics == ("a", "b")
    assert read_subscription(read.wish_for(())) == Subscription((), version=0)


@pytest.mark.parametrize("version", range(4))
def test_members_that_own_nothing_are_read_by_what_they_say_and_cut_ones_refused(version: int) -> None:
    """Members of a new group say one of few things; one whose bytes end early, or go on, changes nothing for them."""
    words = [
        write_subscription(Subscription(("a", "b"), data, (), None, rack, version))
        for data in (None, b"", b"\xff\xff\xff\xff", b"12345678")
        for rack in (None, "r", "\u00e9")
    ]
    assert check(words * 5) == 0
    assert check([*words, words[0] + b"tail"]) == 0
    for word in dict.fromkeys(words):
        for end in range(len(word)):
            assert check([*words, word[:end]]) == 1


def test_one_list_that_leads_astray_leaves_the_others_as_they_are() -> None:
    """Many lists are read in steps and judged afterwards: one that lies about any length must not show in others."""
    owned: Held = tuple((f"topic{t}", (t, t + 1)) for t in range(12))
    good = write_subscription(Subscription(("topic1",), None, owned, 7, "a", 3))
    lies = [b"\x7f\xff", b"\xff\xff", b"\x00\x00", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xf0", b"\x00\x00\x00\x03"]
    begin = good.index(b"topic10") - 2  # the first part's name has another list's length
    for at in (begin, begin + 9, begin + 30):
        for lie in lies:
            sent = [good] * 60
            sent[20] = good[:at] + lie + good[at + len(lie) :]
            assert check(sent) <= 1
            assert check([*sent, *[good[: 40 + 3 * n] for n in range(30)]]) >= 1


@pytest.mark.parametrize("claimed", [-1, -(2**31), 3, 2**31 - 1])
def test_a_list_that_cannot_be_as_long_as_it_says_is_refused_beside_good_lists(claimed: int) -> None:
    """It has no parts that could fail to fit, and what stands behind it was taken for a generation and a rack."""
    names = ("clicks", "orders")
    good = [
        write_subscription(Subscription(names, None, tuple((name, (m,)) for name in names), 5, "a")) for m in range(60)
    ]
    empty = write_subscription(Subscription(names, None, (), 5, "a"))
    at = len(empty) - len(b"\0\0\0\0\0\0\0\5\0\1a")
    bad = empty[:at] + claimed.to_bytes(4, "big", signed=True) + empty[at + 4 :]
    assert check([*good, bad]) == 1
    assert check([bad, *good, empty]) == 1


def test_heads_that_begin_alike_are_told_apart() -> None:
    """One prefix, two heads, in one group and one after the other."""
    prefix = "x" * 60
    wishes = [(prefix + "a", "y"), (prefix + "c", "y"), (prefix + "a", "y"), (prefix + "a", "z")]
    read = read_subscription_columns([write_subscription(Subscription(wish)) for wish in wishes * 2])
    assert [read.lists[which] for which in read.list_of.tolist()] == wishes * 2
    assert list(read.names.values()) == [prefix + "a", "y", prefix + "c", "z"]
