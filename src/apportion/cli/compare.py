"""``apportion compare``: one group under every strategy, the best of each column marked, and advice."""

from __future__ import annotations

import argparse

from apportion.cli import source
from apportion.cli.output import emit_json, emit_page, emit_tables
from apportion.cli.parser import PICTURES, Parser, add_output

DETAILS = (
    "A * marks the best of a column; in CSV and NDJSON a column names those. A strategy that cannot plan the group\n"
    "says why below the table."
)
EXAMPLES = (
    ("all strategies", "apportion compare group.json"),
    ("these three", "apportion compare group.json --assignor range --assignor sticky --assignor lag-aware"),
    ("a group from what Kafka's tool printed", "apportion compare pasted.txt --group ads-join -o csv"),
)


def add_arguments(parser: Parser) -> None:
    """The group, and which strategies."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the group, as describe reads it")
    source.add_group_choice(parser)
    parser.add_argument(
        "-A", "--assignor", metavar="NAME", dest="assignors", action="append", default=[],
        help="one of the strategies to compare; may be given more than once (default: all)",
    )  # fmt: skip
    parser.add_argument("--saved", metavar="PLAN", help="a plan.json of this group, shown beside the others")
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Plan with each, and set the plans side by side."""
    from apportion.comparison import advice, compare
    from apportion.report import comparing

    observed = source.one(args)
    saved = source.saved_plan(args.saved) if args.saved else None
    comparison = compare(observed.group, args.assignors, saved)
    if args.output == "html":
        from apportion.report import pages

        emit_page([pages.of_plans(observed, comparison.plans)], source.input_name(args))
    elif args.output == "json":
        emit_json(comparison.to_dict())
    else:
        table = comparing.comparison_table(comparison, marks=args.output in ("table", "wide"))
        emit_tables([table], args.output, advice(comparison))
    return 0
