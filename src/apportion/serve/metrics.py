"""A snapshot as Prometheus reads it: the names that dashboards know already, and ours.

A scrape must not wait for 300,000 lines to be written, so they are written once a round and kept packed. Names, labels
and values are those of kafka-lag-exporter, kafka_exporter and KMinion, as their own pages and dashboards have them.
Source of the format: Prometheus, "Exposition formats", text 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from apportion.arrays import UNKNOWN
from apportion.errors import UnknownName
from apportion.model.group import Group
from apportion.serve.exposition import Rendered
from apportion.serve.faults import Faults
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import GroupState, Snapshot
from apportion.sighting.measures import Measure, exported

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Row = tuple[str, str]
"""Labels as they stand between braces, and the value."""
LAG_EXPORTER, EXPORTER, KMINION, OURS = SOURCES = "kafka-lag-exporter", "kafka_exporter", "kminion", "apportion"
DEFAULT: Final = (LAG_EXPORTER, OURS)
"""What is exported where nobody chooses: each lag once."""
ORDER: Final = ("cluster", "logs", "group", "topic", "log", "partition")
"""What comes first where series are bounded."""


@dataclass(frozen=True)
class Exported:
    """A measure under one of its names: whose dashboards know it decides its labels, and the sign for unknown."""

    name: str
    measure: Measure

    @property
    def of(self) -> str:
        """Whose name it is."""
        if self.name.startswith(("kafka_consumergroup_group_", "kafka_partition_")):
            return LAG_EXPORTER
        return {"kminion": KMINION, "apportion": OURS}.get(self.name.partition("_")[0], EXPORTER)

    @property
    def tells_unknown(self) -> bool:
        """kafka_exporter alone reports unknown values, as -1."""
        return self.of == EXPORTER and self.measure.level == "partition"

    @property
    def head(self) -> str:
        """Its comments before the series."""
        unknown = "; -1 without a commit" if self.tells_unknown else ""
        kind = "counter" if self.measure.counter else "gauge"
        return f"# HELP {self.name} {self.measure.words}{unknown}\n# TYPE {self.name} {kind}\n"


def every() -> list[Exported]:
    """All that can be exported."""
    return [Exported(name, measure) for name, measure in exported()]


def chosen(names: str) -> list[Exported]:
    """The meaning of ``--names``: sources and names, ``all``, and with a ``-`` before them the ones left out.

    Nothing, or what is left out alone, means the default: kafka-lag-exporter's and ours, each lag once.

    >>> [family.name for family in chosen("kminion,-kminion_kafka_consumer_group_info")][:2]
    ['kminion_kafka_consumer_group_members', 'kminion_kafka_consumer_group_topic_partition_lag']

    Raises
        UnknownName: a word that is neither.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    unchosen, families = not words or words[0].startswith("-"), every()
    names_out = {family.name for family in families if unchosen and family.of in DEFAULT}
    for word in words:
        bare = word.removeprefix("-")
        meant = {family.name for family in families if bare in ("all", family.of, family.name)}
        if not meant:
            raise UnknownName("family of metrics", bare, ["all", *SOURCES, *(family.name for family in families)])
        names_out = names_out - meant if word.startswith("-") else names_out | meant
    return [family for family in families if family.name in names_out]


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
    """The labels that name a partition's owner, by member; the last means no member."""
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
        """All lines of a snapshot; values that are too old are left out."""
        stale_s = self._settings.stale_s
        fresh = now - snapshot.round.at <= stale_s
        groups = [g for g in snapshot.living if now - g.seen <= stale_s]
        view = _View(self._settings, snapshot, groups, fresh, self._faults)
        texts: dict[str, bytes] = {}
        series = left_out = 0
        for family in sorted(self.families, key=lambda family: ORDER.index(family.measure.level)):
            lines = [_line(family.name, labels, value) for labels, value in view.rows(family)]
            room = self._settings.most_series - series
            left_out += max(len(lines) - room, 0)
            series += min(len(lines), room)
            texts[family.name] = "".join([family.head, *lines[:room]]).encode("utf-8", "replace")
        return Rendered((texts[family.name] for family in self.families), series, left_out)


def _line(name: str, labels: str, value: str) -> str:
    return f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n"


def escape(text: str) -> str:
    """A label's value: it ends where it should, with any name of a group or topic.

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


class _View:
    """One snapshot while it is written, family by family."""

    def __init__(
        self, settings: ServerSettings, snapshot: Snapshot, groups: Sequence[GroupState], fresh: bool, faults: Faults
    ) -> None:
        self.snapshot, self.fresh, self._faults = snapshot, fresh, faults
        self.cluster = escape(settings.cluster_name or snapshot.round.cluster_id or "")
        personal = settings.labels_personal
        labels = {
            g.name: faults.guard(g.name, "labels", partial(Labels, g.group, self.cluster, personal)) for g in groups
        }
        self.groups = [(g, known) for g in groups if (known := labels[g.name]) is not None]

    def rows(self, family: Exported) -> Iterable[Row]:
        """The series of one family; none of a group of which its value breaks."""
        if family.measure.level in ("log", "logs", "cluster"):
            return self._of_cluster(family) if self.fresh else ()
        writer = {"partition": _partitions, "topic": _topics, "group": _group}[family.measure.level]
        derived = f"metric {family.name}"
        if not any(broken == derived for _, broken in self._faults):
            with suppress(Exception):  # of one of them: each by itself tells whose
                return [row for state, labels in self.groups for row in writer(family, state, labels)]
        each = (
            self._faults.guard(state.name, derived, lambda state=state, labels=labels: [*writer(family, state, labels)])  # type: ignore[misc]
            for state, labels in self.groups
        )
        return [row for rows in each for row in rows or ()]

    def _of_cluster(self, family: Exported) -> Iterator[Row]:
        measure, seen = family.measure, self.snapshot.round
        if measure.level == "cluster":
            yield "", str(measure.value(seen))
            return
        label = "topic_name" if family.of == KMINION else "topic"
        cluster = f'cluster_name="{self.cluster}",' if family.of == LAG_EXPORTER else ""
        for topic, log in sorted(seen.topics.items()):
            text, value = f'{cluster}{label}="{escape(topic)}"', measure.value(log)
            if measure.level == "log":
                for number, offset in zip(log.number.tolist(), value.tolist(), strict=True):
                    if offset != UNKNOWN:
                        yield f'{text},partition="{number}"', str(offset)
            elif value is not None:
                yield text, str(value)


def _partitions(family: Exported, state: GroupState, labels: Labels) -> Iterator[Row]:
    """A series a partition of a group."""
    values = family.measure.value(state)
    text, unknown = (str, UNKNOWN) if values.dtype.kind == "i" else (number_text, np.nan)
    if not family.tells_unknown and (np.isnan(values) if unknown != UNKNOWN else values == UNKNOWN).all():
        return
    for partition, value in zip(labels.partitions(family.of), values.tolist(), strict=True):
        if family.tells_unknown or (value == value and value != UNKNOWN):
            yield partition, text(value)


def _topics(family: Exported, state: GroupState, labels: Labels) -> Iterator[Row]:
    """A series a topic of a group."""
    label = "topic_name" if family.of == KMINION else "topic"
    for topic, total in zip(labels.topics, family.measure.value(state), strict=True):
        if total is not None:
            yield f'{labels.group[family.of]},{label}="{topic}"', str(total)


def _group(family: Exported, state: GroupState, labels: Labels) -> Iterator[Row]:
    """A series a group, or one for each of the measure's own labels."""
    text, value = labels.group[family.of], family.measure.value(state)
    if family.measure.labelled:
        for more, n in value:
            yield ",".join([text, *(f'{key}="{escape(str(word or ""))}"' for key, word in more.items())]), str(n)
    elif value is not None:
        yield text, number_text(value)
