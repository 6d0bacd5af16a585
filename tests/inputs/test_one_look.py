"""Readers of a cluster and of files in their odd cases, each in milliseconds, against what was written down.

A cluster is stood in for request by request; a real one and its recording are asked elsewhere.
``APPORTION_WRITE=1`` writes ``one_look.json`` anew; then look at what changed in it.
"""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.inputs.live_steps import plain
from tests.support.written_down import as_written

from apportion.errors import ApportionError, Unavailable
from apportion.inputs import (
    cluster,
    cluster_round,
    dump,
    dump_files,
    generations,
    group_descriptions,
    live,
    load_history,
    log_tails,
    offsets_log,
    parquet,
    pasted,
    sniff,
    tables,
)
from apportion.inputs.config import Connection
from apportion.inputs.properties import Properties
from apportion.wire import plan_text
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.plan_text import GovernedPlan, MemberKey

WRITTEN = Path(__file__).parent / "one_look.json"
ID = "rQcN1_L45HFQpfnIeDwgag"
UUID_OF_T = str(UUID(bytes=urlsafe_b64decode(f"{ID}==")))


class Told(dict[str, Any]):
    """Fields of an answer, as attributes too."""

    __getattr__ = dict.__getitem__

    def to_dict(self) -> dict[str, Any]:
        return self


class Admin:
    """A client whose requests are answered by a function of the request's name, its fields and the broker."""

    def __init__(self, answer: Callable[[str, dict[str, Any], Any], Any], version: int = 9) -> None:
        self.answer, self.asked = answer, list[Any]()
        known = SimpleNamespace(api_version=lambda request: version)
        self._manager = SimpleNamespace(send=self._send, run=self._run, broker_version_data=known)

    @staticmethod
    def _run(do: Any, *given: Any) -> Any:
        return asyncio.run(do(*given))

    async def _send(self, request: Any, node_id: Any) -> Any:
        name, fields = type(request).__name__.partition("_")[0], request.to_dict()
        self.asked.append([name, node_id, fields])
        answer = self.answer(name, fields, node_id)
        if isinstance(answer, Exception):
            raise answer
        return answer


def part(number: int, leader: int, nodes: list[int], epoch: int = 3) -> Told:
    return Told(
        partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=nodes, error_code=0,
    )  # fmt: skip


METADATA = Told(
    cluster_id="the cluster",
    brokers=[Told(node_id=n, host=f"h{n}", port=9092 + n, rack=rack) for n, rack in ((2, "b"), (0, "a"), (1, None))],
    topics=[
        Told(name="t", topic_id=None, error_code=0,
             partitions=[part(2, 0, [0, 2]), part(0, 2, [2, 1]), part(1, -1, [])]),
        Told(name="u", topic_id="ad070dd7-f2f8-e471-50a5-f9c8783c206a", error_code=0, partitions=[part(0, 1, [9, 1])]),
        Told(name="refused", topic_id=None, error_code=29, partitions=[part(0, 0, [0])]),
        Told(name="__transaction_state", topic_id=None, error_code=0, partitions=[part(0, 0, [0])]),
        Told(name="__consumer_offsets", topic_id=None, error_code=0,
             partitions=[part(p, p - 1, [0], p) for p in range(4)]),
    ],
)  # fmt: skip
HOLDS = write_assignment(Assignment((("t", (0, 2)),)))


def group(name: str, error: int = 0, state: str = "Stable", **more: Any) -> Told:
    member = Told(
        member_id=f"{name}-1", group_instance_id=None, client_id="c", client_host="/h", member_metadata=b"",
        member_assignment=HOLDS,
    )  # fmt: skip
    return Told(group_id=name, error_code=error, group_state=state, protocol_type="consumer", protocol_data="range",
                members=[member], **more)  # fmt: skip


def by_the_book(name: str, fields: dict[str, Any], node: Any) -> Any:
    """Broker 0 tells all but for some groups, broker 1 refuses to list its groups, broker 2 is away."""
    from kafka import errors

    if name == "MetadataRequest":
        return METADATA
    if node == 2:
        return errors.KafkaConnectionError("gone")
    if name == "ListGroupsRequest" and node == 1:
        return Told(error_code=31, groups=[])
    if name == "ListGroupsRequest":
        names = {"plain": "consumer", "empty": "", "connect": "connect", "shut": "consumer", "gone": "consumer",
                 "dead": "consumer", "unread": "consumer"}  # fmt: skip
        listed = [Told(group_id=one, protocol_type=kind, group_type="Classic") for one, kind in names.items()]
        return Told(
            error_code=0, groups=[*listed, Told(group_id="new", protocol_type="consumer", group_type="Consumer")]
        )
    if name == "DescribeGroupsRequest":
        codes = {"shut": 30, "gone": group_descriptions.NOT_FOUND}
        return Told(
            groups=[group(one, codes.get(one, 0), "Dead" if one == "dead" else "Stable") for one in fields["groups"]]
        )
    if name == "ConsumerGroupDescribeRequest":
        held = {"topic_partitions": [{"topic_name": "t", "topic_id": None, "partitions": [2, 1]}]}
        member = dict.fromkeys(("instance_id", "rack_id", "subscribed_topic_regex")) | {
            "member_id": "n", "client_id": "c", "client_host": "/h", "subscribed_topic_names": ["u", "t"],
            "assignment": held, "target_assignment": held, "member_type": 0,
        }  # fmt: skip
        return Told(groups=[Told(group_id="new", error_code=0, group_state="Stable", assignor_name="uniform",
                                 group_epoch=4, assignment_epoch=4, members=[member])])  # fmt: skip
    if name == "OffsetFetchRequest":
        parts = [Told(partition_index=p, committed_offset=at, error_code=code) for p, at, code in
                 ((0, 5, 0), (1, -1, 0), (2, 0, 0), (3, 9, 3))]  # fmt: skip
        topics = [Told(name="t", partitions=parts)]
        if fields.get("groups"):
            return Told(groups=[Told(group_id=one["group_id"], error_code=16 if one["group_id"] == "unread" else 0,
                                     topics=topics) for one in fields["groups"]])  # fmt: skip
        return Told(error_code=16 if fields["group_id"] == "unread" else 0, topics=topics)
    at = {-2: 1, -1: 10}
    return Told(topics=[
        Told(name=topic["name"], partitions=[
            Told(partition_index=one["partition_index"], offset=at[one["timestamp"]] + one["partition_index"],
                 error_code=6 if topic["name"] == "u" else 0) for one in topic["partitions"]])
        for topic in fields["topics"]])  # fmt: skip


@pytest.mark.parametrize("version", [7, 8, 9])
def test_one_look_names_what_was_not_told_and_goes_on(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old brokers are asked for one group's offsets at a time."""
    times = iter([100.0, 101.0])
    monkeypatch.setattr(cluster_round, "time", SimpleNamespace(time=lambda: next(times)))
    admin = Admin(by_the_book, version)
    seen = cluster_round.look(cluster.Cluster("b:1", admin))
    listed = {name: seen.listed(name) for name in ("a", "b", "c", "d", "plain", "orders", "polygenelubricants")}
    told = [seen, seen.listed_all, seen.leaderless, listed, admin.asked]
    as_written(WRITTEN, f"look by OffsetFetch {version}", plain(told))


def test_a_look_that_shows_nothing_is_an_error_and_one_that_shows_little_is_none() -> None:
    from kafka import errors

    def nobody(name: str, fields: dict[str, Any], node: Any) -> Any:
        if name == "MetadataRequest":
            return Told(METADATA, topics=[])
        return errors.KafkaTimeoutError("late")

    with pytest.raises(Unavailable) as refused:
        cluster_round.look(cluster.Cluster("b:1", Admin(nobody)))
    assert str(refused.value) == "the groups of broker h0:9092 (0) are not known: the broker did not answer in time."

    def empty(name: str, fields: dict[str, Any], node: Any) -> Any:
        return Told(METADATA, topics=[]) if name == "MetadataRequest" else Told(error_code=0, groups=[], topics=[])

    seen = cluster_round.look(cluster.Cluster("b:1", Admin(empty)))
    assert (seen.groups, seen.unknown, seen.troubles, seen.listed_all, seen.brokers) == ({}, {}, [], True, 3)
    assert seen.listed("any")
    assert not cluster_round.Round(silent=frozenset({1})).listed("any")


@pytest.mark.parametrize("most", [1, 2, 3, 500])
def test_groups_are_asked_for_in_batches(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name: node for node, names in ((1, "dbeca"), (0, "zyx")) for name in names}
    batches = list(cluster_round._batches(names, most))
    assert [node for node, _ in batches] == sorted(node for node, _ in batches)
    assert [len(some) for _, some in batches if len(some) > most] == []
    assert [name for _, some in batches for name in some] == list("xyzabcde")
    monkeypatch.setattr(cluster_round, "PARTITIONS_AT_ONCE", most)
    admin = Admin(by_the_book)
    cluster_round.look(cluster.Cluster("b:1", admin))
    as_written(WRITTEN, f"ends {most} at once", [one for one in admin.asked if one[0] == "ListOffsetsRequest"])


def test_every_error_of_a_broker_is_said_in_these_words() -> None:
    from kafka import errors

    names = sorted(name for name in dir(errors) if name.endswith("Error") and name in cluster_round._WORDS)
    said = {name: cluster_round.in_words(getattr(errors, name)()) for name in [*names, "InvalidGroupIdError"]}
    assert len(said) > 6
    said["long"] = cluster_round.in_words(errors.KafkaError("a  b\n" * 90))
    as_written(WRITTEN, "in words", said)


@pytest.mark.parametrize("kind", ["named", "resolved", "governed", "let go", "two plans", "classic members", "nobody"])
def test_a_described_group_of_the_new_protocol_is_told_as_it_was(kind: str) -> None:
    """With members that carry a governor's plan, which are no members of the group."""

    def member(name: str, now: dict[str, list[int]], due: dict[str, list[int]], **more: Any) -> dict[str, Any]:
        lists = [
            {"topic_partitions": [{"topic_name": t, "topic_id": UUID_OF_T if t == "t" else None, "partitions": numbers}
                                  for t, numbers in one.items()]} for one in (now, due)
        ]  # fmt: skip
        return {
            "member_id": name, "instance_id": None, "client_id": f"c-{name}", "client_host": "/h", "rack_id": None,
            "subscribed_topic_names": ["u", "t"], "subscribed_topic_regex": None, "assignment": lists[0],
            "target_assignment": lists[1], **more,
        }  # fmt: skip

    a, b = member("a", {"t": [2, 0], "u": []}, {"t": [0]}), member("b", {}, {"u": [1], "t": [2]}, instance_id="i")
    owners = {plan_text.topic_id(ID): (0, 1, 0)}
    plan = GovernedPlan(1_764_000_000_000, 0, (MemberKey("a"), MemberKey("b", "i")), (), owners)
    later = GovernedPlan(1_764_000_000_009, 0, (MemberKey("a"),), (), {plan_text.topic_id(ID): (0, 0, 0)})
    end = GovernedPlan(1_764_000_000_010, 0, (), (), {})

    def carrying(*plans: GovernedPlan) -> list[dict[str, Any]]:
        texts = [text for one in plans for text in plan_text.texts(one)]
        return [member(f"carrier{n}", {}, {}, rack_id=text) for n, text in enumerate(texts)]

    members = {
        "named": [a, b], "resolved": [{**a, "subscribed_topic_regex": "x.*"}, {**b, "subscribed_topic_regex": "x.*"}],
        "governed": [*carrying(plan), a, b], "let go": [a, *carrying(plan, end), b],
        "two plans": [a, b, *carrying(plan, later)], "nobody": [],
        "classic members": [{**a, "member_type": 0}, {**b, "member_type": 1}, member("z", {}, {}, member_type=1)],
    }  # fmt: skip
    described = {
        "group_id": "g", "group_state": "Stable", "assignor_name": "" if kind == "named" else "uniform",
        "group_epoch": 8, "assignment_epoch": 7, "members": members[kind],
    }  # fmt: skip
    facts = group_descriptions.consumer_facts(described)
    as_records = facts.pop("as_records")
    under = facts["governed"]
    entries = {"t": {p: {"partition": p, "end": 9, "read_at": 8} for p in range(4)}}
    observed = live.observed_group("g", facts, {("t", 0): 8, ("t", 1): 7, ("v", 3): 1}, entries, {"t": ID}, "h:1 (0)")
    as_written(
        WRITTEN, f"described {kind}", plain([facts, under and under.to_dict(), list(as_records()), vars(observed)])
    )


@pytest.mark.parametrize("read_at", [None, 0, 4, 5, 6, 9, 10])
@pytest.mark.parametrize("committed", [None, 0, 4, 5, 6, 9, 10])
def test_who_stands_before_markers_alone_has_read_all(read_at: int | None, committed: int | None) -> None:
    entry = {"partition": 1, "begin": 0, "end": 9, **({"read_at": read_at} if read_at is not None else {})}
    told = live._with_commit(entry, committed)
    whole = read_at is not None and committed is not None and read_at <= committed <= 9
    assert told == {
        "partition": 1, "begin": 0, "end": 9, **({} if committed is None else {"committed": committed}),
        **({"lag": 0} if whole else {}),
    }  # fmt: skip


def test_tails_are_asked_of_each_leader_and_what_it_refuses_is_left_out() -> None:
    from kafka import errors

    def answer(name: str, fields: dict[str, Any], node: Any) -> Any:
        if name == "MetadataRequest":
            parts = [part(0, 0, []), part(1, 1, []), part(2, -1, []), part(3, 0, [])]
            return Told(topics=[Told(name="t", partitions=parts), Told(name="u", partitions=[part(0, 0, [])])])
        if node == 1:
            return errors.KafkaConnectionError("gone")
        return Told(responses=[
            Told(topic=one["topic"], partitions=[
                Told(partition_index=p["partition"], error_code=29 if one["topic"] == "u" else 0, records=None,
                     aborted_transactions=None) for p in [*one["partitions"], {"partition": 77}]])
            for one in fields["topics"]])  # fmt: skip

    admin = Admin(answer)
    places = {("t", 0): 5, ("t", 1): 6, ("t", 2): 7, ("t", 3): 0, ("u", 0): 9, ("gone", 0): 1}
    assert log_tails.tails(cluster.Cluster("b:1", admin), places) == {
        ("t", 0): log_tails.Tail(5, False), ("t", 3): log_tails.Tail(0, False),
    }  # fmt: skip
    as_written(WRITTEN, "tails", admin.asked)


@pytest.mark.parametrize("first", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("cut", [0, 3])
def test_a_tail_begins_at_the_first_message(first: int, magic: int, cut: int) -> None:
    from kafka.record import MemoryRecordsBuilder

    builder = MemoryRecordsBuilder(magic, 0, 10_000)
    for n in range(3):
        builder.append(timestamp=1, key=b"k", value=b"%d" % n)
    builder.close()
    records = bytes(builder.buffer())
    tail = log_tails.tail_of(records[: len(records) - cut], first, [(-1, 0)])
    as_written(WRITTEN, f"tail magic {magic}, from {first}, cut {cut}", [tail.first, tail.message])


def made(folder: Path, ends: list[Any], topics: list[tuple[Any, ...]] | None = None) -> list[Path]:
    """Files of log ends, rows of topic, partition, begin, end, last stable and second."""
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("begin", pa.int64()), ("end", pa.int64()),
                        ("last_stable", pa.int64()), ("at", pa.timestamp("ms", "UTC"))])  # fmt: skip
    files = []
    for n, rows in enumerate(ends):
        at = [row[5] if row[5] is None else datetime.fromtimestamp(row[5], UTC) for row in rows]
        columns = [*([row[i] for row in rows] for i in range(5)), at]
        files.append(folder / f"{n}.parquet")
        pq.write_table(pa.table(columns, schema=schema), files[-1])
    if topics is not None:
        kinds = pa.schema([("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()),
                           ("racks", pa.list_(pa.string()))])  # fmt: skip
        files.append(folder / "topics.parquet")
        pq.write_table(pa.table([[row[i] for row in topics] for i in range(4)], schema=kinds), files[-1])
    return files


ENDS = [
    [("t", 1, 0, 9, 9, 10), ("t", 0, 2, 5, None, 10), (None, 0, 1, 1, 1, 10), ("t", None, 1, 1, 1, 10)],
    [("t", 1, 0, 7, 7, 9), ("t", 0, 1, 4, 4, 11), ("u", 3, None, None, None, 12), ("u", 3, None, 2, None, None)],
    [("t", 1, 1, 9, None, 10), ("t", 0, 0, 8, 8, 11), ("u", 3, None, 3, None, 12), ("a", 0, 0, 1, 1, 5)],
]
TOPICS = [
    ("t", "A", 0, ["b", "a", ""]), ("t", "B", 1, None), ("t", "A", 2, ["c", None]), (None, "C", 0, ["a"]),
    ("v", None, 0, []), ("u", "D", None, ["a"]), ("v", "", 1, ["x", "x"]),
]  # fmt: skip


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_of_a_partitions_samples_the_newest_counts_and_of_one_moment_the_fullest(tmp_path: Path, turn: int) -> None:
    """Whatever the order of the files."""
    *ends, topics = made(tmp_path, [*ENDS[turn:], *ENDS[:turn]], TOPICS)
    names = [("B", "t"), ("Z", "deleted"), ("Z", "renamed"), ("D", "u")]
    world = dump.read_world(ends, [topics], names, samples=ends[:1])
    bare = dump.read_world(ends[:1], [], [])
    then = world.samples().of
    as_written(WRITTEN, f"world {turn}", plain([world.topics, world.ids, world.names, bare.topics, bare.ids, then]))


def test_the_offset_behind_the_last_record_is_told_of_each_partition(tmp_path: Path) -> None:
    for top in (tmp_path / "dump" / "records", *(tmp_path / "tables" / "silver" / n for n in ("commits", "generations",
                                                                                           "epochs"))):  # fmt: skip
        top.mkdir(parents=True)
    made(tmp_path / "dump", [[]])
    (tmp_path / "dump" / "0.parquet").rename(tmp_path / "dump" / "ends.parquet")
    pieces = [[(0, 5), (1, 7), (0, 3)], [(0, 4), (2, 0)], [(1, 9), (1, 8)]]
    for n, (rows, name) in enumerate(zip(pieces, ("commits", "generations", "epochs"), strict=True)):
        partition, offset = pa.array([p for p, _ in rows], pa.int32()), pa.array([at for _, at in rows], pa.int64())
        empty = pa.array([None] * len(rows), pa.binary())
        at = pa.array([1] * len(rows), pa.timestamp("ms", "UTC"))
        record = {"key": empty, "value": empty, "partition": partition, "offset": offset, "timestamp": at}
        pq.write_table(pa.table(record), tmp_path / "dump" / "records" / f"{n}.parquet")
        silver = pa.table({"source_partition": partition, "source_offset": offset})
        pq.write_table(silver, tmp_path / "tables" / "silver" / name / f"{n}.parquet")
    for folder in ("dump", "tables"):
        assert load_history.next_offsets(tmp_path / folder) == {0: 6, 1: 10, 2: 1}, folder


def refusals(tmp_path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What cannot be read, each in its own way."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "gold" / "gold").mkdir(parents=True)
    (tmp_path / "silver" / "silver").mkdir(parents=True)
    (tmp_path / "version" / "silver").mkdir(parents=True)
    (tmp_path / "version" / "source.json").write_text('{"version": 9}')
    (tmp_path / "file").write_text("text")
    [page] = made(tmp_path, [[("t" * 50, p, 0, p, p, p) for p in range(4000)]])
    spoilt = bytearray(page.read_bytes())
    spoilt[40:9000] = b"\xff" * 8960
    page.write_bytes(spoilt)
    for name in ("empty", "gold", "silver", "version", "file", "not there"):
        if (tmp_path / name).is_dir():
            yield f"groups {name}", lambda name=name: load_history.groups_in_folder(str(tmp_path / name))
        yield f"histories {name}", lambda name=name: load_history.load_histories(tmp_path / name)
        yield f"tables {name}", lambda name=name: tables.load_histories(tmp_path / name)
        yield f"dump {name}", lambda name=name: dump.load_histories(tmp_path / name)
    yield "spoilt page", lambda: parquet.read(page, dump_files.ENDS)
    for count in (2, 8, 9):
        many = [SimpleNamespace(name=f"g{n}") for n in range(count)]
        yield f"one of {count}", lambda many=many: sniff.the_one(many, "x.json")
    texts = {
        "deep blanks": b" " * 4095 + b"[{]", "a header": b"GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG\n",
        "lines": b"a\nb\nc\n", "two lines": b"a\nb", "octets": b"\xff\x00\x80", "mark": b"\xef\xbb\xbf  ",
        "error": b"x\njava.lang.Exception: no\n", "brace": b"{", "bracket": b"[1, 2]", "a plan": b'{"assignment": 1}',
        "lines of JSON": b'{"topics": {}}\n{"a": 1}\n', "groups": b'{"groups": []}', "more": b'{"groups": [1], "x": 1}',
    }  # fmt: skip
    for name, text in texts.items():
        yield name, lambda text=text: sniff.groups_in(text, "x")
        yield f"pasted {name}", lambda text=text: pasted.groups_in(text, "x")
    yield "chosen", lambda: sniff.chosen([SimpleNamespace(name="ads")], ["ads", "adds"])  # type: ignore[list-item]


def test_what_cannot_be_read_is_refused_in_these_words(tmp_path: Path) -> None:
    said = {}
    for name, do in refusals(tmp_path):
        try:
            said[name] = f"read: {str(do())[:80]}"
        except ApportionError as wrong:
            said[name] = f"{type(wrong).__name__}: {wrong}".replace(str(tmp_path), "FOLDER")
    said["spoilt page"] = said["spoilt page"].partition(" (")[0]  # the rest is Arrow's word
    as_written(WRITTEN, "refused", said)


THERE = Connection("b:1", Properties({"security.protocol": "PLAINTEXT"}))


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A log of four partitions: an empty one, one from 0, one that begins later, one that lacks an offset."""
    asked: list[Any] = []
    ends = {0: (0, 0), 1: (0, 4), 2: (3, 6), 3: (0, 5)}  # begin, end

    class Log:
        bootstrap = "b:1"

        def partitions(self, topics: Any = None) -> Any:
            asked.append(["partitions", topics])
            named = cluster.TopicPartition("t", ID, 0, ()), cluster.TopicPartition("u", None, 0, ())
            of_log = [cluster.TopicPartition(cluster.OFFSETS, "L", p, ()) for p in ends]
            return of_log if topics else [*named, *of_log]

        def ends(self, partitions: Any) -> Any:
            asked.append(["ends", [(one.topic, one.partition) for one in partitions]])
            at = datetime(2026, 1, 1, tzinfo=UTC)
            return [cluster.LogEnds(one.topic, one.partition, *ends[one.partition], ends[one.partition][1], at)
                    for one in partitions]  # fmt: skip

    @contextmanager
    def connect(bootstrap: str, properties: Any) -> Iterator[Any]:
        asked.append(["connect", bootstrap, dict(properties.settings)])
        yield Log()

    def read_committed(bootstrap: str, settings: Any, topic: str, partition: int, start: int, end: int) -> Any:
        asked.append(["read", bootstrap, dict(settings), topic, partition, start, end])
        numbers = [n for n in range(start, end) if (partition, n) != (3, 2)]
        rows = [(b"\xff" if n == 1 else None, b"", n, 1000 + n, 0) for n in numbers]
        yield from (rows[:2], rows[2:])

    for module in (offsets_log, generations):
        if hasattr(module, "connect"):
            monkeypatch.setattr(module, "connect", connect)
        monkeypatch.setattr(module, "read_committed", read_committed)
    asked.append(Log())
    return asked


@pytest.mark.parametrize("most", [500_000, 9, 8, 5, 4, 3, 0])
def test_of_the_log_whole_partitions_are_read_as_far_as_they_are_short(
    logs: list[Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = logs.pop()
    for module in (offsets_log, generations):
        monkeypatch.setattr(module, "MOST_RECORDS", most)
    whole = offsets_log.whole_groups(THERE)
    names = ["ads", "orders", "clicks", "a", "b"]
    newest = generations.newest_generations(there, THERE, names)
    at = generations.rebalanced_at(there, THERE, names)
    as_written(WRITTEN, f"log of at most {most}", plain([whole, newest, at, json.loads(json.dumps(logs))]))
