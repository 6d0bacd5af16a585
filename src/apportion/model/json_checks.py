"""Checks of JSON values from outside: each error names the place, the value, and the need."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NoReturn

from apportion.errors import BadInput
from apportion.wording import kind_of

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

Check = Callable[[str, Any], None]
"""Takes the place's name and its value; raises ``BadInput``."""


def read_json(text: str | bytes, where: str = "text", *, finite: bool = True) -> Any:
    """JSON without its freedoms: no NaN, no name twice, no lone surrogates, UTF-8 only.

    finite
        False lets NaN and infinities through to ``check_group``, which refuses them and names their place.
    """
    try:
        if isinstance(text, bytes | bytearray):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant if finite else float)
    except UnicodeDecodeError as error:
        raise BadInput(where, f"byte {error.object[error.start]:#04x} at {error.start}", "UTF-8 text") from None
    except json.JSONDecodeError as error:
        at = f"{where}, line {error.lineno} column {error.colno}"
        raise BadInput(at, f"{one_line(error.doc[error.pos : error.pos + 20])} ({error.msg})", "JSON") from None
    except RecursionError:
        raise BadInput(where, "values nested too deep", "a group as in the docs") from None
    except BadInput:
        raise
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise BadInput(where, "a number of thousands of digits", "numbers of at most 64 bits") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput("text", f"the name {one_line(twice)} twice in one object", "each name once")
    return result


def _no_constant(name: str) -> NoReturn:
    raise BadInput("text", name, "a finite number")


def check_version(where: str, value: Any) -> None:
    """Version 1."""
    integer(-INT64_MAX, INT64_MAX)(where, value)
    if value != 1:
        raise BadInput(where, one_line(value), "1")


def check_text(where: str, value: Any) -> None:
    """A text without lone surrogates."""
    if type(value) is not str:
        raise BadInput(where, one_line(value), "a text")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadInput(ascii(where)[1:-1], "a lone surrogate", "Unicode text") from None


def integer(low: int, high: int) -> Check:
    """A check that takes whole numbers in bounds; ``true`` and ``3.0`` are none."""

    def check(where: str, value: Any) -> None:
        if type(value) is not int:
            raise BadInput(where, one_line(value), "an integer")
        check_range(where, value, low, high)

    return check


def check_range(where: str, value: int, low: int, high: int) -> None:
    """A whole number in bounds."""
    if not low <= value <= high:
        raise BadInput(where, one_line(value), f"an integer from {low} to {high}")


def is_a(where: str, value: Any, kind: type, needed: str) -> None:
    """A value of the kind that is needed."""
    if not isinstance(value, kind):
        raise BadInput(where or "group", one_line(value), needed)


def check_object(where: str, value: Any, fields: dict[str, Check], required: tuple[str, ...]) -> None:
    """Check an object's fields; ``null`` for an optional one is its absence."""
    is_a(where, value, dict, "an object")
    prefix = f"{where}." if where else ""
    for name, field in value.items():
        check = fields.get(name) if type(name) is str else None
        if check is None:
            at = f"{prefix}{name}" if type(name) is str else (where or "group")
            raise BadInput(at, f"an unknown field {one_line(name)}", "one of " + ", ".join(fields))
        if field is not None or name in required:
            check(prefix + name, field)
    for name in required:
        if name not in value:
            raise BadInput(prefix + name, "nothing", f"the field {name!r}")


def one_line(value: Any) -> str:
    """A value as an error shows it: JSON, at most 60 characters."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value) if isinstance(value, tuple) else json.dumps(value, ensure_ascii=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = kind_of(value)
    return text if len(text) <= 60 else text[:57] + "..."
