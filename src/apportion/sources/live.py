"""Groups of a live cluster, through kafka-python's admin client: the same as Kafka's own tool prints, and more.

Beside owners and offsets a live cluster tells subscriptions, racks and log starts, which the printed text leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from apportion.errors import UnknownName
from apportion.history.lag_time import MARKERS_MAX
from apportion.history.records import STREAMS
from apportion.sources.cluster import Cluster, connect, patiently
from apportion.sources.cluster_round import Committed, DescribedGroup, ListedGroup, Look, entries_of, held_back
from apportion.sources.config import Connection
from apportion.sources.described_group import Observed
from apportion.sources.log_tails import PLACES_MAX, Place, tails

_OF_DESCRIPTION: Final = (
    "state", "protocol", "kind", "generation", "sentences", "assigned_data", "carried", "governed", "classic_members",
)  # fmt: skip
"""What a description has of an ``Observed``, by the same names."""


def groups(
    connection: Connection, names: Sequence[str] | None, leave_out: bool = False, refused: list[str] | None = None
) -> list[Observed]:
    """The named groups in that order, or by name all that read topics.

    leave_out
        A named group that is not there is left out.
    refused
        Where all are asked for: takes the names of groups that are left out, since this user may not look at them. If
        it is not given, one such group is an error.
    Raises
        Unavailable: no broker answers, or it refuses. UnknownName: no group of that name. MissingExtra: no client.
    """
    with connect(connection.bootstrap, connection.properties) as cluster:
        return read(cluster, names, leave_out, refused)


def read(
    cluster: Cluster, names: Sequence[str] | None, leave_out: bool = False, refused: list[str] | None = None
) -> list[Observed]:
    """The named groups, or all, over a connection that is open: see ``groups``."""
    admin = cluster._admin

    def ask() -> _LookAtSome:
        look = _LookAtSome(admin, names, refused is not None)
        admin._manager.run(look.whole)
        return look

    look = patiently(cluster.bootstrap, ask)
    if look.undescribed:  # since it was listed it has ended, or gone over to another protocol
        look = patiently(cluster.bootstrap, ask)
    described = look.round.groups
    chosen = sorted(described) if names is None else list(dict.fromkeys(names))
    if not leave_out and (missing := [name for name in chosen if name not in described]):
        raise UnknownName("group", missing[0], sorted(look.listed - set(missing)))
    if refused is not None:
        refused += sorted(look.round.unknown)
    entries = entries_of(look.round.topics)
    _pass_markers(cluster, described.values(), entries.by_number)
    return [
        replace(
            observed_group(name, group.description, group.committed, entries.by_number, entries.ids, group.coordinator),
            stable=held_back(group, look.round.topics),
        )
        for name in chosen
        if (group := described.get(name)) is not None
    ]


class _LookAtSome(Look):
    """The requests of some groups, or of all, and of the topics that they read; what is not told ends the look.

    leave_refused
        Groups that this user may not look at are left out where all are asked for.
    listed, chosen
        All groups that there are, and those of them that are asked for.
    """

    def __init__(self, admin: Any, names: Sequence[str] | None, leave_refused: bool) -> None:
        super().__init__(admin)
        self.names, self.leave_refused = names, leave_refused and names is None
        self.listed: frozenset[str] = frozenset()
        self.chosen: Mapping[str, ListedGroup] = {}

    @property
    def undescribed(self) -> Set[str]:
        """Groups that were listed, and not there any more when they were asked for, or not as what they were."""
        return self.chosen.keys() - self.round.groups.keys() - self.round.unknown.keys()

    def _choose(self, listed: Mapping[str, ListedGroup]) -> Mapping[str, ListedGroup]:
        named = {name: listed[name] for name in self.names or () if name in listed}
        self.listed, self.chosen = frozenset(listed), super()._choose(listed) if self.names is None else named
        return self.chosen

    def _of_interest(self, topics: Iterable[Any]) -> list[Any]:
        wanted = {topic for group in self.round.groups.values() for topic in group.topics}
        return [topic for topic in topics if topic.name in wanted]

    def _failed(self, error: Exception, missing: str = "", names: Iterable[str] = ()) -> None:
        from kafka import errors

        if not (self.leave_refused and isinstance(error, errors.GroupAuthorizationFailedError)):
            raise error
        super()._failed(error, missing, names)


def _pass_markers(
    cluster: Cluster, groups: Iterable[DescribedGroup], entries: Mapping[str, Mapping[int, dict[str, Any]]]
) -> None:
    """Note in ``entries`` from which commit on nothing but markers of transactions stands at a log's end.

    Logs are looked at where some group is one or two offsets behind, from the newest of such commits on, as far as this
    user may read them.
    """
    behind: dict[Place, int] = {}
    for group in groups:
        for (topic, p), offset in group.committed.items():
            end = entries.get(topic, {}).get(p, {}).get("end")
            if end is not None and 0 < end - offset <= MARKERS_MAX:
                behind[topic, p] = max(offset, behind.get((topic, p), offset))
    places = dict(islice(behind.items(), PLACES_MAX))
    for (topic, p), tail in (tails(cluster, places) if places else {}).items():
        if not tail.message and tail.first >= entries[topic][p]["end"]:
            entries[topic][p]["read_at"] = places[topic, p]


def _with_commit(entry: Mapping[str, Any], committed: int | None) -> dict[str, Any]:
    """A partition's entry in group.json; who stands before markers alone has read all."""
    fields = {key: value for key, value in entry.items() if key != "read_at"}
    if committed is None:
        return fields
    read = {"lag": 0} if "read_at" in entry and entry["read_at"] <= committed <= entry["end"] else {}
    return {**fields, "committed": committed, **read}


def observed_group(
    name: str,
    description: Mapping[str, Any],
    committed: Committed,
    entries: Mapping[str, Mapping[int, Mapping[str, Any]]],
    ids: Mapping[str, str] | None = None,
    coordinator: str | None = None,
) -> Observed:
    """The group as group.json: all partitions of wanted topics, and those that it committed elsewhere.

    ids
        Topic to its id, where the cluster told it.
    """
    commits: dict[str, dict[int, int]] = {}
    for (topic, p), offset in committed.items():
        commits.setdefault(topic, {})[p] = offset
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic in sorted({*description["wanted"], *commits}):
        known, mine = entries.get(topic, {}), commits.get(topic, {})
        numbers = mine.keys() | (known.keys() if topic in description["wanted"] else set())
        if not numbers:
            continue  # wanted, but not there
        topics[topic] = [_with_commit(known.get(p, {"partition": p}), mine.get(p)) for p in sorted(numbers)]
    members = {}
    runs_tasks = description["kind"] == STREAMS
    for member_id, member in description["members"].items():
        fields = {key: value for key, value in member.items() if value or key == "topics"}
        if runs_tasks and "owned" in fields:  # a task's number may pass the end of the narrower of its topics
            held = {t: [p for p in ids if p in entries.get(t, {})] for t, ids in member["owned"].items()}
            fields["owned"] = {topic: ids for topic, ids in held.items() if ids}
        members[member_id] = {**fields, **({"generation": 0} if member["owned"] else {})}
    named = {topic: ids[topic] for topic in topics if topic in ids} if ids else {}
    with_ids = {"topic_ids": named} if named else {}
    raw = {"version": 1, "group": name, "topics": topics, **with_ids, "members": members}
    described = {field: description[field] for field in _OF_DESCRIPTION if field in description}
    return Observed(raw, coordinator=coordinator, members=description.get("seats", ()), **described)
