"""``apportion size``: how many members a group should have, how much each number of them moves, and why."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from apportion.cli import progress, source
from apportion.cli.output import emit_json, emit_page, emit_tables
from apportion.cli.parser import PICTURES, OneOf, Parser, Usage, add_output, amount, whole
from apportion.errors import BadInput

if TYPE_CHECKING:
    from apportion.model.group import Group
    from apportion.sighting.sighting import Sighting

DETAILS = (
    "One row for each sensible number of members: more members move less now, fewer cost less to run. * marks\n"
    "the advice. Work is counted by weight (messages a second), by lag or by partitions."
)
EXAMPLES = (
    ("members that can each read 50,000 messages of lag", "apportion size group.json --by lag --capacity 50000"),
    ("members of 500 messages a second that read the lag in ten minutes",
     "apportion size group.json --by lag --capacity 500 --catch-up 600"),
    ("at most 40 partitions a member, 3 to 12 members",
     "apportion size group.json --by partitions --capacity 40 --members 3..12"),
    ("which pods should go if 8 are to stay, as a patch",
     "apportion size group.json --by partitions --capacity 15 --members 8 --pods client-id -o json"),
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    """The group, a member's capacity, and the choices."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the group, as describe reads it")
    parser.add_argument(
        "--capacity", metavar="C", type=capacity, required=True,
        help="work per second that a member of capacity 1 takes; by partitions, how many; or learned: from the\n"
             "history of a dump or of tables, as fast as members were while they had lag",
    )  # fmt: skip
    parser.add_argument(
        "--by", metavar="WORK", type=OneOf(("weight", "lag", "partitions"), "kind of work"), default=None,
        help="weight, lag or partitions (default: weight, if a weight is known)",
    )  # fmt: skip
    parser.add_argument("--members", metavar="A..B", type=span, default=None, help="the least and most members")
    parser.add_argument(
        "--catch-up", metavar="SECONDS", type=amount, default=None,
        help="members that also read the lag within this many seconds",
    )  # fmt: skip
    parser.add_argument(
        "--threads", metavar="N", type=whole(1, 100_000), default=1,
        help="members that one process runs: they come and go together (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--like", metavar="MEMBER", help="new members subscribe to this member's topics (default: all topics)"
    )
    parser.add_argument(
        "--prefer", metavar="END", type=OneOf(("members", "moves"), "preference"), default=None,
        help="members: as few as possible; moves: as few moves as possible (default: the least total cost)",
    )  # fmt: skip
    parser.add_argument(
        "--window", metavar="SECONDS", type=amount, default=None,
        help="seconds over which rates are measured if the input has a history (default: 600; a live cluster: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--pods", metavar="RULE",
        help="name the pods that should go, and their deletion costs for Kubernetes; RULE says what a member's pod\n"
             "is called: instance-id, client-id or host, or client-id=REGEX, whose first group is the name",
    )  # fmt: skip
    source.add_group_choice(parser)
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Size the group, and show the frontier with the advice."""
    from apportion.report import sizing as shown
    from apportion.sizing.pods import pods
    from apportion.sizing.size import size

    src = source.Source.of(args)
    sighting = src.one()
    group, takes, how = _measured(src, args, sighting)
    how = [*how, *source.assumptions(sighting)]
    with progress.slow("planning with each number of members"):
        result = size(
            group, takes, args.by, args.members, args.prefer, catch_up=args.catch_up, like=args.like,
            threads=args.threads,
        )  # fmt: skip
    leaving = pods(result.advised, args.pods) if args.pods and result.advised else None
    if leaving:
        how += leaving.sentences
    elif args.pods:
        how.append("No number of members is advised, so no pod is named.")
    if args.output == "json":
        document = result.to_dict()
        named = {"pods": leaving.to_dict()} if leaving else {}
        emit_json({**document, "advice": " ".join([document["advice"], *how]), **named})
        return 0
    if args.output == "html":
        emit_page([shown.page_data(sighting, result, how)], src.title)
        return 0
    emit_tables([shown.table(result, marks=args.output in ("table", "wide"))], args.output, [*result.sentences, *how])
    return 0


def _measured(src: source.Source, args: argparse.Namespace, sighting: Sighting) -> tuple[Group, float, list[str]]:
    """The group with its weights, a member's capacity, and how both were measured."""
    from dataclasses import replace

    from apportion.history import time_window
    from apportion.model.present import observed_lag_known
    from apportion.report import lag_text

    group, how = sighting.group, []
    if args.by == "lag" and not observed_lag_known(group):
        raise BadInput("--by lag", "no partition whose lag is known", "committed offsets and log ends, or lags")
    weights = args.by == "weight" or (args.by is None and group.weight is None)
    if not (weights and group.weight is None) and args.capacity != "learned":
        return group, args.capacity, []
    over_time = src.over_time([sighting], args.window)
    if over_time is None:
        if args.capacity == "learned":
            raise Usage("apportion size", "--capacity learned needs a history: a dump, or the pipeline's tables")
        return group, args.capacity, []
    known = next(over_time)
    series, window_s = known.series, known.window_s
    if weights and group.weight is None:
        rates = time_window.rates(group, series, window_s)
        group, how = replace(group, weight=rates.weight), rates.how
    if args.capacity != "learned":
        return group, args.capacity, how
    speeds = known.lag_in_time(with_speeds=True).speeds
    takes, sentence = time_window.learned_capacity(speeds)
    if takes is None:
        raise Usage("apportion size", f"--capacity learned: too little data, {sentence}; give a number")
    return group, takes, [*how, sentence, *lag_text.speed_notes(speeds, window_s)]


def capacity(text: str) -> float | str:
    """An argument's type: a number above 0, or ``learned``."""
    return text if text == "learned" else amount(text)


def span(text: str) -> tuple[int, int]:
    """An argument's type: ``A..B``, or one number for both."""
    match = re.fullmatch(r"([0-9]{1,6})(?:\.\.([0-9]{1,6}))?", text, re.ASCII)
    if match and 1 <= int(match[1]) <= int(match[2] or match[1]):
        return int(match[1]), int(match[2] or match[1])
    raise argparse.ArgumentTypeError(f"found {text[:60]!r}; needed A..B with 1 <= A <= B, as in 2..10")
