"""One group a line in, one plan a line out: a bad line gives an error object, and the rest goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import IO, Any, Final

from apportion.cli import progress
from apportion.cli.output import emit_json, on_terminal
from apportion.cli.source import MOST_BYTES
from apportion.errors import ApportionError, BadInput

UTF8_BOM: Final = b"\xef\xbb\xbf"
"""What some editors put before a text."""
LONGEST_LINE: Final = MOST_BYTES
"""A longer line is an error of that line, so that an endless one cannot exhaust the memory."""


def answer_lines(lines: IO[bytes], assignor: str, settings: Mapping[str, str]) -> int:
    """Plan every line that is not blank; returns 1 if some line failed, else 0.

    Lines end at ``\\n`` alone: ``\\r`` and U+2028 are white space or part of a name.
    """
    from apportion.assignors import find

    strategy = find(assignor, settings)  # wrong usage before the first line is read
    failed = False
    # A bar with the number of the line; none where the plans themselves run over the terminal.
    with nullcontext(lambda piece: None) if on_terminal() else progress.slow("planning") as begin:
        for number, line in _lines(lines):
            if line is not None and not line.strip(b" \t\r"):
                continue
            begin(f"planning line {number:,}")
            answer = _answer(number, line, strategy)
            failed |= "error" in answer
            emit_json(answer)
    return int(failed)


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Each line without its end, counted from 1; None for one that is too long."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(UTF8_BOM)
        if len(line) <= LONGEST_LINE or line.endswith(b"\n"):
            yield number, line.removesuffix(b"\n")
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(1 << 20)
        yield number, None


def _answer(number: int, line: bytes | None, strategy: Any) -> dict[str, Any]:
    """The plan of a line, or its error."""
    from apportion.planning import plan

    if line is None:
        return _error(BadInput(f"line {number}", f"more than {LONGEST_LINE:,} bytes", "a shorter line"))
    try:
        return plan(line, strategy).to_dict()
    except BadInput as error:
        return _error(error)
    except ApportionError as error:
        return _error(BadInput(f"line {number}", str(error), "a group that the strategy can plan"))
    except MemoryError as error:
        return _error(
            BadInput(
                f"line {number}", f"more than fits into memory ({str(error) or 'no more to get'})", "a smaller group"
            )
        )
    except Exception as error:
        # One faulty answer must not take the other lines' plans away.
        fault = f"a fault in apportion: {type(error).__name__}: {error}"
        return _error(BadInput(f"line {number}", fault, "a report of it"))


def _error(error: BadInput) -> dict[str, Any]:
    return {"version": 1, "error": error.to_dict()}
