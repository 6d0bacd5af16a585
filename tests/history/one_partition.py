"""Lag in time of one partition, of a moment: what ``history.lag_time`` says of many, asked of one."""

from __future__ import annotations

import numpy as np

from apportion.arrays import UNKNOWN
from apportion.history.lag_time import Age, LagTime, Pairs, Samples, Series, ages, lag_times


def age(ends: Pairs, unread: int | None, now_ms: int) -> Age:
    """How old its first unread message is."""
    answers = ages(Samples.of([ends]), np.array([UNKNOWN if unread is None else unread]), now_ms)
    return Age(*(None if np.isnan(answer[0]) else float(answer[0]) for answer in answers))


def lag_time(series: Series, now_ms: int, since_ms: int = 0) -> LagTime:
    """Its lag is from the newest commit to the newest end."""
    committed = series.commits[-1][1] if series.commits else UNKNOWN
    lag = max(series.ends[-1][1] - committed, 0) if series.ends and series.commits else UNKNOWN
    both = Samples.of([series.ends]), Samples.of([series.commits])
    return lag_times(*both, np.array([committed]), np.array([lag]), now_ms, since_ms).row(0)
