"""Broker range: the plan of Kafka's group coordinator for a group of the new protocol with ``range``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.model.plan import Answer


@dataclass(frozen=True)
class BrokerRange:
    """What the broker's range gives: each topic cut into one run of partitions per subscriber, without racks.

    Static members come first, by instance id, then the others by member id. It reads neither what members held nor
    racks: with random member ids a restart moves most partitions. The broker alone can run it (KIP-848); here it is
    predicted, to the partition.
    Goals: co-location (topics with the same subscribers and ids line up) > balance within each topic; both hold by
    construction. Source: Apache Kafka 4.3.0, group coordinator, ``RangeAssignor``.
    """

    name: ClassVar[str] = "broker-range"
    goals: ClassVar[tuple[str, ...]] = ("co-location", "topic-balance")
    server_side: ClassVar[bool] = True
    structural: ClassVar[str] = "order"
    target_of: ClassVar[tuple[str, str]] = ("range", "racks")

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition."""
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        for topic in group.assignable_topics:
            span = group.partitions(topic)
            owner[span] = _runs(group.subscribers(topic), span.stop - span.start)
        proof = dict.fromkeys(self.goals, "optimal")
        return Answer(owner, proof, extra={"prediction": "exact"}, certificate=_SurePrediction())


@dataclass(frozen=True)
class _SurePrediction:
    """Why nothing that the group leaves open could change the plan."""

    def explain(self, group: Group) -> list[str]:
        """A sentence for each goal, and one on the prediction."""
        return [
            "co-location: topics with the same subscribers and partition ids are cut alike, so they line up.",
            "topic-balance: in each topic the subscribers' counts differ by at most 1.",
            "prediction: exact, since the broker's range goes by instance ids and member ids alone.",
        ]


def _runs(subscribers: Ints, partitions: int) -> Ints:
    """(partitions,) one run a subscriber; the first ``partitions % subscribers`` get one more."""
    share, extra = divmod(partitions, len(subscribers))
    return np.repeat(subscribers, share + (np.arange(len(subscribers)) < extra))
