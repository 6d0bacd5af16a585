"""Place each task on one process: balanced per thread, then per process, then cheapest; a min-cost flow on classes.

Balance is the least sum of squared loads, of threads first and of processes among those that are best for threads. Both
are convex costs of arcs one behind the other, so the flow stays one of whole numbers. Where each column is a process of
its own and all have as many threads, the least sum for processes is the least one for threads too: loads that make one
symmetric convex sum least in a network make every other least (Megiddo, "Optimal flows in networks with multiple
sources and sinks", 1974). Then one layer of arcs is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Floats, Ints, ints
from apportion.solvers.min_cost_flow import solve_flow, solver

LARGE: Final = 5000
"""From so many cells (tasks x processes) on a flow, and the import of its solver, take long enough to go round them.

A rolling restart of 60 members with 120 tasks and a standby each took 5.0 s by flows and takes 0.7 s by counting.
"""
HUB_ABOVE: Final = 3
"""So many places at a class's usual price have an arc each; more are one hub's."""

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose powers tell the columns of a table apart (2^64 over the golden ratio)."""


@dataclass(frozen=True, eq=False)
class Placing:
    """The tasks to be placed, and the places.

    eligible
        (N, Q) where a task may go; a task without any stays unplaced.
    cost
        (N, Q) not negative; the sum is made least among the most balanced placings.
    threads, load
        (Q,) threads, and tasks that a process already has.
    kind
        (N,) tasks of one kind are spread too, after the balance and before the cost; None: no matter.
    process_of
        (Q,) a number for each process of which the columns are parts; None: each is a process of its own.
    """

    eligible: Bools
    cost: Ints
    threads: Ints
    load: Ints
    kind: Ints | None = None
    process_of: Ints | None = None

    @property
    def parted(self) -> Ints | None:
        """(Q,) ``process_of``, if some process has two columns; else None."""
        of = self.process_of
        return None if of is None or len(np.unique(of)) == len(of) else of


def place(placing: Placing) -> tuple[Ints, bool]:
    """Return (N,) the process of each task, and whether it is proved best: the goals in order are these.

    Least sum of squared loads of threads, a process sharing its tasks evenly among its own; that of processes; spread
    of kinds; cost. Without OR-tools tasks are dealt greedily and improved by single moves; then nothing is proved.
    """
    chosen = np.full(len(placing.eligible), NOBODY, dtype=np.int64)
    choices = placing.eligible.sum(axis=1)
    movable = np.flatnonzero(choices)
    if not len(movable):
        return chosen, True
    if choices.max() == 1:
        chosen[movable] = placing.eligible.argmax(axis=1)[movable]  # nothing to choose
        return chosen, True
    parted, threads = placing.parted, placing.threads
    if parted is None and (threads == threads[0]).all():
        threads = np.ones_like(threads)  # the goal of processes is that of threads too
    kind = None if placing.kind is None else placing.kind[movable]
    rows = slice(None) if len(movable) == len(chosen) else movable
    part = Placing(placing.eligible[rows], placing.cost[rows], threads, placing.load, kind, parted)
    owner = _at_previous(part)
    if owner is None:
        owner = _most_stay(part)
    if owner is None:
        owner = _solve(part)
    chosen[movable] = _deal(part) if owner is None else owner
    return chosen, owner is not None


def even(load: Ints, threads: Ints, process_of: Ints) -> bool:
    """Whether no loads (Q,) of as many tasks are better, for threads and then processes, if all may go anywhere.

    threads, process_of
        (Q,) as in ``Placing``.
    """
    share = int(load.sum()) // int(threads.sum())
    low, high = share * threads, (share + 1) * threads
    if (load < low).any() or (load > high).any():
        return False
    # Threads are even. Processes are if no task that is one more on its thread has a better place.
    whole = np.bincount(process_of, load)[process_of]
    return bool(whole[load > low].max(initial=0) <= whole[load < high].min(initial=np.inf) + 1)


def _at_previous(placing: Placing) -> Ints | None:
    """``place_at_previous`` where it applies; else None. It takes a tenth of a small group's flow."""
    choices, roams = placing.eligible.sum(axis=1), placing.eligible.all(axis=1)
    price = placing.cost[roams]
    plain = placing.kind is None and placing.parted is None and placing.threads.max() == 1 and not placing.load.any()
    if not plain or not (roams | (choices == 1)).all() or (price != price[:1, :1]).any():
        return None
    return place_at_previous(np.where(roams, NOBODY, placing.eligible.argmax(axis=1)), len(placing.threads))


def _most_stay(placing: Placing) -> Ints | None:
    """The best placing if all processes are empty, a task may go anywhere, and all moves cost the same; else None.

    Processes have a thread each. Balance alone says how many tasks each gets: the whole share, and of what is left at
    most one more. So the cheapest placing is one in which most tasks stay at home, which takes no flow.
    """
    if placing.eligible.size < LARGE or placing.kind is not None or placing.load.any() or not placing.eligible.all():
        return None
    if placing.parted is not None or placing.threads.max() > 1:
        return None
    usual = placing.cost.max(axis=1)
    cheaper = placing.cost < usual[:, None]
    homes = cheaper.sum(axis=1)
    home = np.where(homes == 1, cheaper.argmax(axis=1), NOBODY)
    away = homes == 1
    gain = usual[away] - placing.cost[away, home[away]]
    if homes.max() > 1 or (gain != gain[:1]).any():
        return None
    return stay_most(home, len(placing.threads))


def stay_most(home: Ints, processes: int, base: Ints | int = 0) -> Ints:
    """(N,) the most even owners of tasks that may go anywhere, of which most stay at home (N,); -1 has none.

    base
        (Q,) tasks that the processes have beside these, none of them more than an even share.
    """
    away = home != NOBODY
    lived = np.bincount(home[away], minlength=processes)
    load = lived + base
    low, extras = divmod(len(home) + int(np.sum(base)), processes)
    extra = _up_to(extras, np.clip(load - low, 0, 1))
    extra += _up_to(extras - int(extra.sum()), 1 - extra)
    stay = np.minimum(lived, low + extra - base)
    gives = (lived > stay)[home] & away
    rest = np.flatnonzero(gives)
    order = rest[np.argsort(home[rest], kind="stable")]
    rank = np.arange(len(order)) - np.searchsorted(home[order], home[order])
    owner = np.where(gives, NOBODY, home)
    keeps = order[rank < stay[home[order]]]
    owner[keeps] = home[keeps]
    owner[owner == NOBODY] = deal_seats(np.arange(processes), low + extra - base - stay)
    return owner


def _up_to(total: int, room: Ints) -> Ints:
    """(Q,) the total, first come first served."""
    taken: Ints = np.clip(total - (np.cumsum(room) - room), 0, room)
    return taken


@dataclass
class _Network:
    """Arcs as they are added: from, to, capacity, cost; nodes are numbered by ``node``."""

    tail: list[Ints] = field(default_factory=list)
    head: list[Ints] = field(default_factory=list)
    room: list[Ints] = field(default_factory=list)
    cost: list[Ints] = field(default_factory=list)
    nodes: int = 0

    def node(self, count: int = 1) -> Ints:
        first = self.nodes
        self.nodes += count
        return np.arange(first, self.nodes)

    def arcs(self, tail: Ints, head: Ints, room: Ints | int, cost: Ints | int) -> None:
        # Added to zeros, since NumPy's own broadcasting of one array after the other takes several times as long.
        zero = np.zeros_like(tail) + np.zeros_like(head)
        for column, values in ((self.tail, tail), (self.head, head), (self.room, room), (self.cost, cost)):
            column.append((zero + values).ravel())


@dataclass(frozen=True, eq=False)
class _Classes:
    """Tasks that may go to the same places at the same prices, together.

    kinds
        (C,) of each class, in order of first appearance.
    costs
        (C, Q) -1 where a class may not go.
    class_of
        (N,) the class of each task.
    dearest
        The highest price of all, places where a task may not go included.
    """

    kinds: Ints
    costs: Ints
    class_of: Ints
    dearest: int


def place_at_previous(home: Ints, processes: int) -> Ints | None:
    """The result of ``place`` if each task (N,) may go home alone, or at one price anywhere if it has none (-1).

    Processes are empty and have a thread each. None where that is a choice among equals, as long as a flow is quick.
    """
    if processes == 1 or (home != NOBODY).all():
        return np.maximum(home, 0)
    roams, large = home == NOBODY, len(home) * processes >= LARGE
    if roams.all() and large:
        return np.arange(len(home)) % processes  # as ``_most_stay`` counts
    given, tied = _fill(np.bincount(home[~roams], minlength=processes), int(np.count_nonzero(roams)))
    if solver() is None or (tied and not large):
        return None
    owner = home.copy()
    owner[roams] = deal_seats(np.arange(processes), given)
    return owner


def _fill(load: Ints, rest: int) -> tuple[Ints, bool]:
    """(Q,) how many of ``rest`` each gets so that loads are most even; whether another way is as good."""
    line = np.sort(load)
    below = line.cumsum()
    count = int(np.searchsorted(line * np.arange(1, len(line) + 1) - below, rest, side="right"))
    level, over = divmod(rest + int(below[count - 1]), count)
    gets = np.maximum(level - load, 0)
    gets[np.flatnonzero(load <= level)[:over]] += 1
    return gets, over > 0


def _solve(placing: Placing) -> Ints | None:
    """The cheapest flow; None without OR-tools, or if costs pass its numbers."""
    if solver() is None:
        return None
    kind = np.zeros(len(placing.eligible), dtype=np.int64) if placing.kind is None else placing.kind
    rows, class_of = like_rows(np.column_stack([kind, np.where(placing.eligible, placing.cost, -1)]))
    classes = _Classes(rows[:, 0], rows[:, 1:], class_of, int(placing.cost.max()))
    return _cheapest(classes, placing)


def _cheapest(classes: _Classes, placing: Placing) -> Ints | None:
    """(N,) the process of each task in the cheapest flow of all tasks; None if costs pass the solver's numbers.

    The ceiling of loads is raised until the tasks fit under it. The first answer is exact: any place above the ceiling
    costs more than every place that is taken, and the number of places is fixed.
    """
    load, threads = int(placing.load.sum()), int(placing.threads.sum())
    ceiling = -(-(load + len(classes.class_of)) // threads) + 1
    while True:
        status, owner = _flow(classes, placing, ceiling)
        if status != "INFEASIBLE":
            return owner
        ceiling *= 2


def _flow(classes: _Classes, placing: Placing, ceiling: int) -> tuple[str, Ints | None]:
    """The solver's word on placing at most ``ceiling`` tasks a thread, and the cheapest owners if there are any."""
    kinds, costs, class_of = classes.kinds, classes.costs, classes.class_of
    kind, threads, load = placing.kind, placing.threads, placing.load
    tasks, processes = len(class_of), len(threads)
    supply = np.bincount(class_of)
    dear = classes.dearest * tasks + 1
    # Goals in order: a step of balance outweighs all spreading of kinds, and that outweighs all costs.
    levels = _levels(kind, processes)
    weight = dear * (tasks * (2 * levels + 1) + 1) if levels else dear
    process_of = np.arange(processes) if placing.process_of is None else placing.process_of
    of_process = np.bincount(process_of, threads).astype(np.int64)
    layers = bool((of_process > 1).any())
    highest = ceiling * int(of_process.max())
    thread_weight = weight * (tasks * (2 * highest + 1) + 1) if layers else weight
    if 2 * ceiling * thread_weight >= 2**62:
        return "BAD_COST_RANGE", None

    net = _Network()
    source = net.node(len(kinds))
    ends = net.node(processes)
    sink = net.node()
    if layers:
        whole = net.node(len(of_process))
        _convex(net, ends, whole[process_of], threads, load, ceiling, thread_weight)
        ones, held = np.ones_like(of_process), np.bincount(process_of, load).astype(np.int64)
        _convex(net, whole, np.broadcast_to(sink, whole.shape), ones, held, highest, weight)
    else:
        _convex(net, ends, np.broadcast_to(sink, ends.shape), threads, load, ceiling, weight)
    first_door = net.nodes
    doors = _doors(net, kind, kinds, ends, levels, dear)
    direct, hubs = _class_arcs(net, source, costs, kinds, doors, supply)

    arrays = [np.concatenate(column).astype(np.int64) for column in (net.tail, net.head, net.room, net.cost)]
    supplies = np.zeros(net.nodes, dtype=np.int64)
    supplies[source], supplies[sink] = supply, -tasks
    tail, head, room, cost = arrays
    status, flows = solve_flow(tail, head, room, cost, supplies)
    if status != "OPTIMAL":
        return status, None
    return "OPTIMAL", _unpack(class_of, ends, first_door, direct, hubs, arrays, flows)


def like_rows(table: Ints) -> tuple[Ints, Ints]:
    """The different rows in order of first appearance, and (N,) which of them each row is.

    Rows are told apart by a sum of their numbers, each times a number of its own, and then looked at: sums that are
    equal for different rows are not relied on.
    """
    rows = np.ascontiguousarray(table, dtype=np.int64)
    factors = np.multiply.accumulate(np.full(rows.shape[1], _FACTOR)).view(np.int64)
    sums = rows @ factors
    first, class_of = _first_seen(sums)
    if np.array_equal(rows[first[class_of]], rows):
        return rows[first], class_of
    seen: dict[bytes, int] = {}
    class_of = ints([seen.setdefault(row.tobytes(), len(seen)) for row in rows])
    first = np.full(len(seen), len(rows), dtype=np.int64)
    np.minimum.at(first, class_of, np.arange(len(rows)))
    return rows[first], class_of


def _first_seen(values: Ints) -> tuple[Ints, Ints]:
    """The first place of each different value, in the order of these places; (N,) which of them each value is."""
    first, which = np.unique(values, return_index=True, return_inverse=True)[1:]
    order = np.argsort(first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return first[order], rank[which]


def _convex(net: _Network, tails: Ints, heads: Ints, threads: Ints, load: Ints, ceiling: int, weight: int) -> None:
    """Tail to head (Q,): the k-th task of each thread costs 2k + 1, and those that are there already are paid."""
    levels = np.arange(ceiling, dtype=np.int64)
    below = levels[:, None] * threads
    room = np.minimum(below + threads - np.maximum(load, below), threads)
    level, q = np.nonzero(room > 0)
    net.arcs(tails[q], heads[q], room[level, q], (2 * levels[level] + 1) * weight)


def _levels(kind: Ints | None, processes: int) -> int:
    """Up to how many tasks of a kind on one process each further one costs more; beyond, the price stays."""
    if kind is None:
        return 0
    return 3 * -(-int(np.bincount(kind).max()) // processes) + 4


def _doors(net: _Network, kind_of: Ints | None, kinds: Ints, ends: Ints, levels: int, weight: int) -> dict[int, Ints]:
    """The entry of the tasks of a kind into each process: the process itself, or a door with convex costs."""
    distinct = sorted(set(kinds.tolist()))
    if kind_of is None:
        return dict.fromkeys(distinct, ends)
    doors = {kind: net.node(len(ends)) for kind in distinct}
    for kind in distinct:
        for level in range(levels):
            net.arcs(doors[kind], ends, 1, (2 * level + 1) * weight)
        net.arcs(doors[kind], ends, int((kind_of == kind).sum()), (2 * levels + 1) * weight)
    return doors


def _class_arcs(
    net: _Network, source: Ints, costs: Ints, kinds: Ints, doors: dict[int, Ints], supply: Ints
) -> tuple[tuple[Ints, Ints, int], dict[int, Ints]]:
    """Class to process if it is cheaper than usual; else through a hub that all with the same choice share.

    Returns the classes, processes and first arc of the direct ones, and each class's hub arc as (arc, hub node).
    """
    eligible = costs >= 0
    usual = costs.max(axis=1)
    many = (eligible & (costs == usual[:, None])).sum(axis=1) > HUB_ABOVE
    cheap = eligible & ~(many[:, None] & (costs == usual[:, None]))
    c, q = np.nonzero(cheap)
    first = sum(map(len, net.tail))
    heads = np.array([doors[k] for k in kinds.tolist()])[c, q] if len(c) else ints([])
    net.arcs(source[c], heads, supply[c], costs[c, q])
    hub_of: dict[int, Ints] = {}
    by_choice: dict[tuple[int, bytes], int] = {}
    for k in np.flatnonzero(many).tolist():
        choice = (int(kinds[k]), eligible[k].tobytes())
        if choice not in by_choice:
            by_choice[choice] = int(net.node()[0])
            net.arcs(ints(by_choice[choice]), doors[choice[0]][eligible[k]], int(supply.sum()), 0)
        hub_of[k] = ints([sum(map(len, net.tail)), by_choice[choice]])
        net.arcs(source[k : k + 1], ints([by_choice[choice]]), int(supply[k]), int(usual[k]))
    return (c, q, first), hub_of


def _unpack(
    class_of: Ints,
    ends: Ints,
    first_door: int,
    direct: tuple[Ints, Ints, int],
    hubs: dict[int, Ints],
    arrays: list[Ints],
    flows: Ints,
) -> Ints:
    """Flows on classes to tasks: each class and each hub deals round the processes of one price, the cheapest first.

    So tasks of one sub-topology, which come one after the other, are spread too where nothing else counts.
    """
    owner = np.full(len(class_of), NOBODY, dtype=np.int64)
    members = np.argsort(class_of, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(class_of))])
    taken = start[:-1].copy()
    c, q, first = direct
    prices, level = np.unique(arrays[3][first : first + len(c)], return_inverse=True)
    seats = deal_seats(q, flows[first : first + len(c)], c * len(prices) + level)
    by_class = np.repeat(c, flows[first : first + len(c)])  # as the seats come: class by class
    rank = np.arange(len(by_class)) - np.searchsorted(by_class, by_class)
    owner[members[start[by_class] + rank]] = seats
    taken += np.bincount(by_class, minlength=len(taken))
    waiting: dict[int, list[int]] = {}
    for k, (_, hub) in hubs.items():
        waiting.setdefault(int(hub), []).extend(members[taken[k] : start[k + 1]].tolist())
    for hub, tasks in waiting.items():
        out = np.flatnonzero(arrays[0] == hub)
        seats = deal_seats(arrays[1][out], flows[out])
        owner[sorted(tasks)] = _column_of(seats, ends, first_door)
    return owner


def deal_seats(heads: Ints, counts: Ints, lines: Ints | None = None) -> Ints:
    """The heads, each as often as its count, dealt in rounds so that neighbours go to different ones.

    lines
        A number for each head: each line is dealt by itself, one after the other; None: all are one.
    """
    seat = np.repeat(heads, counts)
    turn = np.arange(len(seat)) - np.repeat(np.cumsum(counts) - counts, counts)
    line = np.zeros(len(seat), dtype=np.int64) if lines is None else np.repeat(lines, counts)
    return seat[np.lexsort((seat, turn, line))]


def _column_of(nodes: Ints, ends: Ints, first_door: int) -> Ints:
    """The column whose node it is, or whose door: doors are in rows of one a column."""
    return np.where(nodes < first_door, nodes - ends[0], (nodes - first_door) % len(ends))


def _deal(placing: Placing) -> Ints:
    """Without a solver: the cheapest of the least loaded, then single moves while they even out the loads."""
    load = placing.load.astype(np.float64)
    owner = np.full(len(placing.eligible), NOBODY, dtype=np.int64)
    choices = placing.eligible.sum(axis=1)
    for n in np.lexsort((np.arange(len(choices)), choices)).tolist():
        q = _lightest(placing, load, n)
        owner[n] = q
        load[q] += 1
    moved = True
    while moved:
        moved = False
        for n in range(len(owner)):
            q = _lightest(placing, load, n)
            if (load[q] + 1) / placing.threads[q] < load[owner[n]] / placing.threads[owner[n]]:
                load[owner[n]] -= 1
                load[q] += 1
                owner[n] = q
                moved = True
    return owner


def _lightest(placing: Placing, load: Floats, n: int) -> int:
    full = np.floor(load / placing.threads)
    full[~placing.eligible[n]] = np.inf
    return int(np.lexsort((load / placing.threads, placing.cost[n], full))[0])
