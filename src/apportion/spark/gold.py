"""The gold tables in the order they are made: from what one pass over groups leaves, wherever Spark runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import finalize

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.history.lag_time import WINDOW_S
from apportion.spark import by_group, facts, histories, log_ends, logs, plan_bundles, schemas, standing
from apportion.spark.bundles import Bundled, shelf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tables = Mapping[str, "DataFrame"]
TASKS_A_CORE: Final = 4
"""Pieces of ``gold/whatif`` per core: groups differ in size, so more pieces than cores."""
ROWS_A_TASK: Final = 500_000


def tasks_of(records: int) -> int:
    """Among how many tasks groups are dealt: an even number, for cores are, but by the dump's records alone."""
    return 1 if records < ROWS_A_TASK // 5 else 2 * (1 + records // ROWS_A_TASK)


def since(now_ms: int) -> int:
    """Where the window begins in which is looked how fast a group reads."""
    return now_ms - round(WINDOW_S * 1000)


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


class _Once:
    """What several tables are made from, computed once and kept on disk until the session ends."""

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
            generations, epochs, commits, gaps = (
                t[f"silver/{name}"] for name in ("generations", "epochs", "commits", "gaps")
            )
            names, since_ms = self.names(t), since(self.now_ms(t))
            return by_group.left(generations, epochs, commits, gaps, names, since_ms, self._tasks, self.shelf(t))

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
            from pyspark import StorageLevel

            self._kept[name] = make().persist(StorageLevel.DISK_ONLY)
        return self._kept[name]
