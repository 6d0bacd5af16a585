"""What-if for many groups: a structure is planned once, and each group like it only has its own lags laid on the plans.

Most groups of a cluster are small and alike. ``structure`` tells which ones must get equal plans. The first of those is
planned by ``outcomes`` as any group is; its rows are kept, and the order in which lags are to be summed. Another group
of the structure then costs a few calls of NumPy, and a plan for each scenario of the strategies that read lags. The
rows are those of ``what_if`` in every value: a strategy or a group that does not fit is planned by it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Ints, Longs
from apportion.assignors import find
from apportion.history.records import Generation
from apportion.history.scenarios import (
    AS_IS,
    REPLAY,
    Outcome,
    ScenarioResult,
    outcomes,
    planned,
    replayed,
    sentence,
    skewed_lag,
)
from apportion.history.steps import TopicEntries
from apportion.history.structure import Structure, lag_places, structure
from apportion.model.group import Group, Offsets
from apportion.model.to_names import collector_paused

COLUMNS: Final = tuple(field.name for field in fields(ScenarioResult))
"""Of a row of ``gold/whatif`` beside the group's name."""

BY_ARRAYS: Final = frozenset(
    ("range", "broker-range", "roundrobin", "sticky", "cooperative-sticky", "sticky-stream-join", "failover", "streams")
)
"""Strategies of ours that see names by their order alone, and no lag."""
BY_NAME: Final = frozenset(("broker-uniform",))
"""Those that hash names: asked for each group, with its names and lags put into the arrays of the first."""
BY_LAG: Final = frozenset(("lag-aware",))
"""Those that see lags besides."""

_LARGEST_LAG: Final = 2**40
"""Up to here ten times the lags of ``LARGEST`` partitions are summed in 64 bits."""

KEPT_PARTITIONS: Final = 400_000
"""Of all structures that are kept: some hundred bytes a partition."""
LARGEST: Final = 20_000
"""Partitions of a group that is looked at for its structure: above, hardly two are alike."""

Columns = dict[str, list[Any]]
"""Column to its values, a row for each strategy and scenario."""


class SharedPlans:
    """Plans of structures seen before, for some strategies."""

    def __init__(self, assignors: Sequence[str]) -> None:
        """Strategies by name; those of others, which may look at anything, are asked anew for each group."""
        self.assignors = list(assignors)
        self._kept: OrderedDict[tuple[Any, ...], _Template] = OrderedDict()
        self._partitions = 0

    def answers(
        self, name: str, generations: Sequence[Generation], present: Mapping[str, Any] | None, topics: TopicEntries
    ) -> list[ScenarioResult]:
        """What ``what_if`` gives for the group, in the same order."""
        columns = self.columns(name, generations, present, topics)
        return [ScenarioResult(*row) for row in zip(*columns.values(), strict=True)]

    def columns(
        self, name: str, generations: Sequence[Generation], present: Mapping[str, Any] | None, topics: TopicEntries
    ) -> Columns:
        """The same by columns, which the caller leaves as they are."""
        alike = structure(generations, present, topics)
        template = self._kept.get(alike.key) if alike is not None else None
        if template is not None and alike is not None:
            self._kept.move_to_end(alike.key)
            laid = template.laid_on(alike, lambda few: outcomes(name, generations, present, topics, few))
            if laid is not None:
                return laid
        with collector_paused():
            rows = list(outcomes(name, generations, present, topics, self.assignors))
            if alike is not None and template is None and len(alike.lag) <= LARGEST:
                self._keep(alike, _Template(rows, alike))
        return _columns([row.answer for row in rows])

    def _keep(self, alike: Structure, template: _Template) -> None:
        self._kept[alike.key] = template
        self._partitions += 1 + len(alike.lag)
        while self._partitions > KEPT_PARTITIONS and len(self._kept) > 1:
            self._partitions -= 1 + self._kept.popitem(last=False)[1].size


class _Template:
    """The rows of one structure, and how another group's lags are laid on them.

    size
        Partitions.
    """

    def __init__(self, rows: Sequence[Outcome], alike: Structure) -> None:
        self.size = len(alike.lag)
        self._columns = _columns([row.answer for row in rows])
        self._base = next((_base(row.group, alike) for row in rows if row.answer.scenario == AS_IS and row.group), None)
        extended = self._extended(alike.lag)
        places: dict[int, Ints | None] = {}
        sums: list[tuple[int, Ints, Ints]] = []
        self._by_lag: list[tuple[int, Outcome, Ints]] = []
        self._by_name: list[tuple[int, Outcome, Ints]] = []
        self._members, self._topics = alike.members, alike.topics
        alone = {row.answer.assignor for row in rows if row.group is None or not _ours(row.answer.assignor)}
        for at, row in enumerate(rows):
            group, name = row.group, row.answer.assignor
            if group is None or row.owner is None or name in alone:
                continue
            if name in BY_NAME and group.topic_ids:  # other ids hash otherwise
                alone.add(name)
                continue
            if not shows_lag(group) and name not in BY_NAME:
                continue
            if id(group) not in places:
                places[id(group)] = _places(group, alike, extended)
            order = places[id(group)]
            if order is None:
                alone.add(name)
            elif name in BY_NAME:
                self._by_name.append((at, row, order))
            elif name in BY_LAG:
                self._by_lag.append((at, row, order))
            else:
                sums.append((at, order, row.owner))
        self._alone = [name for name in dict.fromkeys(self._columns["assignor"]) if name in alone]
        self._sums = _Sums(sums)

    def laid_on(self, alike: Structure, ask: Callable[[list[str]], Iterable[Outcome]]) -> Columns | None:
        """The rows of a group of the structure with its lags.

        ask
            Plans the group with strategies that have to be asked themselves: foreign ones, and those that failed, for
            the sentence of an error has names in it.
        Returns
            None where the lags are too large for whole numbers of 64 bits, or the strategies answered something else.
        """
        lag = alike.lag
        if len(lag) and int(lag.max()) >= _LARGEST_LAG:
            return None
        if (len(alike.members), len(alike.topics)) != (len(self._members), len(self._topics)):
            return None
        extended = self._extended(lag)
        columns = {**self._columns, "lag_max": list(self._columns["lag_max"])}
        self._sums.put(extended, columns["lag_max"])
        rows = {at: _planned(row, extended[places]) for at, row, places in self._by_lag}
        names = dict(zip(self._members, alike.members, strict=True)), dict(zip(self._topics, alike.topics, strict=True))
        rows |= {at: _renamed(row, *names, extended[places]) for at, row, places in self._by_name}
        if self._alone:
            anew = {(row.answer.assignor, row.answer.scenario): row.answer for row in ask(self._alone)}
            asked = list(zip(columns["assignor"], columns["scenario"], strict=True))
            mine = [at for at, (assignor, _) in enumerate(asked) if assignor in self._alone]
            if anew.keys() != {asked[at] for at in mine}:
                return None
            rows |= {at: anew[asked[at]] for at in mine}
        return _with_rows(columns, rows) if rows else columns

    def _extended(self, lag: Longs) -> Longs:
        """Lags by place, then that of a partition that was not described, then what the scenario ``lag`` sets."""
        whole = np.append(lag, (0, 0))
        if self._base is not None:
            whole[-1] = skewed_lag(whole[self._base])
        return whole


class _Sums:
    """The lag of the heaviest member in many plans: rows that have one, each plan looked at once."""

    def __init__(self, rows: Sequence[tuple[int, Ints, Ints]]) -> None:
        """Rows as (row, (P,) places of lags, (P,) owners)."""
        plans: dict[tuple[int, bytes], int] = {}
        self._row: list[tuple[int, int]] = []
        orders: list[Ints] = []
        members: list[int] = []
        firsts: list[int] = []
        end = 0
        for at, places, owner in rows:
            key = id(places), owner.tobytes()
            if key not in plans:
                given = np.flatnonzero(owner != NOBODY)
                order = given[np.argsort(owner[given], kind="stable")]
                if not len(order):
                    plans[key] = -1
                else:
                    plans[key] = len(firsts)
                    firsts.append(len(members))
                    starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
                    members.extend((starts + end).tolist())
                    orders.append(places[order])
                    end += len(order)
            self._row.append((at, plans[key]))
        self._order = np.concatenate(orders).astype(np.int32) if orders else np.empty(0, dtype=np.int32)
        self._members, self._firsts = np.array(members, dtype=np.int64), np.array(firsts, dtype=np.int64)

    def put(self, lag: Longs, column: list[int | None]) -> None:
        """Write each row's lag into its place of a column."""
        heaviest: list[int] = []
        if len(self._firsts):
            held = np.add.reduceat(lag[self._order], self._members)
            heaviest = np.maximum.reduceat(held, self._firsts).tolist()
        for at, plan in self._row:
            column[at] = heaviest[plan] if plan >= 0 else 0


def _ours(assignor: str) -> bool:
    return assignor in BY_ARRAYS | BY_LAG | BY_NAME and type(find(assignor)).__module__.startswith(
        "apportion.assignors."
    )


def _base(group: Group, alike: Structure) -> Ints:
    """Places of the partitions whose lags the scenario ``lag`` sums up."""
    return lag_places(group.topics, group.topic_of[group.wanted], group.number[group.wanted], alike.places)


def _places(group: Group, alike: Structure, extended: Longs) -> Ints | None:
    """(P,) where each partition's lag stands in ``extended``; None where it does not stand there."""
    places = lag_places(group.topics, group.topic_of, group.number, alike.places)
    differs = np.flatnonzero(extended[places] != group.lag)
    if len(differs) == 1:  # what the scenario ``lag`` has set
        places[differs] = len(extended) - 1
    return places if np.array_equal(extended[places], group.lag) else None


def _planned(row: Outcome, lag: Longs) -> ScenarioResult:
    """A row of a strategy that reads lags, planned anew for these (P,)."""
    assert row.group is not None  # noqa: S101 - rows without one have no lags
    try:
        anew = planned(with_lag(row.group, lag), row.answer.assignor, row.answer.scenario).answer
    except Exception as error:
        return replace(row.answer, error=sentence(error))
    if row.answer.scenario != REPLAY:
        return anew
    moves = row.earlier_moves + (anew.moves or 0)
    return replace(anew, generations=row.answer.generations, moves=moves, moves_then=row.answer.moves_then, proof=None)


def _renamed(row: Outcome, members: Mapping[str, str], topics: Mapping[str, str], lag: Longs) -> ScenarioResult:
    """A row of a strategy that hashes names, planned anew with these names and (P,) lags."""
    assert row.group is not None  # noqa: S101 - rows without one were left out
    try:
        if row.answer.scenario != REPLAY:
            group = _with_names(row.group, members, topics, lag)
            return planned(group, row.answer.assignor, row.answer.scenario).answer
        last = len(row.walk) - 1
        walk = [
            replace(step, group=_with_names(step.group, members, topics, lag if at == last else None))
            for at, step in enumerate(row.walk)
        ]
        return replayed(walk, row.then, row.answer.assignor).answer
    except Exception as error:
        return replace(row.answer, error=sentence(error))


def _with_names(group: Group, members: Mapping[str, str], topics: Mapping[str, str], lag: Longs | None) -> Group:
    """The group with other names of the same order; who joined in a scenario keeps its own."""
    twin = group if lag is None or group.offsets is None else with_lag(group, lag)
    copy = object.__new__(Group)
    copy.__dict__.update(
        twin.__dict__,
        members=tuple([members.get(name, name) for name in group.members]),
        topics=tuple([topics.get(name, name) for name in group.topics]),
    )
    return copy


def with_lag(group: Group, lag: Longs) -> Group:
    """The same group with other lags (P,), known where they were; all else that was computed of it stays."""
    assert group.offsets is not None  # noqa: S101 - a group that shows lag has offsets
    twin = object.__new__(Group)
    unknown = np.full(group.P, UNKNOWN, dtype=np.int64)
    known = group.lag_known
    offsets = Offsets(unknown, unknown, unknown, np.where(known, lag, UNKNOWN))
    twin.__dict__.update(group.__dict__, offsets=offsets, lag=lag, lag_known=known)
    return twin


def shows_lag(group: Group) -> bool:
    """Whether the lag of some wanted partition is known."""
    return group.offsets is not None and bool((group.lag_known & group.wanted).any())


def _columns(rows: Sequence[ScenarioResult]) -> Columns:
    return {name: [getattr(row, name) for row in rows] for name in COLUMNS}


def _with_rows(columns: Columns, rows: Mapping[int, ScenarioResult]) -> Columns:
    """The columns with some rows in place of theirs."""
    changed = {name: list(values) for name, values in columns.items()}
    for at, row in rows.items():
        for name in COLUMNS:
            changed[name][at] = getattr(row, name)
    return changed
