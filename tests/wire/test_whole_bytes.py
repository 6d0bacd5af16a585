"""A governor's plan is read back as it was written, signed by a standard HMAC, and cut at topics if it is large."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random

import pytest

from apportion.errors import ApportionError
from apportion.wire import plan_text
from apportion.wire.plan_text import GovernedPlan, MemberKey, PlanPart


def a_plan(seed: int) -> GovernedPlan:
    """A small plan; of one seed always the same."""
    rng = random.Random(seed)
    count = rng.randrange(5)
    members = tuple(MemberKey(f"m{n}", f"é{n}" if rng.random() < 0.4 else None) for n in range(count))
    owners = {bytes([rng.randrange(256)] * 16): [rng.randrange(-1, count) for _ in range(rng.randrange(9))]
              for _ in range(rng.randrange(4))}  # fmt: skip
    return GovernedPlan(rng.randrange(10**6), rng.randrange(4), members, tuple(rng.sample(range(count), count)), owners)


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_is_read_back_as_it_was_written(seed: int) -> None:
    plan = a_plan(seed)
    salt = plan_text.salt_of(plan.members)
    [text], [signed] = (plan_text.texts(plan, "c", key, 1_764_000_000) for key in (None, b"k" * 16))
    assert signed.startswith(text + ":")
    mac = hmac.new(b"k" * 16, text.encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signed.rpartition(":")[2] + "==") == mac
    names = [f"i{one.instance_id}" if one.instance_id is not None else f"m{one.member_id}" for one in plan.members]
    digests = tuple(hashlib.sha256(bytes([salt]) + name.encode()).digest()[:4] for name in names)
    owners = {topic: tuple(held) for topic, held in sorted(plan.owners.items())}
    part = PlanPart(plan.number, 1_764_000_000, plan.promise, salt, digests, plan.rank, owners)
    assert plan_text.read(text) == plan_text.read(signed) == part
    racks = [{"rack_id": rack} for rack in (None, "r1", text, "apportion-plan:", signed)]
    assert [(member["rack_id"], read) for member, read in plan_text.readable(racks)] == [(text, part), (signed, part)]
    assert plan_text.promises(racks) == {plan.promise}


def test_a_salt_tells_all_members_apart_and_a_large_plan_is_cut_at_topics() -> None:
    many = tuple(MemberKey(f"m{n}") for n in range(3_000))
    for n in (0, 1, 300, 3_000):
        salt = plan_text.salt_of(many[:n])
        assert len({key.digest(salt) for key in many[:n]}) == n
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
    texts = plan_text.texts(plan, "c", b"key")
    parts = [plan_text.read(text) for text in texts]
    assert max(map(len, texts)) <= plan_text.RACK_MAX_BYTES
    assert [topic for part in parts for topic in part.owners] == sorted(owners)
    assert {topic: list(held) for part in parts for topic, held in part.owners.items()} == owners
    huge = GovernedPlan(7, 0, many, (), {b"t" * 16: [rng.randrange(3_000) for _ in range(20_000)]})
    with pytest.raises(
        ApportionError, match=r"^a plan for 3000 members with one topic has \d+ bytes as a rack id, which"
    ):
        plan_text.texts(huge, "c")
