"""No sentence of README, the documentation and the examples' pages is longer than somebody reads at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
MEASURED = {"BENCHMARKS.md"}
"""Written by a program, and held by its own test."""
MOST_WORDS = 40


def sentences(text: str) -> Iterator[str]:
    """Each sentence of a page: of paragraphs, items and cells of tables, without code; what is quoted is one word."""
    text = re.sub(r"^ *(```|~~~).*?^ *\1", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<=\n\n)(?:    .*\n)+", "\n", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=[|#])", text):
        for cell in block.split("|") if block.lstrip().startswith("|") else [block]:
            words = re.sub(r"`[^`]*`", "Code", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", cell))
            yield from re.split(r"(?<=[.!?])[)\"*]*\s+(?=[A-Z\"*(])", " ".join(words.split()))


def words(sentence: str) -> int:
    """How many words it has; signs alone are none."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def test_code_and_tables_are_no_sentences() -> None:
    page = "One two. Three `four five` [six](link).\n\n| a b | c |\n\n- d e\n- f\n\n```\nnot here\n```\n"
    assert [words(one) for one in sentences(page) if words(one)] == [2, 3, 2, 1, 2, 1]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in MEASURED], ids=lambda page: page.name)
def test_no_sentence_is_too_long(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    long = [f"{words(one)} words: {one}" for one in sentences(text) if words(one) > MOST_WORDS]
    assert not long, "\n\n".join(long)
