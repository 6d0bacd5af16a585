"""How the value of a coordinator's record is read: named fields in order, then tagged ones, into Kafka's JSON form.

A body is a dict with the names and order of Kafka's JSON converters: ids as 22 characters, bytes as base64, a tagged
field only where it differs from its default.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from apportion.wire.primitives import Reader

Body = dict[str, Any]
"""One record's value, ready for ``json.dumps``."""

Read = Callable[[Reader], Any]


def struct(fields: Mapping[str, Read], tags: Mapping[int, tuple[str, Read, Any]] | None = None) -> Read:
    """Fields in their order, then tagged ones: tag -> (name, how to read it, default)."""
    known = tags or {}

    def read(reader: Reader) -> Body:
        body: Body = {name: take(reader) for name, take in fields.items()}
        extra: Body = {}

        def tagged(tag: int) -> bool:
            if tag not in known:
                return False
            extra[known[tag][0]] = known[tag][1](reader)
            return True

        reader.tags(tagged)
        for name, _, default in known.values():
            if extra.get(name, default) != default:
                body[name] = extra[name]
        return body

    return read


def array(element: Read, least: int) -> Read:
    """A compact array; ``least`` is the fewest bytes of one element."""
    return lambda reader: reader.compact_array(lambda: element(reader), least)


def nullable_array(element: Read, least: int) -> Read:
    """A compact array, or null."""
    return lambda reader: reader.compact_nullable_array(lambda: element(reader), least)


def nullable_struct(inner: Read) -> Read:
    """A struct behind a byte that is negative if it is null (a field that is not tagged)."""
    return lambda reader: None if reader.int8() < 0 else inner(reader)


def base64(reader: Reader) -> str:
    """Bytes as base64."""
    return b64encode(reader.compact_blob()).decode("ascii")


def int32s(reader: Reader) -> list[int]:
    """A compact array of numbers."""
    return list(reader.compact_int32s())


def nullable_int32s(reader: Reader) -> list[int] | None:
    """A compact array of numbers, or null."""
    numbers = reader.compact_nullable_int32s()
    return None if numbers is None else list(numbers)


string: Final[Read] = Reader.compact_string
nullable_string: Final[Read] = Reader.compact_nullable_string
