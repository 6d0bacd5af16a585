"""A snapshot as Prometheus reads it: the names that dashboards know already, and ours.

A scrape must not wait for 300,000 lines to be written, so they are written once a round and kept packed. Names, labels
and values are those of kafka-lag-exporter, kafka_exporter and KMinion, as their own pages and dashboards have them.
Source of the format: Prometheus, "Exposition formats", text 0.0.4.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN
from apportion.errors import UnknownName
from apportion.history import cause
from apportion.serve.settings import Settings
from apportion.serve.state import GroupState, Snapshot

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PIECE: Final = 1 << 18
CAUSES: Final = (cause.JOIN, cause.LEAVE, cause.CRASH, cause.STATIC, cause.SUBSCRIPTION, cause.GREW, cause.HAND_OVER,
                 cause.GONE, cause.UNKNOWN)  # fmt: skip
Row = tuple[str, str]
"""Labels as they stand between braces, and the value."""


@dataclass(frozen=True)
class Family:
    """One metric: its name, whose name it is, what it says.

    level
        ``partition`` for a series a partition and group, ``topic``, ``group`` or ``cluster`` for fewer: where the bound
        on series is reached, partitions are left out first.
    """

    name: str
    of: str
    help: str
    kind: str
    level: str


LAG_EXPORTER, EXPORTER, KMINION, OURS = "kafka-lag-exporter", "kafka_exporter", "kminion", "apportion"
_LAG, _KAFKA, _MINION = "kafka_consumergroup_group", "kafka_consumergroup", "kminion_kafka_consumer_group"
_BEHIND: Final = "Messages still to read"
FAMILIES: Final = (
    Family(f"{_LAG}_lag", LAG_EXPORTER, _BEHIND, "gauge", "partition"),
    Family(f"{_LAG}_lag_seconds", LAG_EXPORTER, "Age of the first unread message, at least", "gauge", "partition"),
    Family(f"{_LAG}_offset", LAG_EXPORTER, "Committed offset", "gauge", "partition"),
    Family(f"{_LAG}_max_lag", LAG_EXPORTER, "Most messages still to read of one partition", "gauge", "group"),
    Family(f"{_LAG}_max_lag_seconds", LAG_EXPORTER, "Age of the oldest unread message, at least", "gauge", "group"),
    Family(f"{_LAG}_sum_lag", LAG_EXPORTER, f"{_BEHIND} of all partitions", "gauge", "group"),
    Family(f"{_LAG}_topic_sum_lag", LAG_EXPORTER, f"{_BEHIND} of one topic", "gauge", "topic"),
    Family("kafka_partition_latest_offset", LAG_EXPORTER, "Log end offset", "gauge", "topic-partition"),
    Family("kafka_partition_earliest_offset", LAG_EXPORTER, "Log start offset", "gauge", "topic-partition"),
    Family(f"{_KAFKA}_lag", EXPORTER, f"{_BEHIND}; -1 without a commit", "gauge", "partition"),
    Family(f"{_KAFKA}_current_offset", EXPORTER, "Committed offset; -1 without a commit", "gauge", "partition"),
    Family(f"{_KAFKA}_lag_sum", EXPORTER, f"{_BEHIND} of one topic", "gauge", "topic"),
    Family(f"{_KAFKA}_current_offset_sum", EXPORTER, "Committed offsets of one topic, summed", "gauge", "topic"),
    Family(f"{_KAFKA}_members", EXPORTER, "Members", "gauge", "group"),
    Family("kafka_topic_partition_current_offset", EXPORTER, "Log end offset", "gauge", "topic-partition"),
    Family("kafka_topic_partition_oldest_offset", EXPORTER, "Log start offset", "gauge", "topic-partition"),
    Family("kafka_topic_partitions", EXPORTER, "Partitions of a topic", "gauge", "cluster"),
    Family("kafka_brokers", EXPORTER, "Brokers", "gauge", "cluster"),
    Family(f"{_MINION}_topic_partition_lag", KMINION, _BEHIND, "gauge", "partition"),
    Family(f"{_MINION}_topic_lag", KMINION, f"{_BEHIND} of one topic", "gauge", "topic"),
    Family(f"{_MINION}_topic_offset_sum", KMINION, "Committed offsets of one topic, summed", "gauge", "topic"),
    Family(f"{_MINION}_members", KMINION, "Members", "gauge", "group"),
    Family(f"{_MINION}_info", KMINION, "1 where the group is Stable, else 0", "gauge", "group"),
    Family("kminion_kafka_topic_high_water_mark_sum", KMINION, "Log end offsets, summed", "gauge", "cluster"),
    Family("apportion_group_rebalances_total", OURS, "Rebalances since the start, by cause", "counter", "group"),
    Family("apportion_group_moved_partitions_total", OURS,
           "Partitions that went from one member that stays to another", "counter", "group"),
    Family("apportion_group_needless_moves_total", OURS,
           "Moves beyond the fewest that an even sharing needed", "counter", "group"),
    Family("apportion_group_excess_moves", OURS,
           "Fewest partitions that must move to reach the fairest sharing, proved", "gauge", "group"),
    Family("apportion_group_excess_squares", OURS,
           "Sum of squared loads above the least there is, proved", "gauge", "group"),
    Family("apportion_group_topic_concentration", OURS,
           "Greatest share of one topic's partitions on one member", "gauge", "group"),
    Family("apportion_group_advised_members", OURS, "Members that the group's work needs", "gauge", "group"),
    Family("apportion_group_time_to_catch_up_seconds", OURS,
           "Until all is read at the present rates; +Inf where the lag does not shrink", "gauge", "group"),
    Family("apportion_group_partitions_expired_unread", OURS,
           "Partitions whose committed offset lies before the log's start", "gauge", "group"),
    Family("apportion_group_unowned_partitions", OURS, "Wanted partitions without an owner", "gauge", "group"),
)  # fmt: skip
BY_NAME: Final = {family.name: family for family in FAMILIES}
SOURCES: Final = (LAG_EXPORTER, EXPORTER, KMINION, OURS)
ORDER: Final = ("cluster", "group", "topic", "topic-partition", "partition")
"""What comes first where series are bounded."""


def chosen(names: str) -> list[Family]:
    """The families that ``--names`` means: sources and names, ``all``, and with a ``-`` before them what is left out.

    >>> [family.name for family in chosen("kminion,-kminion_kafka_consumer_group_info")][:2]
    ['kminion_kafka_consumer_group_topic_partition_lag', 'kminion_kafka_consumer_group_topic_lag']

    Raises
        UnknownName: a word that is neither.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    kept: set[str] = set(BY_NAME) if not words or words[0].startswith("-") else set()
    for word in words:
        bare = word.removeprefix("-")
        meant = {family.name for family in FAMILIES if bare in ("all", family.of, family.name)}
        if not meant:
            raise UnknownName("family of metrics", bare, ["all", *SOURCES, *BY_NAME])
        kept = kept - meant if word.startswith("-") else kept | meant
    return [family for family in FAMILIES if family.name in kept]


@dataclass(frozen=True)
class Rendered:
    """The lines of one round, packed; ``left_out`` series were beyond the bound."""

    packed: bytes
    series: int
    left_out: int
    size: int

    def pieces(self) -> Iterator[bytes]:
        """The text unpacked, piece by piece: nobody who asks for plain text makes a second copy of all of it."""
        unpacker = zlib.decompressobj(31)
        rest = self.packed
        while rest:
            yield unpacker.decompress(rest, PIECE)
            rest = unpacker.unconsumed_tail
        yield unpacker.flush()


EMPTY: Final = Rendered(zlib.compress(b"", wbits=31), 0, 0, 0)


@dataclass
class Labels:
    """Label texts of one group that stay from round to round, as long as its members and partitions do."""

    group: str
    key: Any
    lag: list[str] = field(default_factory=list)
    exporter: list[str] = field(default_factory=list)
    kminion: list[str] = field(default_factory=list)


class Renderer:
    """Writes snapshots; it keeps label texts of groups between rounds."""

    def __init__(self, settings: Settings) -> None:
        self.families = chosen(settings.names)
        self._settings = settings
        self._labels: dict[str, Labels] = {}

    def render(self, snapshot: Snapshot, now: float) -> Rendered:
        """All lines of a snapshot; of what is too old nothing is said."""
        fresh = self._settings.stale_s
        groups = [g for g in snapshot.living if now - g.seen <= fresh] if now - snapshot.at <= fresh else []
        topics = snapshot.topics if now - snapshot.at <= fresh else {}
        view = _View(self, snapshot, groups, topics)
        rows: dict[str, Sequence[Row] | Iterable[Row]] = {}
        room, left_out, series = self._settings.most_series, 0, 0
        for family in sorted(self.families, key=lambda family: ORDER.index(family.level)):
            lines = list(view.rows(family))
            left_out += max(0, len(lines) - room)
            lines = lines[:room]
            room -= len(lines)
            series += len(lines)
            rows[family.name] = lines
        self._labels = {g.name: self._labels[g.name] for g in groups if g.name in self._labels}
        return _pack(self.families, rows, series, left_out)

    def labels(self, state: GroupState, cluster: str) -> Labels:
        """Label texts of a group's partitions."""
        key = (state.key[0] if state.key else None, cluster)
        known = self._labels.get(state.name)
        if known is not None and known.key is not None and _same_key(known.key, key):
            return known
        labels = self._labels[state.name] = _labels(state, cluster, key, self._settings.personal)
        return labels


def _same_key(one: Any, other: Any) -> bool:
    return one[1] == other[1] and (one[0] is other[0] or one[0] == other[0])


def _labels(state: GroupState, cluster: str, key: Any, personal: bool) -> Labels:
    group, name = state.group, escape(state.name)
    topics = [escape(topic) for topic in group.topics]
    nobody = 'member_host="",consumer_id="",client_id=""'
    who = [nobody] * (group.M + 1)
    if personal:
        for m in range(group.M):
            host = (group.hosts[m] if group.hosts else "") or ""
            client = (group.client_ids[m] if group.client_ids else "") or ""
            member = escape(group.members[m])
            who[m] = f'member_host="{escape(host)}",consumer_id="{member}",client_id="{escape(client)}"'
    labels = Labels(state.name, key)
    for t, p, m in zip(group.topic_of.tolist(), group.number.tolist(), group.owner.tolist(), strict=True):
        pair = f'topic="{topics[t]}",partition="{p}"'
        owner = nobody if m == NOBODY else who[m]
        labels.lag.append(f'cluster_name="{cluster}",group="{name}",{pair},{owner}')
        labels.exporter.append(f'consumergroup="{name}",{pair}')
        labels.kminion.append(f'group_id="{name}",topic_name="{topics[t]}",partition_id="{p}"')
    return labels


def escape(text: str) -> str:
    """A label's value: whatever a group or topic is called, it ends where it should.

    >>> print(escape('a"b'))
    a\\"b
    """
    if '"' in text or "\\" in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text


def _pack(families: Iterable[Family], rows: Mapping[str, Iterable[Row]], series: int, left_out: int) -> Rendered:
    packer = zlib.compressobj(1, wbits=31)
    packed, size = [], 0
    for family in families:
        text = [f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"]
        text += [f"{family.name}{{{labels}}} {value}\n" if labels else f"{family.name} {value}\n"
                 for labels, value in rows[family.name]]  # fmt: skip
        block = "".join(text).encode("utf-8", "replace")
        size += len(block)
        packed.append(packer.compress(block))
    packed.append(packer.flush())
    return Rendered(b"".join(packed), series, left_out, size)


def number_text(value: float) -> str:
    """A number as Prometheus writes it; whole ones without a point."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else f"{value:.6g}"


class _View:
    """One snapshot while it is written, family by family."""

    def __init__(
        self, renderer: Renderer, snapshot: Snapshot, groups: Sequence[GroupState], topics: Mapping[str, Any]
    ) -> None:
        self.snapshot, self.groups, self.topics = snapshot, groups, topics
        self.cluster = escape(renderer._settings.cluster_name or snapshot.cluster_id or "")
        self.labels = {g.name: renderer.labels(g, self.cluster) for g in groups}

    def rows(self, family: Family) -> Iterable[Row]:
        """The series of one family."""
        writers: Mapping[str, Callable[[str], Iterable[Row]]] = {
            "partition": self._partitions, "topic": self._topics, "group": self._groups,
            "topic-partition": self._logs, "cluster": self._cluster,
        }  # fmt: skip
        return writers[family.level](family.name)

    # -- a series a partition of a group ----------------------------------------------------------------------------

    def _partitions(self, name: str) -> Iterator[Row]:
        for state in self.groups:
            labels, group = self.labels[state.name], state.group
            lag = state.lag.tolist()
            if name == f"{_KAFKA}_lag":
                yield from zip(labels.exporter, map(str, lag), strict=True)
                continue
            if name == f"{_LAG}_lag_seconds":
                known = zip(labels.lag, state.seconds.tolist(), strict=True)
                yield from ((text, number_text(value)) for text, value in known if value == value)
                continue
            offsets = group.offsets.committed.tolist() if group.offsets is not None else [UNKNOWN] * group.P
            if name == f"{_KAFKA}_current_offset":
                yield from zip(labels.exporter, map(str, offsets), strict=True)
                continue
            texts = labels.kminion if name.startswith("kminion") else labels.lag
            values = offsets if name == f"{_LAG}_offset" else lag
            yield from ((text, str(value)) for text, value in zip(texts, values, strict=True) if value != UNKNOWN)

    # -- a series a topic of a group --------------------------------------------------------------------------------

    def _topics(self, name: str) -> Iterator[Row]:
        offsets = name.endswith(("offset_sum",))
        for state in self.groups:
            group, label = state.group, escape(state.name)
            values = group.offsets.committed if offsets and group.offsets is not None else state.lag
            for t, topic in enumerate(group.topics):
                mine = values[group.partitions(t)]
                mine = mine[mine != UNKNOWN]
                if not len(mine):
                    continue
                where = escape(topic)
                if name.startswith("kminion"):
                    text = f'group_id="{label}",topic_name="{where}"'
                elif name.startswith(_LAG):
                    text = f'cluster_name="{self.cluster}",group="{label}",topic="{where}"'
                else:
                    text = f'consumergroup="{label}",topic="{where}"'
                yield text, str(int(mine.sum()))

    # -- a series a group -------------------------------------------------------------------------------------------

    def _groups(self, name: str) -> Iterator[Row]:
        for state in self.groups:
            label = escape(state.name)
            ours = f'cluster_name="{self.cluster}",group="{label}"'
            if name == "apportion_group_rebalances_total":
                counted = state.past.causes.copy()
                # With zeros, so that the first of a cause is an increase too.
                for why, n in sorted({**dict.fromkeys(CAUSES if state.group.M else (), 0), **counted}.items()):
                    yield f'{ours},cause="{escape(why)}"', str(n)
                continue
            if name == f"{_MINION}_info":
                facts = state.shown.facts
                states = {"protocol": facts.get("protocol"), "protocol_type": facts.get("kind")}
                states["state"] = facts.get("state")
                texts = (f'{key}="{escape(str(value or ""))}"' for key, value in states.items())
                yield f'group_id="{label}",{",".join(texts)}', "1" if facts.get("state") == "Stable" else "0"
                continue
            value = self._of_group(name, state)
            if value is None:
                continue
            if name.startswith("kminion"):
                ours = f'group_id="{label}"'
            elif name == f"{_KAFKA}_members":
                ours = f'consumergroup="{label}"'
            yield ours, number_text(value)

    def _of_group(self, name: str, state: GroupState) -> float | None:
        group = state.group
        if name in (f"{_KAFKA}_members", f"{_MINION}_members"):
            return group.M
        if name == f"{_LAG}_sum_lag":
            return state.total_lag
        if name == f"{_LAG}_max_lag":
            return int(state.lag.max()) if group.P and state.total_lag is not None else None
        if name == f"{_LAG}_max_lag_seconds":
            known = state.seconds[~np.isnan(state.seconds)]
            return float(known.max()) if len(known) else None
        return _OURS[name](state)

    # -- topics and the cluster -------------------------------------------------------------------------------------

    def _logs(self, name: str) -> Iterator[Row]:
        begin = name.endswith(("earliest_offset", "oldest_offset"))
        for topic, log in sorted(self.topics.items()):
            text = f'topic="{escape(topic)}"'
            if name.startswith("kafka_partition"):
                text = f'cluster_name="{self.cluster}",{text}'
            for number, value in zip(log.number.tolist(), (log.begin if begin else log.end).tolist(), strict=True):
                if value != UNKNOWN:
                    yield f'{text},partition="{number}"', str(value)

    def _cluster(self, name: str) -> Iterator[Row]:
        if name == "kafka_brokers":
            if self.topics or self.groups:
                yield "", str(self.snapshot.brokers)
            return
        for topic, log in sorted(self.topics.items()):
            if name == "kafka_topic_partitions":
                yield f'topic="{escape(topic)}"', str(len(log.number))
            elif (log.end != UNKNOWN).all():
                yield f'topic_name="{escape(topic)}"', str(int(log.end.sum()))


def _expired(state: GroupState) -> int:
    offsets = state.group.offsets
    if offsets is None:
        return 0
    known = (offsets.committed != UNKNOWN) & (offsets.begin != UNKNOWN)
    return int((known & (offsets.committed < offsets.begin)).sum())


def _unowned(state: GroupState) -> int | None:
    group = state.group
    return int((group.wanted & (group.owner == NOBODY)).sum()) if group.M else None


_OURS: Final[Mapping[str, Callable[[GroupState], float | None]]] = {
    "apportion_group_moved_partitions_total": lambda state: state.past.moved,
    "apportion_group_needless_moves_total": lambda state: state.past.needless,
    "apportion_group_excess_moves": lambda state: state.distance.moves if state.distance else None,
    "apportion_group_excess_squares": lambda state: state.distance.squares if state.distance else None,
    "apportion_group_topic_concentration": lambda state: state.concentration,
    "apportion_group_advised_members": lambda state: state.advised_members,
    "apportion_group_time_to_catch_up_seconds": lambda state: state.catch_up_s,
    "apportion_group_partitions_expired_unread": _expired,
    "apportion_group_unowned_partitions": _unowned,
}
