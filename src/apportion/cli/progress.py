"""Steps of long work on standard error: at a terminal with a bar and the time, elsewhere a line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from apportion.cli.output import tell
from apportion.report.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress

Step = Callable[[str], None]


@contextmanager
def shown(steps: int | None = None) -> Iterator[Step]:
    """A function to call at the beginning of each step.

    steps
        How many steps there will be; None where nobody knows, then the bar only shows that work goes on.

    Without rich, or where standard error is no terminal, each step is a line as ``tell`` writes it.
    """
    bar = _bar() if sys.stderr is not None and sys.stderr.isatty() else None
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


def _bar() -> Progress | None:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ModuleNotFoundError:
        return None
    description = TextColumn("{task.description}", markup=False)
    return Progress(
        SpinnerColumn(), description, BarColumn(20), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    )
