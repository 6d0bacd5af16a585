"""What commands say while they work, which a pipe never shows: each bar, its pieces and whom it waits for."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from rich.console import Console
from tests.support.written_down import as_written

import apportion
from apportion.cli import progress

from .conftest import HERE, Runner
from .test_live_lines import AT
from .test_live_lines import asked as readers  # noqa: F401 - a fixture

_BAR = progress._bar
DEMO = Path(apportion.__file__).parent / "demo" / "dump"
LINES = [
    "describe group.json", "describe DEMO --group feed-cooperative", "describe DEMO --time --group ads-range",
    "describe DEMO", "plan group.json -A sticky", "plan groups.ndjson --batch", "plan group.json --diff --saved plan",
    "compare group.json -A range -A sticky", "compare DEMO --group ads-range -A range --speeds",
    "what-if group.json --join 1 --leave pod-0", "what-if group.json --rolling", "what-if group.json --scale 1",
    "size group.json --capacity 4 --by partitions", "gate group.json -A range --max-moves 100",
    "gate plan --max-moves 9", "gate group.json --now --max-lag 5", "replay DEMO --group search-sticky -A sticky",
    "report DEMO --group search-sticky --group ads-range -o page", "report DEMO --group ads-range --switch -o page",
    "report group.json -o page", "switch DEMO --group search-sticky", "switch group.json",
    f"describe {AT} --group new", f"describe {AT} --all-groups", f"plan {AT} --group new",
    f"watch {AT} --group new --once",
    f"nudge {AT} --group new", f"report {AT} --group new --group idle -o page", f"switch {AT} --all-groups",
    f"compare {AT} --group new -A range --speeds", f"what-if {AT} --group new --join 1",
]  # fmt: skip


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("line", LINES)
def test_a_command_says_what_it_is_at(run: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Each bar as it is begun and ended, in order."""
    bars: list[Any] = []

    @contextmanager
    def slow(description: str, total: int | None = None, *, waits_for: str = "") -> Iterator[Any]:
        bars.append([description, total, waits_for])
        yield bars.append
        bars.append("over")

    assert run("plan", "group.json", "-A", "range", "--save", "plan").code == 0
    monkeypatch.setattr(progress, "slow", slow)
    monkeypatch.setattr("apportion.cli.batch.on_terminal", lambda: False)
    done = run(*split(line.replace("DEMO", str(DEMO))))
    assert done.code == (3 if "--now" in line else 0), done.err
    shown = json.loads(json.dumps(bars).replace(str(DEMO), "DEMO"))
    as_written(HERE / "bars.json", line, shown)


class Screen:
    """Standard error at a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...


class Timer:
    """Goes off at once."""

    all: list[Timer]

    def __init__(self, seconds: float, call: Any, given: Any = ()) -> None:
        self.seconds, self.call, self.given, self.daemon, self.calls = seconds, call, list(given), False, list[str]()
        Timer.all.append(self)

    def start(self) -> None:
        self.calls.append("start")
        self.call(*self.given)

    def cancel(self) -> None:
        self.calls.append("cancel")


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    Timer.all = []
    monkeypatch.setattr(progress, "Timer", Timer)
    return Timer.all


def test_in_a_pipe_only_who_is_waited_for_is_told_and_no_longer_than_the_work_takes(
    timers: list[Timer], capfd: pytest.CaptureFixture[str]
) -> None:
    with progress.slow("reading", 3) as begin:
        begin("a piece")
    assert not any("start" in timer.calls for timer in timers)
    assert capfd.readouterr() == ("", "")
    with suppress(ZeroDivisionError), progress.slow("asking", waits_for="b:1"):
        timer = timers[-1]
        assert (timer.seconds, timer.daemon, timer.calls) == (2.0, True, ["start"])
        raise ZeroDivisionError
    assert timer.calls == ["start", "cancel"]
    assert capfd.readouterr().err == "b:1 has not answered yet: waiting for it\n"


def test_at_a_terminal_a_bar_comes_up_after_a_second_and_ends_however_the_work_does(
    timers: list[Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr(progress, "_bar", lambda counted=False: shown.append(counted))
    for total in (3, 0, None):
        with suppress(ZeroDivisionError), progress.slow("reading", total, waits_for="b:1") as begin:
            bar = begin.__self__  # type: ignore[attr-defined]
            begin("first")
            assert (bar.description, bar.begun, bar.total, bar._ended) == ("first", 1, total, False)
            raise ZeroDivisionError
        assert bar._ended
        assert (timers[-1].seconds, timers[-1].daemon, timers[-1].calls) == (1.0, True, ["start", "cancel"])
    assert shown == [True, True, False]


def test_steps_are_lines_in_a_pipe_and_a_bar_with_the_past_ones_above_it_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with progress.shown(2) as step:
        step("one")
        step("two \x1b")
    assert capfd.readouterr().err == "one\ntwo \\x1b\n"
    printed: list[Any] = []

    def note(console: Console, *given: Any, **named: Any) -> None:
        printed.extend([given[0], named] for _ in given[:1] if isinstance(given[0], str))

    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr(Console, "print", note)
    for steps in (2, None):
        seen: list[Any] = []
        printed.clear()
        bar = progress._bar()
        assert bar is not None
        monkeypatch.setattr(progress, "_bar", lambda bar=bar: bar)
        with progress.shown(steps) as step:
            for line in ("[one]", "two \x1b", "three"):
                step(line)
                [task] = bar.tasks
                seen.append((task.description, task.completed, task.total, len(printed)))
        monkeypatch.setattr(progress, "_bar", _BAR)
        assert seen == [("[one]", 0, steps, 0), ("two \\x1b", 1, steps, 1), ("three", 2, steps, 2)]
        assert printed == [
            [f"   {line}", {"markup": False, "highlight": False}] for line in ("[one]", "two \\x1b", "three")
        ]
        with progress.shown(steps):
            pass
        assert len(printed) == 3, "without a step nothing is left above"


def test_a_terminal_without_rich_or_without_standard_error_shows_lines_or_nothing(
    monkeypatch: pytest.MonkeyPatch, timers: list[Timer]
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    for module in ("rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, module, None)
    assert progress._bar() is None
    assert progress._bar(counted=True) is None
    with progress.shown() as step:
        step("a step")
    with progress.slow("reading", 2) as begin:
        begin("a piece")
    assert (screen.text, timers[0].calls) == ("a step\n", ["start", "cancel"])
    monkeypatch.setattr(sys, "stderr", None)
    assert not progress._at_terminal()
    with progress.shown() as step:
        step("to nobody")
