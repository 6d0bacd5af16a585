"""What ``describe`` says of a group, its JSON and its page say too: one line of source makes each column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apportion.arrays import UNKNOWN
from apportion.history.records import SHARE, STREAMS, GenerationMember
from apportion.model.group_json import group_to_dict
from apportion.report import describing, page_groups
from apportion.report.describing import GROUP_COLUMNS, MEMBER_COLUMNS, PARTITION_COLUMNS, shown
from apportion.report.verdicts import judge
from apportion.sources.described_group import Observed

RAW: dict[str, Any] = {
    "group": "orders",
    "topics": {"t": [{"partition": p, "end": 100 + p, "committed": 7 * p, "racks": ["az1"]} for p in range(3)]},
    "members": {
        "a": {"topics": ["t"], "owned": {"t": [0, 1]}, "instance_id": "s-a", "host": "/10.0.0.1", "client_id": "pod-1"},
        "b": {"topics": ["t"], "owned": {"t": [2]}, "rack": "az2", "capacity": 3},
    },
}
SEEN = Observed(RAW, "Stable", "range", "classic", "kafka:9092 (1)", 12, sentences=["A source's own sentence."])


def leaves(value: Any) -> Iterator[Any]:
    """Every number, text and key of a document."""
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value


def test_the_json_has_every_value_of_every_column() -> None:
    standing = shown(SEEN)
    document = {**group_to_dict(standing.group), "described": standing.to_dict(judge(standing))}
    told = {*leaves(document), len(document["members"]), len(document["described"]["partitions"])}
    for column in (*GROUP_COLUMNS, *MEMBER_COLUMNS, *PARTITION_COLUMNS):
        values = [value for value in column.of(standing) if value is not None]
        assert values, f"the group of this test has nothing under {column.name}"
        assert set(values) <= told, column.name


def test_each_table_has_a_cell_under_each_of_its_columns() -> None:
    standing = shown(SEEN)
    members = describing.members(standing, wide=True)
    tables = (describing.states([standing]), members, describing.partitions([standing]))
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
    by_name = dict(zip(members.columns, members.rows[1], strict=True))
    assert by_name == {
        "GROUP": "orders", "CONSUMER-ID": "b", "GROUP-INSTANCE-ID": None, "HOST": None, "CLIENT-ID": None,
        "RACK": "az2", "CAPACITY": 3, "#PARTITIONS": 1, "LAG": 88, "LAG-PERCENT": 31, "ASSIGNMENT": "t(2)",
    }  # fmt: skip
    assert tables[2].rows[1] == ("orders", "t", 1, 7, 101, 94, "a", "/10.0.0.1", "pod-1")


def test_the_page_has_the_members_columns_that_say_something() -> None:
    seats = page_groups.of_observed(SEEN)["seats"]
    assert seats["head"] == [column.name.capitalize() for column in MEMBER_COLUMNS]
    plain = Observed({"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}})
    assert page_groups.of_observed(plain)["seats"]["head"] == ["Consumer-id", "#partitions"]
    many = {f"m{n}": {"topics": ["t"]} for n in range(describing.MOST_ROWS + 1)}
    assert page_groups.of_observed(Observed({"topics": {"t": 1}, "members": many}))["seats"] is None


def test_the_json_tells_tasks_and_shares_and_that_readers_are_not_told() -> None:
    task = GenerationMember("m-1", client_id="app-1", process_id="p-1", roles={"active": {"sub_0": (1, 0)}})
    streams = shown(Observed({"topics": {}, "members": {}}, kind=STREAMS, members=[task]))
    assert streams.to_dict(judge(streams))["roles"] == [
        {"id": "m-1", "client_id": "app-1", "process": "p-1", "active": {"sub_0": [0, 1]}}
    ]
    share = shown(Observed({"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}, kind=SHARE))
    assert "roles" not in share.to_dict(judge(share)), "nobody told"
    assert share.to_dict(judge(share))["lag_unknown"] == 2 == int((share.lag == UNKNOWN).sum())
    silent = shown(Observed({"topics": {"t": 2}, "members": {}}, owners_told=False))
    assert silent.to_dict(judge(silent))["owners_told"] is False
    assert "members not told" in silent.heading
