"""``apportion describe``: groups as they are now, under Kafka's own column names, with oddities in words."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.cli import source
from apportion.cli.output import emit_json, emit_page, emit_tables, tell
from apportion.cli.parser import PICTURES, OneOf, Parser, Usage, add_output, amount, whole
from apportion.model.protocols import CLASSIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.cli.source import Source
    from apportion.sighting.diagnosing import Evidence
    from apportion.sighting.judged import Judged
    from apportion.sighting.sighting import Sighting

DETAILS = (
    "FILE is group.json, or one a line; a dump; the pipeline's tables; or text that kafka-consumer-groups, rpk, kaf\n"
    "or kafkactl printed. The kind is recognized from the content. Without FILE: standard input, or a live cluster\n"
    "with --bootstrap-server."
)
EXAMPLES = (
    ("what Kafka's own tool printed", "apportion describe pasted.txt"),
    ("straight from it", "kafka-consumer-groups --bootstrap-server localhost:9092 --describe --all-groups | apportion describe"),  # noqa: E501
    ("why it is behind: two listings, the second a minute later", "apportion describe before.txt after.txt"),
    ("a live group", "apportion describe --bootstrap-server localhost:9092 --group ads-join"),
    ("a cluster that needs a password", "apportion describe --command-config client.properties --all-groups"),
    ("the ten groups that are furthest behind", "apportion describe --bootstrap-server localhost:9092 --all-groups --sort lag --top 10"),  # noqa: E501
    ("as input for the other commands", "apportion describe pasted.txt --group ads-join -o json > groups.json"),
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    """Which groups to look at, and which of Kafka's three views."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the groups; - is standard input")
    parser.add_argument(
        "later", metavar="LATER", nargs="?", help="the same listing, taken later: together they give rates"
    )
    source.add_group_choice(parser)
    parser.add_argument("--all-groups", action="store_true", help="every group of the live cluster")
    source.add_checkpoints(parser)
    for view, meaning in (
        ("offsets", "one row per partition"),
        ("members", "one row per member"),
        ("state", "one row per group"),
    ):
        parser.add_argument(f"--{view}", action="store_true", help=f"{meaning}, as Kafka's tool has it")
    parser.add_argument("--time", action="store_true", help="lag in seconds, its trend, and when it will be gone")
    parser.add_argument(
        "--window", metavar="SECONDS", type=amount, default=None,
        help="over which rates are taken (default: 600; of a live cluster 10, and none of a single group); of two "
        "listings the seconds between them (default: by the files' times)",
    )  # fmt: skip
    from apportion.sighting.measures import sorts

    columns = list(sorts())
    order = parser.add_argument_group("which groups, in which order")
    order.add_argument(
        "--sort", metavar="KEY", type=OneOf(("trouble", "name", "odd", *columns[1:]), "order"),
        help="trouble (the default of a list: the gravest verdict, then the longest and the most behind), name, odd "
        "(those with something odd first, most lag first), or a column: " + ", ".join(columns[1:]),
    )  # fmt: skip
    order.add_argument("--odd", action="store_true", help="only groups with a warning")
    order.add_argument("--top", metavar="N", type=whole(1), help="only the first N")
    parser.add_argument("--verbose", action="store_true", help="all members and partitions, like -o wide")
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Show the groups."""
    _check_options(args)
    src = source.Source.of(args)
    groups = _with_generations(src, src.many(), args)
    chosen = _chosen(src, groups, args)
    if args.output == "json":
        emit_json({"version": 1, "groups": [_document(each) for each in chosen]})
    elif args.output == "html":
        from apportion.report import page_groups

        emit_page([page_groups.of_present(each) for each in chosen], src.title)
    elif not chosen and args.odd:
        tell("nothing is odd of any group")
    elif not chosen:
        tell(
            "the cluster shows no consumer groups: no consumer has joined one or committed yet, or this user may not "
            "see them (ACL Describe)"
        )
    elif args.time:
        _time(src, [each.sighting for each in chosen], args)
    elif _views_asked(args):
        _views(chosen, args)
    elif len(chosen) > 1:
        _overview(chosen, args)
    else:
        _whole(chosen[0], args)
    return 0


def _document(judged: Judged) -> dict[str, Any]:
    """group.json, and everything known besides."""
    from apportion.model.group_json import group_to_dict
    from apportion.report.describing import described

    group, evidence = judged.sighting.group, judged.evidence
    if evidence.pair and evidence.timed and evidence.times is not None:
        group = replace(group, weight=evidence.times.written)  # what two listings tell, and one does not
    return {**group_to_dict(group), "described": described(judged)}


def _views_asked(args: argparse.Namespace) -> bool:
    """Whether Kafka's own views are asked for, in place of the list of groups or one in full."""
    return args.offsets or args.members or args.state or args.output in ("csv", "ndjson")


def _with_generations(src: Source, groups: list[Sighting], args: argparse.Namespace) -> list[Sighting]:
    """For ``--state`` of a live cluster: classic groups with the generation from their newest records."""
    names = [each.name for each in groups if each.protocol == CLASSIC and each.generation is None]
    if not args.state or not names or not src.live:
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
    return [replace(each, generation=known.get(each.name, each.generation)) for each in groups]


def _chosen(src: Source, groups: list[Sighting], args: argparse.Namespace) -> list[Judged]:
    """The groups that are asked for, in the order that is."""
    from apportion.report import group_list
    from apportion.sighting.judged import Judged

    at_length = not args.time and not _views_asked(args)
    sort = args.sort or ("trouble" if at_length and args.output != "html" and len(groups) > 1 else None)
    evidence = _evidence(src, groups, args, at_length, sort)
    judged = [Judged(seen, known) for seen, known in zip(groups, evidence, strict=True)]
    chosen = [each for each in judged if each.findings or not args.odd]
    if sort == "odd":
        chosen.sort(key=lambda each: (not each.findings, group_list.order(each, "lag")))
    elif sort:
        chosen.sort(key=lambda each: group_list.order(each, sort))
    return chosen[: args.top] if args.top else chosen


def _evidence(
    src: Source, groups: list[Sighting], args: argparse.Namespace, at_length: bool, sort: str | None
) -> Iterator[Evidence]:
    """Each group over time, with its rebalances of the last hour.

    A dump, tables and two listings tell at once. A live cluster has to be looked at for a while: where all of it is
    listed, where a window is given, or to sort by what only time tells.
    """
    from apportion.sighting.diagnosing import Evidence

    timed = args.window is not None or (args.all_groups and len(groups) > 1)
    timed = timed or sort in ("behind", "trend", "catch-up", "last-hour")
    named: dict[str, Any] = {
        "source": src.options, "live": src.live, "recorded": src.folder is not None, "pair": src.pair,
    }  # fmt: skip
    looks = at_length and (timed or not src.live)
    known = src.over_time(groups, args.window, rebalances=True) if looks else None
    if known is None:
        yield from (Evidence(**named) for _ in groups)
        return
    from apportion.history import time_window
    from apportion.sighting.measures import in_last_hour

    for times in known:
        time, at = times.lag_in_time(), times.rebalanced_at_ms
        last_hour = None if at is None else in_last_hour(at, times.now_ms or time_window.newest(times.series))
        yield Evidence.of(
            time, window_s=times.window_s, timed=times.timed, rebalanced_at=list(at or ()), last_hour=last_hour, **named
        )


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that would be ignored without a word."""
    if args.time and args.output in ("json", "html"):
        raise Usage("apportion describe", f"-o {args.output} cannot show --time: use table, wide, csv or ndjson")
    if args.window is not None and not args.time and _views_asked(args):
        raise Usage("apportion describe", "--window is the time for rates, which this output does not show")


def _time(src: Source, groups: list[Sighting], args: argparse.Namespace) -> None:
    """Lag in time of each group: its partitions and its members, from the moments that are known."""
    from apportion.report import lag_text
    from apportion.report.text import TextTable

    over_time = src.over_time(groups, args.window)
    if over_time is None or not src.timed:
        raise Usage("apportion describe", "--time needs a dump, the pipeline's tables, a live cluster, or two listings "
                    "and the seconds between them (--window): a file shows only one moment")  # fmt: skip
    rows_of_all: list[TextTable] = []
    for sighting, known in zip(groups, over_time, strict=True):
        group, times = known.group, known.lag_in_time(with_speeds=True)
        tables = [lag_text.partitions(group, times)]
        if args.output in ("csv", "ndjson"):
            rows_of_all += tables
            continue
        if group.M:
            tables.insert(0, lag_text.members(group, times))
        if sighting is not groups[0]:
            emit_tables([], args.output, [""])
        emit_tables(tables, args.output, lag_text.notes(times, known.window_s))
    if rows_of_all:  # one table, with one line of names
        rows = [row for table in rows_of_all for row in table.rows]
        emit_tables([TextTable(rows_of_all[0].columns, rows)], args.output)


def _views(seen: list[Judged], args: argparse.Namespace) -> None:
    """Kafka's own views; as CSV and NDJSON the first that was asked for."""
    from apportion.report import describing
    from apportion.report.text import TextTable

    tables: list[TextTable] = []
    if args.state:
        tables.append(describing.states(seen))
    if args.members:
        each = [describing.members(judged.sighting, wide=True) for judged in seen]
        rows = [row for table in each for row in table.rows]
        tables.append(TextTable(each[0].columns, rows))
    if args.offsets or not tables:
        tables.append(describing.partitions([judged.sighting for judged in seen]))
    emit_tables(tables, args.output)


def _overview(chosen: list[Judged], args: argparse.Namespace) -> None:
    """A row a group; each in full with ``--verbose``."""
    from apportion.report import group_list

    wide = args.verbose or args.output == "wide"
    notes = [] if wide else ["One group in full: --group GROUP; all of them: --verbose."]
    emit_tables([group_list.table(chosen)], args.output, notes)
    for each in chosen if wide else ():
        emit_tables([], args.output, [""])
        _whole(each, args)


def _whole(judged: Judged, args: argparse.Namespace) -> None:
    """One group: a line about it, its members, its partitions if they are few, oddities, and its blocker."""
    from apportion.report import describing
    from apportion.report.roles import roles_table
    from apportion.wording import count

    seen, group = judged.sighting, judged.sighting.group
    wide = args.verbose or args.output == "wide"
    short = group.P <= describing.MOST_ROWS
    tables = [describing.members(seen, wide)] if group.M else []
    tasks = roles_table(seen.protocol, seen.roles, wide)
    tables += [] if tasks is None else [tasks]
    if group.P and (wide or short):
        tables.append(replace(describing.partitions([seen]), extra=frozenset({"GROUP"})))
    notes = [] if tables else [describing.heading(seen)]
    tables[:1] = [replace(table, title=describing.heading(seen) + "\n") for table in tables[:1]]
    notes += [f"! {sentence}" for sentence in judged.why] or ["Nothing odd: every partition has its owner."]
    if group.P and not (wide or short):
        notes.append(f"{count(group.P, 'partition')}: --verbose lists them.")
    notes += judged.in_words
    emit_tables(tables, args.output, notes)
