"""One cell through everybody: what each needed, and what its answer is worth."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import apportion
from apportion.arrays import NOBODY
from apportion.assignors import Assignor, find
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.model.plan import Answer, Plan
from apportion.model.to_names import Assignment, owners_to_names
from bench import peers
from bench.cells import CELLS, Cell
from bench.leader import CLIENTS, leader_ms

EVENTS = ("FULL", "STABLE", "JOIN_ONE", "JOIN_MANY", "LEAVE_ONE", "LEAVE_MANY", "PARTITIONS_ADDED")


@dataclass
class Row:
    """A cell, apportion's figures (milliseconds), the peers', and the quality of each answer."""

    cell: Cell
    partitions: int
    cpu: float
    wall: float
    parts: tuple[float, float, float]
    proof: set[str]
    told: dict[str, peers.Told]
    quality: dict[str, tuple[int, int, int]]
    leader: dict[str, tuple[float, float]]
    """Client to the leader's call from bytes to bytes: the first in a fresh process, and the median of the others."""
    public: float
    """``apportion.plan`` of a dict, and ``to_dict`` of the plan."""


def every_cell() -> Iterator[Cell]:
    """The whole matrix: 100 and 1,000 members, 10 and 50 partitions a member, every event."""
    for wishes in ("hom", "dis", "nes"):
        for skewed in (False, True):
            for racks in (False, True):
                for members, ratio, topics in ((100, 50, 100), (1000, 10, 100), (1000, 50, 100), (1000, 50, 1000)):
                    for event in EVENTS:
                        yield Cell(wishes, members, ratio, topics, event, skewed, racks)


def quick_cells() -> list[Cell]:
    """The cells of 5,000 partitions."""
    return [cell for cell in CELLS if cell.members == 100]


def planned(raw: dict[str, Any], strategy: Assignor) -> tuple[Plan, Assignment]:
    """Names to names, as the consumers' adapters do it; with the plan that was made on the way."""
    group = build(raw)
    answer = strategy.assign(group)
    answer = answer if isinstance(answer, Answer) else Answer(answer)
    plan = Plan(group, strategy.name, {}, answer, bool(getattr(strategy, "cooperative", False)))
    return plan, owners_to_names(group, plan.owner_now)


def timed(raw: dict[str, Any], calls: int, name: str = "cooperative-sticky") -> tuple[Plan, float, float]:
    """The plan, and the medians of CPU and wall milliseconds; a fresh input for each call, one call to warm up."""
    spent, strategy = [], find(name)
    made: tuple[Plan, Assignment] | None = None
    for _ in range(calls + 1):
        made = None  # taking the last one apart is not this one's time
        fresh = copy.deepcopy(raw)
        wall, cpu = time.perf_counter(), time.process_time()
        made = planned(fresh, strategy)
        spent.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpus, walls = zip(*spent[1:], strict=True)
    if made is None:
        raise ValueError("no calls")
    return made[0], median(cpus) * 1000, median(walls) * 1000


def parts(raw: dict[str, Any], calls: int) -> tuple[float, float, float]:
    """Medians of CPU milliseconds for reading, planning and naming."""
    spent, strategy = [], find("cooperative-sticky")
    made: list[Any] = []
    group = answer = plan = None
    for _ in range(calls):
        made.clear()
        group = answer = plan = None  # taking the last one apart is not this one's time
        fresh = copy.deepcopy(raw)
        at = [time.process_time()]
        group = build(fresh)
        at.append(time.process_time())
        answer = strategy.assign(group)
        at.append(time.process_time())
        plan = Plan(group, "", {}, answer if isinstance(answer, Answer) else Answer(answer), True)
        made.append(owners_to_names(group, plan.owner_now))
        at.append(time.process_time())
        spent.append([(b - a) * 1000 for a, b in pairwise(at)])
    read, solve, name = (median(part) for part in zip(*spent, strict=True))
    return read, solve, name


def run(cell: Cell, folder: Path, calls: int, java_s: float, python_s: int) -> Row:
    """Time everybody on the cell, each in a process of its own: what other cells left in the memory costs nobody."""
    raw = cell.group()
    group = build(raw)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        (cpu, wall), ours, proof, quality = fresh.submit(_ours, raw, calls).result()
    leader_calls = {client: alone(leader_ms, client, raw, calls) for client in CLIENTS}
    public = alone(public_ms, raw, calls)
    path = folder / "group.json"
    path.write_text(json.dumps(raw))
    told = {
        "Java": peers.java(path, 40, java_s),
        "Java with bytes": peers.java(path, 40, java_s, from_bytes=True),
        "franz-go": peers.franz_go(path, calls),
        "kafka-python": peers.kafka_python(path, group.P, python_s),
    }
    worths = {
        name: worth(group, one.assignment) for name, one in told.items() if one.assignment and "bytes" not in name
    }
    return Row(cell, group.P, cpu, wall, ours, proof, told, {**worths, "apportion": quality}, leader_calls, public)


def alone(measure: Callable[..., Any], *arguments: Any) -> Any:
    """What it measures in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(measure, *arguments).result()


def public_ms(raw: dict[str, Any], calls: int) -> float:
    """Median of CPU milliseconds of ``apportion.plan(dict)`` with ``to_dict()``, one call to warm up."""
    spent = []
    for _ in range(calls + 1):
        fresh = copy.deepcopy(raw)
        at = time.process_time()
        answer = apportion.plan(fresh).to_dict()
        spent.append((time.process_time() - at) * 1000)
        del answer
    return median(spent[1:])


def _ours(
    raw: dict[str, Any], calls: int
) -> tuple[tuple[float, float], tuple[float, float, float], set[str], tuple[int, int, int]]:
    """CPU and wall, the parts, the kinds of proof, and what the plan is worth."""
    plan, cpu, wall = timed(raw, calls)
    return (cpu, wall), parts(raw, calls), set(plan.proof.values()), worth(plan.group, plan.target)


def worth(group: Group, assignment: peers.Assignment) -> tuple[int, int, int]:
    """Sum of squared loads, rack misses, moves."""
    owner = np.full(group.P, NOBODY, dtype=np.int64)
    topics = {topic: t for t, topic in enumerate(group.topics)}
    members = {member: m for m, member in enumerate(group.members)}
    for name, held in assignment.items():
        for topic, ids in held.items():
            first = int(group.start[topics[topic]])  # the cells' ids have no gaps
            owner[first + np.array(ids, dtype=np.int64)] = members[name]
    said = measure(group, owner)
    return said["load_squares"], said["rack_misses"], said["moves"]
