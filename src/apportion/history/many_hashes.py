"""``broker-uniform`` of one group under many names: the names count through the order of their hashes.

The coordinator's maps hand on members and topics in an order that follows from the hash codes of their names. Groups
of one structure whose maps have the same order get the same plan, and of a few members there are few orders. So the
orders of all groups are looked up in a few calls, and each order is planned once, by the strategy itself.
Without topic ids the topics' own hash codes are the same for all; their names count where several are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import Ints
from apportion.history.heaviest import Heaviest
from apportion.history.scenarios import Outcome
from apportion.model.group import Group
from apportion.server_side.java_hash import small_bins, string_hashes, timeline_ranks

FEW: Final = 8
"""Entries up to which a hash map's table is one of 16 bins, and no bin a tree."""
Hashes = NDArray[np.uint32]


class ManyHashes:
    """One row of ``broker-uniform``.

    row
        Its plan under some names.
    members, topics
        Those names, each with its place among the names that ``orders`` is given hash codes of.
    planned
        Order to what its row has that this one has not, and how the lag of its heaviest member is summed.
    """

    def __init__(self, row: Outcome, members: Mapping[str, int], topics: Mapping[str, int]) -> None:
        """Take the row's plan and the names."""
        assert row.group is not None  # noqa: S101 - rows without one were left out
        self.row = row
        groups = [step.group for step in row.walk] if row.walk else [row.group]
        self._steps = [_HashedGroup(group, members, topics) for group in groups]
        self.planned: dict[bytes, tuple[dict[str, Any], Heaviest | None]] = {}

    @staticmethod
    def fits(row: Outcome) -> bool:
        """Whether few enough members and topics are in it, and no topic's id is known."""
        groups = [step.group for step in row.walk] if row.walk else [row.group]
        return all(
            group is not None and group.M <= FEW and not group.topic_ids and len(_common(group)) <= FEW
            for group in groups
        )

    def orders(self, members: Hashes, topics: Hashes) -> tuple[Ints, NDArray[np.bool_]]:
        """(G, steps) a number for each order, and (G,) whether names share a hash code, so that it is not known.

        members, topics
            (G, names) hash codes of all names.
        """
        codes, shared = zip(*[step.orders(members, topics) for step in self._steps], strict=True)
        return np.stack(codes, axis=1), np.logical_or.reduce(shared)


class _HashedGroup:
    """One group whose maps' orders are asked for."""

    def __init__(self, group: Group, members: Mapping[str, int], topics: Mapping[str, int]) -> None:
        own = [name for name in group.members if name not in members]  # who joins in a scenario keeps its name
        behind = {name: len(members) + n for n, name in enumerate(own)}
        self._own = string_hashes(own)
        self._members = np.array([members.get(name, behind.get(name, 0)) for name in group.members], dtype=np.int64)
        self._topics = np.array([topics[group.topics[t]] for t in _common(group)], dtype=np.int64)

    def orders(self, members: Hashes, topics: Hashes) -> tuple[Ints, NDArray[np.bool_]]:
        """(G,) a number for the orders of both maps, and whether two members share a hash code."""
        own = np.broadcast_to(self._own, (len(members), len(self._own)))
        hashes = np.concatenate([members, own], axis=1)[:, self._members]
        ranks = timeline_ranks(hashes)
        order = np.lexsort((ranks, small_bins(hashes)), axis=-1)
        ordered = np.sort(hashes, axis=1)
        shared = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        code = _code(order)
        if len(self._topics) > 1:
            by_bin = np.argsort(small_bins(topics[:, self._topics]), axis=1, kind="stable")
            code = code * (FEW**FEW) + _code(by_bin)
        return code, shared


def _code(order: Ints) -> Ints:
    """(G,) a number for each (G, N) order of at most ``FEW``."""
    number: Ints = order @ (FEW ** np.arange(order.shape[1]))
    return number


def _common(group: Group) -> Sequence[int]:
    """The topics of the subscription that all members have; none if they differ."""
    if not group.M or len(np.unique(group.subscription_of)) > 1:
        return ()
    topics: list[int] = group.subscriptions[int(group.subscription_of[0])].tolist()
    return topics
