"""The recorded dump is whole: the columns of Spark's Kafka source, every kind of group, Kafka's own word beside it."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq

from apportion.demo import dump


@cache
def decoded() -> list[dict]:
    """Each record of the dump as Kafka's own deserializer read it when the dump was made."""
    return lines("records.ndjson.gz")


def lines(name: str) -> list[dict]:
    with gzip.open(dump() / "truth" / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def group_of(record: dict) -> str:
    return record["key"].get("group") or record["key"]["groupId"]


def test_the_records_have_the_columns_of_sparks_kafka_source() -> None:
    table = pq.read_table(dump() / "records")
    assert [(field.name, field.type) for field in table.schema] == [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    assert set(table["topic"].to_pylist()) == {"__consumer_offsets"}
    assert table["timestamp"].null_count == table["key"].null_count == 0


def test_kafkas_deserializer_read_every_record_of_the_dump() -> None:
    table = pq.read_table(dump() / "records", columns=["partition", "offset"])
    at = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert [(record["partition"], record["offset"]) for record in decoded()] == at
    assert len(set(at)) == len(at)
    assert not [record for record in decoded() if "error" in record]


def test_it_holds_many_groups_generations_and_kinds_of_records() -> None:
    generations = [record for record in decoded() if record["type"] == 2 and record["value"]]
    assert len({group_of(record) for record in decoded()}) >= 15
    assert sum(bool(record["value"]["members"]) for record in generations) >= 60
    kinds = Counter((record["type"], record["value"] is None) for record in decoded())
    assert {(1, False), (1, True), (2, False), (2, True)} <= set(kinds)
    assert {(key_type, False) for key_type in (3, 5, 6, 7, 8)} <= set(kinds)
    assert {(key_type, True) for key_type in (3, 4, 5, 6, 7, 8)} <= set(kinds)
    protocols = {record["value"]["protocol"] for record in generations}
    assert {"range", "roundrobin", "sticky", "cooperative-sticky", None} <= protocols


def test_a_static_restart_changes_the_member_and_not_the_generation() -> None:
    seen = defaultdict(set)
    for record in decoded():
        if record["type"] == 2 and record["value"] and group_of(record) == "stock-static":
            for member in record["value"]["members"]:
                seen[record["value"]["generation"], member["groupInstanceId"]].add(member["memberId"])
    assert [len(members) for (_, instance), members in seen.items() if instance == "stock-1"][-1] == 2


def test_no_aborted_commit_is_in_the_dump_and_the_committed_ones_are() -> None:
    offsets = [
        record["value"]["offset"]
        for record in decoded()
        if record["type"] == 1 and group_of(record) == "ledger-transactions" and record["key"]["partition"] == 0
    ]
    load = 4000
    assert len(offsets) == 2
    assert max(offsets) <= 0.6 * load  # the aborted one was nearly at the end


def test_metadata_around_the_length_where_a_varint_grows_is_there() -> None:
    sizes = {
        len(record["value"]["metadata"].encode()) for record in decoded() if record["type"] == 1 and record["value"]
    }
    assert {0, 127, 128} <= sizes


def test_deleted_topics_and_groups_left_only_tombstones() -> None:
    newest = {json.dumps([record["type"], record["key"]]): record for record in decoded()}
    topics = set(pq.read_table(dump() / "topics.parquet")["topic"].to_pylist())
    assert "legacy" not in topics
    of_legacy = [record for record in newest.values() if record["key"].get("topic") == "legacy"]
    gone = [record for record in newest.values() if group_of(record) in {"gone-group", "gone-kip848"}]
    assert of_legacy
    assert gone
    assert all(record["value"] is None for record in of_legacy + gone)


def test_the_ends_and_the_topics_speak_of_the_same_partitions() -> None:
    ends = pq.read_table(dump() / "ends.parquet").to_pylist()
    topics = pq.read_table(dump() / "topics.parquet").to_pylist()
    assert [(row["topic"], row["partition"]) for row in ends] == [(row["topic"], row["partition"]) for row in topics]
    assert all(0 <= row["begin"] <= row["last_stable"] <= row["end"] for row in ends)
    assert any(row["begin"] > 0 for row in ends)
    assert any(row["last_stable"] < row["end"] for row in ends)
    assert all(len(row["topic_id"]) == 22 and len(row["racks"]) == 2 for row in topics)
    assert {rack for row in topics for rack in row["racks"]} == {"a", "b", "c"}


def test_what_members_said_is_what_the_coordinator_wrote() -> None:
    said = json.loads((dump() / "truth" / "members.json").read_text(encoding="utf-8"))
    wrote = {
        (group_of(record), record["value"]["generation"], member["memberId"])
        for record in decoded()
        if record["type"] == 2 and record["value"]
        for member in record["value"]["members"]
    }
    classic = {one["group"] for one in said} - {
        "profiles-kip848",
        "routes-kip848-regex",
        "gone-kip848",
        "upgraded-live",
    }
    heard = {(one["group"], one["generation"], one["member_id"]) for one in said if one["group"] in classic}
    # A member that was overtaken by the next rebalance, or left at once, may not have told of a generation.
    assert heard <= wrote
    assert len(heard) > 0.9 * len([one for one in wrote if one[0] in classic])


def test_the_formatters_agree_with_the_records_in_number() -> None:
    kinds = Counter(record["type"] for record in decoded())
    assert len(lines("offset-records.ndjson.gz")) == kinds[1]
    assert len(lines("group-records.ndjson.gz")) == kinds[2]


def printed(name: str) -> list[dict[str, str]]:
    """The rows of what ConsumerGroupCommand printed, by its own headings."""
    rows, headings = [], []
    for line in (dump() / "truth" / name).read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["GROUP"]:
            headings = words
        elif words:
            rows.append(dict(zip(headings, words, strict=False)))
    return rows


def test_kafkas_tool_saw_the_commits_and_ends_that_the_dump_holds() -> None:
    newest = {}
    for record in decoded():
        if record["type"] == 1:
            newest[record["key"]["group"], record["key"]["topic"], record["key"]["partition"]] = record["value"]
    ends = {(row["topic"], row["partition"]): row["end"] for row in pq.read_table(dump() / "ends.parquet").to_pylist()}
    standing = {at: value["offset"] for at, value in newest.items() if value}
    seen = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): (int(row["CURRENT-OFFSET"]), int(row["LOG-END-OFFSET"]))
        for row in printed("offsets.txt")
        if row["CURRENT-OFFSET"] != "-"
    }
    assert {at: committed for at, (committed, _) in seen.items()} == standing
    assert all(end == ends[topic, partition] for (_, topic, partition), (_, end) in seen.items())


def test_kafkas_tool_saw_members_hold_what_they_said_they_hold() -> None:
    held = {}
    for one in json.loads((dump() / "truth" / "members.json").read_text(encoding="utf-8")):
        held[one["group"], one["member_id"]] = one["partitions"]
    rows = [row for row in printed("members.txt") if row.get("CONSUMER-ID", "-") != "-"]
    assert len(rows) > 40
    for row in rows:
        found = {}
        for part in row["CURRENT-ASSIGNMENT"].split(";"):
            topic, _, numbers = part.partition(":")
            found[topic] = [int(number) for number in numbers.split(",")]
        assert found == held[row["GROUP"], row["CONSUMER-ID"]], row


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in dump().rglob("*") if path.is_file()) < 1_000_000
