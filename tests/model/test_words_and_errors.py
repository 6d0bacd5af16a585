"""Errors and words that every other room says things with, at their bounds."""

from __future__ import annotations

import pickle
from importlib import metadata

import pytest

import apportion
from apportion import errors
from apportion.errors import UnknownName


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


def test_the_face_has_what_it_names_and_says_what_it_has_not() -> None:
    for name in apportion.__all__:
        assert getattr(apportion, name) is not None
    assert apportion.LagAware(max_skew=2).name == "lag-aware"
    for name, words in (("plans", r"^module 'apportion' has no attribute 'plans'$"), ("Plans", "Plans"), ("", "''")):
        with pytest.raises(AttributeError, match=words):
            getattr(apportion, name)
