"""Long work on standard error: at a terminal with a bar and the time; elsewhere its steps a line each, or nothing.

``shown`` is for work whose steps are told anyway. ``slow`` is for commands that are mostly over at once and say nothing
but their result: a bar comes up once the work has taken a second, only at a terminal, and leaves nothing behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, Timer
from typing import TYPE_CHECKING, Final

from apportion.cli.output import tell
from apportion.report.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress

Step = Callable[[str], None]
WAITED_S: Final = 2.0
"""Silence after which somebody is told what is waited for."""
AFTER_S: Final = 1.0
"""Work that takes less shows no bar: what flashes up cannot be read, and rich takes a while to load."""


@contextmanager
def shown(steps: int | None = None) -> Iterator[Step]:
    """A function to call at the beginning of each step.

    steps
        How many steps there will be; None where nobody knows, then the bar only shows that work goes on.

    Without rich, or where standard error is no terminal, each step is a line as ``tell`` writes it.
    """
    bar = _bar() if _at_terminal() else None
    if bar is None:
        yield tell
        return
    with bar:
        task = bar.add_task("", total=steps)
        # The total is not known before the last step began, so a step counts when the next one begins.
        before: list[str] = []

        def step(line: str) -> None:
            if before:
                bar.console.print(f"   {before[-1]}", markup=False, highlight=False)
                bar.advance(task)
            before.append(printable(line))
            bar.update(task, description=before[-1])

        yield step
        if before:
            bar.console.print(f"   {before[-1]}", markup=False, highlight=False)


@contextmanager
def slow(description: str, total: int | None = None, *, waits_for: str = "") -> Iterator[Step]:
    """A function to call at the beginning of each piece of work that says nothing by itself.

    total
        How many pieces there are; None where nobody knows, then the bar only shows that work goes on.
    waits_for
        What the work waits for, which may never come: elsewhere than at a terminal a line tells of it after a while.
    """
    bar, shown_here = _Late(description, total), _at_terminal()
    waiting = partial(tell, f"{waits_for} has not answered yet: waiting for it")
    timer = Timer(AFTER_S, bar.show) if shown_here else Timer(WAITED_S, waiting)
    timer.daemon = True
    if shown_here or waits_for:
        timer.start()
    try:
        yield bar.begin
    finally:
        timer.cancel()
        bar.end()


class _Late:
    """A bar that comes up when a timer says so, from the timer's thread, while pieces of work begin in another."""

    def __init__(self, description: str, total: int | None) -> None:
        self.description, self.total = description, total
        self.begun = 0
        self._lock, self._ended = Lock(), False
        self._bar: Progress | None = None

    def show(self) -> None:
        """Show which work is going on, unless it has ended in the meantime."""
        with self._lock:
            bar = None if self._ended else _bar(counted=self.total is not None)
            if bar is not None:
                bar.add_task(printable(self.description), total=self.total, completed=max(0, self.begun - 1))
                bar.start()
                self._bar = bar

    def begin(self, piece: str) -> None:
        """A piece of work begins, the one before it is done."""
        with self._lock:
            self.description, self.begun = piece, self.begun + 1
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], description=printable(piece), completed=self.begun - 1)

    def end(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


def _at_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _bar(counted: bool = False) -> Progress | None:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ModuleNotFoundError:
        return None
    description = TextColumn("{task.description}", markup=False)
    count = [MofNCompleteColumn()] if counted else []
    columns = [SpinnerColumn(), description, BarColumn(20), *count, TimeElapsedColumn()]
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
