"""Plans side by side as tables: strategies compared, and steps one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.comparison import JUDGED, Comparison, named
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.model.plan import Plan
from apportion.model.present import contested, measure_now, observed_lag_known, unowned
from apportion.model.to_names import partitions_to_names
from apportion.report import task_roles
from apportion.report.text import Cell, TextTable, span
from apportion.wording import count, partitions_in_words, proof_in_words, shorten

SHOWN: Final = {
    "load_squares": "load",
    "load_cost": "load",
    "spread_squares": "spread",
    "moves": "moves",
    "lag_max": "lag_max",
    "rack_misses": "cross_rack",
}
"""The column that shows each judged measure."""


def comparison_table(comparison: Comparison, *, marks: bool = True) -> TextTable:
    """A row a strategy below one for the present owners.

    marks
        ``*`` marks the least of a column; False leaves numbers to programs, and names those columns in one of its own.
    """
    group = comparison.group
    now = measure_now(group)
    # Of what can be had: the least among plans that leave nothing undone.
    least = {name: min(Fraction(p.measures[name]) for p in comparison.complete if name in p.measures)
             for name in JUDGED if any(name in p.measures for p in comparison.complete)}  # fmt: skip
    if "load_cost" in least:
        del least["load_squares"]  # the fairest loads are those for the members' capacities
    rows = [_row("(now)", group, group.owner, now, {}, None, marks)]
    if comparison.saved is not None:
        owner = comparison.saved.owners_in(group)
        rows.append(_row("(saved)", group, owner, measure(group, owner), {}, None, marks))
    whole = {id(p) for p in comparison.complete}
    for p in comparison.plans:
        judged = {name: Fraction(p.measures[name]) == least[name] for name in least if name in p.measures}
        best = judged if id(p) in whole else {}
        proof = proof_in_words(p.proof) if p.proof else None
        rows.append(_row(named(p), group, p.owner, p.measures, best, proof, marks))
    columns = [
        *("ASSIGNOR", "LOAD", "SQUARES", "SPREAD", "MOVES", "LAG-MAX", "LAG-BOUND", "CROSS-RACK", "UNOWNED", "PROOF")
    ]
    extra = {"SQUARES", "LAG-BOUND"}
    # A plan counts 0 where nothing tells a lag: a table of such zeros would look as if all were read.
    extra |= {"LAG-MAX"} if "lag_max" not in now or not observed_lag_known(group) else set()
    extra |= {"CROSS-RACK"} if not group.knows_racks else set()
    extra |= {"UNOWNED"} if not any(row[8] for row in rows) else set()
    extra |= {"SPREAD"} if group.T < 2 else set()
    if not marks:
        columns.append("BEST")
    return TextTable(tuple(columns), rows, extra=frozenset(extra))


def _row(
    name: str, group: Group, owner: Ints, m: dict[str, int], best: dict[str, bool], proof: str | None, marks: bool
) -> tuple[Cell, ...]:
    def marked(measure: str, shown: Cell = None) -> Cell:
        value = m.get(measure) if shown is None else shown
        return f"{value} *" if marks and best.get(measure) else value

    load = span(m["load_min"], m["load_max"])
    balance = "load_cost" if "load_cost" in best else "load_squares"
    return (
        name, marked(balance, load), m["load_squares"], marked("spread_squares"), marked("moves"), marked("lag_max"),
        m.get("lag_bound"), marked("rack_misses"), unowned(group, owner), proof,
        *(() if marks else (" ".join(column for measure, column in SHOWN.items() if best.get(measure)) or None,)),
    )  # fmt: skip


def notes_now(group: Group) -> list[str]:
    """The part of the present owners that a table's row cannot say: partitions that several members read."""
    twice = contested(group)
    if not twice.any():
        return []
    names = shorten(partitions_in_words(partitions_to_names(group, twice)), 120)
    return [f"(now) {count(int(twice.sum()), 'partition is', 'partitions are')} read by several members: {names}."]


def steps(group: Group, planned: Sequence[tuple[str, Plan]]) -> TextTable:
    """A row a step below one for the group as it was."""
    rows: list[tuple[Cell, ...]] = [("(now)", *_state(group, group.owner, measure_now(group)))]
    rows += [(step, *_state(p.group, p.owner, p.measures)) for step, p in planned]
    columns = ["STEP", "#MEMBERS", "#PARTITIONS", "LOAD", "MOVES", "NEW", "LAG-MAX", "CROSS-RACK", "UNOWNED"]
    racks = any(p.group.knows_racks for _, p in planned)
    extra = {"LAG-MAX"} if not any(row[6] for row in rows) else set()
    extra |= {"CROSS-RACK"} if not racks else set()
    extra |= {"UNOWNED"} if not any(row[8] for row in rows) else set()
    if task_roles.has_roles(p for _, p in planned):
        columns += task_roles.COLUMNS
        roles: list[tuple[Cell, ...]] = [(None,) * len(task_roles.COLUMNS), *(task_roles.cells(p) for _, p in planned)]
        rows = [(*row, *cells) for row, cells in zip(rows, roles, strict=True)]
    return TextTable(tuple(columns), rows, extra=frozenset(extra))


def _state(group: Group, owner: Ints, m: dict[str, int]) -> tuple[Cell, ...]:
    load = span(m["load_min"], m["load_max"])
    new = int(np.count_nonzero((group.owner == NOBODY) & (owner != NOBODY)))
    nobodys = unowned(group, owner)
    return group.M, m["partitions"], load, m["moves"], new, m.get("lag_max"), m["rack_misses"], nobodys


def step_notes(planned: Sequence[tuple[str, Plan]]) -> list[str]:
    """The cost of all steps together, and the proofs about the last."""
    last = planned[-1][1]
    moves = sum(p.measures["moves"] for _, p in planned)
    return [
        f"{count(moves, 'move')} in all with {last.assignor}; NEW partitions had no owner, as after a member left.",
        *task_roles.step_notes(planned),
        f"Proof of the last step: {proof_in_words(last.proof)}.",
    ]
