"""The cells of Kafka's own benchmark matrix as groups in the form of group.json.

The matrix is that of ``ConsumerAssignorBenchmark`` (apache/kafka pull request 23491): members, partitions a member,
topics, subscriptions, sizes, racks, and what happened since the last rebalance. The past of a cell is the plan that
apportion itself gave before the event.

    python bench/cells.py [WORD ...]     times the cells whose names hold all words
"""

from __future__ import annotations

import copy
import gc
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from apportion.assignors import find
from apportion.model.build import build
from apportion.model.plan import Answer, Plan
from apportion.model.to_names import Assignment, owners_to_names

RACKS = ("rack0", "rack1", "rack2")
BUCKETS = 5
MANY = 10  # JOIN_MANY and LEAVE_MANY: one member in ten


@dataclass(frozen=True)
class Cell:
    """One input: ``wishes`` is hom, dis or nes; ``skewed`` puts half of the partitions into a tenth of the topics."""

    wishes: str
    members: int
    ratio: int
    topics: int
    event: str
    skewed: bool = False
    racks: bool = False
    goal_ms: float = 0

    @property
    def name(self) -> str:
        """As the tables call it: ``hom-sk-rack m1000x50 t100 LEAVE_MANY``."""
        kind = self.wishes + "-sk" * self.skewed + "-rack" * self.racks
        return f"{kind} m{self.members}x{self.ratio} t{self.topics} {self.event}"

    def group(self) -> dict[str, Any]:
        """The group to plan."""
        joining = {"JOIN_ONE": 1, "JOIN_MANY": self.members // MANY}.get(self.event, 0)
        leaving = {"LEAVE_ONE": 1, "LEAVE_MANY": self.members // MANY}.get(self.event, 0)
        sizes = self.sizes()
        before = [size * 9 // 10 for size in sizes] if self.event == "PARTITIONS_ADDED" else sizes
        group = self._make(before, range(self.members - joining))
        if self.event == "FULL":
            return group
        built = build(group)
        answer = find("sticky").assign(built)
        held = Plan(built, "sticky", {}, answer if isinstance(answer, Answer) else Answer(answer)).assignment
        after = self._make(sizes, range(leaving, self.members))
        for name, owned in held.items():
            if name in after["members"]:
                after["members"][name].update(owned=owned, generation=5)
        return after

    def sizes(self) -> list[int]:
        """Partitions of each topic."""
        total = self.members * self.ratio
        if not self.skewed:
            return [total // self.topics] * self.topics
        large = max(1, self.topics // 10)
        return [total // 2 // large] * large + [total // 2 // (self.topics - large)] * (self.topics - large)

    def _make(self, sizes: list[int], members: range) -> dict[str, Any]:
        names = [f"topic{i}" for i in range(self.topics)]
        described: dict[str, Any] = dict(zip(names, sizes, strict=True))
        if self.racks:
            places = [[RACKS[p % 3], RACKS[(p + 1) % 3]] for p in range(3)]
            rows = [{"partition": p, "racks": places[p % 3]} for p in range(max(sizes))]
            described = {name: rows[:size] for name, size in described.items()}
        wish = [self._wish(names, bucket) for bucket in range(BUCKETS)]
        group: dict[str, Any] = {"version": 1, "group": "bench", "topics": described, "members": {}}
        for i in members:
            member: dict[str, Any] = {"topics": wish[i % BUCKETS]}
            if self.racks:
                member["rack"] = RACKS[i % 3]
            group["members"][f"member{i}"] = member
        return group

    def _wish(self, names: list[str], bucket: int) -> list[str]:
        if self.wishes == "hom":
            return names
        if self.wishes == "dis":
            return names[bucket::BUCKETS]
        return names[: (bucket + 1) * len(names) // BUCKETS]


def _cell(text: str, goal_ms: float) -> Cell:
    kind, size, topics, event = text.split()
    words = kind.split("-")
    members, ratio = size[1:].split("x")
    return Cell(words[0], int(members), int(ratio), int(topics[1:]), event, "sk" in words, "rack" in words, goal_ms)


CELLS = [
    _cell("hom m100x50 t10 FULL", 1.0),
    _cell("hom m100x50 t100 JOIN_ONE", 2.3),
    _cell("hom m1000x10 t100 FULL", 1.7),
    _cell("hom m1000x10 t100 STABLE", 3.4),
    _cell("hom m1000x10 t100 JOIN_MANY", 4.2),
    _cell("hom m1000x50 t1000 FULL", 15),
    _cell("hom-sk m1000x50 t1000 PARTITIONS_ADDED", 28),
    _cell("hom-sk m1000x50 t100 LEAVE_MANY", 12),
    _cell("hom m10000x10 t100 FULL", 25),
    _cell("hom m10000x10 t1000 JOIN_ONE", 180),
    _cell("hom m10000x50 t100 FULL", 60),
    _cell("hom m10000x50 t100 LEAVE_ONE", 230),
    _cell("hom-rack m1000x10 t100 FULL", 6),
    _cell("hom-rack m1000x10 t100 JOIN_ONE", 10),
    _cell("hom-sk-rack m1000x50 t100 LEAVE_MANY", 35),
    _cell("dis m100x50 t100 JOIN_ONE", 2.3),
    _cell("dis m1000x10 t100 FULL", 3),
    _cell("dis m1000x10 t100 JOIN_ONE", 4),
    _cell("dis-sk m1000x50 t100 LEAVE_ONE", 25),
    _cell("dis-rack m1000x10 t100 JOIN_MANY", 12),
    _cell("nes m100x50 t100 JOIN_MANY", 4),
    _cell("nes m1000x10 t100 FULL", 10),
    _cell("nes m1000x10 t100 JOIN_ONE", 5),
    _cell("nes m1000x50 t100 STABLE", 18),
    _cell("nes-sk m1000x50 t1000 PARTITIONS_ADDED", 35),
    _cell("nes-sk m1000x50 t100 LEAVE_MANY", 18),
    _cell("nes-rack m100x50 t100 FULL", 8),
    _cell("nes-rack m1000x10 t100 JOIN_ONE", 12),
]


def run(raw: dict[str, Any]) -> tuple[Plan, Assignment, list[float]]:
    """The plan, what the members are told, and the CPU milliseconds of reading, planning and naming."""
    at = [time.process_time()]
    group = build(raw)
    at.append(time.process_time())
    answer = find("cooperative-sticky").assign(group)
    at.append(time.process_time())
    plan = Plan(group, "cooperative-sticky", {}, answer if isinstance(answer, Answer) else Answer(answer), True)
    told = owners_to_names(group, plan.owner_now)
    at.append(time.process_time())
    return plan, told, [(b - a) * 1000 for a, b in pairwise(at)]


def main(words: list[str]) -> None:
    """Time the cells whose names hold all words: the median of seven runs after one to warm up."""
    print(f"{'cell':45} {'read':>7} {'plan':>7} {'name':>7} {'total':>7} {'goal':>6}  quality")
    for cell in CELLS:
        if not all(word in cell.name.split() or word in cell.name.split()[0].split("-") for word in words):
            continue
        raw = cell.group()
        runs = []
        for _ in range(8):
            fresh = copy.deepcopy(raw)
            made = None  # taking the last one apart is not this one's time
            gc.collect()
            made = run(fresh)
            runs.append(made[2])
        assert made is not None  # noqa: S101 - there are eight turns
        plan = made[0]
        read, planned, named = (sorted(part)[3] for part in zip(*runs[1:], strict=True))
        total = sorted(map(sum, runs[1:]))[3]
        quality = f"{plan.measures['rack_misses']}/{plan.measures['moves']} {set(plan.proof.values())}"
        times_text = f"{read:7.2f} {planned:7.2f} {named:7.2f} {total:7.2f} {cell.goal_ms:6.1f}"
        flag = " " if total <= cell.goal_ms else "!" if total <= 1.5 * cell.goal_ms else "!!"
        print(f"{cell.name:45} {times_text} {flag:2} {quality}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
