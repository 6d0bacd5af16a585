"""How a cluster is asked by kafka-python, call by call, with the client stood in for: a broker is asked elsewhere."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from kafka import errors

from apportion.errors import Unavailable
from apportion.sources import cluster, log_tails

MAY_NOT = "b:1: this user may not"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.GroupAuthorizationFailedError(), f"{MAY_NOT} look at a group that was asked for; it needs the"),
        (errors.ClusterAuthorizationFailedError(), f"{MAY_NOT} look at the cluster itself; it needs the ACL Describe"),
        (errors.TopicAuthorizationFailedError(), f"{MAY_NOT} read a topic that was asked for; it needs the ACLs Desc"),
        (errors.TopicAuthorizationFailedError({"__consumer_offsets"}), f"{MAY_NOT} read __consumer_offsets; it needs"),
        (errors.SaslAuthenticationFailedError("s3cret"), "b:1 refused the name or password"),
        (errors.InvalidGroupIdError("why"), "b:1 answered: "), (ValueError("odd"), "b:1 cannot be reached: odd"),
        (OSError("no route"), "b:1 cannot be reached: no route"),
        (errors.KafkaTimeoutError(), "no Kafka broker answered at b:1: is the address right?"),
    ],
)  # fmt: skip
def test_each_error_of_the_client_is_one_sentence(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> Any:
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(Unavailable) as refused, cluster.sentences("b:1"):
        raise error
    assert str(refused.value).startswith(words)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is error


def batch(first: int, messages: int, producer: int = -1, transactional: bool = False, control: bool = False) -> bytes:
    """A batch of the present format."""
    from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(2, 0, transactional, producer, 0, 0, 10_000)
    for n in range(messages):
        builder.append(n, 1, b"\x00\x00\x00\x01", b"v" * 6, [])
    octets = bytearray(builder.build())
    octets[:8] = first.to_bytes(8, "big")
    if control:
        octets[22] |= 0x20
    return bytes(octets)


OF_7, OF_8, MARKER = batch(10, 2, 7, True), batch(12, 1, 8, True), batch(13, 1, 7, True, True)
PLAIN = batch(14, 2)


@pytest.mark.parametrize(
    ("records", "aborted", "tails"),
    [
        (OF_7, [], {9: (10, True), 10: (10, True), 11: (11, True), 12: (12, False), 13: (13, False)}),
        (OF_7, [(7, 10)], {9: (12, False), 10: (12, False), 11: (12, False), 12: (12, False)}),
        (OF_7, [(7, 11), (8, 0)], {10: (10, True)}),
        (OF_7, [(8, 5), (7, 9)], {10: (12, False)}),
        (MARKER, [], {12: (14, False), 13: (14, False), 14: (14, False)}),
        (MARKER + PLAIN, [(7, 0)], {13: (14, True), 14: (14, True), 15: (15, True), 16: (16, False)}),
        (OF_7 + OF_8 + MARKER, [(7, 10)], {10: (12, True), 12: (12, True), 13: (14, False)}),
        (OF_7 + OF_8 + MARKER + PLAIN, [(7, 10), (8, 12)], {10: (14, True)}),
        (PLAIN[:-3], [], {14: (14, False)}),
        (MARKER + PLAIN[:-3], [], {13: (14, False)}),
    ],
)  # fmt: skip
def test_of_a_logs_tail_markers_and_what_was_aborted_are_no_messages(
    records: bytes, aborted: Any, tails: dict[int, tuple[int, bool]]
) -> None:
    for first, (at, message) in tails.items():
        assert log_tails.tail_of(records, first, iter(aborted)) == log_tails.Tail(at, message), first
