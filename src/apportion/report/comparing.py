"""Plans side by side: strategies compared, and steps one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.assignors import known
from apportion.errors import ApportionError, UnknownName
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.model.plan import Plan
from apportion.planning import plan
from apportion.report.tables import proof_in_words
from apportion.report.text import Cell, Table, count

JUDGED: Final = ("load_squares", "moves", "lag_max", "rack_misses")
"""Measures of which less is better."""
SHOWN: Final = {"load_squares": "load", "moves": "moves", "lag_max": "lag_max", "rack_misses": "cross_rack"}
"""The column that shows each judged measure."""
WORTH: Final = 0.8
"""Lag on the heaviest member must fall to this share before it is worth moves."""
NEARLY: Final = 0.9
"""The lightest plan is not worth more moves than one whose heaviest member it relieves by a tenth."""
STATEFUL: Final = frozenset({"streams"})
"""Strategies that place state: shown, but no advice for a group of which nobody knows that it has any."""


@dataclass(frozen=True)
class Comparison:
    """One group under several strategies.

    failed
        Strategy to why it gave no plan.
    """

    group: Group
    plans: Sequence[Plan]
    failed: dict[str, str]

    @property
    def complete(self) -> list[Plan]:
        """Plans that give an owner to as many partitions as any plan does: others look light by leaving work undone."""
        given = [int((p.owner != NOBODY).sum()) for p in self.plans]
        return [p for p, n in zip(self.plans, given, strict=True) if n == max(given)]

    @property
    def best(self) -> dict[str, str]:
        """Measure to the strategy with the least of it; of equals, the one with the better rank, see ``_rank``."""
        best = {}
        for name in JUDGED:
            judged = [p for p in self.complete if name in p.measures]
            if judged and (name != "rack_misses" or _racks_known(self.group)):
                best[name] = min(judged, key=lambda p: (p.measures[name], _rank(p))).assignor
        return best

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``apportion compare``."""
        result: dict[str, Any] = {
            "version": 1,
            "group": self.group.name,
            "plans": [p.to_dict() for p in self.plans],
            "best": self.best,
        }
        if self.failed:
            result["failed"] = self.failed
        return result


def compare(group: Group, names: Sequence[str] = ()) -> Comparison:
    """Plan the group with each strategy at its default settings, or with these alone; one that fails says why."""
    for name in names:
        if name not in known():
            raise UnknownName("assignor", name, known())
    plans, failed = [], {}
    for name in dict.fromkeys(names) or known():
        try:
            plans.append(plan(group, name))
        except ApportionError as error:
            failed[name] = str(error)
    if not plans:
        raise ApportionError(
            "no strategy could plan this group: " + "; ".join(f"{n}: {why}" for n, why in failed.items())
        )
    return Comparison(group, plans, failed)


def _rank(p: Plan) -> tuple[int, int, int, int, bool, str]:
    """Fairest, then nearest, then stillest, then least loaded with lag; of equals one that stops nobody."""
    m = p.measures
    return m["load_squares"], m["rack_misses"], m["moves"], m.get("lag_max", 0), not p.cooperative, p.assignor


def _racks_known(group: Group) -> bool:
    return group.racks is not None and group.racks.known


def comparison_table(comparison: Comparison, *, marks: bool = True) -> Table:
    """A row a strategy below one for the present owners.

    marks
        ``*`` marks the least of a column; False leaves numbers to programs, and names those columns in one of its own.
    """
    group = comparison.group
    now = measure(group, group.owner)
    # Of what can be had: the least among plans that leave nothing undone.
    least = {name: min(p.measures[name] for p in comparison.complete if name in p.measures)
             for name in JUDGED if any(name in p.measures for p in comparison.complete)}  # fmt: skip
    rows = [_row("(now)", group, group.owner, now, {}, None, marks)]
    whole = {id(p) for p in comparison.complete}
    for p in comparison.plans:
        best = {name: p.measures.get(name) == value for name, value in least.items()} if id(p) in whole else {}
        proof = proof_in_words(p.proof) if p.proof else None
        rows.append(_row(p.assignor, group, p.owner, p.measures, best, proof, marks))
    columns = ["ASSIGNOR", "LOAD", "SQUARES", "MOVES", "LAG-MAX", "LAG-BOUND", "CROSS-RACK", "UNOWNED", "PROOF"]
    extra = {"SQUARES", "LAG-BOUND"}
    extra |= {"LAG-MAX"} if "lag_max" not in now else set()
    extra |= {"CROSS-RACK"} if not _racks_known(group) else set()
    extra |= {"UNOWNED"} if not any(row[7] for row in rows) else set()
    if not marks:
        columns.append("BEST")
    return Table(tuple(columns), rows, extra=frozenset(extra))


def _row(
    name: str, group: Group, owner: Ints, m: dict[str, int], best: dict[str, bool], proof: str | None, marks: bool
) -> tuple[Cell, ...]:
    def marked(measure: str, shown: Cell = None) -> Cell:
        value = m.get(measure) if shown is None else shown
        return f"{value} *" if marks and best.get(measure) else value

    load = f"{m['load_min']}-{m['load_max']}" if m["load_min"] != m["load_max"] else str(m["load_min"])
    unowned = int((group.wanted & (owner == NOBODY)).sum())
    return (
        name, marked("load_squares", load), m["load_squares"], marked("moves"), marked("lag_max"), m.get("lag_bound"),
        marked("rack_misses"), unowned, proof,
        *(() if marks else (" ".join(column for measure, column in SHOWN.items() if best.get(measure)) or None,)),
    )  # fmt: skip


def advice(comparison: Comparison) -> list[str]:
    """One sentence that names a strategy and says why, and one for each that failed."""
    fairest = min([p for p in comparison.complete if p.assignor not in STATEFUL] or comparison.complete, key=_rank)
    sentences = [_advise(comparison, fairest)]
    sentences += [f"{name} gave no plan: {why}" for name, why in comparison.failed.items()]
    partial = [p.assignor for p in comparison.plans if p not in comparison.complete]
    if partial:
        sentences.append(f"Not judged, as they leave partitions without an owner: {', '.join(partial)}.")
    return sentences


def _advise(comparison: Comparison, fairest: Plan) -> str:
    m = fairest.measures
    lighter = _lighter(comparison, m) if "lag_max" in m else None
    if lighter is not None:
        its = lighter.measures
        return (
            f"Advice: {_asked_for(lighter)}, while this lag lasts: the heaviest member has {its['lag_max']:,} messages "
            f"to read instead of {m['lag_max']:,} under {fairest.assignor}, for {count(its['moves'], 'move')} "
            f"instead of {m['moves']:,}."
        )
    why = [_shared(m)]
    others = [p for p in comparison.complete if p.measures["load_squares"] == m["load_squares"]]
    most = max(others, key=lambda p: p.measures["moves"])
    if most.measures["moves"] > m["moves"]:
        why.append(f"it moves {m['moves']:,} where {most.assignor}, as fair, moves {most.measures['moves']:,}")
    else:
        why.append(f"it moves {m['moves']:,}")
    if fairest.proof and set(fairest.proof.values()) == {"optimal"}:
        why.append("no fairer plan moves less, which is proved")
    if fairest.cooperative:
        why.append("members go on reading what they keep")
    return f"Advice: {fairest.assignor}: {'; '.join(why)}."


def _lighter(comparison: Comparison, m: dict[str, int]) -> Plan | None:
    """The plan to take while lag is worth moves: nearly the lightest there is, and of those the one that moves least.

    Lag-aware is asked over all topics too, where it was compared at all.
    m
        Measures of the plan that would be taken if nothing lagged.
    """
    worth = WORTH * m["lag_max"]
    if m.get("lag_bound", 0) >= worth:
        return None
    judged = [p for p in comparison.complete if "lag_max" in p.measures and p.assignor not in STATEFUL]
    if any(p.assignor == "lag-aware" for p in judged):
        judged.append(plan(comparison.group, "lag-aware", {"scope": "group"}))
    least = min((p.measures["lag_max"] for p in judged), default=worth)
    if least >= worth:
        return None
    return min(
        (p for p in judged if p.measures["lag_max"] * NEARLY <= least), key=lambda p: (p.measures["moves"], _rank(p))
    )


def _asked_for(p: Plan) -> str:
    """The strategy as the command line takes it."""
    return " ".join([p.assignor, *(f"--set {key}={value}" for key, value in p.settings.items())])


def _shared(m: dict[str, int]) -> str:
    if m["load_min"] == m["load_max"]:
        return f"every member gets {m['load_min']:,}"
    return f"members get {m['load_min']:,} to {m['load_max']:,}"


def steps(group: Group, planned: Sequence[tuple[str, Plan]]) -> Table:
    """A row a step below one for the group as it was."""
    rows = [("(now)", *_state(group, group.owner, measure(group, group.owner)))]
    rows += [(step, *_state(p.group, p.owner, p.measures)) for step, p in planned]
    columns = ("STEP", "#MEMBERS", "#PARTITIONS", "LOAD", "MOVES", "NEW", "LAG-MAX", "CROSS-RACK", "UNOWNED")
    racks = any(_racks_known(p.group) for _, p in planned)
    extra = {"LAG-MAX"} if not any(row[6] for row in rows) else set()
    extra |= {"CROSS-RACK"} if not racks else set()
    extra |= {"UNOWNED"} if not any(row[8] for row in rows) else set()
    return Table(columns, rows, extra=frozenset(extra))


def _state(group: Group, owner: Ints, m: dict[str, int]) -> tuple[Cell, ...]:
    load = f"{m['load_min']}-{m['load_max']}" if m["load_min"] != m["load_max"] else str(m["load_min"])
    new = int(np.count_nonzero((group.owner == NOBODY) & (owner != NOBODY)))
    unowned = int((group.wanted & (owner == NOBODY)).sum())
    return group.M, m["partitions"], load, m["moves"], new, m.get("lag_max"), m["rack_misses"], unowned


def step_notes(planned: Sequence[tuple[str, Plan]]) -> list[str]:
    """What all steps cost together, and what is proved of the last."""
    last = planned[-1][1]
    moves = sum(p.measures["moves"] for _, p in planned)
    return [
        f"{count(moves, 'move')} in all with {last.assignor}; NEW partitions had no owner, as after a member left.",
        f"Proof of the last step: {proof_in_words(last.proof)}.",
    ]
