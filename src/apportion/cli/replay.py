"""``apportion replay``: a group's real generations, walked again with another strategy."""

from __future__ import annotations

import argparse
import os

from apportion.cli import progress, source
from apportion.cli.output import emit_json, emit_page, emit_tables
from apportion.cli.parser import PICTURES, Parser, Usage, add_assignor, add_output, settings_of

DETAILS = (
    "FOLDER is a dump, or the tables that pipeline build made. Each generation finds what the strategy itself left in\n"
    "the one before; MOVES-THEN is what really happened, by the same measure. A streams group is walked with\n"
    "streams or broker-sticky, the broker's own task assignor, each with --set num_standby_replicas=N."
)
EXAMPLES = (
    ("would sticky have moved less?", "apportion replay dump --group ads-join --assignor sticky"),
    ("as a page", "apportion replay dump --group ads-join --assignor sticky -o html > page.html"),
    ("from the pipeline's tables, for a program", "apportion replay tables --group ads-join --assignor range -o json"),
)


def add_arguments(parser: Parser) -> None:
    """Whose history, and the strategy."""
    parser.add_argument("folder", metavar="FOLDER", help="a dump or tables")
    parser.add_argument("--group", metavar="GROUP", required=True, help="the group")
    add_assignor(parser)
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Walk the history, and say what the strategy would have saved."""
    from apportion.history.broker_tasks import task_strategy
    from apportion.inputs.load_history import load_histories
    from apportion.report import replaying, replaying_tasks

    strategy = task_strategy(args.assignor, settings_of(args))
    folder = source.at_hand(args.folder, [args.group])
    with progress.slow(f"reading {args.folder}"):
        memory = load_histories(folder)
    if args.group not in memory.groups and not memory.groups:
        raise Usage("apportion replay", f"{args.folder!r} holds no group")
    group = memory.group(args.group)
    if group.present is not None:
        source.refuse_share(group.name, group.present.type)
    with progress.slow(f"replaying {group.name}"):
        document = group.replay(strategy)
    if args.output == "json":
        emit_json(document)
    elif args.output == "html":
        from apportion.inputs.dump import observed
        from apportion.report import pages

        emit_page([pages.of_replay(group, observed(group), document)], os.path.basename(os.path.abspath(args.folder)))
    else:
        shown = replaying_tasks if group.runs_tasks else replaying
        emit_tables([shown.generations(document)], args.output, shown.notes(document))
    return 0
