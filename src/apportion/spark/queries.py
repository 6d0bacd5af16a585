"""The gold tables by a query each: where tasks run on other machines, or the tables are in a lake.

On this machine ``gold`` makes them in one pass instead; both ask ``history``'s rules, and the rows are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from apportion.spark import commits, epochs, groups, histories, lag, planned_ends, verdicts, whatif

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tables = Mapping[str, "DataFrame"]
TASKS_A_CORE: Final = 4
"""Pieces of ``gold/whatif`` per core: groups differ in size, so more pieces than cores."""


def queries(allowed_lag: int, assignors: Sequence[str] | None) -> dict[str, Callable[[Tables], DataFrame]]:
    """Table -> how it is made from the silver tables and the gold ones before it; see ``gold.steps``."""
    once = _Once()
    return {
        "gold/commits": lambda t: commits.newest(t["silver/commits"]),
        "gold/groups": lambda t: groups.groups(once.present(t)),
        "gold/rebalances": lambda t: groups.rebalances_of(once.folded(t)),
        "gold/epochs": lambda t: epochs.epochs(once.histories(t)),
        "gold/lag": lambda t: lag.lag(
            t["gold/commits"], groups.wanted(once.present(t)), once.ends(t), t["silver/commits"]
        ),
        "gold/group_state": lambda t: groups.group_state(
            once.present(t), t["gold/commits"], once.ever_wanted(t), lag.topic_rows(once.ends(t))
        ),
        "gold/verdicts": lambda t: verdicts.verdicts(t["silver/commits"], t["gold/lag"], once.ends(t), allowed_lag),
        "gold/whatif": lambda t: once.whatif(t, assignors),
    }


class _Once:
    """What several tables are made from, computed once and kept on disk until the session ends."""

    def __init__(self) -> None:
        self._kept: dict[str, DataFrame] = {}

    def histories(self, t: Tables) -> DataFrame:
        return self._keep(
            "histories",
            lambda: histories.histories(
                t["silver/generations"], t["silver/epochs"], t["silver/commits"], t["silver/gaps"], self.names(t)
            ),
        )

    def names(self, t: Tables) -> DataFrame:
        return histories.topic_names(t["silver/commits"], t["silver/topics"])

    def ever_wanted(self, t: Tables) -> DataFrame:
        return groups.ever_wanted(t["silver/generations"], histories.names_of(t["silver/epochs"], self.names(t)))

    def folded(self, t: Tables) -> DataFrame:
        return self._keep("folded", lambda: groups.folded(self.histories(t)))

    def present(self, t: Tables) -> DataFrame:
        return groups.present(self.folded(t), t["gold/commits"])

    def ends(self, t: Tables) -> DataFrame:
        return self._keep("ends", lambda: lag.ends_now(t["silver/ends"], t["silver/topics"]))

    def whatif(self, t: Tables, assignors: Sequence[str] | None) -> DataFrame:
        state = t["gold/group_state"]
        heard = planned_ends.last_heard(t["silver/generations"], t["silver/epochs"], t["gold/commits"])
        tasks = int(state.sparkSession.conf.get("spark.sql.shuffle.partitions") or 2) * TASKS_A_CORE
        planned = planned_ends.as_planned(state, heard, t["silver/ends"], self.ends(t))
        return whatif.whatif(planned, self.histories(t), assignors, tasks=tasks)

    def _keep(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        if name not in self._kept:
            from pyspark import StorageLevel

            self._kept[name] = make().persist(StorageLevel.DISK_ONLY)
        return self._kept[name]
