"""``apportion demo``: a recorded real cluster, from its records to plans of every strategy and a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from apportion.cli.output import emit, emit_tables, tell
from apportion.cli.parser import Parser
from apportion.report.text import printable

if TYPE_CHECKING:
    from apportion.history.group_history import GroupHistory

DETAILS = (
    "The records that a real Kafka 4.3 wrote ship with the package. You see each group now, its last\n"
    "rebalances, what each strategy would have done instead; at the end a page with pictures. With --spark, Spark\n"
    "makes every table in FOLDER/tables first. You can run it again, even after it was killed."
)
EXAMPLES = (
    ("everything, in .demo of this folder", "apportion demo"),
    ("elsewhere", "apportion demo --to /tmp/demo"),
    ("by the pipeline's tables, which Spark makes first", "apportion demo --spark --to /tmp/demo"),
)


def add_arguments(parser: Parser) -> None:
    """Where the tables and the page go."""
    parser.add_argument("--to", metavar="FOLDER", default=".demo", help="default: .demo")
    parser.add_argument("--from", metavar="DUMP", dest="dump", help="a dump other than the recorded one")
    parser.add_argument("--spark", action="store_true", help="have Spark make the pipeline's tables, and read those")


def run(args: argparse.Namespace) -> int:
    """Records to tables to groups to a page, with progress on standard error."""
    from apportion import demo

    began = monotonic()
    dump, folder = demo.dump() if args.dump is None else Path(args.dump), Path(args.to)
    folder.mkdir(parents=True, exist_ok=True)  # where that cannot be, nothing is begun
    read_from, steps = args.dump, 3 if args.spark else 2
    if args.spark:
        from apportion.cli import progress
        from apportion.spark import job

        tell(f"== 1/3 Spark: {dump} to {folder / 'tables'}")
        read_from = folder / "tables"
        with progress.shown() as step:
            job.build(dump, read_from, progress=step)
    tell(f"== {steps - 1}/{steps} groups: now, and under each strategy")
    groups = _show(read_from)
    tell(f"== {steps}/{steps} the page")
    page = _page(folder, groups, args.dump)
    tell(f"== done in {monotonic() - began:.0f} s")
    emit(f"\nThe page: {page}\n")
    return 0


def _show(path: Path | str | None) -> list[GroupHistory]:
    """Print every group, then all groups and strategies side by side; without a path those of the recorded cluster."""
    from apportion.history.replay_totals import replay_totals
    from apportion.report import group_list, history_text
    from apportion.report.describing import heading
    from apportion.sighting.diagnosing import Evidence
    from apportion.sighting.judged import Judged
    from apportion.sources.dump import recorded_histories, sighted
    from apportion.sources.load_history import load_histories

    groups = (recorded_histories() if path is None else load_histories(path)).living
    stories: list[dict[str, dict[str, Any]]] = []
    rows: list[Judged] = []
    for group in groups:
        seen, story = sighted(group), replay_totals(group)
        at = [rebalance.at for rebalance in group.rebalances]
        rows.append(Judged(seen, Evidence(rebalanced_at=at, recorded=True)))
        stories.append(story)
        emit(printable(heading(seen)) + "\n")
        emit_tables(history_text.tables(seen, group.rebalances), "table", history_text.notes(rows[-1], story))
        emit("\n")
    emit_tables([group_list.table(sorted(rows, key=group_list.order)), history_text.totals(stories)], "table")
    return groups


def _page(folder: Path, groups: list[GroupHistory], given: str | None) -> Path:
    from apportion.cli import source
    from apportion.report import page_groups
    from apportion.sources.dump import sighted

    shown = [page_groups.of_remembered(group, sighted(group)) for group in groups]
    name = page_groups.origin(given if given is not None else "recorded dump that ships with apportion", shown)
    page = folder / "report.html"
    source.write_whole(str(page), page_groups.page_of(shown, "The recorded cluster", name))
    return page
