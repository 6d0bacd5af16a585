"""The page's content, as plain data: one small dict a group, owners as indices into its members."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Ints
from apportion.comparison import named
from apportion.model.group import Group
from apportion.model.measures import measure, rack_misses
from apportion.model.plan import Plan
from apportion.model.present import measure_now
from apportion.report.describing import members_data
from apportion.report.group_list import found_by, row_of
from apportion.report.roles import roles_data
from apportion.sighting.judged import Judged

MOST_ROWS: Final = 240
"""Partitions that a heat map shows; movers come first, the page says how many are left out."""

DRAWN: Final = frozenset({"load_min", "load_max", "load_squares", "load_cost", "moves", "kept", "lag_max", "lag_bound"})
"""Measures of a plan that the page shows: of thousands of groups the others would be a fifth of it."""


def group_data(
    judged: Judged,
    plans: Iterable[Plan],
    *,
    advice: Sequence[str] = (),
    history: Sequence[Mapping[str, Any]] = (),
    replays: Sequence[Mapping[str, Any]] = (),
    planned: bool = False,
) -> dict[str, Any]:
    """One group of the page.

    plans
        What each strategy would do now.
    advice
        Sentences on what to do.
    history
        The group's rebalances in order, each with ``generation``, ``at`` (ISO 8601), ``cause``, ``members``
        (a count), ``moved``, ``kept``, ``given``, ``needless``, and ``owners``: (topic, partition) to member label.
        A cooperative move counts in the round that ends it, as in ``replays``.
    replays
        The same history under other strategies: ``assignor``, ``moves`` (one a rebalance), ``skew_max`` (most less
        fewest partitions, at worst) and ``skew_max_then``, what it really was.
    planned
        Whether the group is drawn as it may become: then nobody judges it, and no member is described.
    """
    seen, past = judged.sighting, _history(history)
    group = seen.group
    if judged.evidence.past is None and past["rebalances"]:
        judged = replace(judged, evidence=replace(judged.evidence, past=_past(past["rebalances"])))
    row = {**row_of(judged), **found_by(judged)}
    present = {"verdict": row["verdict"], "why": row["why"], "diagnosis": row["diagnosis"]}
    if planned:
        present = {"verdict": "", "why": [], "diagnosis": {}}
    lag = group.lag if group.offsets is not None else np.zeros(group.P, dtype=np.int64)
    return {
        "row": row | present,
        "group": group.name,
        "state": seen.state or "",
        "protocol": seen.assignor or "",
        "kind": seen.protocol or "",
        "generation": seen.generation,
        **present,
        "advice": list(advice),
        "roles": None if planned else roles_data(seen.protocol, seen.roles),
        "seats": None if planned else members_data(seen),
        "members": seen.labels_and_hosts[0],
        "topics": list(group.topics),
        "topic_of": group.topic_of.tolist(),
        "number": group.number.tolist(),
        "lag": lag.tolist(),
        # What a share group has read stands elsewhere; without a commit nothing tells where reading starts.
        "lag_known": bool((seen.lag != UNKNOWN).any()),
        "owner": group.owner.tolist(),
        "capacity": group.capacity.tolist() if group.has_capacities else None,
        "now": summary("now", group, group.owner, {}),
        "plans": [summary(named(plan), group, plan.owner, plan.proof, plan.measures) for plan in plans],
        "history": past,
        "replays": [dict(replay) for replay in replays],
    }


def _past(rebalances: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
    moved, needless = (sum(rebalance[field] or 0 for rebalance in rebalances) for field in ("moved", "needless"))
    return len(rebalances), moved, needless


def summary(
    name: str, group: Group, owner: Ints, proof: Mapping[str, str], measures: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """A strategy's plan, or the present, as the pictures need it."""
    if measures is None:
        measures = measure_now(group) if owner is group.owner else measure(group, owner)
    known = group.knows_racks
    return {
        "assignor": name,
        "measures": {key: value for key, value in measures.items() if name == "now" or key in DRAWN},
        "proof": dict(proof),
        "owner": owner.tolist(),
        "rack_misses": int(rack_misses(group, owner).sum()) if known else None,
        "assigned": int((owner != NOBODY).sum()),
    }


def _history(rebalances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rebalances, and a partition x generation matrix of owners with the movers first."""
    everybody = {owner for rebalance in rebalances for owner in rebalance.get("owners", {}).values()}
    labels = {label: i for i, label in enumerate(sorted(everybody, key=_natural))}
    rows = sorted({key for rebalance in rebalances for key in rebalance.get("owners", {})})
    matrix: dict[Any, list[int]] = {}
    for key in rows:
        owners = [rebalance.get("owners", {}).get(key) for rebalance in rebalances]
        matrix[key] = [NOBODY if o is None else labels[o] for o in owners]
    movers = [key for key in rows if _moves(matrix[key])]
    shown = set((movers + [key for key in rows if not _moves(matrix[key])])[:MOST_ROWS])
    drawn = [key for key in rows if key in shown]
    fields = ("generation", "at", "cause", "members", "moved", "kept", "given", "needless", "complete",
              "at_ms", "duration_ms", "kind", "eager", "still", "commits")  # fmt: skip
    row_of = {key: i for i, key in enumerate(drawn)}
    return {
        "rebalances": [{name: rebalance.get(name) for name in fields} for rebalance in rebalances],
        # Rows of the matrix that moved, by the definition that the bars count by; None where nobody counted.
        "movers": [
            sorted(row_of[key] for key in rebalance["movers"] if key in row_of) if "movers" in rebalance else None
            for rebalance in rebalances
        ],
        "labels": list(labels),
        "rows": [f"{topic}-{partition}" for topic, partition in drawn],
        "owners": [matrix[key] for key in drawn],
        "left_out": len(rows) - len(drawn),
    }


def _natural(label: str) -> tuple[list[tuple[int, str]], str]:
    """An order in which ``pod-2`` comes before ``pod-10``."""
    parts = re.split(r"([0-9]{1,18})", label)
    return [(int(part), "") if i % 2 else (-1, part) for i, part in enumerate(parts)], label


def _moves(owners: list[int]) -> int:
    """How often the owner changed from one member to another."""
    held = [o for o in owners if o != NOBODY]
    return sum(a != b for a, b in pairwise(held))
