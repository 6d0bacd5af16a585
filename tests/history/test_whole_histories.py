"""All that is told of each recorded group, whole: rebalances, replays, scenarios, standstills, the switch."""

from __future__ import annotations

from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.history.test_shared_plans import answers, question
from tests.support.written_down import as_written

import apportion.demo
from apportion.errors import ApportionError
from apportion.history import ends_then, patterns, stood_still, structure
from apportion.history.broker_tasks import score_tasks, task_strategy
from apportion.history.group_history import GroupHistories, GroupHistory
from apportion.history.predicted_targets import score
from apportion.history.replay_totals import replay_totals
from apportion.history.scenarios import what_if
from apportion.history.shared_plans import SharedPlans
from apportion.history.switch_measures import concerns, facts_of, left_out, scored, why_left_out
from apportion.history.switching import switch
from apportion.inputs import dump
from apportion.model.group_json import read_group

WRITTEN = Path(__file__).parent / "whole_histories.json"
DUMPS = {
    "demo": Path(apportion.demo.__file__).parent / "dump",
    "tasks": Path(__file__).parents[1] / "data" / "task_groups",
}
GROUPS = ("ads-range", "archive-behind", "billing-roundrobin", "connect-cluster", "export-simple", "feed-cooperative",
          "fraud-storm", "gone-group", "gone-kip848", "inventory-grows", "ledger-transactions", "legacy-reader",
          "mails-aiokafka", "near-racks", "nightly-batch", "prices-crash", "profiles-kip848", "reports-kafka-python",
          "routes-kip848-regex", "search-sticky", "stock-static", "tangled-wants", "tickets-share", "upgraded-live",
          "заказы-注文-ödeme")  # fmt: skip


TASKS = ("deleted", "dismissed", "enrich", "idle", "paused", "workers")


@pytest.fixture(scope="module")
def demo() -> GroupHistories:
    return dump.load_histories(DUMPS["demo"])


@pytest.fixture(scope="module")
def tasks() -> GroupHistories:
    return dump.load_histories(DUMPS["tasks"])


def plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(plain, value))
    if isinstance(value, tuple | list | Path):
        return [plain(one) for one in value] if not isinstance(value, Path) else str(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def or_sentence(ask: Any) -> Any:
    """The answer, or why there is none."""
    try:
        return ask()
    except ApportionError as error:
        return str(error)


def past_of(group: GroupHistory) -> list[Any]:
    """What its records tell."""
    generations, rows = group.folded.generations, group.rebalances
    eager = stood_still.eager_offsets(generations, rows)
    stood = stood_still.standstills(generations, rows, group.habits)
    kinds = {row.source_offset: row.kind for row in rows}
    return [
        [asdict(row) for row in rows],
        [[offset, astuple(one), one.columns(kinds[offset])] for offset, one in sorted(stood.items())],
        sorted(eager),
        stood_still.bounds(generations, rows, group.habits, eager),
        [list(row.values()) for row in group.epochs],
        [list(astuple(row)) for row in group.lags],
        [group.heard_ms, group.wanted, group.runs_tasks, sorted(group.all_topics), sorted(group._own_topics)],
        [left_out(group), concerns(group), asdict(facts_of(group))],
        astuple(score(group.events, group.world.names)),
    ]


def moved(walked: dict[str, Any]) -> Any:
    """A replay in few words; the first row whole."""
    rows = walked.pop("generations")
    return [walked, rows[:1], [[row["moves"], row.get("moves_then"), row.get("stopped_ms_then")] for row in rows]]


@pytest.mark.parametrize("name", GROUPS)
def test_a_recorded_group_is_told_as_was_written_down(demo: GroupHistories, name: str) -> None:
    assert set(GROUPS) == set(demo.groups)
    group = demo.group(name)
    said = past_of(group)
    said.append(
        [or_sentence(lambda one=one: moved(group.replay(one))) for one in ("sticky", "broker-range", "streams")]
    )
    said.append(
        [or_sentence(lambda: group.replay("broker-sticky")), or_sentence(lambda: group.what_if_tasks(["join"]))]
    )
    said.append([[one.assignor, one.scenario, *astuple(one)[2:]] for one in group.what_if(["range", "lag-aware"])])
    totals = replay_totals(group)
    said.append({one: totals.get(one) for one in ("range", "sticky", "broker-uniform")})
    if concerns(group):
        document = switch(read_group(group.raw), facts_of(group), group, scored(demo)).to_dict()
        document["online"], document["fresh"] = (document[plan]["measures"] for plan in ("online", "fresh"))
        said.append(document)
    as_written(WRITTEN, name, plain(said))


@pytest.mark.parametrize("name", TASKS)
def test_recorded_groups_of_tasks_are_told_as_was_written_down(tasks: GroupHistories, name: str) -> None:
    assert set(TASKS) == set(tasks.groups)
    group = tasks.group(name)
    said = past_of(group)
    said.append([or_sentence(lambda one=one: group.replay(one)) for one in ("streams", "broker-sticky", "sticky")])
    steps = ["join 1"]
    for assignor in (None, "streams", "broker-sticky", "sticky", "stiky"):
        said.append(or_sentence(lambda a=assignor: [one.to_dict() for one in group.what_if_tasks(steps, a)]))
    for settings in ({"num_standby_replicas": "1"}, {"num_standby_replicas": "-1"}, {"nothing": "1"}):
        ask = lambda s=settings: [one.to_dict() for one in group.what_if_tasks(["join 1"], "broker-sticky", s)]  # noqa: E731
        said.append(or_sentence(ask))
    said.append([[one.assignor, one.scenario, *astuple(one)[2:]] for one in group.what_if()])
    said.append([replay_totals(group), astuple(score_tasks(group.events))])
    as_written(WRITTEN, f"tasks {name}", plain(said))


def test_settings_of_the_brokers_tasks_are_bounded() -> None:
    assert task_strategy("broker-sticky", {}) == task_strategy("broker-sticky", {}) != task_strategy("streams", {})
    assert getattr(task_strategy("broker-sticky", {"num_standby_replicas": "100"}), "num_standby_replicas") == 100  # noqa: B009
    said = []
    for text in ("101", "10000", "", "x", "²", "1.0", " 1"):
        with pytest.raises(ApportionError) as error:
            task_strategy("broker-sticky", {"num_standby_replicas": text})
        said.append(str(error.value))
    as_written(WRITTEN, "settings of tasks", said)


def test_which_groups_are_left_out_is_said_in_words() -> None:
    kinds = (None, "classic", "simple", "consumer", "share", "streams", "connect")
    as_written(WRITTEN, "left out", [[kind, why_left_out(kind, 0), why_left_out(kind, 2)] for kind in kinds])
    told = [patterns.of_members(of) for of in ((), (None,), ("a.*",), ("a.*", None, "b.*"), tuple("abcdefgh"))]
    as_written(WRITTEN, "patterns", plain(told))


def test_the_newest_record_counts_that_stands_and_has_a_time() -> None:
    def rows(*of: tuple[int, int, bool]) -> Any:
        group, ms, counts = zip(*of, strict=True)
        return np.array(group), np.array(ms, dtype=np.int64), np.array(counts, dtype=np.bool_)

    heard = ends_then.last_heard(4, rows((0, 5, True), (1, 9, False), (0, 3, True)), rows((2, -7, True), (0, 6, False)))
    assert heard.tolist() == [5, ends_then.SILENT, -7, ends_then.SILENT]
    assert heard.dtype == np.int64
    assert ends_then.last_heard(0).tolist() == []
    twice = ends_then.EndSamples.ordered([("t", 0, (5, 1, None)), ("t", 0, (5, None, 2)), ("t", 0, (1, 0, 9))])
    assert [sample[0] for sample in twice.of["t", 0]] in ([1, 5, 5], [1, 5])


@pytest.mark.parametrize("seeds", [range(n, n + 3) for n in range(200, 218, 3)])
def test_scenarios_of_groups_and_of_others_like_them_are_as_was_written_down(seeds: range) -> None:
    assignors = ["range", "sticky", "broker-uniform", "lag-aware"]
    shared = SharedPlans(assignors)
    said: list[Any] = []
    for seed in seeds:
        for prefix, lags in (("", None), ("a", 7), ("b", 8), ("", 9)):
            asked = question(seed, f"{prefix}g", prefix, lags)
            rows = answers(shared, *asked)
            assert rows == what_if(*asked, assignors)
            alike = structure.structure(*asked[1:])
        said.append([[astuple(row)[3:] for row in rows], None if alike is None else [alike.members, alike.topics]])
    assert 0 < len(shared._kept) <= 2 * len(seeds)
    as_written(WRITTEN, f"like {seeds[0]}", plain(said))
