"""``apportion what-if``: changes in the order given, each planned on what the one before left."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from apportion.cli import source
from apportion.cli.output import emit_json, emit_tables
from apportion.cli.parser import Parser, Usage, add_assignor, add_output, settings_of

DETAILS = (
    "Steps may be given in any order and as often as needed; they happen in that order. Between two steps the group\n"
    "settles: each step finds the assignment that the one before ended in."
)
EXAMPLES = (
    ("a member leaves, then two come", "apportion what-if group.json --leave consumer-2-91aa --join 2"),
    ("a topic grows", "apportion what-if group.json --grow clicks:24 --assignor sticky"),
    ("a zone is lost under a burst", "apportion what-if group.json --lag impressions:0=1000000 --lose-rack b -o json"),
)


class _Step(argparse.Action):
    """Collect the steps of all options in the order of the command line."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        steps: Sequence[str] = getattr(namespace, "steps", None) or ()
        verb = self.option_strings[-1].removeprefix("--")
        namespace.steps = [*steps, f"{verb} {values}"]


def add_arguments(parser: Parser) -> None:
    """The group, the steps, the strategy."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the group, as describe reads it")
    steps = parser.add_argument_group("steps")
    for option, form, meaning in (
        ("--join", "N", "N members come, with the commonest subscription"),
        ("--leave", "MEMBER", "a member goes: by member id, instance id, or a client id that only one has"),
        ("--grow", "TOPIC:N", "the topic has N partitions from now on"),
        ("--lose-rack", "RACK", "the rack's members and replicas are gone"),
        ("--lag", "TOPIC:P=N", "the partition is N messages behind"),
    ):
        steps.add_argument(option, metavar=form, action=_Step, dest="steps", default=argparse.SUPPRESS, help=meaning)
    source.add_group_choice(parser)
    add_assignor(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Plan step by step, and show what each does."""
    from apportion import whatif
    from apportion.report import comparing

    texts = getattr(args, "steps", None)
    if not texts:
        raise Usage("apportion what-if", "no step: give --join, --leave, --grow, --lose-rack or --lag")
    group = source.one(args).group
    planned = whatif.steps(group, texts, args.assignor, settings_of(args))
    if args.output == "json":
        emit_json({"version": 1, "steps": [{"step": step, "plan": plan.to_dict()} for step, plan in planned]})
        return 0
    emit_tables([comparing.steps(group, planned)], args.output, comparing.step_notes(planned))
    return 0
