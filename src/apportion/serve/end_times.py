"""When the log's end passed an offset: a short table of (time, end) a partition, read backwards for lag in seconds.

Between two samples a log is taken to grow evenly, as kafka-lag-exporter takes it: the message at a committed offset
was written when the end passed it, and the lag in seconds is how long ago that was. A commit that is older than the
table is as old as the table at least, and that is what is said: a lower bound, never an extrapolation.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import UNKNOWN, Floats, Ints, Longs

SAMPLES: Final = 60


class EndTimes:
    """The last samples of one topic's log ends.

    times
        (S,) seconds since 1970, ascending.
    ends
        (S, P) the ends then; -1 unknown.
    """

    def __init__(self, topic_id: str | None, number: Longs) -> None:
        self.topic_id, self.number = topic_id, number
        self.times: Floats = np.empty(0)
        self.ends: Longs = np.empty((0, len(number)), dtype=np.int64)

    def fits(self, topic_id: str | None, number: Longs) -> bool:
        """Whether it is still the same topic with the same partitions."""
        return self.topic_id == topic_id and np.array_equal(self.number, number)

    def add(self, at: float, end: Longs) -> None:
        """One more sample; an end that is not known now is what it was last."""
        if len(self.ends):
            end = np.where(end == UNKNOWN, self.ends[-1], end)
            if (end < self.ends[-1]).any():  # records were lost: offsets of before mean other messages
                self.times, self.ends = self.times[:0], self.ends[:0]
        self.times = np.append(self.times, at)[-SAMPLES:]
        self.ends = np.vstack((self.ends, end))[-SAMPLES:]

    def lag_seconds(self, rows: Ints, committed: Longs, now: float) -> Floats:
        """(R,) how long ago the first unread message was written; 0 where all is read, NaN where nothing is known.

        rows
            (R,) positions in ``number``.
        committed
            (R,) the next offset to read; -1 none.
        """
        seconds = np.full(len(rows), np.nan)
        if not len(self.times):
            return seconds
        ends = self.ends[:, rows]
        known = (committed != UNKNOWN) & (ends[-1] != UNKNOWN)
        read = known & (committed >= ends[-1])
        seconds[read] = 0.0
        behind = np.flatnonzero(known & ~read)
        if not len(behind):
            return seconds
        mine, offset = ends[:, behind], committed[behind]
        # The message at ``offset`` was there in the first sample whose end is beyond it.
        after = (mine > offset).argmax(axis=0)
        first = after == 0
        before = np.maximum(after - 1, 0)
        columns = np.arange(len(behind))
        low, high = mine[before, columns], mine[after, columns]
        share = np.where(high > low, (offset - low) / np.maximum(high - low, 1), 1.0)
        written = self.times[before] + share * (self.times[after] - self.times[before])
        seconds[behind] = now - np.where(first | (low == UNKNOWN), self.times[after], written)
        return np.asarray(np.maximum(seconds, 0.0), dtype=np.float64)  # NaN stays NaN

    def rate(self, rows: Ints, since: float) -> Floats:
        """(R,) messages written a second from the first sample at or after a moment; NaN before there are two."""
        first = int(np.searchsorted(self.times, since))
        if len(self.times) - first < 2 or self.times[-1] <= self.times[first]:
            return np.full(len(rows), np.nan)
        grown = np.where(self.ends[first, rows] == UNKNOWN, 0, self.ends[-1, rows] - self.ends[first, rows])
        pace: Floats = grown / (self.times[-1] - self.times[first])
        return pace
