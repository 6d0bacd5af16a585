"""What a strategy's settings read as, what is refused and in which words, and what its codec makes of bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import pytest

import apportion
from apportion.errors import BadInput, BrokenAssignor, UnknownName
from apportion.model.facts import CAPACITY, Fact
from apportion.strategy.codec import (
    Claim,
    Holding,
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


OWNED = (("t", (1,)),)
WISHES = write_sticky(OWNED, 9)
NO_WISHES = write_sticky((), None)


@pytest.mark.parametrize(
    ("codec", "holding", "sent"),
    [
        (Stateless(), Holding(OWNED, 9), None),
        (InUserData(), Holding(), None),
        (InUserData(), Holding((), 9), write_sticky((), 9)),
        (InUserData(), Holding(OWNED), write_sticky(OWNED, None)),
        (InUserData(), Holding(OWNED, 9, keeps=True), WISHES),
        (InSubscription(), Holding(), write_cooperative(None)),
        (InSubscription(), Holding((), 9), write_cooperative(9)),
        (InSubscription(), Holding((), 9, keeps=True), write_cooperative(9)),
        (InSubscription(), Holding(OWNED, 9, keeps=True), write_cooperative(9)),
        (InSubscription(), Holding(OWNED, 9), write_cooperative(9) + WISHES),
        (InSubscription(), Holding(OWNED), write_cooperative(None) + write_sticky(OWNED, None)),
    ],
)
def test_what_a_member_sends_of_what_it_had(codec: UserDataCodec, holding: Holding, sent: bytes | None) -> None:
    assert codec.user_data(holding) == sent
    assert (
        codec.assignment_data(apportion.plan({"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}})),
        codec.epoch(sent),
    ) == (None, None)


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


def test_traits_that_nobody_names_are_these_and_wrong_facts_are_told_in_whole_sentences() -> None:
    plain = {"server_side": False, "assigned_data": False, "on_foreign": "log", "kept_whole": "", "advised": True}
    for one in (object(), apportion.Range()):
        traits = asdict(traits_of(one))
        assert {name: traits[name] for name in plain} == plain
        assert (traits["facts"], traits["summary"], traits["target_of"], traits["leaves"]) == ({}, None, None, False)
    assert isinstance(traits_of(object()).codec, InUserData)
    assert isinstance(traits_of(type("C", (), {"cooperative": True})).codec, InSubscription)
    assert isinstance(traits_of(type("C", (), {"cooperative": True, "memory": Stateless()})).codec, Stateless)
    for facts, words in [
        (["warmth"], "the facts ['warmth']; needed names, each with an apportion.Fact"),
        ({"warmth": 3}, "the facts {'warmth': 3}; needed names, each with an apportion.Fact"),
        ({"": Fact()}, "a fact named ''; needed a text of 1 to 255 bytes"),
        ({3: Fact()}, "a fact named 3; needed a text of 1 to 255 bytes"),
        ({"é" * 128: Fact()}, f"a fact named {'é' * 128!r}; needed a text of 1 to 255 bytes"),
        (
            {"capacity": Fact(2, 1, 3)},
            f"'capacity' as {Fact(2, 1, 3)}; all strategies share it, so needed apportion.strategy.CAPACITY",
        ),
    ]:
        with pytest.raises(BrokenAssignor) as refused:
            traits_of(type("Wrong", (), {"name": "warm", "facts": facts}))
        assert str(refused.value) == f"the assignor 'warm' asks for {words}."
    assert traits_of(type("Right", (), {"facts": {"é" * 127: Fact(), "capacity": CAPACITY}})).facts
    nameless = type("Nameless", (), {"facts": 1})
    with pytest.raises(BrokenAssignor, match=r"^the assignor <class '.*Nameless'> asks for the facts 1; needed"):
        traits_of(nameless)
