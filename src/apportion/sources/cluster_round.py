"""One look at a whole cluster: every group, every committed offset, every log's ends, in a few batched requests.

The number of requests grows with brokers and with thousands of groups, never with partitions: metadata once; at each
broker one list of its groups, which also tells who coordinates them; then, in batches, descriptions and committed
offsets at the coordinators and log ends at the leaders. What one broker or one group does not tell is named, and the
rest goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from apportion.arrays import UNKNOWN, Bools, Longs
from apportion.errors import ApportionError, Unavailable
from apportion.model.protocols import SHARE, SIMPLE
from apportion.model.topic_columns import TopicColumns
from apportion.sources import tasks_and_shares
from apportion.sources.cluster import OFFSETS, Cluster, partition_of_group, sentences, topic_id_text
from apportion.sources.group_descriptions import NOT_FOUND, facts_of, kind_of, reads, request
from apportion.sources.nudge_commit import SUFFIX
from apportion.sources.spark_checkpoint import progress

GROUPS_AT_ONCE: Final = 500
"""Groups in one request for descriptions or committed offsets."""
PARTITIONS_AT_ONCE: Final = 20_000
"""Partitions in one request for log ends."""
SIDES: Final = ((-2, 0), (-1, 0), (-1, 1))
"""Timestamp and isolation level that ask for a log's earliest offset, its high watermark, its last stable offset."""
STABLE: Final = 2
"""The place of the last stable offset among them."""
ListedGroup = tuple[int, Mapping[str, Any]]
"""Its coordinator, and the fields under which it was listed."""
Committed = Mapping[tuple[str, int], int]
"""(Topic, partition number) to the next offset to read."""
INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True)
class TopicLog:
    """One topic as it was: its id, and arrays (P,) over its partitions, ascending by number.

    begin, end
        Log start offset and high watermark; -1 where the leader did not tell.
    racks
        Of each partition, those that hold a replica, sorted.
    stable
        Last stable offset, behind which ``read_committed`` readers see nothing; -1 unknown, None nobody asked.
    """

    topic_id: str | None
    number: Longs
    begin: Longs
    end: Longs
    racks: tuple[tuple[str, ...], ...]
    stable: Longs | None = None

    def rows(self, numbers: Longs) -> tuple[Longs, Bools]:
        """The index of partitions among those of the log, and whether they are there."""
        rows = np.minimum(np.searchsorted(self.number, numbers), len(self.number) - 1)
        known: Bools = self.number[rows] == numbers
        return rows, known

    @cached_property
    def entries(self) -> TopicColumns:
        """The same as a group's topic, without offsets of a group."""
        lists: dict[tuple[str, ...], int] = {}
        which = np.array([lists.setdefault(each, len(lists)) for each in self.racks], dtype=np.int64)
        return TopicColumns(self.number, self.begin, self.end, np.full(len(which), UNKNOWN), list(lists), which)

    def held_back(self) -> dict[int, int]:
        """Partition number to its last stable offset, if a transaction is open: it is below the log's end."""
        if self.stable is None:
            return {}
        rows = np.flatnonzero((self.stable != UNKNOWN) & (self.stable < self.end))
        return dict(zip(self.number[rows].tolist(), self.stable[rows].tolist(), strict=True))


@dataclass(frozen=True)
class DescribedGroup:
    """One group as its coordinator described it.

    facts
        ``state``, ``protocol``, ``assignor``, ``generation``, ``members``, ``wanted``, ``notes``: see
        ``group_descriptions``.
    """

    name: str
    coordinator: str
    facts: Mapping[str, Any]
    committed: Committed

    @cached_property
    def topics(self) -> set[str]:
        """Those that it wants, and those that it committed."""
        return {*self.facts["wanted"], *(topic for topic, _ in self.committed)}


def checkpoint_name(folder: str) -> str:
    """How the group of a streaming query is called."""
    return f"checkpoint:{os.path.basename(os.path.abspath(folder))}"


def held_back(group: DescribedGroup, logs: Mapping[str, TopicLog]) -> dict[tuple[str, int], int]:
    """(topic, partition) of a group to the last stable offset, if a transaction is open."""
    return {(t, p): stable for t in group.topics if t in logs for p, stable in logs[t].held_back().items()}


@dataclass
class Round:
    """The result of one look.

    at, ended
        Seconds since 1970, when the log ends had been asked for, and when all was there.
    groups
        Described ones by name.
    topics
        All that may be seen, by name.
    unknown
        Groups that are there, but could not be looked at, with the reason as a sentence.
    troubles
        What a whole broker did not tell, a sentence each; groups of a broker that listed none may be there or not.
    silent, away
        Ids of the brokers that did not list their groups, and those of them that did not answer at all.
    leaders
        Of each partition of ``__consumer_offsets`` its leader, which coordinates the partition's groups, and the epoch
        of its leadership; leader -1: there is none. Empty where this user may not see the topic.
    requests
        How many were sent.
    """

    at: float = 0.0
    ended: float = 0.0
    cluster_id: str | None = None
    brokers: int = 0
    groups: dict[str, DescribedGroup] = field(default_factory=dict)
    topics: dict[str, TopicLog] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    silent: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()
    leaders: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    requests: int = 0

    @property
    def listed_all(self) -> bool:
        """Whether every broker listed its groups."""
        return not self.silent

    @property
    def leaderless(self) -> int:
        """Partitions of ``__consumer_offsets`` that cannot be read now: no leader, or one that does not answer."""
        return sum(leader < 0 or leader in self.away for leader, _ in self.leaders.values())

    def listed(self, group: str) -> bool:
        """Whether the coordinator of a group of this name listed its groups: one that is not among them is gone."""
        if not self.leaders:
            return self.listed_all
        leader, _ = self.leaders.get(partition_of_group(group, len(self.leaders)), (-1, -1))
        return leader >= 0 and leader not in self.silent


def look(cluster: Cluster, make: Callable[[Any], Look] | None = None) -> Round:
    """Ask the cluster once.

    make
        Of the admin client makes a look at less than all.
    Raises
        Unavailable: nobody answers, or this user may look at nothing.
    """
    with sentences(cluster.bootstrap):
        seen: Round = cluster._admin._manager.run((make or Look)(cluster._admin).whole)
    if seen.troubles and not seen.groups and not seen.unknown and not seen.listed_all:
        raise Unavailable(seen.troubles[0])
    return seen


class Look:
    """The requests of one look, sent side by side if they do not need each other's answers.

    checkpoints
        Folders of Spark's streaming queries, each seen as a group that commits without members.
    """

    def __init__(self, admin: Any, checkpoints: Sequence[str] = ()) -> None:
        self.admin, self.round, self.checkpoints = admin, Round(), checkpoints
        self.address: dict[int, str] = {}

    async def whole(self) -> Round:
        """All of it."""
        seen = self.round
        metadata = await self._start(_metadata_request(), None)
        seen.cluster_id = metadata.cluster_id
        self.address = {b.node_id: f"{b.host}:{b.port} ({b.node_id})" for b in metadata.brokers}
        seen.brokers = len(self.address)
        racks = {broker.node_id: broker.rack for broker in metadata.brokers}
        for topic in metadata.topics:
            if topic.name == OFFSETS and not topic.error_code:
                seen.leaders = {p.partition_index: (p.leader_id, p.leader_epoch) for p in topic.partitions}
        chosen = self._choose(await self._lists())
        nodes = {name: node for name, (node, _) in chosen.items()}
        # Committed offsets before the log ends: a lag that is asked for in this order is never below 0 by itself.
        described = await self._described({name: kind_of(fields) for name, (_, fields) in chosen.items()}, nodes)
        shared = {name for name, facts in described.items() if facts["protocol"] == SHARE}
        committed = await self._committed({name: nodes[name] for name in described.keys() - shared})
        committed |= {name: {} for name in shared}  # theirs stand elsewhere
        for name, facts in described.items():
            if name in committed:
                seen.groups[name] = DescribedGroup(name, self._at(nodes[name]), facts, committed[name])
        self._queries()
        seen.at = time.time()
        await self._logs(self._of_interest(metadata.topics), racks)
        seen.ended = time.time()
        return seen

    # -- what is asked for, and what becomes of an error -------------------------------------------------------------

    def _choose(self, listed: Mapping[str, ListedGroup]) -> Mapping[str, ListedGroup]:
        """The groups that are looked at: all that read topics; a nudge is committed in one that reads nothing."""
        return {name: group for name, group in listed.items() if reads(group[1]) and not name.endswith(SUFFIX)}

    of_groups = False
    """Whether the logs of the groups' topics alone are looked at."""

    def _of_interest(self, topics: Iterable[Any]) -> list[Any]:
        """The topics whose logs are looked at, of all that there are."""
        if not self.of_groups:
            return [topic for topic in topics if topic.name not in INTERNAL]
        wanted = {topic for group in self.round.groups.values() for topic in group.topics}
        return [topic for topic in topics if topic.name in wanted]

    def _failed(self, error: Exception, missing: str = "", names: Iterable[str] = ()) -> None:
        """Note a missing answer, of a broker or of groups, and why; a single log's ends are unknown as they are."""
        why = in_words(error)
        if missing:
            self.round.troubles.append(f"{missing}: {why}.")
        self.round.unknown.update(dict.fromkeys(names, why))

    # -- groups -----------------------------------------------------------------------------------------------------

    async def _lists(self) -> dict[str, ListedGroup]:
        """All groups by name; each broker lists those that it coordinates."""
        from kafka.protocol.admin import ListGroupsRequest

        pending = [(node, self._start(ListGroupsRequest(min_version=0), node)) for node in sorted(self.address)]
        listed: dict[str, ListedGroup] = {}
        for node, future in pending:
            answer = await self._answer(future, f"the groups of broker {self._at(node)} are not known")
            if answer is None or answer.error_code:
                self.round.silent |= {node}
            if answer is None:
                self.round.away |= {node}
            elif answer.error_code:
                self._failed(_error(answer.error_code), f"broker {self._at(node)} does not list its groups")
            else:
                listed |= {group.group_id: (node, group.to_dict()) for group in answer.groups}
        return listed

    async def _described(self, kinds: Mapping[str, str], nodes: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        """Each group's facts and members, each asked for as its protocol has it."""
        descriptions: dict[str, dict[str, Any]] = {}
        requests = [
            (names, self._start(request(kind, names), node), kind)
            for kind in ("classic", "consumer", *tasks_and_shares.KINDS)
            for node, names in _batches({name: nodes[name] for name, its in kinds.items() if its == kind})
        ]
        for names, future, kind in requests:
            answer = await self._answer(future, "", names)
            for group in answer.groups if answer is not None else ():
                if group.error_code == NOT_FOUND or group.group_state == "Dead":
                    continue  # gone since it was listed
                if group.error_code:
                    self._failed(_error(group.error_code, group.group_id), names=[group.group_id])
                    continue
                try:
                    descriptions[group.group_id] = facts_of(kind, group)
                except Exception as error:  # other people's bytes: one group's must not end the look at all others
                    self._failed(error, names=[group.group_id])
        return descriptions

    async def _committed(self, groups: Mapping[str, int]) -> dict[str, dict[tuple[str, int], int]]:
        """Group to (topic, partition) to the next offset to read; partitions without a commit are left out."""
        from kafka.protocol.consumer import OffsetFetchRequest

        group_request = OffsetFetchRequest.OffsetFetchRequestGroup
        version = self.admin._manager.broker_version_data.api_version(OffsetFetchRequest)
        requests = []
        for node, names in _batches(groups, GROUPS_AT_ONCE if version >= 8 else 1):
            if version >= 8:
                request = OffsetFetchRequest(
                    groups=[group_request(group_id=name, topics=None) for name in names], min_version=8, max_version=8
                )
            else:
                request = OffsetFetchRequest(group_id=names[0], topics=None, min_version=2, max_version=7)
            requests.append((names, self._start(request, node)))
        committed: dict[str, dict[tuple[str, int], int]] = {}
        for names, future in requests:
            answer = await self._answer(future, "", names)
            if answer is None:
                continue
            of_names = [(names[0], answer)] if version < 8 else [(group.group_id, group) for group in answer.groups]
            for name, group in of_names:
                if group.error_code:
                    self._failed(_error(group.error_code, name), names=[name])
                else:
                    committed[name] = _offsets(group)
        return committed

    def _queries(self) -> None:
        """The streaming queries, by their checkpoints."""
        facts: dict[str, Any] = {
            "state": None,
            "protocol": SIMPLE,
            "assignor": None,
            "generation": None,
            "members": {},
            "wanted": set(),
        }
        for folder in self.checkpoints:
            name = checkpoint_name(folder)
            try:
                self.round.groups[name] = DescribedGroup(name, "", {**facts, "notes": []}, progress(folder))
            except ApportionError as wrong:
                self._failed(wrong, f"nothing is known of {name}")

    # -- logs -------------------------------------------------------------------------------------------------------

    async def _logs(self, topics: Sequence[Any], racks: Mapping[int, str | None]) -> None:
        """Every topic with the ends of its logs."""
        places: dict[int, list[tuple[str, int, int]]] = {}
        drafts: dict[str, tuple[Longs, ...]] = {}
        sets: dict[tuple[int, ...], tuple[str, ...]] = {}
        for topic in topics:
            if topic.error_code:
                continue
            parts = sorted(topic.partitions, key=lambda part: part.partition_index)
            unknown = np.full((3, len(parts)), UNKNOWN)
            drafts[topic.name] = tuple(unknown)
            near = []
            for i, part in enumerate(parts):
                nodes = tuple(part.replica_nodes)
                if nodes not in sets:
                    sets[nodes] = tuple(sorted({str(rack) for node in nodes if (rack := racks.get(node))}))
                near.append(sets[nodes])
                if part.leader_id >= 0:
                    places.setdefault(part.leader_id, []).append((topic.name, part.partition_index, i))
            number = np.array([part.partition_index for part in parts], dtype=np.int64)
            self.round.topics[topic.name] = TopicLog(
                topic_id_text(topic.topic_id), number, unknown[0], unknown[1], tuple(near), unknown[2]
            )
        for which in range(len(SIDES)):
            await self._ends(places, drafts, which)

    async def _ends(
        self,
        places: Mapping[int, list[tuple[str, int, int]]],
        drafts: Mapping[str, tuple[Longs, ...]],
        which: int,
    ) -> None:
        """One end of each log, asked of its leader, as ``SIDES`` has them."""
        requests = []
        for node, mine in places.items():
            for start in range(0, len(mine), PARTITIONS_AT_ONCE):
                part = mine[start : start + PARTITIONS_AT_ONCE]
                requests.append((node, part, self._start(_ends_request(part, *SIDES[which]), node)))
        for node, part, future in requests:
            answer = await self._answer(future, f"the log ends of broker {self._at(node)} are not known")
            if answer is None:
                continue
            row = {(topic, number): i for topic, number, i in part}
            for topic in answer.topics:
                draft = drafts[topic.name][which]
                for partition in topic.partitions:
                    if partition.error_code:
                        self._failed(_error(partition.error_code))
                    else:
                        draft[row[topic.name, partition.partition_index]] = partition.offset

    # -- one request ------------------------------------------------------------------------------------------------

    def _start(self, request: Any, node: int | None) -> Any:
        """A request on its way: it is sent next to the others."""
        from kafka import errors
        from kafka.future import Future

        self.round.requests += 1
        try:
            return self.admin._manager.send(request, node_id=node)
        except errors.UnknownBrokerIdError:  # it has come back, and the client's own metadata is older than ours
            self.admin._manager.cluster.request_update()
            return Future().failure(errors.NodeNotReadyError(node))

    async def _answer(self, future: Any, missing: str, names: Iterable[str] = ()) -> Any:
        """Its answer; None if the broker gave none, which is noted."""
        from kafka import errors

        try:
            return await future
        except errors.KafkaError as error:
            self._failed(error, missing, names)
            return None

    def _at(self, node: int) -> str:
        return self.address.get(node, str(node))


def _error(code: int, *of: str) -> Exception:
    from kafka import errors

    error: Exception = errors.for_code(code)(*of)
    return error


def _metadata_request() -> Any:
    from kafka.protocol.metadata import MetadataRequest

    return MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def _ends_request(places: Iterable[tuple[str, int, int]], timestamp: int, isolation: int) -> Any:
    from kafka.protocol.consumer import ListOffsetsRequest

    topic_of = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[Any]] = {}
    for topic, number, _ in places:
        by_topic.setdefault(topic, []).append(
            topic_of.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
        )
    topics = [topic_of(name=name, partitions=parts) for name, parts in by_topic.items()]
    return ListOffsetsRequest(isolation_level=isolation, topics=topics, min_version=2 if isolation else 1)


def _batches(groups: Mapping[str, int], most: int = GROUPS_AT_ONCE) -> Iterator[tuple[int, list[str]]]:
    """Coordinator and some of its groups, by name."""
    by_node: dict[int, list[str]] = {}
    for name in sorted(groups):
        by_node.setdefault(groups[name], []).append(name)
    for node, names in sorted(by_node.items()):
        for start in range(0, len(names), most):
            yield node, names[start : start + most]


def _offsets(group: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in group.topics
        for part in topic.partitions
        if part.committed_offset >= 0 and not part.error_code
    }


_WORDS: Final = {
    "CoordinatorLoadInProgressError": "its coordinator is still loading",
    "CoordinatorNotAvailableError": "it has no coordinator just now",
    "NotCoordinatorError": "its coordinator has just changed",
    "GroupAuthorizationFailedError": "this user may not look at it; it needs the ACL Describe on the group",
    "ClusterAuthorizationFailedError": "this user may not list groups; it needs the ACL Describe on the cluster",
    "NodeNotReadyError": "the broker cannot be reached",
    "KafkaConnectionError": "the connection broke",
    "RequestTimedOutError": "the broker did not answer in time",
    "KafkaTimeoutError": "the broker did not answer in time",
}


def in_words(error: Any) -> str:
    """Why a broker did not report something, as the end of a sentence."""
    if isinstance(error, ApportionError):
        return str(error).rstrip(".")
    for kind in type(error).__mro__:
        if kind.__name__ in _WORDS:
            return _WORDS[kind.__name__]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
