"""What a cooperative member still holds is given to nobody else, whatever the codec of the strategy makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from apportion import Group
from apportion.arrays import NOBODY, Ints
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.strategy import Claim, Holding, Subscription, UserDataCodec
from apportion.strategy.codec import InSubscription, InUserData, Stateless
from apportion.testing import ContractBroken, check_assignor
from apportion.wire.assignment import Assignment, read_assignment
from apportion.wire.subscription import write_subscription

from .metadata import as_client


class Topics:
    """Four partitions of each topic."""

    def partitions(self, topic: str) -> Any:
        return range(4)

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


class InJson(UserDataCodec):
    """As the page on strategies of one's own teaches it: it says nothing of what is held."""

    def user_data(self, holding: Holding) -> bytes | None:
        return json.dumps({"generation": holding.generation, "owned": dict(holding.owned)}).encode()

    def read(self, subscription: Subscription) -> Claim:
        memory = json.loads(subscription.user_data or b'{"owned": {}, "generation": null}')
        return Claim(memory["owned"], memory["generation"])


class Forgetful(InJson):
    """It claims nothing at all."""

    def read(self, subscription: Subscription) -> Claim:
        return Claim({})


class Old(InJson):
    """It claims what a member had long ago."""

    def read(self, subscription: Subscription) -> Claim:
        return Claim({"t": [3]}, 1)


class Broken(InJson):
    """It raises."""

    def read(self, subscription: Subscription) -> Claim:
        raise ValueError("no")


@dataclass(frozen=True)
class Dealt:
    """Partitions like cards, cooperatively."""

    name: ClassVar[str] = "dealt"
    goals: ClassVar[tuple[str, ...]] = ()
    cooperative: ClassVar[bool] = True
    memory: ClassVar[UserDataCodec] = Stateless()

    def assign(self, group: Group) -> Ints:
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        for topic in group.assignable_topics:
            members, span = group.subscribers(topic), group.partitions(topic)
            owner[span] = members[np.arange(span.stop - span.start) % len(members)]
        return owner


def with_memory(codec: UserDataCodec) -> Any:
    return type("Remembering", (Dealt,), {"memory": codec, "__doc__": "Another memory."})()


CODECS = [InJson(), Forgetful(), Old(), Broken(), Stateless(), InUserData(), InSubscription()]


def answered(strategy: Any, sent: dict[str, Subscription]) -> dict[str, Assignment]:
    joined = JoinedGroup(list(sent), [None] * len(sent), [write_subscription(one) for one in sent.values()])
    answers = Bridge(strategy, Options()).lead(joined, as_client(Topics()))
    return {member: read_assignment(raw) for member, raw in answers.items()}


def shares(strategy: Any, sent: dict[str, Subscription]) -> dict[str, list[int]]:
    answers = answered(strategy, sent)
    return {member: [p for _, ids in answer.partitions for p in ids] for member, answer in answers.items()}


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
def test_no_partition_goes_to_another_member_before_its_holder_has_let_go(codec: UserDataCodec) -> None:
    strategy = with_memory(codec)
    held = (("t", (0, 1, 2, 3)),)
    old = Subscription(("t",), codec.user_data(Holding(held, 5, keeps=True)), held, 5)
    new = Subscription(("t",), codec.user_data(Holding()))
    first = shares(strategy, {"a-new": new, "b-old": old})
    assert first == {"a-new": [], "b-old": [1, 3]}
    kept = (("t", (1, 3)),)
    after = Subscription(("t",), codec.user_data(Holding(kept, 6, keeps=True)), kept, 6)
    assert shares(strategy, {"a-new": new, "b-old": after}) == {"a-new": [0, 2], "b-old": [1, 3]}


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
def test_the_test_kit_names_a_memory_that_loses_what_is_held(codec: UserDataCodec) -> None:
    strategy = with_memory(codec)
    if isinstance(codec, Stateless | InSubscription):
        check_assignor(strategy, groups=5)
        return
    with pytest.raises(
        ContractBroken, match=r"Its memory (reads Claim\(.*from a member that still holds|raised)"
    ) as broken:
        check_assignor(strategy, groups=5)
    assert broken.value.promises == ("memory",)


def test_all_members_join_a_second_round_at_once_but_not_for_ever() -> None:
    """A member that never lets go of what it claims would else keep the group joining."""
    held = (("t", (0, 1, 2, 3)),)
    old, new = Subscription(("t",), None, held, 5), Subscription(("t",))
    first = answered(Dealt(), {"a-new": new, "b-old": old})
    member = Bridge(Dealt(), Options())
    assert member.on_assignment(first["a-new"], 6)
    assert not member.on_assignment(first["a-new"], 7)
    assert member.on_assignment(first["b-old"], 8)
    settled = answered(Dealt(), {"a-new": new, "b-old": Subscription(("t",), None, (("t", (1, 3)),), 6)})
    assert {answer.user_data for answer in settled.values()} == {None}
    assert not member.on_assignment(settled["a-new"], 9)
    assert (member.last.owned, member.last.generation) == ((("t", (0, 2)),), 9)
