"""How far behind commits are, and whether that can be said at all: the rule of ``gold/lag``, on columns.

The tables that Spark makes, and the reader that needs no Spark, both call ``lags``: a row a partition of a group, all
rows at once. What is not known is no number: a ``Known`` has the values, and which of them count.

Offsets are any 64 bits, for hostile records hold what no broker writes. A difference that 64 bits cannot hold is not
known, unless the rule needs only its sign.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import Bools, Ints, Longs

STATUSES: Final = ("unknown_topic", "invalid", "unsubscribed", "ahead", "expired_data", "ok", "never_committed")
"""In the order of the codes in ``Lags.status``."""
UNKNOWN_TOPIC, INVALID, UNSUBSCRIBED, AHEAD, EXPIRED_DATA, OK, NEVER_COMMITTED = range(7)
_MOST: Final = 2**63 - 1
_LEAST: Final = -(2**63)


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers of which some are not known.

    value
        (N,) any number where it is not known.
    is_known
        (N,) whether it is.
    """

    value: Longs
    is_known: Bools

    @classmethod
    def of(cls, numbers: Iterable[int | None]) -> Known:
        """From numbers and None."""
        listed = list(numbers)
        is_known = np.array([number is not None for number in listed], dtype=np.bool_)
        return cls(np.array([0 if number is None else number for number in listed], dtype=np.int64), is_known)

    def to_list(self) -> list[int | None]:
        """The numbers, None if they are not known."""
        return [
            value if is_known else None
            for value, is_known in zip(self.value.tolist(), self.is_known.tolist(), strict=True)
        ]

    def where(self, these: Bools) -> Known:
        """Known in these rows only."""
        return Known(self.value, self.is_known & these)


@dataclass(frozen=True, eq=False)
class Lags:
    """The columns of ``gold/lag`` that follow from a commit and its log's ends, (N,) each.

    begin, end, last_stable
        Those of the log; not known where either of the first two is not.
    raw
        ``end - committed`` with its sign.
    lag
        Messages that can still be read: 0 to end - begin. Not known of a topic made anew: the commit is of another log.
    stable
        The same for a reader of committed messages, who stops at the last stable offset.
    lost
        Messages that retention deleted unread; none of a topic that the group left.
    status
        Code into ``STATUSES``: the first that fits.
    """

    begin: Known
    end: Known
    last_stable: Known
    raw: Known
    lag: Known
    stable: Known
    lost: Known
    status: Ints

    @property
    def owed(self) -> Known:
        """``lag`` of topics that the group still wants: topics that it left need no reading."""
        return self.lag.where(self.status != UNSUBSCRIBED)

    def words(self) -> list[str]:
        """Each row's status."""
        return [STATUSES[code] for code in self.status.tolist()]


def lags(committed: Known, begin: Known, end: Known, last_stable: Known, same_topic: Bools, wanted: Bools) -> Lags:
    """Lag and status of commits, a row a partition of a group.

    committed
        The commit that stands; not known where there is none: ``never_committed``.
    begin, end, last_stable
        Log start, high watermark and last stable offset; no last stable offset: as if it were the end.
    same_topic
        (N,) False where the commit names another topic id than the topic has: it was deleted and made anew.
    wanted
        (N,) False where the group has living members and none of them names the topic.

    >>> rows = lags(*map(Known.of, ([10, 60], [20, None], [50, None], [45, None])), np.ones(2, bool), np.ones(2, bool))
    >>> rows.raw.to_list(), rows.lag.to_list(), rows.stable.to_list(), rows.lost.to_list(), rows.words()
    ([40, None], [30, None], [25, None], [10, None], ['expired_data', 'unknown_topic'])
    """
    known = begin.is_known & end.is_known
    begin, end, last_stable = begin.where(known), end.where(known), last_stable.where(known)
    both = known & committed.is_known
    same = both & same_topic
    c, b, e = committed.value, begin.value, end.value
    raw, behind = difference(e, c)
    lost, expired = difference(b, c), c < b
    stop = np.maximum(np.where(last_stable.is_known, np.minimum(last_stable.value, e), e), b)
    status = np.select(
        [~committed.is_known, ~known, ~same_topic, ~wanted, c > e, expired],
        [NEVER_COMMITTED, UNKNOWN_TOPIC, INVALID, UNSUBSCRIBED, AHEAD, EXPIRED_DATA],
        OK,
    )
    return Lags(
        begin, end, last_stable,
        Known(raw, both & behind),
        _readable(c, b, e).where(same),
        _readable(c, b, stop).where(same),
        Known(np.where(expired & wanted, lost[0], 0), same & (~(expired & wanted) | lost[1])),
        status,
    )  # fmt: skip


def difference(a: Longs, b: Longs) -> tuple[Longs, Bools]:
    """(N,) a - b, and whether 64 bits hold it; if not, the nearest that they hold."""
    with np.errstate(over="ignore"):
        wrapped = a - b
    held = ((a ^ b) & (a ^ wrapped)) >= 0
    if held.all():
        return wrapped, held
    return np.where(held, wrapped, np.where(a > b, _MOST, _LEAST)), held


def _readable(committed: Longs, begin: Longs, end: Longs) -> Known:
    """Messages from the commit, or the log's start if that is later, to ``end``.

    A commit far below 0 has a lag although no 64 bits hold its raw one, if the log's length is held.
    """
    behind, behind_held = difference(end, committed)
    whole, whole_held = difference(end, begin)
    least = np.minimum(np.maximum(behind, 0), np.maximum(whole, 0))
    return Known(least, (least < _MOST) | behind_held | whole_held)
