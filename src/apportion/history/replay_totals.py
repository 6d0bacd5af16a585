"""A group's whole history under every strategy, summed up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from apportion.assignors import Assignor, known
from apportion.errors import ApportionError
from apportion.history.fold import Folded
from apportion.history.rebalances import Rebalance
from apportion.history.task_replay import VARIANTS, TaskStrategy


class Past(Protocol):
    """A group's history, however much of it is remembered."""

    @property
    def folded(self) -> Folded:
        """Its generations."""

    @property
    def rebalances(self) -> list[Rebalance]:
        """What each rebalance changed."""

    @property
    def runs_tasks(self) -> bool:
        """Whether it is a group of Kafka Streams, whose tasks are replayed."""

    def replay(self, assignor: str | Assignor | TaskStrategy) -> dict[str, Any]:
        """The JSON of ``apportion replay``."""


def replay_totals(history: Past) -> dict[str, dict[str, Any]]:
    """Strategy to its totals, and to its moves and those that really happened, by the offset of each record."""
    replays_of: dict[str, dict[str, Any]] = {}
    if not history.rebalances:
        return replays_of
    strategies: Mapping[str, str | TaskStrategy] = VARIANTS if history.runs_tasks else {name: name for name in known()}
    for name, strategy in strategies.items():
        try:
            walked: Mapping[str, Any] = history.replay(strategy)
        except ApportionError:
            continue
        by_offset = {row["source_offset"]: row["moves"] for row in walked["generations"]}
        then = {row["source_offset"]: row["moves_then"] for row in walked["generations"]}
        replays_of[name] = {**walked["total"], "by_offset": by_offset, "then": then}
    return replays_of
