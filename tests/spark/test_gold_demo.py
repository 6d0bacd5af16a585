"""The recorded cluster through Spark: the very same as without it, which agrees with Kafka's own tools."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.support.plain_reader import EndSamples, epochs_of, lags_of, what_if_of

import apportion.demo
from apportion.history.group_history import GroupHistories, GroupHistory
from apportion.history.stood_still import standstills
from apportion.sources import dump, tables
from apportion.tables import schemas

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
DUMP = Path(apportion.demo.__file__).parent / "dump"
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Path:
    from apportion.spark import job

    folder = tmp_path_factory.mktemp("demo") / "out"
    job.build(DUMP, folder, spark=spark)
    return folder


@pytest.fixture(scope="module")
def memory() -> GroupHistories:
    return dump.load_histories(DUMP)


def by_group(out: Path, name: str, *order: str) -> Rows:
    found: Rows = {}
    for row in ds.dataset(out / name).to_table().to_pylist():
        found.setdefault(row.pop("group"), []).append(row)
    return {group: sorted(rows, key=lambda row: [row[c] for c in order]) for group, rows in found.items()}


def test_lag_is_the_same_row_for_row(out: Path, memory: GroupHistories) -> None:
    rows = by_group(out, "gold/lag", "topic", "partition")
    ours = {name: [asdict(row) for row in lags] for name, group in memory.groups.items() if (lags := lags_of(group))}
    columns = ours["ads-range"][0].keys()
    assert {name: [{c: row[c] for c in columns} for row in found] for name, found in rows.items()} == ours


def test_rebalances_are_the_same_row_for_row(out: Path, memory: GroupHistories) -> None:
    rows = by_group(out, "gold/rebalances", "source_offset")
    for found in rows.values():
        for row in found:
            row["at"] = round(row["at"].timestamp() * 1000)
    assert rows == {name: told(group) for name, group in memory.groups.items() if group.rebalances}


def test_epochs_have_the_same_owners_row_for_row(out: Path, memory: GroupHistories) -> None:
    rows = by_group(out, "gold/epochs", "source_offset")
    for found in rows.values():
        for row in found:
            row["at_ms"] = round(row.pop("at").timestamp() * 1000)
    names = [column.name for column in schemas.GROUP_MEMBER.columns]
    ours = {
        name: [
            {**row, "members": [{n: member[n] for n in names} for member in row["members"]]} for row in epochs_of(group)
        ]
        for name, group in memory.groups.items()
        if epochs_of(group)
    }
    for epochs in ours.values():
        for row in epochs:
            del row["group"]
    assert rows == ours


def told(group: GroupHistory) -> list[dict[str, Any]]:
    stood = standstills(group.folded.generations, group.rebalances)
    return [
        {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(row).items()}
        | stood[row.source_offset].columns(row.kind)
        for row in group.rebalances
    ]


def test_groups_are_the_same(out: Path, memory: GroupHistories) -> None:
    rows = {name: found[0] for name, found in by_group(out, "gold/groups").items()}
    assert rows.keys() == {group.name for group in memory.living}
    for group in memory.living:
        present, row = group.present, rows[group.name]
        assert present is not None
        told = (present.type, present.state, present.protocol, present.generation)
        assert (row["type"], row["state"], row["protocol"], row["generation"]) == told
        seats = {
            (s.member_id, s.instance_id, s.client_id, s.host, s.rack): {t: list(i) for t, i in s.assigned.items()}
            for s in present.members
        }
        names = ("member_id", "instance_id", "client_id", "host", "rack")
        found = {
            tuple(m[name] for name in names): {h["topic"]: h["partitions"] for h in m["assigned"]}
            for m in row["members"]
        }
        assert found == seats


def test_whatif_is_the_same_row_for_row(out: Path, memory: GroupHistories) -> None:
    rows = by_group(out, "gold/whatif", "assignor", "scenario")
    assert {row["error"] for found in rows.values() for row in found} == {None}
    samples = EndSamples.of_dump(DUMP)
    for name in ("ads-range", "near-racks", "tangled-wants", "upgraded-live", "gone-group"):
        ours = sorted(
            map(asdict, what_if_of(memory.groups[name], samples=samples)),
            key=lambda row: (row["assignor"], row["scenario"]),
        )
        assert rows[name] == ours, name


def test_tables_remember_what_the_dump_does(out: Path, memory: GroupHistories) -> None:
    again = tables.load_histories(out)
    assert again.groups.keys() == memory.groups.keys()
    for name, group in memory.groups.items():
        other = again.groups[name]
        assert other.raw == group.raw
        assert lags_of(other) == lags_of(group)
        assert other.rebalances == group.rebalances
        assert other.replay("sticky") == group.replay("sticky")


def test_burrow_sees_who_is_behind(out: Path) -> None:
    verdicts = {row["verdict"] for found in by_group(out, "gold/verdicts").values() for row in found}
    assert verdicts <= {"OK", "WARN", "STALL", "STOP", "REWIND"}
    assert "OK" in verdicts


def test_the_lag_table_feeds_live_consumers_without_spark(out: Path, memory: GroupHistories) -> None:
    from apportion.clients.lag_feed import folder_offsets

    read = folder_offsets(out / "gold" / "lag")("ads-range", ["clicks", "impressions"], 1.0)
    found = {
        (topic, p): (offsets.get("begin"), offsets.get("end"), offsets.get("committed"))
        for topic, rows in read.items()
        for p, offsets in rows.items()
    }
    assert found == {
        (row.topic, row.partition): (row.begin, row.end, row.committed) for row in lags_of(memory.groups["ads-range"])
    }
