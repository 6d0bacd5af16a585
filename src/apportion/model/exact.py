"""The best plan of a group for goals in an order: the group as rows and columns, and the answer with its proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from apportion.arrays import CELLS, NOBODY, Bools, Ints
from apportion.kernels import flow
from apportion.kernels.exact import Question, solve
from apportion.kernels.near import misses
from apportion.kernels.prices import Prices, prices, weights
from apportion.kernels.small import SMALL, even
from apportion.kernels.tiny import TINY, tiny
from apportion.kernels.wide import Wide, subscribers
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.model.plan import Answer

GOALS: Final = ("balance", "racks", "moves")
PRICES_TOLD: Final = 12


def check_order(order: tuple[str, ...]) -> None:
    """Raise ValueError unless the order names some of the goals, each once."""
    if not isinstance(order, tuple) or not order or len(set(order)) < len(order) or set(order) - set(GOALS):
        raise ValueError(f"order={','.join(map(str, order))}; it names some of {', '.join(GOALS)}, each once")


def best(group: Group, order: tuple[str, ...] = GOALS) -> Answer:
    """The plan that is best for the goals in their order, with what is proved of it."""
    if "racks" in order and (group.racks is None or not group.racks.known):
        order = tuple(goal for goal in order if goal != "racks")
    proof = dict.fromkeys(order, "optimal")
    if group.P <= SMALL and len(group.subscriptions) == 1 and "racks" not in order and order[:1] == ("balance",):
        owner = _small(group, "moves" in order)
    elif group.P * group.M <= TINY:
        owner = _tiny(group, order)
    elif len(group.subscriptions) * group.T > CELLS:
        return _wide(group, order)
    else:
        owner, proof = _solve(group, order)
    return Answer(owner, proof, certificate=Exactness(group, owner, proof))


def _solve(group: Group, order: tuple[str, ...]) -> tuple[Ints, dict[str, str]]:
    """The plan of any other group; without racks where telling them apart makes the table too large."""
    asked = question(group, "racks" in order)
    told_apart = asked.column is not group.subscription_of
    if told_apart or "racks" not in order:
        if asked.miss is None or asked.open.size <= flow.LARGE or flow.solver() is not None:
            return solve(asked, order)
        asked = question(group, False)
    owner, shown = solve(asked, tuple(goal for goal in order if goal != "racks"))
    proof = {goal: shown.get(goal, "heuristic") for goal in order}
    proof.update(dict.fromkeys(order[order.index("racks") :], "heuristic"))
    return owner, proof


def _wide(group: Group, order: tuple[str, ...]) -> Answer:
    """The plan of a group whose subscriptions fill more than one table: only what a bound shows is proved."""
    table = Wide(group.start, subscribers(group.subscriptions, group.subscription_of, group.T), group.M)
    claim, contested = np.full(group.P, NOBODY, dtype=np.int64), None
    if "moves" in order:
        claim, contested = group.owner, group.contested != NOBODY
    owner = table.plan(claim, contested)
    proof = dict.fromkeys(order, "heuristic")
    measures = measure(group, owner)
    met = {
        "balance": measures["load_max"] - measures["load_min"] <= 1,
        "racks": not measures["rack_misses"],
        "moves": not measures["moves"],
    }
    for goal in order:
        if not met[goal]:
            break
        proof[goal] = "optimal"
    return Answer(owner, proof, certificate=Exactness(group, owner, proof))


def _small(group: Group, with_moves: bool) -> Ints:
    """The plan of a small group of one mind."""
    claim, contested = _claims_told(group) if with_moves else (None, None)
    topics = group.topic_of.tolist()
    wanted: Sequence[int] = range(group.P)
    mine = group.subscriptions[0]
    if len(mine) < group.T:
        wants = set(mine.tolist())
        wanted = [p for p, t in enumerate(topics) if t in wants]
    return np.array(even(group.M, wanted, claim, contested, topics, group.number.tolist()), dtype=np.int64)


def _tiny(group: Group, order: tuple[str, ...]) -> Ints:
    """The plan of a tiny group of any kind."""
    wishes = [topics.tolist() for topics in group.subscriptions]
    who_of_topic: list[list[int]] = [[] for _ in group.topics]
    for m, k in enumerate(group.subscription_of.tolist()):
        for t in wishes[k]:
            who_of_topic[t].append(m)
    who = [who_of_topic[t] for t in group.topic_of.tolist()]
    far = _far(group, who) if "racks" in order else None
    claim, contested = _claims_told(group) if "moves" in order else (None, None)
    weight = weights(order, group.P, group.M)
    return np.array(tiny(group.M, who, far, claim, contested, weight), dtype=np.int64)


def _claims_told(group: Group) -> tuple[list[int] | None, list[bool] | None]:
    """(P,) whose claim stands, and whether anybody claims the partition; None where nobody claims any."""
    claims = group.claims.partition.tolist()
    if not claims:
        return None, None
    contested = [False] * group.P
    for p in claims:
        contested[p] = True
    return group.owner.tolist(), contested


def _far(group: Group, who: list[list[int]]) -> list[set[int]] | None:
    """Members that want each partition and have no replica near."""
    racks = group.racks
    if racks is None:
        return None
    rack = racks.of_member.tolist()
    sets = [None if s < 0 else racks.sets[s] for s in racks.set_of.tolist()]
    return [
        set() if near is None else {m for m in wanting if rack[m] >= 0 and rack[m] not in near}
        for near, wanting in zip(sets, who, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Exactness:
    """Why no plan is better: the bounds that are met, and where they are not, prices of members.

    owner, proof
        (P,) the plan; goal to ``optimal`` or ``heuristic``, in order.
    """

    group: Group
    owner: Ints
    proof: Mapping[str, str]

    @cached_property
    def prices(self) -> Prices | None:
        """Prices for the goals that are shown, found from the plan alone; None if the plan is not the best."""
        shown = tuple(goal for goal, how in self.proof.items() if how == "optimal")
        q = question(self.group, "racks" in shown)
        return prices(self.owner, q.row, q.column, q.open, q.miss, q.claim, shown)

    def explain(self, group: Group) -> list[str]:
        """The argument, a sentence a line."""
        measures = measure(group, self.owner)
        lines = [_bound(goal, how, measures) for goal, how in self.proof.items()]
        if any("prices" in line for line in lines):
            lines += self._dual(group)
        return lines

    def _dual(self, group: Group) -> list[str]:
        """The prices, and what they show."""
        if self.prices is None:
            return ["The prices could not be found: please report this group."]
        weight, price = self.prices.weight, self.prices.price
        units = {"balance": "a unit of load", "racks": "a miss", "moves": "a move"}
        told = ", ".join(f"{units[goal]} {weight[goal]}" for goal in self.proof if goal in weight)
        lines = [
            f"Weights: {told}. No exchange makes up for an earlier goal by later ones.",
            "Each partition stands where price + miss + move is least among all members that want it.",
            "Each price lies between load and load + 1, times the weight of load.",
            "So whoever takes partitions elsewhere pays at least as much: no plan is better (duality). Prices:",
        ]
        values, place, count = np.unique(price, return_index=True, return_counts=True)
        for value, m, n in list(zip(values.tolist(), place.tolist(), count.tolist(), strict=True))[:PRICES_TOLD]:
            lines.append(f"  {value}: {group.members[m]}" + (f" and {n - 1} more" if n > 1 else ""))
        if len(values) > PRICES_TOLD:
            lines.append(f"  and {len(values) - PRICES_TOLD} more prices")
        return lines


def _bound(goal: str, how: str, measures: Mapping[str, int]) -> str:
    """What shows the goal to be met, in a sentence."""
    least, most = measures["load_min"], measures["load_max"]
    if how != "optimal":
        return f"{goal}: {how}. Subscriptions overlap, and the group is too large to show it (without OR-tools)."
    if goal == "balance":
        said = f"members hold {least} to {most} partitions, squares {measures['load_squares']}"
        met = "loads within one of each other cannot be fairer" if most - least <= 1 else "the prices below show it"
    elif goal == "racks":
        said = f"{measures['rack_misses']} owners without a local replica"
        met = "none can have fewer" if not measures["rack_misses"] else "the prices below show that fewer cannot be"
    else:
        said = f"{measures['moves']} of {measures['moves'] + measures['kept']} standing claims move"
        met = "none can be fewer" if not measures["moves"] else "the prices below show that fewer cannot be"
    return f"{goal}: optimal. {said[0].upper()}{said[1:]}: {met}."


def question(group: Group, with_racks: bool) -> Question:
    """The group's like partitions as rows and like members as columns."""
    row, open = _topic_rows(group)
    column, miss = group.subscription_of, None
    if with_racks:
        row, column, open, miss = _rack_cells(group, row, open)
    contested = None
    if len(group.claims.member):
        contested = np.zeros(group.P, dtype=np.bool_)
        contested[group.claims.partition] = True
    return Question(row, column, open, miss, group.owner, contested, group.topic_of, group.number)


def _topic_rows(group: Group) -> tuple[Ints, Bools]:
    """(P,) rows of partitions whose topics the same members want, -1 nobody; (I, K) which subscriptions want them."""
    if len(group.subscriptions) == 1:
        row = np.zeros(group.P, dtype=np.int64)
        if not group.wanted_topic.all():
            row[~group.wanted] = -1
        return row, np.ones((1, 1), dtype=np.bool_)
    wants = group.wants.T
    packed = np.ascontiguousarray(np.packbits(wants, axis=1))
    _, first, kind = np.unique(
        packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_index=True, return_inverse=True
    )
    open = wants[first]
    wanted = open.any(axis=1)
    number = np.cumsum(wanted) - 1
    number[~wanted] = -1
    return np.repeat(number[kind], np.diff(group.start)), open[wanted]


def _rack_cells(group: Group, row: Ints, open: Bools) -> tuple[Ints, Ints, Bools, Bools | None]:
    """Rows, columns and cells told apart by racks too, and the cells that miss one; as they were if too many."""
    racks = group.racks
    if racks is None:
        return row, group.subscription_of, open, None
    sets, places = len(racks.sets) + 1, len(racks.names) + 1
    rows, new_row = _kinds(np.where(row >= 0, row * sets + racks.set_of + 1, NOBODY))
    columns, column = _kinds(group.subscription_of * places + racks.of_member + 1)
    if len(rows) * len(columns) > CELLS:
        return row, group.subscription_of, open, None
    open = open[rows // sets][:, columns // places]
    miss = misses(racks.near, columns % places - 1, rows % sets - 1) & open
    return new_row, column, open, miss if miss.any() else None


def _kinds(key: Ints) -> tuple[Ints, Ints]:
    """Distinct keys from 0 on, ascending, and which of them each place has, -1 for -1."""
    present = np.zeros(int(key.max(initial=0)) + 1, dtype=np.bool_)
    present[key[key >= 0]] = True
    kinds = np.flatnonzero(present)
    number = np.append(np.cumsum(present) - 1, NOBODY)
    return kinds, number[key]
