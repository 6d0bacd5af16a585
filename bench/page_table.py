"""Puts a bench's table into a page, where a line names the bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def put_table(page: Path, command: str, lines: Sequence[str]) -> None:
    """Replace the paragraph behind the line "Table of `python -m bench.COMMAND`:", whatever it is.

    Raises
        SystemExit: the page has no such line.
    """
    mark = f"Table of `python -m bench.{command}`:\n\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(mark)
    if not found:
        raise SystemExit(f"{page} has no line {mark.strip()!r}; put it where the table belongs")
    after = rest.partition("\n\n")[2]
    page.write_text(before + mark + "".join(f"{line}\n" for line in lines) + "\n" + after, encoding="utf-8")
