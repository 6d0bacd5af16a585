"""Every strategy's past and present plans for every group: groups of one structure together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from apportion.history import rows
from apportion.history.answer_block import COLUMNS, NOTHING, TEXTS, AnswerBlock, Columns
from apportion.history.fold import fold
from apportion.history.present import group_json
from apportion.history.records import Generation
from apportion.history.scenarios import AS_IS, REPLAY, Outcome, outcomes, sentence
from apportion.history.shared_plans import KEPT_PARTITIONS, LARGEST, LikeGroups, SharedPlans, Template, lay_on
from apportion.history.steps import TopicEntries
from apportion.history.stored import group_json_of, present_of
from apportion.history.structure import Structure
from apportion.history.task_groups import asks_for_tasks, task_results
from apportion.model.protocols import OTHERS
from apportion.model.to_names import collector_paused
from apportion.pipeline.columns import pieces
from apportion.pipeline.plan_templates import Batch, Likeness, Pattern
from apportion.tables import schemas

GROUPS_AT_ONCE: Final = 4096
COLUMNS_AT_ONCE: Final = 32 << 20
"""Groups, and bytes of theirs, whose lags are laid on plans together; one group may be larger."""

Question = tuple[str, Sequence[Generation], Mapping[str, Any] | None, TopicEntries]


@cache
def _plans(assignors: tuple[str, ...]) -> Plans:
    """The plans that a worker keeps from task to task."""
    return Plans(assignors)


def whatif(groups: pa.Table, assignors: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """``gold/whatif``: rows for each group, strategy and scenario.

    groups
        Rows of ``group_rows``' ``asked``: each of a group's past, or of its present.
    assignors
        Names of strategies: named by whoever asks, since a worker elsewhere may have others installed.
    """
    schema = schemas.arrow_schema(schemas.WHATIF)
    plans = _plans(tuple(assignors))
    for batch in groups.combine_chunks().to_batches():
        for piece in pieces(batch, GROUPS_AT_ONCE, COLUMNS_AT_ONCE):
            for columns in plans.rows(piece):
                yield pa.RecordBatch.from_arrays([columns[f.name].cast(f.type) for f in schema], schema=schema)


class Plans:
    """What-ifs of groups as they come, with the plans of those that came before."""

    def __init__(self, assignors: Sequence[str]) -> None:
        """Strategies by name."""
        self._shared = SharedPlans(assignors)
        self._patterns: OrderedDict[Any, Pattern | None] = OrderedDict()
        self._partitions = 0

    def rows(self, groups: pa.RecordBatch) -> Iterator[dict[str, pa.Array]]:
        """``gold/whatif`` of some groups, by columns."""
        # The columns of some thousand groups are millions of objects, which a collection would look at each time.
        with collector_paused():
            yield from self._rows(Batch(groups))

    def _rows(self, batch: Batch) -> Iterator[dict[str, pa.Array]]:
        by_key: dict[Any, list[tuple[int, Likeness]]] = {}
        alone: list[tuple[int, Likeness | None]] = []
        for at in range(batch.rows.num_rows):
            likeness = batch.likeness(at)
            if likeness is None or likeness.size > LARGEST:
                alone.append((at, likeness))
            else:
                by_key.setdefault(likeness.key, []).append((at, likeness))
        known_patterns: list[tuple[Pattern, list[tuple[int, Likeness]]]] = []
        one_by_one: list[tuple[str, Columns]] = []
        for key, likenesses in by_key.items():
            followers, pattern = likenesses, self._patterns.get(key)
            if key in self._patterns:
                self._patterns.move_to_end(key)
            else:
                (at, likeness), *followers = likenesses
                columns, pattern = self._first(batch, at, likeness)
                one_by_one.append((batch.groups[at], columns))
            if pattern is None:
                alone.extend(followers)
            elif followers:
                known_patterns.append((pattern, followers))
        laid = lay_on(
            [(pattern.template, self._asked(batch, pattern, likenesses)) for pattern, likenesses in known_patterns]
        )
        for (_, likenesses), (_, unlike) in zip(known_patterns, laid, strict=True):
            alone.extend(likenesses[g] for g in unlike)
        if known_patterns:
            yield _of_blocks([[batch.groups[at] for at, _ in likenesses] for _, likenesses in known_patterns], laid)
        for at, likeness in alone:
            columns = self._answers(batch, at, likeness)[0]
            one_by_one.append((batch.groups[at], columns))
        if one_by_one:
            yield _of_groups(one_by_one)

    def _first(self, batch: Batch, at: int, likeness: Likeness) -> tuple[Columns, Pattern | None]:
        """The rows of the first group of a key, and the facts needed for the others."""
        columns, like_structure, template = self._answers(batch, at, likeness)
        pattern = None
        if like_structure is not None and template is not None:
            pattern = Pattern(batch, likeness, like_structure, template, committed=batch.stands(at))
            pattern = pattern if pattern.right else None
        self._patterns[likeness.key] = pattern
        self._partitions += _size(likeness.key)
        while self._partitions > KEPT_PARTITIONS and len(self._patterns) > 1:
            self._partitions -= _size(self._patterns.popitem(last=False)[0])
        return columns, pattern

    def _asked(self, batch: Batch, pattern: Pattern, likenesses: list[tuple[int, Likeness]]) -> LikeGroups:
        rows = [likeness for _, likeness in likenesses]
        return LikeGroups(
            pattern.lags(batch, rows),
            [row.members for row in rows],
            [pattern.topics(row) for row in rows],
            [partial(self._outcomes, batch, at, likeness) for at, likeness in likenesses],
        )

    @staticmethod
    def _outcomes(batch: Batch, at: int, likeness: Likeness, assignors: list[str]) -> Iterator[Outcome]:
        yield from outcomes(*_question_at(batch, at, likeness), assignors)

    def _answers(
        self, batch: Batch, at: int, likeness: Likeness | None
    ) -> tuple[Columns, Structure | None, Template | None]:
        """One group's rows by itself; its structure and the plans of that, if it has one."""
        try:
            name, history, present, topics = _question_at(batch, at, likeness)
            columns, structure, template = self._shared.planned(name, history, present, topics)
            results = task_results(history) if asks_for_tasks(self._shared.assignors) else []
            whole = {column: [*columns[column], *(getattr(result, column) for result in results)] for column in COLUMNS}
            return whole, structure, None if results else template
        except Exception as error:  # one group must not stop the others
            scenario = AS_IS if batch.stands(at) else REPLAY
            failed = {"assignor": "", "scenario": scenario, "generations": 0, "error": sentence(error)}
            return {column: [failed.get(column)] for column in COLUMNS}, None, None


def _question_at(batch: Batch, at: int, likeness: Likeness | None) -> Question:
    """The input of ``outcomes`` for a group; of one that has a key partitions stay in columns."""
    topics = batch.columns(likeness, batch.stands(at)) if likeness is not None else None
    if likeness is None or topics is None:
        return _question(batch.rows.slice(at, 1).to_pylist(maps_as_pydicts="strict")[0])
    row, present = batch.row(at), None
    if batch.stands(at):
        committed: dict[str, dict[int, int]] = {topic: {} for topic in batch.committed_topics(likeness)}
        present = group_json(row["group"], present_of(row), topics, committed)
    return _with_past(row, present, topics)


def _question(row: Mapping[str, Any]) -> Question:
    """The input of ``outcomes`` for a group, from its row alone."""
    present = group_json_of(row) if row["readable"] and row["type"] not in OTHERS else None
    described = {topic["topic"]: topic["partitions"] for topic in row["topics"] or ()}
    return _with_past(row, present, described)


def _with_past(row: Mapping[str, Any], present: Mapping[str, Any] | None, topics: TopicEntries) -> Question:
    name = row["group"]
    history = fold(rows.events(name, row["generations"] or (), row["epochs"] or ()), row["names"] or {}).generations
    return name, history, present, {**topics, **(present["topics"] if present else {})}


def _size(key: Any) -> int:
    """About how many partitions a key describes: its last part has four bytes for each one that was committed."""
    return 1 + len(key[-1]) // 4


def _of_groups(planned: Sequence[tuple[str, Columns]]) -> dict[str, pa.Array]:
    """The rows of groups that were planned one by one."""
    arrays = {"group": pa.array([group for group, columns in planned for _ in columns["assignor"]], pa.string())}
    for name in COLUMNS:
        kind = pa.string() if name in TEXTS else pa.int64()
        values = [value for _, columns in planned for value in columns[name]]
        try:
            arrays[name] = pa.array(values, kind)
        except (OverflowError, pa.ArrowInvalid):
            # A lag that is more than 64 bits can hold, which offsets of no broker add up to.
            arrays[name] = pa.array([None if isinstance(n, int) and n >= 2**63 else n for n in values], kind)
    return arrays


def _of_blocks(
    groups: Sequence[Sequence[str]], laid: Sequence[tuple[AnswerBlock, Sequence[int]]]
) -> dict[str, pa.Array]:
    """The rows of all blocks, block after block, without those of groups that are left out."""
    keeps = [np.setdiff1d(np.arange(block.groups), unlike) for block, unlike in laid]
    names = [np.array(names_of, dtype=object)[keep].repeat(block.rows) for names_of, keep, (block, _) in
             zip(groups, keeps, laid, strict=True)]  # fmt: skip
    columns = {"group": pa.array(np.concatenate(names), pa.string())}
    blocks = [(block, keep) for keep, (block, _) in zip(keeps, laid, strict=True)]
    for name in laid[0][0].numbers:
        values = np.concatenate([block.numbers[name][keep].ravel() for block, keep in blocks])
        columns[name] = pa.array(values, pa.int64(), mask=values == NOTHING)
    words = pa.array([word for block, _ in blocks for word in block.words], pa.string())
    firsts = np.cumsum([0, *(len(block.words) for block, _ in blocks)])[:-1]
    for name in laid[0][0].texts:
        places = [block.texts[name][keep].ravel() + first for (block, keep), first in zip(blocks, firsts, strict=True)]
        columns[name] = words.take(pa.array(np.concatenate(places)))
    return columns
