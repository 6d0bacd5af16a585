"""Kafka Streams' own knobs, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

RackAware = Literal["none", "min_traffic", "balance_subtopology"]

_LONG: Final = frozenset({"acceptable_recovery_lag", "probing_rebalance_interval_ms"})
"""Settings of 64 bits."""


@dataclass(frozen=True)
class TaskSettings:
    """The user's settings, with Kafka's defaults; the dots of Kafka's names are underscores here.

    num_standby_replicas
        Warm copies of each stateful task's state besides the active one.
    max_warmup_replicas
        Extra copies that may be restoring at one time, so that a task can move later.
    acceptable_recovery_lag
        Messages; a process within it of the changelog's end counts as caught up.
    probing_rebalance_interval_ms
        After this a plan with warm-ups asks for another rebalance; at least 60,000.
    rack_aware_assignment_tags
        Tag keys whose values should differ between a task's copies (KIP-708).
    rack_aware_assignment_strategy
        Whether and how reading from other racks counts (KIP-925).
    rack_aware_assignment_traffic_cost, rack_aware_assignment_non_overlap_cost
        Price of a partition read from another rack, and of a task that moves; used with the two strategies.
    """

    num_standby_replicas: int = 0
    max_warmup_replicas: int = 2
    acceptable_recovery_lag: int = 10_000
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_assignment_strategy: RackAware = "none"
    rack_aware_assignment_traffic_cost: int = 10
    rack_aware_assignment_non_overlap_cost: int = 1

    def __post_init__(self) -> None:
        """Kafka's bounds (``StreamsConfig``), whose numbers are Java's of 32 and 64 bits."""
        bounds = {"num_standby_replicas": 0, "max_warmup_replicas": 1, "acceptable_recovery_lag": 0}
        bounds |= {"probing_rebalance_interval_ms": 60_000}
        bounds |= dict.fromkeys(("rack_aware_assignment_traffic_cost", "rack_aware_assignment_non_overlap_cost"), 0)
        for name, least in bounds.items():
            most = 2**63 - 1 if name in _LONG else 2**31 - 1
            if not least <= getattr(self, name) <= most:
                limit = f"at least {least}" if getattr(self, name) < least else f"at most {most}"
                raise ValueError(f"{name.replace('_', '.')} is {getattr(self, name)}; {limit} is needed")
