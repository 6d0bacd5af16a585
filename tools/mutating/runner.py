"""Run tests on mutants, each in a fork of one process that has imported and collected everything.

python -m tools.mutating.runner REQUEST RESULT     two JSON files; started by ``tools.mutants`` in a copy of the tree

The argument: starting pytest and importing NumPy and the tests takes seconds, the test that notices a mutant mostly
milliseconds. So tests are collected once. One fork runs them all and says which lines each one reaches; then each
mutant has a fork, in which the code of one function is exchanged in memory; the tests that reach the changed statement
are run, the quickest first, and the first that fails ends it. No file is written. What a test starts as a process of
its own sees no mutant: such tests notice nothing here.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest

from .sites import code_of

MEMORY_MAX = 6 << 30
"""Bytes that one fork may have: a mutant that eats all memory has been noticed."""
PRELOADED = ("apportion", "numpy", "ortools", "pandas", "pyarrow")
"""Packages that are imported before the first fork if any test wants them."""
PEERS = {"judge", "broker", "jars"}
"""Fixtures that start another program: such tests are not run on mutants."""


class TooSlowError(BaseException):
    """A test has spent more than any test may that is run on mutants."""


class Loop:
    """The plugin that takes the place of pytest's own loop over tests."""

    def __init__(self, request: Mapping[str, Any], result: Path) -> None:
        self.request, self.result = request, result
        self.source = Path(request["source"])
        self.notes: dict[str, Any] = {}

    @staticmethod
    def pytest_configure() -> None:
        """Random tests draw the same examples each time, and a failure need not be made small."""
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", database=None, derandomize=True, deadline=None, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Profile the tests, then one fork for each mutant; results are lines of JSON."""
        items = {item.nodeid: item for item in session.items if not PEERS & set(getattr(item, "fixturenames", ()))}
        profile = self._ask(lambda: self._profile(session, list(items.values())))
        for name in sorted(profile["modules"]):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        kept = [name for name in profile["passed"] if profile["seconds"][name] <= self.request["test_seconds"]]
        seconds = profile["seconds"]
        slow = {name for name, spent in seconds.items() if spent > self.request["test_seconds"]}
        failed = sorted(set(items) - set(profile["passed"]) - slow)
        self._write({"tests": len(kept), "failed": failed, "too slow": sorted(slow)})
        lines = {file: {int(n): names for n, names in at.items()} for file, at in profile["lines"].items()}
        functions = self._functions()
        together = _sharing_fixtures(items)
        gc.collect()
        gc.freeze()
        killers: dict[str, list[int]] = {}
        for number, mutant in enumerate(self.request["mutants"]):
            reaching = self._reaching(mutant, lines, seconds, kept, together)
            outcome = self._try(session, mutant, functions, [items[name] for name in reaching], seconds)
            self._write({"mutant": number, **outcome})
            if "by" in outcome:
                killers.setdefault(outcome["by"], []).append(number)
        # A test that fails in this order without any mutant has noticed nothing.
        control = self._ask(lambda: self._profile(session, [items[name] for name in sorted(killers)], traced=False))
        for name in control["failed"]:
            for number in killers[name]:
                self._write({"mutant": number, "state": "survived", "by": f"{name} fails by itself"})
        return True

    def _profile(self, session: pytest.Session, items: Sequence[pytest.Item], traced: bool = True) -> dict[str, Any]:
        """Which tests pass, what each costs in seconds, and which lines of the room it reaches."""
        files = [str(self.source / file) for file in self.request["files"]]
        tracer = coverage.Coverage(data_file=None, include=files, config_file=False) if traced else None
        seconds: dict[str, float] = {}
        passed: list[str] = []
        failed: list[str] = []
        signal.signal(signal.SIGPROF, _too_slow)
        if tracer:
            tracer.start()
        for item, following in zip_longest(items, items[1:]):
            before, begun = session.testsfailed, _spent()
            wall = time.monotonic()
            if tracer:
                tracer.switch_context(item.nodeid)
            signal.setitimer(signal.ITIMER_PROF, 1.5 * self.request["test_seconds"])
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except TooSlowError:  # between two steps of pytest, where nothing catches it
                session.testsfailed += 1
            signal.setitimer(signal.ITIMER_PROF, 0)
            seconds[item.nodeid] = max(_spent() - begun, (time.monotonic() - wall) / 4)
            (passed if session.testsfailed == before else failed).append(item.nodeid)
        lines: dict[str, dict[int, list[str]]] = {}
        if tracer:
            tracer.stop()
            data = tracer.get_data()
            lines = {
                str(Path(file).relative_to(self.source)): data.contexts_by_lineno(file)
                for file in data.measured_files()
            }
        modules = [name for name in sys.modules if name.split(".")[0] in PRELOADED]
        return {"seconds": seconds, "passed": passed, "failed": failed, "lines": lines, "modules": modules}

    def _reaching(
        self,
        mutant: Mapping[str, Any],
        lines: Mapping[str, Mapping[int, Sequence[str]]],
        seconds: Mapping[str, float],
        kept: Sequence[str],
        together: Mapping[str, Set[str]],
    ) -> list[str]:
        """The tests that reach the changed statement, quickest first, for as long as one mutant may take.

        What a fixture of a whole module reaches was written down for the first test that asked for it alone.
        """
        at = lines.get(mutant["file"], {})
        reached = {name for line in range(mutant["line"], mutant["last"] + 1) for name in at.get(line, ())}
        names = reached.union(*(together.get(name, ()) for name in reached)) & set(kept)
        chosen, spent = [], 0.0
        for name in sorted(names, key=lambda name: (seconds[name], name)):
            spent += seconds[name]
            if spent <= self.request["mutant_seconds"]:
                chosen.append(name)
        return chosen

    def _try(
        self,
        session: pytest.Session,
        mutant: Mapping[str, Any],
        functions: Mapping[tuple[str, str, int], Sequence[FunctionType]],
        items: Sequence[pytest.Item],
        seconds: Mapping[str, float],
    ) -> dict[str, Any]:
        """What came of one mutant: killed, timeout, survived, no test, or unusable."""
        if not items:
            return {"state": "no test"}
        path = str(self.source / mutant["file"])
        code = code_of(mutant["text"], path, mutant["function"], mutant["first_line"])
        replaced = functions.get((path, mutant["function"], mutant["first_line"]), ())
        if not replaced or code is None or any(f.__code__.co_freevars != code.co_freevars for f in replaced):
            return {"state": "unusable"}
        killer = self.result.with_suffix(".killer")
        killer.write_text("")
        limit = self.request.get("least_seconds", 5) + 4 * sum(seconds[item.nodeid] for item in items)

        def run() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
            for function in replaced:
                function.__code__ = code
            for item, following in zip_longest(items, items[1:]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    killer.write_text(item.nodeid)
                    os._exit(1)

        state, seconds_taken = _in_fork(run, 8 * limit)
        by = {"by": killer.read_text()} if state == "killed" and killer.read_text() else {}
        return {"state": state, "tests": len(items), "seconds": round(seconds_taken, 2), **by}

    def _functions(self) -> dict[tuple[str, str, int], list[FunctionType]]:
        """Every function of the room's files that is alive, by file, name and first line."""
        for file in self.request["files"]:
            importlib.import_module("apportion." + file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        files = {str(self.source / file) for file in self.request["files"]}
        found: dict[tuple[str, str, int], list[FunctionType]] = {}
        for each in gc.get_objects():
            if (
                type(each) is FunctionType
                and isinstance(each.__code__, CodeType)
                and each.__code__.co_filename in files
            ):
                code = each.__code__
                found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(each)
        return found

    def _ask(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The answer of a fork, so that nothing of what it did stays here."""
        answer = self.result.with_suffix(".answer")
        state, _ = _in_fork(lambda: answer.write_text(json.dumps(ask())), 1800)
        if state != "survived":
            raise RuntimeError(f"the tests could not be profiled: {state}")
        return dict(json.loads(answer.read_text()))

    def _write(self, line: Mapping[str, Any]) -> None:
        with self.result.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def _sharing_fixtures(items: Mapping[str, pytest.Item]) -> dict[str, set[str]]:
    """Test to those of its file that share a fixture with it which is made once for several tests."""
    users: dict[tuple[str, str], set[str]] = {}
    for name, item in items.items():
        definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        for fixture, found in definitions.items():
            if found[-1].scope in ("class", "module") and not fixture.startswith("_"):
                users.setdefault((str(item.path), fixture), set()).add(name)
    together: dict[str, set[str]] = {}
    for several in users.values():
        for name in several:
            together.setdefault(name, set()).update(several)
    return together


def _in_fork(run: Callable[[], object], limit: float) -> tuple[str, float]:
    """Run in a fork: ``survived`` where it came to its end, ``timeout`` at a limit of time, otherwise ``killed``."""
    begun = time.monotonic()
    child = os.fork()
    if not child:
        code = 3
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
            run()
            code = 0
        except BaseException:
            # Whatever a mutant raises past pytest ends the fork, and is told by its exit code.
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    status = None
    while status is None and time.monotonic() - begun < limit:
        done, result = os.waitpid(child, os.WNOHANG)
        if done:
            status = result
        else:
            time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        return "timeout", time.monotonic() - begun
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return "timeout", time.monotonic() - begun
    return "survived" if status == 0 else "killed", time.monotonic() - begun


def _too_slow(*_: object) -> None:
    raise TooSlowError


def _spent() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main(request_file: str, result_file: str) -> int:
    """Collect, and let the loop do the rest."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    options = ["-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", "--maxfail=1000000"]
    return int(
        pytest.main([*options, *request["options"], *request["tests"]], plugins=[Loop(request, Path(result_file))])
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
