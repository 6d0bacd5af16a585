"""Limits on a plan or on the present owners, and which of them are breached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.model.measures import lag_held, loads
from apportion.model.plan import Plan
from apportion.model.plan_json import SavedPlan
from apportion.model.present import (
    LEAST_SHARED,
    contested,
    lag_now,
    loads_now,
    measure_now,
    observed_lag,
    topic_shares,
    unowned,
)
from apportion.model.to_names import partitions_to_names
from apportion.wording import partitions_in_words, shorten

Limits = dict[str, int | float | bool]
"""Policy as the command line names it (``max-moves``) to its limit."""


def facts_of_plan(plan: Plan) -> dict[str, Any]:
    """The inputs of the limits: see ``_facts``; and the goals that are not proved optimal."""
    return {**_facts(plan.group, plan.owner, plan.measures), "require-proof": _unproved(plan.proof)}


def facts_of_owners(group: Group) -> dict[str, Any]:
    """The inputs of the limits for the present owners: nothing about them is proved and nothing moves."""
    return _facts(group, group.owner, measure_now(group))


def facts_of_nobody(group: Group) -> dict[str, Any]:
    """The inputs of the limits for a group without members: all that is unread waits, and no partition has an owner."""
    lag = observed_lag(group)
    facts = dict.fromkeys(("max-moves", "max-skew", "max-lag-share", "max-topic-share", "max-double-readers"), 0)
    known = lag != UNKNOWN
    return {
        **facts, "max-cross-rack": None, "max-unowned": group.P,
        "max-lag": sum(lag[known].tolist()) if known.any() or not group.P else None, **_unknown(group, ~known),
    }  # fmt: skip


def facts_untold(group: Group) -> dict[str, Any]:
    """The inputs of the limits for a group whose table does not show the readers: no figure, and why."""
    lag = observed_lag(group)
    total = f", so not with whom its lag of {lag[lag != UNKNOWN].sum():,} is" if (lag != UNKNOWN).any() else ""
    why = f"a table that does not show which member reads{total}"
    on_owners = (
        "max-lag",
        "max-lag-share",
        "max-skew",
        "max-topic-share",
        "max-moves",
        "max-unowned",
        "max-cross-rack",
    )
    return {"unknown": dict.fromkeys((*on_owners, "max-double-readers"), why)}


def _unknown(group: Group, partitions: Bools) -> dict[str, Any]:
    """Why limits on lag cannot pass: a plan counts 0 for a lag that is not known, which may be the one that matters."""
    if not partitions.any():
        return {}
    names = shorten(partitions_in_words(partitions_to_names(group, partitions)), 100)
    return {"unknown": dict.fromkeys(("max-lag", "max-lag-share"), f"that the lag of {names} is not known")}


def _facts(group: Group, owner: Ints, m: dict[str, int]) -> dict[str, Any]:
    now = owner is group.owner
    facts = {**_of_measures(m), "max-lag-share": None, "max-unowned": unowned(group, owner)}
    known = observed_lag(group) != UNKNOWN
    if (group.wanted & known).any():
        facts |= _unknown(group, group.wanted & ~known)
        total = sum(group.lag[group.wanted].tolist())  # what nobody wants is nobody's work
        heaviest = int((lag_now(group) if now else lag_held(group, owner)).max())
        facts["max-lag-share"] = heaviest / total if total > 0 else 0.0
        if now:  # what nobody reads waits, and never gets less
            nobodys = group.wanted & (owner == NOBODY) & ~contested(group)
            facts["max-lag"] = max(heaviest, sum(group.lag[nobodys].tolist()))
    else:
        facts["max-lag"] = None
    if group.has_capacities:
        # Unequal loads are what capacities ask for. Exact: as floats 2.2 - 1.2 is more than 1.
        held = loads_now(group) if now else loads(owner, group.M)
        relative = list(map(Fraction, held.tolist(), group.capacity.tolist()))
        facts["max-skew"] = max(relative) - min(relative)
    facts["max-topic-share"] = max((share for _, share in topic_shares(group, owner)), default=0.0)
    facts["max-double-readers"] = m.get("double_readers", 0)
    if now and group.wanted.any() and not len(group.claims.partition):
        # As in a rebalance: nobody can tell how even owners are that are not told.
        facts.update(dict.fromkeys(("max-skew", "max-topic-share", "max-lag-share", "max-cross-rack")))
    if not group.knows_racks:
        facts["max-cross-rack"] = None  # where no rack is known nobody can tell that none is crossed
    return facts


def _of_measures(m: Mapping[str, int]) -> dict[str, Any]:
    return {
        "max-moves": m["moves"],
        "max-skew": m["load_max"] - m["load_min"],
        "max-lag": m.get("lag_max"),
        "max-cross-rack": m["rack_misses"],
    }


def facts_of_saved(saved: SavedPlan) -> dict[str, Any]:
    """The figures of a saved plan; a limit on a missing one is an error when it is asked for."""
    facts = {**_of_measures(saved.measures), "require-proof": _unproved(saved.proof)}
    facts["max-topic-share"] = _saved_share(saved)
    if "load_cost" in saved.measures:
        facts["max-skew"] = None  # a plan does not tell the capacities that its loads are to be held against
    if "racks" not in saved.proof and not saved.measures["rack_misses"]:
        facts["max-cross-rack"] = None  # no misses where racks are unknown means nothing
    return facts


def _saved_share(saved: SavedPlan) -> float:
    """The greatest share of one topic's partitions on one member, of topics with two and more."""
    size: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for held in (*saved.owned.values(), saved.raw["unassigned"]):
        for topic, ids in held.items():
            size[topic] += len(ids)
    for held in saved.owned.values():
        for topic, ids in held.items():
            largest[topic] = max(largest[topic], len(ids))
    return max((largest[topic] / n for topic, n in size.items() if n >= LEAST_SHARED), default=0.0)


def _unproved(proof: Mapping[str, str]) -> list[str]:
    """Goals that are not proved optimal; a strategy that promises nothing proves nothing."""
    return [f"{goal} {how}" for goal, how in proof.items() if how != "optimal"] or ([] if proof else ["nothing"])


def breaches(limits: Limits, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Each limit that is breached: ``{"policy": "max-moves", "limit": 10, "found": 12}``.

    Raises
        BadInput: none is breached, and of one the figure is not known.
    """
    breached: list[dict[str, Any]] = []
    unknown: list[BadInput] = []
    for policy, limit in limits.items():
        fact, why = facts.get(policy), facts.get("unknown", {}).get(policy)
        if fact is None or why:
            needed = "a group that has it: owners, committed offsets or lag, racks, capacities, topics"
            unknown.append(BadInput(f"--{policy}", why or "an input without it", needed))
        if fact is None:
            continue
        if policy == "require-proof":
            if fact:
                breached.append({"policy": policy, "limit": "optimal", "found": ", ".join(fact)})
        elif fact > limit:
            breached.append({"policy": policy, "limit": limit, "found": _rounded(fact, limit)})
    if unknown and not breached:
        raise unknown[0]
    return breached


def _rounded(fact: float | Fraction, limit: float) -> int | float:
    """To four places, or as many as it takes to distinguish the figure from the limit below it."""
    if isinstance(fact, int):
        return fact
    roundings = (round(float(fact), places) for places in range(4, 17))
    return next((rounded for rounded in roundings if rounded > limit), float(fact))
