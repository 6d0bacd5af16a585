"""Plans and strategies as tables and sentences for a terminal."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, get_args, get_origin

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.assignors import known, settings_of
from apportion.model.measures import lag_bound, lag_held, loads
from apportion.model.plan import Plan
from apportion.model.present import observed_lag_known
from apportion.model.to_names import owners_to_names, partitions_to_names
from apportion.report import task_roles
from apportion.report.text import TextTable
from apportion.wording import count, partitions_in_words, proof_in_words, shorten

NARROW: Final = 60
"""Places that a list of partitions takes in the narrow form."""
MOST_MEMBERS: Final = 40
"""Rows of members that the narrow form shows."""


def strategies(narrow: bool = False) -> TextTable:
    """Every known strategy with its goals, settings (cut if narrow) and the first line of its documentation."""
    rows = []
    for row in strategies_to_dict()["assignors"]:
        settings = ", ".join(row["settings"])
        cell = shorten(settings, NARROW) if narrow else settings
        rows.append((row["name"], " > ".join(row["goals"]) or None, cell or None, row["what"]))
    return TextTable(("NAME", "GOALS", "SETTINGS", "WHAT"), rows)


def strategies_to_dict() -> dict[str, Any]:
    """The register of strategies as JSON shows it."""
    rows = []
    for name, strategy in known().items():
        fields: tuple[dataclasses.Field[Any], ...] = (
            dataclasses.fields(strategy) if dataclasses.is_dataclass(strategy) else ()
        )
        defaults: dict[str, Any] = {field.name: field.default for field in fields}
        settings = [f"{key}={_choices(kind, defaults.get(key))}" for key, kind in settings_of(strategy).items()]
        summary = (strategy.__doc__ or "").strip().partition("\n")[0]
        rows.append({"name": name, "goals": list(strategy.goals), "settings": settings, "what": summary})
    return {"version": 1, "assignors": rows}


def _choices(kind: Any, default: Any) -> str:
    """A setting's default first, then the other values that it may take: ``topic|group``."""
    shown = _value(default)
    if kind is bool:
        return f"{shown}|{_value(not default)}"
    if get_origin(kind) is not None and all(isinstance(choice, str) for choice in get_args(kind)):
        return "|".join([shown, *(choice for choice in get_args(kind) if choice != default)])
    return shown


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def plan_members(plan: Plan, wide: bool = False) -> TextTable:
    """A row a member: how many partitions it has, how that changes, and which ones it has in this round."""
    group = plan.group
    held, lag = loads(plan.owner, group.M), lag_held(group, plan.owner)
    past, owner = group.owner, plan.owner
    moved = (past != NOBODY) & (owner != NOBODY) & (past != owner)
    gains = loads(np.where(owner != past, owner, NOBODY), group.M)
    loses = loads(np.where(owner != past, past, NOBODY), group.M)
    lag_known = "lag_max" in plan.measures and observed_lag_known(group)
    order = range(group.M) if wide else range(min(group.M, MOST_MEMBERS))
    rows = []
    for m in order:
        names = partitions_in_words(plan.assignment[group.members[m]], runs=not wide)
        rows.append((
            group.members[m], group.instance_ids[m], int(held[m]), int(lag[m]) if lag_known else None,
            int(gains[m]), int(loses[m]), names if wide else shorten(names, NARROW),
        ))  # fmt: skip
    settings = "".join(f", {key}={_value(value)}" for key, value in plan.settings.items())
    title = f"{group.name or 'group'}: {plan.assignor}{settings}, {count(int(moved.sum()), 'move')}"
    unused = {"INSTANCE-ID"} if not any(group.instance_ids) else set()
    unused |= set() if lag_known else {"LAG"}
    columns = ("MEMBER", "INSTANCE-ID", "#PARTITIONS", "LAG", "GAINS", "LOSES", "ASSIGNMENT")
    return TextTable(columns, rows, title, frozenset(unused))


def plan_notes(plan: Plan) -> list[str]:
    """The plan's measures and its proof, a sentence a line."""
    m = plan.measures
    shared = f"{count(m['partitions'], 'partition')} on {count(m['members'], 'member')}, {_span(m)} each"
    sentences = [f"{shared}; {m['kept']:,} kept, {count(m['moves'], 'move')}."]
    if plan.group.M > MOST_MEMBERS:
        sentences.append(f"The table may show the first {MOST_MEMBERS} of {plan.group.M:,} members; -o wide shows all.")
    if "lag_max" in m and not observed_lag_known(plan.group):
        sentences.append("No lag is known: no partition has a committed offset.")
    elif "lag_max" in m:
        unknown = f"; unknown of {count(m['lag_unknown'], 'partition')}" if m["lag_unknown"] else ""
        even = " with counts as even" if m["lag_bound"] > lag_bound(plan.group, plan.owner) else ""
        bound = f"no plan{even} gets below {m['lag_bound']:,}{unknown}."
        sentences.append(f"Heaviest member: {m['lag_max']:,} messages; {bound}")
        uneven = getattr(plan.answer.certificate, "uneven", None)
        sentences += filter(None, [uneven(plan.group)] if even and uneven else [])
    if plan.group.knows_racks:
        sentences.append(f"{count(m['rack_misses'], 'partition')} read across racks.")
    sentences += task_roles.notes(plan)
    if plan.withheld.any():
        names = shorten(partitions_in_words(partitions_to_names(plan.group, plan.withheld)), 200)
        sentences.append(f"Withheld for one round, until the old owner lets go: {names}.")
    if plan.unassigned:
        sentences.append(f"Without an owner: {shorten(partitions_in_words(plan.unassigned), 200)}.")
    fallen = plan.ignored
    for claim in fallen[:5]:
        sentences.append(
            f"Ignored: {claim['member']}'s claim on {claim['topic']}-{claim['partition']} ({claim['why']})."
        )
    if len(fallen) > 5:
        sentences.append(f"Ignored besides: {count(len(fallen) - 5, 'claim')}; -o json lists them all.")
    sentences.append(f"Proof: {proof_in_words(plan.proof)}.")
    return sentences


def _span(m: dict[str, int]) -> str:
    return f"{m['load_min']:,}" if m["load_min"] == m["load_max"] else f"{m['load_min']:,} to {m['load_max']:,}"


def plan_rows(plan: Plan) -> TextTable:
    """A row a partition: its owner now, before, and whether it is withheld; for CSV and NDJSON."""
    group = plan.group
    name = [*group.members, None]
    rows = [
        (group.topics[t], number, name[now], name[then], name[target])
        for t, number, now, then, target in zip(
            group.topic_of.tolist(), group.number.tolist(), plan.owner_now.tolist(), group.owner.tolist(),
            plan.owner.tolist(), strict=True,
        )
    ]  # fmt: skip
    return TextTable(("TOPIC", "PARTITION", "MEMBER", "MEMBER-BEFORE", "MEMBER-TARGET"), rows)


def diff_to_dict(plan: Plan, past: Ints) -> dict[str, Any]:
    """Member to its gains and losses: ``{"a": {"gains": {...}, "loses": {...}}}``.

    past
        (P,) the owners to compare with, -1 nobody: those that stand, or another plan's.
    """
    group, owner = plan.group, plan.owner
    changed = owner != past
    gains = owners_to_names(group, np.where(changed, owner, NOBODY))
    loses = owners_to_names(group, np.where(changed, past, NOBODY))
    members = (group.members[m] for m in np.unique(np.concatenate([past[changed], owner[changed]])) if m != NOBODY)
    return {member: {"gains": gains[member], "loses": loses[member]} for member in members}


def diff(plan: Plan, past: Ints, called: str) -> TextTable:
    """Each member's changes from those owners to the plan; members without any are left out."""
    rows = [
        (member, sign, partitions_in_words(change[kind]))
        for member, change in diff_to_dict(plan, past).items()
        for sign, kind in (("-", "loses"), ("+", "gains"))
        if change[kind]
    ]
    return TextTable(("MEMBER", "", "PARTITIONS"), rows, f"Against {called}:")
