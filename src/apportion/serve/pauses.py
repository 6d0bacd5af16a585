"""For how long each partition's commits have not moved, compared with the longest time before: which are stuck.

A reader that commits every twenty minutes is not stuck after ten. So a pause counts from when something was unread and
no commit moved, and it is long only beyond twice the longest that ended by itself. A partition that was never seen to
move goes by its member's commits on others. Without any it has ``UNSEEN_S``, and has had them if as much is unread as
was written in that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Floats, Ints, Longs

STILL_S: Final = 600.0
"""Seconds that a commit may stand still whatever its habits."""
TIMES: Final = 2.0
"""Times the longest pause that ended by itself."""
UNSEEN_S: Final = 1_800.0
"""Seconds for a partition of a member that was never seen to commit: nobody knows how far its commits are apart."""


@dataclass(frozen=True, eq=False)
class Pauses:
    """Of P partitions: their commits at the last round, since when they have not moved, and the longest ended pause.

    since_s
        (P,) seconds since 1970, when the commit last moved, or all was read.
    longest_s
        (P,) seconds; 0 before the first.
    unread_s
        (P,) seconds in which as much is written as is unread, at the rate of late; 0 unknown.
    """

    committed: Longs
    since_s: Floats
    longest_s: Floats
    unread_s: Floats
    at_s: float = 0.0

    @classmethod
    def begin(cls, committed: Longs, at_s: float) -> Pauses:
        """At the first round."""
        never = np.zeros(len(committed))
        return cls(committed, np.full(len(committed), at_s), never, never, at_s)

    def then(self, committed: Longs, unread: Longs, written: Floats, at_s: float) -> Pauses:
        """After one more round.

        unread
            (P,) messages that wait and are more than a few seconds old.
        written
            (P,) messages a second; NaN unknown.
        """
        moved = committed != self.committed
        ended = moved & (self.committed != UNKNOWN)
        longest = np.where(ended, np.maximum(self.longest_s, at_s - self.since_s), self.longest_s)
        unread_s = np.divide(unread, written, out=np.zeros(len(unread)), where=written > 0)
        return Pauses(committed, np.where(moved | (unread <= 0), at_s, self.since_s), longest, unread_s, at_s)

    @property
    def seconds(self) -> Floats:
        """(P,) seconds of the pause that lasts."""
        answer: Floats = self.at_s - self.since_s
        return answer

    def stuck(self, owner: Ints) -> Bools:
        """(P,) whether it lasts too long, with (P,) the member that reads each."""
        of_member = np.zeros(owner.max(initial=NOBODY) + 2)
        np.maximum.at(of_member, owner, self.longest_s)
        of_member[NOBODY] = 0.0
        unseen = np.where(self.unread_s > UNSEEN_S, STILL_S, UNSEEN_S)
        as_others = np.where(of_member[owner] > 0, np.minimum(TIMES * of_member[owner], unseen), unseen)
        habit = np.where(self.longest_s > 0, TIMES * self.longest_s, as_others)
        answer: Bools = self.seconds > np.maximum(STILL_S, habit)
        return answer
