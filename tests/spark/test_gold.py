"""The gold tables of a small dump full of traps; and a dump without Spark tells the very same."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.spark import traps
from tests.support.plain_reader import EndSamples, lags_of, what_if_of

from apportion.history.group_history import GroupHistories
from apportion.history.stood_still import standstills
from apportion.sources import dump, tables
from apportion.strategy.registry import tabled

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Rows = list[dict[str, Any]]


class Made:
    """A dump, its tables, and the same remembered without Spark."""

    def __init__(self, source: Path, out: Path) -> None:
        self.source, self.out = source, out

    def rows(self, name: str, **equal: Any) -> Rows:
        found = ds.dataset(self.out / name).to_table().to_pylist()
        return [row for row in found if all(row[column] == value for column, value in equal.items())]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Made:
    from apportion.spark import job

    folder = tmp_path_factory.mktemp("gold")
    source = traps.write(folder / "dump")
    job.build(source, folder / "out", spark=spark)
    return Made(source, folder / "out")


def by_place(rows: Rows) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["topic"], row["partition"]): row for row in rows}


def test_each_partition_has_the_status_that_fits_first(made: Made) -> None:
    rows = by_place(made.rows("gold/lag", group="lags"))
    expected = {
        ("orders", 0): (10, 10, "ok"),
        ("orders", 1): (-3, 0, "ahead"),
        ("orders", 2): (90, 60, "expired_data"),
        ("orders", 3): (None, None, "never_committed"),
        ("orders", 4): (30, 30, "ok"),
        ("orders", 5): (None, None, "never_committed"),
        ("deleted", 0): (None, None, "unknown_topic"),
        ("clicks", 0): (6, 6, "unsubscribed"),
        ("reborn", 0): (30, None, "invalid"),
    }
    assert {place: (row["raw_lag"], row["lag"], row["status"]) for place, row in rows.items()} == expected
    assert rows["orders", 2]["lost"] == 30
    assert rows["orders", 0]["stable_lag"] == 5, "a read_committed reader sees up to the last stable offset"
    assert rows["deleted", 0]["end"] is None


def test_numbers_that_no_difference_can_hold_stop_nothing(made: Made) -> None:
    rows = by_place(made.rows("gold/lag", group="hostile"))
    told = {p: (rows["orders", p]["raw_lag"], rows["orders", p]["status"]) for p in (-1, 0, 1, 2**31 - 1)}
    assert told == {
        -1: (None, "unknown_topic"),
        0: (None, "expired_data"),
        1: (100 - (2**63 - 1), "ahead"),
        2**31 - 1: (None, "unknown_topic"),
    }
    assert rows["orders", 0]["lag"] == 60, "the log can be read, though no 64 bits hold how far it is ahead"
    (row,) = made.rows("gold/rebalances", group="hostile")
    assert (row["skipped"], row["moved"], row["inherited"], row["cause"]) == (2**31 - 1, 0, 3, "join, leave")


def test_a_group_without_members_is_subscribed_to_whatever_it_commits(made: Made) -> None:
    assert [row["status"] for row in made.rows("gold/lag", group="simple")] == ["ok"]


def test_two_samples_tell_the_lag_in_seconds(made: Made) -> None:
    """50 messages came in 100 s, so the first of 10 unread is 18 s old; before the first sample nothing is known."""
    rows = by_place(made.rows("gold/lag", group="lags"))
    assert rows["orders", 0]["seconds"] == pytest.approx(18.0)
    assert rows["orders", 1]["seconds"] == 0.0
    assert rows["orders", 2]["seconds"] is None


def test_the_newest_commit_stands_unless_it_was_deleted(made: Made) -> None:
    rows = by_place(made.rows("gold/commits", group="lags"))
    assert ("orders", 3) not in rows
    assert rows["orders", 4]["committed"] == 70
    assert rows["orders", 2]["metadata"] == "ü" * 64
    assert made.rows("gold/commits", group="wiped") == []


def test_groups_stand_as_their_last_records_say(made: Made) -> None:
    found = {
        row["group"]: (row["type"], row["state"], row["protocol"], row["generation"])
        for row in made.rows("gold/groups")
    }
    assert found == {
        "lags": ("classic", "Stable", "range", 1),
        "simple": ("simple", "Empty", None, None),
        "gaps": ("classic", "Stable", "range", 9),
        "static": ("classic", "Stable", "range", 3),
        "группа": ("classic", "Empty", None, 3),
        "connect": ("classic", "Stable", "sessioned", 2),
        "new": ("consumer", "Stable", "uniform", 3),
        "hostile": ("classic", "Stable", "range", 2**31 - 1),
        "queue": ("share", "Stable", None, 4),
        "gr\ufffdp\ufffd": ("share", "Empty", None, 6),
    }


def test_a_consumer_member_has_what_it_holds_now(made: Made) -> None:
    (row,) = made.rows("gold/groups", group="new")
    held = {m["member_id"]: [(h["topic"], h["partitions"]) for h in m["assigned"]] for m in row["members"]}
    assert held == {"x": [("clicks", [0])], "y": []}
    assert {m["rack"] for m in row["members"]} == {"rack-b"}


def test_each_epoch_has_its_owners(made: Made) -> None:
    rows = sorted(made.rows("gold/epochs"), key=lambda row: row["source_offset"])
    told = [
        (
            row["group"], row["epoch"], row["kind"], row["protocol"],
            {m["member_id"]: {h["topic"]: h["partitions"] for h in m["assigned"]} for m in row["members"]},
        )
        for row in rows
    ]  # fmt: skip
    assert told == [
        ("new", 2, "consumer", "uniform", {"x": {"clicks": [0, 1]}}),
        ("new", 3, "consumer", "uniform", {"x": {"clicks": [0]}, "y": {"clicks": [1]}}),
    ]
    joined = {row["source_offset"]: row for row in made.rows("gold/rebalances", kind="consumer")}
    assert rows[1]["source_offset"] in joined, "a rebalance is the epoch that completes it"


def test_rebalances_say_what_is_hidden_and_what_was_needless(made: Made) -> None:
    rows = made.rows("gold/rebalances", group="gaps")
    rows.sort(key=lambda row: row["source_offset"])
    told = [
        (r["previous_generation"], r["generation"], r["skipped"], r["complete"], r["moved"], r["needless"])
        for r in rows
    ]
    assert told == [(1, 4, 2, True, 3, 0), (4, 5, 0, True, 6, 6), (5, 9, 3, False, 6, 6)]
    assert rows[0]["cause"] == "join"
    assert rows[0]["duration_ms"] == 1250, "the record is stamped a second after the log's last"


def test_a_static_replacement_moves_nothing(made: Made) -> None:
    (row,) = made.rows("gold/rebalances", group="static")
    assert (row["cause"], row["moved"], row["kept"], row["duration_ms"]) == ("static", 0, 1, None)
    assert (row["joined"], row["left"]) == (["s-2"], ["s-1"])


def test_no_row_reaches_over_a_deletion(made: Made) -> None:
    assert [row["generation"] for row in made.rows("gold/rebalances", group="deleted")] == [2]


def test_verdicts_see_silence_and_standing_still(made: Made) -> None:
    rows = by_place(made.rows("gold/verdicts", group="lags"))
    assert ("orders", 3) not in rows, "its last commit was deleted"
    assert rows["orders", 1]["verdict"] == "OK"
    assert rows["orders", 4]["window"] == 1, "what was committed before the deletion is of another life"


def test_whatif_answers_for_every_strategy_and_scenario(made: Made) -> None:
    rows = made.rows("gold/whatif", group="gaps")
    scenarios = {row["scenario"] for row in rows}
    assert scenarios == {"replay", "as-is", "join", "leave", "grow", "lag"}
    assert {row["assignor"] for row in rows} == set(tabled())
    assert [row["error"] for row in rows if row["error"]] == []
    replayed = {row["assignor"]: row for row in rows if row["scenario"] == "replay"}
    assert replayed["sticky"]["generations"] == 4
    assert (replayed["sticky"]["moves"], replayed["sticky"]["moves_then"]) == (3, 15)
    assert made.rows("gold/whatif", group="connect") == []
    assert made.rows("gold/whatif", group="deleted", scenario="as-is") == []


def test_the_present_without_spark_is_the_same(made: Made) -> None:
    for memory in (dump.load_histories(made.source), tables.load_histories(made.out)):
        assert {group.name for group in memory.living} == {row["group"] for row in made.rows("gold/groups")}
        for group in memory.groups.values():
            ours = lags_of(group)
            told = [
                {column: row[column] for column in asdict(ours[0])} if ours else {}
                for row in sorted(made.rows("gold/lag", group=group.name), key=lambda r: (r["topic"], r["partition"]))
            ]
            assert told == [asdict(row) for row in ours]
            same_rebalances(made, group.name, memory)


def same_rebalances(made: Made, name: str, memory: GroupHistories) -> None:
    rows = sorted(made.rows("gold/rebalances", group=name), key=lambda row: row["source_offset"])
    for row in rows:
        row.pop("group")
        row["at"] = round(row["at"].timestamp() * 1000)
    group = memory.groups[name]
    stood = standstills(group.folded.generations, group.rebalances)
    told = [
        {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(r).items()}
        | stood[r.source_offset].columns(r.kind)
        for r in group.rebalances
    ]
    assert rows == told


def test_whatif_without_spark_is_the_same(made: Made) -> None:
    memory = dump.load_histories(made.source)
    samples = EndSamples.of_dump(made.source)
    rows = {(r["group"], r["assignor"], r["scenario"]): r for r in made.rows("gold/whatif")}
    for group in memory.groups.values():
        for answer in what_if_of(group, samples=samples):
            row = rows.pop((group.name, answer.assignor, answer.scenario))
            assert {column: row[column] for column in asdict(answer)} == asdict(answer)
    assert rows == {}


def test_times_are_utc(made: Made) -> None:
    (row,) = made.rows("gold/commits", group="simple")
    assert row["commit_time"].utcoffset() == timedelta(0)
