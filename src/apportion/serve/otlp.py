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
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import GroupState
from apportion.sighting.measures import MEASURES, Measure

log = logging.getLogger("apportion.serve")

Attributes = dict[str, str | int]
Point = tuple[float, Attributes]
_HTTP: Final = re.compile(r"https?://[^/\s][!-~]*", re.ASCII)


def check_endpoint(url: str | None) -> None:
    """Refuse settings that the SDK would fail at in every export; a URL may hold a password and is not repeated.

    Raises
        BadInput: no URL of HTTP.
    """
    if url and not _HTTP.fullmatch(url):
        raise BadInput("--otlp-endpoint", "no URL of HTTP", "one such as http://localhost:4318/v1/metrics")


class _LastWords(logging.Filter):
    """Keeps the log of the SDK's exporter, some lines an attempt, for one line of ours."""

    def __init__(self) -> None:
        super().__init__()
        self._errors: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Nothing passes."""
        self.add(record.getMessage())
        return False

    def add(self, words: str) -> None:
        """The exporter's words about the attempt."""
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
    """Whether exports arrive: a line in the log when they no longer do, and one when they do again."""

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
            """The SDK's own, with a look at its result."""

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
        for measure in filter(lambda measure: measure.otlp, MEASURES):
            create = meter.create_observable_counter if measure.counter else meter.create_observable_gauge
            create(measure.otlp, [self._callback(measure)], unit=measure.unit, description=measure.words)

    def close(self) -> None:
        """Send the present values, and stop."""
        try:
            self._provider.shutdown(timeout_millis=3000)
        finally:
            self._of_sdk.removeFilter(self._quiet)

    def _callback(self, measure: Measure) -> Callable[[Any], Iterable[Any]]:
        from opentelemetry.metrics import Observation

        def observe(_: Any) -> Iterator[Any]:
            for value, attributes in self.points(measure):
                yield Observation(value, attributes)

        return observe

    def points(self, measure: Measure) -> Iterator[Point]:
        """The values of one measure; values that are too old are left out."""
        snapshot, now = self._collector.snapshot, time.time()
        cluster: Attributes = {"kafka.cluster.alias": self._settings.cluster_name or snapshot.round.cluster_id or ""}
        if now - snapshot.round.at > self._settings.stale_s:
            return
        if measure.level in ("log", "logs"):
            for topic, log in sorted(snapshot.round.topics.items()):
                values = measure.value(log)
                if measure.level == "logs":
                    yield values, {**cluster, "topic": topic}
                    continue
                for number, value in zip(log.number.tolist(), values.tolist(), strict=True):
                    if value != UNKNOWN:
                        yield value, {**cluster, "topic": topic, "partition": number}
            return
        for state in snapshot.living:
            if now - state.seen <= self._settings.stale_s:
                points = self._collector.faults.guard(
                    state.name,
                    f"metric {measure.otlp}",
                    lambda state=state: list(_of_group(measure, state)),  # type: ignore[misc]
                )
                for value, attributes in points or ():
                    yield value, {**cluster, "group": state.name, **attributes}


def _of_group(measure: Measure, state: GroupState) -> Iterator[Point]:
    group, values = state.group, measure.value(state)
    if measure.level == "group":
        places: list[Attributes] = [{}]
        values = [values]
    elif measure.level == "topic":
        places = [{"topic": topic} for topic in group.topics]
    else:
        places = [{"topic": topic, "partition": number} for topic, number in map(group.name_of, range(group.P))]
        values = [None if value == UNKNOWN else value for value in values.tolist()]
    yield from ((value, place) for place, value in zip(places, values, strict=True) if value is not None)
