"""Fields of a coordinator's record, each kind alone: what its bytes are, what null is, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.errors import UnreadableBytes
from apportion.wire import record_fields as fields
from apportion.wire.primitives import Reader

PAIR = fields.struct({"id": Reader.int8, "name": fields.string}, {1: ("more", fields.int32s, [])})
TAG = "01 01 05 02 00000007"
WHOLE: dict[str, tuple[fields.Read, str, Any]] = {
    "array": (fields.array(PAIR, 3), "03 05 02 61 00 06 01 00", [{"id": 5, "name": "a"}, {"id": 6, "name": ""}]),
    "empty array": (fields.array(PAIR, 3), "01", []),
    "array or null": (fields.nullable_array(PAIR, 3), "02 05 02 61 00", [{"id": 5, "name": "a"}]),
    "smallest array": (fields.nullable_array(PAIR, 3), "02 05 01 00", [{"id": 5, "name": ""}]),
    "null array": (fields.nullable_array(PAIR, 3), "00", None),
    "struct": (fields.nullable_struct(PAIR), "01 05 02 61 00", {"id": 5, "name": "a"}),
    "struct at 0": (fields.nullable_struct(PAIR), "00 05 02 61 00", {"id": 5, "name": "a"}),
    "null struct": (fields.nullable_struct(PAIR), "ff", None),
    "tag": (PAIR, f"05 01 {TAG}", {"id": 5, "name": "", "more": [7]}),
    "tag at its default": (PAIR, "05 01 01 01 01 01", {"id": 5, "name": ""}),
    "unknown tag": (PAIR, "05 01 02 00 02 ffff 01 05 02 00000007", {"id": 5, "name": "", "more": [7]}),
    "no tags known": (fields.struct({"id": Reader.int8}), f"05 {TAG}", {"id": 5}),
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
        (fields.array(PAIR, 3), "00", "a null list where one is required at byte 1"),
        (fields.int32s, "00", "a null list where one is required at byte 1"),
        (fields.string, "00", "a null string where one is required at byte 1"),
        (fields.base64, "00", "a null byte string where one is required at byte 1"),
        (fields.array(PAIR, 3), "03 05 01 00 06 01", "2 elements claimed, 5 bytes left at byte 1"),
        (fields.nullable_array(PAIR, 3), "03 05 01 00 06 01", "2 elements claimed, 5 bytes left at byte 1"),
        (fields.nullable_int32s, "03 00000001 000000", "2 elements claimed, 7 bytes left at byte 1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(read: fields.Read, sent: str, said: str) -> None:
    with pytest.raises(UnreadableBytes) as refused:
        read(Reader(bytes.fromhex(sent)))
    assert said in str(refused.value)
