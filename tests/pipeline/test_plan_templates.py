"""What-ifs of groups found alike on Arrow's columns: each group gets the rows that it gets by itself."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.history.test_shared_plans import question
from tests.support.plain_reader import what_if

from apportion.assignors import known
from apportion.history import shared_plans
from apportion.history.answer_block import COLUMNS
from apportion.pipeline import whatif
from apportion.pipeline.whatif import Plans, _question
from bench.whatif_rows import batch, row

STRATEGIES = list(known())
SEEDS = 40 if os.environ.get("APPORTION_THOROUGH") else 5


def rows_of(plans: Plans, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Group to its rows, through the columns."""
    by_group: dict[str, list[tuple[Any, ...]]] = {}
    for columns in plans.rows(batch(rows)):
        lists = [columns[name].to_pylist() for name in COLUMNS]
        for group, *values in zip(columns["group"].to_pylist(), *lists, strict=True):
            by_group.setdefault(group, []).append(tuple(values))
    return by_group


def alone(one: Mapping[str, Any], strategies: Sequence[str] = STRATEGIES) -> list[tuple[Any, ...]]:
    """A group's rows by ``what_if``, which knows of no other group."""
    made = batch([one]).to_pylist(maps_as_pydicts="strict")[0]
    name, history, present, topics = _question(made)
    return [tuple(getattr(answer, column) for column in COLUMNS) for answer in what_if(
        name, history, present, topics, strategies
    )]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("start", range(3))
def test_groups_of_many_structures_in_one_batch_get_the_rows_that_each_gets_by_itself(start: int) -> None:
    """Of every structure four groups with names and lags of their own, in disorder; twice, so that some are known."""
    rng = random.Random(start)
    rows = [
        row(*question(seed, f"g{seed}-{n}", rng.choice(["", "z-", "aa.", "q"]) + str(n), lag_seed=seed + n))
        for seed in range(start * SEEDS, start * SEEDS + SEEDS)
        for n in range(4)
    ]
    rng.shuffle(rows)
    plans = Plans(STRATEGIES)
    first, again = rows_of(plans, rows), rows_of(plans, rows)
    assert any(pattern is not None for pattern in plans._patterns.values()), "some were laid on another's plans"
    for one in rows:
        by_itself = alone(one)
        assert first.get(one["group"], []) == by_itself, one["group"]
        assert again.get(one["group"], []) == by_itself, one["group"]


def test_a_worker_gives_each_group_its_rows_also_of_a_slice_and_of_groups_that_are_gone() -> None:
    """As Spark calls it; one group has left nothing but generations, another nothing at all."""
    rows = [row(*question(seed, f"g{seed}-{n}", f"p{n}", lag_seed=n)) for seed in range(2) for n in range(3)]
    gone = dict.fromkeys(("type", "state", "protocol", "generation", "readable", "members", "topics", "commits"))
    rows += [{**rows[0], "group": "gone", **gone}, {**rows[0], "group": "never", "generations": [], **gone}]
    strategies = ("sticky", "lag-aware", "broker-uniform")
    tables = [pa.Table.from_batches([some]) for some in (batch(rows[:1]), batch(rows).slice(1))]
    answers = [
        answer
        for some in tables
        for rows_of_some in whatif.whatif(some, strategies)
        for answer in rows_of_some.to_pylist()
    ]
    for one in rows:
        mine = [tuple(answer[name] for name in COLUMNS) for answer in answers if answer["group"] == one["group"]]
        assert mine == alone(one, strategies), one["group"]


def test_groups_that_differ_in_which_generations_have_one_number_get_the_rows_of_their_own() -> None:
    """Claims of one generation count alike, those of an older one less: no group gets another's plan by that."""
    few, rows = ["sticky", "cooperative-sticky", "failover"], list[dict[str, Any]]()
    for seed in range(40):
        name, generations, present, topics = question(seed, f"g{seed}")
        if len(generations) > 1 and present is not None:
            for number in (lambda n: n, lambda _: 1):
                numbered = [replace(one, number=number(n)) for n, one in enumerate(generations, 1)]
                rows.append(row(f"{name}-{len(rows)}", numbered, present, topics))
    answers = rows_of(Plans(few), rows)
    for one in rows:
        assert answers.get(one["group"], []) == alone(one, few), one["group"]


def test_lags_that_64_bits_cannot_sum_are_planned_by_themselves() -> None:
    rows = [row(*question(3, f"g{n}", f"p{n}", lag_seed=n)) for n in range(4)]
    for topic in rows[2]["topics"]:
        for entry in topic["partitions"]:
            entry["end"] = 2**62
    by_group = rows_of(Plans(STRATEGIES), rows)
    for one in rows:
        fitting = [tuple(None if type(v) is int and v >= 2**63 else v for v in answer) for answer in alone(one)]
        assert by_group[one["group"]] == fitting, one["group"]
    assert any(type(v) is int and v >= 2**63 for answer in alone(rows[2]) for v in answer), "the case is there"


def test_groups_too_large_to_be_alike_get_the_rows_that_they_get_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No structure is looked for, and nothing of them is kept; their partitions stay in columns."""
    monkeypatch.setattr(whatif, "LARGEST", 3)
    monkeypatch.setattr(shared_plans, "LARGEST", 3)
    few = ["range", "lag-aware", "streams"]
    plans = Plans(few)
    rows = [row(*question(seed, f"g{seed}-{n}")) for seed in range(8) for n in range(2)]
    answers = rows_of(plans, rows)
    large = [one for one in rows if sum(len(topic["partitions"]) for topic in one["topics"]) > 3]
    assert len(large) > 5
    for one in large:
        assert answers.get(one["group"], []) == alone(one, few), one["group"]
    assert all(plans._shared._kept[key].size <= 3 for key in plans._shared._kept)


@pytest.mark.parametrize("replicas", [2, 12])
def test_groups_are_told_apart_by_their_racks_however_many_there_are(replicas: int) -> None:
    """Lists of so many of forty racks; of two batches each has racks that the other has not."""
    rng, plans, few = random.Random(replicas), Plans(["range", "broker-range"]), ["range", "broker-range"]
    for first in (0, 20):
        rows = []
        for n in range(12):
            one = row(*question(3, f"g{first}-{n}", f"p{n}", lag_seed=n))
            for topic in one["topics"]:
                for entry in topic["partitions"]:
                    entry["racks"] = [f"r{first + rng.randrange(20)}" for _ in range(replicas if n % 3 else 1)]
            for member in one["members"] or ():
                member["rack"] = f"r{first + 3 if n % 2 else first + 4}"
            rows.append(one)
        answers = rows_of(plans, [*rows, *({**one, "group": one["group"] + "+"} for one in rows)])
        for one in rows:
            assert answers[one["group"]] == answers[one["group"] + "+"] == alone(one, few), one["group"]


def test_groups_whose_names_mean_something_are_planned_by_themselves() -> None:
    """Names that Java sorts otherwise, an empty instance id, a topic that is described twice, no name at all."""
    few = ["sticky", "lag-aware", "broker-uniform"]
    seed = next(s for s in range(50) if question(s)[2] and len(question(s)[1]) > 1)
    rows = [row(*question(seed, f"g{n}", f"ü{n}", lag_seed=n)) for n in range(3)]
    for n in range(3, 5):
        rows.append(row(*question(seed, f"g{n}", f"p{n}", lag_seed=n)))
        for member in rows[-1]["members"]:
            member["instance_id"] = ""
    for n in range(5, 7):
        rows.append(row(*question(seed, f"g{n}", f"p{n}", lag_seed=n)))
        rows[-1]["topics"] = [*rows[-1]["topics"], *rows[-1]["topics"][:1]]
    plans = Plans(few)
    answers = rows_of(plans, rows)
    for one in rows:
        assert answers[one["group"]] == alone(one, few), one["group"]
    nameless = row(*question(seed, "g7", "p7"))
    nameless["members"] = [{**member, "member_id": None} for member in nameless["members"]]
    [answer] = rows_of(plans, [nameless])["g7"]
    told = dict(zip(COLUMNS, answer, strict=True))
    assert (told["assignor"], told["scenario"], told["generations"]) == ("", "as-is", 0)
    assert told["error"].startswith("TypeError: ")
