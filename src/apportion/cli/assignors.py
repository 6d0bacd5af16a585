"""``apportion assignors``: the strategies that are known."""

from __future__ import annotations

import argparse

from apportion.cli.output import emit_json, emit_tables
from apportion.cli.parser import Parser, add_output

DETAILS = "Strategies of this package and of any installed one that registers the entry point apportion.assignors."
EXAMPLES = (
    ("every strategy with its goals and settings", "apportion assignors"),
    ("the names alone, for a script", "apportion assignors -o csv | cut -d, -f1"),
)


def add_arguments(parser: Parser) -> None:
    """Only the form of the result can be chosen."""
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the register of strategies."""
    from apportion.report.tables import strategies, strategies_to_dict

    if args.output == "json":
        emit_json(strategies_to_dict())
    else:
        emit_tables([strategies(narrow=args.output == "table")], args.output)
    return 0
