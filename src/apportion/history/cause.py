"""Why a rebalance happened, as far as the records show."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apportion.history.records import Generation, GenerationMember
from apportion.model.protocols import STREAMS

JOIN: Final = "join"
LEAVE: Final = "leave"
CRASH: Final = "crash"
STATIC: Final = "static"
SUBSCRIPTION: Final = "subscription"
GREW: Final = "topic grew"
HAND_OVER: Final = "hand-over"
GONE: Final = "topic gone"
TOPOLOGY: Final = "topology"
TOPICS: Final = "topics"
SETTINGS: Final = "settings"
UNKNOWN: Final = "unknown"

DEFAULT_SESSION_MS: Final = 45_000
"""Kafka's default; a KIP-848 member's session timeout is the broker's and stands in no record."""


@dataclass(frozen=True, slots=True)
class CommitInterval:
    """The commits on one partition between two records of the group.

    after
        Offset of the group's record before them; -1 none.
    n, first, last
        How many, and the first and last commit time in milliseconds.
    """

    after: int
    topic: str
    partition: int
    n: int
    first: int
    last: int


class CommitCadence:
    """How the members of a group used to commit, which distinguishes a crash from a leave.

    A member that dies falls silent a whole session timeout before the others are called together; one that leaves is
    called off at once. Where its habit is not known, having committed once, only a silence of about one session counts
    as a crash. A member that never commits, or seldom, gives no sign: its going counts as a leave.
    """

    def __init__(self, commits: Iterable[CommitInterval] = ()) -> None:
        self._rows: Sequence[CommitInterval] = sorted(commits, key=lambda row: (row.after, row.topic, row.partition))
        self._after = [row.after for row in self._rows]

    @property
    def known(self) -> bool:
        """Whether there is any commit to judge by."""
        return bool(self._rows)

    def crashed(self, seat: GenerationMember, before: Generation, now: Generation) -> bool:
        """Whether a member of ``before`` that is not in ``now`` fell silent long before it was missed."""
        rows = self._rows[bisect_left(self._after, before.offset) : bisect_left(self._after, now.offset)]
        mine = [row for row in rows if row.partition in (seat.reads or seat.assigned).get(row.topic, ())]
        if not mine:
            return False
        missed_at = now.at if now.started is None else now.started
        silent_ms = missed_at - max(row.last for row in mine)
        # Heartbeats come every third of a session at least, so a session ends at least 2/3 of it after the last sign.
        session_ms = seat.session_timeout_ms or DEFAULT_SESSION_MS
        usual_ms = min(((row.last - row.first) / (row.n - 1) for row in mine if row.n > 1), default=None)
        unusual = silent_ms <= session_ms * 3 / 2 if usual_ms is None else silent_ms > 3 * usual_ms
        return silent_ms >= session_ms * 2 / 3 and unusual


def causes(
    before: Generation,
    now: Generation,
    counts_before: Mapping[str, int],
    counts_now: Mapping[str, int],
    habits: CommitCadence,
) -> list[str]:
    """All that changed between two generations, in a fixed order; ``unknown`` if nothing did.

    Epochs of a streams group also tell that the topology changed, the topics (they were made, or grew), or the group's
    settings. Which of several changes came first within one epoch no record tells.

    counts_before, counts_now
        Partitions of each wanted topic, as ``counts_after`` gives them.
    """
    were = {seat.identity: seat for seat in before.members}
    are = {seat.identity: seat for seat in now.members}
    gone = [seat for identity, seat in were.items() if identity not in are]
    dead = [habits.crashed(seat, before, now) for seat in gone]
    stayed = [(were[identity], seat) for identity, seat in are.items() if identity in were]
    occurred = {
        STATIC: any(old.member_id != new.member_id for old, new in stayed),
        JOIN: len(are) > len(stayed),
        LEAVE: not all(dead),
        CRASH: any(dead),
        SUBSCRIPTION: now.kind != STREAMS and any(set(old.topics) != set(new.topics) for old, new in stayed),
        GREW: now.kind != STREAMS and bool(were) and _grew(before, now, counts_before, counts_now),
        **{
            fact: fact in before.facts and before.facts[fact] != now.facts.get(fact)
            for fact in (TOPOLOGY, TOPICS, SETTINGS)
        },
    }
    return [cause for cause, so in occurred.items() if so] or [_quiet_cause(before, now)]


def _grew(before: Generation, now: Generation, counts_before: Mapping[str, int], counts_now: Mapping[str, int]) -> bool:
    """Whether a topic that was wanted all along has more partitions now."""
    return any(counts_now.get(t, 0) > counts_before.get(t, 0) for t in before.topics & now.topics)


def _quiet_cause(before: Generation, now: Generation) -> str:
    """Why a group rebalanced whose members and subscriptions stayed as they were.

    Partitions without an owner found one: the second round of a cooperative rebalance (KIP-429). A topic that members
    still want lost its last partition: it was deleted. Else nobody knows.
    """
    had, has = before.owners(), now.owners()
    if has.keys() - had.keys():
        return HAND_OVER
    lost = {topic for topic, _ in had} - {topic for topic, _ in has}
    return GONE if lost & now.topics else UNKNOWN
