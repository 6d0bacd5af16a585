"""``apportion report``: everything about a group or a cluster as one page with pictures."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from apportion.cli import progress, source
from apportion.cli.output import emit, tell
from apportion.cli.parser import PICTURES, Parser, Usage
from apportion.errors import BadInput
from apportion.wording import count

if TYPE_CHECKING:
    from apportion.sighting.sighting import Sighting

DETAILS = (
    "INPUT is anything that describe reads. From a dump or the pipeline's tables the page has the history too: who\n"
    "owned what over the generations, why it rebalanced, and what other strategies would have moved."
)
EXAMPLES = (
    ("a cluster's history", "apportion report dump -o page.html"),
    ("a group that was pasted", "apportion report pasted.txt --group ads-join -o page.html"),
    ("a live cluster", "apportion report --bootstrap-server localhost:9092 --all-groups -o page.html"),
)


def add_arguments(parser: Parser) -> None:
    """Which groups to show, and where the page goes."""
    parser.add_argument("file", metavar="INPUT", nargs="?", help="the groups; - is standard input")
    source.add_group_choice(parser)
    parser.add_argument("--all-groups", action="store_true", help="every group of the live cluster")
    parser.add_argument(
        "--switch", action="store_true", help="also show what a move to the broker's protocol would do to each group"
    )
    parser.add_argument("-o", "--output", metavar="FILE", default="apportion.html", help="default: apportion.html")
    parser.add_argument("--title", metavar="TEXT", help="the page's title")


def run(args: argparse.Namespace) -> int:
    """Write the page, and say where it is; ``-o -`` writes it to standard output."""
    from apportion.report import page_groups

    if args.output in PICTURES:
        raise Usage("apportion report", f"-o names the file of the page, but found {args.output!r}: -o page.html")
    src = source.Source.of(args)
    groups = _groups(src, args)
    name = page_groups.origin(args.file, groups) if src.folder else src.title
    text = page_groups.page_of(groups, args.title or page_groups.title_of(groups), name)
    if args.output == "-":
        emit(text)
        return 0
    source.write_whole(args.output, text)
    tell(f"{count(len(groups), 'group')}, {len(text.encode()) / 1e6:.1f} MB")
    emit(f"{args.output}\n")
    return 0


def _groups(src: source.Source, args: argparse.Namespace) -> list[dict[str, Any]]:
    from apportion.report import page_groups

    if src.folder is not None:
        return of_folder(src.folder, args.groups, args.switch)
    shown, many = [], src.many()
    with progress.slow("", len(many)) as begin:
        for seen in many:
            begin(seen.name)
            shown.append(_switched(seen) if args.switch else page_groups.of_present(seen))
    return shown


def _switched(seen: Sighting) -> dict[str, Any]:
    """A group as it is now, and the effects of a switch, if it is one of consumers with members."""
    from apportion.cli.switch import switch_of
    from apportion.history.switch_measures import why_left_out
    from apportion.report import page_groups

    if why_left_out(seen.protocol, seen.group.M):
        return page_groups.of_present(seen)
    return page_groups.with_switch(seen, switch_of(seen))


def of_folder(path: str, names: list[str], switched: bool = False) -> list[dict[str, Any]]:
    """The groups of a dump or of tables, with their histories; and with the effects of a switch, if that is wanted."""
    from apportion.history.switch_measures import facts_of, left_out, scored
    from apportion.history.switching import switch
    from apportion.history.time_window import group_time
    from apportion.model.lag import WINDOW_S
    from apportion.report import page_groups
    from apportion.sources.dump import sighted
    from apportion.sources.load_history import load_histories
    from apportion.sources.series import FolderSeries

    with progress.slow(f"reading {path}"):
        memory = load_histories(path)
    chosen = [memory.group(name) for name in names] or memory.living
    if not chosen:
        raise BadInput(path, "no group", "records of at least one group")
    with progress.slow(f"reading the commits of {path}"):
        over_time = FolderSeries(path, {group.name: group.raw["topics"] for group in chosen}, WINDOW_S)
        score = scored(memory) if switched else None
    shown = []
    with progress.slow("", len(chosen)) as begin:
        for group in chosen:
            begin(group.name)
            seen, times, series = sighted(group), None, None
            if over_time.known:
                series = over_time.of(seen.group)
                times = group_time(seen.group, series, WINDOW_S, now_ms=over_time.now_ms, with_speeds=False)
            drawn = page_groups.of_remembered(group, seen, times, series, over_time.now_ms)
            if switched and not left_out(group):
                drawn = page_groups.switched(drawn, switch(seen.group, facts_of(group), group, score))
            shown.append(drawn)
    return shown
