"""The pipeline's commands as functions: build, rebuild, status; each reads as its table of contents."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.errors import BadInput, MissingExtra, Unavailable
from apportion.pipeline import personal as personal_rules
from apportion.sources import dump_files, tables
from apportion.sources.cluster import connect
from apportion.sources.properties import Properties, read_properties
from apportion.strategy.registry import of_recipe, tabled
from apportion.wording import count

try:
    from apportion.spark import build as building
    from apportion.spark import capture as capturing
    from apportion.spark import errors, folder, lake, packages, session, sources, statuses, stores
    from apportion.spark.build import Built
    from apportion.spark.capture import Captured
    from apportion.spark.location import Location, form_of, locate
    from apportion.spark.session import Progress
    from apportion.spark.statuses import TableStatus
except ModuleNotFoundError as missing:
    raise MissingExtra("The pipeline", "spark") from missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def silent(line: str) -> None:
    """Progress without a display."""


def capture(
    bootstrap: str, directory: Path | str, *, command_config: Path | str | Properties | None = None,
    service: bool = False, interval_s: float = 60.0, source: str = "auto", form: str | None = None,
    rows_a_batch: int = 1_000_000, spark: SparkSession | None = None, progress: Progress = silent,
) -> Captured:  # fmt: skip
    """Read the records in ``__consumer_offsets`` that were not read yet into a dump; then sample the log ends.

    directory
        A local folder, a URI that Spark has a driver for, or ``catalog.schema`` (see ``location.locate``).
    command_config
        A properties file of Kafka's own tools, or what was read of one.
    service
        Do it again every ``interval_s`` seconds, until the process is interrupted.
    source
        ``connector`` (Spark's own), ``python`` (nothing but pip), or ``auto``: the connector, but for a local folder
        where its jars are not on this machine.
    form
        As in ``build``.
    Raises
        Unavailable: no broker, no permission, a full disk. BadInput: the folder belongs to another cluster, or to
        another number of partitions, or to another version.
    """
    location = locate(directory)
    capturing_there = _capturing(
        bootstrap, location, location, form, command_config, source, spark, progress, rows_a_batch
    )
    with capturing_there as (on, once):
        if not service:
            return once()
        for captured in capturing.capture_on(once, on, interval_s, progress):
            progress(f"{count(captured.records, 'record')}; next in {interval_s:.0f} s")
    raise AssertionError("a service ends by being interrupted")


@contextmanager
def _capturing(
    bootstrap: str, origin: Location, target: Location, form: str | None,
    command_config: Path | str | Properties | None, source: str, spark: SparkSession | None, progress: Progress,
    rows_a_batch: int = 1_000_000,
) -> Iterator[tuple[SparkSession, Callable[[], Captured]]]:  # fmt: skip
    """A session for a capture into ``origin``, and tables in ``target`` made from it; the object that captures once."""
    dump_form = form_of(origin, form if origin.kind == target.kind else None)
    jars = session.jars_for(origin, target, form_of(target, form))
    properties = command_config if isinstance(command_config, Properties) else read_properties(command_config)
    with errors.plainly(origin.root):
        source = capturing.chosen_source(source, origin)
        jars += [packages.KAFKA] * (source == "connector")
        with connect(bootstrap, properties):  # a wrong address shows before Spark takes its seconds
            progress("starting Spark")
    with session.session(spark, jars=jars, quick=target is origin) as running:

        def once() -> Captured:
            with errors.plainly(origin.root):
                return capturing.capture_once(
                    running, bootstrap, origin, properties, source, progress, rows_a_batch, dump_form
                )

        yield running, once


def run(
    bootstrap: str, dump: Path | str, out: Path | str, *, command_config: Path | str | Properties | None = None,
    interval_s: float = 300.0, source: str = "auto", form: str | None = None, allowed_lag: int = 0,
    assignors: Sequence[str] | None = None, spark: SparkSession | None = None, progress: Progress = silent,
) -> Iterator[Built]:  # fmt: skip
    """Capture and build the new records, again and again, ``interval_s`` from start to start; yields each build.

    A broker that goes away, or a full disk, costs a round and is told of; what keeps the first round from working is
    raised. Arguments are those of ``capture`` and ``build``. It ends when the caller stops asking, or is interrupted.
    """
    origin, target = locate(dump), locate(out)
    settings = _settings(form, assignors, allowed_lag=allowed_lag, personal_days=None, personal="drop")
    with _capturing(bootstrap, origin, target, form, command_config, source, spark, progress) as (running, once):
        for captured in capturing.capture_on(once, running, interval_s, progress):
            began = time.monotonic()
            try:
                built = _build_at(origin, target, settings, running, full=False, progress=progress)
            except Unavailable as error:
                capturing.must_live(running, error)
                progress(f"{error}; trying again in {interval_s:.0f} s")
                continue
            progress(_round(captured, built, time.monotonic() - began))
            yield built


def _round(captured: Captured, built: Built, seconds: float) -> str:
    """The result of a round, in a sentence."""
    records = count(captured.records, "record")
    if built.whole:
        return f"{records} captured; every table rebuilt in {seconds:.0f} s: {built.whole}"
    written = ", ".join(built.written) or "no table"
    touched = "all groups" if built.touched_groups is None else count(built.touched_groups, "group")
    planned = "all" if built.planned_groups is None else f"{built.planned_groups:,}"
    return (
        f"{records} captured, {built.new_records:,} decoded; {touched} touched, "
        f"{planned} planned; {written} written in {seconds:.0f} s"
    )


def build(
    dump: Path | str, out: Path | str, *, allowed_lag: int = 0, personal_days: int | None = None,
    personal: str = "drop", form: str | None = None, assignors: Sequence[str] | None = None, full: bool = False,
    spark: SparkSession | None = None, progress: Progress = silent,
) -> Built:  # fmt: skip
    """Make the new part of every table of ``out`` from the records of ``dump``; all of it the first time.

    dump, out
        A local folder, a URI that Spark has a driver for, or ``catalog.schema`` (see ``location.locate``).
    allowed_lag
        Messages that count as none in ``gold/verdicts``.
    personal_days, personal
        Client ids, hosts and user data in records older than this before the newest are dropped, or ``hash``-ed.
    form
        ``parquet`` (a local folder's default) or ``delta`` (a URI's only one); for a catalog what it is told to use.
    assignors
        Strategies in ``gold/whatif`` (``lag-aware max_skew=2``), which costs in proportion to their number; by default
        the ``tabled`` ones.
    full
        Make everything anew, which gives the same rows; without being asked it is done where the settings, the version
        or the records that were read before are others than the last time.
    Raises
        UnknownName: no such strategy. BadInput: the dump is none, or is broken. Unavailable: the disk is full, the
        folder cannot be written, another build is at work there.
    """
    settings = _settings(form, assignors, allowed_lag=allowed_lag, personal_days=personal_days, personal=personal)
    return _build_at(locate(dump), locate(out), settings, spark, full, progress)


def _settings(form: str | None, assignors: Sequence[str] | None, **rules: Any) -> dict[str, Any]:
    """The settings of a build, as it keeps them next to its tables."""
    personal_rules.check(rules["personal_days"], rules["personal"])

    named = {} if assignors is None else {"assignors": list(assignors)}
    for recipe in named.get("assignors", ()):
        of_recipe(recipe)  # refused before Spark starts
    return {**rules, **({} if form is None else {"form": form}), **named}


def _build_at(
    origin: Location, location: Location, settings: Mapping[str, Any], spark: SparkSession | None, full: bool,
    progress: Progress,
) -> Built:  # fmt: skip
    """``build``, with the settings as they are kept."""
    form = form_of(location, settings.get("form"))
    _check(origin, location, form)
    if spark is None:
        session.java()  # where it is missing, no folder is made first
        progress("starting Spark")
    rules = {name: value for name, value in settings.items() if name != "form"}
    rules["assignors"] = sorted(tabled()) if rules.get("assignors") is None else rules["assignors"]
    source = _source(location, origin, settings)
    running_on = session.session(spark, jars=session.jars_for(origin, location, form))
    with errors.plainly(location.root, errors.MAKE_ANEW), running_on as running:
        progress = session.naming_jobs(running, progress)
        with stores.alone(running, location, form, progress) as store:
            tables.check_version_of(str(location), store.text(tables.SOURCE))
            with errors.plainly(origin.root):  # what is wrong there is not the tables'
                dump = sources.open_dump(running, origin)
            request = building.BuildState(building.version(), rules, source)
            with session.ours(running):
                built = building.build(store, dump, request, full, lambda: store.keep(tables.SOURCE, source), progress)
        lake = location.kind != "folder" or form != "parquet"
        states = statuses.of_lake(running, location) if lake else statuses.of_folder(location.folder)
    return replace(built, rows={state.name: state.rows for state in states}, tables=states)


def _check(origin: Location, location: Location, form: str) -> None:
    """Refuse errors that can be seen without Spark; a place that is no local folder is not seen before it starts."""
    with errors.plainly(origin.root):
        if origin.kind == "folder" and not sources.is_delta(origin):
            dump_files.find(origin.folder)
        if location.kind == "folder":
            tables.check_version(location.folder)
            folder.check_form(location.folder, form)


def rebuild(
    out: Path | str, dump: Path | str | None = None, *, form: str | None = None, spark: SparkSession | None = None,
    progress: Progress = silent,
) -> Built:  # fmt: skip
    """Rebuild every table of ``out`` from bronze, to the same rows, with the dump and settings of the last time.

    dump
        Another place where the records are now.
    """
    location = locate(out)
    in_files = location.kind == "folder" and not session.holds_delta(location)
    jars = session.jars_for(location, location, "delta")
    with nullcontext(spark) if in_files else session.session(spark, jars=jars) as running:
        text = None
        if running is not None and not in_files:
            form_there = form_of(location, form or ("delta" if location.kind == "folder" else None))
            text = lake.Manifest.read(running, lake.tables_of(location, form_there)).texts.get(tables.SOURCE)
        last, settings = _remembered(location, text)
        return build(last if dump is None else dump, out, **settings, full=True, spark=running, progress=progress)


# -- status ----------------------------------------------------------------------------------------------------------


def status(where: Path | str, *, spark: SparkSession | None = None) -> list[TableStatus]:
    """Every table of a place; of plain files from their footers, for which Spark is not needed."""
    location = locate(where)

    if location.kind != "folder" or session.holds_delta(location):
        jars = session.jars_for(location, location, "delta")
        with errors.plainly(str(where)), session.session(spark, jars=jars) as running:
            return statuses.of_lake(running, location)
    return statuses.of_folder(location.folder)


# -- shared ----------------------------------------------------------------------------------------------------------


def _source(location: Location, origin: Location, settings: Mapping[str, object]) -> str:
    """The files that a build leaves next to its tables, so that they can be made again."""
    way = origin.root
    if origin.kind == "folder" and location.kind == "folder":
        # Both without symbolic links: ".." leads out of the folder that a link stands for, not out of the link's.
        way = os.path.relpath(origin.folder.resolve(), location.folder.resolve())
    return json.dumps({"version": tables.VERSION, "dump": way, "kind": origin.kind, "settings": settings}) + "\n"


def _remembered(location: Location, text: str | None) -> tuple[Path | str, dict[str, Any]]:
    """The dump and the settings of the last build.

    text
        Its ``source.json``, where that is no file of a folder.
    """
    if location.kind == "folder":
        tables.check_version(location.folder)
    tables.check_version_of(str(location), text)
    dump: Path | str
    try:
        remembered = json.loads((location.folder / tables.SOURCE).read_text() if text is None else text)
        dump, settings = str(remembered["dump"]), dict(remembered["settings"])
        if remembered.get("kind", "folder") == "folder":
            dump = (location.folder / dump).resolve() if location.kind == "folder" else Path(dump)
    except (OSError, ValueError, KeyError, TypeError) as error:
        needed = "a place that a build made, or the dump to build from"
        raise BadInput(str(location), f"no {tables.SOURCE} that tells where the records are", needed) from error
    known: dict[str, Any] = {"allowed_lag": int, "personal_days": (int, type(None)), "personal": str, "form": str}
    known["assignors"] = list
    for name, value in settings.items():
        if not isinstance(value, known.get(name, ())):
            where = f"{location}/{tables.SOURCE}: {name}"
            raise BadInput(where, repr(value), "the settings of a build, as it wrote them")
    return dump, settings
