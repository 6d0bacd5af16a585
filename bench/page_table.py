"""Puts a bench's table into a page, where a comment names the bench."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def put_table(page: Path, command: str, lines: Sequence[str]) -> None:
    """Replace the table behind ``<!-- table of python -m bench.COMMAND -->``, or put one there.

    Raises
        SystemExit: the page has no such line.
    """
    mark = f"<!-- table of python -m bench.{command} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(mark)
    if not found:
        raise SystemExit(f"{page} has no line {mark.strip()!r}; put it where the table belongs")
    after = rest.splitlines(keepends=True)
    while after and after[0].startswith("|"):
        del after[0]
    page.write_text(before + mark + "".join(f"{line}\n" for line in lines) + "".join(after), encoding="utf-8")
