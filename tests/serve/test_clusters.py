"""One server shows several clusters: a page that lists them, each below its name, and metrics that name the cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.serve.played import Played, classic, request, topic
from tests.serve.running import serving, until

from apportion.errors import Unavailable
from apportion.serve.access import Access, App
from apportion.serve.clusters import Clusters
from apportion.serve.settings import ServerSettings
from apportion.testing.broker import Broker


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    """Of two clusters, one of which has not answered since."""
    servers = {}
    for name, lag in (("prod", 70), ("test<b>", 5)):
        played = Played(monkeypatch, ServerSettings(tail=False, names="all", cluster_name=name))
        idle = classic("idle", {}, {("t", 0): 0}, state="Empty")
        read = [classic("orders", {"a/1": {"t": [0]}}, {("t", 0): 100 - lag}), idle]
        played.round(read, {"t": topic([(0, 100)])})
        servers[name] = played.server
    played.failed(Unavailable("test is away"))
    return Clusters(servers, Access(), local=True).app


def ask(app: App, path: str) -> tuple[int, str]:
    status, _, body = asyncio.run(request(app, path, headers={"host": "localhost"}))
    return status, body.decode()


def test_a_page_lists_the_clusters_and_leads_to_each(app: App) -> None:
    status, page = ask(app, "/")
    assert status == 200
    assert '<a href="clusters/prod/">prod</a><td>1<td>0<td>1<td>170<td>' in page
    assert "test&lt;b&gt;</a><td>1<td>0<td>1<td>105" in page
    assert "test is away" in page
    clusters = json.loads(ask(app, "/api/v1/clusters")[1])["clusters"]
    assert [(row["cluster"], row["lag"], row["trouble"]) for row in clusters] == [
        ("prod", 170, ""),
        ("test<b>", 105, "test is away"),
    ]
    assert "Consumer groups of prod" in ask(app, "/clusters/prod/")[1]
    assert json.loads(ask(app, "/clusters/prod/api/v1/groups/orders")[1])["group"] == "orders"
    assert ask(app, "/clusters/prod/api/v1/groups/none")[0] == 404
    assert ask(app, "/clusters/none/")[0] == 404
    assert ask(app, "/readyz") == (503, "1 not ready\n")


def test_each_series_names_its_cluster_and_each_family_is_there_once(app: App) -> None:
    text = ask(app, "/metrics")[1]
    heads = [line for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(heads) == len(set(heads))
    series = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert {sample.labels.get("cluster_name") for sample in series} == {"prod", "test<b>"}
    for name, group in (("kafka_consumergroup_group_sum_lag", "group"), ("kafka_consumergroup_lag", "consumergroup")):
        lags = {s.labels["cluster_name"]: s.value for s in series if s.name == name and s.labels[group] == "orders"}
        assert lags == {"prod": 70, "test<b>": 5}


@pytest.mark.broker
def test_contexts_of_the_config_file_are_the_clusters(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "".join(f'[contexts.{name}]\nbootstrap-server = "{broker.bootstrap}"\n' for name in ("here", "there"))
    )
    monkeypatch.setenv("APPORTION_CONFIG", str(config))
    with serving("--contexts", "here,there", "--no-tail", "--interval", "1") as server:
        until(lambda: server.ask("/readyz")[0] == 200)
        assert [row["cluster"] for row in server.json("/api/v1/clusters")["clusters"]] == ["here", "there"]
        assert server.ask("/clusters/there/")[0] == 200
