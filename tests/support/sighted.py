"""A sighting as group.json: what tests of readers look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.model.build import build
from apportion.model.group_json import group_to_dict
from apportion.sighting.sighting import Sighting
from apportion.sources.cluster_round import TopicLog


def raw(sighting: Sighting) -> dict[str, Any]:
    """group.json of the group, each topic with its entries."""
    group = sighting.group
    described = group_to_dict(group)
    del described["auto_offset_reset"]
    for topic, entries in described["topics"].items():
        if isinstance(entries, int):
            described["topics"][topic] = [{"partition": p} for p in range(entries)]
    return described


def sighting(raw: dict[str, Any], *facts: Any, **more: Any) -> Sighting:
    """A group as group.json has it, and what was seen with it."""
    return Sighting(build(raw), *facts, **more)


def log(numbers: Sequence[int], begin: int = -1, end: int = -1) -> TopicLog:
    """A topic with these partitions, whose logs are all alike."""
    return TopicLog(
        None, np.array(numbers), np.full(len(numbers), begin), np.full(len(numbers), end), ((),) * len(numbers)
    )
