"""The gold tables in the order they are made: from what one pass over groups leaves, wherever Spark runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import finalize

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.spark import (
    by_group,
    facts,
    few_groups,
    histories,
    log_ends,
    logs,
    plan_bundles,
    schemas,
    session,
    standing,
)
from apportion.spark.bundles import ROWS_A_TASK, Bundled, files_of, shelf
from apportion.spark.other_groups import rows_in, rows_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tables = Mapping[str, "DataFrame"]
TASKS_A_CORE: Final = 8
"""Pieces of ``gold/whatif`` per core: groups differ in size, and the last piece keeps one core alone."""
ROWS_HERE: Final = 4_000_000
BYTES_HERE: Final = 256 << 20
"""Generations, epochs and gaps, and bytes of epochs, that this process looks at by itself."""


def tasks_of(records: int) -> int:
    """Among how many tasks groups are dealt: an even number, for cores are, but by the dump's records alone."""
    return 1 if records < ROWS_A_TASK // 5 else 2 * (1 + records // ROWS_A_TASK)


def steps(
    allowed_lag: int = 0, assignors: Sequence[str] | None = None, tasks: int = 1
) -> dict[str, Callable[[Tables], DataFrame | Bundled]]:
    """Table -> how it is made from the silver tables and the gold ones before it.

    allowed_lag
        Messages that count as none in ``gold/verdicts``.
    assignors
        Names of strategies in ``gold/whatif``; all known ones by default.
    tasks
        Among how many the groups are dealt, which is as many files as a table may have.
    """
    once = _Once(allowed_lag, tasks)
    return {
        "gold/commits": lambda t: Bundled(once.left(t), "places", schemas.NEWEST.schema, standing.newest),
        "gold/groups": lambda t: Bundled(once.left(t), "present", schemas.GROUPS.schema, by_group.groups_of),
        "gold/rebalances": lambda t: Bundled(once.left(t), "rebalances", schemas.REBALANCES.schema),
        "gold/epochs": lambda t: Bundled(once.left(t), "epochs", schemas.GOLD_EPOCHS.schema),
        "gold/lag": lambda t: Bundled(once.facts(t), "lag", schemas.LAG.schema),
        "gold/group_state": lambda t: Bundled(once.facts(t), "group_state", schemas.GROUP_STATE.schema),
        "gold/verdicts": lambda t: Bundled(once.facts(t), "verdicts", schemas.VERDICTS.schema),
        "gold/whatif": lambda t: once.whatif(t, assignors),
    }


def beside_of_files(t: Tables) -> dict[str, pa.Table] | None:
    """What ``by_group.left`` takes beside the records of groups, found in this process.

    None where that is too much for it, or where silver is no plain files of this machine. Most of what Spark takes for
    these small tables goes into getting ready.
    """
    names = [f"silver/{name}" for name in ("generations", "epochs", "gaps")]
    files = {name: files_of(t[name]) for name in (*names, "silver/commits", "silver/topics")}
    known = {name: some for name, some in files.items() if some is not None}
    if len(known) < len(files) or sum(rows_in(known[name]) for name in names) > ROWS_HERE:
        return None
    records = [_read(known, name, by_group.HOLE.names[:-1]) for name in names[:2]]
    holes = few_groups.holes(records, _read(known, "silver/gaps", ("source_partition", "before_offset", "missing")))
    spoken = ("group", "key_type", "body")
    epochs = rows_with(known[names[1]], schemas.arrow_schema(schemas.EPOCHS), "group", None, spoken, BYTES_HERE)
    if epochs is None:
        return None
    ids = set().union(*few_groups.spoken_ids(epochs).values())
    if not ids:
        return {"holes": holes, "names": by_group.NAME.empty_table()}
    pairs = [
        rows_with(known[name], schemas.arrow_schema(schemas.TABLES[name]), "topic_id", ids, ("topic_id", "topic"))
        for name in ("silver/commits", "silver/topics")
    ]
    return {"holes": holes, "names": few_groups.names_of(epochs, few_groups.names_among(*pairs))}


def _read(files: Mapping[str, Sequence[Path]], name: str, columns: Sequence[str]) -> pa.Table:
    rows = rows_with(files[name], schemas.arrow_schema(schemas.TABLES[name]), columns[0], None, columns)
    if rows is None:
        raise ValueError("without a limit there are always rows")
    return rows


class _Once:
    """What several tables are made from, computed once and kept on disk until the build ends."""

    def __init__(self, allowed_lag: int, tasks: int) -> None:
        self._allowed_lag, self._tasks = allowed_lag, tasks
        self._kept: dict[str, DataFrame] = {}
        self._now_ms: int | None = None
        self._shelves: list[Path | None] = []

    def shelf(self, t: Tables) -> Path | None:
        """Where bundles are kept, until nobody makes tables from them any more."""
        if not self._shelves:
            self._shelves.append(shelf(t["silver/commits"].sparkSession))
            if (folder := self._shelves[0]) is not None:
                finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return self._shelves[0]

    def now_ms(self, t: Tables) -> int:
        if self._now_ms is None:
            self._now_ms = log_ends.now_ms(t["silver/ends"])
        return self._now_ms

    def left(self, t: Tables) -> DataFrame:
        def make() -> DataFrame:
            generations, epochs, commits = (t[f"silver/{name}"] for name in ("generations", "epochs", "commits"))
            beside: Mapping[str, DataFrame | pa.Table] | None = beside_of_files(t)
            if beside is None:
                beside = by_group.beside(generations, epochs, t["silver/gaps"], self.names(t))
            since_ms = log_ends.since(self.now_ms(t))
            return by_group.left(generations, epochs, commits, beside, since_ms, self._tasks, self.shelf(t))

        return self._keep("left", make)

    def facts(self, t: Tables) -> DataFrame:
        def make() -> DataFrame:
            left, shelf = self.left(t), self.shelf(t)
            asked = logs.logs(left, t["silver/ends"], t["silver/topics"], self._tasks, shelf)
            return facts.facts(left, asked, self.now_ms(t), self._allowed_lag, self._tasks, shelf)

        return self._keep("facts", make)

    def names(self, t: Tables) -> DataFrame:
        # Where no epoch speaks of an id, which is known as soon as the few are, nothing is read at all.
        spoken = F.broadcast(histories.spoken_ids(t["silver/epochs"]).select("topic_id").distinct())
        known = (t[name].join(spoken, "topic_id", "left_semi") for name in ("silver/commits", "silver/topics"))
        return histories.topic_names(*known)

    def whatif(self, t: Tables, assignors: Sequence[str] | None) -> Bundled:
        planners = int(t["silver/ends"].sparkSession.conf.get("spark.sql.shuffle.partitions") or 2) * TASKS_A_CORE
        left, facts, dealt = self.left(t), self.facts(t), (self._tasks, planners, self.shelf(t))
        asked = self._keep("asked", lambda: plan_bundles.asked(left, facts, *dealt))
        settled = plan_bundles.settled(asked, t["silver/ends"], *dealt)
        return plan_bundles.planned(settled, assignors, *dealt)

    def _keep(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        if name not in self._kept:
            self._kept[name] = session.keep(make())
        return self._kept[name]
