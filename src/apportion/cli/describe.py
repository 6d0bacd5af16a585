"""``apportion describe``: groups as they stand, under Kafka's own column names, and what is odd in words."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from apportion.cli import source
from apportion.cli.output import emit_json, emit_page, emit_tables, tell
from apportion.cli.parser import PICTURES, OneOf, Parser, Usage, add_output, amount, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.cli.source import Listings
    from apportion.report.describing import ShownGroup
    from apportion.report.diagnosing import Evidence
    from apportion.report.group_list import Row
    from apportion.report.verdicts import Verdict
    from apportion.sources.described_group import Observed

DETAILS = (
    "FILE is group.json, or one a line; a dump; the pipeline's tables; or text that kafka-consumer-groups, rpk, kaf\n"
    "or kafkactl printed. What it is, is found out from the content. Without FILE: standard input, or a live cluster\n"
    "with --bootstrap-server."
)
EXAMPLES = (
    ("what Kafka's own tool printed", "apportion describe pasted.txt"),
    ("straight from it", "kafka-consumer-groups --bootstrap-server localhost:9092 --describe --all-groups | apportion describe"),  # noqa: E501
    ("what holds it up: two listings, the second a minute later", "apportion describe before.txt after.txt"),
    ("a live group", "apportion describe --bootstrap-server localhost:9092 --group ads-join"),
    ("a cluster that needs a password", "apportion describe --command-config client.properties --all-groups"),
    ("the ten groups that are furthest behind", "apportion describe --bootstrap-server localhost:9092 --all-groups --sort lag --top 10"),  # noqa: E501
    ("as input for the other commands", "apportion describe pasted.txt --group ads-join -o json > groups.json"),
)  # fmt: skip

SORTS = (
    "trouble", "name", "odd", "verdict", "lag", "behind", "trend", "catch-up", "protocol", "state", "strategy",
    "members", "partitions", "heaviest", "last-hour",
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    """What to look at, and which of Kafka's three views."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the groups; - is standard input")
    parser.add_argument("later", metavar="LATER", nargs="?", help="the same, taken later: both together tell rates")
    source.add_group_choice(parser)
    parser.add_argument("--all-groups", action="store_true", help="every group of the live cluster")
    for view, meaning in (("offsets", "a row a partition"), ("members", "a row a member"), ("state", "a row a group")):
        parser.add_argument(f"--{view}", action="store_true", help=f"{meaning}, as Kafka's tool has it")
    parser.add_argument("--time", action="store_true", help="lag in time, its trend and when it is worked off")
    parser.add_argument(
        "--window", metavar="SECONDS", type=amount, default=None,
        help="over which rates are taken (default: 600; of a live cluster 10, and none of a single group); of two "
        "listings the seconds between them (default: by the files' times)",
    )  # fmt: skip
    order = parser.add_argument_group("which groups, and in which order")
    order.add_argument(
        "--sort", metavar="KEY", type=OneOf(SORTS, "order"),
        help="trouble (the default of a list: the gravest verdict, then the longest and the most behind), name, odd "
        "(those with something odd first, most lag first), or a column: " + ", ".join(SORTS[3:]),
    )  # fmt: skip
    order.add_argument("--odd", action="store_true", help="only groups of which something is odd")
    order.add_argument("--top", metavar="N", type=whole(1), help="the first N of them")
    parser.add_argument("--verbose", action="store_true", help="all members and partitions, as -o wide")
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Show the groups."""
    from apportion.report import page_groups

    _check_options(args)
    listings = None if args.later is None else source.two_listings(args, args.window)
    groups = _with_generations(source.many(args), args) if listings is None else list(listings.after)
    chosen = _chosen(groups, listings, args)
    if args.output == "json":
        emit_json({"version": 1, "groups": [each.to_dict() for each in chosen]})
        return 0
    if args.output == "html":
        emit_page([page_groups.of_observed(each.observed, each.verdict) for each in chosen], source.input_name(args))
        return 0
    if not chosen and args.odd:
        tell("nothing is odd of any group")
    elif not chosen:
        tell(
            "the cluster shows no consumer groups: nobody has joined one or committed yet, or this user may not see "
            "them (ACL Describe)"
        )
    elif args.time:
        _time([each.observed for each in chosen], listings, args)
    elif _views_asked(args):
        _views([each.shown for each in chosen], args)
    elif len(chosen) > 1:
        _overview(chosen, args)
    else:
        _whole(chosen[0], args)
    return 0


@dataclass(frozen=True)
class Described:
    """A group as it is described: as its source saw it, as it is shown and judged, and its row of the list."""

    observed: Observed
    shown: ShownGroup
    verdict: Verdict
    row: Row

    def to_dict(self) -> dict[str, Any]:
        """group.json, and what is known besides."""
        from apportion.model.group_json import group_to_dict
        from apportion.report import group_list

        described = {**self.shown.to_dict(self.verdict), **group_list.known_of(self.row)}
        group, evidence = self.shown.group, self.verdict.evidence
        if evidence.pair and evidence.timed and evidence.times is not None:
            group = replace(group, weight=evidence.times.written)  # what two listings tell, and one does not
        return {**group_to_dict(group), "described": described}


def _views_asked(args: argparse.Namespace) -> bool:
    """Whether Kafka's own views are asked for, in place of the list of groups or one in full."""
    return args.offsets or args.members or args.state or args.output in ("csv", "ndjson")


def _with_generations(groups: list[Observed], args: argparse.Namespace) -> list[Observed]:
    """For ``--state`` of a live cluster classic groups with their generation, which their newest records tell."""
    names = [observed.name for observed in groups if observed.kind == "classic" and observed.generation is None]
    if not args.state or args.file is not None or not names or not source.is_live(args):
        return groups
    from apportion.errors import Unavailable
    from apportion.sources.cluster import connect
    from apportion.sources.generations import newest_generations

    newest = source.connection(args)
    try:
        with connect(newest.bootstrap, newest.properties) as cluster:
            known = newest_generations(cluster, newest, names)
    except Unavailable as why:
        tell(f"no generations of classic groups: {why}")
        return groups
    return [
        replace(observed, generation=known[observed.name]) if observed.name in known else observed
        for observed in groups
    ]


def _chosen(groups: list[Observed], listings: Listings | None, args: argparse.Namespace) -> list[Described]:
    """The groups that are asked for, in the order that is."""
    from apportion.report import group_list
    from apportion.report.describing import shown
    from apportion.report.verdicts import judge

    seen = [shown(group) for group in groups]
    judged = not args.time and not _views_asked(args)
    sort = args.sort or ("trouble" if judged and args.output != "html" and len(groups) > 1 else None)
    described = []
    for group, shown_group, (evidence, pace) in zip(
        groups, seen, _evidence(groups, seen, listings, args, judged, sort), strict=True
    ):
        verdict = judge(shown_group, evidence)
        row = group_list.row_of(group_list.judged(verdict, pace))
        described.append(Described(group, shown_group, verdict, row))
    chosen = [each for each in described if each.verdict.findings or not args.odd]
    if sort == "odd":
        chosen.sort(key=lambda each: (not each.verdict.findings, group_list.order(each.row, "lag")))
    elif sort:
        chosen.sort(key=lambda each: group_list.order(each.row, sort))
    return chosen[: args.top] if args.top else chosen


def _evidence(
    groups: list[Observed], seen: list[ShownGroup], listings: Listings | None, args: argparse.Namespace,
    judged: bool, sort: str | None,
) -> Iterator[tuple[Evidence, dict[str, float | None]]]:  # fmt: skip
    """What is known of each group over time, and its lag in time with its rebalances of the last hour.

    A dump, tables and two listings tell at once. A live cluster has to be looked at for a while: where all of it is
    listed, where a window is given, or to sort by what only time tells.
    """
    from apportion.history import time_window
    from apportion.report import lag_text
    from apportion.report.diagnosing import Evidence

    timed = args.window is not None or (args.all_groups and len(groups) > 1)
    timed = timed or sort in ("behind", "trend", "catch-up", "last-hour")
    live = args.file is None and source.is_live(args)
    named: dict[str, Any] = {"source": source.as_options(args), "live": live}
    if args.file is not None and listings is None:
        named["recorded"] = source.folder(args) is not None
    if listings is not None:
        named |= {"source": shlex.quote(args.later), "pair": listings.options}
    if not judged or (live and not timed):
        known = None
    else:
        known = (
            source.over_time(args, groups, args.window, rebalances=True) if listings is None else listings.over_time()
        )
    if known is None:
        yield from ((Evidence(**named), {}) for _ in groups)
        return
    for shown_group, times in zip(seen, known, strict=True):
        group = time_window.as_of_last_look(shown_group.group, times.series) if live else shown_group.group
        time = time_window.group_time(group, times.series, times.window_s, None, times.now_ms, with_speeds=False)
        pace, at = lag_text.pace(time.whole) if times.timed else {}, list(times.rebalanced_at_ms or ())
        if times.rebalanced_at_ms is not None:
            pace["last_hour"] = lag_text.in_last_hour(at, times.now_ms or time_window.newest(times.series))
        yield Evidence.of(time, window_s=times.window_s, timed=times.timed, rebalanced_at=at, **named), pace


def _check_options(args: argparse.Namespace) -> None:
    """Refuse what would be passed over without a word."""
    if args.time and args.output in ("json", "html"):
        raise Usage("apportion describe", f"-o {args.output} has no place for --time: take table, wide, csv or ndjson")
    if args.window is not None and not args.time and _views_asked(args):
        raise Usage(
            "apportion describe", "--window says over which time rates are taken, which this output does not show"
        )


def _time(groups: list[Observed], listings: Listings | None, args: argparse.Namespace) -> None:
    """Lag in time of each group: its partitions and its members, from what is known of more than one moment."""
    from apportion.history import time_window
    from apportion.model.build import build
    from apportion.report import lag_text
    from apportion.report.text import TextTable

    over_time = source.over_time(args, groups, args.window) if listings is None else listings.over_time()
    if over_time is None or (listings is not None and listings.apart_s is None):
        raise Usage("apportion describe", "--time needs a dump, the pipeline's tables, a live cluster, or two listings "
                    "and the seconds between them (--window): a file tells of one moment only")  # fmt: skip
    rows_of_all: list[TextTable] = []
    for observed, known in zip(groups, over_time, strict=True):
        group = build(observed.raw)
        if args.file is None:
            group = time_window.as_of_last_look(group, known.series)
        times = time_window.group_time(group, known.series, known.window_s, known.held_since_ms, known.now_ms)
        tables = [lag_text.partitions(group, times)]
        if args.output in ("csv", "ndjson"):
            rows_of_all += tables
            continue
        if group.M:
            tables.insert(0, lag_text.members(group, times))
        if observed is not groups[0]:
            emit_tables([], args.output, [""])
        emit_tables(tables, args.output, lag_text.notes(times, known.window_s))
    if rows_of_all:  # one table, with one line of names
        rows = [row for table in rows_of_all for row in table.rows]
        emit_tables([TextTable(rows_of_all[0].columns, rows)], args.output)


def _views(standings: list[ShownGroup], args: argparse.Namespace) -> None:
    """Kafka's own views; as CSV and NDJSON the first that was asked for."""
    from apportion.report import describing
    from apportion.report.text import TextTable

    tables: list[TextTable] = []
    if args.state:
        tables.append(describing.states(standings))
    if args.members:
        each = [describing.members(s, wide=True) for s in standings]
        rows = [row for table in each for row in table.rows]
        tables.append(TextTable(each[0].columns, rows))
    if args.offsets or not tables:
        tables.append(describing.partitions(standings))
    emit_tables(tables, args.output)


def _overview(chosen: list[Described], args: argparse.Namespace) -> None:
    """A row a group; each in full with ``--verbose``."""
    from apportion.report import group_list

    wide = args.verbose or args.output == "wide"
    notes = [] if wide else ["One group in full: --group GROUP; all of them: --verbose."]
    emit_tables([group_list.table([each.row for each in chosen])], args.output, notes)
    for each in chosen if wide else ():
        emit_tables([], args.output, [""])
        _whole(each, args)


def _whole(described: Described, args: argparse.Namespace) -> None:
    """One group: a line about it, its members, its partitions where they are few, what is odd, what holds it up."""
    from apportion.report import describing
    from apportion.report.roles import roles_table
    from apportion.report.text import TextTable
    from apportion.wording import count

    standing, verdict = described.shown, described.verdict
    wide = args.verbose or args.output == "wide"
    shown: list[TextTable] = []
    if standing.group.M:
        shown.append(describing.members(standing, wide))
    tasks = roles_table(standing.seen.kind, standing.seen.members, wide)
    if tasks is not None:
        shown.append(tasks)
    short = standing.group.P <= describing.MOST_ROWS
    if standing.group.P and (wide or short):
        listed = describing.partitions([standing])
        shown.append(TextTable(listed.columns, listed.rows, extra=frozenset({"GROUP"})))
    if shown:
        shown[0] = TextTable(shown[0].columns, shown[0].rows, standing.heading + "\n", shown[0].extra)
    notes = [] if shown else [standing.heading]
    notes += [f"! {sentence}" for sentence in verdict.why] or ["Nothing odd: every partition has its owner."]
    if standing.group.P and not (wide or short):
        notes.append(f"{count(standing.group.P, 'partition')}: --verbose lists them.")
    notes += verdict.in_words
    emit_tables(shown, args.output, notes)
