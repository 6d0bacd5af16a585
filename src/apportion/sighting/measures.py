"""Every measure of a group, once: its name, for whom it is, and how it follows from the sighting.

Text, CSV, JSON and its schema, the list of groups, the page, ``--sort``, Prometheus and OTLP go through this list.
A line more here is a column more wherever the line names one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Longs
from apportion.model.group import Group
from apportion.model.present import unowned
from apportion.model.protocols import CLASSIC, CONSUMER, SHARE, SIMPLE, STREAMS
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting
from apportion.strategy.registry import traits_of_protocol

if TYPE_CHECKING:
    from apportion.history.lag_time import LagTime, LagTimes

HOUR_MS: Final = 3_600_000
_LAG, _KAFKA, _MINION = "kafka_consumergroup_group", "kafka_consumergroup", "kminion_kafka_consumer_group"
_AT_LEAST: Final = "a lower bound, by samples of the log's end; none if 1 or 2 offsets may be transaction markers"
_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 0}
_SECONDS: Final[Mapping[str, Any]] = {"type": "number", "minimum": 0}


@dataclass(frozen=True)
class Measure:
    """One thing that is measured.

    name
        Its name, also as a field of ``described`` of ``describe -o json``, if it has a ``schema``.
    level
        Of what: ``group``, ``member``, ``partition`` or ``topic`` of a group; ``log``, ``logs`` (all of a topic) or
        ``cluster``.
    value
        Of a ``Judged`` one value, or a value for each member, partition or topic; of a member or partition in text, of
        a ``Sighting``. Of logs as a round saw them, or of a round. None, -1 or NaN is unknown.
    words
        What it says, for people: on the page, in the schema, as Prometheus's help.
    header
        Its column in tables and CSV, as Kafka's tools call it; "" none.
    label, row
        Its heading in the list of groups, "" if it is no column of it; its field in the list's rows if that is not its
        name, or if it has no heading.
    sort
        What ``--sort`` calls it; "" nothing.
    letters
        Whether it sorts by letters; else from the greatest number.
    always
        Whether a table has its column where no row has a value, too.
    schema
        Of its JSON.
    prometheus, counter
        Its names there; one name for each exporter whose dashboards know it. Whether it only grows.
    otlp, unit
        The same for OpenTelemetry.
    labelled
        Whether ``value`` gives pairs of more labels and a number.
    """

    name: str
    level: str
    value: Callable[[Any], Any]
    words: str = ""
    header: str = ""
    label: str = ""
    row: str = ""
    sort: str = ""
    letters: bool = False
    always: bool = True
    schema: Mapping[str, Any] | None = None
    prometheus: tuple[str, ...] = ()
    counter: bool = False
    otlp: str = ""
    unit: str = "1"
    labelled: bool = False

    @property
    def field(self) -> str:
        """Its field in a row of the list."""
        return self.row or self.name


def at(level: str) -> list[Measure]:
    """All of a level, in the order of their columns."""
    return [measure for measure in MEASURES if measure.level == level]


def listed() -> list[Measure]:
    """The fields of a row of the list of groups."""
    return [measure for measure in at("group") if measure.label or measure.row]


def sorts() -> dict[str, Measure]:
    """The values of ``--sort`` in addition to ``trouble`` and ``odd``, and the key of each."""
    return {measure.sort: measure for measure in listed() if measure.sort}


def exported() -> list[tuple[str, Measure]]:
    """Every Prometheus name with its measure."""
    return [(name, measure) for measure in MEASURES for name in measure.prometheus]


def known(level: str, judged: Judged) -> dict[str, Any]:
    """The measures of a group that its JSON has, as far as they are known; null alone is "never"."""
    values = {measure.name: measure.value(judged) for measure in at(level) if measure.schema is not None}
    return {name: value for name, value in values.items() if value is not None} | (
        {"catch_up_s": None} if "catch_up_s" in values and never(judged) else {}
    )


def schema(level: str) -> dict[str, Any]:
    """The JSON schema of the fields of a level."""
    fields = [measure for measure in at(level) if measure.schema is not None]
    return {m.name: {**(m.schema or {}), **({"description": m.words} if m.words else {})} for m in fields}


# -- values of a group, in time -------------------------------------------------------------------------------------


def _whole(judged: Judged) -> LagTime | None:
    return judged.evidence.whole if judged.evidence.timed else None


def _behind_s(judged: Judged) -> float | None:
    whole = _whole(judged)
    if whole is None or not whole.lag:
        return None if whole is None or whole.lag is None else 0
    # That a message is at least no time old, as after a single look, tells nothing.
    behind = whole.age.seconds if whole.age.seconds is not None else whole.age.at_least or None
    return None if behind is None else round(behind, 1)


def _trend(judged: Judged) -> float | None:
    whole = _whole(judged)
    return None if whole is None or whole.trend is None or math.isnan(whole.trend) else round(whole.trend, 1)


def _catch_up_s(judged: Judged) -> float | None:
    whole = _whole(judged)
    return (
        None
        if whole is None or whole.catch_up_s is None or math.isinf(whole.catch_up_s)
        else round(whole.catch_up_s, 1)
    )


def never(judged: Judged) -> bool:
    """Whether the group has a pace at which it never catches up."""
    return _catch_up_s(judged) is None and _trend(judged) is not None and bool(judged.sighting.total_lag)


def behind_by_topic(group: Group, times: LagTimes) -> list[int | None]:
    """Seconds that the oldest unread message of each topic is old, by the rule of ``behind_s``; None unknown."""
    with np.errstate(invalid="ignore"):
        bound = np.where(times.at_least > 0, times.at_least, np.nan)
    age = np.where(times.lag == 0, 0, np.where(np.isnan(times.seconds), bound, times.seconds))
    age = np.where((times.lag == UNKNOWN) | np.isnan(age), -1, age)
    oldest = [age[group.partitions(t)].max(initial=-1) for t in range(len(group.topics))]
    return [None if age < 0 else round(float(age)) for age in oldest]


def in_last_hour(at_ms: Iterable[int], now_ms: float) -> int:
    """How many of these moments lie in the hour before ``now_ms``."""
    return sum(now_ms - HOUR_MS < at <= now_ms for at in at_ms)


def _past(i: int) -> Callable[[Judged], int | None]:
    return lambda judged: None if judged.evidence.past is None else judged.evidence.past[i]


# -- values that the server knows -----------------------------------------------------------------------------------


def _sums(group: Group, values: Longs) -> list[int | None]:
    """Of each topic, the sum of the known values; None if there are none."""
    spans = [values[group.partitions(t)] for t in range(len(group.topics))]
    return [sum(rest.tolist()) if len(rest := span[span != UNKNOWN]) else None for span in spans]


def lag_of_topics(sighting: Sighting) -> list[int | None]:
    """Of each topic, the lag that is known."""
    return _sums(sighting.group, sighting.lag)


def _committed(state: Any) -> Longs:
    group: Group = state.group
    return np.full(group.P, UNKNOWN) if group.offsets is None else group.offsets.committed


def _max_seconds(state: Any) -> float | None:
    seconds = state.seconds[~np.isnan(state.seconds)]
    return float(seconds.max()) if len(seconds) else None


def _unowned(state: Any) -> int | None:
    traits = traits_of_protocol(state.sighting.assignor)
    if not state.group.M or state.sighting.protocol == SHARE or (traits is not None and traits.leaves):
        return None  # nobody owns what is shared, and what a strategy leaves to nobody is as it should be
    return unowned(state.group, state.group.owner)


def _beyond_end(state: Any) -> int | None:
    offsets = state.group.offsets
    if offsets is None:
        return None
    known = (offsets.committed != UNKNOWN) & (offsets.end != UNKNOWN) & state.counted
    return int((known & (offsets.committed > offsets.end)).sum())


def _info(state: Any) -> list[tuple[dict[str, str | None], int]]:
    seen = state.sighting
    # What a classic group's members send, and the broker gives for those of the other protocols.
    protocol_type = "consumer" if seen.protocol == CLASSIC else seen.protocol
    labels = {"protocol": seen.assignor, "protocol_type": protocol_type, "state": seen.state}
    return [(labels, int(seen.state == "Stable"))]


# -- values of rows ---------------------------------------------------------------------------------------------------


def _of_partitions(seen: Sighting, values: Sequence[Any]) -> list[Any]:
    """A value of each partition in each of its rows."""
    return [values[p] for p in seen.read_by[0] if len(values)]


def _of_readers(seen: Sighting, values: Sequence[str | None]) -> list[str | None]:
    """A value of each member in each of its rows."""
    return [None if m == NOBODY else values[m] for m in seen.read_by[1] if values]


def _or_none(values: Longs | None) -> list[int | None]:
    return [] if values is None else [None if value == UNKNOWN else value for value in values.tolist()]


def _racks(group: Group) -> list[str | None]:
    names, rack_of = (group.racks.names, group.racks.of_member.tolist()) if group.racks else ((), [])
    return [None if rack == UNKNOWN else names[rack] for rack in rack_of]


# fmt: off
MEASURES: list[Measure] = [
    # What the list of groups has; JSON and Kafka's own views have some of it.
    Measure("name", "group", lambda j: j.sighting.name, header="GROUP", label="Group", row="group", sort="name",
            letters=True),
    Measure("verdict", "group", lambda j: j.verdict,
            "ERR: unread messages that no member reads. WARN: something is wrong.", "VERDICT", "Verdict",
            sort="verdict"),
    Measure("why", "group", lambda j: j.why, "why it is not OK: the gravest reason", label="Why"),
    Measure("lag", "group", lambda j: j.sighting.total_lag, "messages that are still to be read", "LAG", "Lag",
            sort="lag", schema=_COUNT, prometheus=(f"{_LAG}_sum_lag",)),
    Measure("behind_s", "group", _behind_s, "how old the oldest unread message is, at least", "BEHIND-S", "Behind",
            sort="behind", schema=_SECONDS),
    Measure("trend", "group", _trend, "messages a second by which the lag grows; below zero it shrinks", "TREND",
            "Trend", sort="trend", schema={"type": "number"}),
    Measure("catch_up_s", "group", _catch_up_s, "when everything will have been read, at the present pace",
            "CATCH-UP-S", "Caught up", sort="catch-up", schema={"type": ["number", "null"], "minimum": 0}),
    Measure("protocol", "group", lambda j: j.sighting.protocol,
            "classic, consumer (KIP-848), share, streams; simple: it only commits", "PROTOCOL", "Protocol", "kind",
            "protocol", letters=True, schema={"enum": [CLASSIC, CONSUMER, SHARE, STREAMS, SIMPLE]}),
    Measure("state", "group", lambda j: "gone" if j.gone else j.sighting.state, "as Kafka calls it", "STATE", "State",
            sort="state", letters=True, schema=_TEXT),
    Measure("assignor", "group", lambda j: j.sighting.assignor, "the assignor that the group uses",
            "ASSIGNMENT-STRATEGY", "Strategy", "protocol", "strategy", letters=True, schema=_TEXT),
    Measure("members", "group", lambda j: j.sighting.members, "Members", "#MEMBERS", "Members",
            sort="members", prometheus=(f"{_KAFKA}_members", f"{_MINION}_members", "apportion_group_members"),
            otlp="kafka.consumer_group.members", unit="{members}"),
    Measure("partitions", "group", lambda j: j.sighting.group.P, "partitions that it reads or has committed",
            "#PARTITIONS", "Partitions", sort="partitions"),
    Measure("heaviest", "group", lambda j: j.sighting.heaviest, "the share of the lag that one member has to read",
            "HEAVIEST", "Heaviest", sort="heaviest", schema={**_SECONDS, "maximum": 1}),
    Measure("last_hour", "group", lambda j: j.evidence.last_hour,
            "rebalances in the last hour (in records: before the newest)", "LAST-HOUR", "Last hour", sort="last-hour",
            schema=_COUNT),
    Measure("rebalances", "group", _past(0), "all that are remembered", label="Rebalances"),
    Measure("moved", "group", _past(1),
            "partitions that went from one member to another that stayed, in all these rebalances", row="moved"),
    Measure("needless", "group", _past(2), "moves that the fairest sharing did not need", row="needless"),
    Measure("coordinator", "group", lambda j: j.sighting.coordinator, "the broker that coordinates the group",
            "COORDINATOR (ID)", schema=_TEXT),
    Measure("generation", "group", lambda j: j.sighting.generation, "the classic generation, or the group's epoch",
            "GENERATION", schema={"type": "integer"}),
    # What the server's metrics have besides.
    Measure("max_lag", "group", lambda s: int(s.owed.max()) if s.group.P and s.sighting.total_lag is not None else None,
            "Most messages still to read of one partition", prometheus=(f"{_LAG}_max_lag",)),
    Measure("max_lag_seconds", "group", _max_seconds, f"Age of the oldest unread message: {_AT_LEAST}",
            prometheus=(f"{_LAG}_max_lag_seconds",)),
    Measure("info", "group", _info, "1 if the group is Stable, else 0", prometheus=(f"{_MINION}_info",),
            labelled=True),
    Measure("rebalances_total", "group", lambda s: [({"cause": why}, n) for why, n in s.causes.items()],
            "Rebalances since the start, by cause", prometheus=("apportion_group_rebalances_total",), counter=True,
            labelled=True),
    Measure("moved_total", "group", lambda s: s.past.moved,
            "Partitions that went from one member that stays to another", counter=True,
            prometheus=("apportion_group_moved_partitions_total",)),
    Measure("needless_total", "group", lambda s: s.past.needless,
            "Moves beyond the fewest that an even sharing needed", counter=True,
            prometheus=("apportion_group_needless_moves_total",)),
    Measure("rebalance_seconds", "group", lambda s: s.past.rebalance_ms / 1000,
            "Seconds that its rebalances took, from all having joined to the assignment", counter=True,
            prometheus=("apportion_group_rebalance_seconds_total",), otlp="apportion.group.rebalance_time", unit="s"),
    Measure("standstill_seconds", "group", lambda s: s.past.standstill_ms / 1000,
            "Seconds for which rebalances paused partitions, summed over them: a lower bound", counter=True,
            prometheus=("apportion_group_standstill_partition_seconds_total",), otlp="apportion.group.standstill_time",
            unit="s"),
    Measure("excess_moves", "group", lambda s: s.distance.moves if s.distance else None,
            "Fewest partitions that must move to reach the fairest sharing, proved",
            prometheus=("apportion_group_excess_moves",), otlp="apportion.group.excess_moves"),
    Measure("excess_squares", "group", lambda s: s.distance.squares if s.distance else None,
            "Sum of squared loads above the least there is, proved", prometheus=("apportion_group_excess_squares",),
            otlp="apportion.group.excess_squares"),
    Measure("topic_concentration", "group", lambda s: s.concentration,
            "Greatest share of one topic's partitions on one member",
            prometheus=("apportion_group_topic_concentration",), otlp="apportion.group.topic_concentration"),
    Measure("advised_members", "group", lambda s: s.advised_members, "Members that the group's work needs",
            prometheus=("apportion_group_advised_members",)),
    Measure("time_to_catch_up", "group", lambda s: s.evidence.whole.catch_up_s,
            "Until everything is read at the present rates; +Inf if the lag does not shrink",
            prometheus=("apportion_group_time_to_catch_up_seconds",)),
    Measure("expired_unread", "group", lambda s: int(s.evidence.expired.sum()),
            "Partitions whose committed offset lies before the log's start",
            prometheus=("apportion_group_partitions_expired_unread",)),
    Measure("maybe_at_marker", "group", lambda s: int(s.maybe_markers.sum()),
            "Partitions of which 1 or 2 old offsets are unread, which may be markers of transactions",
            prometheus=("apportion_group_partitions_maybe_at_marker",)),
    Measure("unowned", "group", _unowned, "Subscribed partitions without an owner",
            prometheus=("apportion_group_unowned_partitions",)),
    Measure("beyond_end", "group", _beyond_end, "Partitions whose committed offset lies beyond the log's end",
            prometheus=("apportion_group_partitions_committed_beyond_end",)),
    Measure("held_back", "group", lambda s: int((s.sighting.held_back & s.counted).sum()),
            "Partitions that are read up to a transaction that is still open, with messages behind it",
            prometheus=("apportion_group_partitions_held_back",)),
    Measure("plan_timestamp", "group", lambda s: s.sighting.governed and s.sighting.governed.published_s,
            "When the plan that a governor's carrier bears was published",
            prometheus=("apportion_group_governed_plan_timestamp_seconds",)),
    Measure("plan_differs", "group", lambda s: s.sighting.governed and len(s.sighting.governed.differs),
            "Partitions that are not where that plan puts them",
            prometheus=("apportion_group_governed_plan_differing_partitions",)),
    # A row a member.
    Measure("id", "member", lambda s: s.group.members, header="CONSUMER-ID", schema=_TEXT),
    Measure("instance_id", "member", lambda s: s.group.instance_ids, header="GROUP-INSTANCE-ID", always=False),
    Measure("host", "member", lambda s: s.group.hosts, header="HOST", always=False, schema=_TEXT),
    Measure("client_id", "member", lambda s: s.group.client_ids, header="CLIENT-ID", always=False, schema=_TEXT),
    Measure("rack", "member", lambda s: _racks(s.group), header="RACK", always=False),
    Measure("capacity", "member", lambda s: s.group.capacity.tolist() if s.group.has_capacities else (),
            header="CAPACITY", always=False),
    Measure("partitions", "member", lambda s: [len(read) for read in s.reads], header="#PARTITIONS", schema=_COUNT),
    Measure("lag", "member", lambda s: s.lags, header="LAG", schema=_COUNT),
    Measure("lag_percent", "member", lambda s: [100 * n // (s.total_lag or 1) for n in s.lags], "of the group's lag",
            "LAG-PERCENT", always=False, schema=_COUNT),
    # A row for each partition and member that reads it.
    Measure("topic", "row", lambda s: _of_partitions(s, [s.group.topics[t] for t in s.group.topic_of.tolist()]),
            header="TOPIC", schema=_TEXT),
    Measure("partition", "row", lambda s: _of_partitions(s, s.group.number.tolist()), header="PARTITION",
            schema=_COUNT),
    Measure("committed", "row", lambda s: _of_partitions(s, _or_none(getattr(s.group.offsets, "committed", None))),
            header="CURRENT-OFFSET"),
    Measure("end", "row", lambda s: _of_partitions(s, _or_none(getattr(s.group.offsets, "end", None))),
            header="LOG-END-OFFSET"),
    Measure("lag", "row", lambda s: _of_partitions(s, _or_none(s.lag)), header="LAG", schema=_COUNT),
    Measure("id", "row", lambda s: _of_readers(s, s.group.members), header="CONSUMER-ID", schema=_TEXT),
    Measure("host", "row", lambda s: _of_readers(s, s.group.hosts), header="HOST"),
    Measure("client_id", "row", lambda s: _of_readers(s, s.group.client_ids), header="CLIENT-ID"),
    # A series a partition or topic of a group.
    Measure("lag", "partition", lambda s: s.sighting.lag, "Messages still to read",
            prometheus=(f"{_LAG}_lag", f"{_KAFKA}_lag", f"{_MINION}_topic_partition_lag"),
            otlp="kafka.consumer_group.lag"),
    Measure("lag_seconds", "partition", lambda s: s.seconds, f"Age of the first unread message: {_AT_LEAST}",
            prometheus=(f"{_LAG}_lag_seconds",)),
    Measure("offset", "partition", _committed, "Committed offset",
            prometheus=(f"{_LAG}_offset", f"{_KAFKA}_current_offset"), otlp="kafka.consumer_group.offset"),
    Measure("stuck_seconds", "partition", lambda s: s.stuck_seconds,
            "For how long nothing was committed, if messages are unread and no pause was nearly as long before",
            prometheus=("apportion_group_partition_stuck_seconds",)),
    Measure("lag", "topic", lambda s: _sums(s.group, s.owed), "Messages still to read of one topic",
            prometheus=(f"{_LAG}_topic_sum_lag", f"{_KAFKA}_lag_sum", f"{_MINION}_topic_lag"),
            otlp="kafka.consumer_group.lag_sum"),
    Measure("offset", "topic", lambda s: _sums(s.group, _committed(s)), "Committed offsets of one topic, summed",
            prometheus=(f"{_KAFKA}_current_offset_sum", f"{_MINION}_topic_offset_sum"),
            otlp="kafka.consumer_group.offset_sum"),
    # The logs themselves.
    Measure("end", "log", lambda log: log.end, "Log end offset",
            prometheus=("kafka_partition_latest_offset", "kafka_topic_partition_current_offset"),
            otlp="kafka.partition.current_offset"),
    Measure("begin", "log", lambda log: log.begin, "Log start offset",
            prometheus=("kafka_partition_earliest_offset", "kafka_topic_partition_oldest_offset"),
            otlp="kafka.partition.oldest_offset"),
    Measure("partitions", "logs", lambda log: len(log.number), "Partitions of a topic",
            prometheus=("kafka_topic_partitions",), otlp="kafka.topic.partitions", unit="{partitions}"),
    Measure("ends", "logs", lambda log: int(log.end.sum()) if (log.end != UNKNOWN).all() else None,
            "Log end offsets, summed", prometheus=("kminion_kafka_topic_high_water_mark_sum",)),
    Measure("brokers", "cluster", lambda seen: seen.brokers, "Brokers", prometheus=("kafka_brokers",)),
]
# fmt: on
