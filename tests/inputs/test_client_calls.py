"""How a cluster is asked by kafka-python, call by call, with the client stood in for: a broker is asked elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kafka
import pytest
from kafka import TopicPartition, errors

from apportion.errors import Unavailable
from apportion.inputs import cluster, log_tails
from apportion.inputs.properties import Properties

ID = "ad070dd7-f2f8-e471-50a5-f9c8783c206a"
MAY_NOT = "b:1: this user may not"


def record(offset: int) -> Any:
    return SimpleNamespace(key=b"k%d" % offset, value=None, offset=offset, timestamp=7, timestamp_type=0)


class Consumer:
    """It gives what was put into it, poll by poll: records, and the position afterwards."""

    polls: list[tuple[list[int], int]]
    asked: list[Any]

    def __init__(self, **settings: Any) -> None:
        self.asked.append(settings)
        self.at = -1

    def assign(self, places: Any) -> None:
        self.asked.append(("assign", places))

    def seek(self, place: Any, offset: int) -> None:
        self.asked.append(("seek", place, offset))
        self.at = offset

    def position(self, place: Any) -> int:
        return self.at

    def poll(self, timeout_ms: int, max_records: int) -> Any:
        offsets, after = self.polls.pop(0) if self.polls else ([], self.at)
        self.asked.append(("poll", timeout_ms, max_records))
        self.at = after
        return {TopicPartition("t", 3): [record(n) for n in offsets]} if offsets else {}

    def close(self) -> None:
        self.asked.append("close")


@pytest.mark.parametrize(
    ("polls", "came", "asked"),
    [
        ([([2, 3], 4), ([4, 5, 6], 7)], [[2, 3], [4, 5]], 2),
        ([([], 2), ([2], 3), ([], 6)], [[2]], 3),
        ([([6, 7], 8)], [], 1),
        ([([], 2)] * 59 + [([5], 6)], [[5]], 60),
        ([([], 2)] * 59 + [([2], 3)] + [([], 3)] * 59 + [([5], 6)], [[2], [5]], 120),
    ],
)
def test_committed_records_are_read_until_the_position_is_at_the_end(
    polls: Any, came: Any, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type("One", (Consumer,), {"polls": list(polls), "asked": []})
    monkeypatch.setattr(kafka, "KafkaConsumer", kind)
    read = list(cluster.read_committed("b:1,c:2", {"security.protocol": "PLAINTEXT"}, "t", 3, 2, 6))
    assert [[row[2] for row in rows] for rows in read] == came
    assert all(row == (b"k%d" % row[2], None, row[2], 7, 0) for rows in read for row in rows)
    settings, assigned, sought, *rest = kind.asked  # type: ignore[attr-defined]
    place = TopicPartition("t", 3)
    assert (assigned, sought) == (("assign", [place]), ("seek", place, 2))
    assert rest == [("poll", 1000, 10_000)] * asked + ["close"]
    assert settings == {
        "bootstrap_servers": ["b:1", "c:2"], "client_id": "apportion", "bootstrap_timeout_ms": 15_000,
        "group_id": None, "enable_auto_commit": False, "auto_offset_reset": "earliest",
        "isolation_level": "read_committed", "exclude_internal_topics": False, "security_protocol": "PLAINTEXT",
    }  # fmt: skip


def test_a_log_that_stops_coming_is_given_up_and_the_consumer_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("One", (Consumer,), {"polls": [([2], 3)], "asked": []})
    monkeypatch.setattr(kafka, "KafkaConsumer", kind)
    with pytest.raises(Unavailable) as refused:
        list(cluster.read_committed("b:1", {}, "t", 3, 2, 6))
    assert str(refused.value) == "b:1 stopped sending t-3 at offset 3 of 6"
    assert kind.asked.count(("poll", 1000, 10_000)) == 62  # type: ignore[attr-defined]
    assert kind.asked[-1] == "close"  # type: ignore[attr-defined]


class Admin:
    """Two brokers with racks, one without."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    @staticmethod
    def describe_cluster() -> Any:
        brokers = [{"broker_id": n, "rack": rack} for n, rack in ((0, "b"), (1, "a"), (2, None))]
        return {"cluster_id": "the id", "brokers": brokers}

    def describe_topics(self, names: Any) -> Any:
        self.asked.append(names)

        def part(number: int, leader: int, *nodes: int) -> dict[str, Any]:
            return {"partition_index": number, "leader_id": leader, "replica_nodes": list(nodes)}

        return [
            {"name": "u", "error_code": 0, "topic_id": ID, "partitions": [part(1, 0, 0, 1), part(0, -1, 2, 9)]},
            {"name": "refused", "error_code": 29, "partitions": [part(0, 0, 0)]},
            {"name": "a", "error_code": 0, "topic_id": None, "partitions": [part(0, 1, 1, 0, 2)]},
            {"name": "b", "error_code": 0, "topic_id": "0" * 32, "partitions": [part(0, 2, 2)]},
        ]

    def list_partition_offsets(self, which: Any, **how: Any) -> Any:
        self.asked.append([sorted((one.topic, one.partition) for one in which), {str(s) for s in which.values()}, how])
        ends = len(self.asked) % 3
        return {one: SimpleNamespace(offset=100 * ends + one.partition) for one in which if one.topic != "b"}


def test_partitions_are_told_with_racks_and_leaders() -> None:
    there = cluster.Cluster("b:1", Admin())
    told = [(one.topic, one.topic_id, one.partition, one.racks, one.led) for one in there.partitions()]
    assert told == [
        ("a", None, 0, ("a", "b"), True), ("b", None, 0, (), True), ("u", "rQcN1_L45HFQpfnIeDwgag", 0, (), False),
        ("u", "rQcN1_L45HFQpfnIeDwgag", 1, ("a", "b"), True),
    ]  # fmt: skip
    assert [one.topic for one in there.partitions(["u", "gone", "refused"])] == ["u", "u"]
    assert there.partitions([]) == []
    assert there.cluster_id() == "the id"
    assert there._admin.asked == [None, None, None], "a topic that is asked for by name might be made"


@pytest.mark.parametrize("most", [1, 2, 5_000])
def test_ends_are_asked_for_in_pieces_the_earliest_first(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_REQUESTS_AT_ONCE", most)
    admin = Admin()
    there = cluster.Cluster("b:1", admin)
    partitions = there.partitions()
    admin.asked.clear()
    ends = there.ends(partitions)
    told = [(one.topic, one.partition, one.begin, one.last_stable, one.end) for one in ends]
    assert told == [("a", 0, 100, 200, 0), ("u", 1, 101, 201, 1)]
    assert all(one.at.tzinfo is not None for one in ends)
    asked = [one for one in admin.asked if one[0]]
    assert [[*which] for _, which, _ in asked[:3]] == [["-2"], ["-1"], ["-1"]], "the earliest first"
    assert [bool(how) for _, _, how in asked[:3]] == [False, True, False], "then the last stable, then the end"
    assert there.ends([]) == []


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


def test_a_server_that_listens_and_says_nothing_is_told_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def create(address: Any, timeout: float) -> Any:
        tried.append((address, timeout))
        if address[0] != "::1":
            raise ConnectionRefusedError
        return SimpleNamespace(close=lambda: tried.append("closed"))

    monkeypatch.setattr(socket, "create_connection", create)
    assert cluster._silence("a:1, c:x,[::1]:92,d:4") == (
        "[::1]:92 listens, but refused the login or speaks another protocol: check user, password and "
        "security.protocol (--command-config)"
    )
    assert tried == [(("a", 1), 2), (("::1", 92), 2), "closed"]
    assert cluster._silence("a:1,b:2") == "no Kafka broker answered at a:1,b:2: is the address right?"


def test_a_client_that_cannot_be_made_leaves_nothing_open() -> None:
    closed: list[str] = []

    class Client:
        def __init__(self, **settings: Any) -> None:
            self._client = SimpleNamespace(close=lambda: closed.append("client"))
            self._net = SimpleNamespace(close=lambda: closed.append("net"))
            if settings.pop("fails"):
                raise errors.KafkaTimeoutError
            self.settings = settings

    with pytest.raises(errors.KafkaTimeoutError):
        cluster.opened(Client, "b:1", Properties(), fails=True)
    assert closed == ["client", "net"]
    made = cluster.opened(Client, "b:1,c:2", Properties(), fails=False, more=3)
    assert made.settings == {
        "bootstrap_servers": ["b:1", "c:2"], "client_id": "apportion", "bootstrap_timeout_ms": 15_000, "more": 3,
        "security_protocol": "PLAINTEXT",
    }  # fmt: skip
    assert len(closed) == 2


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


@pytest.mark.parametrize("asked", [1, 2, 5])
def test_a_cluster_is_asked_again_after_a_pause_until_its_patience_ends(
    asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = [50.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    def ask() -> str:
        if len(slept) < asked - 1:
            raise errors.CoordinatorLoadInProgressError
        return "told"

    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert cluster.patiently("b:1", ask) == "told"
    assert slept == [0.25] * (asked - 1)

    def never() -> str:
        raise errors.CoordinatorLoadInProgressError

    slept.clear()
    given: list[Callable[[], str]] = [never]
    with pytest.raises(Unavailable, match="b:1 answered: "):
        cluster.patiently("b:1", given[0], patience_ms=1_000)
    assert slept == [0.25] * 4
