"""``apportion pipeline``: ``__consumer_offsets`` to tables with Spark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from apportion.cli import source
from apportion.cli.output import emit_json, emit_tables, tell
from apportion.cli.parser import OneOf, Parser, Usage, add_output, whole

if TYPE_CHECKING:
    from apportion.spark.statuses import TableStatus

ACTIONS = ("capture", "build", "rebuild", "run", "status")
_OF: Final = {
    **dict.fromkeys(("bootstrap_server", "command_config", "context", "source", "interval"), ("capture", "run")),
    **dict.fromkeys(("allowed_lag", "assignors"), ("build", "run")),
    **dict.fromkeys(("personal_days", "hash_personal", "full"), ("build",)),
    "service": ("capture",),
    "form": ("capture", "build", "rebuild", "run"),
    "dump": ("build", "rebuild", "run"),
}
"""Options that only some actions have; beside another one they would be passed over without a word."""
INTERVAL_S: Final = 60
PERSONAL_DAYS_MAX: Final = 100_000
_SAID: Final = {"dump": "from", "assignors": "assignor", "form": "format"}
SOURCES = ("auto", "connector", "python")
DETAILS = (
    "capture  reads a cluster's new records into a dump\n"
    "build    updates every table from a dump (--from DUMP --to TABLES)\n"
    "rebuild  makes all tables again from the same dump, to the same bytes (--to TABLES)\n"
    "run      captures and builds every --interval seconds, until it is stopped (--from DUMP --to TABLES)\n"
    "status   how fresh the tables or the dump are (--to PLACE)\n"
    "\n"
    "A place is a local folder, a URI that Spark has a driver for (s3a://bucket/prefix), or catalog.schema.\n"
    "Spark runs here, or on the cluster that APPORTION_SPARK_MASTER names, with the settings in APPORTION_SPARK_CONF."
)
EXAMPLES = (
    ("records of a cluster into a dump", "apportion pipeline capture --bootstrap-server localhost:9092 --to dump"),
    ("the tables of a dump", "apportion pipeline build --from dump --to tables"),
    (
        "the same in less time: what-ifs of only two strategies",
        "apportion pipeline build --from dump --to tables -A range -A cooperative-sticky",
    ),
    (
        "both, again and again",
        "apportion pipeline run --bootstrap-server localhost:9092 --from dump --to tables --interval 300",
    ),
    ("how fresh are they?", "apportion pipeline status --to tables"),
)


def add_arguments(parser: Parser) -> None:
    """Which part to copy, from where, to where."""
    kind = OneOf(ACTIONS, "action")
    parser.add_argument("action", metavar="ACTION", type=kind, help=", ".join(ACTIONS))
    parser.add_argument("--from", metavar="DUMP", dest="dump", help="build, rebuild, run: the dump")
    parser.add_argument(
        "--to", metavar="PLACE",
        help="capture: the dump; build, rebuild, run, status: the tables. A local folder, a URI (s3a://bucket/prefix, "
        "hdfs://...), or catalog.schema",
    )  # fmt: skip
    parser.add_argument(
        "--format", metavar="FORM", dest="form",
        help="parquet (a local folder's default) or delta (a URI's); a catalog decides for its tables",
    )  # fmt: skip
    source.add_connection(parser)
    parser.add_argument("--service", action="store_true", help="capture: again and again, until Ctrl-C")
    parser.add_argument(
        "--interval", metavar="S", type=whole(1, 86_400),
        help=f"capture --service, run: seconds (default: {INTERVAL_S})",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="build: make everything again; the rows are the same")
    parser.add_argument(
        "--source",
        metavar="HOW",
        type=OneOf(SOURCES, "source"),
        help="capture, run: auto, connector or python (default: auto)",
    )
    parser.add_argument("--allowed-lag", metavar="N", type=whole(), help="build: a lag up to this counts as none")
    parser.add_argument(
        "--personal-days",
        metavar="N",
        type=whole(high=PERSONAL_DAYS_MAX),
        help="build: client ids and hosts older than this are dropped",
    )
    parser.add_argument("--hash-personal", action="store_true", help="build: hash them instead")
    parser.add_argument(
        "-A", "--assignor", metavar="NAME", dest="assignors", action="append",
        help='build: a strategy to try on each group, once or more ("lag-aware max_skew=2"; default: all)',
    )  # fmt: skip
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Do it, with progress on standard error, and show the folder's new content."""
    if args.to is None:
        raise Usage("apportion pipeline", f"{args.action} needs --to PLACE")
    _check_options(args)
    if args.action == "capture":
        return _capture(args)
    from apportion.cli import progress
    from apportion.spark import job

    if args.action == "build":
        if args.dump is None:
            raise Usage("apportion pipeline", "build needs --from DUMP")
        with progress.shown() as step:
            built = job.build(
                args.dump, args.to, allowed_lag=args.allowed_lag or 0, personal_days=args.personal_days,
            personal="hash" if args.hash_personal else "drop", assignors=args.assignors,
                form=args.form, full=args.full, progress=step,
            )  # fmt: skip
    elif args.action == "run":
        return _run(args)
    elif args.action == "rebuild":
        with progress.shown() as step:
            built = job.rebuild(args.to, args.dump, form=args.form, progress=step)
    else:
        _show(args, job.status(args.to))
        return 0
    _show(args, built.tables)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    for name, actions in _OF.items():
        value = getattr(args, name)
        if value is None or value is False or args.action in actions:
            continue
        option = "--" + _SAID.get(name, name).replace("_", "-")
        hint = "; it takes the settings of the last build" if args.action == "rebuild" and actions == ("build",) else ""
        raise Usage("apportion pipeline", f"{option} is for {' and '.join(actions)}, not for {args.action}{hint}")
    if args.interval is not None and args.action == "capture" and not args.service:
        raise Usage("apportion pipeline", "--interval needs --service: without it a capture is made once")
    if args.action == "run" and args.output != "table":
        raise Usage(
            "apportion pipeline", f"run prints one line per round and has no result: -o {args.output} is not for it"
        )
    if args.hash_personal and args.personal_days is None:
        raise Usage("apportion pipeline", "--hash-personal needs --personal-days, the age from which on")


def _capture(args: argparse.Namespace) -> int:
    from apportion.cli import progress
    from apportion.spark import job

    connection = source.connection(args)
    # A service goes on for months: a line each round, which a log keeps.
    with nullcontext(tell) if args.service else progress.shown() as step:
        job.capture(
            connection.bootstrap, args.to, command_config=connection.properties, service=args.service,
            interval_s=float(args.interval or INTERVAL_S), source=args.source or "auto", form=args.form, progress=step,
        )  # fmt: skip
    _show(args, job.status(args.to))
    return 0


def _run(args: argparse.Namespace) -> int:
    from apportion.spark import job

    if args.dump is None:
        raise Usage("apportion pipeline", "run needs --from DUMP, where the records are kept")
    connection = source.connection(args)
    rounds = job.run(
        connection.bootstrap, args.dump, args.to, command_config=connection.properties,
        interval_s=float(args.interval or INTERVAL_S), source=args.source or "auto", form=args.form,
        allowed_lag=args.allowed_lag or 0, assignors=args.assignors, progress=tell,
    )  # fmt: skip
    for _ in rounds:
        pass
    return 0


def _show(args: argparse.Namespace, states: Sequence[TableStatus]) -> None:
    from apportion.report.text import TextTable

    names = ("name", "rows", "files", "size_bytes", "newest", "written")
    rows = [tuple(_plain(getattr(state, name)) for name in names) for state in states]
    if args.output == "json":
        emit_json({"version": 1, "tables": [dict(zip(names, row, strict=True)) for row in rows]})
    else:
        columns = ("TABLE", "ROWS", "FILES", "BYTES", "NEWEST", "WRITTEN")
        emit_tables([TextTable(columns, rows)], args.output)


def _plain(value: object) -> str | int | None:
    from datetime import datetime

    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return value if isinstance(value, int) or value is None else str(value)
