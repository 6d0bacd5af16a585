"""Pieces that readers are made of, whole: a batch of the log's tail, a group's world, the ids that brokers give."""

from __future__ import annotations

import sys
from base64 import urlsafe_b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from kafka import TopicPartition, errors
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import ConsumerRecord
from kafka.protocol.metadata import CoordinatorType

import apportion.demo
from apportion import inputs
from apportion.errors import MissingExtra
from apportion.inputs import cluster, dump, kaf, live, load_history, printed, sniff
from apportion.inputs.cluster import topic_id_text
from apportion.inputs.offsets_tail import OffsetsTail, TailRecord
from apportion.inputs.printed import Row, Sentence
from apportion.inputs.properties import Properties
from apportion.inputs.series import FolderSeries
from apportion.model.group_json import read_group

DEMO = Path(apportion.demo.__file__).parent / "dump"


def polled(partition: int, *offsets: int) -> list[ConsumerRecord]:
    """Records as a consumer gives them."""
    named = {"topic": "__consumer_offsets", "partition": partition, "timestamp_type": 0, "headers": []}
    rest = dict.fromkeys(set(ConsumerRecord._fields) - named.keys())
    return [
        ConsumerRecord(**named | rest | {"offset": at, "timestamp": 10 * at, "key": b"k%d" % at, "value": None})
        for at in offsets
    ]


def test_records_of_the_tail_are_handed_on_in_their_order_and_are_not_read_again() -> None:
    batches: list[list[TailRecord]] = []
    tail = OffsetsTail("nowhere:1", Properties(), lambda batch: batches.append(list(batch)), {3: 5, 4: 9})
    for answer in ({3: (5, 6, 8), 1: (0,)}, {}, {1: (4,)}):
        tail._hand_on({TopicPartition("__consumer_offsets", p): polled(p, *offsets) for p, offsets in answer.items()})
    expected = [[(3, 5), (3, 6), (3, 8), (1, 0)], [(1, 4)]]
    assert batches == [[TailRecord(p, at, 10 * at, b"k%d" % at, None) for p, at in batch] for batch in expected]
    assert (tail._next, tail.records) == ({3: 9, 4: 9, 1: 5}, 5)


def test_an_id_of_a_topic_is_twenty_two_characters_whatever_form_the_broker_gave_it() -> None:
    for some in (uuid4(), UUID(int=1), UUID(int=2**128 - 1)):
        text = urlsafe_b64encode(some.bytes).decode().rstrip("=")
        assert topic_id_text(some) == topic_id_text(str(some)) == text
        assert len(text) == 22
    for none in (None, UUID(int=0), str(UUID(int=0))):
        assert topic_id_text(none) is None


def test_all_groups_of_a_folder_are_of_one_world() -> None:
    memory = load_history.load_histories(DEMO)
    assert memory.groups
    for name, group in memory.groups.items():
        assert (group.name, group.world) == (name, memory.world)


def test_records_of_a_dump_come_by_partition_and_offset_each_once_with_the_holes_before_it(tmp_path: Path) -> None:
    """More than are made into objects at one time, in files that overlap."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    offsets = {0: [*range(5, 9_000), *range(9_100, 14_000)], 2: [3, 4, 9]}
    rows = [(p, at) for p, every in offsets.items() for at in every]
    for n, some in enumerate((rows[6_000:][::-1], rows[:6_100])):
        columns = {
            "key": pa.array([b"%d-%d" % row for row in some]),
            "value": pa.array([None] * len(some), pa.binary()),
            "partition": pa.array([p for p, _ in some], pa.int32()),
            "offset": pa.array([at for _, at in some], pa.int64()),
            "timestamp": pa.array([7 * at for _, at in some], pa.timestamp("ms", "UTC")),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{n}.parquet")
    read = list(dump._records(sorted(tmp_path.iterdir())))
    holes = {0: lambda at: 0 if at < 9_000 else 100, 2: lambda at: 0 if at < 9 else 4}
    assert [(one.key, one.value, one.offset, one.holes) for one in read] == [
        (b"%d-%d" % (p, at), None, at, holes[p](at)) for p, at in rows
    ]
    assert [one.at for one in read] == [7 * at for _, at in rows]


def test_a_group_that_was_not_asked_for_has_log_ends_and_no_commits() -> None:
    group = read_group({"group": "nobody", "topics": {"clicks": 2}, "members": {"a": {"topics": ["clicks"]}}})
    assert FolderSeries(str(DEMO), {"nobody": ["no such topic"]}, 30).of(group) == {}
    series = FolderSeries(str(DEMO), {}, 30)
    assert series.of(group) == {}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("shop: range, 3 members, 12 partitions, lag 1,204", Sentence("shop")),
        ("shop: 1 member, 1 partition", Sentence("shop")),
        ("shop: sticky, 2 members, 4 partitions, lag unknown", Sentence("shop")),
        ("Consumer group 'a b' has no active members.", Sentence("a b", "Empty")),
        ("Consumer group 'a' is rebalancing.", Sentence("a", "rebalancing")),
        ("Consumer group 'a' does not exist.", Sentence("a", "Dead")),
        ("$ kafka-consumer-groups.sh --describe --group shop", Sentence("shop")),
        ("$ kafka-consumer-groups.sh --group 'a b' --describe", Sentence("a b")),
        ("$ kafka-consumer-groups.sh --group a --group b", Sentence(None)),
        ("$ kafka-consumer-groups.sh --describe --all-groups", Sentence(None)),
        ("$ rpk group describe shop", Sentence("shop")),
        ("$ kafkactl describe cg shop", Sentence("shop")),
        ("every group is well", None),
        ("shop: 3 members", None),
        ("", None),
    ],
)
def test_a_line_above_a_table_tells_which_group_it_is_of(line: str, told: Sentence | None) -> None:
    assert printed._sentence(line) == told


@pytest.mark.parametrize("folder", ["dump", "tables"])
def test_a_folder_that_no_library_is_there_for_names_the_extra(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = DEMO
    if folder == "tables":
        path = tmp_path
        (path / "silver").mkdir()
    monkeypatch.delattr(inputs, "dump", raising=False)
    monkeypatch.setitem(sys.modules, "apportion.inputs.dump", None)
    with pytest.raises(MissingExtra) as refused:
        load_history.reader_of(path)
    assert refused.value.extra == "spark"
    assert str(refused.value).startswith(f"Reading a {sniff.folder_kind(str(path))} needs a library")


KAF = """Group ID:     shop
State:        Stable
Members:
    idle:
        Host: /10.0.0.1
    busy:
        Host: /10.0.0.2
        Assignments:
            clicks [0 2]
"""


def test_kafs_members_have_a_row_each_and_one_for_each_topic_that_they_hold() -> None:
    rows = [event.fields for event in kaf.events(KAF.splitlines()) if isinstance(event, Row)]
    assert rows == [
        {"CLIENT-ID": "idle", "HOST": "/10.0.0.1", "TOPIC": "-", "NUMBERS": "-"},
        {"CLIENT-ID": "busy", "HOST": "/10.0.0.2", "TOPIC": "-", "NUMBERS": "-"},
        {"CLIENT-ID": "busy", "HOST": "/10.0.0.2", "TOPIC": "clicks", "NUMBERS": "0,2"},
    ]


@pytest.mark.parametrize("names", [None, ["shop"]])
@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("error", [errors.GroupAuthorizationFailedError, errors.InvalidGroupIdError])
def test_only_groups_that_are_refused_are_left_out_and_only_where_all_were_asked_for(
    names: list[str] | None, left_out: bool, error: type[Exception]
) -> None:
    look = live._LookAtSome(None, names, left_out)
    if names is None and left_out and error is errors.GroupAuthorizationFailedError:
        look._failed(error("no"), names=["shop"])
        assert look.round.unknown.keys() == {"shop"}
    else:
        with pytest.raises(error):
            look._failed(error("no"), names=["shop"])
        assert not look.round.unknown


def test_who_coordinates_a_group_is_forgotten_of_that_group_alone() -> None:
    """In the client's own memory, which keeps an answer though that broker is gone."""
    known = ClusterMetadata()
    kept: dict[Any, int] = known._coordinators
    kept.update({(kind, name): 3 for kind in CoordinatorType for name in ("shop", "mail")})
    before = dict(kept)
    looked = cluster.Cluster("nowhere:1", SimpleNamespace(_manager=SimpleNamespace(cluster=known)))
    for name in ("shop", "shop", "never asked for"):
        looked.forget_coordinator(name)
    assert before.keys() - kept.keys() == {(CoordinatorType.GROUP, "shop")}
