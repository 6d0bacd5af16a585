"""OK, WARN or ERR for a whole group, from figures that know its size: rare enough that a list can be sorted by it.

What is merely odd is a sentence (``oddities``) and no warning: a group of a hundred members is never quite even.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools
from apportion.errors import ApportionError
from apportion.history.fold import OTHERS
from apportion.history.lag_time import MARKERS_MAX
from apportion.model.group import Group
from apportion.model.measures import loads
from apportion.model.present import contested, loads_now, observed_lag
from apportion.planning import plan
from apportion.report.oddities import KEPT_TOGETHER, heavy, whole_topics
from apportion.wording import count

OK, WARN, ERR = "OK", "WARN", "ERR"
UNEVEN: Final = 1.25
"""Times the partitions of the fairest sharing's fullest member, and at least two more, that one may hold."""
STORM: Final = 6
"""Rebalances within ``STORM_MS`` that are no rollout but a storm."""
STORM_MS: Final = 60_000
RECENT_MS: Final = 3_600_000
"""How long after a storm it still warns."""
PLANNED_MAX_PARTITIONS: Final = 20_000
"""Above it members that want different things are not planned to see how even they could be."""


def judge(
    group: Group, kind: str | None = None, protocol: str | None = None, owners_told: bool = True,
    rebalanced_at: Iterable[int] = (), now_ms: int | None = None, expired: Bools | None = None,
) -> tuple[str, list[str]]:  # fmt: skip
    """The verdict, and why, a figure a sentence, gravest first.

    kind, protocol
        As Kafka names them, where the source told them.
    owners_told
        Whether the source tells who reads.
    rebalanced_at
        When (ms) it rebalanced, ascending.
    now_ms
        The present; None: the last rebalance.
    expired
        (P,) where unread messages are known to be lost; None: by the offsets.
    """
    grave = [] if kind == "share" or not owners_told else list(_unread(group, kind))
    warning = [] if kind == "share" else list(_lost(group, expired))
    if kind not in OTHERS and owners_told and group.M:
        warning += [*_owners(group, protocol), *heavy(group)]
    warning += _storm(list(rebalanced_at), now_ms)
    return (ERR if grave else WARN if warning or not owners_told else OK), [*grave, *warning]


def _unread(group: Group, kind: str | None) -> Iterator[str]:
    """Messages wait, and no member reads them."""
    lag = observed_lag(group)
    if not group.M:
        total = sum(lag[lag != UNKNOWN].tolist())
        if total and kind != "simple":  # who commits without members may well read
            yield f"{count(total, 'message waits', 'messages wait')}, and there are no members."
        return
    nobody = group.wanted & (group.owner == NOBODY) & ~contested(group) & (lag > 0)
    if nobody.any() and len(group.claims.partition):
        total = sum(lag[nobody].tolist())
        yield f"{count(total, 'message waits', 'messages wait')} in partitions without an owner."


def _lost(group: Group, expired: Bools | None) -> Iterator[str]:
    offsets = group.offsets
    if offsets is None:
        return
    counted = group.wanted if group.M else np.ones(group.P, dtype=np.bool_)
    committed = counted & (offsets.committed != UNKNOWN)
    if expired is None:
        expired = committed & (offsets.begin - offsets.committed > MARKERS_MAX)
    if expired.any():
        yield f"Retention deleted unread messages of {count(int(expired.sum()), 'partition')}."
    ahead = committed & (offsets.committed > offsets.end) & (offsets.end != UNKNOWN)
    if ahead.any():
        yield f"{count(int(ahead.sum()), 'commit is', 'commits are')} beyond the log's end."


def _owners(group: Group, protocol: str | None) -> Iterator[str]:
    twice = contested(group)
    if twice.any():
        yield f"{count(int(twice.sum()), 'partition is', 'partitions are')} read by several members."
    lost = group.wanted & (group.owner == NOBODY) & ~twice
    if lost.any() and len(group.claims.partition):
        yield f"{count(int(lost.sum()), 'partition has', 'partitions have')} no owner."
    if protocol in KEPT_TOGETHER:
        return
    held = loads_now(group)
    fullest = _fullest(group)
    if fullest is not None and held.max() >= max(fullest + 2, UNEVEN * fullest):
        yield f"The fullest member holds {held.max():,} partitions where {fullest:,} would be even."
    whole = whole_topics(group)
    if whole:
        yield f"{count(len(whole), 'topic is', 'topics are each')} held wholly by one member."


def _fullest(group: Group) -> int | None:
    """Partitions of the fullest member in the fairest sharing; None where that is not worked out."""
    if not group.equal_capacities or not group.wanted.any():
        return None
    if len(group.subscriptions) == 1:
        return -(-int(group.wanted.sum()) // group.M)
    if group.P > PLANNED_MAX_PARTITIONS:
        return None
    try:
        return int(loads(plan(group, "sticky").owner, group.M).max())
    except ApportionError:
        return None


def _storm(at: list[int], now_ms: int | None) -> Iterator[str]:
    """The newest run of rebalances that follow each other too quickly, unless it is long ago."""
    last = (at[-1] if at else 0) if now_ms is None else now_ms
    for i in range(len(at) - STORM, -1, -1):
        if last - at[i + STORM - 1] > RECENT_MS:
            return
        if at[i + STORM - 1] - at[i] <= STORM_MS:
            first = i
            while first and at[i + STORM - 1] - at[first - 1] <= STORM_MS:
                first -= 1
            n, took = i + STORM - first, at[i + STORM - 1] - at[first]
            yield f"It rebalanced {n} times in {took / 1000:,.0f} s."
            return
