"""The pipeline's commands as functions: build, rebuild, status; each reads as its table of contents."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from apportion.errors import BadInput, MissingExtra
from apportion.wording import count

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from apportion.inputs.properties import Properties
    from apportion.spark.bundles import Bundled
    from apportion.spark.capture import Captured
    from apportion.spark.local_silver import LocalSilver
    from apportion.spark.location import Location
    from apportion.spark.session import Asked
    from apportion.spark.sinks import Sink
    from apportion.spark.sources import Dump
    from apportion.spark.statuses import TableStatus
    from apportion.spark.stores import StoreAddress

Progress = Callable[[str], None]
"""Takes one line for a person."""

Make = Callable[[Mapping[str, "DataFrame"]], "DataFrame | Bundled | pa.Table"]
"""Tables by name to a table."""

Look = TypeVar("Look")
Made = TypeVar("Made")

QUICK_ROWS: Final = 1_000_000
"""Below this many records a session that starts sooner is the faster one."""

AT_ONCE: Final = 3
FROM_BRONZE: Final = frozenset(
    f"silver/{name}" for name in ("commits", "generations", "epochs", "rejects", "gaps", "ends", "topics")
)
"""Tables that are made from the dump alone."""
ROUNDS: Final = (
    FROM_BRONZE,
    frozenset({"silver/counts"}),
    frozenset({"gold/commits"}),
    frozenset({"gold/groups", "gold/rebalances", "gold/epochs", "gold/lag"}),
    frozenset({"gold/group_state", "gold/verdicts"}),
    frozenset({"gold/whatif"}),
)
"""Tables that are made at the same time; together all of them. A round leaves what those of the next share."""


def silent(line: str) -> None:
    """Progress for nobody."""


@dataclass(frozen=True)
class Built:
    """What a build made.

    records, rows, tables
        Records of the dump, rows of each table, and how fresh each is.
    whole
        Why every table was made anew; "" where only what is new was done.
    new_records, touched_groups, planned_groups
        Records that were decoded, groups that left some of them, groups whose what-if was made; None: all of them.
    written
        Tables that were written, of a build that was not whole.
    """

    records: int
    rows: dict[str, int]
    tables: list[TableStatus]
    whole: str = ""
    new_records: int = 0
    touched_groups: int | None = None
    planned_groups: int | None = None
    written: tuple[str, ...] = ()


def capture(
    bootstrap: str,
    directory: Path | str,
    *,
    command_config: Path | str | Properties | None = None,
    service: bool = False,
    interval_s: float = 60.0,
    source: str = "auto",
    form: str | None = None,
    rows_a_batch: int = 1_000_000,
    spark: SparkSession | None = None,
    progress: Progress = silent,
) -> Captured:
    """Read what ``__consumer_offsets`` holds, and was not read yet, into a dump; then sample the log ends.

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
    _needs_libraries()
    from apportion.inputs.cluster import connect
    from apportion.inputs.properties import Properties, read_properties
    from apportion.spark import capture as capturing
    from apportion.spark import errors, session
    from apportion.spark.location import form_of, locate

    location = locate(directory)
    chosen = form_of(location, form)
    properties = command_config if isinstance(command_config, Properties) else read_properties(command_config)
    with errors.plainly(location.root):
        source = capturing.chosen_source(source, location)
        with connect(bootstrap, properties):  # a wrong address shows before Spark takes its seconds
            progress("starting Spark")
        wanted = session.wanted(location, location, chosen)
        with session.session(spark, kafka=source == "connector", **wanted) as running:

            def once() -> Captured:
                with errors.plainly(location.root):
                    return capturing.capture_once(
                        running, bootstrap, location, properties, source, progress, rows_a_batch, chosen
                    )

            if not service:
                return once()
            for captured in capturing.capture_on(once, running, interval_s, progress):
                progress(f"{count(captured.records, 'record')}; next in {interval_s:.0f} s")
    raise AssertionError("a service ends by being interrupted")


def run(
    bootstrap: str,
    dump: Path | str,
    out: Path | str,
    *,
    command_config: Path | str | Properties | None = None,
    interval_s: float = 300.0,
    source: str = "auto",
    form: str | None = None,
    allowed_lag: int = 0,
    assignors: Sequence[str] | None = None,
    spark: SparkSession | None = None,
    progress: Progress = silent,
) -> Iterator[Built]:
    """Capture and build what is new, again and again, ``interval_s`` from start to start; yields each build.

    A broker that goes away, or a full disk, costs a round and is told of; what keeps the first round from working is
    raised. Arguments are those of ``capture`` and ``build``. It ends when the caller stops asking, or is interrupted.
    """
    _needs_libraries()
    from apportion.errors import Unavailable
    from apportion.inputs.cluster import connect
    from apportion.inputs.properties import Properties, read_properties
    from apportion.spark import capture as capturing
    from apportion.spark import errors, session
    from apportion.spark.location import form_of, locate

    origin, target = locate(dump), locate(out)
    chosen = form_of(target, form)
    settings = _settings(form, assignors, allowed_lag=allowed_lag, personal_days=None, personal="drop")
    properties = command_config if isinstance(command_config, Properties) else read_properties(command_config)
    with errors.plainly(origin.root):
        source = capturing.chosen_source(source, origin)
        with connect(bootstrap, properties):
            progress("starting Spark")
    needs = session.wanted(origin, target, chosen)
    with session.session(spark, quick=False, kafka=source == "connector", **needs) as running:

        def once() -> Captured:
            kept = form_of(origin, form if origin.kind == target.kind else None)
            with errors.plainly(origin.root):
                return capturing.capture_once(running, bootstrap, origin, properties, source, progress, form=kept)

        for captured in capturing.capture_on(once, running, interval_s, progress):
            began = time.monotonic()
            try:
                built = _build_at(origin, target, settings, running, spark is None, full=False, progress=progress)
            except Unavailable as error:
                capturing.must_live(running, error)
                progress(f"{error}; trying again in {interval_s:.0f} s")
                continue
            progress(_told(captured, built, time.monotonic() - began))
            yield built
            if spark is None:
                running.catalog.clearCache()


def _told(captured: Captured, built: Built, seconds: float) -> str:
    """What a round came to, in a sentence."""
    records = count(captured.records, "record")
    if built.whole:
        return f"{records} captured; every table made anew in {seconds:.0f} s: {built.whole}"
    written = ", ".join(built.written) or "no table"
    touched = "all groups" if built.touched_groups is None else count(built.touched_groups, "group")
    planned = "all" if built.planned_groups is None else f"{built.planned_groups:,}"
    return (
        f"{records} captured, {built.new_records:,} decoded; {touched} touched, "
        f"{planned} planned; {written} written in {seconds:.0f} s"
    )


def build(
    dump: Path | str,
    out: Path | str,
    *,
    allowed_lag: int = 0,
    personal_days: int | None = None,
    personal: str = "drop",
    form: str | None = None,
    assignors: Sequence[str] | None = None,
    full: bool = False,
    spark: SparkSession | None = None,
    progress: Progress = silent,
) -> Built:
    """Make what is new of every table of ``out`` from the records of ``dump``; all of it the first time.

    dump, out
        A local folder, a URI that Spark has a driver for, or ``catalog.schema`` (see ``location.locate``).
    allowed_lag
        Messages that count as none in ``gold/verdicts``.
    personal_days, personal
        Client ids, hosts and user data in records older than this before the newest are dropped, or ``hash``-ed.
    form
        ``parquet`` (a local folder's default) or ``delta`` (a URI's only one); for a catalog what it is told to use.
    assignors
        Strategies in ``gold/whatif``, which costs in proportion to their number; by default the ``compared`` ones.
    full
        Make everything anew, which gives the same rows; without being asked it is done where the settings, the version
        or the records that were read before are others than the last time.
    Raises
        UnknownName: no such strategy. BadInput: the dump is none, or is broken. Unavailable: the disk is full, the
        folder cannot be written, another build is at work there.
    """
    _needs_libraries()
    from apportion.spark.location import locate

    settings = _settings(form, assignors, allowed_lag=allowed_lag, personal_days=personal_days, personal=personal)
    return _build_at(locate(dump), locate(out), settings, spark, spark is None, full, progress)


def _settings(form: str | None, assignors: Sequence[str] | None, **rules: Any) -> dict[str, Any]:
    """The settings of a build, as it keeps them beside its tables."""
    from apportion.assignors import find

    chosen = {} if assignors is None else {"assignors": [find(name).name for name in assignors]}
    return {**rules, **({} if form is None else {"form": form}), **chosen}


def _build_at(
    origin: Location, location: Location, settings: Mapping[str, Any], spark: SparkSession | None, ours: bool,
    full: bool, progress: Progress,
) -> Built:  # fmt: skip
    """``build``, where the session, if there is one, may be ours: then it has no keys that the environment has not."""
    from apportion.inputs import tables
    from apportion.spark import errors, incremental, lake, session, sources, statuses, stores
    from apportion.spark import settings as settings_of
    from apportion.spark.location import form_of

    chosen_form = form_of(location, settings.get("form"))
    here, there = (stores.reached(one) if ours else None for one in (location, origin))
    is_plain = _is_plain(origin, location, chosen_form)
    goes_on = not full and is_plain and (location.folder / incremental.STATE).exists()
    if spark is None and not goes_on and (is_plain or here is None):
        session.java()  # where it is missing, no folder is made first
    # A JVM of this machine gets back what it compiles well where Spark reads and writes plain files: to drop what is
    # personal, and to decode many new records of a build that goes on. Elsewhere it carries names, or does some hundred
    # small queries, each another one.
    carries_rows = is_plain and (settings["personal_days"] is not None or goes_on)
    small = _checked(origin, location, chosen_form)
    quick = small or (not carries_rows and settings_of.is_local(settings_of.master()))
    at_work = _at_work(location, chosen_form, origin, spark, quick, progress, here)
    with errors.plainly(location.root, errors.MAKE_ANEW), at_work as (sink, asked, pool), _systems_memory():
        if full or sink.text(incremental.STATE) is None:
            asked()
        tables.check_version_of(str(location), sink.text(tables.SOURCE))
        with errors.plainly(origin.root):  # what is wrong there is not the tables'
            source = sources.open_dump(asked, origin, there)
        rules = {name: value for name, value in settings.items() if name != "form"}
        built = _build(pool, sink, source, rules, _source(location, origin, settings), full, progress)
        if isinstance(sink, lake.LakeSink):
            states = statuses.of_lake(asked, location, sink.logs)
        else:
            states = statuses.of_folder(location.folder)
    return replace(built, rows={state.name: state.rows for state in states}, tables=states)


@contextmanager
def _systems_memory() -> Iterator[None]:
    """Arrow's columns are in memory of the C library during the block, as NumPy's are.

    Arrow's own allocator gives pages back to the kernel and asks for them again, and what one of the two has given up
    the other cannot use: where columns of a million rows come and go, that takes a tenth of the time.
    """
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _checked(origin: Location, location: Location, form: str) -> bool:
    """Refuse what can be seen to be wrong without Spark; whether the dump is so small that a quick session is better.

    What is not in a local folder is not seen before Spark starts.
    """
    from apportion.inputs import tables
    from apportion.spark import errors, sinks, sources

    quick = False
    with errors.plainly(origin.root):
        if origin.kind == "folder" and not sources.is_delta(origin):
            quick = sources.check_dump(origin.folder) < QUICK_ROWS
        if location.kind == "folder":
            tables.check_version(location.folder)
            sinks.check_form(location.folder, form)
    return quick


def _is_plain(origin: Location, location: Location, form: str) -> bool:
    """Whether a build goes from plain files to plain files of this machine: a small one may need no Spark."""
    from apportion.spark import sources

    return origin.kind == "folder" and not sources.is_delta(origin) and location.kind == "folder" and form == "parquet"


@contextmanager
def _at_work(
    location: Location, form: str, origin: Location, spark: SparkSession | None, quick: bool, progress: Progress,
    store: StoreAddress | None,
) -> Iterator[tuple[Sink, Asked, ThreadPoolExecutor]]:  # fmt: skip
    """Alone with the place: its sink, what gives a session, and threads that make tables at the same time.

    store
        The place, where this process reaches it.
    """
    from apportion.spark import lake, session, sinks

    on_demand = session.on_demand(
        spark, lambda: progress("starting Spark"), quick=quick, **session.wanted(origin, location, form)
    )
    if location.kind == "folder" and form == "parquet":
        # The threads between the two: they end when the session has, and before their drafts are swept away.
        with sinks.parquet(location.folder) as folder, ThreadPoolExecutor(AT_ONCE) as pool, on_demand as asked:

            @cache
            def checked() -> SparkSession:
                running = asked()
                if session.is_remote(running):
                    sinks.check_shared(folder.staging, running)
                return running

            folder.reader = checked
            yield folder, checked, pool
        return
    with (
        on_demand as asked,
        lake.opened(asked, location, form, progress, store) as sink,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        yield sink, asked, pool


def rebuild(
    out: Path | str,
    dump: Path | str | None = None,
    *,
    form: str | None = None,
    spark: SparkSession | None = None,
    progress: Progress = silent,
) -> Built:
    """Make every table of ``out`` anew from bronze, to the same rows, with the dump and settings of the last time.

    On plain Parquet to the same bytes.

    dump
        Another place where the records are now.
    """
    from apportion.spark import lake, session
    from apportion.spark.location import form_of, locate

    location = locate(out)
    if location.kind == "folder" and not any(location.folder.glob("*/*/_delta_log")):
        last, settings = _remembered(location, None)
        return build(last if dump is None else dump, out, **settings, full=True, spark=spark, progress=progress)
    chosen = form_of(location, form or ("delta" if location.kind == "folder" else None))
    with session.session(spark, **session.wanted(location, location, chosen)) as running:
        text = lake.Manifest.read(running, lake.tables_of(location, chosen)).texts.get("source.json")
        last, settings = _remembered(location, text)
        return build(last if dump is None else dump, out, **settings, full=True, spark=running, progress=progress)


# -- steps -----------------------------------------------------------------------------------------------------------


def _build(
    pool: ThreadPoolExecutor,
    sink: Sink,
    source: Dump,
    rules: Mapping[str, Any],
    dump_json: str,
    full: bool,
    progress: Progress,
) -> Built:
    """Every table, or what is new of each, and what the next build must know."""
    from apportion.assignors import compared
    from apportion.inputs import tables
    from apportion.spark import few_update, incremental, sinks
    from apportion.spark.bundles import ROWS_A_TASK
    from apportion.spark.schemas import TABLES

    strategies = sorted(compared()) if rules.get("assignors") is None else rules["assignors"]
    asked = incremental.BuildState(incremental.version(), {**rules, "assignors": strategies}, dump_json)
    kept = sink.text(incremental.STATE)
    before = incremental.BuildState.from_text(kept)
    look = partial(incremental.look, source, asked, before)
    steps: dict[str, Make] | None = None
    if (full or before is None) and source.files is not None:
        # Every table is made, whatever the look finds: it goes on in this process while workers decode.
        (state, news, why), steps = _at_once(look, partial(_steps, source, **rules))
    else:
        state, news, why = look()
    gone = [name for name in TABLES if name not in sink.names()] if news is not None else []
    if full:
        why = "as asked"
    elif before is None and kept is not None:
        why = f"{incremental.STATE} is not as a build leaves it"
    elif kept is None and not sink.names():
        why = "there were none yet"
    elif gone:
        why = f"{gone[0]} is gone"
    elif rules["personal_days"] is not None and not why:
        why = "what is personal and old is dropped from all records"
    if why or news is None:
        if kept is not None:
            progress(f"making everything anew: {why}")
        _make(pool, sink, source, steps or _steps(source, **rules), progress)
        built = Built(source.count, {}, [], why, source.count)
    else:
        progress(count(news.new_records, "new record"))
        anew = partial(_make, pool, sink, source, _gold_steps(source, **rules), progress)
        plain = source.files is not None and isinstance(sink, sinks.ParquetSink)
        files = 1 + source.count // ROWS_A_TASK
        update = few_update.FewUpdate(sink, source, news, files, progress, anew if plain else None)
        update.run(rules["allowed_lag"], rules.get("assignors"))
        touched = update.touched_groups, update.planned_groups, tuple(update.written)
        built = Built(source.count, {}, [], "", news.new_records, *touched)
        state = replace(state, kept=update.kept)
    if state != before or why:
        sink.keep(incremental.STATE, state.to_text())
        sink.keep(tables.SOURCE, dump_json)
    sink.publish()
    return built


def _at_once(beside: Callable[[], Look], here: Callable[[], Made]) -> tuple[Look, Made]:
    """The answers of two functions, one called in another thread; where both fail, that one says why.

    Ctrl-C ends the wait for either: nobody waits for the thread, which ends with the process at the latest.
    """
    answer: Future[Look] = Future()

    def call() -> None:
        try:
            answer.set_result(beside())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    try:
        own = here()
    except Exception:
        answer.result()
        raise
    return answer.result(), own


def _make(
    pool: ThreadPoolExecutor, sink: Sink, source: Dump, steps: Mapping[str, Make], progress: Progress,
    known: Mapping[str, DataFrame] | None = None,
) -> None:  # fmt: skip
    """The tables of some steps, round by round; those of a round at the same time, for small ones keep one core busy.

    known
        Tables that are there already, which steps may ask for.
    """
    from apportion.spark import session
    from apportion.spark.bundles import ROWS_A_TASK
    from apportion.spark.schemas import TABLES

    files = 1 + source.count // ROWS_A_TASK
    tables = dict(known or {})
    ours = session.Jobs(source.spark)

    def make_of_ours(name: str) -> None:
        ours.take_thread(f"making {name}")
        make(name)

    def make(name: str) -> None:
        progress(f"making {name}")
        sink.write(name, steps[name](tables), TABLES[name], files)
        rows = sink.now(name)
        assert rows is not None  # noqa: S101 - just written
        tables[name] = rows

    try:
        for some in ROUNDS:
            list(pool.map(make_of_ours, [name for name in steps if name in some]))
    except BaseException:
        # After Ctrl-C, or on a full disk, no other table is begun, and those that were end. Nothing else does: a
        # session that was handed in may be at work for others.
        pool.shutdown(wait=False, cancel_futures=True)
        ours.cancel()
        raise


def _steps(
    source: Dump, allowed_lag: int, personal_days: int | None, personal: str, assignors: Sequence[str] | None = None
) -> dict[str, Make]:
    """Table -> how it is made from those before it."""
    from apportion.spark.local_silver import local_silver

    # Only Spark's queries know how to drop what is personal, and which of two records of one place counts.
    here = local_silver(source.spark, source.files, source.count) if personal_days is None else None
    silver = _silver_by_spark(source, personal_days, personal) if here is None else _silver_here(here)
    return {**silver, **_gold_steps(source, allowed_lag=allowed_lag, assignors=assignors)}


def _gold_steps(
    source: Dump, *, allowed_lag: int, assignors: Sequence[str] | None = None, **_: object
) -> Mapping[str, Make]:
    """Those of the gold tables, from all that silver holds; other rules of a build are silver's."""
    from apportion.spark import gold

    return gold.steps(allowed_lag, assignors, gold.tasks_of(source.count))


def _silver_here(silver: LocalSilver) -> dict[str, Make]:
    from apportion.spark.local_silver import DECODED

    return {
        **{f"silver/{name}": lambda t, name=name: silver.decoded(name) for name in DECODED},  # type: ignore[misc]
        "silver/counts": lambda t: silver.counts(),
        "silver/gaps": lambda t: silver.gaps(),
        "silver/ends": lambda t: silver.ends(),
        "silver/topics": lambda t: silver.topics(),
    }


def _silver_by_spark(source: Dump, personal_days: int | None, personal: str) -> dict[str, Make]:
    from apportion.spark import decode, session
    from apportion.spark.privacy import Personal

    seen = decode.scan(source.records)
    records = committed = decode.deduplicate(source.records, seen)
    if seen.light:
        roomy = session.by_rows(source.spark)
        committed = decode.deduplicate(source.records_in(roomy), seen)
    rule = Personal(personal_days, personal)
    return {
        "silver/commits": lambda t: decode.commits(committed),
        "silver/generations": lambda t: rule.generations(decode.generations(records), records),
        "silver/epochs": lambda t: rule.epochs(decode.epochs(records), records),
        "silver/rejects": lambda t: rule.rejects(decode.rejects(records), records),
        "silver/counts": lambda t: decode.counts(
            t["silver/commits"], t["silver/generations"], t["silver/epochs"], records
        ),
        "silver/gaps": lambda t: decode.gaps(records),
        "silver/ends": lambda t: source.ends,
        "silver/topics": lambda t: source.topics,
    }


# -- status ----------------------------------------------------------------------------------------------------------


def status(where: Path | str, *, spark: SparkSession | None = None) -> list[TableStatus]:
    """Every table of a place; of plain files from their footers, for which Spark is not needed."""
    from apportion.spark.location import locate

    _needs_libraries()
    location = locate(where)
    from apportion.spark import session, statuses

    if location.kind != "folder" or session.holds_delta(location):
        from apportion.spark import errors, lake, stores

        store = stores.reached(location) if spark is None else None
        chosen = session.wanted(location, location, "delta")
        with errors.plainly(str(where)), session.on_demand(spark, lambda: None, **chosen) as asked:
            return statuses.of_lake(asked, location, lake.logs_of(asked, lake.tables_in(location), store))
    return statuses.of_folder(location.folder)


# -- shared ----------------------------------------------------------------------------------------------------------


def _needs_libraries() -> None:
    """The pipeline's libraries are there, or a sentence says what brings them."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The pipeline", "spark") from error


def _source(location: Location, origin: Location, settings: Mapping[str, object]) -> str:
    """What a build leaves beside its tables, so that they can be made anew."""
    from apportion.inputs.tables import VERSION

    way = origin.root
    if origin.kind == "folder" and location.kind == "folder":
        # Both without symbolic links: ".." leads out of the folder that a link stands for, not out of the link's.
        way = os.path.relpath(origin.folder.resolve(), location.folder.resolve())
    return json.dumps({"version": VERSION, "dump": way, "kind": origin.kind, "settings": settings}) + "\n"


def _remembered(location: Location, text: str | None) -> tuple[Path | str, dict[str, Any]]:
    """The dump and the settings of the last build.

    text
        Its ``source.json``, where that is no file of a folder.
    """
    from apportion.inputs import tables

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
