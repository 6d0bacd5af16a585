"""The work that each partition brings, in the unit that a member's capacity is given in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast

import numpy as np

from apportion.arrays import Bools, Floats
from apportion.errors import BadInput
from apportion.model.group import Group

By = Literal["weight", "lag", "partitions"]
BY: Final = ("weight", "lag", "partitions")
PACE_MAX: Final = 1e100
"""Messages a second, of one partition, that may be asked for."""


@dataclass(frozen=True, eq=False)
class Work:
    """by: the unit of the count; work: (P,) of each partition; unknown: (P,) whether it is not known and counts 0."""

    by: By
    work: Floats
    unknown: Bools


def work_of(group: Group, by: str | None = None, catch_up_s: float | None = None) -> Work:
    """(P,) the work of each partition that somebody wants; 0 for the others.

    by
        ``weight``: what comes in a second; ``lag``: messages left to read; ``partitions``: 1 each. None: ``weight``
        where some weight is known.
    catch_up_s
        Seconds in which the lag is to be worked off besides: ``weight`` gets lag / seconds on top, ``lag`` is divided
        by the seconds and so becomes work in a second.

    >>> from apportion.model.group_json import read_group
    >>> topics = {"t": [{"partition": 0, "lag": 8}, {"partition": 1, "lag": 5}]}
    >>> work_of(read_group({"topics": topics, "members": {"a": {"topics": ["t"]}}}), by="lag").work
    array([8., 5.])
    """
    known = None if group.weight is None else ~np.isnan(group.weight)
    if by is None:
        if known is None:
            raise BadInput(
                "by", "nothing, and no partition's weight is known", "weight, lag or partitions (--by): what is counted"
            )
        by = "weight"
    if by not in BY:
        raise BadInput("by", repr(by), f"one of {', '.join(BY)}")
    lag = np.where(group.lag_known, group.lag, 0).astype(np.float64)
    with np.errstate(over="ignore"):  # looked at below
        pace = lag / (catch_up_s or 1)
    if by == "partitions":
        if catch_up_s is not None:
            raise BadInput("catch_up", "a time by partitions", "--by weight or --by lag: partitions have no pace")
        work, unknown = np.ones(group.P), np.zeros(group.P, dtype=np.bool_)
    elif by == "lag":
        work, unknown = pace, ~group.lag_known
    else:
        if known is None or group.weight is None:
            raise BadInput("weight", "no partition with a weight", "topics.T[i].weight in the group, or --by lag")
        work, unknown = np.where(known, group.weight, 0.0), ~known
        if catch_up_s is not None:
            work, unknown = work + pace, unknown | ~group.lag_known
    if catch_up_s is not None and not bool((pace <= PACE_MAX).all()):
        needed = f"a time in which the lag is no more than {PACE_MAX:g} a second"
        raise BadInput("catch_up", f"{catch_up_s:g} s for a lag of {lag.max():,.0f} messages", needed)
    # A rate is never known to twelve digits, and a sum of such fractions would not be short in decimals.
    counted: Floats = np.where(group.wanted, work, 0.0).astype(np.float64)
    counted = counted if catch_up_s is None else np.round(counted, 6)
    return Work(cast("By", by), counted, unknown & group.wanted)
