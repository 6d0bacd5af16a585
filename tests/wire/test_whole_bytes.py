"""Plans as text and subscriptions as bytes, whole, against what was written down; hostile plans are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.support.written_down import as_written

from apportion.errors import ApportionError
from apportion.wire import plan_text
from apportion.wire.plan_text import GovernedPlan, MemberKey, PlanPart
from apportion.wire.subscription import Subscription, write_subscription

WRITTEN = Path(__file__).parent / "whole_bytes.json"


def a_plan(seed: int) -> GovernedPlan:
    """A small plan; of one seed always the same."""
    rng = random.Random(seed)
    count = rng.randrange(5)
    members = tuple(MemberKey(f"m{n}", f"é{n}" if rng.random() < 0.4 else None) for n in range(count))
    owners = {bytes([rng.randrange(256)] * 16): [rng.randrange(-1, count) for _ in range(rng.randrange(9))]
              for _ in range(rng.randrange(4))}  # fmt: skip
    return GovernedPlan(rng.randrange(10**6), rng.randrange(4), members, tuple(rng.sample(range(count), count)), owners)


def body_of(text: str) -> bytes:
    return zlib.decompress(base64.urlsafe_b64decode(text.split(":")[3] + "=="))


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_is_written_as_it_was_and_read_back(seed: int) -> None:
    plan = a_plan(seed)
    salt = plan_text.salt_of(plan.members)
    [text], [signed] = plan_text.texts(plan), plan_text.texts(plan, b"k" * 16)
    assert signed.startswith(text + ":")
    mac = hmac.new(b"k" * 16, text.encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signed.rpartition(":")[2] + "==") == mac
    names = [f"i{one.instance_id}" if one.instance_id is not None else f"m{one.member_id}" for one in plan.members]
    digests = tuple(hashlib.sha256(bytes([salt]) + name.encode()).digest()[:4] for name in names)
    owners = {topic: tuple(held) for topic, held in sorted(plan.owners.items())}
    part = PlanPart(plan.number, plan.promise, salt, digests, plan.rank, owners)
    assert plan_text.read(text) == plan_text.read(signed) == part
    assert list(plan_text.readable([None, "r1", text, "apportion-plan:", signed])) == [part, part]
    assert plan_text.promises([text, "x"]) == ({plan.promise} if digests else set())
    as_written(WRITTEN, f"plan {seed}", [text.rpartition(":")[0], body_of(text).hex()])


def test_a_salt_tells_all_members_apart_and_a_large_plan_is_cut_at_topics() -> None:
    many = tuple(MemberKey(f"m{n}") for n in range(3_000))
    salts = [plan_text.salt_of(many[:n]) for n in (0, 1, 300, 3_000)]
    with pytest.raises(ValueError, match=r"^no salt tells 2 members apart: is one of them there twice\?$"):
        plan_text.salt_of([MemberKey("a", "i"), MemberKey("b", "i")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemberKey, "digest", lambda key, salt: key.member_id.encode() if salt in (3, 255) else b"same")
        assert plan_text.salt_of(many) == 3
        patch.setattr(MemberKey, "digest", lambda key, salt: key.member_id.encode() if salt == 255 else b"same")
        assert plan_text.salt_of(many) == 255
    rng = random.Random(5)
    owners = {bytes([n] * 16): [rng.randrange(3_000) for _ in range(3_000)] for n in range(5)}
    plan = GovernedPlan(7, 0, many, (), owners)
    texts = plan_text.texts(plan, b"key")
    parts = [plan_text.read(text) for text in texts]
    assert max(map(len, texts)) <= plan_text.RACK_MAX_BYTES
    assert [topic for part in parts for topic in part.owners] == sorted(owners)
    assert {topic: list(held) for part in parts for topic, held in part.owners.items()} == owners
    huge = GovernedPlan(7, 0, many, (), {b"t" * 16: [rng.randrange(3_000) for _ in range(20_000)]})
    with pytest.raises(
        ApportionError, match=r"^a plan for 3000 members with one topic has \d+ bytes as a rack id, which"
    ):
        plan_text.texts(huge)
    as_written(WRITTEN, "large", [salts, [len(part.owners) for part in parts]])


def deflated(*body: int, mark: str = "apportion-plan:1:5:", end: str = "") -> str:
    return mark + plan_text.base64url(zlib.compress(bytes(body))) + end


TOPIC = (9,) * 16
NONE, ONE = (0, 0, 0, 0, 0), (0, 0, 1, 1, 2, 3, 4)
HOSTILE = {
    "nothing": "",
    "another": "rack-1",
    "no body": "apportion-plan:1:5",
    "old": deflated(*NONE).replace(":1:", ":2:"),
    "no number": deflated(*NONE, mark="apportion-plan:1:x:"),
    "below": deflated(*NONE, mark="apportion-plan:1:-5:"),
    "four": deflated(*NONE),
    "five": deflated(*NONE, end=":s"),
    "six": deflated(*NONE, end=":s:t"),
    "in front": deflated(*NONE, mark=" apportion-plan:1:5:"),
    "no text": "apportion-plan:1:5:####",
    "not deflated": "apportion-plan:1:5:AAAA",
    "torn": deflated(*NONE)[:-4],
    "empty": deflated(),
    "short": deflated(0, 0),
    "one digest": deflated(*ONE, 0, 0),
    "many digests": deflated(0, 0, 2, 1, 2, 3, 4),
    "rank": deflated(*ONE, 1, 0, 0),
    "rank of nobody": deflated(*ONE, 1, 1, 0),
    "topic": deflated(*ONE, 0, 1, *TOPIC, 1, 3, 1),
    "nobody": deflated(*ONE, 0, 1, *TOPIC, 2, 3, 0, 1, 1),
    "far owner": deflated(*ONE, 0, 1, *TOPIC, 1, 3, 2),
    "many partitions": deflated(0, 0, 0, 0, 1, *TOPIC, 1, 0xC1, 0x84, 0x3D, 0),
    "all partitions": deflated(0, 0, 0, 0, 1, *TOPIC, 1, 0xC0, 0x84, 0x3D, 0),
    "topic of nothing": deflated(0, 0, 0, 0, 1, *TOPIC, 0),
    "half a topic": deflated(0, 0, 0, 0, 1, *TOPIC[:15]),
    "two topics": deflated(0, 0, 0, 0, 2, *TOPIC, 0, *TOPIC[:15]),
    "bomb": "apportion-plan:1:5:" + plan_text.base64url(zlib.compress(bytes((4 << 20) + 1))),
    "more behind": deflated(*NONE, 7),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_rack_id_is_refused_in_a_sentence(name: str) -> None:
    said: Any
    try:
        part = plan_text.read(HOSTILE[name])
        owners = {topic.hex(): [len(held), *held[:5]] for topic, held in part.owners.items()}
        said = [part.number, part.promise, part.salt, [one.hex() for one in part.digests], part.rank, owners]
    except ApportionError as error:
        said = str(error).partition("base64url: ")[0]
    is_plan = plan_text.is_plan(HOSTILE[name])
    as_written(WRITTEN, name, [said, is_plan, len(list(plan_text.readable([HOSTILE[name]])))])


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_is_written_as_it_was(version: int) -> None:
    said = []
    owned = (("u", (2, 0)), ("t", (1,)))
    for generation, rack, held, data in ((None, None, (), None), (-1, "", (), b""), (5, "é", owned, b"\0d")):
        one = Subscription(("u", "t", "é", "\U0001f600"), data, held, generation, rack, version)
        said.append(write_subscription(one).hex())
    as_written(WRITTEN, f"subscription {version}", said)
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match=f"^subscription version {wrong}; there are 0 to 3$"):
            write_subscription(Subscription((), version=wrong))
    assert plan_text.topic_id("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\x01"
    assert plan_text.base64url(b"\xff\xfe") == "__4"
