"""``apportion watch``: a live group as it changes: lag bars per member, owners, rebalances as they happen."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from apportion.cli import progress, source
from apportion.cli.output import emit, on_terminal
from apportion.cli.parser import Parser, Usage, whole

if TYPE_CHECKING:
    from apportion.report.watching import View
    from apportion.sources.cluster import Cluster

DETAILS = "Ctrl-C ends it and restores the terminal. --once prints one picture and ends."
EXAMPLES = (
    ("a group, looked at every two seconds", "apportion watch --bootstrap-server localhost:9092 --group ads-join"),
    ("one picture", "apportion watch --bootstrap-server localhost:9092 --group ads-join --once"),
)


def add_arguments(parser: Parser) -> None:
    """Which group, and how often."""
    source.add_group_choice(parser)
    parser.add_argument("--interval", metavar="S", type=whole(1, 3600), default=2, help="seconds (default: 2)")
    parser.add_argument("--once", action="store_true", help="one picture, then end")


def run(args: argparse.Namespace) -> int:
    """Look at the group again and again."""
    from apportion.report.watching import View
    from apportion.sources.cluster import connect

    if len(args.groups) != 1:
        raise Usage("apportion watch", "give one group with --group")
    connection = source.connection(args)
    with ExitStack() as stack:
        with progress.slow(f"asking {connection.bootstrap}", waits_for=connection.bootstrap):
            cluster = stack.enter_context(connect(connection.bootstrap, connection.properties))
            view = View()
            _look(cluster, args.groups[0], view)
        if args.once or not on_terminal():
            return _print(cluster, args, view)
        return _live(cluster, args, view)


def _look(cluster: Cluster, name: str, view: View) -> None:
    """Take one look, and remember the changes since the last."""
    from apportion.sources import live

    view.take(live.read(cluster, [name])[0], time.time())


def _print(cluster: Cluster, args: argparse.Namespace, view: View) -> int:
    """Pictures one below the other, for a pipe; or just one."""
    width = get_terminal_size().columns if on_terminal() else 100
    emit(view.text(width))
    while not args.once:
        time.sleep(args.interval)
        _look(cluster, args.groups[0], view)
        emit("\n" + view.text(width))
    return 0


def _live(cluster: Cluster, args: argparse.Namespace, view: View) -> int:
    """On the terminal's other screen, which is gone after us, however we end."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            screen.update(Text(view.text(width=console.width, height=console.height)), refresh=True)
            time.sleep(args.interval)
            _look(cluster, args.groups[0], view)
