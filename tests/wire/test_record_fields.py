"""Fields of a coordinator's record, each kind alone: what its bytes are, what null is, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.errors import UnreadableBytes
from apportion.wire import record_fields as fields
from apportion.wire.primitives import Reader


def pair(reader: Reader) -> fields.Body:
    """A struct of two fields and one tagged one."""
    made = fields.struct({"id": Reader.int8, "name": fields.string}, {1: ("more", fields.int32s, [])})
    return dict(made(reader))


def pairs(reader: Reader) -> Any:
    return fields.array(pair, 3)(reader)


def pairs_or_null(reader: Reader) -> Any:
    return fields.nullable_array(pair, 3)(reader)


def pair_or_null(reader: Reader) -> Any:
    return fields.nullable_struct(pair)(reader)


def number_alone(reader: Reader) -> Any:
    return fields.struct({"id": Reader.int8})(reader)


TAG = "01 01 05 02 00000007"
WHOLE: dict[str, tuple[fields.Read, str, Any]] = {
    "array": (pairs, "03 05 02 61 00 06 01 00", [{"id": 5, "name": "a"}, {"id": 6, "name": ""}]),
    "empty array": (pairs, "01", []),
    "array or null": (pairs_or_null, "02 05 02 61 00", [{"id": 5, "name": "a"}]),
    "smallest array": (pairs_or_null, "02 05 01 00", [{"id": 5, "name": ""}]),
    "null array": (pairs_or_null, "00", None),
    "struct": (pair_or_null, "01 05 02 61 00", {"id": 5, "name": "a"}),
    "struct at 0": (pair_or_null, "00 05 02 61 00", {"id": 5, "name": "a"}),
    "null struct": (pair_or_null, "ff", None),
    "tag": (pair, f"05 01 {TAG}", {"id": 5, "name": "", "more": [7]}),
    "tag at its default": (pair, "05 01 01 01 01 01", {"id": 5, "name": ""}),
    "unknown tag": (pair, "05 01 02 00 02 ffff 01 05 02 00000007", {"id": 5, "name": "", "more": [7]}),
    "no tags known": (number_alone, f"05 {TAG}", {"id": 5}),
    "base64": (fields.base64, "03 00ff", "AP8="),
    "no bytes": (fields.base64, "01", ""),
    "numbers": (fields.int32s, "03 00000001 ffffffff", [1, -1]),
    "numbers or null": (fields.nullable_int32s, "02 00000001", [1]),
    "null numbers": (fields.nullable_int32s, "00", None),
    "no numbers": (fields.nullable_int32s, "01", []),
    "null text": (fields.nullable_string, "00", None),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_a_field_says_what_its_bytes_say_to_the_last_one(kind: str) -> None:
    read, sent, said = WHOLE[kind]
    raw = bytes.fromhex(sent)
    reader = Reader(raw + b"\x09")
    assert read(reader) == said
    assert reader.at == len(raw)
    for end in range(len(raw)):
        with pytest.raises(UnreadableBytes):
            read(Reader(raw[:end]))


@pytest.mark.parametrize(
    ("read", "sent", "said"),
    [
        (pairs, "00", "a null list where one is required at byte 1"),
        (fields.int32s, "00", "a null list where one is required at byte 1"),
        (fields.string, "00", "a null string where one is required at byte 1"),
        (fields.base64, "00", "a null byte string where one is required at byte 1"),
        (pairs, "03 05 01 00 06 01", "2 elements claimed, 5 bytes left at byte 1"),
        (pairs_or_null, "03 05 01 00 06 01", "2 elements claimed, 5 bytes left at byte 1"),
        (fields.nullable_int32s, "03 00000001 000000", "2 elements claimed, 7 bytes left at byte 1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(read: fields.Read, sent: str, said: str) -> None:
    with pytest.raises(UnreadableBytes) as refused:
        read(Reader(bytes.fromhex(sent)))
    assert said in str(refused.value)
