"""What a strategy's settings read as, what is refused and in which words, and what its codec makes of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

import apportion
from apportion.errors import BadInput, BrokenAssignor, UnknownName
from apportion.model.facts import CAPACITY, Fact
from apportion.strategy.codec import (
    Claim,
    InSubscription,
    InUserData,
    Stateless,
    UserDataCodec,
    with_facts,
)
from apportion.strategy.settings import changed_settings, key_of, settings_of, with_settings
from apportion.strategy.traits import traits_of
from apportion.wire.subscription import Subscription
from apportion.wire.user_data import write_capacity, write_cooperative, write_facts, write_sticky


@dataclass(frozen=True)
class Every:
    """A strategy with a setting of each kind."""

    name: ClassVar[str] = "every"
    goals: ClassVar[tuple[str, ...]] = ()
    choice: Literal["a", "b"] = "a"
    maybe: int | None = None
    names: tuple[str, ...] = ()
    flag: bool = False
    share: float = 0.5
    text: str = ""

    def __post_init__(self) -> None:
        if self.share > 1:
            raise ValueError("a share of more than 1")

    def assign(self, group: apportion.Group) -> Any:
        """Nobody's."""
        return group.owner


def test_texts_are_read_as_the_settings_types() -> None:
    given = {"choice": "b", "maybe": "3", "names": "x, y", "flag": "true", "share": "0.25", "text": "7"}
    made = with_settings(Every, given)
    assert made == Every("b", 3, ("x", "y"), True, 0.25, "7")
    assert [key_of(name) for name in ("max.skew", "max-skew", "num.standby-replicas_x", "by")] == [
        "max_skew", "max_skew", "num_standby_replicas_x", "by"
    ]  # fmt: skip
    assert with_settings(Every, {"maybe": None}) == Every()
    assert changed_settings(made) == {**given, "maybe": 3, "names": ["x", "y"], "flag": True, "share": 0.25}
    assert changed_settings(Every()) == {}
    assert list(settings_of(Every)) == ["choice", "maybe", "names", "flag", "share", "text"]
    assert changed_settings(apportion.Range()) == {}


@pytest.mark.parametrize(
    ("setting", "value", "found", "needed"),
    [
        ("choice", "c", "'c'", "one of a, b"),
        ("maybe", "x", "'x'", "an integer"),
        ("maybe", 1.5, "1.5", "an integer"),
        ("share", "x", "'x'", "a number"),
        ("share", True, "True", "a value of type float"),
        ("flag", "perhaps", "'perhaps'", "true or false"),
        ("names", [1], "1", "a value of type str"),
        ("text", 7, "7", "a value of type str"),
    ],
)
def test_what_is_no_value_is_refused_by_its_place(setting: str, value: object, found: str, needed: str) -> None:
    with pytest.raises(BadInput) as refused:
        with_settings(Every, {setting: value})
    error = refused.value
    assert (error.where, error.found, error.needed) == (f"setting {setting} of every", found, needed)


def test_settings_that_do_not_go_together_and_names_that_are_none() -> None:
    with pytest.raises(BadInput) as refused:
        with_settings(Every, {"share": 2})
    error = refused.value
    assert (error.where, error.found, error.needed) == (
        "settings of every",
        "a share of more than 1",
        "values in bounds",
    )
    with pytest.raises(UnknownName, match=r"no setting of every is named 'chioce'.*'choice'"):
        with_settings(Every, {"chioce": "a"})
    with pytest.raises(UnknownName, match=r"^no assignor is named 'stiky'"):
        apportion.find("stiky")


def test_facts_that_cannot_be_are_told_with_the_strategys_name() -> None:
    wrong = type("Wrong", (), {"name": "warm", "facts": {"": apportion.Fact(0)}})
    with pytest.raises(BrokenAssignor, match="the assignor 'warm' asks for a fact named ''"):
        traits_of(wrong)


def sent(data: bytes | None = None, generation: int | None = None, **owned: list[int]) -> Subscription:
    """A member's subscription."""
    return Subscription(("t",), data, tuple((topic, tuple(ids)) for topic, ids in owned.items()), generation)


OWNED = (("t", (1,)),)
WISHES = write_sticky(OWNED, 9)
NO_WISHES = write_sticky((), None)


@pytest.mark.parametrize(
    ("codec", "sent", "before"),
    [
        (Stateless(), None, b""),
        (Stateless(), b"own", b"own"),
        (InUserData(), None, NO_WISHES),
        (InUserData(), b"", b""),
        (InUserData(), WISHES, WISHES),
        (InSubscription(), None, write_cooperative(None) + NO_WISHES),
        (InSubscription(), write_cooperative(9), write_cooperative(9) + NO_WISHES),
        (InSubscription(), write_cooperative(9) + WISHES, write_cooperative(9) + WISHES),
    ],
)
def test_facts_stand_behind_what_kafkas_readers_read_and_never_alone(
    codec: UserDataCodec, sent: bytes | None, before: bytes
) -> None:
    asked = {"capacity": CAPACITY, "warmth": Fact(3, 1, 9)}
    assert codec.before_facts(sent) == before
    assert with_facts(codec, sent, {"capacity": 1, "warmth": 3, "other": 5}, asked) == sent, "defaults are silent"
    assert with_facts(codec, sent, {"capacity": 2, "warmth": 3}, asked) == before + write_capacity(2)
    assert with_facts(codec, sent, {"capacity": 1, "warmth": 4}, asked) == before + write_facts({"warmth": 4})
    both = write_facts({"warmth": 4}) + write_capacity(2)
    assert with_facts(codec, sent, {"capacity": 2, "warmth": 4, "other": 5}, asked) == before + both


def test_a_codec_takes_the_newest_generation_that_it_is_told_and_says_all_that_it_lost() -> None:
    codec, data = InSubscription(), write_cooperative(9)
    for subscription, expected in [
        (sent(data, 11, t=[1]), Claim({"t": [1]}, 11, held=True)),
        (sent(data, None, t=[1]), Claim({"t": [1]}, 9, held=True)),
        (sent(data, 11), Claim({}, 11)),
        (sent(None, 11), Claim({}, 11)),
        (sent(data + WISHES, 11), Claim({"t": [1]}, 11)),
        (sent(data + WISHES, 11, t=[0]), Claim({"t": [0]}, 11, held=True)),
    ]:
        assert codec.read(subscription) == expected
    for damaged in (sent(b"\x00", 11), sent(b"\x00", 11, t=[1]), sent(data + b"\x07", 11)):
        claim = codec.read(damaged)
        assert claim.lost
        assert (claim.generation, claim.owned) == (11, {topic: [1] for topic, _ in damaged.owned})
