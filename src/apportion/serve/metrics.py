"""A snapshot as Prometheus reads it: the names that dashboards know already, and ours.

A scrape must not wait for 300,000 lines to be written, so they are written once a round and kept packed. Names, labels
and values are those of kafka-lag-exporter, kafka_exporter and KMinion, as their own pages and dashboards have them.
Source of the format: Prometheus, "Exposition formats", text 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from apportion.arrays import UNKNOWN
from apportion.errors import UnknownName
from apportion.history import cause
from apportion.history.records import SHARE
from apportion.model.group import Group
from apportion.model.present import unowned
from apportion.serve.exposition import Rendered
from apportion.serve.faults import Faults
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import GroupState, Snapshot
from apportion.strategy.registry import traits_of_protocol

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
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
    value
        What a family of groups says of one; None where nothing is known, and no series is written.
    """

    name: str
    of: str
    help: str
    level: str = "group"
    value: Callable[[GroupState], float | None] = lambda state: None
    kind: str = "gauge"


LAG_EXPORTER, EXPORTER, KMINION, OURS = "kafka-lag-exporter", "kafka_exporter", "kminion", "apportion"
_LAG, _KAFKA, _MINION = "kafka_consumergroup_group", "kafka_consumergroup", "kminion_kafka_consumer_group"
_BEHIND: Final = "Messages still to read"
_AT_LEAST: Final = (
    "a lower bound, by samples of the log's end; none where 1 or 2 offsets may be markers of transactions"
)


def _max_lag(state: GroupState) -> int | None:
    return int(state.owed.max()) if state.group.P and state.total_lag is not None else None


def _max_seconds(state: GroupState) -> float | None:
    known = state.seconds[~np.isnan(state.seconds)]
    return float(known.max()) if len(known) else None


def _unowned(state: GroupState) -> int | None:
    traits = traits_of_protocol(state.shown.seen.protocol)
    if not state.group.M or state.shown.seen.kind == SHARE or (traits is not None and traits.leaves):
        return None  # nobody owns what is shared, and what a strategy leaves to nobody is as it should be
    return unowned(state.group, state.group.owner)


def _beyond_end(state: GroupState) -> int | None:
    offsets = state.group.offsets
    if offsets is None:
        return None
    known = (offsets.committed != UNKNOWN) & (offsets.end != UNKNOWN) & state.counted
    return int((known & (offsets.committed > offsets.end)).sum())


FAMILIES: Final = (
    Family(f"{_LAG}_lag", LAG_EXPORTER, _BEHIND, "partition"),
    Family(f"{_LAG}_lag_seconds", LAG_EXPORTER, f"Age of the first unread message: {_AT_LEAST}", "partition"),
    Family(f"{_LAG}_offset", LAG_EXPORTER, "Committed offset", "partition"),
    Family(f"{_LAG}_max_lag", LAG_EXPORTER, "Most messages still to read of one partition", value=_max_lag),
    Family(f"{_LAG}_max_lag_seconds", LAG_EXPORTER, f"Age of the oldest unread message: {_AT_LEAST}",
           value=_max_seconds),
    Family(f"{_LAG}_sum_lag", LAG_EXPORTER, f"{_BEHIND} of all partitions", value=lambda state: state.total_lag),
    Family(f"{_LAG}_topic_sum_lag", LAG_EXPORTER, f"{_BEHIND} of one topic", "topic"),
    Family("kafka_partition_latest_offset", LAG_EXPORTER, "Log end offset", "topic-partition"),
    Family("kafka_partition_earliest_offset", LAG_EXPORTER, "Log start offset", "topic-partition"),
    Family(f"{_KAFKA}_lag", EXPORTER, f"{_BEHIND}; -1 without a commit", "partition"),
    Family(f"{_KAFKA}_current_offset", EXPORTER, "Committed offset; -1 without a commit", "partition"),
    Family(f"{_KAFKA}_lag_sum", EXPORTER, f"{_BEHIND} of one topic", "topic"),
    Family(f"{_KAFKA}_current_offset_sum", EXPORTER, "Committed offsets of one topic, summed", "topic"),
    Family(f"{_KAFKA}_members", EXPORTER, "Members", value=lambda state: state.group.M),
    Family("kafka_topic_partition_current_offset", EXPORTER, "Log end offset", "topic-partition"),
    Family("kafka_topic_partition_oldest_offset", EXPORTER, "Log start offset", "topic-partition"),
    Family("kafka_topic_partitions", EXPORTER, "Partitions of a topic", "cluster"),
    Family("kafka_brokers", EXPORTER, "Brokers", "cluster"),
    Family(f"{_MINION}_topic_partition_lag", KMINION, _BEHIND, "partition"),
    Family(f"{_MINION}_topic_lag", KMINION, f"{_BEHIND} of one topic", "topic"),
    Family(f"{_MINION}_topic_offset_sum", KMINION, "Committed offsets of one topic, summed", "topic"),
    Family(f"{_MINION}_members", KMINION, "Members", value=lambda state: state.group.M),
    Family(f"{_MINION}_info", KMINION, "1 where the group is Stable, else 0"),
    Family("kminion_kafka_topic_high_water_mark_sum", KMINION, "Log end offsets, summed", "cluster"),
    Family("apportion_group_rebalances_total", OURS, "Rebalances since the start, by cause", kind="counter"),
    Family("apportion_group_moved_partitions_total", OURS, "Partitions that went from one member that stays to another",
           value=lambda state: state.past.moved, kind="counter"),
    Family("apportion_group_needless_moves_total", OURS, "Moves beyond the fewest that an even sharing needed",
           value=lambda state: state.past.needless, kind="counter"),
    Family("apportion_group_rebalance_seconds_total", OURS,
           "Seconds that its rebalances took, from all having joined to the assignment",
           value=lambda state: state.past.rebalance_ms / 1000, kind="counter"),
    Family("apportion_group_standstill_partition_seconds_total", OURS,
           "Seconds that partitions stood still at rebalances, summed over them: a lower bound",
           value=lambda state: state.past.standstill_ms / 1000, kind="counter"),
    Family("apportion_group_excess_moves", OURS,
           "Fewest partitions that must move to reach the fairest sharing, proved",
           value=lambda state: state.distance.moves if state.distance else None),
    Family("apportion_group_excess_squares", OURS, "Sum of squared loads above the least there is, proved",
           value=lambda state: state.distance.squares if state.distance else None),
    Family("apportion_group_topic_concentration", OURS, "Greatest share of one topic's partitions on one member",
           value=lambda state: state.concentration),
    Family("apportion_group_members", OURS, "Members", value=lambda state: state.group.M),
    Family("apportion_group_advised_members", OURS, "Members that the group's work needs",
           value=lambda state: state.advised_members),
    Family("apportion_group_time_to_catch_up_seconds", OURS,
           "Until all is read at the present rates; +Inf where the lag does not shrink",
           value=lambda state: state.catch_up_s),
    Family("apportion_group_partitions_expired_unread", OURS,
           "Partitions whose committed offset lies before the log's start",
           value=lambda state: int(state.expired.sum())),
    Family("apportion_group_partitions_maybe_at_marker", OURS,
           "Partitions of which 1 or 2 old offsets are unread, which may be markers of transactions",
           value=lambda state: int(state.maybe_markers.sum())),
    Family("apportion_group_unowned_partitions", OURS, "Wanted partitions without an owner", value=_unowned),
    Family("apportion_group_partitions_committed_beyond_end", OURS,
           "Partitions whose committed offset lies beyond the log's end", value=_beyond_end),
    Family("apportion_group_partitions_held_back", OURS,
           "Partitions that are read up to a transaction that is still open, with messages behind it",
           value=lambda state: int((state.shown.held_back & state.counted).sum())),
    Family("apportion_group_partition_stuck_seconds", OURS,
           "For how long nothing was committed, where messages wait and it never took nearly as long before",
           "partition"),
    Family("apportion_group_governed_plan_timestamp_seconds", OURS,
           "When the plan that a governor's carrier bears was published",
           value=lambda state: state.plan[0] if state.plan else None),
    Family("apportion_group_governed_plan_differing_partitions", OURS,
           "Partitions that are not where that plan wants them",
           value=lambda state: state.plan[1] if state.plan else None),
)  # fmt: skip
BY_NAME: Final = {family.name: family for family in FAMILIES}
SOURCES: Final = (LAG_EXPORTER, EXPORTER, KMINION, OURS)
DEFAULT: Final = (LAG_EXPORTER, OURS)
"""What is exported where nobody chooses: each lag once."""
ORDER: Final = ("cluster", "group", "topic", "topic-partition", "partition")
"""What comes first where series are bounded."""


def chosen(names: str) -> list[Family]:
    """The families that ``--names`` means: sources and names, ``all``, and with a ``-`` before them what is left out.

    Nothing, or what is left out alone, means the default: kafka-lag-exporter's and ours, each lag once.

    >>> [family.name for family in chosen("kminion,-kminion_kafka_consumer_group_info")][:2]
    ['kminion_kafka_consumer_group_topic_partition_lag', 'kminion_kafka_consumer_group_topic_lag']

    Raises
        UnknownName: a word that is neither.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    unchosen = not words or words[0].startswith("-")
    names_out = {family.name for family in FAMILIES if unchosen and family.of in DEFAULT}
    for word in words:
        bare = word.removeprefix("-")
        meant = {family.name for family in FAMILIES if bare in ("all", family.of, family.name)}
        if not meant:
            raise UnknownName("family of metrics", bare, ["all", *SOURCES, *BY_NAME])
        names_out = names_out - meant if word.startswith("-") else names_out | meant
    return [family for family in FAMILIES if family.name in names_out]


class Labels:
    """The labels of one group and of its partitions.

    group
        The group's labels alone, by whose name a family has.
    """

    def __init__(self, group: Group, cluster: str, personal: bool) -> None:
        name = escape(group.name)
        self.group = {
            **dict.fromkeys((LAG_EXPORTER, OURS), f'cluster_name="{cluster}",group="{name}"'),
            EXPORTER: f'consumergroup="{name}"',
            KMINION: f'group_id="{name}"',
        }
        self.topics = [escape(topic) for topic in group.topics]
        self._of, self._who = group, _owners(group, personal)
        self._partitions: dict[str, list[str]] = {}

    def partitions(self, kind: str) -> list[str]:
        """(P,) the labels of each partition."""
        if kind not in self._partitions:
            self._partitions[kind] = list(self._lines(kind))
        return self._partitions[kind]

    def _lines(self, kind: str) -> Iterator[str]:
        rows = self._of.topic_of.tolist(), self._of.number.tolist(), self._of.owner.tolist()
        of, topics = self.group[kind], self.topics
        for t, p, m in zip(*rows, strict=True):
            if kind == KMINION:
                yield f'{of},topic_name="{topics[t]}",partition_id="{p}"'
            elif kind == EXPORTER:
                yield f'{of},topic="{topics[t]}",partition="{p}"'
            else:
                yield f'{of},topic="{topics[t]}",partition="{p}",{self._who[m]}'


def _owners(group: Group, personal: bool) -> list[str]:
    """The labels that name a partition's owner, by member; the last is that of nobody."""
    nobody = 'member_host="",consumer_id="",client_id=""'
    if not personal:
        return [nobody] * (group.M + 1)
    owners = []
    for m in range(group.M):
        host = (group.hosts[m] if group.hosts else "") or ""
        client = (group.client_ids[m] if group.client_ids else "") or ""
        member = escape(group.members[m])
        owners.append(f'member_host="{escape(host)}",consumer_id="{member}",client_id="{escape(client)}"')
    return [*owners, nobody]


class Renderer:
    """Writes snapshots.

    faults
        Where a group says what of it cannot be written.
    """

    def __init__(self, settings: ServerSettings, faults: Faults | None = None) -> None:
        self.families = chosen(settings.names)
        self._settings, self._faults = settings, faults or Faults()

    def render(self, snapshot: Snapshot, now: float) -> Rendered:
        """All lines of a snapshot; of what is too old nothing is said."""
        stale_s = self._settings.stale_s
        fresh = now - snapshot.round.at <= stale_s
        groups = [g for g in snapshot.living if now - g.seen <= stale_s]
        view = _View(self._settings, snapshot, groups, fresh, self._faults)
        texts: dict[str, bytes] = {}
        series = left_out = 0
        for family in sorted(self.families, key=lambda family: ORDER.index(family.level)):
            lines = [_line(family.name, labels, value) for labels, value in view.rows(family)]
            room = self._settings.most_series - series
            left_out += max(len(lines) - room, 0)
            series += min(len(lines), room)
            head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
            texts[family.name] = "".join([head, *lines[:room]]).encode("utf-8", "replace")
        return Rendered((texts[family.name] for family in self.families), series, left_out)


def _line(name: str, labels: str, value: str) -> str:
    return f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n"


def escape(text: str) -> str:
    """A label's value: whatever a group or topic is called, it ends where it should.

    >>> print(escape('a"b'))
    a\\"b
    """
    if '"' in text or "\\" in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text


def number_text(value: float) -> str:
    """A number as Prometheus writes it; whole ones without a point, times to the millisecond, others to six digits.

    >>> number_text(1795710741.25), number_text(2 / 3), number_text(3.0)
    ('1795710741.250', '0.666667', '3')
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value):
        return str(int(value))
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.3f}"


class _Shown:
    """One group while it is written: its labels, and what families of partitions and topics tell of it."""

    def __init__(self, state: GroupState, labels: Labels) -> None:
        self.state, self.labels = state, labels
        self.lag, self.seconds = state.lag, state.seconds
        offsets, nothing = state.group.offsets, np.full(state.group.P, UNKNOWN, dtype=np.int64)
        self.offsets = offsets.committed if offsets is not None else nothing
        self.stuck = np.where(state.stuck, state.pauses.seconds, np.nan) if state.stuck.any() else np.array([])
        self._sums: dict[str, list[int | None]] = {}

    @classmethod
    def of(cls, state: GroupState, cluster: str, personal: bool) -> _Shown:
        """The group with its labels."""
        return cls(state, Labels(state.group, cluster, personal))

    def sums(self, which: str) -> list[int | None]:
        """Of each topic, the sum of what is known; None where nothing is, as of the lag on a topic that was left."""
        if which in self._sums:
            return self._sums[which]
        group, values = self.state.group, self.offsets if which == "offsets" else self.state.owed
        sums: list[int | None] = []
        for t in range(len(group.topics)):
            mine = values[group.partitions(t)]
            known = mine[mine != UNKNOWN]
            sums.append(int(known.sum()) if len(known) else None)
        self._sums[which] = sums
        return sums


class _View:
    """One snapshot while it is written, family by family."""

    def __init__(
        self, settings: ServerSettings, snapshot: Snapshot, groups: Sequence[GroupState], fresh: bool, faults: Faults
    ) -> None:
        self.snapshot, self.fresh, self._faults = snapshot, fresh, faults
        self.topics = snapshot.round.topics if fresh else {}
        self.cluster = escape(settings.cluster_name or snapshot.round.cluster_id or "")
        personal = settings.labels_personal
        each = (faults.guard(g.name, "labels", partial(_Shown.of, g, self.cluster, personal)) for g in groups)
        self.groups = [shown for shown in each if shown is not None]

    def rows(self, family: Family) -> Iterable[Row]:
        """The series of one family; none of a group of which its value breaks."""
        if family.level in ("topic-partition", "cluster"):
            return self._logs(family) if family.level == "topic-partition" else self._cluster(family)
        return self._of_groups(family)

    def _of_groups(self, family: Family) -> Iterable[Row]:
        writer = {"partition": _partitions, "topic": _topics, "group": _group}[family.level]
        derived = f"metric {family.name}"
        if not any(broken == derived for _, broken in self._faults):
            with suppress(Exception):  # of one of them: each by itself tells whose
                return [row for shown in self.groups for row in writer(family, shown)]
        each = (self._faults.guard(s.state.name, derived, partial(_all, writer, family, s)) for s in self.groups)
        return [row for rows in each for row in rows or ()]

    # -- topics and the cluster -------------------------------------------------------------------------------------

    def _logs(self, family: Family) -> Iterator[Row]:
        begin = family.name.endswith(("earliest_offset", "oldest_offset"))
        for topic, log in sorted(self.topics.items()):
            text = f'topic="{escape(topic)}"'
            if family.of == LAG_EXPORTER:
                text = f'cluster_name="{self.cluster}",{text}'
            for number, value in zip(log.number.tolist(), (log.begin if begin else log.end).tolist(), strict=True):
                if value != UNKNOWN:
                    yield f'{text},partition="{number}"', str(value)

    def _cluster(self, family: Family) -> Iterator[Row]:
        if family.name == "kafka_brokers":
            if self.fresh:
                yield "", str(self.snapshot.round.brokers)
            return
        for topic, log in sorted(self.topics.items()):
            if family.name == "kafka_topic_partitions":
                yield f'topic="{escape(topic)}"', str(len(log.number))
            elif (log.end != UNKNOWN).all():
                yield f'topic_name="{escape(topic)}"', str(int(log.end.sum()))


def _all(writer: Callable[[Family, _Shown], Iterator[Row]], family: Family, shown: _Shown) -> list[Row]:
    return list(writer(family, shown))


def _partitions(family: Family, shown: _Shown) -> Iterator[Row]:
    """A series a partition of a group."""
    which = next(word for word in ("stuck", "seconds", "offset", "lag") if word in family.name)
    text = str if which in ("offset", "lag") else number_text
    values: Any = {"stuck": shown.stuck, "seconds": shown.seconds, "offset": shown.offsets, "lag": shown.lag}[which]
    if not len(values):
        return
    for labels, value in zip(shown.labels.partitions(family.of), values.tolist(), strict=True):
        # kafka_exporter alone tells what is unknown, as -1.
        if family.of == EXPORTER or (value == value and value != UNKNOWN):
            yield labels, text(value)


def _topics(family: Family, shown: _Shown) -> Iterator[Row]:
    """A series a topic of a group."""
    label = "topic_name" if family.of == KMINION else "topic"
    sums = shown.sums("offsets" if family.name.endswith("offset_sum") else "lag")
    for topic, total in zip(shown.labels.topics, sums, strict=True):
        if total is not None:
            yield f'{shown.labels.group[family.of]},{label}="{topic}"', str(total)


def _group(family: Family, shown: _Shown) -> Iterator[Row]:
    """A series a group."""
    text, state = shown.labels.group[family.of], shown.state
    if family.name == "apportion_group_rebalances_total":
        yield from _by_cause(text, state)
    elif family.name == f"{_MINION}_info":
        yield _info(text, state)
    elif (value := family.value(state)) is not None:
        yield text, number_text(value)


def _by_cause(text: str, state: GroupState) -> Iterator[Row]:
    counted = state.past.causes.copy()
    # With zeros, so that the first of a cause is an increase too.
    for why, n in sorted({**dict.fromkeys(CAUSES if state.group.M else (), 0), **counted}.items()):
        yield f'{text},cause="{escape(why)}"', str(n)


def _info(text: str, state: GroupState) -> Row:
    seen = state.shown.seen
    # What a classic group's members send, and the broker gives for those of the other protocols.
    protocol_type = "consumer" if seen.kind == "classic" else seen.kind
    states = {"protocol": seen.protocol, "protocol_type": protocol_type, "state": seen.state}
    more = (f'{key}="{escape(str(value or ""))}"' for key, value in states.items())
    return f"{text},{','.join(more)}", "1" if seen.state == "Stable" else "0"
