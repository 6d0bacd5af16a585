"""What ``describe`` says of a group, its JSON and its page say too: one line of source makes each column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.sighted import sighting

from apportion.arrays import UNKNOWN
from apportion.history.records import GenerationMember
from apportion.model.group_json import group_to_dict
from apportion.model.protocols import SHARE, STREAMS
from apportion.report import describing, page_groups
from apportion.report.describing import described, heading
from apportion.sighting import measures
from apportion.sighting.judged import Judged

RAW: dict[str, Any] = {
    "group": "orders",
    "topics": {"t": [{"partition": p, "end": 100 + p, "committed": 7 * p, "racks": ["az1"]} for p in range(3)]},
    "members": {
        "a": {"topics": ["t"], "owned": {"t": [0, 1]}, "instance_id": "s-a", "host": "/10.0.0.1", "client_id": "pod-1"},
        "b": {"topics": ["t"], "owned": {"t": [2]}, "rack": "az2", "capacity": 3},
    },
}
SEEN = sighting(RAW, "Stable", "classic", "range", "kafka:9092 (1)", 12, notes=["A source's own sentence."])


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
    judged = Judged(SEEN)
    document = {**group_to_dict(SEEN.group), "described": described(judged)}
    told = {*leaves(document), len(document["members"]), len(document["described"]["partitions"])}
    columns = [(m, [m.value(judged)]) for m in measures.at("group") if m.name in describing.STATE]
    columns += [(m, m.value(SEEN)) for m in (*measures.at("member"), *measures.at("row"))]
    for column, values in columns:
        known = [value for value in values if value is not None]
        assert known, f"the group of this test has nothing under {column.header}"
        assert set(known) <= told, column.header


def test_each_table_has_a_cell_under_each_of_its_columns() -> None:
    members = describing.members(SEEN, wide=True)
    tables = (describing.states([Judged(SEEN)]), members, describing.partitions([SEEN]))
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
    by_name = dict(zip(members.columns, members.rows[1], strict=True))
    assert by_name == {
        "GROUP": "orders", "CONSUMER-ID": "b", "GROUP-INSTANCE-ID": None, "HOST": None, "CLIENT-ID": None,
        "RACK": "az2", "CAPACITY": 3, "#PARTITIONS": 1, "LAG": 88, "LAG-PERCENT": 31, "ASSIGNMENT": "t(2)",
    }  # fmt: skip
    assert tables[2].rows[1] == ("orders", "t", 1, 7, 101, 94, "a", "/10.0.0.1", "pod-1")


def test_the_page_has_the_members_columns_that_say_something() -> None:
    seats = page_groups.of_present(SEEN)["seats"]
    assert seats["head"] == [column.header.capitalize() for column in measures.at("member")]
    plain = sighting({"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}})
    assert page_groups.of_present(plain)["seats"]["head"] == ["Consumer-id", "#partitions"]
    many = {f"m{n}": {"topics": ["t"]} for n in range(describing.MOST_ROWS + 1)}
    assert page_groups.of_present(sighting({"topics": {"t": 1}, "members": many}))["seats"] is None


def test_the_json_tells_tasks_and_shares_and_that_readers_are_not_told() -> None:
    task = GenerationMember("m-1", client_id="app-1", process_id="p-1", roles={"active": {"sub_0": (1, 0)}})
    streams = sighting({"topics": {}, "members": {}}, protocol=STREAMS, roles=[task])
    assert described(Judged(streams))["roles"] == [
        {"id": "m-1", "client_id": "app-1", "process": "p-1", "active": {"sub_0": [0, 1]}}
    ]
    share = sighting({"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}, protocol=SHARE)
    assert "roles" not in described(Judged(share)), "nobody told"
    assert described(Judged(share))["lag_unknown"] == 2 == int((share.lag == UNKNOWN).sum())
    silent = sighting({"topics": {"t": 2}, "members": {}}, owners_told=False)
    assert described(Judged(silent))["owners_told"] is False
    assert "members unknown" in heading(silent)
