"""Where the time of a call goes, part by part, and what of it no planner in Python can be without.

``leader_parts`` reads the clock at the doors of the leader's call (kafka-python), with the processor's cache cold, as
at a rebalance, and warm. ``list_floors`` takes a group from names to names without a plan: every id and every topic
that is owned is looked at once, and ready keys and values become the answer's dicts.
"""

from __future__ import annotations

import copy
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import accumulate, chain, islice, pairwise
from statistics import median
from typing import Any
from unittest import mock

from apportion.assignors import find
from apportion.clients.group import bridge
from apportion.clients.kafka_python import coordinator
from apportion.model.to_names import collector_paused
from bench.cells import Cell
from bench.leader import CLIENTS, logged, metadata
from bench.matrix import planned, timed

Row = dict[str, Any]
CALLS = 40
LEADER_CELLS = (
    Cell("dis", 100, 50, 100, "JOIN_ONE"),
    Cell("hom", 100, 50, 100, "JOIN_ONE"),
    Cell("nes", 100, 50, 100, "JOIN_MANY"),
    Cell("hom", 1000, 10, 100, "JOIN_MANY"),
)
DOORS: dict[str, tuple[Any, str]] = {
    "reading": (coordinator, "JoinedGroup"),
    "group and claims": (bridge.Bridge, "_group"),
    "plan": (bridge, "make_plan"),
    "bytes": (bridge, "_write_answers"),
    "log record": (bridge.Bridge, "_report"),
    "lead": (bridge.Bridge, "lead"),
}
FLOOR_CELLS = (
    Cell("hom", 1000, 10, 100, "FULL", goal_ms=1.7),
    Cell("hom", 1000, 10, 100, "STABLE", goal_ms=3.4),
    Cell("hom", 1000, 10, 100, "JOIN_MANY", goal_ms=4.2),
    Cell("hom", 1000, 50, 100, "LEAVE_MANY", skewed=True, goal_ms=12),
    Cell("nes", 1000, 10, 100, "JOIN_ONE", goal_ms=5),
    Cell("dis", 100, 50, 100, "JOIN_ONE", goal_ms=2.3),
    Cell("hom", 10000, 50, 100, "FULL", goal_ms=60),
)


def leader_parts() -> list[Row]:
    """Milliseconds of CPU time of each part of kafka-python's call, medians, cold and warm."""
    return [
        {"cell": cell.name, "cache": cache, **_parts(cell.group(), cache == "cold")}
        for cell in LEADER_CELLS
        for cache in ("cold", "warm")
    ]


def _parts(raw: Row, cold: bool) -> Row:
    prepare: Any = CLIENTS["kafka-python"](raw)
    joined = metadata(raw)
    with logged(), _doors() as spent:

        def lap() -> dict[str, float]:
            call = prepare([(name, bytes(bytearray(sent))) for name, sent in joined])
            if cold:
                gc.collect()
            spent.update(dict.fromkeys(DOORS, 0.0))
            began = time.thread_time()
            call()
            return {"whole": time.thread_time() - began, **spent}

        laps = [prepare.on_its_thread(lap) for _ in range(CALLS)]
    prepare.stop()
    ms = {name: median(lap[name] for lap in laps[2:]) * 1000 for name in laps[0]}
    inside = ("group and claims", "plan", "bytes", "log record")
    client = ms["whole"] - ms["reading"] - ms["lead"]
    others = ms["lead"] - sum(ms[name] for name in inside)
    parts = {"client's own": client, "reading": ms["reading"], **{name: ms[name] for name in inside}, "others": others}
    return {"whole": round(ms["whole"], 2), **{name: round(one, 2) for name, one in parts.items()}}


@contextmanager
def _doors() -> Iterator[dict[str, float]]:
    """Seconds of this thread behind each door since the last reset, for as long as the block lasts."""
    spent: dict[str, float] = {}
    with ExitStack() as stack:
        for name, (holder, attribute) in DOORS.items():
            stack.enter_context(mock.patch.object(holder, attribute, _clocked(getattr(holder, attribute), name, spent)))
        yield spent


def _clocked(door: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    def clocked(*arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return door(*arguments)
        finally:
            spent[name] += time.thread_time() - began

    return clocked


def list_floors() -> list[Row]:
    """Milliseconds from names to names, and of lists alone: a look at what is owned, ready answers into dicts."""
    rows = []
    for cell in FLOOR_CELLS:
        raw = cell.group()
        plan, cpu, _ = timed(raw, 9)
        read, name = (median(part) * 1000 for part in zip(*_floor(raw), strict=True))
        floor = read + name
        rows.append(
            {
                "cell": cell.name,
                "partitions": plan.group.P,
                "ms": round(cpu, 2),
                "goal": cell.goal_ms,
                "floor of reading": round(read, 2),
                "floor of naming": round(name, 2),
                "above the floor": round(cpu - floor, 2),
            }
        )
    return rows


def _floor(raw: Row) -> list[tuple[float, float]]:
    """Seconds to take in what is owned, and to make the answer's dicts, call by call."""
    _, shares = planned(copy.deepcopy(raw), find("cooperative-sticky"))
    index = {topic: t for t, topic in enumerate(raw["topics"])}
    spent = []
    for _ in range(CALLS // 4):
        fresh = copy.deepcopy(raw)
        owned = [member.get("owned", {}) for member in fresh["members"].values()]
        before = [fresh["members"][name].get("owned") for name in shares]
        changed = [share for share, old in zip(shares.values(), before, strict=True) if share != old]
        keys, ids = list(chain.from_iterable(changed)), [held for share in changed for held in share.values()]
        flat, ends = tuple(chain.from_iterable(ids)), [0, *accumulate(map(len, ids))]
        began = time.process_time()
        lists = list(chain.from_iterable([held.values() for held in owned]))
        alone = len(lists) == sum(map(len, lists))
        taken = [n for (n,) in lists] if alone else list(chain.from_iterable(lists))
        topics = list(map(index.__getitem__, chain.from_iterable(owned)))
        read = time.process_time()
        with collector_paused():
            new = ids if len(flat) == len(ids) else [flat[a:b] for a, b in pairwise(ends)]
            pairs = zip(keys, new, strict=True)
            answer = [
                dict(old) if share == old else dict(islice(pairs, len(share)))
                for share, old in zip(shares.values(), before, strict=True)
            ]
        spent.append((read - began, time.process_time() - read))
        del answer, taken, topics
    return spent
