"""Two listings a minute apart tell what holds a group up, in all outputs alike, and the proposed command runs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run_here

Row = tuple[int, int, str]
"""A partition's committed offset, its log's end, and its reader's id."""
HEADER = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
BEFORE = [(100_000, 101_000, f"c-{p % 3}") for p in range(6)]


def listing(rows: list[Row]) -> str:
    """As Kafka's tool prints it: three members, two partitions each."""
    lines = (f"g t {p} {at} {end} {end - at} {m} /10.0.0.1 app\n" for p, (at, end, m) in enumerate(rows))
    return HEADER + "".join(lines)


def later(change: Callable[[int, str], tuple[int, int]], before: list[Row] = BEFORE) -> list[Row]:
    """The listing after so many messages of each partition were read and written."""
    return [(at + change(p, m)[0], end + change(p, m)[1], m) for p, (at, end, m) in enumerate(before)]


WITHOUT_MEMBERS = [(at, end + 50_000, "-") for at, end, _ in BEFORE]
BURST = [(at, end + 500_000, m) for at, end, m in BEFORE]
CASES: Mapping[str, tuple[list[Row], list[Row], str, str, str]] = {
    "every member reads less than is written": (
        BEFORE, later(lambda p, m: (6_000, 9_000)), "WARN", "too_few_members", "at least 5 members"),
    "one partition gets more than a member reads": (
        BEFORE, later(lambda p, m: (8_000, 30_000) if p == 0 else (3_000, 3_000)), "WARN", "hot_partition", "t(0)"),
    "one partition stands still while its member reads another": (
        BEFORE, later(lambda p, m: (0 if p == 0 else 3_000, 3_000)), "WARN", "stuck_record", "t(0)"),
    "one member reads a sixth of what the others read": (
        BEFORE, later(lambda p, m: (500 if m == "c-1" else 3_000, 3_000)), "WARN", "slow_member", "c-1"),
    "one member reads nothing": (
        BEFORE, later(lambda p, m: (0 if m == "c-1" else 3_000, 3_000)), "WARN", "slow_member", "c-1 reads nothing"),
    "members hold all and none reads": (BEFORE, later(lambda p, m: (0, 3_000)), "WARN", "nobody_reads", "none reads"),
    "no members and no commit moves": (
        WITHOUT_MEMBERS, later(lambda p, m: (0, 2_000), WITHOUT_MEMBERS), "ERR", "nobody_reads", "no members"),
    "a job without members falls behind": (
        WITHOUT_MEMBERS, later(lambda p, m: (430, 2_000), WITHOUT_MEMBERS), "WARN", "too_few_members", "no group"),
    "a partition gets more than a job without members reads of all": (
        WITHOUT_MEMBERS, later(lambda p, m: (430, 30_000 if p == 0 else 2_000), WITHOUT_MEMBERS), "WARN",
        "hot_partition", "all its readers read"),
    "everybody keeps up": (BEFORE, later(lambda p, m: (3_900, 3_000)), "OK", "caught_up", "keeps up"),
    "a burst is worked off": (BURST, later(lambda p, m: (30_000, 3_000), BURST), "OK", "caught_up", "works off"),
    "all is read": (BEFORE, later(lambda p, m: (4_000, 3_000)), "OK", "caught_up", "read everything"),
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """The two listings of a case."""
    before, after = CASES[request.param][:2]
    paths = tmp_path / "before.txt", tmp_path / "after.txt"
    for path, rows in zip(paths, (before, after), strict=True):
        path.write_text(listing(rows))
    return str(paths[0]), str(paths[1])


def described(*words: str) -> Any:
    """The one group of ``describe -o json``."""
    [group] = json.loads(run_here("describe", *words, "-o", "json").out)["groups"]
    return group["described"]


@pytest.mark.parametrize(("files", "title"), [(title, title) for title in CASES], indirect=["files"])
@pytest.mark.parametrize("window", [(), ("--window", "60")])
def test_rates_of_two_listings_tell_what_holds_a_group_up(
    files: tuple[str, str], title: str, window: tuple[str, ...]
) -> None:
    *_, word, kind, figure = CASES[title]
    told = described(*files, *window)
    assert (told["verdict"], told["diagnosis"]["kind"]) == (word, kind), told
    assert figure in told["diagnosis"]["sentence"]
    assert bool(told["reasons"]) == (word != "OK")
    text = run_here("describe", *files, *window).out
    assert f"Verdict {word}; diagnosis {kind.replace('_', ' ')}: {told['diagnosis']['sentence']}" in " ".join(
        text.split()
    )
    assert all(f"! {reason}" in text for reason in told["reasons"])
    page = run_here("describe", *files, *window, "-o", "html").out
    assert told["diagnosis"]["sentence"] in page
    assert f'"verdict":"{word}"' in page


@pytest.mark.parametrize("files", [title for title in CASES if CASES[title][2] != "ERR"], indirect=True)
def test_a_proposed_command_runs(files: tuple[str, str]) -> None:
    """As it stands: what one command writes the next one reads."""
    command = described(*files, "--window", "60")["diagnosis"].get("next", "")
    given = b""
    for part in command.split(" | ") if command else ():
        words = shlex.split(part)
        assert words[0] == "apportion"
        answer = run_here(*words[1:], stdin=given)
        assert answer.code == 0, (command, answer.err)
        given = answer.out.encode()


def test_one_listing_says_which_figures_are_missing_and_the_next_command_takes_two(tmp_path: Path) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(listing(BEFORE))
    told = described(str(path))["diagnosis"]
    assert told["kind"] == "unknown"
    assert "Missing: how much is written and read" in told["sentence"]
    assert told["next"] == f"apportion describe {path} later.txt"


def test_an_older_listing_in_the_second_place_is_refused_with_what_to_do(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text(listing(BEFORE))
    new.write_text(listing(later(lambda p, m: (3_000, 3_000))))
    refused = run_here("describe", str(new), str(old))
    assert refused.code == 2
    assert re.search(
        r"a listing older than .*: t-0 ends at 101,000 here and at 104,000 there; needed the earlier", refused.err
    )


def test_listings_whose_distance_nobody_knows_give_figures_between_them_and_no_seconds(tmp_path: Path) -> None:
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    before.write_text(listing(BEFORE))
    after.write_text(listing(later(lambda p, m: (6_000, 9_000))))
    sentence = described(str(before), str(after))["diagnosis"]["sentence"]
    assert "54,000 messages between the two listings are written and 36,000 read" in sentence
    assert "a second" not in sentence
