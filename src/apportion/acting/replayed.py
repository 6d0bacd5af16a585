"""When a leader would have acted in a recorded group: its generations, its commits and the sampled log ends, looked at.

At each moment at which a log end was sampled the rule looks as it would have looked live. Where it would have acted,
the plan's owners count from then on, until the group's next generation. The lag stays the recorded one: what acting
would have made of it nobody recorded, so later acts of one generation are told as if the first had changed nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from apportion.acting.loop import Loop
from apportion.acting.rule import Acting
from apportion.acting.speeds import Sample
from apportion.arrays import NOBODY, UNKNOWN, Longs
from apportion.assignors import Assignor
from apportion.history.lag_time import Pairs, Series
from apportion.history.steps import Step
from apportion.model.group import Group
from apportion.model.lag import lag_of

REASONS = ("rest", "not known", "too little", "held too short", "hand-over")
"""Why a look did not act, in one or two words; in the order in which they are told."""


def replay_acting(
    walk: Sequence[Step], series: Mapping[tuple[str, int], Series], strategy: Assignor, acting: Acting
) -> dict[str, Any]:
    """The ``acting`` part of the JSON of ``apportion replay``.

    walk
        The group's generations, each with what it really gave.
    series
        Of each partition, the samples of its log's end and the group's commits, by time.
    """
    moments = sorted({at for partition_series in series.values() for at, _ in partition_series.ends})
    loop = Loop(acting, strategy, learned=True)
    began = [step.generation.at for step in walk]
    acts: list[dict[str, Any]] = []
    reasons: Counter[str] = Counter()
    current, looks = -1, 0
    for at in moments:
        newest = bisect_right(began, at) - 1
        if newest < 0:
            continue
        step = walk[newest]
        if newest != current:
            loop.generation(step.generation.at / 1000, step.group, step.group.owner)
            current = newest
        sample, lag, known = _offsets(step.group, series, at)
        planned = loop.look(sample, lag, known)
        looks += 1
        if planned.owner is None or planned.outlook is None:
            reasons[_reason(planned.decision.why)] += 1
            continue
        outlook = planned.outlook
        acts.append(
            {
                "at_ms": at,
                "generation": step.generation.number,
                "member": outlook.member,
                "before": round(outlook.before, 1),
                "after": round(outlook.after, 1),
                "unit": "s" if outlook.in_seconds else "messages",
                "moves": outlook.moves,
                "why": planned.decision.why,
            }
        )
        owner = np.where(planned.owner == NOBODY, step.group.owner, planned.owner)
        loop.generation(at / 1000, step.group, owner)
    return {
        "rule": asdict(acting),
        "looks": looks,
        "acts": acts,
        "left": {r: reasons[r] for r in REASONS if reasons[r]},
    }


def _reason(why: str) -> str:
    """Which of ``REASONS`` a decision's words are."""
    if "rests for" in why:
        return "rest"
    if "not known" in why or "planned nothing" in why:
        return "not known"
    if "hand-over" in why:
        return "hand-over"
    return "held too short" if ", but only for" in why else "too little"


def _offsets(group: Group, series: Mapping[tuple[str, int], Series], at: int) -> tuple[Sample, Longs, Any]:
    """Log ends and commits as they were known at a moment, in the order of the group's partitions."""
    of = [series.get(group.name_of(p), Series()) for p in range(group.P)]
    end = np.array([_newest(known.ends, at) for known in of], dtype=np.int64)
    committed = np.array([_newest(known.commits, at) for known in of], dtype=np.int64)
    lag = lag_of(np.zeros_like(end), end, committed, group.auto_offset_reset)
    return Sample(at / 1000, end, committed), lag, end != UNKNOWN


def _newest(samples: Pairs, at: int) -> int:
    """The offset at the last sample up to a moment; -1 none."""
    i = bisect_right(samples, at, key=lambda sample: sample[0])
    return samples[i - 1][1] if i else UNKNOWN
