"""One group's rows of the pipeline's tables by the plain rules, one group at a time: what Spark's are held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from apportion.history import task_groups
from apportion.history.ends_then import SILENT
from apportion.history.epochs import epoch_rows
from apportion.history.group_history import GroupHistory
from apportion.history.lag_columns import Known, lags
from apportion.history.lag_time import thinned
from apportion.history.present import group_json
from apportion.history.records import Generation
from apportion.history.scenarios import ScenarioResult, outcomes
from apportion.history.steps import TopicEntries
from apportion.model.protocols import OTHERS
from apportion.sources import dump_files, parquet
from apportion.strategy.registry import tabled

Sample = tuple[int, int | None, int | None]
"""(at ms, begin, end)"""


@dataclass(frozen=True, slots=True)
class Lag:
    """One row of ``gold/lag``; see ``lag_columns.Lags``."""

    topic: str
    partition: int
    committed: int | None
    begin: int | None
    end: int | None
    last_stable: int | None
    raw_lag: int | None
    lag: int | None
    status: str
    stable_lag: int | None
    lost: int | None


@dataclass(frozen=True)
class EndSamples:
    """Samples of the log ends, of each (topic, partition) in the order of time; the older the fewer."""

    of: Mapping[tuple[str, int], list[Sample]] = field(default_factory=dict)

    @classmethod
    def ordered(cls, rows: Iterable[tuple[str, int, Sample]]) -> EndSamples:
        """Of samples in any order."""
        of: dict[tuple[str, int], list[Sample]] = {}
        for topic, partition, sample in rows:
            of.setdefault((topic, partition), []).append(sample)
        for samples in of.values():
            samples.sort(key=lambda sample: sample[0])
        moments = np.array([sample[0] for samples in of.values() for sample in samples], dtype=np.int64)
        logs = np.repeat(np.arange(len(of)), [len(samples) for samples in of.values()])
        stays = iter(thinned(logs, moments).tolist())
        return cls({where: [sample for sample in samples if next(stays)] for where, samples in of.items()})

    @classmethod
    def of_dump(cls, path: Path) -> EndSamples:
        """Every sample of a dump that says which log it is of, and of when."""
        files = dump_files.find(path)
        rows = [
            row for file in {**files.ends, **files.samples} for row in parquet.read(file, dump_files.ENDS).to_pylist()
        ]
        known = [row for row in rows if None not in (row["topic"], row["partition"], row["at"])]
        return cls.ordered((row["topic"], row["partition"], (row["at"], row["begin"], row["end"])) for row in known)

    def then(self, topics: TopicEntries, heard_ms: int) -> TopicEntries:
        """The topics' entries with the offsets sampled first at this moment or after it, else with the newest."""
        return {topic: [self._entry(topic, entry, heard_ms) for entry in entries] for topic, entries in topics.items()}

    def _entry(self, topic: str, entry: Mapping[str, Any], heard_ms: int) -> Mapping[str, Any]:
        samples = self.of.get((topic, entry["partition"]), ())
        if len(samples) < 2:
            return entry
        _, begin, end = next((sample for sample in samples if sample[0] >= heard_ms), samples[-1])
        return {**entry, "begin": begin, "end": end}


NO_SAMPLES = EndSamples()


def epochs_of(group: GroupHistory) -> list[dict[str, Any]]:
    """Rows of ``gold/epochs``."""
    return list(epoch_rows(group.name, group.folded.generations))


def lags_of(group: GroupHistory) -> list[Lag]:
    """A row for each standing commit, and for wanted partitions without one; by topic and partition."""
    present, world = group.present, group.world
    known = present is not None and present.members and present.readable
    wanted = {topic for seat in present.members for topic in seat.topics} if present and known else None
    topics = sorted({topic for topic, _ in group.commits} | (wanted or set()))
    logs = {topic: {e["partition"]: e for e in world.topics.get(topic, ())} for topic in topics}
    never = {(topic, p) for topic in wanted or () for p, entry in logs[topic].items() if "end" in entry}
    partitions = sorted({*group.commits, *never})
    entries = [logs[topic].get(p, {}) for topic, p in partitions]
    standing = [group.commits.get(partition) for partition in partitions]
    committed = [None if commit is None else commit.committed for commit in standing]
    same = [
        commit is None or commit.topic_id in (None, world.ids.get(topic, commit.topic_id))
        for (topic, _), commit in zip(partitions, standing, strict=True)
    ]
    begin, end, last_stable = (
        Known.of([entry.get(name) for entry in entries]) for name in ("begin", "end", "last_stable")
    )
    mine = np.array([wanted is None or topic in wanted for topic, _ in partitions], dtype=np.bool_)
    rows = lags(Known.of(committed), begin, end, last_stable, np.array(same, dtype=np.bool_), mine)
    before = (column.to_list() for column in (rows.begin, rows.end, rows.last_stable, rows.raw, rows.lag))
    columns = zip(partitions, committed, *before, rows.words(), rows.stable.to_list(), rows.lost.to_list(), strict=True)
    return [Lag(*partition, *row) for partition, *row in columns]


def what_if_of(
    group: GroupHistory, assignors: Sequence[str] | None = None, samples: EndSamples = NO_SAMPLES
) -> list[ScenarioResult]:
    """Rows of ``gold/whatif``: every strategy on the history, and on the present under each scenario."""
    asks = assignors is None or task_groups.asks_for_tasks(assignors)
    tasks = task_groups.task_results(group.folded.generations) if asks else []
    return [*_of_partitions(group, assignors, samples), *tasks]


def _of_partitions(group: GroupHistory, assignors: Sequence[str] | None, samples: EndSamples) -> list[ScenarioResult]:
    generations, present = group.folded.generations, group.present
    if present is None:  # of a group that is gone nothing but its history counts
        return what_if(group.name, generations, None, {}, assignors)
    seats = [seat for generation in generations for seat in generation.members]
    names = {topic for seat in seats for topic in (*seat.topics, *seat.assigned)} | group.raw["topics"].keys()
    own = {topic: group.world.topics[topic] for topic in sorted(names & group.world.topics.keys())}
    heard = (
        *(event.at for event in group.events),
        *(commit.at for commit in group.commits.values() if commit.at is not None),
    )
    then = {**group.world.topics, **samples.then(own, max(heard, default=SILENT))}
    committed: dict[str, dict[int, int]] = {}
    for (topic, partition), standing in sorted(group.commits.items()):
        committed.setdefault(topic, {})[partition] = standing.committed
    raw = group_json(group.name, present, then, committed)
    plannable = present.readable and present.type not in OTHERS
    topics = {**then, **raw["topics"]} if group.folded.present is not None else {}
    return what_if(group.name, generations, raw if plannable else None, topics, assignors)


def what_if(
    name: str,
    generations: Sequence[Generation],
    present: Mapping[str, Any] | None,
    topics: TopicEntries | None = None,
    assignors: Iterable[str] | None = None,
) -> list[ScenarioResult]:
    """The rows of ``outcomes``, by default for the strategies that tables have."""
    recipes = list(tabled() if assignors is None else assignors)
    return [outcome.answer for outcome in outcomes(name, generations, present, topics, recipes)]
