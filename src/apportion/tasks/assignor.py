"""Who runs, keeps warm and warms up which task, by goals in a stated order.

Goals: every task active once > on a caught-up process > balanced per thread (the tasks with state, then all) > balanced
per process > fewest moved tasks > standbys never beside their active, on other tags, caught up, balanced, near state.
Among equals fewest tasks with state move, and those are spread over processes. The price is time: a plan is three or
four flows, not a single deal; tasks with and without state together take a flow for each goal.
Source: Kafka Streams' HighAvailabilityTaskAssignor (KIP-441), KIP-708 (tags), KIP-925 (racks).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, Longs
from apportion.tasks.application_state import ApplicationState
from apportion.tasks.place import Placing, even, place
from apportion.tasks.place_jointly import place_jointly
from apportion.tasks.settings import TaskSettings

LOOKS_AHEAD: Final = 12
"""Rounds in which standbys that are waited for must come nearer, in one of them at least."""
_FAR: Final = np.iinfo(np.int64).max
GOALS: Final = ("active", "caught-up", "balance", "processes", "moves", "standbys")


@dataclass(frozen=True, eq=False)
class TaskAnswer:
    """Owners of tasks.

    active
        (N,) the process that runs each task.
    target
        (N,) the process that should run it once its state is warm there; the same as ``active`` when all is well.
    standby
        (N, Q) which processes keep a copy; never the active one.
    warmup
        (N, Q) which processes restore a copy beyond the standbys, to run the task or to keep its standby later.
    proof
        Goal to ``optimal`` or ``heuristic``.
    even
        Whether no standby should move once its state is warm elsewhere.
    """

    active: Ints
    target: Ints
    standby: Bools
    warmup: Bools
    proof: dict[str, str]
    even: bool = True

    @property
    def settled(self) -> bool:
        """Whether all tasks and standbys are where they should be, so that no probing rebalance is needed."""
        return self.even and bool((self.active == self.target).all())


def assign_tasks(
    state: ApplicationState, settings: TaskSettings, placed: tuple[Ints, dict[str, str]] | None = None
) -> TaskAnswer:
    """Place active tasks, standbys and warm-ups, in this order.

    placed
        What ``place_active`` gives, or a placing as good as that with the same proof; None: that is asked.
    """
    active, proof = placed or place_active(state, settings)
    target = _place_target(state, active, settings)
    copies = _place_copies(state, active, target, settings)
    waits = copies.coming is not None and (active == target).all()
    if waits and not all(_comes_nearer(state, active, copies, settings, slow=slow) for slow in (False, True)):
        copies = replace(copies, coming=None, warmup=np.zeros_like(copies.warmup))
    if settings.num_standby_replicas:
        single = settings.num_standby_replicas == 1
        proof["standbys"] = "optimal" if copies.exact and single else "heuristic"
    return TaskAnswer(active, target, copies.standby, copies.warmup, proof, copies.coming is None)


@dataclass(frozen=True, eq=False)
class _Copies:
    """(N, Q) standbys, those that should come in their place (None: no others), and warm-ups; whether proved."""

    standby: Bools
    coming: Bools | None
    warmup: Bools
    exact: bool

    def waits(self, state: ApplicationState, active: Ints, settings: TaskSettings) -> tuple[tuple[int, int], int]:
        """How uneven the standbys are, and how many copies are to be restored before they can be more even."""
        cold = 0 if self.coming is None else int(_restoring(state.lag[self.coming], settings).sum())
        return _unevenness(state, active, self.standby), cold


def _place_copies(state: ApplicationState, active: Ints, target: Ints, settings: TaskSettings) -> _Copies:
    standby, exact, bound = _place_standbys(state, active, _standby_cost(state, active, target), settings)
    coming = _coming_standbys(state, target, standby, settings) if bound else None
    if coming is not None and not _restoring(state.lag[coming], settings).any() and (active == target).all():
        standby, coming = coming, None  # of several copies those one after the other may miss it
    warmup = _choose_warmups(state, active, target, standby, settings)
    if coming is not None:
        _warm_standbys(state, active, standby, coming, warmup, settings)
    return _Copies(standby, coming, warmup, exact)


def _comes_nearer(
    state: ApplicationState, active: Ints, copies: _Copies, settings: TaskSettings, *, slow: bool
) -> bool:
    """Whether the rounds to come end, or lead to more even standbys, or to as even ones with less to restore.

    Several standbys of a task are placed one after the other: where only some of the coming ones fit among the
    warm-ups, the round after may want others, and then the first ones again. What is waited for has to come nearer
    again and again, and so the rounds end.

    slow
        Whether restoring takes many rounds. Then which copies are begun decides and not how far they are: the same must
        be wanted round after round until they are restored, or else all that was read of them would be for nothing.
    """
    now = copies.waits(state, active, settings)
    for _ in range(LOOKS_AHEAD):
        for _ in range(LOOKS_AHEAD if slow else 0):
            begun = _restored(state, active, copies, min(settings.acceptable_recovery_lag, _FAR - 1) + 1)
            later = _place_copies(begun, active, active, settings)
            stays = later.coming is not None and bool((later.warmup == copies.warmup).all())
            state, copies = begun, later
            if stays or later.coming is None:
                break
        else:
            if slow:
                return False
        state = _restored(state, active, copies, 0)
        copies = _place_copies(state, active, active, settings)
        if copies.coming is None or copies.waits(state, active, settings) < now:
            return True
    return False


def _restored(state: ApplicationState, active: Ints, copies: _Copies, missing: int) -> ApplicationState:
    """The state once copies that had nothing, or were being restored, lack so many messages; others are gone."""
    copied = copies.standby | copies.warmup
    lag = np.where(copied, np.minimum(np.where(state.lag == UNKNOWN, missing, state.lag), missing), UNKNOWN)
    runs = np.flatnonzero(active != NOBODY)
    lag[runs, active[runs]] = 0
    return replace(state, lag=lag)


def place_active(state: ApplicationState, settings: TaskSettings) -> tuple[Ints, dict[str, str]]:
    """(N,) the process that runs each task, which depends on no copy; and goal to ``optimal`` or ``heuristic``."""
    active, exact = _place_active(state, caught_up(state, settings.acceptable_recovery_lag), settings)
    how = "optimal" if exact else "heuristic"
    proof = {"active": "optimal", "caught-up": "optimal", "balance": how, "processes": how, "moves": how}
    if settings.rack_aware_assignment_strategy != "none":
        # Here moves are one price among others, and a spread of sub-topologies may come before them.
        proof["moves"] = "heuristic"
    return active, proof


def caught_up(state: ApplicationState, acceptable_lag: int) -> Bools:
    """(N, Q) where a task may run at once: within the lag, else with the least missing; stateless ones anywhere.

    All of it among those that want the task's topics; a task that nobody wants may run nowhere.
    """
    anywhere = np.ones(state.lag.shape, dtype=np.bool_) if state.wants is None else state.wants
    may = anywhere.copy()
    may[state.stateful] = _warmest(state.lag[state.stateful], anywhere[state.stateful], acceptable_lag)
    return may


def _warmest(lag: Longs, open_to: Bools, acceptable_lag: int) -> Bools:
    """(N, Q) of the open places those within the lag, else those with the least missing."""
    may: Bools = (lag <= acceptable_lag) & (lag != UNKNOWN) & open_to
    far = np.flatnonzero(~may.any(axis=1))
    missing = np.where(open_to[far] & (lag[far] != UNKNOWN), lag[far], _FAR)
    may[far] = (missing == missing.min(axis=1, keepdims=True)) & open_to[far]
    return may


def _place_active(state: ApplicationState, may_run: Bools, settings: TaskSettings) -> tuple[Ints, bool]:
    """Balanced over the places where each task may run, with fewest moves."""
    return _place(state, may_run, _active_cost(state, settings), settings)


def _place(state: ApplicationState, may_run: Bools, cost: Ints, settings: TaskSettings) -> tuple[Ints, bool]:
    """(N,) places for tasks with and without state, and whether they are proved to be best for all goals in order."""
    kind = state.subtopology_of if settings.rack_aware_assignment_strategy == "balance_subtopology" else None
    owner = np.full(len(state.stateful), NOBODY, dtype=np.int64)
    load = np.zeros(len(state.threads), dtype=np.int64)
    exact = True
    for chosen in (_rows(state.stateful), _rows(~state.stateful)):
        of_kind = None if kind is None else kind[chosen]
        placing = Placing(may_run[chosen], cost[chosen], state.threads, load, of_kind, state.process_of)
        owner[chosen], proved = place(placing)
        load = np.bincount(owner[owner != NOBODY], minlength=len(state.threads))
        exact &= proved
    runs = np.flatnonzero(owner != NOBODY)
    if state.stateful.all() or not state.stateful.any() or not len(runs):
        return owner, exact
    if kind is None and even(load, state.threads, state.process_of):
        cheapest = np.where(may_run, cost, np.iinfo(cost.dtype).max)[runs].min(axis=1)
        if (cost[runs, owner[runs]] == cheapest).all():
            return owner, exact  # no task has a cheaper place, and nothing can be more even
    whole = Placing(
        may_run[runs], cost[runs], state.threads, np.zeros_like(load), None if kind is None else kind[runs],
        state.process_of,
    )  # fmt: skip
    jointly = place_jointly(whole, state.stateful[runs], owner[runs])
    if jointly is None:
        return owner, False
    owner[runs] = jointly
    return owner, True


def _rows(chosen: Bools) -> Bools | slice:
    """The chosen rows of a table; all of them without a copy, which for many tasks and processes would be large."""
    return slice(None) if chosen.all() else chosen


def _active_cost(state: ApplicationState, settings: TaskSettings) -> Ints:
    """(N, Q) 1 for a move; or with a rack-aware strategy the prices of moves and of traffic.

    Where consumers of a process differ in what they want, all that weighs so much that of two ways as good a task stays
    with its consumer: each change costs a cooperative group one more round.
    """
    plain = settings.rack_aware_assignment_strategy == "none"
    # A million numbers of 0 and 1 need not be wide, where nothing is added to them.
    away = np.ones(state.lag.shape, dtype=np.int8 if plain else np.int64)
    if state.wants is None:
        stayed = np.flatnonzero(state.ran != NOBODY)
        away[stayed, state.ran[stayed]] = 0
    else:
        away[state.ran[:, None] == state.process_of] = 0
    cost = away
    if not plain:
        traffic = state.misses * settings.rack_aware_assignment_traffic_cost
        cost = away * settings.rack_aware_assignment_non_overlap_cost + traffic
    if state.ran_at is None:
        return cost
    dear: Ints = cost.astype(np.int64) * (len(cost) + 1) + 1
    known = np.flatnonzero(state.ran_at != NOBODY)
    dear[known, state.ran_at[known]] -= 1
    return dear


def _place_target(state: ApplicationState, active: Ints, settings: TaskSettings) -> Ints:
    """Where tasks with state should run if all state were warm everywhere; fewest moves, then to places that have some.

    Tasks without state may move at any rebalance: they are placed around, and stay where they are in the target.
    """
    plain, stateful = settings.rack_aware_assignment_strategy == "none", state.stateful
    if not stateful.any() or (plain and _cannot_be_more_even(state, active)):
        return active.copy()  # to stay costs nothing: no other place is as cheap
    active_tasks = np.flatnonzero(active != NOBODY)
    dear = np.int64(len(stateful) + 1)
    # A move with state outweighs all places without any, and those all moves of tasks without state.
    least = dear if plain and not stateful.all() else np.int64(1)
    cost = np.where(stateful[:, None], (dear + (state.lag == UNKNOWN)) * least, 1)
    cost[active_tasks, active[active_tasks]] = 0
    if not plain:
        cost = cost * settings.rack_aware_assignment_non_overlap_cost
        cost += state.misses * settings.rack_aware_assignment_traffic_cost * dear
    everywhere = np.ones(cost.shape, dtype=np.bool_) if state.wants is None else state.wants
    target = np.where(stateful, _place(state, everywhere, cost, settings)[0], active)
    # Consumers of one process share its state: between them nothing waits for a copy.
    near = state.process_of[target] == state.process_of[active]
    target[near] = active[near]
    return target


def _cannot_be_more_even(state: ApplicationState, active: Ints) -> bool:
    """Whether no other places (N,) are better for threads or processes, wherever tasks may go."""
    held, load = (
        np.bincount(of[of != NOBODY], minlength=len(state.threads)) for of in (active[state.stateful], active)
    )
    if not even(load, state.threads, state.process_of):
        return False
    return bool(state.stateful.all() or ((held - 1) // state.threads).max() <= (held // state.threads).min())


def _place_standbys(
    state: ApplicationState, active: Ints, cost: Ints, settings: TaskSettings, *, warm: bool = True
) -> tuple[Bools, bool, bool]:
    """One copy a round: never next to another, where fewest tags are shared, caught up, balanced, then cheapest.

    cost
        (N, Q) of a copy.
    warm
        Whether a copy that is caught up goes before balance.

    Returns the copies (N, Q), whether they are proved best, and whether to be caught up bound any.
    """
    tasks, processes = state.lag.shape
    copies = np.zeros((tasks, processes), dtype=np.bool_)
    copies[np.flatnonzero(active != NOBODY), active[active != NOBODY]] = True
    standby = np.zeros_like(copies)
    wanted = state.stateful[:, None] & (active != NOBODY)[:, None]
    wanted = wanted if state.wants is None else wanted & state.wants
    load = np.bincount(active[active != NOBODY], minlength=processes)
    exact, bound = True, False
    for _ in range(settings.num_standby_replicas):
        open_to = wanted & ~_beside(state, copies)
        shared = np.where(open_to, _shared_tags(state, copies), _FAR)
        eligible = open_to & (shared == shared.min(axis=1, keepdims=True))
        if warm:
            caught = _warmest(state.lag, eligible, settings.acceptable_recovery_lag)
            bound |= bool((caught != eligible).any())
            eligible = caught
        chosen, proved = place(Placing(eligible, cost, state.threads, load, process_of=state.process_of))
        exact &= proved
        placed = np.flatnonzero(chosen != NOBODY)
        if not len(placed):
            break  # no round after this one finds a place either
        standby[placed, chosen[placed]] = copies[placed, chosen[placed]] = True
        load = load + np.bincount(chosen[placed], minlength=processes)
    return standby, exact, bound


def _coming_standbys(state: ApplicationState, target: Ints, standby: Bools, settings: TaskSettings) -> Bools | None:
    """(N, Q) where copies should be if all state were warm everywhere; None if ``standby`` is as good."""
    cost = np.where(standby, 0, np.where(state.lag != UNKNOWN, 1, 2))
    coming, _, _ = _place_standbys(state, target, cost, settings, warm=False)
    before, after = (_unevenness(state, target, copies) for copies in (standby, coming))
    return coming if after < before else None


def _unevenness(state: ApplicationState, active: Ints, standby: Bools) -> tuple[int, int]:
    """Sums of squared loads of threads and of processes, tasks and their copies together; less is better."""
    load = np.bincount(active[active != NOBODY], minlength=len(state.threads)) + standby.sum(axis=0)
    low, odd = np.divmod(load, state.threads)
    threads = (odd * (low + 1) ** 2 + (state.threads - odd) * low**2).sum()
    return int(threads), int((np.bincount(state.process_of, load) ** 2).sum())


def _warm_standbys(
    state: ApplicationState, active: Ints, standby: Bools, coming: Bools, warmup: Bools, settings: TaskSettings
) -> None:
    """Add warm-ups of coming standbys: caught-up ones stay, others as there is room, nearest to done first."""
    copies = standby | warmup
    runs = np.flatnonzero(active != NOBODY)
    copies[runs, active[runs]] = True
    task, process = np.nonzero(coming & ~_beside(state, copies))
    lag = state.lag[task, process]
    missing = np.where(lag == UNKNOWN, _FAR, lag)
    # A copy that waits for another one to be restored takes no place from that one: else both would wait for ever.
    restored = int((~_restoring(lag, settings)).sum())
    first = np.lexsort((task, missing))[: restored + max(0, settings.max_warmup_replicas - int(warmup.sum()))]
    warmup[task[first], process[first]] = True


def _restoring(lag: Longs, settings: TaskSettings) -> Bools:
    """Whether a copy has more to restore than is acceptable, or everything."""
    restoring: Bools = (lag == UNKNOWN) | (lag > settings.acceptable_recovery_lag)
    return restoring


def _beside(state: ApplicationState, copies: Bools) -> Bools:
    """(N, Q) whether the process has a copy already, in this part of it or in another."""
    if state.wants is None:
        return copies
    whole = np.zeros((len(copies), int(state.process_of.max()) + 1), dtype=np.bool_)
    for q, process in enumerate(state.process_of.tolist()):
        whole[:, process] |= copies[:, q]
    return whole[:, state.process_of]


def _standby_cost(state: ApplicationState, active: Ints, target: Ints) -> Ints:
    """(N, Q) least with state; the coming active place is more expensive, it will get a warm-up of its own.

    Of places that are equal in that the one after the active one counts: else two processes may keep copies for each
    other alone, and all that both have is gone when both go.
    """
    cost = np.where(state.lag != UNKNOWN, 0, 2)
    coming = np.flatnonzero(target != NOBODY)
    cost[coming, target[coming]] += 1
    cost = 2 * cost + 1
    placed = np.flatnonzero(active != NOBODY)
    cost[placed, (active[placed] + 1) % cost.shape[1]] -= 1
    return cost


def _shared_tags(state: ApplicationState, taken: Bools) -> Ints:
    """(N, Q) how many tag values process q shares with processes that hold a copy of task n."""
    shared = np.zeros(taken.shape, dtype=np.int64)
    for column in state.tags.T:
        for value in np.unique(column[column != UNKNOWN]):
            holders = column == value
            shared += taken[:, holders].sum(axis=1)[:, None] * holders[None, :]
    return shared


def _choose_warmups(
    state: ApplicationState, active: Ints, target: Ints, standby: Bools, settings: TaskSettings
) -> Bools:
    """Copies at targets that are not the active place, those nearest to done first; a standby there warms by itself.

    Of equals one of each process that gives tasks away comes before the second: else others fill what one gave away.
    A copy that is restored stays and takes no place: tasks that can only move together, as around a circle, would wait
    for each other for ever otherwise.
    """
    warmup = np.zeros_like(standby)
    waiting = np.flatnonzero(active != target)
    waiting = waiting[~_beside(state, standby)[waiting, target[waiting]]]
    lag = state.lag[waiting, target[waiting]]
    restoring = _restoring(lag, settings)
    missing = np.where(lag == UNKNOWN, _FAR, lag)[restoring]
    first = in_turn(active, waiting[restoring], missing)[: settings.max_warmup_replicas]
    for task in (first, waiting[~restoring]):
        warmup[task, target[task]] = True
    return warmup


def in_turn(active: Ints, waiting: Ints, missing: Ints) -> Ints:
    """(W,) the tasks that wait, in the order in which their copies are restored: by missing messages (W,), in turn."""
    order = np.argsort(active[waiting], kind="stable")
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order)) - np.searchsorted(active[waiting][order], active[waiting][order])
    return waiting[np.lexsort((waiting, turn, missing))]
