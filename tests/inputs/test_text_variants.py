"""Every pasted text in the forms that people's copying gives it, against what was written down of each.

Folded, squeezed, quoted, cut, with rows lost, doubled and spoilt: of each variant either the groups or the sentence
that refuses it, in brief. ``APPORTION_WRITE=1`` writes ``text_variants.json`` anew; then look at what changed in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.written_down import as_written

from apportion.errors import ApportionError
from apportion.inputs.described_group import Observed
from apportion.inputs.sniff import groups_in

from .test_layouts import KAF, KAFKACTL

HERE = Path(__file__).parent
TEXTS = {path.stem: path.read_text() for path in sorted((HERE / "cases").glob("*.txt"))}
TEXTS |= {f"pasted {path.stem}": path.read_text() for path in sorted((HERE / "pasted").glob("*.txt"))}
TEXTS |= {"kaf": KAF, "kafkactl": KAFKACTL}
SPOILT = (
    "x",
    "-",
    "-7",
    "-1",
    "99999999999",
    "99999999999999999999",
    "2147483648",
    "a,b",
    "(0)",
    "0-3",
    "unknown",
    "t(1,x)",
)
LINES = (
    "...", "(12 more rows)", "-- snip --", "Error: Executing consumer group command failed due to timeout",
    "+-----+-----+",
    "Consumer group 'other' has no active members.", "Consumer group 'other' is rebalancing.", "no rows were harmed",
    "$ kafka-consumer-groups --describe --group other", "$ kafka-consumer-groups --describe --all-groups",
    "it took 3 4 5 s",
    "other: 3 members, 7 partitions, lag 1,000", "[2026-01-02 03:04:05,678] WARN something (org.apache.kafka.X)",
    "\x1b[0m",
    "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG", "orders-app", "TOPIC  PARTITION  LAG", "x 1 2 3",
)  # fmt: skip


def variants(text: str) -> Iterator[tuple[str, str]]:
    """Name and text of each."""
    lines = text.splitlines()
    draw = Random(len(text))
    yield "as it is", text
    yield from whole(text, lines)
    filled = [i for i, line in enumerate(lines) if line.strip()][:14]
    for i in filled:
        yield f"without line {i + 1}", joined([*lines[:i], *lines[i + 1 :]])
        yield f"line {i + 1} twice", joined([*lines[: i + 1], *lines[i:]])
        yield f"ends in line {i + 1}", joined([*lines[:i], lines[i][: draw.randrange(len(lines[i])) or 1]])
        yield f"ends at line {i + 1}", joined(lines[: i + 1])
        at = [match.start() for match in re.finditer(r"\S+", lines[i])]
        for start in at[:10]:
            word = lines[i][start:].split()[0]
            new = draw.choice(SPOILT)
            spoilt = lines[i][:start] + new.ljust(len(word)) + lines[i][start + len(word) :]
            yield f"line {i + 1} with {new} for word at {start}", joined([*lines[:i], spoilt, *lines[i + 1 :]])
        lost = draw.choice(at)
        yield (
            f"line {i + 1} without word at {lost}",
            joined([*lines[:i], lines[i][:lost] + re.sub(r"^\S+\s*", "", lines[i][lost:]), *lines[i + 1 :]]),
        )
        broken = draw.choice(at)
        yield (
            f"line {i + 1} broken at {broken}",
            joined([*lines[:i], lines[i][:broken].rstrip(), lines[i][broken:], *lines[i + 1 :]]),
        )
    for line in LINES:
        i = draw.choice(filled)
        yield f"{line!r} after line {i + 1}", joined([*lines[: i + 1], line, *lines[i + 1 :]])
        yield f"{line!r} first", joined([line, *lines])


def whole(text: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    """All lines changed alike."""
    for width in (40, 60, 80, 100, 132):
        yield (
            f"folded at {width}",
            joined([line[i : i + width] for line in lines for i in range(0, len(line) or 1, width)]),
        )
        yield f"cut at {width}", joined([line[:width] for line in lines])
    yield "squeezed", joined([re.sub(r" +", " ", line) for line in lines])
    yield "squeezed and stripped", joined([" ".join(line.split()) for line in lines])
    yield "indented", joined(["    " + line for line in lines])
    for name, sign in (("tabs", "\t"), ("bars", " | "), ("heavy bars", "┃"), ("commas", ",")):
        yield name, joined([re.sub(r" +", sign, line.strip()) for line in lines])
    yield "markdown", joined(["| " + re.sub(r" +", " | ", line.strip()) + " |" for line in lines])
    yield (
        "Jira",
        joined([("||" if i == 0 else "|") + re.sub(r" +", "|", line.strip()) + "|" for i, line in enumerate(lines)]),
    )
    for name, before in (
        ("quoted", "> "),
        ("of a service", "broker-1  | "),
        ("dated", "2026-01-02T03:04:05 "),
        ("diffed", "+"),
    ):
        yield name, joined([before + line for line in lines])
    yield "small", text.lower()
    yield "small header", joined([line.lower() if "TOPIC" in line else line for line in lines])
    yield "coloured", joined([f"\x1b[1m{line}\x1b[0m" for line in lines])
    yield "coloured, escapes lost", joined([f"[1m{line}[0m" for line in lines])
    yield "hard blanks", text.replace(" ", "\xa0")
    yield "CRLF", text.replace("\n", "\r\n")
    yield "empty lines between", "\n\n".join(lines)
    yield "turned", joined(lines[::-1])
    yield "sorted", joined(sorted(lines))
    yield "twice", text + "\n" + text
    yield "beyond U+FFFF", text.replace("o", "😀")
    yield "bare names", text.replace("-", "_")


def joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def told(group: Observed) -> list[Any]:
    """All that is known of a group, whatever its fields are called."""
    return [value for name, value in vars(group).items() if name != "group"]


def outcome(text: str) -> tuple[str, str]:
    """The groups or the sentence, in full and in brief: with a digest of the rest."""
    try:
        groups = groups_in(text.encode(), "text")
    except ApportionError as wrong:
        full = f"{type(wrong).__name__}: {wrong}"
        begins = full[:60]
    else:
        full = json.dumps([told(group) for group in groups], default=list, sort_keys=True)
        begins = ", ".join(f"{group.name}: {len(group.raw['members'])}, {len(group.raw['topics'])}" for group in groups)
    return full, f"{begins} #{hashlib.sha256(full.encode()).hexdigest()[:8]}"


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_in_any_form_is_read_or_refused_as_it_was(name: str) -> None:
    outcomes: dict[str, list[str]] = {}
    for variant, text in variants(TEXTS[name]):
        full, brief = outcome(text)
        outcomes.setdefault(full if variant == "as it is" else brief, []).append(variant)
    as_written(HERE / "text_variants.json", name, outcomes)
