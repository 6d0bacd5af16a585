"""A server's settings: address, interval, metrics, access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERVAL_S: Final = 10.0
MOST_SERIES: Final = 500_000


@dataclass(frozen=True)
class ServerSettings:
    """How one server behaves; everything has a default but the cluster.

    interval_s
        Seconds from the start of one round to the start of the next.
    tail
        Read the tail of ``__consumer_offsets`` for rebalances with their causes.
    past
        A dump or the pipeline's tables to start from; None starts with nothing.
    personal
        Show client ids and hosts, and member ids as the broker has them, in the page and the API.
    personal_labels
        The same in the labels of metrics; None: as ``personal``.
    names
        Families of metrics, as ``metrics.chosen`` reads them.
    most_series
        Series of one scrape; what is beyond is left out, and said.
    cluster_name
        The label of the families that have one; None takes the cluster's id.
    otlp_endpoint
        Where OpenTelemetry's metrics are sent; None sends none.
    capacity
        Work a second that one member takes, for the advised number of members; None gives none.
    catch_up_s
        Seconds in which what waits is to be read, for that number; None counts what comes in alone.
    source
        The options by which a command reaches the same cluster; "" proposes no command.
    checkpoints
        Folders of Spark's streaming queries.
    """

    interval_s: float = INTERVAL_S
    tail: bool = True
    past: str | None = None
    personal: bool = False
    personal_labels: bool | None = None
    names: str = ""
    most_series: int = MOST_SERIES
    cluster_name: str | None = None
    capacity: float | None = None
    otlp_endpoint: str | None = None
    catch_up_s: float | None = None
    source: str = ""
    checkpoints: tuple[str, ...] = ()

    @property
    def labels_personal(self) -> bool:
        """Whether labels of metrics name the reader."""
        return self.personal if self.personal_labels is None else self.personal_labels

    @property
    def stale_s(self) -> float:
        """Age from which on known values are no longer given as a metric."""
        return max(60.0, 3 * self.interval_s)
