"""What-ifs by bundles are those of the rows they are made from, with the log ends that each group is planned with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from tests.history.test_shared_plans import question

from apportion.spark import facts, few_groups, histories, plan_bundles, schemas, whatif
from apportion.spark.bundles import TASK, for_tasks, packed, task_of
from bench.whatif_rows import row

STATE = schemas.arrow_schema(schemas.GROUP_STATE)
WHATIF = schemas.arrow_schema(schemas.WHATIF)
FEW = ["range", "lag-aware", "sticky"]
TASKS, PLANNERS = 3, 4


def groups() -> list[dict[str, Any]]:
    """Rows of what-if's input: eight structures, three groups of each, one of which is gone."""
    rows = [row(*question(seed, f"g{seed}-{n}", f"p{n}", lag_seed=n)) for seed in range(8) for n in range(3)]
    gone = dict.fromkeys(("type", "state", "protocol", "generation", "readable", "members", "topics", "commits"))
    return [*rows, {**rows[0], "group": "gone", **gone}]


def tables(rows: list[dict[str, Any]], earlier_ms: dict[str, int] | None = None) -> dict[str, pa.Table]:
    """What meets in a task: every group has a commit a second after its last generation, and a deleted later one."""
    places = []
    for one in rows:
        last = max((generation["at_ms"] or 0 for generation in one["generations"]), default=0)
        for ms, standing in ((last + 1000, True), (last + 9000, False)):
            time = datetime.fromtimestamp(ms / 1000, UTC)
            places.append({"group": one["group"], "commit_time": time, "standing": standing})
    known = [{"topic": topic, "earlier_ms": ms} for topic, ms in (earlier_ms or {}).items()]
    return {
        "histories": pa.Table.from_pylist(rows, to_arrow_schema(histories.SCHEMA)),
        "group_state": pa.Table.from_pylist([one for one in rows if one["type"] is not None], STATE),
        "places": pa.Table.from_pylist(
            places,
            pa.schema(
                [("group", pa.string()), ("commit_time", pa.timestamp("us", tz="UTC")), ("standing", pa.bool_())]
            ),
        ),
        "earlier": pa.Table.from_pylist(known, to_arrow_schema(facts.EARLIER)),
    }


def through(asked: pa.Table) -> pa.Table:
    """The rows of groups with their task beside, as planning tasks make them, and as the last task sorts them."""
    dealt: dict[int, list[pa.RecordBatch]] = {}
    for bundle in for_tasks(asked, "asked"):
        dealt.setdefault(bundle.column("task")[0].as_py(), []).append(bundle)
    assert len(dealt) > 1, "several tasks plan"
    pieces = []
    for bundles in dealt.values():
        for some in plan_bundles._together(iter(bundles)):
            pieces.append(pa.Table.from_batches(whatif.runner(FEW)(some), schema=WHATIF))
    return plan_bundles._sorted({"whatif": pa.concat_tables(pieces)})["whatif"]


def sorted_plainly(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda one: (one["group"], one["scenario"], one["assignor"]))


def test_groups_that_go_from_task_to_task_get_the_rows_of_one_process_in_the_tables_order() -> None:
    met = tables(groups())
    left = plan_bundles.asked_of(met, PLANNERS)
    assert left["older"].num_rows == 0
    rows = through(left["asked"])
    assert rows.to_pylist() == sorted_plainly(few_groups.gold_whatif(met["group_state"], met["histories"], FEW))


def test_groups_that_are_like_meet_in_one_planning_task_and_large_ones_have_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = groups()
    size = {one["group"]: sum(len(topic["partitions"]) for topic in one["topics"] or ()) for one in rows}
    dealt = plan_bundles.asked_of(tables(rows), PLANNERS)["asked"]
    task = dict(zip(dealt["group"].to_pylist(), dealt[TASK].to_pylist(), strict=True))
    assert all(whatif.LARGE_TASKS <= number < whatif.LARGE_TASKS + PLANNERS for number in task.values())
    for seed in range(8):
        assert len({task[f"g{seed}-{n}"] for n in range(3)}) == 1, seed
    edge = max(size.values())
    own = {name for name, n in size.items() if n == edge}
    monkeypatch.setattr(whatif, "LARGE", edge)
    dealt = plan_bundles.asked_of(tables(rows), PLANNERS)["asked"]
    for name, number in zip(dealt["group"].to_pylist(), dealt[TASK].to_pylist(), strict=True):
        assert (number < whatif.LARGE_TASKS) == (name in own), name


def test_groups_that_are_seldom_alike_are_begun_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The later half of the tasks has none of them; of one task there is no half."""
    rows = groups()
    size = {one["group"]: sum(len(topic["partitions"]) for topic in one["topics"] or ()) for one in rows}
    edge = sorted(size.values())[len(rows) // 2]
    monkeypatch.setattr(plan_bundles, "SELDOM_ALIKE", edge)
    dealt = plan_bundles.asked_of(tables(rows), PLANNERS)["asked"]
    task = dict(zip(dealt["group"].to_pylist(), dealt[TASK].to_pylist(), strict=True))
    half = whatif.LARGE_TASKS + PLANNERS // 2
    assert all(number < half for name, number in task.items() if size[name] >= edge)
    assert any(number >= half for number in task.values())
    alone = plan_bundles.asked_of(tables(rows), 1)["asked"]
    assert set(alone[TASK].to_pylist()) == {whatif.LARGE_TASKS}


def test_a_group_is_older_where_all_its_records_are_no_newer_than_the_last_sample_but_one() -> None:
    """By the rule for a few groups; which of them get other log ends, and that these are what is planned with."""
    rows = [one for one in groups() if one["topics"]]
    topics = {topic["topic"] for one in rows for topic in one["topics"]}
    met = tables(rows)
    heard = plan_bundles.heard_ms(met["histories"], met["places"])
    of = dict(zip(met["histories"]["group"].to_pylist(), heard.tolist(), strict=True))
    for one in rows:
        assert of[one["group"]] == max((g["at_ms"] or 0 for g in one["generations"]), default=0) + 1000
    middle = sorted(of.values())[len(of) // 2]
    met = tables(rows, dict.fromkeys(sorted(topics)[::2], middle))
    left = plan_bundles.asked_of(met, PLANNERS)
    older = set(left["older"]["group"].to_pylist())
    expected = {
        one["group"]
        for one in rows
        if of[one["group"]] <= middle and any(topic["topic"] in sorted(topics)[::2] for topic in one["topics"])
    }
    assert older == expected
    assert 0 < len(older) < len(rows)
    assert older | set(left["asked"]["group"].to_pylist()) == {one["group"] for one in rows}

    moved = {one["group"]: [_moved(topic) for topic in one["topics"]] for one in rows if one["group"] in older}
    kind = pa.schema([STATE.field("group"), STATE.field("topics").with_name("then")])
    then = pa.Table.from_pylist([{"group": name, "then": topics} for name, topics in moved.items()], kind)
    again = plan_bundles._with_then({"older": left["older"], "then": then}, PLANNERS)["asked"]
    assert {one["group"]: one["topics"] for one in again.to_pylist()} == moved
    assert again.schema.equals(left["asked"].schema)


def _moved(topic: dict[str, Any]) -> dict[str, Any]:
    partitions = [{**one, "begin": 1, "end": (one.get("end") or 0) + 7} for one in topic["partitions"]]
    return {**topic, "partitions": [{name: one.get(name) for name in schemas.PARTITION.names} for one in partitions]}


def test_bundles_without_groups_bring_nothing() -> None:
    nothing = tables([])
    left = plan_bundles.asked_of(nothing, PLANNERS)
    assert list(for_tasks(left["asked"], "asked")) == []
    assert list(plan_bundles._some_rows(packed("older", left["older"], 1))) != []
    assert sum(batch.num_rows for batch in plan_bundles._some_rows(packed("older", left["older"], 1))) == 0
    assert plan_bundles.asked_of({}, PLANNERS) == {}
    assert list(plan_bundles._together(packed("asked", left["asked"].drop_columns([TASK]), 1))) in ([], [[]])
    assert task_of(left["asked"]["group"], TASKS).to_pylist() == []


def test_what_members_said_that_they_owned_is_left_out_and_nothing_else() -> None:
    rows = [one for one in groups() if one["generations"]]
    rows[0]["generations"][0] = {**rows[0]["generations"][0], "tombstone": True, "members": None}
    for one in rows[1:]:
        for generation in one["generations"]:
            for member in generation["members"] or ():
                member.update(owned=[{"topic": "t", "partitions": [1]}], owned_generation=3)
    whole = tables(rows)["histories"]
    few = plan_bundles._without_owned(whole)
    assert few.schema.equals(whole.schema)
    expected = whole.to_pylist()
    for one in expected:
        for generation in one["generations"]:
            for member in generation["members"] or ():
                member.update(owned=None, owned_generation=None)
    assert few.to_pylist() == expected
