"""What-if for many groups: a structure is planned once, and each group like it only has its own lags laid on the plans.

Most groups of a cluster are small and alike. ``structure`` tells which ones must get equal plans. The first of those is
planned by ``outcomes`` as any group is; its rows are kept, and the order in which lags are to be summed. All other
groups of the structure then cost a few calls of NumPy together: ``many_lags`` has the strategy that reads lags,
``many_hashes`` the one that hashes names. The rows are those of ``outcomes`` in every value: a strategy or a group that
does not fit is planned by it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, Final

import numpy as np

from apportion.arrays import UNKNOWN, Bools, Ints, Longs
from apportion.errors import ApportionError
from apportion.history.answer_block import COLUMNS, AnswerBlock, Columns
from apportion.history.heaviest import Heaviest
from apportion.history.many_hashes import Hashes, ManyHashes
from apportion.history.many_lags import BOTH, TOPIC_BALANCE, ManyLags
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
from apportion.history.structure import Structure, structure
from apportion.model.group import Group, Offsets
from apportion.model.to_names import collector_paused
from apportion.server_side.java_hash import string_hashes
from apportion.solvers.number_partitioning import deal_rounds_many
from apportion.strategy.registry import of_recipe
from apportion.strategy.traits import traits_of

__all__ = ("COLUMNS", "AnswerBlock", "Columns", "LikeGroups", "SharedPlans", "lay_on")

_LARGEST_LAG: Final = 2**40
"""Up to here ten times the lags of ``LARGEST`` partitions are summed in 64 bits."""

KEPT_PARTITIONS: Final = 400_000
"""Of all structures that are kept: some hundred bytes a partition."""
LARGEST: Final = 20_000
"""Partitions of a group that is looked at for its structure: above, hardly two are of one structure."""

Ask = Callable[[list[str]], Iterable[Outcome]]
"""Plans a group with strategies that have to be asked themselves: foreign ones, and those that failed, for the sentence
of an error has names in it."""


@dataclass(frozen=True)
class LikeGroups:
    """G groups of one structure.

    lag
        (G, places) messages to read, in the order of ``Structure.places``.
    members, topics
        Of each group all names by rank, as ``Structure`` has them.
    ask
        Of each group.
    """

    lag: Longs
    members: Sequence[Sequence[str]]
    topics: Sequence[Sequence[str]]
    ask: Sequence[Ask]


class SharedPlans:
    """Plans of structures seen before, for some strategies."""

    def __init__(self, assignors: Sequence[str]) -> None:
        """Strategies by name; those of others, which may look at anything, are asked again for each group."""
        self.assignors = list(assignors)
        self._blind = frozenset(name for name in self.assignors if _structural(name) not in ("", "lag", "rounds"))
        self._kept: OrderedDict[tuple[Any, ...], Template] = OrderedDict()
        self._partitions = 0

    def planned(
        self, name: str, generations: Sequence[Generation], present: Mapping[str, Any] | None, topics: TopicEntries
    ) -> tuple[Columns, Structure | None, Template | None]:
        """The answers of ``outcomes``, as columns that do not change; the structure, and its plans if they are kept."""
        is_small = sum(map(len, topics.values())) <= LARGEST
        like_structure = structure(generations, present, topics) if is_small else None
        template = self._kept.get(like_structure.key) if like_structure is not None else None
        if template is not None and like_structure is not None:
            self._kept.move_to_end(like_structure.key)
            like = LikeGroups(
                like_structure.lag[None, :], [like_structure.members], [like_structure.topics],
                [lambda alone: outcomes(name, generations, present, topics, alone)],
            )  # fmt: skip
            laid, unusable = lay_on([(template, like)])[0]
            if not unusable:
                return laid.columns(0), like_structure, template
        with collector_paused():
            rows = list(outcomes(name, generations, present, topics, self.assignors, self._blind))
            if like_structure is not None and template is None:
                template = self._keep(like_structure, Template(rows, like_structure))
        return _columns([row.answer for row in rows]), like_structure, template

    def _keep(self, like_structure: Structure, template: Template) -> Template:
        self._kept[like_structure.key] = template
        self._partitions += 1 + len(like_structure.lag)
        while self._partitions > KEPT_PARTITIONS and len(self._kept) > 1:
            self._partitions -= 1 + self._kept.popitem(last=False)[1].size
        return template


def lay_on(questions: Sequence[tuple[Template, LikeGroups]]) -> list[tuple[AnswerBlock, list[int]]]:
    """The rows of groups of known structures, with their own lags and names.

    Returns
        For each structure the rows, and which groups' are not to be used: their lags are too large for whole numbers of
        64 bits, or their strategies answered something else.
    """
    laying = [_Laying(template, groups) for template, groups in questions]
    _hash_names([layout for layout in laying if layout.template.by_name])
    tables = [table for layout in laying for table in layout.tables()]
    shares = iter(deal_rounds_many([lag for lag, _ in tables], [members for _, members in tables]))
    return [layout.rows(shares) for layout in laying]


def _hash_names(laying: Sequence[_Laying]) -> None:
    """The hash codes of all names in one call."""
    tables = [names for layout in laying for names in (layout.groups.members, layout.groups.topics)]
    hashes = string_hashes([name for table in tables for names in table for name in names])
    parts = np.split(hashes, np.cumsum([sum(map(len, table)) for table in tables])[:-1]) if tables else []
    shaped = iter([part.reshape(len(table), -1) for part, table in zip(parts, tables, strict=True)])
    for layout in laying:
        layout.hashes = next(shaped), next(shaped)


class Template:
    """The rows of one structure, and how other groups' lags and names are laid on them.

    size
        Partitions.
    """

    def __init__(self, rows: Sequence[Outcome], like_structure: Structure) -> None:
        self.size = len(like_structure.lag)
        self.rows = [row.answer for row in rows]
        self.block = AnswerBlock(1, self.rows)
        self.members, self.topics = like_structure.members, like_structure.topics
        self._base = next(
            (_base(row.group, like_structure) for row in rows if row.answer.scenario == AS_IS and row.group), None
        )
        extended = self.extended(like_structure.lag[None, :])[0]
        # Steps of a replay under different strategies have their partitions and offsets in the same arrays.
        places: dict[tuple[int, int, int], Ints | None] = {}
        sums: list[tuple[int, Ints, Ints]] = []
        really: list[tuple[int, Ints, Ints]] = []
        self.by_lag: list[tuple[int, ManyLags | None, Outcome, Ints]] = []
        self.by_name: list[tuple[int, ManyHashes | None, Outcome, Ints | None]] = []
        alone = {row.answer.assignor for row in rows if row.group is None or not _structural(row.answer.assignor)}
        member_at = {name: at for at, name in enumerate(self.members)}
        topic_at = {name: at for at, name in enumerate(self.topics)}
        for at, row in enumerate(rows):
            group, name = row.group, row.answer.assignor
            if group is None or row.owner is None or name in alone:
                continue
            counts = _structural(name)
            if counts == "names" and group.topic_ids:  # other ids hash otherwise
                alone.add(name)
                continue
            if not group.shows_lag:
                if counts == "names":
                    self.by_name.append((at, self._by_hashes(row, member_at, topic_at), row, None))
                continue
            same = id(group.topics), id(group.number), id(group.offsets)
            if same not in places:
                places[same] = _places(group, like_structure, extended)
            order = places[same]
            if order is not None and row.answer.scenario == AS_IS:
                really.append((at, order, group.owner))
            if order is None:
                alone.add(name)
            elif counts == "names":
                self.by_name.append((at, self._by_hashes(row, member_at, topic_at), row, order))
            elif counts in ("lag", "rounds"):
                many = ManyLags(row) if counts == "rounds" and ManyLags.fits(group) else None
                self.by_lag.append((at, many, row, order))
            else:
                sums.append((at, order, row.owner))
        self.alone = [name for name in dict.fromkeys(answer.assignor for answer in self.rows) if name in alone]
        self.heaviest, self.really = Heaviest(sums), Heaviest(really)

    @cached_property
    def hashes(self) -> tuple[Hashes, Hashes]:
        """(1, members) and (1, topics) hash codes of the names."""
        members, topics = (string_hashes(list(names)).reshape(1, -1) for names in (self.members, self.topics))
        return members, topics

    @staticmethod
    def _by_hashes(row: Outcome, members: Mapping[str, int], topics: Mapping[str, int]) -> ManyHashes | None:
        return ManyHashes(row, members, topics) if ManyHashes.fits(row) else None

    def extended(self, lag: Longs) -> Longs:
        """(G, places + 2) lags by place, then that of a partition without a description, then that of ``lag``."""
        whole = np.concatenate([lag, np.zeros((len(lag), 2), dtype=np.int64)], axis=1)
        if self._base is not None:
            whole[:, -1] = skewed_lag(whole[:, self._base])
        return whole


class _Laying:
    """Groups of one structure while their rows are made."""

    def __init__(self, template: Template, groups: LikeGroups) -> None:
        self.template, self.groups = template, groups
        lag = groups.lag
        large: Bools = np.any(lag >= _LARGEST_LAG, axis=1)
        self.unfit = np.flatnonzero(large).tolist()
        self.extended = template.extended(np.where(large[:, None], 0, lag) if self.unfit else lag)
        if groups.members and (len(groups.members[0]), len(groups.topics[0])) != (
            len(template.members), len(template.topics),
        ):  # fmt: skip
            self.unfit = list(range(len(lag)))
        self.hashes: tuple[Hashes, Hashes] | None = None
        self._lags: dict[int, Longs] = {}
        self._refused: list[tuple[int, int]] = []

    def tables(self) -> list[tuple[Longs, int]]:
        """The lags to be shared out for the strategy that reads lags."""
        rows = [(many, places) for _, many, _, places in self.template.by_lag if many]
        return [table for many, places in rows for table in many.lags(self._lag(places))]

    def _lag(self, places: Ints) -> Longs:
        """(G, P) lags; of places that several rows share once."""
        if id(places) not in self._lags:
            self._lags[id(places)] = self.extended[:, places]
        return self._lags[id(places)]

    def rows(self, shares: Iterable[Ints]) -> tuple[AnswerBlock, list[int]]:
        """The rows, and the groups whose rows are unusable; ``shares`` has the sums for ``tables``, and goes on."""
        template = self.template
        block = template.block.copy_for(len(self.extended))
        if len(template.heaviest.rows):
            block.changed("lag_max")[:, template.heaviest.rows] = template.heaviest.of(self.extended)
        turns = iter(shares)
        for at, many, row, places in template.by_lag:
            if many is None:
                known: dict[bytes, ScenarioResult] = {}  # most groups have read all, and are planned once
                for g, lag in enumerate(self._lag(places)):
                    key = lag.tobytes()
                    known[key] = known.get(key) or _planned(row, lag)
                    self._put_row(block, g, at, known[key])
                continue
            values, best = many.values(self._lag(places), [next(turns) for _ in range(many.topics)])
            everyone = np.arange(block.groups)
            block.put(everyone, at, values)
            block.put(everyone, at, {"proof": TOPIC_BALANCE})
            block.put(everyone[best], at, {"proof": BOTH})
        self._by_name(block)
        if len(template.really.rows):
            block.changed("lag_max_then")[:, template.really.rows] = template.really.of(self.extended)
        for g, at in self._refused:  # what stands now is told beside a plan alone
            block.put(np.array([g]), at, {"lag_max_then": None})
        return block, sorted({*self.unfit, *self._alone(block)})

    def _put_row(self, block: AnswerBlock, g: int, at: int, answer: ScenarioResult) -> None:
        block.put_row(g, at, answer)
        if answer.error is not None:
            self._refused.append((g, at))

    def _by_name(self, block: AnswerBlock) -> None:
        if self.hashes is None or len(self.unfit) == block.groups:
            return
        # The order that the template's own names come in is planned already: they are asked about before the others.
        members, topics = map(np.concatenate, zip(self.template.hashes, self.hashes, strict=True))
        for at, many, row, places in self.template.by_name:
            if many is None:
                self._rename_each(block, at, row, places, range(block.groups))
                continue
            orders, shared = many.orders(members, topics)
            if not many.planned and not shared[0]:
                many.planned[orders[0].tobytes()] = self._by_order(at, row, places)
            by_order: dict[bytes, list[int]] = {}
            for g, order in enumerate(orders[1:]):
                by_order.setdefault(order.tobytes(), []).append(g)
            for order, rows in by_order.items():
                self._same_order(block, at, many, places, order, [g for g in rows if not shared[g + 1]])
            self._rename_each(block, at, row, places, np.flatnonzero(shared[1:]).tolist())

    def _same_order(
        self, block: AnswerBlock, at: int, many: ManyHashes, places: Ints | None, order: bytes, rows: list[int]
    ) -> None:  # fmt: skip
        """The row of groups whose names come in one order: planned once."""
        if not rows:
            return
        if order not in many.planned:
            try:
                outcome = self._renamed(many.row, places, rows[0])
            except Exception:  # its sentence may have names in it
                self._rename_each(block, at, many.row, places, rows)
                return
            many.planned[order] = self._by_order(at, outcome, places)
        changes, heaviest = many.planned[order]
        groups = np.array(rows)
        block.put(groups, at, changes)
        if heaviest is not None:
            block.put(groups, at, {"lag_max": heaviest.of(self.extended[groups])[:, 0]})

    def _by_order(self, at: int, outcome: Outcome, places: Ints | None) -> tuple[dict[str, Any], Heaviest | None]:
        """The difference between an order's row and the template's, and the sums of its heaviest member."""
        values = {name: getattr(outcome.answer, name) for name in COLUMNS if name != "lag_max"}
        changes = {name: value for name, value in values.items() if value != getattr(self.template.rows[at], name)}
        if places is None or outcome.owner is None:
            return changes, None
        return changes, Heaviest([(at, places, outcome.owner)])

    def _renamed(self, row: Outcome, places: Ints | None, g: int) -> Outcome:
        members = dict(zip(self.template.members, self.groups.members[g], strict=True))
        topics = dict(zip(self.template.topics, self.groups.topics[g], strict=True))
        return _renamed(row, members, topics, None if places is None else self.extended[g, places])

    def _rename_each(
        self, block: AnswerBlock, at: int, row: Outcome, places: Ints | None, rows: Iterable[int]
    ) -> None:  # fmt: skip
        for g in rows:
            try:
                answer = self._renamed(row, places, g).answer
            except Exception as error:
                answer = _refused(row, error)
            self._put_row(block, g, at, answer)

    def _alone(self, block: AnswerBlock) -> Iterable[int]:
        """Put in the answers of strategies that are asked themselves; groups that get another answer."""
        mine = [at for at, answer in enumerate(self.template.rows) if answer.assignor in self.template.alone]
        for g, ask in enumerate(self.groups.ask) if mine else ():
            anew = {(row.answer.assignor, row.answer.scenario): row.answer for row in ask(self.template.alone)}
            row_of = {(self.template.rows[at].assignor, self.template.rows[at].scenario): at for at in mine}
            if anew.keys() != row_of.keys():
                yield g
                continue
            for key, at in row_of.items():
                block.put_row(g, at, anew[key])


@cache
def _structural(recipe: str) -> str:
    """The traits that count in a recipe's strategy's answers, as in ``Traits.structural``; "" if none can be made."""
    try:
        return traits_of(of_recipe(recipe)).structural or ""
    except ApportionError:
        return ""


def _base(group: Group, like_structure: Structure) -> Ints:
    """Places of the partitions whose lags the scenario ``lag`` sums up."""
    return like_structure.places.find(group.topics, group.topic_of[group.wanted], group.number[group.wanted])


def _places(group: Group, like_structure: Structure, extended: Longs) -> Ints | None:
    """(P,) the position of each partition's lag in ``extended``; None if one is missing there."""
    places = like_structure.places.find(group.topics, group.topic_of, group.number)
    differs = np.flatnonzero(extended[places] != group.lag)
    if len(differs) == 1:  # what the scenario ``lag`` has set
        places[differs] = len(extended) - 1
    return places if np.array_equal(extended[places], group.lag) else None


def _planned(row: Outcome, lag: Longs) -> ScenarioResult:
    """A row of a strategy that reads lags, planned again for these (P,)."""
    assert row.group is not None  # noqa: S101 - rows without one have no lags
    try:
        return planned(with_lag(row.group, lag), row.answer.assignor, row.answer.scenario).answer
    except Exception as error:
        return _refused(row, error)


def _refused(row: Outcome, error: Exception) -> ScenarioResult:
    """The row of a group that a strategy cannot take: nothing of the group whose plan it would have had."""
    return ScenarioResult(row.answer.assignor, row.answer.scenario, row.answer.generations, error=sentence(error))


def _renamed(row: Outcome, members: Mapping[str, str], topics: Mapping[str, str], lag: Longs | None) -> Outcome:
    """A row of a strategy that hashes names, planned again with these names and (P,) lags; passes on its errors."""
    assert row.group is not None  # noqa: S101 - rows without one were left out
    if row.answer.scenario != REPLAY:
        return planned(_with_names(row.group, members, topics, lag), row.answer.assignor, row.answer.scenario)
    walk = [replace(step, group=_with_names(step.group, members, topics, None)) for step in row.walk]
    return replayed(walk, row.then, row.answer.assignor)


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
    """The same group with other lags (P,), known if they were known before; everything else that was computed stays."""
    assert group.offsets is not None  # noqa: S101 - a group that shows lag has offsets
    twin = object.__new__(Group)
    unknown = np.full(group.P, UNKNOWN, dtype=np.int64)
    known = group.lag_known
    offsets = Offsets(unknown, unknown, unknown, np.where(known, lag, UNKNOWN))
    twin.__dict__.update(group.__dict__, offsets=offsets, lag=lag, lag_known=known)
    twin.__dict__.pop("lag_floats", None)
    return twin


def _columns(rows: Sequence[ScenarioResult]) -> Columns:
    columns = zip(*map(attrgetter(*COLUMNS), rows), strict=True) if rows else ((),) * len(COLUMNS)
    return {name: list(values) for name, values in zip(COLUMNS, columns, strict=True)}
