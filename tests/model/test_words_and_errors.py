"""Errors and words that every other room says things with, at their bounds."""

from __future__ import annotations

import pickle

import pytest

import apportion
from apportion import errors, wording
from apportion.errors import BadInput, UnknownName


@pytest.mark.parametrize(
    ("kind", "found", "known", "words"),
    [
        (
            "assignor",
            "stiky",
            ["range", "sticky"],
            "no assignor is named 'stiky'; there are range, sticky. Maybe you meant ",
        ),
        ("topic", "x", [], "no topic is named 'x'; there are none."),
        ("topic", "zzz", ["a"], "no topic is named 'zzz'; there are a."),
    ],
)
def test_a_name_that_is_none_is_told_with_those_that_there_are(
    kind: str, found: str, known: list[str], words: str
) -> None:
    error = UnknownName(kind, found, known)
    assert str(error).startswith(words)
    assert str(error).count("Maybe you meant") == ("Maybe" in words)


def test_of_several_near_names_the_nearest_is_meant() -> None:
    assert str(UnknownName("m", "stickie", ["stiky", "sticky", "stick"])).endswith("Maybe you meant 'stick'.")
    many = [f"member-{n}" for n in range(30)]
    told = str(UnknownName("member", "nobody", many))
    assert told == f"no member is named 'nobody'; there are {', '.join(many[:20])} and 10 more."
    assert str(UnknownName("m", "q", many[:20])) == f"no m is named 'q'; there are {', '.join(many[:20])}."


def test_errors_are_the_packages_own_and_survive_a_process() -> None:
    public = [getattr(apportion, name) for name in apportion.__all__]
    kinds = [kind for kind in public if isinstance(kind, type) and issubclass(kind, errors.ApportionError)]
    assert len(kinds) > 4
    assert {kind.__module__ for kind in kinds} == {"apportion"}
    for error in (BadInput("a.b", "5", "a text"), UnknownName("topic", "x", ["y"])):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own bytes
        assert (type(again), str(again)) == (type(error), str(error))
    assert str(BadInput("a.b", "5", "a text")) == "a.b: found 5; needed a text."


def test_words_at_their_bounds() -> None:
    assert [wording.shorten(text, 5) for text in ("abcde", "abcdef", "")] == ["abcde", "ab...", ""]
    assert wording.shorten("abcd", 2) == "..."
    assert [wording.some_of(list("abcde"[:n])) for n in (0, 1, 3, 4, 5)] == [
        "", "a", "a, b, c", "a, b, c and 1 more", "a, b, c and 2 more"
    ]  # fmt: skip
    assert [wording.count(n, "process", "processes") for n in (0, 1, 2_000)] == [
        "0 processes", "1 process", "2,000 processes"
    ]  # fmt: skip
    assert [wording.percent(share) for share in (0, 0.004, 0.99, 0.991, 0.9999, 1.0, 1.5)] == [
        "0%", "0%", "99%", "over 99%", "over 99%", "100%", "150%"
    ]  # fmt: skip
    assert wording.partitions_in_words({"t": [0, 1, 2, 5, 7, 8], "u": [3]}) == "t(0-2,5,7,8), u(3)"
    assert wording.partitions_in_words({"t": [0, 1, 2]}, runs=False) == "t(0,1,2)"
    assert wording.proof_in_words({}) == "this strategy promises none"
    assert wording.proof_in_words({"balance": "optimal", "moves": "bounded"}) == "balance optimal, moves bounded"


def test_the_face_lists_every_strategy_and_what_it_exports() -> None:
    names = dir(apportion)
    assert {kind.__name__ for kind in apportion.known().values()} <= set(names)
    assert set(apportion.__all__) <= set(names)
