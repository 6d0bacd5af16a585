"""Fixtures for every room: the real broker and the jars come from ``apportion.testing``; no skip goes unseen in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

pytest_plugins = ["apportion.testing.plugin"]

SKIPPED: list[str] = []


@pytest.fixture
def prometheus() -> Iterator[Any]:
    """The official client, whose one registry holds afterwards what it held before: no metric can be made twice."""
    client = pytest.importorskip("prometheus_client")
    before = set(client.REGISTRY._collector_to_names)
    yield client
    for made in set(client.REGISTRY._collector_to_names) - before:
        client.REGISTRY.unregister(made)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        SKIPPED.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything must run, a skipped test is a failed run."""
    if os.environ.get("APPORTION_REQUIRE_BROKER") and SKIPPED and session.exitstatus == 0:
        print(f"\nskipped, though everything must run here: {', '.join(SKIPPED)}")
        session.exitstatus = 1
