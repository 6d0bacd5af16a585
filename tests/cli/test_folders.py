"""Commands on a dump: a share group is not planned, and what is far away is brought once."""

from __future__ import annotations

from typing import Any

import pytest

from apportion import demo
from apportion.cli import source
from apportion.sources import load_history

from .conftest import Runner

DUMP = str(demo.dump())


@pytest.mark.parametrize(
    "words",
    [
        ["plan"], ["compare"], ["gate", "--max-moves", "3"], ["size", "--by", "partitions", "--capacity", "3"],
        ["what-if", "--join", "1"], ["replay", "--assignor", "sticky"],
    ],
)  # fmt: skip
def test_a_share_group_is_not_planned_since_nobody_owns_its_partitions(run: Runner, words: list[str]) -> None:
    done = run(words[0], DUMP, "--group", "tickets-share", *words[1:])
    assert (done.code, done.out) == (2, "")
    assert "'tickets-share', a share group, whose partitions have no owners" in done.err


@pytest.mark.parametrize(
    "words", [["compare", "--speeds"], ["what-if", "--join", "1"], ["describe", "--time"], ["switch"]]
)
def test_a_folder_is_brought_once_however_often_a_command_reads_it(
    run: Runner, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    brought: list[str] = []

    def at_hand(path: str, groups: Any = ()) -> str:
        brought.append(path)
        return DUMP

    monkeypatch.setattr(source, "at_hand", at_hand)
    assert run(words[0], "s3a://lake/dump", "--group", "ads-range", *words[1:]).code == 0
    assert brought == ["s3a://lake/dump"]


@pytest.mark.parametrize(
    "words", [["compare", "--speeds"], ["what-if", "--join", "1"], ["describe"], ["describe", "--time"]]
)
def test_a_folders_records_become_histories_once_however_often_a_command_asks(
    run: Runner, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    read: list[str] = []

    def load(path: str) -> Any:
        read.append(path)
        return load_histories(path)

    load_histories = load_history.load_histories
    monkeypatch.setattr(load_history, "load_histories", load)
    assert run(words[0], DUMP, "--group", "ads-range", *words[1:]).code == 0
    assert read == [DUMP]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["describe", "--time", "-o", "json"], "-o json cannot show --time"),
        (["describe", "--time", "-o", "html"], "-o html cannot show --time"),
        (["compare", "--window", "60"], "--window is the time over which --speeds measures"),
    ],
)
def test_no_option_of_time_is_passed_over_without_a_word(run: Runner, words: list[str], why: str) -> None:
    done = run(words[0], DUMP, "--group", "ads-range", *words[1:])
    assert (done.code, done.out) == (2, "")
    assert why in done.err


@pytest.mark.parametrize("form", ["html", "csv", "ndjson"])
def test_speeds_are_refused_where_the_form_has_no_place_for_them(run: Runner, form: str) -> None:
    done = run("compare", DUMP, "--group", "ads-range", "--speeds", "-o", form)
    assert (done.code, done.out) == (2, "")
    assert f"-o {form} cannot show --speeds" in done.err
