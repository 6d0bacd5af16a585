"""Range: each topic is cut into one run of partitions per subscriber."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Ints
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.solvers.range_racks import TopicDeal, deal_in_step, deal_near, deal_rest, needs_racks
from apportion.strategy.codec import Stateless, UserDataCodec


@dataclass(frozen=True)
class Range:
    """Each topic is cut into one run of partitions per subscriber.

    Co-partitioned topics line up: partition 7 of both goes to the same member. The price is balance: the first
    members get the odd partition of every topic. With racks, members first take what is near (KIP-881).
    Goals: co-location (topics with the same subscribers and ids line up) > balance within each topic; both hold by
    construction. Source: Apache Kafka, ``RangeAssignor``, member by member.
    """

    name: ClassVar[str] = "range"
    reads: ClassVar[frozenset[str]] = frozenset({"racks"})
    memory: ClassVar[UserDataCodec] = Stateless()
    quick: ClassVar[bool] = True
    structural: ClassVar[str] = "order"
    goals: ClassVar[tuple[str, ...]] = ("co-location", "topic-balance")

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition."""
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        near = _cuts_with_racks(group, owner) if group.knows_racks else {}
        for topic in group.assignable_topics:
            if topic in near:
                deal_rest(near[topic])
            else:
                _runs(group, topic, owner[group.partitions(topic)])
        return Answer(owner, dict.fromkeys(self.goals, "optimal"), certificate=_AlignedRanges())


@dataclass(frozen=True)
class _AlignedRanges:
    """Why ranges cannot be shared better."""

    def explain(self, group: Group) -> list[str]:
        """A sentence for each goal."""
        return [
            "co-location: topics with the same subscribers and partition ids are cut alike, so they line up.",
            "topic-balance: in each topic the subscribers' counts differ by at most 1.",
        ]


def _runs(group: Group, topic: int, owner: Ints) -> None:
    """Write the classic ranges of one topic: the first ``extra`` subscribers get one more."""
    subscribers = group.subscribers(topic)
    share, extra = divmod(len(owner), len(subscribers))
    counts = np.full(len(subscribers), share, dtype=np.int64)
    counts[:extra] += 1
    owner[:] = np.repeat(subscribers, counts)


def _cuts_with_racks(group: Group, owner: Ints) -> dict[int, TopicDeal]:
    """The topics that were dealt by racks as far as racks go; empty if no topic needs them.

    As soon as one topic needs racks, topics with the same subscribers and as many partitions are dealt in step, so
    that they stay co-partitioned; a topic alone is dealt by racks only if it needs them (KIP-881).
    """
    cuts = {topic: cut for topic in np.flatnonzero(group.wanted_topic).tolist() if (cut := _cut(group, topic, owner))}
    needs = {topic for topic, cut in cuts.items() if needs_racks(cut)}
    if not needs:
        return {}
    co_partitioned: dict[tuple[bytes, int], list[int]] = {}
    for topic, cut in cuts.items():
        co_partitioned.setdefault((cut.members.tobytes(), len(cut.owner)), []).append(topic)
    for topics in co_partitioned.values():
        if len(topics) > 1:
            deal_in_step([cuts[topic] for topic in topics], [group.number[group.partitions(t)] for t in topics])
        elif topics[0] in needs:
            deal_near(cuts[topics[0]])
    return cuts


def _cut(group: Group, topic: int, owner: Ints) -> TopicDeal | None:
    """A topic that is to be dealt by racks; None if no subscriber has one, or there is nothing to deal."""
    racks, span = group.racks, group.partitions(topic)
    members = group.subscribers(topic)
    if racks is None or span.start == span.stop or (racks.of_member[members] == UNKNOWN).all():
        return None
    return TopicDeal(members, racks.of_member[members], racks.set_of[span], racks.near, owner[span])
