"""One list of measures: a line more or less is a column, a field, an order and a metric more or less, everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.conftest import run_here
from tests.serve.played import Played, classic, topic

from apportion.demo import dump
from apportion.report.group_list import declared
from apportion.serve import otlp
from apportion.serve.settings import ServerSettings
from apportion.sighting.measures import MEASURES, Measure
from tools.describe_schema import FILE, schema

IDLE = Measure(
    "idle", "group", lambda judged: sum(not read for read in judged.sighting.reads), "members that hold nothing",
    "#IDLE", "Idle", sort="idle", schema={"type": "integer"}, prometheus=("apportion_group_idle_members",),
    otlp="apportion.group.idle_members",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = list(MEASURES)
    yield
    MEASURES[:] = before


def everywhere(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each output has of groups: names of columns, fields and metrics."""
    wide, csv = (
        run_here("describe", str(dump()), "-o", "wide").out,
        run_here("describe", str(dump()), "--state", "-o", "csv").out,
    )
    played = Played(monkeypatch, ServerSettings(tail=False, names="all"))
    log = topic([(0, 9), (0, 9)], "id")
    played.round([classic("g", {"a/1": {"t": [0, 1]}, "a/2": {}}, {("t", 0): 5}, wants=["t"])], {"t": log})
    scraped = b"".join(played.answers.scraped.pieces()).decode().splitlines()
    exporter = SimpleNamespace(_settings=played.collector.settings, _collector=played.collector)
    sent = {m.otlp: list(otlp.Exporter.points(exporter, m)) for m in MEASURES if m.otlp}  # type: ignore[arg-type]
    [row] = json.loads(played.answers.groups_json())["groups"]
    described = run_here("describe", str(dump()), "-o", "json").json["groups"]
    return {
        "text": set(wide.splitlines()[0].split()),
        "csv": set(csv.splitlines()[0].split(",")),
        "json": {name for group in described for name in group["described"]},
        "schema": set(schema()["$defs"]["described"]["properties"]),
        "page": {field for field, *_ in declared()["columns"]} | row.keys(),
        "metrics": {line.partition("{")[0] for line in scraped if line[0] != "#"},
        "otlp": {name for name, points in sent.items() if points},
    }  # fmt: skip


def test_a_line_less_is_gone_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    before = everywhere(monkeypatch)
    MEASURES[:] = [m for m in MEASURES if m.level != "group" or m.name not in ("lag", "members")]
    after = everywhere(monkeypatch)
    gone = {output: before[output] - after[output] for output in before}
    assert gone == {
        "text": {"LAG", "#MEMBERS"}, "csv": {"members"}, "json": {"lag"}, "schema": {"lag"}, "page": {"lag", "members"},
        "metrics": {"kafka_consumergroup_group_sum_lag", "kafka_consumergroup_members", "apportion_group_members",
                    "kminion_kafka_consumer_group_members"},
        "otlp": {"kafka.consumer_group.members"},
    }  # fmt: skip
    assert "no order is named 'lag'" in run_here("describe", str(dump()), "--sort", "lag").err


def test_a_line_more_is_a_column_that_sorts_a_field_and_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    before = everywhere(monkeypatch)
    MEASURES.append(IDLE)
    after = everywhere(monkeypatch)
    assert {output: after[output] - before[output] for output in before} == {
        "text": {"#IDLE"}, "csv": set(), "json": {"idle"}, "schema": {"idle"}, "page": {"idle"},
        "metrics": {"apportion_group_idle_members"}, "otlp": {"apportion.group.idle_members"},
    }  # fmt: skip
    groups = run_here("describe", str(dump()), "--sort", "idle", "-o", "json").json["groups"]
    idle = [group["described"]["idle"] for group in groups]
    assert idle == sorted(idle, reverse=True)
    assert idle[0] > idle[-1]


def test_the_schema_that_ships_has_todays_measures() -> None:
    """If this is meant: python -m tools.describe_schema."""
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema()
