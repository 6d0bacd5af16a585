"""All groups of a dump or of tables, each folded only when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from apportion.assignors import Assignor, find
from apportion.errors import UnknownName
from apportion.history import task_groups
from apportion.history.broker_tasks import score_tasks
from apportion.history.cause import CommitCadence, CommitInterval
from apportion.history.commits import CommittedOffset
from apportion.history.fold import Folded, Present, fold
from apportion.history.present import group_json
from apportion.history.rebalance_rows import Rebalance, rebalances
from apportion.history.records import Generation, GroupRecord
from apportion.history.replay import replay, replay_to_dict
from apportion.history.steps import TopicEntries
from apportion.model.protocols import STREAMS
from apportion.planning import strategy_of


@dataclass(frozen=True)
class TopicMetadata:
    """The cluster's topics as known when the dump was made.

    topics
        Topic to its partitions as entries of group.json, with ``last_stable`` besides.
    ids
        Topic to its id; names of other, older ids are in ``names``.
    names
        Topic id to name.
    """

    topics: TopicEntries = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


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

    @classmethod
    def remembered(
        cls, name: str, generations: list[Generation], rebalances: list[Rebalance], world: TopicMetadata
    ) -> GroupHistory:
        """A group of which generations and rebalances are remembered, and no records."""
        history = cls(name, (), {}, (), world)
        history.__dict__.update(folded=Folded(generations, None), rebalances=rebalances)
        return history

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

    @cached_property
    def raw(self) -> dict[str, Any]:
        """group.json of the present; without members if there are none."""
        committed: dict[str, dict[int, int]] = {}
        for (topic, partition), standing in sorted(self.commits.items()):
            committed.setdefault(topic, {})[partition] = standing.committed
        present = self.present or Present("simple", "Empty", None, None, ())
        return group_json(self.name, present, self.world.topics, committed, self.world.ids)

    @property
    def runs_tasks(self) -> bool:
        """Whether it is, or was at last, a streams group: its tasks move whole, and assignors of tasks replay it."""
        generations = self.folded.generations
        return bool(generations) and generations[-1].kind == STREAMS

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
        strategy, generations = strategy_of(assignor), self.folded.generations
        if not self.runs_tasks:
            walked = replay(self.name, generations, strategy, self.all_topics)
            return replay_to_dict(self.name, strategy.name, walked, self.rebalances)
        if not task_groups.give_tasks(strategy):
            raise task_groups.refused(strategy.name, self.name)
        epochs = task_groups.replay_tasks(self.name, generations, strategy)
        return task_groups.replay_to_dict(self.name, strategy.name, epochs, score_tasks(self.events))

    @cached_property
    def all_topics(self) -> TopicEntries:
        """Every known topic; those of the group with its commits."""
        return {**self.world.topics, **self.raw["topics"]}

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Topic to its id, if it is known."""
        return self.world.ids


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
