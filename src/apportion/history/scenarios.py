"""Each strategy's plans for a group's history, and for its present under some changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, cast

import numpy as np

from apportion import whatif
from apportion.arrays import Ints, Longs
from apportion.assignors import Assignor
from apportion.errors import ApportionError
from apportion.history.records import Generation
from apportion.history.replay import carried_along, happened
from apportion.history.steps import Step, TopicEntries, steps
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.measures import lag_held, loads, moves, table_measures
from apportion.model.plan import Answer
from apportion.planning import checked, strategy_of
from apportion.strategy.registry import known, of_recipe
from apportion.strategy.traits import traits_of

REPLAY: Final = "replay"
AS_IS: Final = "as-is"
LAG: Final = "lag"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One row of ``gold/whatif``: a strategy's answer to one scenario.

    generations
        Walked; 1 in a scenario on the present state.
    moves
        Partitions that go from one member that stays to another.
    load_min, load_max, rack_misses, lag_max
        At the end; lag in messages of the heaviest member.
    moves_then, load_min_then, load_max_then, rack_misses_then
        The same as it really was (replay alone), by the same measures.
    lag_max_then
        Lag of the member that is the heaviest as the group stands (``as-is`` alone).
    proof
        Which goals are proved optimal, with commas, in the strategy's order.
    error
        Why there is no answer.
    """

    assignor: str
    scenario: str
    generations: int
    moves: int | None = None
    moves_then: int | None = None
    load_min: int | None = None
    load_max: int | None = None
    rack_misses: int | None = None
    lag_max: int | None = None
    proof: str | None = None
    error: str | None = None
    load_min_then: int | None = None
    load_max_then: int | None = None
    rack_misses_then: int | None = None
    lag_max_then: int | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """A strategy's answer to one scenario, with the plan that it rests on.

    group, owner
        The last group that was planned, and (P,) its owners; None where there is no answer.
    walk, then
        What a replay went through.
    """

    answer: ScenarioResult
    group: Group | None = None
    owner: Ints | None = None
    walk: Sequence[Step] = ()
    then: Sequence[dict[str, int]] = ()


def outcomes(
    name: str,
    generations: Sequence[Generation],
    present: Mapping[str, Any] | None,
    topics: TopicEntries | None,
    assignors: Sequence[str],
    blind: frozenset[str] = frozenset(),
) -> Iterator[Outcome]:
    """Every strategy on a group's history and on its present under each scenario that fits it.

    generations
        Its history; without any that a strategy can be asked about there is no replay.
    present
        group.json as ``group_json`` makes it; None, or no members, for a group that has none.
    assignors
        Recipes: names, with settings that are not their defaults.
    blind
        Strategies known to see no lag: what they plan as it is, they plan under another lag too.

    Returns
        A row for each strategy and scenario, with the plan that it was measured on. A strategy or a scenario that fails
        gives rows with ``error``.
    """
    yield from _replays(name, generations, topics, assignors)
    yield from _presents(present, assignors, blind)


def _replays(
    name: str, generations: Sequence[Generation], topics: TopicEntries | None, assignors: Sequence[str]
) -> Iterator[Outcome]:
    try:
        walk = steps(name, generations, topics, offsets=False)
        for step in walk:
            _work_out(step.group)
        then = happened(walk, table_measures)
    except Exception as error:  # the errors of one group end in its rows
        yield from (_failed(assignor, REPLAY, 0, error) for assignor in assignors)
        return
    # Of what a replay carries along nothing is stale: all claims are of one generation, each partition's once.
    twins = _Twins(False, any(step.group.knows_racks for step in walk))
    for assignor in assignors if walk else ():
        yield twins.get(assignor) or twins.put(
            _guarded(assignor, REPLAY, len(walk), partial(replayed, walk, then, assignor))
        )


def _work_out(group: Group) -> None:
    """The part that depends on no past, once: every strategy's group of the same generation takes it over."""
    _ = (
        group.wanted,
        group.topic_of,
        group.assignable_topics,
        group.equal_capacities,
        group.has_capacities,
        group.lag_floats,
        group.shows_lag,
    )


def replayed(walk: Sequence[Step], then: Sequence[dict[str, int]], assignor: str) -> Outcome:
    """A strategy's walk through the generations; it passes on the strategy's errors."""
    earlier_moves = 0
    for now, group, given in carried_along(walk, _strategy(assignor)):
        if now is not walk[-1]:
            earlier_moves += given.measures.get("moves", moves(group, given.owner))
    measures = {**table_measures(group, given.owner), **given.measures}
    racks = walk[-1].group.knows_racks
    answer = ScenarioResult(
        assignor,
        REPLAY,
        len(walk),
        moves=earlier_moves + measures["moves"],
        moves_then=sum(step["moves"] for step in then),
        **_state(measures, racks),
        **{f"{name}_then": value for name, value in _state(then[-1], racks).items()},
    )
    return Outcome(answer, group, given.owner, walk, then)


def _presents(present: Mapping[str, Any] | None, assignors: Sequence[str], blind: frozenset[str]) -> Iterator[Outcome]:
    if present is None or not present["members"]:
        return
    try:
        group = build(present)
        changed = list(scenarios(group))
    except Exception as error:  # the errors of one group end in its rows
        yield from (_failed(assignor, AS_IS, 1, error) for assignor in assignors)
        return
    as_is: dict[str, Outcome] = {}
    for scenario, change in changed:
        try:
            after = change()
        except Exception as error:
            yield from (_failed(assignor, scenario, 1, error) for assignor in assignors)
            continue
        twins = _Twins(after.tells_home, after.knows_racks)
        for assignor in assignors:
            earlier = as_is.get(assignor) if scenario == LAG else None
            if earlier is not None and earlier.owner is not None:
                yield _under_lag(earlier, after)
                continue
            outcome = twins.get(assignor)
            if outcome is None:
                outcome = twins.put(_guarded(assignor, scenario, 1, partial(planned, after, assignor, scenario)))
            if scenario == AS_IS and assignor in blind:
                as_is[assignor] = outcome
            yield outcome


class _Twins:
    """Outcomes of one question, for strategies whose targets are those of others.

    homes, racks
        Whether a stale claim tells of a home, and whether racks are known.
    """

    def __init__(self, homes: bool, racks: bool) -> None:
        self._known = {"homes": homes, "racks": racks}
        self._of_target: dict[str, Outcome] = {}

    def get(self, assignor: str) -> Outcome | None:
        """The answer of another strategy with the same target, under this one's name."""
        outcome = self._of_target.get(self._target(assignor))
        return outcome and replace(outcome, answer=replace(outcome.answer, assignor=assignor))

    def put(self, outcome: Outcome) -> Outcome:
        """Keep a strategy's own outcome, if it has a plan."""
        if outcome.owner is not None:
            self._of_target[self._target(outcome.answer.assignor)] = outcome
        return outcome

    def _target(self, assignor: str) -> str:
        """The strategy whose targets this one's are; mostly itself."""
        other, unless = traits_of(strategy_named(assignor)).target_of or (assignor, "homes")
        return assignor if self._known[unless] else other


def _under_lag(as_is: Outcome, group: Group) -> Outcome:
    """The plan of a strategy that sees no lag, if only lags differ."""
    assert as_is.owner is not None  # noqa: S101 - the caller looked
    lag = _heaviest(group, as_is.owner)
    return Outcome(replace(as_is.answer, scenario=LAG, lag_max=lag, lag_max_then=None), group, as_is.owner)


def _heaviest(group: Group, owner: Ints) -> int | None:
    """Lag of the heaviest member; None if lag is unknown."""
    return max(lag_held(group, owner).tolist(), default=0) if group.shows_lag else None


def strategy_named(recipe: str) -> type[Assignor] | None:
    """The class that a recipe names; None if none has the name."""
    return known().get(recipe.partition(" ")[0])


@cache
def _strategy(recipe: str) -> Assignor:
    """A strategy, made once; parts that are in no row are left out if that costs less."""
    strategy = strategy_of(of_recipe(recipe))
    summary = traits_of(strategy).summary
    return strategy if summary is None else cast(Assignor, _Summarizing(strategy, summary))


class _Summarizing:
    """A strategy without its word on how sure a prediction is, or without a plan of tasks next to the owners."""

    def __init__(self, strategy: Any, assign: Callable[[Group], Answer]) -> None:
        self.name, self.goals, self.assign = strategy.name, strategy.goals, assign


def planned(group: Group, assignor: str, scenario: str) -> Outcome:
    """A strategy's plan of a group; it passes on the strategy's errors."""
    given = checked(group, _strategy(assignor))
    measures = {**table_measures(group, given.owner), **given.measures}
    proof = ",".join([goal for goal, how in given.proof.items() if how == "optimal"])
    answer = ScenarioResult(
        assignor,
        scenario,
        1,
        moves=measures["moves"],
        **_state(measures, group.knows_racks),
        proof=proof or None,
        lag_max_then=_heaviest(group, group.owner) if scenario == AS_IS else None,
    )
    return Outcome(answer, group, given.owner)


def _state(measures: Mapping[str, int], racks: bool) -> dict[str, Any]:
    return {
        "load_min": measures["load_min"],
        "load_max": measures["load_max"],
        "rack_misses": measures["rack_misses"] if racks else None,
        "lag_max": measures.get("lag_max"),
    }


def _guarded(assignor: str, scenario: str, generations: int, answer: Callable[[], Outcome]) -> Outcome:
    """The answer, or a row that says why there is none: a strategy may be anybody's code."""
    try:
        return answer()
    except Exception as error:  # the errors of one group end in its rows
        return _failed(assignor, scenario, generations, error)


def _failed(assignor: str, scenario: str, generations: int, error: Exception) -> Outcome:
    return Outcome(ScenarioResult(assignor, scenario, generations, error=sentence(error)))


def sentence(error: Exception) -> str:
    """An error as one line; of a foreign one its type too."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ApportionError) else f"{type(error).__name__}: {text}"


def scenarios(group: Group) -> Iterator[tuple[str, Callable[[], Group]]]:
    """Changes to a group's present, each with the way to make it; changes that do not fit the group are left out.

    as-is; join: one more member; leave: the most loaded one goes; lose-rack: the rack with most members is gone; grow:
    the topic with most partitions gets half as many again; lag: its first partition gets ten times the group's lag.
    """
    yield AS_IS, lambda: group
    yield "join", lambda: whatif.join(group, 1)
    if group.M > 1:
        member = group.members[int(loads(group.owner, group.M).argmax())]
        yield "leave", lambda: whatif.leave(group, member)
    rack = _crowded_rack(group)
    if rack is not None:
        yield "lose-rack", lambda: whatif.lose_rack(group, rack)
    sizes = np.where(group.wanted_topic, np.diff(group.start), 0)
    if len(sizes) and sizes.max() > 0:
        t = int(sizes.argmax())
        topic, first, highest = (
            group.topics[t],
            int(group.number[group.start[t]]),
            int(group.number[group.partitions(t)].max()),
        )
        yield "grow", lambda: whatif.grow(group, topic, highest + 1 + max(1, int(sizes[t]) // 2))
        skew = int(skewed_lag(group.lag[group.wanted]))
        yield LAG, lambda: whatif.set_lag(group, topic, first, skew)


def skewed_lag(lag: Longs) -> Any:
    """The lags of the scenario ``lag``: ten times the lags (..., P) of the wanted partitions, and a million."""
    most = 2**62
    exact = np.minimum(10 * np.clip(lag.sum(axis=-1), 0, most // 10) + 1_000_000, most)
    # Where 64 bits cannot hold the sum it is far beyond the most.
    return np.where(lag.sum(axis=-1, dtype=np.float64) > 2.0**59, most, exact)


def _crowded_rack(group: Group) -> str | None:
    """The rack with most members, the first of equals; None if no member would be left, or no rack is known."""
    if group.racks is None or not group.racks.known:
        return None
    count = np.bincount(group.racks.of_member[group.racks.of_member >= 0], minlength=len(group.racks.names))
    return group.racks.names[int(count.argmax())] if count.max() < group.M else None
