"""A dump without Spark: what is no dump is said in one sentence, and what is one is read whatever its form."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.plain_reader import lags_of
from tests.support.sighted import log
from tests.support.sighted import raw as as_json

import apportion.demo
from apportion.errors import ApportionError
from apportion.sources import dump, load_history

DEMO = Path(apportion.demo.__file__).parent / "dump"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump of one's own to spoil."""
    shutil.copytree(DEMO, tmp_path / "dump", ignore=shutil.ignore_patterns("truth"))
    return tmp_path / "dump"


def records(folder: Path) -> Path:
    return next((folder / "records").glob("*.parquet"))


def cut_records(folder: Path) -> None:
    whole = records(folder).read_bytes()
    records(folder).write_bytes(whole[: len(whole) // 2])


def moved_away(file: Path) -> None:
    """What is left is a link that leads nowhere."""
    file.unlink()
    file.symlink_to("gone")


def text_keys(folder: Path) -> None:
    table = pq.read_table(records(folder))
    keys = pa.array([key.hex() for key in table["key"].to_pylist()])
    pq.write_table(table.set_column(table.column_names.index("key"), "key", keys), records(folder))


def no_offsets(folder: Path) -> None:
    pq.write_table(pq.read_table(records(folder)).drop_columns(["offset"]), records(folder))


def whole_numbers_for_times(folder: Path) -> None:
    table = pq.read_table(folder / "ends.parquet")
    pq.write_table(table.set_column(5, "at", table["at"].cast(pa.int64())), folder / "ends.parquet")


def put_first(folder: Path, name: str, value: object, kind: pa.DataType, told: bool = True) -> None:
    """The first row's value of a column, changed; ``told``: the footer says what values there are."""
    table = pq.read_table(records(folder))
    place = table.column_names.index(name)
    changed = pa.array([value, *table[name].to_pylist()[1:]], kind)
    pq.write_table(table.set_column(place, name, changed), records(folder), write_statistics=told)


def racks_as_text(folder: Path) -> None:
    table = pq.read_table(folder / "topics.parquet")
    texts = pa.array([",".join(racks) for racks in table["racks"].to_pylist()])
    place = table.column_names.index("racks")
    pq.write_table(table.set_column(place, "racks", texts), folder / "topics.parquet")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (cut_records, "no whole Parquet file"),
        (lambda folder: records(folder).write_bytes(b""), "no whole Parquet file"),
        (lambda folder: records(folder).unlink(), "no Parquet file"),
        (lambda folder: (folder / "records" / "b.parquet").symlink_to("gone"), "cannot read"),
        (lambda folder: moved_away(folder / "topics.parquet"), "cannot read"),
        (lambda folder: shutil.rmtree(folder / "records"), "records/"),
        (lambda folder: (folder / "ends.parquet").unlink(), "no ends.parquet"),
        (lambda folder: (folder / "ends.parquet").write_text("not Parquet"), "no whole Parquet file"),
        (text_keys, "column key: found type string; needed binary"),
        (no_offsets, "column offset: found no such column; needed one of type bigint"),
        (whole_numbers_for_times, "column at: found type int64; needed timestamp"),
        (lambda folder: put_first(folder, "offset", None, pa.int64()), "column offset: found null in 1 row"),
        (lambda folder: put_first(folder, "partition", 2**40, pa.int64()), "column partition: found 1099511627776"),
        (lambda folder: put_first(folder, "offset", 2**63, pa.uint64()), "column offset: found 9223372036854775808"),
        (lambda folder: put_first(folder, "offset", None, pa.int64(), False), "column offset: found null in 1 row"),
        (
            lambda folder: put_first(folder, "timestamp", None, pa.timestamp("ms"), False),
            "column timestamp: found null in 1 row",
        ),
        (
            lambda folder: put_first(folder, "partition", 2**40, pa.int64(), False),
            "column partition: found Integer",
        ),
        (
            lambda folder: put_first(folder, "offset", 2**63, pa.uint64(), False),
            "column offset: found Integer",
        ),
        (racks_as_text, "column racks: found type string; needed array<string>"),
    ],
)
def test_a_spoilt_dump_is_said_in_one_sentence(folder: Path, spoil: Callable[[Path], None], says: str) -> None:
    spoil(folder)
    with pytest.raises(ApportionError, match=says.replace("<", r"\<")) as caught:
        dump.load_histories(folder)
    assert "\n" not in str(caught.value)


def test_a_page_spoilt_in_the_middle_is_said_too(folder: Path) -> None:
    """The footer is whole, so only reading finds it."""
    data = bytearray(records(folder).read_bytes())
    data[100:4000] = bytes(3900)
    records(folder).write_bytes(data)
    with pytest.raises(ApportionError, match="no whole Parquet file"):
        dump.load_histories(folder)


@pytest.mark.parametrize("name", ["no-such-folder", "a-file"])
def test_what_is_no_folder_is_no_dump(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").write_text("text")
    for read in (dump.load_histories, load_history.load_histories):
        with pytest.raises(ApportionError, match=r"no such folder|a file"):
            read(tmp_path / name)


def test_order_doubles_and_types_do_not_matter(folder: Path) -> None:
    """Rows in any order, in several files, twice, in wider types and other time units, without topics."""
    table = pq.read_table(records(folder))
    records(folder).unlink()
    order = list(range(table.num_rows))[::-1]
    wide = table.take(order).cast(
        pa.schema(
            [
                field.with_type(
                    {"key": pa.large_binary(), "value": pa.large_binary(), "timestamp": pa.timestamp("ns", "UTC")}.get(
                        field.name, field.type
                    )
                )
                for field in table.schema
            ]
        )
    )
    pq.write_table(wide.slice(0, 500), folder / "records" / "z.parquet")
    pq.write_table(table, folder / "records" / "a.parquet")
    expected, found = dump.load_histories(DEMO), dump.load_histories(folder)
    assert found.groups.keys() == expected.groups.keys()
    for name, group in expected.groups.items():
        assert found.groups[name].rebalances == group.rebalances
        assert lags_of(found.groups[name]) == lags_of(group)


def test_what_lies_below_records_is_left_alone(folder: Path) -> None:
    (folder / "records" / "old").mkdir()
    table = pq.read_table(records(folder))
    far = pa.array([offset + 10**6 for offset in table["offset"].to_pylist()], pa.int64())
    place = table.column_names.index("offset")
    pq.write_table(table.set_column(place, "offset", far), folder / "records" / "old" / "x.parquet")
    (folder / "records" / "._a.parquet").write_text("a desktop's own")
    expected, found = dump.load_histories(DEMO), dump.load_histories(folder)
    assert {name: group.events for name, group in found.groups.items()} == {
        name: group.events for name, group in expected.groups.items()
    }


def test_ends_and_topics_may_be_folders_as_spark_writes_them(folder: Path) -> None:
    """Several files, and what a job that died left beside them."""
    for name, rows in (("ends", 9), ("topics", 7)):
        table = pq.read_table(folder / f"{name}.parquet")
        (folder / f"{name}.parquet").unlink()
        (folder / f"{name}.parquet" / "_temporary").mkdir(parents=True)
        (folder / f"{name}.parquet" / "_temporary" / "part-1.snappy.parquet").write_text("half")
        pq.write_table(table.slice(0, rows), folder / f"{name}.parquet" / "part-0.snappy.parquet")
        pq.write_table(table.slice(rows), folder / f"{name}.parquet" / "part-1.snappy.parquet")
    assert dump.load_histories(folder).world == dump.load_histories(DEMO).world


def test_a_column_of_nulls_alone_has_no_type_and_is_read(folder: Path) -> None:
    """As of a cluster whose topics have no ids."""
    table = pq.read_table(folder / "topics.parquet")
    place = table.column_names.index("topic_id")
    pq.write_table(table.set_column(place, "topic_id", pa.nulls(table.num_rows)), folder / "topics.parquet")
    assert dump.load_histories(folder).world.topics == dump.load_histories(DEMO).world.topics


def test_a_sample_without_a_time_tells_no_log_end(folder: Path) -> None:
    table = pq.read_table(folder / "ends.parquet")
    lost = [{**row, "at": None} if row["topic"] == "clicks" else row for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(lost, table.schema), folder / "ends.parquet")
    statuses = {(lag.topic, lag.status) for lag in lags_of(dump.load_histories(folder).groups["ads-range"])}
    assert ("clicks", "unknown_topic") in statuses
    assert ("clicks", "ok") not in statuses


def test_without_topics_ids_are_named_by_commits(folder: Path) -> None:
    (folder / "topics.parquet").unlink()
    memory = dump.load_histories(folder)
    present = memory.groups["profiles-kip848"].present
    assert present is not None
    assert sum(len(ids) for seat in present.members for ids in seat.assigned.values()) == 26


def test_a_group_is_read_as_group_json() -> None:
    groups = {observed.name: observed for observed in load_history.groups_of(load_history.load_histories(DEMO), DEMO)}
    raw = as_json(groups["near-racks"])
    assert {member["rack"] for member in raw["members"].values()} <= {"a", "b", "c"}
    assert all(entry["racks"] for entries in raw["topics"].values() for entry in entries)
    assert groups["near-racks"].group.racks is not None
    assert groups["ads-range"].group.generation.tolist() == [5, 5, 5]
    assert as_json(groups["export-simple"])["members"] == {}
    assert "gone-group" not in groups


def test_of_topics_that_nobody_wants_the_partitions_are_those_that_a_live_cluster_shows() -> None:
    """Those committed, as Kafka's own tool lists them; a topic that a member wants is shown whole."""
    from apportion.sources import live
    from apportion.sources.cluster_round import DescribedGroup

    memory = load_history.load_histories(DEMO)
    shown = {seen.name: as_json(seen) for seen in load_history.groups_of(memory, DEMO)}
    narrowed = 0
    for name, group in memory.groups.items():
        if group.present is None or group.present.type in ("streams", "share"):
            continue
        members = {m: {"owned": {}, **fields} for m, fields in group.raw["members"].items()}
        wanted = {topic for fields in members.values() for topic in (*fields["topics"], *fields["owned"])}
        facts = {"protocol": "classic", "members": members, "wanted": wanted}
        logs = {topic: log([e["partition"] for e in entries]) for topic, entries in memory.world.topics.items()}
        committed = {at: commit.committed for at, commit in group.commits.items() if at[0] in logs}
        seen = as_json(live.sighted(DescribedGroup(name, "", facts, committed), logs, {}))
        for topic, entries in shown[name]["topics"].items():
            assert [e["partition"] for e in entries] == [e["partition"] for e in seen["topics"][topic]], (
                name,
                topic,
            )
        narrowed += any(len(group.raw["topics"][t]) > len(e) for t, e in shown[name]["topics"].items())
    assert narrowed
    assert [e["partition"] for e in shown["export-simple"]["topics"]["returns"]] == [0]


def test_an_unknown_group_is_met_with_the_nearest_name() -> None:
    with pytest.raises(ApportionError, match="Maybe you meant 'ads-range'"):
        load_history.load_histories(DEMO).group("ads-rang")
