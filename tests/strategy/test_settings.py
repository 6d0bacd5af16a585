"""What a strategy's settings read as, what is refused and in which words, and what its codec makes of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

import apportion
from apportion.errors import BadInput, BrokenAssignor, UnknownName
from apportion.strategy.codec import Holding, InSubscription, InUserData, Stateless
from apportion.strategy.settings import changed_settings, settings_of, with_settings
from apportion.strategy.traits import traits_of
from apportion.wire.subscription import Subscription


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


def test_a_codec_tells_what_was_held_since_when_and_what_was_lost() -> None:
    claim = Stateless().read(sent(None, 4, t=[0, 1]))
    assert (claim.owned, claim.generation, claim.held) == ({"t": [0, 1]}, 4, True)
    assert InUserData().user_data(Holding((), None)) is None
    data = InUserData().user_data(Holding((("t", (2,)),), 7))
    claim = InUserData().read(sent(data))
    assert (claim.owned, claim.generation, claim.held, claim.lost) == ({"t": [2]}, 7, False, None)
    assert InUserData().user_data(Holding((), 7)) is not None, "it was there, and held nothing"
    assert InUserData().read(sent(b"\x00")).lost
    codec = InSubscription()
    claim = codec.read(sent(codec.user_data(Holding((("t", (1,)),), 9, keeps=True)), None, t=[1]))
    assert (claim.owned, claim.generation, claim.held) == ({"t": [1]}, 9, True)
    wishes = codec.user_data(Holding((("t", (1,)),), 9, keeps=False))
    claim = codec.read(sent(wishes))
    assert (claim.owned, claim.generation, claim.held, claim.lost) == ({"t": [1]}, 9, False, None)
    assert wishes is not None
    claim = codec.read(sent(wishes[:6]))
    assert (claim.owned, claim.generation) == ({}, 9)
    assert claim.lost
