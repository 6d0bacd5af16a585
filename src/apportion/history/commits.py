"""A group's commits taken one by one: the last ones, and how often they came between the group's records.

The dump, the pipeline's tables and the server are read by this one rule. A build gathers the same of many groups on
columns (``spark/standing.py``); a test holds both equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from apportion.history.cause import CommitInterval

TopicPartition = tuple[str, int]
"""Topic and partition."""

TIME_MAX: Final = (2**63 - 1) // 1000
"""Milliseconds that a timestamp of the tables can hold, 292,000 years."""


def commit_time(at: int | None) -> int | None:
    """A commit's time in milliseconds; a time that no timestamp of the tables can hold is no time.

    >>> commit_time(1_763_730_000_000), commit_time(2**63 - 1)
    (1763730000000, None)
    """
    return at if at is not None and abs(at) <= TIME_MAX else None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The newest commit on a partition: the next offset to read, the topic's id if the commit names it, when (ms)."""

    committed: int
    topic_id: str | None = None
    at: int | None = None


@dataclass
class CommitTimes:
    """Commits counted partition by partition between two records of the group."""

    counted: dict[tuple[int, str, int], tuple[int, int, int]] = field(default_factory=dict)

    def take(self, after: int, partition: TopicPartition, at: int | None) -> None:
        """One commit after the record at offset ``after``; before a group's first (-1) they say nothing of a member."""
        if after < 0 or at is None:
            return
        n, first, last = self.counted.get((after, *partition), (0, at, at))
        self.counted[after, *partition] = (n + 1, min(first, at), max(last, at))

    def intervals(self) -> list[CommitInterval]:
        """The counts."""
        return [CommitInterval(*key, *numbers) for key, numbers in self.counted.items()]


@dataclass
class GroupCommits:
    """All commits of a group, in the order of their offsets."""

    standing: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    times: CommitTimes = field(default_factory=CommitTimes)

    def take(
        self, partition: TopicPartition, committed: int | None, topic_id: str | None, at: int | None, after: int
    ) -> None:
        """One commit, or the deletion of all before it.

        committed
            None for a deletion.
        at
            The commit's time in milliseconds, whatever it is.
        after
            Offset of the group's record before it; -1 none.
        """
        if committed is None:
            self.standing.pop(partition, None)
            return
        time = commit_time(at)
        self.standing[partition] = CommittedOffset(committed, topic_id, time)
        self.times.take(after, partition, time)


def topic_names(by_commits: Iterable[tuple[str, str]], by_topics: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Topic id to name: from the topics that exist, else from commits that carried the id.

    by_commits, by_topics
        (topic id, name). Where one id has several names, which no broker gives, the last one by name counts.

    >>> topic_names([("X", "new"), ("Y", "gone"), ("Y", "away")], [("X", "now")])
    {'X': 'now', 'Y': 'gone'}
    """
    names: dict[str, str] = {}
    for topic_id, topic in by_commits:
        names[topic_id] = max(names.get(topic_id, topic), topic)
    sure: dict[str, str] = {}
    for topic_id, topic in by_topics:
        sure[topic_id] = max(sure.get(topic_id, topic), topic)
    return {**names, **sure}
