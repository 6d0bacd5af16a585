"""Fixtures: the real broker and the jars come from ``apportion.testing``; no skip goes unseen in CI."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.support import reach
from tests.support.examples import QUICK

pytest_plugins = ["apportion.testing.plugin"]

SKIPPED: dict[str, str] = {}
"""Test or module to why it did not run."""
TOOK_S: dict[str, float] = defaultdict(float)
"""File of tests to the seconds that its tests took, of all workers."""
DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds of each file in the last run of CI: it writes them anew (``APPORTION_DURATIONS=1``)."""
KEPT_S = 3.0
"""Files that took less are not worth a line there."""
NEW_TEST_S = 0.2
"""What a test of a file that is not there is thought to take."""


@pytest.fixture
def prometheus() -> Iterator[Any]:
    """The official client, whose one registry holds afterwards what it held before: no metric can be made twice."""
    client = pytest.importorskip("prometheus_client")
    before = set(client.REGISTRY._collector_to_names)
    yield client
    for made in set(client.REGISTRY._collector_to_names) - before:
        client.REGISTRY.unregister(made)


NOT_QUICK = frozenset({"broker", "java", "spark", "browser", "slow", "thorough"})
"""Marks of tests that ``--quick`` leaves out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help=f"leave out {', '.join(sorted(NOT_QUICK))}; few examples")
    parser.addoption("--room", help="of a package's name, as solvers: only tests that a change there can reach")
    parser.addoption("--own", help="of a package's name: only the tests in its own folder, for make mutants")


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C is tested, so it must reach the children also where pytest itself was started with it ignored (nohup)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A busy machine is no reason for a property to fail: neither that an example takes long, nor that making it does.
    settings.load_profile("quick" if config.option.quick else "patient")
    os.environ[QUICK] = "1" if config.option.quick else "0"


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


def _turn(items: list[pytest.Item]) -> Callable[[pytest.Item], float]:
    """When a file has its turn under ``--no-loadscope-reorder``: the longest first, so that no core waits long."""
    known: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}
    tests = Counter(_file(item.nodeid) for item in items)
    return lambda item: -known.get(_file(item.nodeid), NEW_TEST_S * tests[_file(item.nodeid)])


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they start; leave out those that are not asked for, which is no skip."""
    for item in items:
        _mark(item)
    if hasattr(config, "workerinput"):  # alone, quick ones first
        items.sort(key=_turn(items))
    avoided = set(NOT_QUICK if config.option.quick else ())
    avoided |= set() if os.environ.get("APPORTION_THOROUGH") == "1" else {"thorough"}
    left_out = [item for item in items if any(item.get_closest_marker(mark) for mark in avoided)]
    if config.option.room:
        left_out += _out_of_reach(config.option.room, items)
    if config.option.own:
        left_out += [item for item in items if config.option.own not in item.path.parts]
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=list(gone))


def _out_of_reach(room: str, items: list[pytest.Item]) -> list[pytest.Item]:
    """Tests that no change in this package can make fail."""
    if f"apportion.{room}" not in reach.rooms():
        names = ", ".join(name.removeprefix("apportion.") for name in reach.rooms())
        raise pytest.UsageError(f"--room: found {room!r}; needed one of {names}.")
    near = reach.reached_by(room, sorted({item.path for item in items}))
    return [item for item in items if item.path not in near]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    TOOK_S[_file(report.nodeid)] += report.duration
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
    if worker is None and os.environ.get("APPORTION_DURATIONS") == "1":
        seconds = {name: round(took) for name, took in sorted(TOOK_S.items()) if took >= KEPT_S}
        DURATIONS.write_text(json.dumps(seconds, indent=0) + "\n", encoding="utf-8")
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
