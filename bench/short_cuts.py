"""What each short cut of the sticky solver saves, with and without it on the same groups: python -m bench.short_cuts

A short cut stays only while it saves half the time of planning, or while a cell of the matrix would be more than a
tenth slower without it. CPU time of planning alone, the least of many calls, so that other work on the machine hardly
counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from apportion.model.build import build
from apportion.model.group import Group
from apportion.solvers import lexicographic, solve
from apportion.solvers.assignment_network import AssignmentNetwork, complete_on_network, fixed_on_network
from apportion.solvers.partition_classes import problem_of, topics_apart
from apportion.solvers.solve import ALL_GOALS, GOALS, best
from bench.cells import Cell

SECONDS = 1.0
"""For each figure."""


def small(partitions: int, members: int, alike: bool) -> dict[str, Any]:
    """Two topics; the last member is new, and wants only one of them where not all are alike."""
    topics = {"a": partitions // 2, "b": partitions // 2}
    old = members - 1
    raw: dict[str, Any] = {"topics": topics, "members": {}}
    for m in range(old):
        owned = {t: [p for p in range(size) if p % old == m] for t, size in topics.items()}
        raw["members"][f"m{m}"] = {"topics": ["a", "b"], "owned": owned, "generation": 3}
    raw["members"][f"m{old}"] = {"topics": ["a", "b"] if alike else ["a"]}
    return raw


@contextmanager
def replaced(module: Any, name: str, value: object) -> Iterator[None]:
    """Something else in the place of a module's name, for a while."""
    kept = getattr(module, name)
    setattr(module, name, value)
    yield
    setattr(module, name, kept)


def by_network(group: Group, order: tuple[str, ...]) -> None:
    """The general way: every arc of topic and member."""
    classes = problem_of(group, order)
    by_topic = topics_apart(classes)
    fixed = fixed_on_network(by_topic, order, group.owner)
    complete_on_network(by_topic, order, fixed, partial(lexicographic.complete, classes))


def by_classes(group: Group) -> None:
    """Goal after goal on classes."""
    order = ("balance", "moves")
    lexicographic.solve(problem_of(group, order), order)


def proved_by_members(group: Group, order: tuple[str, ...], owner: Any) -> None:
    """The network of like partitions and single members, begun at a best plan (P,): the search only proves it."""
    problem = problem_of(group, order)
    AssignmentNetwork(problem, owner, spread=False, claim=problem.claim).optimize(order)


def least_ms(raw: dict[str, Any], planned: Callable[[Group], object]) -> float:
    """CPU milliseconds of one plan."""
    least, until = float("inf"), time.process_time() + SECONDS
    while time.process_time() < until:
        group = build(raw)
        begun = time.process_time()
        planned(group)
        least = min(least, time.process_time() - begun)
    return least * 1000


def rows() -> Iterator[tuple[str, str, float, float]]:
    """The short cut, the group, milliseconds with it, milliseconds without."""
    for name, raw in (("6 partitions, 3 members", small(6, 3, True)), ("64, 8", small(64, 8, True))):
        with_it = least_ms(raw, best)
        with replaced(solve, "LISTS_MAX_PARTITIONS", 0), replaced(solve, "LISTS_MAX_CELLS", 0):
            yield "small_groups, uniform", name, with_it, least_ms(raw, best)
    for name, raw in (("6 partitions, 3 members", small(6, 3, False)), ("12, 4", small(12, 4, False))):
        with_it = least_ms(raw, best)
        with replaced(solve, "LISTS_MAX_CELLS", 0):
            yield "small_groups, any", name, with_it, least_ms(raw, best)
    for cell in (Cell("hom", 1000, 10, 100, "JOIN_ONE"), Cell("nes", 1000, 10, 100, "JOIN_ONE")):
        raw = cell.group()
        yield (
            "lexicographic",
            cell.name,
            least_ms(raw, by_classes),
            least_ms(raw, lambda group: by_network(group, GOALS)),
        )
    for cell in (
        Cell("dis", 100, 50, 100, "JOIN_ONE"),
        Cell("hom", 1000, 10, 100, "JOIN_ONE"),
        Cell("hom", 1000, 10, 100, "JOIN_ONE", racks=True),
    ):
        raw, order = cell.group(), GOALS if cell.racks else ("balance", "moves")
        proved = partial(proved_by_members, order=order, owner=best(build(raw)).owner)
        yield "counting claims", cell.name, least_ms(raw, best), least_ms(raw, proved)
    cell = Cell("hom", 1000, 10, 100, "JOIN_ONE")
    raw = cell.group()
    with_it = least_ms(raw, lambda group: best(group, ALL_GOALS))
    with replaced(solve, "_is_best_spread", lambda *_: False):
        yield "quick spread", cell.name, with_it, least_ms(raw, lambda group: best(group, ALL_GOALS))
    for cell in (
        Cell("hom", 1000, 10, 100, "JOIN_ONE", racks=True),
        Cell("nes", 1000, 10, 100, "JOIN_ONE", racks=True),
    ):
        raw = cell.group()
        with_it = least_ms(raw, best)
        with replaced(lexicographic, "_keeps_most", lambda *_: False):
            yield "bound of kept claims", cell.name, with_it, least_ms(raw, best)


def main() -> None:
    """Print the table."""
    print("| short cut | group | ms with it | without |\n|---|---|---:|---:|")
    for short_cut, name, with_it, without in rows():
        print(f"| {short_cut} | {name} | {with_it:.3g} | {without:.3g} |", flush=True)


if __name__ == "__main__":
    main()
