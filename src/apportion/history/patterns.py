"""Subscriptions by pattern, in a sentence: the broker alone knows which topics a regular expression means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from apportion.wording import count, shorten

MOST_SAID: Final = 3
"""Patterns that are named; a foreign record may have any number."""
NARROW: Final = 60


def of_members(patterns: Iterable[str | None]) -> tuple[str, ...]:
    """The regular expressions behind the topics of members that subscribe by one (KIP-848), a sentence each.

    >>> of_members(["clicks-.*", None, "clicks-.*"])[0][:57]
    "2 members subscribe by the pattern 'clicks-.*', which the"
    """
    used = Counter(pattern for pattern in patterns if pattern)
    sentences = [
        f"{count(members, 'member')} {'subscribes' if members == 1 else 'subscribe'} by the pattern "
        f"{shorten(pattern, NARROW)!r}, which the broker resolves: shown are the topics that members with it hold or "
        "are to hold, and no others that it may match."
        for pattern, members in sorted(used.items())[:MOST_SAID]
    ]
    return (*sentences, *_more(len(used)))


def of_topology(subtopologies: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The regular expressions behind the topics of sub-topologies that read them by one (KIP-1071): sentences."""
    used = [(sub["subtopologyId"], pattern) for sub in subtopologies for pattern in sub.get("sourceTopicRegex") or ()]
    sentences = [
        f"Sub-topology {name} reads topics by the pattern {shorten(pattern, NARROW)!r}: no record names them, so its "
        "tasks are shown and what they read of these topics is not."
        for name, pattern in used[:MOST_SAID]
    ]
    return (*sentences, *_more(len(used)))


def _more(patterns: int) -> tuple[str, ...]:
    return (f"So with {count(patterns - MOST_SAID, 'more pattern')}.",) if patterns > MOST_SAID else ()
