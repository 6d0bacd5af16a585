"""The recorded streams and share groups through Spark: the tables say what the dump says without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.support.plain_reader import what_if_of

from apportion.history.task_groups import variants
from apportion.sources import dump, tables
from apportion.spark import job

pytestmark = pytest.mark.spark
DUMP = Path(__file__).parents[1] / "data" / "task_groups"


@pytest.fixture(scope="module")
def out(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task-groups") / "tables"
    job.build(DUMP, folder, spark=spark)
    return folder


def rows(out: Path, table: str, group: str) -> list[dict[str, Any]]:
    found = ds.dataset(out / table).to_table(filter=ds.field("group") == group).to_pylist()
    return [dict(row) for row in found]


def test_every_record_is_decoded_and_none_is_rejected(out: Path) -> None:
    epochs = ds.dataset(out / "silver/epochs").to_table().to_pylist()
    assert {row["key_type"] for row in epochs} == {*range(10, 16), 17, *range(19, 24)}
    assert ds.dataset(out / "silver/rejects").count_rows() == 0
    assert all((row["body"] is None) == row["tombstone"] for row in epochs)


def test_members_stand_with_their_tasks_and_what_they_share(out: Path) -> None:
    (group,) = rows(out, "gold/groups", "enrich")
    assert (group["type"], group["state"], group["protocol"], group["generation"]) == (
        "streams",
        "Stable",
        "sticky",
        11,
    )
    tasks = {
        (member["process_id"], member["client_id"], role["role"], role["of"]): tuple(role["numbers"])
        for member in group["members"]
        for role in member["roles"]
    }
    present = dump.load_histories(DUMP).groups["enrich"].present
    assert present is not None
    assert tasks == {
        (member.process_id, member.client_id, role, name): ids
        for member in present.members
        for role, held in member.roles.items()
        for name, ids in held.items()
    }
    assert {tuple(member["assigned"][0]) for member in group["members"]} == {("topic", "partitions")}
    (share,) = rows(out, "gold/groups", "workers")
    assert {role["role"] for member in share["members"] for role in member["roles"]} == {"shared", "target"}
    assert all(member["assigned"] == [] and member["process_id"] is None for member in share["members"])
    assert [rows(out, "gold/groups", name) for name in ("deleted", "dismissed")] == [[], []]


def test_epochs_are_rebalances_of_tasks_and_every_variant_has_its_rows(out: Path) -> None:
    epochs = sorted(rows(out, "gold/rebalances", "enrich"), key=lambda row: row["source_offset"])
    assert {row["kind"] for row in epochs} == {"streams"}
    assert [row["cause"] for row in epochs][:4] == ["join", "topics", "join", "settings"]
    told = rows(out, "gold/epochs", "enrich")
    assert {row["source_offset"] for row in epochs} < {row["source_offset"] for row in told}
    generations = dump.load_histories(DUMP).groups["enrich"].folded.generations
    assert [
        {
            (m["member_id"], role["role"], role["of"]): tuple(role["numbers"])
            for m in row["members"]
            for role in m["roles"]
        }
        for row in sorted(told, key=lambda row: row["source_offset"])
    ] == [
        {
            (seat.member_id, role, of): ids
            for seat in g.members
            for role, held in seat.roles.items()
            for of, ids in held.items()
        }
        for g in generations
    ]
    reads = {
        (m["member_id"], h["topic"]): h["partitions"] for row in told for m in row["members"] for h in m["assigned"]
    }
    assert reads
    assert {topic for _, topic in reads}.isdisjoint(
        role["of"] for row in told for m in row["members"] for role in m["roles"]
    )
    assert rows(out, "gold/epochs", "workers") == []
    whatif = {(row["assignor"], row["scenario"]): row for row in rows(out, "gold/whatif", "enrich")}
    assert set(whatif) == {(name, scenario) for name in variants() for scenario in ("replay", "as-is", "join", "leave")}
    assert {row["error"] for row in whatif.values()} == {None}
    assert rows(out, "gold/whatif", "workers") == []


def test_the_tables_tell_without_spark_what_the_dump_tells(out: Path) -> None:
    ours, theirs = tables.load_histories(out).groups, dump.load_histories(DUMP).groups
    assert set(ours) == set(theirs)
    for name, group in theirs.items():
        assert ours[name].present == group.present
        assert ours[name].rebalances == group.rebalances
        assert ours[name].raw == group.raw
        assert what_if_of(ours[name]) == what_if_of(group)
    assert ours["enrich"].replay("streams") == theirs["enrich"].replay("streams")
