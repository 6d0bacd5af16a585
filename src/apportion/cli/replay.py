"""``apportion replay``: a group's real generations, walked again with another strategy."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

from apportion.cli import progress, source
from apportion.cli.output import emit_json, emit_page, emit_tables
from apportion.cli.parser import PICTURES, Parser, Usage, add_assignor, add_output, settings_of

if TYPE_CHECKING:
    from apportion.history.group_history import GroupHistory

LONGEST_S: Final = 10 * 365 * 86_400.0
"""Seconds of the past that are looked at: all that a dump holds."""
DETAILS = (
    "FOLDER is a dump, or the tables that pipeline build made. Each generation starts from the strategy's own\n"
    "assignment in the one before; MOVES-THEN has the real moves, by the same measure. A streams group is replayed\n"
    "with streams or broker-sticky, Kafka 4.3's own task assignor, each with --set num_standby_replicas=N."
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
    parser.add_argument(
        "--acting", metavar="RULE", nargs="?", const="", default=None,
        help="show when a leader would have acted on the lag, with gain=0.2,hold=10,rest=60,horizon=60[,moves=N]",
    )  # fmt: skip
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Walk the history, and say how much the strategy would have saved."""
    from apportion.assignors import find
    from apportion.report import replaying, replaying_tasks
    from apportion.sources.load_history import load_histories

    strategy = find(args.assignor, settings_of(args))
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
        if args.acting is not None:
            document["acting"] = acted(folder, group, strategy, args.acting, set(settings_of(args)))
    if args.output == "json":
        emit_json(document)
    elif args.output == "html":
        from apportion.report import page_groups
        from apportion.sources.dump import sighted

        emit_page(
            [page_groups.of_replay(group, sighted(group), document)], os.path.basename(os.path.abspath(args.folder))
        )
    else:
        shown = replaying_tasks if group.runs_tasks else replaying
        tables, notes = [shown.generations(document)], shown.notes(document)
        if "acting" in document:
            tables.append(replaying.acts(document["acting"]))
            notes += replaying.acting_notes(document["acting"])
        emit_tables(tables, args.output, notes)
    return 0


def acted(folder: str, group: GroupHistory, strategy: Any, text: str, given: set[str]) -> dict[str, Any]:
    """When the rule would have acted in this group's past, with counts free unless ``max_skew`` is among the settings.

    Raises
        BadInput: a text that is no rule; a group of tasks; log ends that were sampled once at most.
    """
    from apportion.acting.loop import with_free_counts
    from apportion.acting.replayed import replay_acting
    from apportion.acting.rule import Acting
    from apportion.errors import BadInput
    from apportion.history.steps import steps
    from apportion.sources.series import FolderSeries

    acting = Acting.of_text(text)
    if group.runs_tasks:
        raise BadInput("--acting", f"{group.name!r}, a group of tasks", "a group whose strategy gives partitions")
    walk = steps(group.name, group.folded.generations, group.all_topics)
    topics = {topic for step in walk for topic in step.group.topics}
    series = FolderSeries(folder, {group.name: topics}, LONGEST_S)
    if not series.known:
        raise BadInput("--acting", f"log ends in {folder!r} sampled once at most", "two samples of a topic or more")
    whole: dict[tuple[str, int], Any] = {}
    for step in walk:
        whole.update(series.of(step.group))
    free = strategy if "max_skew" in given else with_free_counts(strategy)
    return replay_acting(walk, whole, free, acting)
