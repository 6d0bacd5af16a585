"""Fixtures: the real broker and the jars come from ``apportion.testing``; no skip goes unseen in CI."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason for a property to fail: neither that an example takes long, nor that making it does.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

pytest_plugins = ["apportion.testing.plugin"]

SKIPPED: dict[str, str] = {}
"""Test or module to why it did not run."""


@pytest.fixture
def prometheus() -> Iterator[Any]:
    """The official client, whose one registry holds afterwards what it held before: no metric can be made twice."""
    client = pytest.importorskip("prometheus_client")
    before = set(client.REGISTRY._collector_to_names)
    yield client
    for made in set(client.REGISTRY._collector_to_names) - before:
        client.REGISTRY.unregister(made)


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C is tested, so it must reach the children also where pytest itself was started with it ignored (nohup)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = (
    "spark/test_lake.py",
    "spark/test_places.py",
    "spark/test_incremental.py",
    "release/test_wheel.py",
    "spark/test_capture.py",
    "spark/test_run.py",
    "examples/test_examples.py",
    "spark/test_cluster.py",
    "spark/test_connect.py",
    "spark/test_full_disk.py",
    "cli/test_pipeline.py",
    "cli/test_demo.py",
    "clients/test_chaos_acting.py",
    "clients/test_chaos.py",
    "broker/test_governing_live.py",
    "broker/test_governed_cluster.py",
)
"""Files of minutes, most of which have few tests: begun first, so that no core waits long at the end."""


STARTS = {
    "broker": {"broker", "java"}, "governed_broker": {"broker", "java"}, "jars": {"java"}, "broker_jar": {"java"},
    "java_for_spark": {"spark", "java"}, "spark": {"spark", "java"}, "browser": {"browser"}, "judge": {"java"},
    "newer_judge": {"java"}, "kafka": {"java"}, "coordinator": {"java"},
}  # fmt: skip
"""Fixture to the marks of the tests that ask for it."""


def _mark(item: pytest.Item) -> None:
    """Mark a test by what its fixtures start; a broker and Spark need Java, whoever starts them."""
    marks = {mark for name in getattr(item, "fixturenames", ()) for mark in STARTS.get(name, ())}
    if item.get_closest_marker("broker") or item.get_closest_marker("spark"):
        marks.add("java")
    for mark in sorted(marks):
        item.add_marker(mark)


def _turn(items: list[pytest.Item]) -> Callable[[pytest.Item], tuple[bool, int]]:
    """When a test's file has its turn under ``--no-loadscope-reorder``: the longest first, then those of most tests."""
    root = Path(__file__).parent
    if lost := [name for name in LONGEST if not (root / name).exists()]:
        raise pytest.UsageError(f"tests/conftest.py names files of tests that are not there: {', '.join(lost)}")
    early = {root / name for name in LONGEST}
    size = Counter(item.path for item in items)
    return lambda item: (item.path not in early, -size[item.path])


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they start; those of many minutes are for ``make thorough``: left out here, not skipped."""
    for item in items:
        _mark(item)
    if hasattr(config, "workerinput"):  # alone, quick ones first
        items.sort(key=_turn(items))
    if os.environ.get("APPORTION_THOROUGH") != "1":
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        SKIPPED[report.nodeid] = _reason(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A whole module that is skipped (``importorskip``) reports no test: it is counted here."""
    if report.skipped:
        SKIPPED[report.nodeid] = _reason(report)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")


class _FromWorkers:
    """Under xdist the workers collect; what they skipped comes home when they end."""

    @staticmethod
    def pytest_testnodedown(node: Any) -> None:
        SKIPPED.update(getattr(node, "workeroutput", {}).get("skipped", {}))


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.pluginmanager.hasplugin("dsession"):
        session.config.pluginmanager.register(_FromWorkers())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything must run, a skipped test or module is a failed run."""
    worker = getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["skipped"] = SKIPPED
    elif os.environ.get("APPORTION_REQUIRE_BROKER") and SKIPPED and session.exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What did not run here, why, and that it must where everything must."""
    if not SKIPPED:
        return
    by_reason: dict[str, list[str]] = {}
    for node, why in sorted(SKIPPED.items()):
        by_reason.setdefault(why, []).append(node)
    terminalreporter.section("not run here")
    for why, nodes in by_reason.items():
        terminalreporter.write_line(f"{len(nodes)} skipped: {why} ({nodes[0]}{', ...' if len(nodes) > 1 else ''})")
    if os.environ.get("APPORTION_REQUIRE_BROKER"):
        terminalreporter.write_line("APPORTION_REQUIRE_BROKER is set: everything must run, so this run has failed.")
