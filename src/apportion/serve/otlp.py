"""The numbers of ``/metrics`` sent by OpenTelemetry's own SDK, under the names of the collector's kafkametricsreceiver.

The SDK asks for the newest snapshot at each export; endpoint headers, certificates and the interval come from its own
environment variables (``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_METRIC_EXPORT_INTERVAL`` ...), so no secret stands on the
command line.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from http.client import responses
from typing import Any, Final

from apportion.arrays import UNKNOWN
from apportion.errors import BadInput, MissingExtra
from apportion.serve.collector import Collector
from apportion.serve.metrics import BY_NAME
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import GroupState

log = logging.getLogger("apportion.serve")

Attributes = dict[str, str | int]
Point = tuple[float, Attributes]
_HTTP: Final = re.compile(r"https?://[^/\s][!-~]*", re.ASCII)
NAMES: Final = {
    "kafka.consumer_group.lag": ("1", "Messages still to read of a partition"),
    "kafka.consumer_group.lag_sum": ("1", "Messages still to read of a topic"),
    "kafka.consumer_group.offset": ("1", "Committed offset of a partition"),
    "kafka.consumer_group.offset_sum": ("1", "Committed offsets of a topic, summed"),
    "kafka.consumer_group.members": ("{members}", "Members of a group"),
    "kafka.partition.current_offset": ("1", "Log end offset"),
    "kafka.partition.oldest_offset": ("1", "Log start offset"),
    "kafka.topic.partitions": ("{partitions}", "Partitions of a topic"),
    "apportion.group.excess_moves": ("1", "Fewest moves to the fairest sharing, proved"),
    "apportion.group.excess_squares": ("1", "Sum of squared loads above the least, proved"),
    "apportion.group.topic_concentration": ("1", "Greatest share of one topic's partitions on one member"),
}
"""Each metric with its unit and what it says."""
SINCE_START: Final = {
    "apportion.group.rebalance_time": ("s", "What its rebalances took, from all having joined to the assignment"),
    "apportion.group.standstill_time": (
        "s", "How long partitions stood still at rebalances, summed over them: a lower bound"
    ),
}  # fmt: skip
"""Those that only grow, from the server's start on."""
_FAMILIES: Final = {
    "kafka.consumer_group.members": "apportion_group_members",
    "apportion.group.excess_moves": "apportion_group_excess_moves",
    "apportion.group.excess_squares": "apportion_group_excess_squares",
    "apportion.group.topic_concentration": "apportion_group_topic_concentration",
    "apportion.group.rebalance_time": "apportion_group_rebalance_seconds_total",
    "apportion.group.standstill_time": "apportion_group_standstill_partition_seconds_total",
}
"""Which of Prometheus's families says the same."""


def check_endpoint(url: str | None) -> None:
    """Refuse what the SDK would fail at in every export; a URL may hold a password and is not repeated.

    Raises
        BadInput: no URL of HTTP.
    """
    if url and not _HTTP.fullmatch(url):
        raise BadInput("--otlp-endpoint", "no URL of HTTP", "one such as http://localhost:4318/v1/metrics")


class _LastWords(logging.Filter):
    """Keeps what the SDK's exporter logs, some lines an attempt, for one line of ours."""

    def __init__(self) -> None:
        super().__init__()
        self._errors: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Nothing passes."""
        self.add(record.getMessage())
        return False

    def add(self, words: str) -> None:
        """What was said of the attempt."""
        self._errors.append(words)

    def take(self) -> str:
        """Why the last attempt failed, without the address, which may hold a password."""
        text = " ".join(self._errors)
        self._errors.clear()
        if system := re.search(r"\[Errno -?\d+\] ([\w ,-]+)", text):
            return system[1]
        if refused := re.search(r"code: (\d{3})\b", text):
            return f"{refused[1]} {responses.get(int(refused[1]), '')}".strip()
        return re.sub(r"\S*(?:://|url: )\S+", "...", text)[:200] or "no answer"


class Receiver:
    """Whether what is sent arrives: a line in the log when it no longer does, and one when it does again."""

    def __init__(self) -> None:
        self.last_words = _LastWords()
        self._away = False

    def note(self, taken: bool) -> None:
        """An attempt has ended."""
        reason = self.last_words.take()
        if taken == (not self._away):
            return
        self._away = not taken
        if taken:
            log.warning("the receiver at --otlp-endpoint takes numbers again")
        else:
            log.warning("the receiver at --otlp-endpoint takes no numbers (%s); they are sent on until it does", reason)


class Exporter:
    """Sends until it is closed; a receiver that is away is a line in the log, and one more when it is back."""

    def __init__(self, settings: ServerSettings, collector: Collector) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise MissingExtra("--otlp-endpoint", "otlp") from error
        self._settings, self._collector = settings, collector
        receiver = Receiver()

        class Noted(OTLPMetricExporter):
            """The SDK's own, with a look at what came of it."""

            def export(self, *given: Any, **named: Any) -> MetricExportResult:
                try:
                    result = super().export(*given, **named)
                except Exception as error:  # versions before 1.40 raise what later ones log
                    receiver.last_words.add(str(error))
                    result = MetricExportResult.FAILURE
                receiver.note(result is MetricExportResult.SUCCESS)
                return result

        self._of_sdk, self._quiet = logging.getLogger(OTLPMetricExporter.__module__), receiver.last_words
        self._of_sdk.addFilter(self._quiet)
        reader = PeriodicExportingMetricReader(
            Noted(endpoint=settings.otlp_endpoint), export_interval_millis=settings.interval_s * 1000
        )
        self._provider = MeterProvider([reader], resource=Resource.create({"service.name": "apportion"}))
        meter = self._provider.get_meter("apportion")
        for name, (unit, description) in NAMES.items():
            meter.create_observable_gauge(name, [self._callback(name)], unit=unit, description=description)
        for name, (unit, description) in SINCE_START.items():
            meter.create_observable_counter(name, [self._callback(name)], unit=unit, description=description)

    def close(self) -> None:
        """Send what is there, and stop."""
        try:
            self._provider.shutdown(timeout_millis=3000)
        finally:
            self._of_sdk.removeFilter(self._quiet)

    def _callback(self, name: str) -> Callable[[Any], Iterable[Any]]:
        from opentelemetry.metrics import Observation

        def observe(_: Any) -> Iterator[Any]:
            for value, attributes in self.points(name):
                yield Observation(value, attributes)

        return observe

    def points(self, name: str) -> Iterator[Point]:
        """The values of one metric; of what is too old nothing is said."""
        snapshot, now = self._collector.snapshot, time.time()
        cluster: Attributes = {"kafka.cluster.alias": self._settings.cluster_name or snapshot.round.cluster_id or ""}
        if now - snapshot.round.at > self._settings.stale_s:
            return
        if name.startswith(("kafka.partition", "kafka.topic")):
            for topic, log in sorted(snapshot.round.topics.items()):
                if name == "kafka.topic.partitions":
                    yield len(log.number), {**cluster, "topic": topic}
                    continue
                values = log.end if name.endswith("current_offset") else log.begin
                for number, value in zip(log.number.tolist(), values.tolist(), strict=True):
                    if value != UNKNOWN:
                        yield value, {**cluster, "topic": topic, "partition": number}
            return
        for state in snapshot.living:
            if now - state.seen <= self._settings.stale_s:
                points = self._collector.faults.guard(
                    state.name,
                    f"metric {name}",
                    lambda state=state: list(_of_group(name, state)),  # type: ignore[misc]
                )
                for value, attributes in points or ():
                    yield value, {**cluster, "group": state.name, **attributes}


def _of_group(name: str, state: GroupState) -> Iterator[Point]:
    group = state.group
    if name in _FAMILIES:
        value = BY_NAME[_FAMILIES[name]].value(state)
        if value is not None:
            yield value, {}
    elif group.offsets is not None:
        values = group.offsets.committed if ".offset" in name else state.lag
        for t, topic in enumerate(group.topics):
            mine = group.partitions(t)
            known = values[mine] != UNKNOWN
            if name.endswith("_sum"):
                if known.any():
                    yield int(values[mine][known].sum()), {"topic": topic}
                continue
            for number, value in zip(group.number[mine][known].tolist(), values[mine][known].tolist(), strict=True):
                yield value, {"topic": topic, "partition": number}
