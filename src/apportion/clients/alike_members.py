"""A new group whose members all say the same, dealt round and round straight into the bytes of their assignments.

Everybody who starts an application at once sees this: equal subscriptions, nothing owned. Such a group has no claims to
judge, nothing to withhold, and one best plan that takes no search: partition n goes to member n modulo M. So no group
of arrays is built, and what one member sent is read once.

When it applies: all members sent the same bytes, which claim nothing and name no rack; every topic's ids are 0 to
n - 1; and the strategy deals such groups so, by its ``deals``. Then the bytes, the log line and what is remembered are
those of the general way in ``bridge``, to which a test holds them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from apportion.assignors import Assignor
from apportion.clients.joined_group import READERS, JoinedGroup
from apportion.clients.rebalance import PlannedRebalance, SeenGroup
from apportion.clients.topic_metadata import ClusterMetadata, describe_topics
from apportion.model.build import member_order, topic_order
from apportion.strategy.user_data import UserDataCodec
from apportion.wire.assignments import write_neighbours

ALIKE_MIN: Final = 12
"""Members with partitions of the same topics, on average, from which on writing them as neighbours is quicker."""


class Dealt(NamedTuple):
    """The answers, and what counts of the group for the next time."""

    answers: dict[str, bytes]
    seen: SeenGroup
    partitions: int


class Dealer:
    """One strategy's short cut.

    proof
        That of the strategy's plan for such a group; None where it plans otherwise, and there is no short cut.
    """

    def __init__(self, strategy: Assignor, codec: UserDataCodec) -> None:
        self.codec = codec
        # By the very class: a strategy or codec that inherits may do otherwise.
        deals = "deals" in vars(type(strategy)) and type(codec) in READERS
        self.proof: Mapping[str, str] | None = strategy.deals() if deals else None  # type: ignore[attr-defined]

    def deal(self, joined: JoinedGroup, cluster: ClusterMetadata) -> Dealt | None:
        """Every member's answer; None where the short cut does not apply."""
        if self.proof is None or joined.alike is None or joined.alike.rack:
            return None
        claim = self.codec.read(joined.alike)
        if claim.owned or claim.lost:
            return None
        described, _ = describe_topics(cluster, joined.topics, racks=False)
        topics = topic_order(joined.topics)
        sizes = [size for topic in topics if type(size := described.get(topic)) is int]
        partitions = sum(sizes)
        if len(sizes) < len(topics) or not partitions:
            return None
        answers = _answers(topics, sizes, len(joined.ids))
        if answers is None:
            return None
        order = member_order(joined.ids, joined.instance_ids)
        members = tuple([joined.ids[m] for m in order])
        seen = SeenGroup(topics, sizes, members, tuple([joined.instance_ids[m] for m in order]))
        return Dealt(dict(zip(members, answers, strict=True)), seen, partitions)

    def record(
        self, dealt: Dealt, group: str, generation: int | None, assignor: str, why: str, ms: float
    ) -> PlannedRebalance:
        """The rebalance for the log; there is no plan that a hook could ask for."""
        return PlannedRebalance(
            group=group,
            generation=generation,
            assignor=assignor,
            members=len(dealt.answers),
            partitions=dealt.partitions,
            moved=0,
            kept=0,
            given=dealt.partitions,
            withheld=0,
            ignored=0,
            why=why,
            proof=self.proof or {},
            ms=ms,
            plan=None,
        )


def _answers(topics: Sequence[str], sizes: Sequence[int], members: int) -> list[bytes] | None:
    """The assignment of each member: of all partitions, topic by topic, every M-th.

    From one member to the next all ids go up by one, until a topic begins or ends: the members between two such places
    get partitions of the same topics. None where those are so few that the general way is quicker.
    """
    start = list(accumulate(sizes, initial=0))
    begins = sorted({first % members for first in start})
    if len(begins) * ALIKE_MIN > members:
        return None
    answers: list[bytes] = []
    for low, high in pairwise([*begins, members]):
        parts: list[tuple[str, range]] = []
        partition = low
        while partition < start[-1]:
            t = bisect_right(start, partition) - 1
            parts.append((topics[t], range(partition - start[t], sizes[t], members)))
            partition += members * len(parts[-1][1])
        answers += write_neighbours(parts, high - low)
    return answers
