"""A group's whole history under every strategy, summed up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.assignors import Assignor, known
from apportion.errors import ApportionError
from apportion.history.group_history import GroupHistory
from apportion.history.task_groups import variants


def replay_totals(history: GroupHistory) -> dict[str, dict[str, Any]]:
    """Strategy to its ``totals_of``, for every strategy that can replay the group."""
    replays_of: dict[str, dict[str, Any]] = {}
    if not history.rebalances:
        return replays_of
    names = known(unlisted=False)
    strategies: Mapping[str, str | Assignor] = (
        variants() if history.runs_tasks else dict(zip(names, names, strict=True))
    )
    for name, strategy in strategies.items():
        try:
            replays_of[name] = totals_of(history.replay(strategy))
        except ApportionError:
            continue
    return replays_of


def totals_of(walked: Mapping[str, Any]) -> dict[str, Any]:
    """One replay's totals, and its moves and those that really happened, by the offset of each record."""
    by_offset = {row["source_offset"]: row["moves"] for row in walked["generations"]}
    then = {row["source_offset"]: row["moves_then"] for row in walked["generations"]}
    return {**walked["total"], "by_offset": by_offset, "then": then}
