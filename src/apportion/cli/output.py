"""The result to standard output in the form that was asked for; everything else goes to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from shutil import get_terminal_size
from typing import Any

from apportion.errors import Unavailable
from apportion.report.text import (
    TextTable,
    fitted,
    fold,
    printable,
    records_to_ndjson,
    render,
    to_csv,
    to_json,
    wants_style,
)


def emit(text: str) -> None:
    """Write a piece of the result, as UTF-8 in every locale."""
    if sys.stdout is None:
        raise Unavailable("standard output is closed, and the result goes there: send it to a file or to /dev/null.")
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    # A lone surrogate becomes \udc80, which inside JSON is a proper escape.
    buffer.write(text.encode("utf-8", "backslashreplace"))
    buffer.flush()


def emit_json(document: Any) -> None:
    """Write one JSON document on one line."""
    emit(to_json(document) + "\n")


def emit_tables(tables: Sequence[TextTable], form: str, notes: Iterable[str] = ()) -> None:
    """Write tables with sentences below; as CSV or NDJSON the first table alone."""
    if form == "csv":
        emit(to_csv(tables[0]))
    elif form == "ndjson":
        emit(records_to_ndjson(tables[0].records()))
    else:
        bold = on_terminal() and wants_style(sys.stdout)
        # A terminal breaks lines anywhere; in a pipe names stay whole, and each sentence is one line.
        width = get_terminal_size().columns if on_terminal() else 10**9
        shown = [render(table if form == "wide" else fitted(table.narrow(), width), bold) for table in tables]
        folded = "".join(fold(printable(note), width) + "\n" for note in notes)
        emit("\n".join([*shown, folded] if folded else shown))


def tell(sentence: str) -> None:
    """A hint or a step of progress, on standard error; in one piece, since several threads may write at once."""
    if sys.stderr is not None:  # print would take standard output in its place
        with suppress(OSError):  # a full disk or a reader that went away must not cost the result
            print(printable(sentence) + "\n", end="", file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether the result goes to a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def emit_page(groups: list[dict[str, Any]], name: str) -> None:
    """The page with pictures on standard output."""
    from apportion.report import page_groups

    emit(page_groups.page_of(groups, page_groups.title_of(groups), name))
