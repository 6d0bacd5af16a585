"""All groups of a dump or of tables, each folded only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from apportion.assignors import Assignor, find
from apportion.errors import UnknownName
from apportion.history import task_groups
from apportion.history.broker_tasks import score_tasks
from apportion.history.cause import CommitCadence, CommitInterval
from apportion.history.commits import CommittedOffset
from apportion.history.ends_then import SILENT, EndSamples
from apportion.history.epochs import epoch_rows
from apportion.history.fold import Folded, Present, fold
from apportion.history.lag_columns import Known, lags
from apportion.history.predicted_targets import Score
from apportion.history.present import group_json
from apportion.history.rebalance_rows import Rebalance, rebalances
from apportion.history.records import Generation, GroupRecord
from apportion.history.replay import replay, replay_to_dict
from apportion.history.scenarios import ScenarioResult, what_if
from apportion.history.steps import TopicEntries
from apportion.model.protocols import OTHERS, STREAMS
from apportion.planning import strategy_of


@dataclass(frozen=True, slots=True)
class Lag:
    """One row of ``gold/lag``; see ``lags.Lags``."""

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
class TopicMetadata:
    """The cluster's topics as known when the dump was made.

    topics
        Topic to its partitions as entries of group.json, with ``last_stable`` besides.
    ids
        Topic to its id; names of other, older ids are in ``names``.
    names
        Topic id to name.
    samples
        Reads every sample of the log ends.
    """

    topics: TopicEntries = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    samples: Callable[[], EndSamples] = field(default=EndSamples, compare=False)


@dataclass(frozen=True)
class GroupHistory:
    """One group: its records in order, its present commits, and all that they show.

    events
        All records but commits, ascending by offset.
    commits
        (topic, partition) to the newest commit that stands.
    habits
        Commits counted between the group's records.
    """

    name: str
    events: Sequence[GroupRecord]
    commits: Mapping[tuple[str, int], CommittedOffset]
    habits: Sequence[CommitInterval]
    world: TopicMetadata

    @cached_property
    def folded(self) -> Folded:
        """Its generations, and the present."""
        return fold(self.events, self.world.names)

    @cached_property
    def present(self) -> Present | None:
        """As it is now; a group that only commits is ``simple``; None for one that is gone."""
        if self.folded.present is not None:
            return self.folded.present
        return Present("simple", "Empty", None, None, ()) if self.commits else None

    @cached_property
    def rebalances(self) -> list[Rebalance]:
        """The changes of each rebalance."""
        return rebalances(self.folded.generations, CommitCadence(self.habits))

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """Rows of ``gold/epochs``: the partitions that each epoch of a KIP-848 or streams group gave its members."""
        return list(epoch_rows(self.name, self.folded.generations))

    @cached_property
    def raw(self) -> dict[str, Any]:
        """group.json of the present; without members if there are none."""
        return self._raw(self.world.topics)

    def _raw(self, topics: TopicEntries) -> dict[str, Any]:
        committed: dict[str, dict[int, int]] = {}
        for (topic, partition), standing in sorted(self.commits.items()):
            committed.setdefault(topic, {})[partition] = standing.committed
        present = self.present or Present("simple", "Empty", None, None, ())
        return group_json(self.name, present, topics, committed, self.world.ids)

    @cached_property
    def heard_ms(self) -> int:
        """When it left its newest record, among those that are still there."""
        commits = (standing.at for standing in self.commits.values() if standing.at is not None)
        return max((*(event.at for event in self.events), *commits), default=SILENT)

    @property
    def runs_tasks(self) -> bool:
        """Whether it is, or was at last, a streams group: its tasks move whole, and assignors of tasks replay it."""
        return run_tasks(self.folded.generations)

    def what_if_tasks(
        self, steps: Sequence[str], assignor: str | None = None, settings: Mapping[str, str] | None = None
    ) -> list[task_groups.TaskStage]:
        """The effects of steps on the tasks of a streams group, under ``assignor`` or all that give tasks.

        Raises
            BadInput: a strategy that gives partitions; else as ``task_groups.task_stages``.
        """
        strategies = task_groups.variants()
        if assignor is not None:
            strategy = find(assignor, settings)
            if not task_groups.give_tasks(strategy):
                raise task_groups.refused(assignor, self.name)
            strategies = {
                " ".join([assignor, *(f"{key}={value}" for key, value in (settings or {}).items())]): strategy
            }
        return task_groups.task_stages(self.name, self.folded.generations, steps, strategies)

    def replay(self, assignor: str | Assignor) -> dict[str, Any]:
        """The JSON of ``apportion replay``.

        Raises
            BadInput: a streams group, and a strategy that gives partitions.
        """
        score = score_tasks(self.events) if self.runs_tasks else None
        return replayed(self.name, self.folded.generations, self.rebalances, self.all_topics, assignor, score)

    def what_if(self, assignors: Sequence[str] | None = None) -> list[ScenarioResult]:
        """Every strategy on the history and on the present under each scenario."""
        tasks = (
            task_groups.task_results(self.folded.generations)
            if assignors is None or task_groups.asks_for_tasks(assignors)
            else []
        )
        return [*self._what_if(assignors), *tasks]

    def _what_if(self, assignors: Sequence[str] | None) -> list[ScenarioResult]:
        generations, present = self.folded.generations, self.present
        if present is None:  # of a group that is gone nothing but its history counts
            return what_if(self.name, generations, None, {}, assignors)
        then = {**self.world.topics, **self.world.samples().then(self._own_topics, self.heard_ms)}
        # Without topic ids, as in the tables that Spark makes: the same rows from both.
        raw = {name: value for name, value in self._raw(then).items() if name != "topic_ids"}
        return what_if(
            self.name,
            generations,
            raw if present.readable and present.type not in OTHERS else None,
            {**then, **raw["topics"]} if self.folded.present is not None else {},
            assignors,
        )

    @cached_property
    def _own_topics(self) -> TopicEntries:
        """Those that its members ever wanted or held, or that it has commits on, as far as they are known."""
        seats = [seat for generation in self.folded.generations for seat in generation.members]
        names = {topic for seat in seats for topic in (*seat.topics, *seat.assigned)} | self.raw["topics"].keys()
        return {topic: self.world.topics[topic] for topic in sorted(names & self.world.topics.keys())}

    @cached_property
    def all_topics(self) -> TopicEntries:
        """Every known topic; those of the group with its commits."""
        return {**self.world.topics, **self.raw["topics"]}

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Topic to its id, if it is known."""
        return self.world.ids

    @cached_property
    def wanted(self) -> frozenset[str] | None:
        """Topics that a living member subscribes to; None if no member lives, or they cannot be known."""
        present = self.present
        if present is None or not present.members or not present.readable:
            return None
        return frozenset(topic for seat in present.members for topic in seat.topics)

    @cached_property
    def lags(self) -> list[Lag]:
        """A row for each standing commit, and for wanted partitions without one; by topic and partition."""
        wanted = self.wanted
        topics = sorted({topic for topic, _ in self.commits} | set(wanted or ()))
        logs = {topic: {e["partition"]: e for e in self.world.topics.get(topic, ())} for topic in topics}
        never = {(topic, p) for topic in wanted or () for p, entry in logs[topic].items() if "end" in entry}
        partitions = sorted({*self.commits, *never})
        entries = [logs[topic].get(p, {}) for topic, p in partitions]
        standing = [self.commits.get(partition) for partition in partitions]
        same = [
            commit is None or commit.topic_id in (None, self.world.ids.get(topic, commit.topic_id))
            for (topic, _), commit in zip(partitions, standing, strict=True)
        ]
        known = lags(
            Known.of(None if commit is None else commit.committed for commit in standing),
            Known.of(entry.get("begin") for entry in entries),
            Known.of(entry.get("end") for entry in entries),
            Known.of(entry.get("last_stable") for entry in entries),
            np.array(same, dtype=np.bool_),
            np.array([wanted is None or topic in wanted for topic, _ in partitions], dtype=np.bool_),
        )
        committed = [None if commit is None else commit.committed for commit in standing]
        ends = (column.to_list() for column in (known.begin, known.end, known.last_stable))
        behind = (column.to_list() for column in (known.raw, known.lag))
        more = (column.to_list() for column in (known.stable, known.lost))
        columns = zip(partitions, committed, *ends, *behind, known.words(), *more, strict=True)
        return [Lag(*partition, *row) for partition, *row in columns]


@dataclass(frozen=True)
class GroupHistories:
    """Every group that left a record, and the facts known about the topics."""

    groups: Mapping[str, GroupHistory]
    world: TopicMetadata

    def group(self, name: str) -> GroupHistory:
        """One group; UnknownName with the nearest name."""
        if name not in self.groups:
            raise UnknownName("group", name, sorted(self.groups))
        return self.groups[name]

    @property
    def living(self) -> list[GroupHistory]:
        """Groups that are not gone, by name."""
        return [self.groups[name] for name in sorted(self.groups) if self.groups[name].present is not None]


def run_tasks(generations: Sequence[Generation]) -> bool:
    """Whether the last of them is a streams group's."""
    return bool(generations) and generations[-1].kind == STREAMS


def replayed(
    name: str, generations: Sequence[Generation], rebalances: Sequence[Rebalance], topics: TopicEntries,
    assignor: str | Assignor, score: Score | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The JSON of ``apportion replay``; see ``GroupHistory.replay``."""
    strategy = strategy_of(assignor)
    if not run_tasks(generations):
        return replay_to_dict(name, strategy.name, replay(name, generations, strategy, topics), rebalances)
    if not task_groups.give_tasks(strategy):
        raise task_groups.refused(strategy.name, name)
    walked = task_groups.replay_tasks(name, generations, strategy)
    return task_groups.replay_to_dict(name, strategy.name, walked, score)
