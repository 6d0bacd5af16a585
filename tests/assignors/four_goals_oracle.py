"""The best value of each goal in an order, found without a line of ours: raw partitions, OR-tools, big weights.

Every partition is a node of its own, with an arc to each (topic, member) that may have it; units of load and of a topic
held are arcs of their own. The goals are one cost, with weights that keep their order on small groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any

from .sticky_judge import facts


def homes(raw: Mapping[str, Any]) -> list[int]:
    """For each partition the member with the newest claim that is older than the newest of all; -1 nobody."""
    parts, members, may, _, _ = facts(raw)
    order = sorted(
        members, key=lambda m: (not raw["members"][m].get("instance_id"), raw["members"][m].get("instance_id") or m)
    )
    home = []
    for i, (topic, number) in enumerate(parts):
        claims = []
        for name in order:
            member = raw["members"][name]
            if number in (member.get("owned") or {}).get(topic, []):
                generation = member.get("generation")
                claims.append((-1 if generation is None else generation, name))
        newest = max((g for g, _ in claims), default=None)
        old = [(g, name) for g, name in claims if g != newest and members.index(name) in may[i]]
        best = max((g for g, _ in old), default=None)
        home.append(next((members.index(name) for g, name in old if g == best), -1))
    return home


def values(raw: Mapping[str, Any], owner: Sequence[int]) -> dict[str, int]:
    """The goals' values of a plan; balance and spread times the least common multiple of the capacities."""
    parts, members, _, miss, past = facts(raw)
    capacity = [raw["members"][name].get("capacity") or 1 for name in members]
    whole = lcm(*capacity)
    load: dict[int, int] = {}
    held: dict[tuple[str, int], int] = {}
    for (topic, _), m in zip(parts, owner, strict=True):
        if m >= 0:
            load[m] = load.get(m, 0) + 1
            held[topic, m] = held.get((topic, m), 0) + 1
    return {
        "balance": sum(n * n * whole // capacity[m] for m, n in load.items()),
        "spread": sum(n * n * whole // capacity[m] for (_, m), n in held.items()),
        "racks": sum(m in miss[i] for i, m in enumerate(owner)),
        "moves": sum(past[i] not in (-1, m) for i, m in enumerate(owner)),
        "returned": -sum(home == m and m >= 0 for home, m in zip(homes(raw), owner, strict=True)),
    }


def best_values(raw: Mapping[str, Any], order: Sequence[str]) -> tuple[int, ...]:
    """The goals' values of a best plan, in order: one min-cost flow a goal, the earlier ones held by their weights."""
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    parts, members, may, miss, past = facts(raw)
    home = homes(raw)
    capacity = [raw["members"][name].get("capacity") or 1 for name in members]
    whole = lcm(*capacity)
    wanted = [i for i, who in enumerate(may) if who]
    topics = sorted({parts[i][0] for i in wanted})
    most = len(wanted) + 1
    reach = {
        "balance": most * most * whole,
        "spread": most * most * whole,
        "racks": most,
        "moves": most,
        "returned": most,
    }
    weight, below = {}, 0
    for goal in reversed(order):
        weight[goal] = below + 1
        below += weight[goal] * reach[goal]
    flow = SimpleMinCostFlow()
    if below * (len(wanted) + len(topics) * len(members) + len(members) + 2) >= 2**62:
        raise OverflowError("the weights pass what OR-tools counts with")
    cell = {(t, m): len(wanted) + n for n, (t, m) in enumerate((t, m) for t in topics for m in range(len(members)))}
    first_member = len(wanted) + len(cell)
    sink = first_member + len(members)
    own: list[tuple[int, int, int]] = []
    for n, i in enumerate(wanted):
        flow.set_node_supply(n, 1)
        for m in may[i]:
            cost = weight.get("racks", 0) * (m in miss[i]) + weight.get("moves", 0) * (past[i] not in (-1, m))
            cost -= weight.get("returned", 0) * (home[i] == m)
            own.append((flow.add_arc_with_capacity_and_unit_cost(n, cell[parts[i][0], m], 1, cost), i, m))
    for (topic, m), node in cell.items():
        for k in range(sum(parts[i][0] == topic for i in wanted)):
            cost = weight.get("spread", 0) * (2 * k + 1) * whole // capacity[m]
            flow.add_arc_with_capacity_and_unit_cost(node, first_member + m, 1, cost)
    for m in range(len(members)):
        for k in range(len(wanted)):
            cost = weight.get("balance", 0) * (2 * k + 1) * whole // capacity[m]
            flow.add_arc_with_capacity_and_unit_cost(first_member + m, sink, 1, cost)
    flow.set_node_supply(sink, -len(wanted))
    assert flow.solve() == flow.OPTIMAL
    owner = [-1] * len(parts)
    for arc, i, m in own:
        if flow.flow(arc):
            owner[i] = m
    value = values(raw, owner)
    return tuple(value[goal] for goal in order)
