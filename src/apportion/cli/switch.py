"""``apportion switch``: should a group move to the new protocol (KIP-848), and with which effects?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from apportion.cli import progress, source
from apportion.cli.output import emit_json, emit_page, emit_tables, tell
from apportion.cli.parser import PICTURES, Parser, add_output
from apportion.errors import BadInput, Unavailable
from apportion.model.protocols import CONSUMER

if TYPE_CHECKING:
    from apportion.history.group_history import GroupHistory
    from apportion.history.predicted_targets import Score
    from apportion.history.switch_measures import Switch
    from apportion.model.group import Group
    from apportion.sighting.sighting import Sighting
    from apportion.sources.series import FolderSeries

    Looked = tuple[Switch, Sighting, GroupHistory | None]

RATES_S: Final = 3_600.0
"""Seconds before the last sample over which rates are measured."""

DETAILS = (
    "ONLINE is the first target after an online upgrade with the same members, ANEW the one of a group that starts\n"
    "without a past; both are what Kafka 4.3's uniform gives. From a dump or the pipeline's tables the recorded joins\n"
    "and leaves are walked again, and the score says how well the broker is predicted on that cluster."
)
EXAMPLES = (
    ("one group of a dump", "apportion switch dump --group ads-join"),
    ("every group of a live cluster", "apportion switch --bootstrap-server localhost:9092 --all-groups"),
    ("what Kafka's tool printed", "apportion switch pasted.txt --group ads-join"),
    ("for a program", "apportion switch tables -o json"),
)


def add_arguments(parser: Parser) -> None:
    """Which groups."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a file, a dump or tables; - is standard input")
    source.add_group_choice(parser)
    parser.add_argument("--all-groups", action="store_true", help="every group of the live cluster")
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Look at each group, and say whether to switch."""
    from apportion.report import switching

    left_out: list[tuple[str, str]] = []
    src = source.Source.of(args)
    switches = _switches(src, args, left_out)
    if args.output == "json":
        without = [{"group": name, "why": why} for name, why in left_out]
        document = {
            "version": 1,
            "groups": [{**switch.to_dict(), **_governed(seen)} for switch, seen, _ in switches],
        }
        emit_json(document | ({"left_out": without} if without else {}))
    elif args.output == "html":
        from apportion.report import page_groups

        emit_page(
            [page_groups.with_switch(seen, switch, past) for switch, seen, past in switches],
            src.title,
        )
    elif len(switches) == 1 and args.output in ("table", "wide"):
        only, seen, _ = switches[0]
        under = seen.governed.sentences if seen.governed else []
        emit_tables([switching.group_table(only)], args.output, [*under, *switching.sentences(only)])
    else:
        answers = [switch for switch, _, _ in switches]
        emit_tables([switching.overview(answers)], args.output, switching.totals(answers, left_out))
    return 0


def _governed(seen: Sighting) -> dict[str, Any]:
    """The plan that the group is governed by, if it is."""
    return {"governed": seen.governed.to_dict()} if seen.governed else {}


def _switches(src: source.Source, args: argparse.Namespace, left_out: list[tuple[str, str]]) -> list[Looked]:
    """Every group that has members whose subscriptions can be read; ``left_out`` gets the others, each with why."""
    folder = src.folder
    if folder is not None:
        return _of_folder(folder, args.groups, left_out)
    from apportion.history.switch_measures import why_left_out

    many = src.many()
    for seen in many:
        src.refuse_unnamed(seen)
    score = _live_score(args, many)
    looked: list[Looked] = []
    with progress.slow("", len(many)) as begin:
        for seen in many:
            begin(seen.name or "")
            if why := why_left_out(seen.protocol, seen.group.M):
                left_out.append((seen.name or "", why))
            else:
                looked.append((switch_of(seen, score), seen, None))
    return _at_least_one(looked, args.file or "the cluster", left_out)


def switch_of(seen: Sighting, score: Score | None = None) -> Switch:
    """The effects of a switch on a group of which only the present is known."""
    from apportion.history.switch_measures import GroupFacts
    from apportion.history.switching import switch

    facts = GroupFacts(seen.protocol, seen.assignor, seen.assigned_data)
    return switch(seen.group, facts, scored=score)


def _live_score(args: argparse.Namespace, groups: list[Sighting]) -> Score | None:
    """How well the broker is predicted on the cluster's own log, if all groups are asked for and it is whole."""
    from apportion.history.predicted_targets import Score, score
    from apportion.sources import offsets_log

    if args.file is not None or not args.all_groups or not any(group.protocol == CONSUMER for group in groups):
        return None
    try:
        log = offsets_log.whole_groups(source.connection(args))
    except Unavailable as why:
        tell(f"no score: {why}")
        return None
    if log.left_out:
        tell(f"{log.left_out} of {log.partitions} partitions of __consumer_offsets are compacted or too long to score")
    return sum((score(events, log.names) for events in log.groups.values()), Score())


def _of_folder(path: str, names: list[str], left_out: list[tuple[str, str]]) -> list[Looked]:
    """Groups with their histories, and with the score on all of the cluster's."""
    from apportion.history import switch_measures
    from apportion.history.switch_measures import facts_of, scored
    from apportion.history.switching import switch
    from apportion.sources.dump import sighted
    from apportion.sources.load_history import load_histories
    from apportion.sources.series import FolderSeries

    with progress.slow(f"reading {path}"):
        histories = load_histories(path)
        chosen = [histories.group(name) for name in names] or histories.living
        score = scored(histories)
        topics = {group.name: group.raw["topics"] for group in chosen}
        # For groups that are named alone: of all, the commits of a whole cluster would be read once more.
        recorded = FolderSeries(path, topics, RATES_S) if names else None
    looked: list[Looked] = []
    with progress.slow("", len(chosen)) as begin:
        for group in chosen:
            begin(group.name)
            if why := switch_measures.left_out(group):
                left_out.append((group.name, why))
            else:
                seen = sighted(group)
                arrays = seen.group if recorded is None else with_rates(recorded, seen.group)
                looked.append((switch(arrays, facts_of(group), group, score), seen, group))
    return _at_least_one(looked, path, left_out)


def with_rates(recorded: FolderSeries, group: Group) -> Group:
    """The group with messages a second as weights, if commits or log ends of a dump or of tables show them."""
    import numpy as np

    from apportion.history.time_window import rates

    weight = rates(group, recorded.of(group), RATES_S).weight
    return replace(group, weight=weight) if np.isfinite(weight).any() else group


def _at_least_one(looked: list[Looked], where: str, left_out: list[tuple[str, str]]) -> list[Looked]:
    if not looked:
        why = f" (group {left_out[0][0]!r} {left_out[0][1]})" if len(left_out) == 1 else ""
        needed = "one: the result of a switch depends on the members"
        raise BadInput(where, f"no group of consumers with members{why}", needed)
    return looked
