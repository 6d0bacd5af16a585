"""Errors and words that every other room says things with, at their bounds."""

from __future__ import annotations

import pickle
from importlib import metadata

import numpy as np
import pytest

import apportion
from apportion import arrays, errors, wording
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


def test_names_that_are_none_have_their_place_what_was_found_and_what_was_needed() -> None:
    error = UnknownName("topic", "x", ["y", "z"])
    assert (error.where, error.found, error.needed) == ("topic", "'x'", "one of y, z")
    assert error.to_dict() == {"where": "topic", "found": "'x'", "needed": "one of y, z"}
    assert UnknownName("topic", "x", iter(())).needed == "one that is there, and there are none"
    near = {"range": "rang", "roundrobin": "round-robin", "": "qqqq"}
    for meant, found in near.items():
        hint = f" Maybe you meant {meant!r}." if meant else ""
        assert str(UnknownName("a", found, ["range", "roundrobin"])) == (
            f"no a is named {found!r}; there are range, roundrobin.{hint}"
        )
    assert "Maybe" in str(UnknownName("m", "abcxx", ["abcyy"])), "six letters of ten"
    assert "Maybe" not in str(UnknownName("m", "abcxxx", ["abcyyy"])), "half"
    far = [f"{n:05}" for n in range(3_000)]
    assert str(UnknownName("m", "01999x", far)).endswith(" and 2,980 more. Maybe you meant '01999'.")
    assert "'02999'" not in str(UnknownName("m", "02999x", far)), "the first 2,000 are looked through"
    with pytest.raises(BadInput) as told, errors.within("a.json"):
        raise BadInput("x", "1", "2")
    assert (str(told.value), told.value.where) == ("a.json: x: found 1; needed 2.", "a.json: x")
    assert told.value.__suppress_context__


def test_bytes_and_libraries_that_are_not_there_say_where_and_how(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(errors.UnreadableBytes("no list")) == "no list at byte 0"
    cut = pickle.loads(pickle.dumps(errors.UnreadableBytes("no list", 7)))  # noqa: S301 - its own bytes
    assert (str(cut), cut.reason, cut.offset) == ("no list at byte 7", "no list", 7)
    needs = [
        "numpy>=2", "ortools>=9.12; extra == 'flow'", 'pyspark>=4 ; extra == "spark"', "pyarrow ;extra=='spark'",
        "odd; extra == 'a.b'", "other; extra == 'axb'",
    ]  # fmt: skip
    asked: list[str] = []
    monkeypatch.setattr(metadata, "requires", lambda name: asked.append(name) or needs)  # type: ignore[func-returns-value]
    assert errors.install_command("flow") == "pip install 'ortools>=9.12'"
    assert errors.install_command("spark") == "pip install 'pyspark>=4' 'pyarrow'"
    assert errors.install_command("a.b") == "pip install 'odd'"
    assert errors.install_command("gone") == "pip install 'apportion[gone]'"
    missing = errors.MissingExtra("to fly", "flow")
    assert (str(missing), missing.extra) == (
        "to fly needs a library that is not installed: pip install 'ortools>=9.12'", "flow"
    )  # fmt: skip
    assert set(asked) == {"apportion"}
    monkeypatch.setattr(metadata, "requires", lambda name: None)
    assert errors.install_command("flow") == "pip install 'apportion[flow]'"

    def absent(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", absent)
    assert errors.install_command("flow") == "pip install 'apportion[flow]'"


def test_runs_of_numbers_and_shares_in_words() -> None:
    for ids, words in (
        ([], ""), ([4], "4"), ([4, 5], "4,5"), ([4, 5, 6], "4-6"), ([0, 2, 4], "0,2,4"), ([0, 1, 3, 4, 5], "0,1,3-5"),
        ([3, 2, 1], "3,2,1"), ([7, 7], "7,7"),
    ):  # fmt: skip
        assert wording.partitions_in_words({"t": ids}) == f"t({words})"
    assert wording.partitions_in_words({}) == ""
    assert [wording.count(n, "move") for n in (0, 1, 2, 1_000)] == ["0 moves", "1 move", "2 moves", "1,000 moves"]
    assert [wording.percent(one) for one in (0.01, 0.9899, 0.99, 0.99001, 0.5)] == [
        "1%",
        "99%",
        "99%",
        "over 99%",
        "50%",
    ]
    assert [wording.shorten("abcdefgh", n) for n in (0, 3, 4, 7, 8, 9)] == [
        "...", "...", "a...", "abcd...", "abcdefgh", "abcdefgh"
    ]  # fmt: skip


def test_arrays_are_of_64_bits_and_the_bounds_are_those_that_the_pages_tell() -> None:
    given = np.array([3, 1, 3, -2], dtype=np.int64)
    assert arrays.distinct(given).tolist() == [-2, 1, 3]
    assert given.tolist() == [3, 1, 3, -2], "what was given stays as it was"
    assert arrays.distinct(given[:0]).tolist() == []
    fresh = arrays.ints(given)
    assert (fresh.dtype, fresh is given, np.shares_memory(fresh, given)) == (np.int64, False, False)
    assert arrays.ints(range(3)).tolist() == [0, 1, 2]
    assert (arrays.NOBODY, arrays.UNKNOWN, arrays.CAPACITY_MAX, arrays.CELLS) == (-1, -1, 10**6, 10**7)


def test_the_face_has_what_it_names_and_says_what_it_has_not() -> None:
    for name in apportion.__all__:
        assert getattr(apportion, name) is not None
    assert apportion.LagAware(max_skew=2).name == "lag-aware"
    for name, words in (("plans", r"^module 'apportion' has no attribute 'plans'$"), ("Plans", "Plans"), ("", "''")):
        with pytest.raises(AttributeError, match=words):
            getattr(apportion, name)


def test_the_face_lists_every_strategy_and_what_it_exports() -> None:
    names = dir(apportion)
    assert {kind.__name__ for kind in apportion.known().values()} <= set(names)
    assert set(apportion.__all__) <= set(names)
