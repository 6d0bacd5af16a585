"""The server's facts about itself: rounds, scrapes, connections, in a registry of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from apportion.serve.exposition import Rendered
from apportion.serve.faults import Faults
from apportion.serve.snapshot import Snapshot


class OwnMetrics:
    """``apportion_scrape_*`` and ``apportion_up``, made by the official client at each scrape.

    state, rendered, connections
        Where the newest values are found.
    faults
        What cannot be worked out of single groups.
    """

    def __init__(
        self, state: Callable[[], Snapshot], rendered: Callable[[], Rendered], connections: Callable[[], int],
        faults: Faults, cluster_name: str | None = None,
    ) -> None:  # fmt: skip
        from prometheus_client import CollectorRegistry, Counter, GCCollector, PlatformCollector, ProcessCollector

        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.answered = Counter(
            "apportion_scrape_answers", "Answers given, by path and status", ["path", "status"], registry=self.registry
        )
        self._faults, self._cluster_name = faults, cluster_name
        self._state, self._rendered, self._connections = state, rendered, connections
        self.registry.register(self)

    def collect(self) -> Iterable[Any]:
        """The gauges as they are now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        state, rendered = self._state(), self._rendered()
        at = state.round.at
        unknown = sum(1 for group in state.living if group.unknown_since is not None)
        for name, description, value in (
            ("apportion_up", "1 if the last round reached the cluster", 0 if state.trouble else 1),
            (
                "apportion_tail_up",
                "1 if the tail of every partition of __consumer_offsets is read",
                0 if state.tail_trouble or state.trouble or state.round.leaderless else 1,
            ),
            ("apportion_scrape_round_duration_seconds", "How long the last good round took", state.round_s),
            ("apportion_scrape_asked_duration_seconds", "How long the cluster took of it", state.asked_s),
            ("apportion_scrape_requests", "Requests of the last good round", state.round.requests),
            ("apportion_scrape_last_success_timestamp_seconds", "When the last good round was", at),
            ("apportion_scrape_age_seconds", "Age of the exported values", time.time() - at if at else -1),
            ("apportion_scrape_groups", "Groups that are known", len(state.living)),
            ("apportion_scrape_groups_unknown", "Groups of which nothing new is known", unknown),
            ("apportion_scrape_series", "Series of the cluster", rendered.series),
            ("apportion_scrape_series_left_out", "Series beyond the bound (--max-series)", rendered.left_out),
            ("apportion_scrape_bytes", "Size of the text before it is packed", rendered.size),
            ("apportion_scrape_connections", "HTTP connections that are open", self._connections()),
        ):
            yield GaugeMetricFamily(name, description, value=value)
        cluster = self._cluster_name or state.round.cluster_id or ""
        broken = GaugeMetricFamily(
            "apportion_group_fault",
            "1 for what cannot be worked out of a group",
            labels=["cluster_name", "group", "of"],
        )
        for group, derived in self._faults:
            broken.add_metric([cluster, group, derived], 1)
        yield broken
        for name, description, n in (
            ("apportion_scrape_rounds", "Rounds", state.number),
            ("apportion_scrape_rounds_failed", "Rounds without an answer", state.rounds_failed),
        ):
            yield CounterMetricFamily(name, description, value=n)

    def text(self) -> bytes:
        """The lines."""
        from prometheus_client import generate_latest

        return bytes(generate_latest(self.registry))
