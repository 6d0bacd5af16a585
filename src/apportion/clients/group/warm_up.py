"""Warm hand-over: a partition's new owner gets ready for it while the old one still reads it.

Under KIP-429 what changes hands is taken from its owner in one round and given in the next; the work that its new owner
has to do first comes then, while nobody reads it. Here that work comes before:

| round | the old owner | the new owner |
|---|---|---|
| 1: somebody joined | keeps the partition | is told in its assignment's user data what it will get, and gets ready |
| 2: it is ready, and joins again | is told to let go, as without us | |
| 3: the old owner has let go | | has it |

What is "ready" travels as a checksum of what was told, so readiness for another list counts for nothing. The leader
needs no clock and no memory: a member that dies has no claim and no wish, and the next plan goes without it. A member
that has waited for ``patience_s`` takes what comes at once, so no fault and no restless plan keeps a group waiting.

The leader and the new owner must know of it; the old owner may be any client's cooperative member. A leader that does
not know of it, Java's for one, reads no more than Kafka's own bytes and hands over as ever.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from zlib import crc32

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.clients.group.joined_group import JoinedGroup
from apportion.model.facts import Fact
from apportion.model.group import Group
from apportion.model.to_names import partitions_to_names
from apportion.wire.assignment import Assignment, read_assignment, write_assignment
from apportion.wire.partitions import Held, held, in_order
from apportion.wire.user_data import read_facts, read_sticky, write_sticky

log = logging.getLogger("apportion.clients")

FACT: Final = "warm-up"
"""How a member says, behind its strategy's memory, that it warms up, and what it is ready for."""
COLD: Final = 0
"""Ready for nothing yet; else the checksum of what was told, which is never 0 here."""
AT_ONCE: Final = 2**32
"""Ready for whatever comes: the member has waited long enough."""
WARM_UP: Final = Fact(default=-1, low=-1, high=AT_ONCE)
"""A member that does not say takes partitions as Kafka's do."""

Place = tuple[str, int]
Work = Callable[[list[Place]], object]


def checksum(announced: bytes) -> int:
    """The number by which a member says that it is ready for its announced partitions; from 1."""
    return crc32(announced) or 1


# -- the leader -------------------------------------------------------------------------------------------------------


def stays_until_warm(
    group: Group, owner: Ints, held_back: Bools, joined: JoinedGroup, row_of: Ints
) -> tuple[Bools, dict[int, bytes]]:
    """(P,) the partitions that old owners keep in this round, and the orders for members that warm up, by their index.

    owner, held_back
        (P,) the target, and what of it somebody else holds.
    row_of
        (M,) where among ``joined`` each member is.

    A partition that two members claim is handed over as ever, since only one of them may go on reading it.
    """
    stays = np.zeros(group.P, dtype=np.bool_)
    user_data: dict[int, bytes] = {}
    claims = np.bincount(group.claims.partition, minlength=group.P)
    for m in np.unique(owner[held_back]).tolist():
        ready = read_facts(joined.subscriptions.one(int(row_of[m])).user_data).get(FACT, WARM_UP.default)
        if ready < COLD:
            continue
        coming = held_back & (owner == m)
        user_data[m] = write_sticky(in_order(held(partitions_to_names(group, coming))), None)
        if ready not in (AT_ONCE, checksum(user_data[m])):
            stays |= coming & (claims == 1) & (group.owner != NOBODY)
    return stays, user_data


def tell(answer: bytes, announced: bytes) -> bytes:
    """A member's assignment, with its future partitions behind it."""
    return write_assignment(replace(read_assignment(answer), user_data=announced))


# -- the new owner ----------------------------------------------------------------------------------------------------


class WarmUp:
    """One member's side: its announced partitions, and the work that makes it ready, in a thread of its own.

    work
        Called with topics and partition ids that are new; what it raises is logged, and they count as ready.
    patience_s
        Seconds from when it is told of partitions until it takes them, ready or not.
    """

    def __init__(self, work: Work, patience_s: float) -> None:
        self._work, self._patience_s = work, patience_s
        self._assigned: tuple[bytes, frozenset[Place]] = b"", frozenset()
        """What it will get, as told, and what it was given with it."""
        self._ready = self._sent = COLD
        """What it is ready for, and what its last join said of that: a join may be under way when it gets ready."""
        self._until: float | None = None
        self._warm: set[Place] = set()
        self._thread: threading.Thread | None = None
        self._warming: frozenset[Place] = frozenset()

    def fact(self) -> int:
        """This member's words at its next join."""
        self._sent = self._ready
        return self._sent

    def assigned(self, given: Assignment) -> None:
        """Take an assignment; called on the client's own thread."""
        user_data = given.user_data or b""
        if self._ready not in (COLD, AT_ONCE) and checksum(user_data) != self._ready:
            self._ready = COLD
        if not user_data:
            self._until, self._ready = None, COLD
        elif self._until is None:
            self._until = time.monotonic() + self._patience_s
        self._assigned = user_data, frozenset(_places(given.partitions))

    def look(self) -> tuple[bool, set[Place]]:
        """Begin the work; whether to join again, being ready, and which tasks are worked on, or warm and to come."""
        user_data, given = self._assigned
        coming = set(_places(read_sticky(user_data).owned)) if user_data else set()
        late = self._until is not None and time.monotonic() >= self._until
        if self._thread is not None and not self._thread.is_alive():
            self._warm |= self._warming
            self._thread, self._warming = None, frozenset()
        warm = self._warm & (coming | given)
        self._warm &= coming
        ready = AT_ONCE if late else checksum(user_data)
        is_ready = bool(coming) and (
            self._ready == ready or self._gets_ready(frozenset(coming - self._warm), late, ready)
        )
        return is_ready and self._sent != ready, warm | self._warming

    def _gets_ready(self, cold: frozenset[Place], late: bool, ready: int) -> bool:
        """Begin the work; whether none is left, or there is no time for it."""
        if late and cold:
            log.warning(
                "taking %d partitions that are not warm after %g s: %s",
                *(len(cold), self._patience_s, ", ".join(f"{topic}-{p}" for topic, p in sorted(cold)[:3])),
            )
        if late or not cold:
            self._ready = ready
            return True
        if self._thread is None:
            self._warming = cold
            self._thread = threading.Thread(target=self._do, args=(cold,), name="warm-up", daemon=True)
            self._thread.start()
        return False

    def _do(self, places: frozenset[Place]) -> None:
        try:
            self._work(sorted(places))
        except Exception:  # it is its user's code: no hand-over may fail for it
            log.exception("the warm-up failed; the hand-over goes on without it")


def _places(partitions: Held) -> list[Place]:
    return [(topic, p) for topic, ids in partitions for p in ids]
