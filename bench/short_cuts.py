"""What each short cut saves, with and without it on the same groups: python -m bench.short_cuts

A short cut stays while without it a call that somebody waits for takes 10 ms longer with 1,000 members, or a full build
of the pipeline a tenth longer with 20,000 groups. CPU time, the least of many calls, so that other work on the machine
hardly counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from apportion import whatif
from apportion.clients.group import joined_group
from apportion.model import edits
from apportion.model.build import build
from apportion.model.group import Group
from apportion.solvers import lexicographic, solve
from apportion.solvers.assignment_network import complete_on_network, fixed_on_network
from apportion.solvers.goals import ALL, BALANCE, MOVES, RACKS, Order
from apportion.solvers.partition_classes import problem_of, topics_apart
from apportion.solvers.solve import best
from bench.cells import Cell
from bench.leader import leader_ms

SECONDS = 1.0
"""For each figure."""
CALLS = 20
"""Of a leader."""


def small(partitions: int, members: int, one_subscription: bool) -> dict[str, Any]:
    """Two topics; the last member is new, and wants only one of them where not all are alike."""
    topics = {"a": partitions // 2, "b": partitions // 2}
    old = members - 1
    raw: dict[str, Any] = {"topics": topics, "members": {}}
    for m in range(old):
        owned = {t: [p for p in range(size) if p % old == m] for t, size in topics.items()}
        raw["members"][f"m{m}"] = {"topics": ["a", "b"], "owned": owned, "generation": 3}
    raw["members"][f"m{old}"] = {"topics": ["a", "b"] if one_subscription else ["a"]}
    return raw


@contextmanager
def replaced(module: Any, name: str, value: object) -> Iterator[None]:
    """Something else in the place of a module's name, for a while."""
    kept = getattr(module, name)
    setattr(module, name, value)
    yield
    setattr(module, name, kept)


def by_network(group: Group, order: Order) -> None:
    """The general way: every arc of topic and member."""
    classes = problem_of(group, order)
    by_topic = topics_apart(classes)
    fixed = fixed_on_network(by_topic, order, group.owner)
    complete_on_network(by_topic, order, fixed, partial(lexicographic.complete, classes))


def by_classes(group: Group) -> None:
    """Goal after goal on classes."""
    order = (BALANCE, MOVES)
    lexicographic.solve(problem_of(group, order), order)


def least_ms(raw: dict[str, Any], planned: Callable[[Group], object]) -> float:
    """CPU milliseconds of one plan of a fresh group."""
    return least_of(planned, partial(build, raw))


def least_of(work: Callable[..., object], prepare: Callable[[], Any] | None = None) -> float:
    """CPU milliseconds of the quickest of many calls; what ``prepare`` makes for each is not timed."""
    least, until = float("inf"), time.process_time() + SECONDS
    while time.process_time() < until:
        given = () if prepare is None else (prepare(),)
        begun = time.process_time()
        work(*given)
        least = min(least, time.process_time() - begun)
    return least * 1000


def rows() -> Iterator[tuple[str, str, float, float]]:
    """The short cut, the group, milliseconds with it, milliseconds without."""
    for cell in (Cell("hom", 1000, 10, 100, "JOIN_ONE"), Cell("nes", 1000, 10, 100, "JOIN_ONE")):
        raw = cell.group()
        yield (
            "lexicographic",
            cell.name,
            least_ms(raw, by_classes),
            least_ms(raw, lambda group: by_network(group, (BALANCE, RACKS, MOVES))),
        )
    thousand = Cell("hom", 1000, 10, 100, "JOIN_ONE")
    raw = thousand.group()
    with_it = least_ms(raw, lambda group: best(group, tuple(ALL)))
    with replaced(solve, "_is_best_spread", lambda *_: False):
        yield "quick spread", thousand.name, with_it, least_ms(raw, lambda group: best(group, tuple(ALL)))
    for cell in (thousand, Cell("hom", 1000, 50, 1000, "PARTITIONS_ADDED", skewed=True)):
        raw = cell.group()
        with_it = leader_ms("kafka-python", raw, CALLS)[1]
        with replaced(joined_group, "READERS", {}):
            yield "members' bytes in columns", cell.name, with_it, leader_ms("kafka-python", raw, CALLS)[1]
    for name, raw in (("64, 8", small(64, 8, True)), (thousand.name, thousand.group())):
        group = build(raw)
        with_it = least_of(partial(whatif.join, group))
        with replaced(edits, "with_changed_members", lambda *_: None):
            yield "edits", name, with_it, least_of(partial(whatif.join, group))


def main() -> None:
    """Print the table."""
    print("| short cut | group | ms with it | without |\n|---|---|---:|---:|")
    for short_cut, name, with_it, without in rows():
        print(f"| {short_cut} | {name} | {with_it:.3g} | {without:.3g} |", flush=True)


if __name__ == "__main__":
    main()
