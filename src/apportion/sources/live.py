"""Groups of a live cluster, through kafka-python's admin client: the same as Kafka's own tool prints, and more.

Beside owners and offsets a live cluster tells subscriptions, racks and log starts, which the printed text leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any, Final

import numpy as np

from apportion.arrays import UNKNOWN, Longs
from apportion.errors import UnknownName
from apportion.model.build import build
from apportion.model.group import Group, Offsets
from apportion.model.lag import MARKERS_MAX
from apportion.model.protocols import STREAMS
from apportion.model.topic_columns import TopicColumns
from apportion.sighting.sighting import Sighting
from apportion.sources.cluster import Cluster, connect, patiently
from apportion.sources.cluster_round import (
    Committed,
    DescribedGroup,
    ListedGroup,
    Look,
    TopicLog,
    checkpoint_name,
    held_back,
)
from apportion.sources.config import Connection
from apportion.sources.log_tails import PLACES_MAX, Place, tails

_OF_SIGHTING: Final = (
    "state", "protocol", "assignor", "generation", "notes", "roles", "assigned_data", "carried", "governed",
    "classic_members", "addresses",
)  # fmt: skip
"""What a description has of a ``Sighting``, by the same names."""


def groups(
    connection: Connection, names: Sequence[str] | None, leave_out: bool = False, refused: list[str] | None = None,
    checkpoints: Sequence[str] = (),
) -> list[Sighting]:  # fmt: skip
    """The named groups in that order, or by name all that read topics.

    leave_out
        A named group that is not there is left out.
    refused
        Where all are asked for: takes the names of groups that are left out, since this user may not look at them. If
        it is not given, one such group is an error.
    checkpoints
        Folders of Spark's streaming queries, whose progress comes after the groups.
    Raises
        Unavailable: no broker answers, or it refuses. UnknownName: no group of that name. MissingExtra: no client.
    """
    with connect(connection.bootstrap, connection.properties) as cluster:
        return read(cluster, names, leave_out, refused, checkpoints)


def read(
    cluster: Cluster, names: Sequence[str] | None, leave_out: bool = False, refused: list[str] | None = None,
    checkpoints: Sequence[str] = (),
) -> list[Sighting]:  # fmt: skip
    """The named groups, or all, over a connection that is open: see ``groups``."""
    admin = cluster._admin

    def ask() -> _LookAtSome:
        look = _LookAtSome(admin, names, refused is not None, checkpoints)
        admin._manager.run(look.whole)
        return look

    look = patiently(cluster.bootstrap, ask)
    if look.undescribed:  # since it was listed it has ended, or gone over to another protocol
        look = patiently(cluster.bootstrap, ask)
    described = look.round.groups
    queries = [checkpoint_name(folder) for folder in checkpoints]
    chosen = sorted(described) if names is None else list(dict.fromkeys([*names, *queries]))
    if not leave_out and (missing := [name for name in chosen if name not in described]):
        raise UnknownName("group", missing[0], sorted(look.listed - set(missing)))
    if refused is not None:
        refused += sorted(look.round.unknown)
    logs = look.round.topics
    read_at = _behind_markers(cluster, described.values(), logs)
    return [sighted(group, logs, read_at) for name in chosen if (group := described.get(name)) is not None]


class _LookAtSome(Look):
    """The requests of some groups, or of all, and of the topics that they read; a missing answer ends the look.

    leave_refused
        Groups that this user may not look at are left out where all are asked for.
    listed, chosen
        All groups that there are, and those of them that are asked for.
    """

    of_groups = True

    def __init__(
        self, admin: Any, names: Sequence[str] | None, leave_refused: bool, checkpoints: Sequence[str] = ()
    ) -> None:
        super().__init__(admin, checkpoints)
        self.names, self.leave_refused = names, leave_refused and names is None
        self.listed: frozenset[str] = frozenset()
        self.chosen: Mapping[str, ListedGroup] = {}

    @property
    def undescribed(self) -> Set[str]:
        """Groups that were listed, and gone when they were asked for, or of another kind."""
        return self.chosen.keys() - self.round.groups.keys() - self.round.unknown.keys()

    def _choose(self, listed: Mapping[str, ListedGroup]) -> Mapping[str, ListedGroup]:
        named = {name: listed[name] for name in self.names or () if name in listed}
        self.listed, self.chosen = frozenset(listed), super()._choose(listed) if self.names is None else named
        return self.chosen

    def _failed(self, error: Exception, missing: str = "", names: Iterable[str] = ()) -> None:
        from kafka import errors

        if not (self.leave_refused and isinstance(error, errors.GroupAuthorizationFailedError)):
            raise error
        super()._failed(error, missing, names)


def _behind_markers(
    cluster: Cluster, groups: Iterable[DescribedGroup], logs: Mapping[str, TopicLog]
) -> dict[Place, int]:
    """The commit from which on only markers of transactions are at a log's end.

    Logs are looked at where some group is one or two offsets behind, from the newest of such commits on, as far as this
    user may read them.
    """
    ends = {topic: dict(zip(log.number.tolist(), log.end.tolist(), strict=True)) for topic, log in logs.items()}
    behind: dict[Place, int] = {}
    for group in groups:
        for place, offset in group.committed.items():
            if 0 < ends.get(place[0], {}).get(place[1], UNKNOWN) - offset <= MARKERS_MAX:
                behind[place] = max(offset, behind.get(place, offset))
    places = dict(islice(behind.items(), PLACES_MAX))
    looked = tails(cluster, places) if places else {}
    return {p: places[p] for p, tail in looked.items() if not tail.message and tail.first >= ends[p[0]][p[1]]}


def sighted(described: DescribedGroup, logs: Mapping[str, TopicLog], read_at: Mapping[Place, int]) -> Sighting:
    """A described group with its offsets; one that is before markers alone, from ``read_at`` on, has read all."""
    shape = shape_of(described, logs)
    offsets = offsets_of(shape, described.committed, logs)
    for p, (topic, number) in enumerate(shape.name_of(p) for p in range(shape.P)) if read_at else ():
        if read_at.get((topic, number), offsets.end[p] + 1) <= offsets.committed[p] <= offsets.end[p]:
            offsets.lag[p] = 0
    return seen_with(described, shape.with_offsets(offsets), logs)


def seen_with(described: DescribedGroup, group: Group, logs: Mapping[str, TopicLog]) -> Sighting:
    """The group with its coordinator's further facts."""
    facts = {name: described.facts[name] for name in _OF_SIGHTING if name in described.facts}
    return Sighting(group, coordinator=described.coordinator, stable=held_back(described, logs), **facts)


def shape_of(described: DescribedGroup, logs: Mapping[str, TopicLog]) -> Group:
    """The group without offsets: all partitions of topics that it wants, of others those that it committed."""
    facts, nothing = described.facts, np.empty(0, dtype=np.int64)
    commits: dict[str, list[int]] = {}
    for topic, number in described.committed:
        commits.setdefault(topic, []).append(number)
    topics: dict[str, TopicColumns] = {}
    for topic in sorted({*facts["wanted"], *commits}):
        log = logs.get(topic)
        known = nothing if log is None else log.number
        committed = np.array(commits.get(topic, ()), dtype=np.int64)
        numbers = np.union1d(known, committed) if topic in facts["wanted"] else np.unique(committed)
        if len(numbers):  # else it is wanted, but not there
            topics[topic] = _columns(numbers, log)
    members = {
        name: {k: v for k, v in fields.items() if v or k in ("topics", "owned")}
        | {"generation": 0 if fields["owned"] else -1}
        for name, fields in facts["members"].items()
    }
    if facts["protocol"] == STREAMS:  # a task's number may pass the end of the narrower of its topics
        held = {topic: set(logs[topic].number.tolist()) for topic in topics if topic in logs}
        for fields in members.values():
            owned = {t: [p for p in ids if p in held.get(t, ())] for t, ids in fields["owned"].items()}
            fields["owned"] = {topic: ids for topic, ids in owned.items() if ids}
    ids = {topic: log.topic_id for topic in topics if (log := logs.get(topic)) is not None and log.topic_id}
    return build({"group": described.name, "topics": topics, "topic_ids": ids, "members": members})


def _columns(numbers: Longs, log: TopicLog | None) -> TopicColumns:
    """Partitions of a topic with the racks of their replicas."""
    lists: list[tuple[str, ...]] = [()]
    racks = np.zeros(len(numbers), dtype=np.int64)
    if log is not None and len(log.number):
        rows, known = log.rows(numbers)
        lists = [*log.entries.rack_lists, ()]
        racks = np.where(known, log.entries.racks_of[rows], len(lists) - 1)
    unknown = np.full(len(numbers), UNKNOWN)
    return TopicColumns(numbers, unknown, unknown, unknown, lists, racks)


def offsets_of(group: Group, committed: Committed, logs: Mapping[str, TopicLog]) -> Offsets:
    """The group's commits, and where the logs of its partitions begin and end."""
    begin, end, commits, lag = (np.full(group.P, UNKNOWN, dtype=np.int64) for _ in range(4))
    number = group.number.tolist()
    for t, topic in enumerate(group.topics):
        mine, log = group.partitions(t), logs.get(topic)
        if log is not None and len(log.number):
            rows, known = log.rows(group.number[mine])
            begin[mine], end[mine] = np.where(known, log.begin[rows], UNKNOWN), np.where(known, log.end[rows], UNKNOWN)
        commits[mine] = [committed.get((topic, p), UNKNOWN) for p in number[mine]]
    return Offsets(begin, end, commits, lag)
