"""``apportion compare``: one group under every strategy, the best of each column marked, and advice."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from apportion.cli import progress, source
from apportion.cli.output import emit_json, emit_page, emit_tables
from apportion.cli.parser import PICTURES, Parser, Usage, add_output, amount, setting, settings_of
from apportion.cli.source import Source

if TYPE_CHECKING:
    from apportion.report.text import TextTable
    from apportion.sighting.sighting import Sighting

DETAILS = (
    "A * marks the best of a column; in CSV and NDJSON a column names those. A strategy that cannot plan the group\n"
    "says why below the table."
)
EXAMPLES = (
    ("all strategies", "apportion compare group.json"),
    ("these three", "apportion compare group.json --assignor range --assignor sticky --assignor lag-aware"),
    ("with a setting, next to the default", "apportion compare group.json -A lag-aware --set tolerance=0.1"),
    ("with each member's speed from its history", "apportion compare dump --group ads-join --speeds"),
    ("a group from what Kafka's tool printed", "apportion compare pasted.txt --group ads-join -o csv"),
)


def add_arguments(parser: Parser) -> None:
    """The group, and which strategies."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the group, as describe reads it")
    source.add_group_choice(parser)
    source.add_subscribe(parser)
    parser.add_argument(
        "-A", "--assignor", metavar="NAME", dest="assignors", action="append", default=[],
        help="one of the strategies to compare; may be given more than once (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--set", metavar="KEY=VALUE", dest="settings", action="append", type=setting, default=[],
        help="plan each strategy that has this setting once more, with it; may be given more than once",
    )  # fmt: skip
    parser.add_argument("--saved", metavar="PLAN", help="a plan.json of this group, shown next to the others")
    parser.add_argument(
        "--speeds", action="store_true",
        help="how fast each member was while it had lag, from the history of a dump, tables or a live cluster",
    )  # fmt: skip
    parser.add_argument(
        "--window", metavar="SECONDS", type=amount, default=None,
        help="seconds over which speeds are measured (default: 600; a live cluster: 10)",
    )  # fmt: skip
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Plan with each, and set the plans side by side."""
    from apportion.comparison import advice, compare
    from apportion.report import comparing

    if args.speeds and args.output not in ("table", "wide", "json"):
        raise Usage("apportion compare", f"-o {args.output} cannot show --speeds: use table, wide or json")
    if args.window is not None and not args.speeds:
        raise Usage("apportion compare", "--window is the time over which --speeds measures: give both")
    src = Source.of(args)
    sighting = src.one()
    saved = source.saved_plan(args.saved) if args.saved else None
    with progress.slow("planning with each strategy"):
        comparison = compare(
            sighting.group, args.assignors, saved, settings_of(args), sighting.protocol, sighting.assignor
        )
    speeds = _speeds(src, args, sighting) if args.speeds else None
    if args.output == "html":
        from apportion.report import page_groups

        emit_page([page_groups.of_plans(sighting, comparison.plans)], src.title)
    elif args.output == "json":
        emit_json({**comparison.to_dict(), **({"speeds": speeds[0]} if speeds else {})})
    else:
        table = comparing.comparison_table(comparison, marks=args.output in ("table", "wide"))
        shown, notes = ([speeds[1]], speeds[2]) if speeds else ([], [])
        before, behind = [*comparing.notes_now(sighting.group), *advice(comparison)], source.assumptions(sighting)
        emit_tables([table, *shown], args.output, [*before, *notes, *behind])
    return 0


def _speeds(src: Source, args: argparse.Namespace, sighting: Sighting) -> tuple[dict[str, Any], TextTable, list[str]]:
    """Each member's speed as fields, as a table, and in sentences."""
    from dataclasses import asdict

    from apportion.history import time_window
    from apportion.report import lag_text

    over_time = src.over_time([sighting], args.window)
    if over_time is None:
        raise Usage("apportion compare", "--speeds needs a history: a dump, the pipeline's tables or a live cluster")
    known = next(over_time)
    now = time_window.newest(known.series) if known.now_ms is None else known.now_ms
    since = max(round(now - known.window_s * 1000), known.held_since_ms or 0)
    speed_of = time_window.speeds(sighting.group, known.series, since, now)
    fields = {name: asdict(speed) for name, speed in speed_of.items()}
    return fields, lag_text.speeds(sighting.group, speed_of), lag_text.speed_notes(speed_of, known.window_s)
