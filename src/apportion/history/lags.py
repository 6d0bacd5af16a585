"""How far behind a commit is, and whether that can be said at all: the rules of ``gold/lag`` for one partition."""

from __future__ import annotations

from typing import Final

_INT64: Final = 2**63 - 1
STATUSES: Final = ("unknown_topic", "invalid", "ahead", "expired_data", "unsubscribed", "ok", "never_committed")


def lag_of_commit(
    committed: int, begin: int | None, end: int | None, *, same_topic: bool = True, wanted: bool = True
) -> tuple[int | None, int | None, str]:
    """Raw lag, readable lag and status of one standing commit.

    begin, end
        Log start and end offset; None where no log is known.
    same_topic
        False where the commit names another topic id than the topic has: it was deleted and made anew.
    wanted
        False where the group has living members and none of them names the topic.
    Returns
        ``end - committed`` with its sign, None where 64 bits cannot hold it (a commit far below 0); the messages that
        can still be read, 0 to end - begin; the first status that fits of unknown_topic, invalid, ahead, expired_data,
        unsubscribed, ok. Both lags are None where no log is known.

    >>> lag_of_commit(10, 20, 50)
    (40, 30, 'expired_data')
    """
    if begin is None or end is None:
        return None, None, "unknown_topic"
    raw = end - committed if end - committed <= _INT64 else None
    readable = min(max(end - committed, 0), max(end - begin, 0))
    if not same_topic:
        return raw, readable, "invalid"
    if committed > end:
        return raw, readable, "ahead"
    if committed < begin:
        return raw, readable, "expired_data"
    return raw, readable, "ok" if wanted else "unsubscribed"
