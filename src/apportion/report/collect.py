"""The page's data from what a dump or the tables remember: the present, its plans, its past, and the past replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from apportion.assignors import known
from apportion.errors import ApportionError
from apportion.history.memory import Remembered
from apportion.history.records import Generation
from apportion.model.group import Group
from apportion.model.names import build
from apportion.model.plan import Plan
from apportion.planning import plan
from apportion.report.data import group_data

Say = Callable[[str], None]
"""Takes a line of progress."""


def remembered(
    groups: Iterable[Remembered], verdicts: Mapping[str, tuple[str, str]] | None = None, say: Say = lambda _: None
) -> list[dict[str, Any]]:
    """Every group as the page shows it.

    verdicts
        Group to its verdict (OK, WARN, STALL, STOP, REWIND) and the reason, where they are known.
    say
        Is told each group before the work on it.
    """
    result = []
    for group in groups:
        say(group.name)
        result.append(_one(group, (verdicts or {}).get(group.name, ("", ""))))
    return result


def group_page(group: Group, plans: Sequence[Plan]) -> dict[str, Any]:
    """A group without a history: a file, pasted text, or a live one."""
    return group_data(group, plans)


def _one(group: Remembered, verdict: tuple[str, str]) -> dict[str, Any]:
    present = group.present
    facts = {"verdict": verdict[0], "why": verdict[1]}
    if present is not None:
        facts |= {"state": present.state, "protocol": present.protocol or present.type}
    data = group_data(
        build(group.raw),
        plans_of(group.raw) if group.raw["members"] else [],
        facts={**facts, "generation": present.generation if present is not None else None},
        history=_history(group),
        replays=_replays(group),
    )
    data["lag_known"] = data["lag_known"] or any(row.lag is not None for row in group.lags)
    return data


def plans_of(raw: Mapping[str, Any]) -> list[Plan]:
    """What every strategy would do with the group, the lag-aware one in both scopes; one that cannot is left out."""
    group = build(raw)
    plans = []
    for name, settings in [*((name, {}) for name in known()), ("lag-aware", {"scope": "group"})]:
        try:
            plans.append(plan(group, name, settings))
        except ApportionError:
            continue
    return plans


def _history(group: Remembered) -> list[dict[str, Any]]:
    """Each generation with its owners, and what the rebalance that led to it changed."""
    generations = group.folded.generations
    changed = {row.source_offset: row for row in group.rebalances}
    labels = _labels(generations)
    result = []
    for generation in generations:
        row = changed.get(generation.offset)
        result.append(
            {
                "generation": generation.number,
                "at": datetime.fromtimestamp(generation.at / 1000, UTC).isoformat(timespec="milliseconds"),
                "cause": row.cause if row is not None else "first",
                "members": len(generation.members),
                "owners": {place: labels[who] for place, who in generation.owners().items()},
                **({} if row is None else _counts(row)),
            }
        )
    return result


def _counts(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("moved", "kept", "given", "needless", "complete")}


def _labels(generations: Sequence[Generation]) -> dict[str, str]:
    """Identity to how pictures call it: an instance id, a client id of one member alone, else the member id."""
    clients: dict[str, set[str]] = {}
    for generation in generations:
        for seat in generation.members:
            clients.setdefault(seat.client_id or "", set()).add(seat.identity)
    labels = {}
    for generation in generations:
        for seat in generation.members:
            alone = seat.client_id and len(clients[seat.client_id]) == 1
            labels[seat.identity] = seat.instance_id or (seat.client_id if alone else None) or seat.member_id
    return labels


def _replays(group: Remembered) -> list[dict[str, Any]]:
    """Moves of each generation under every strategy that can walk the history."""
    result = []
    for name in known() if len(group.folded.generations) > 1 else ():
        try:
            walked = group.replay(name)["generations"]
        except ApportionError:
            continue
        moves = {row["source_offset"]: row["moves"] for row in walked}
        result.append({"assignor": name, "moves": [moves.get(g.offset) for g in group.folded.generations]})
    return result
