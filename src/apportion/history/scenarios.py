"""What each strategy would have done with a group's history, and would do with its present under some changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np

from apportion import whatif
from apportion.assignors import Assignor, find, known
from apportion.errors import ApportionError
from apportion.history.records import Generation
from apportion.history.replay import happened, replay_steps, total
from apportion.history.steps import Step, TopicEntries, steps
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.measures import loads, measure
from apportion.planning import plan

REPLAY: Final = "replay"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One row of ``gold/whatif``: a strategy's answer to one scenario.

    generations
        Walked; 1 in a scenario on the present state.
    moves, moves_then
        Partitions that go from one member that stays to another: with the strategy, and really (replay alone).
    load_min, load_max, rack_misses, lag_max
        At the end; lag in messages of the heaviest member.
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


def what_if(
    name: str,
    generations: Sequence[Generation],
    present: Mapping[str, Any] | None,
    topics: TopicEntries | None = None,
    assignors: Iterable[str] | None = None,
) -> list[ScenarioResult]:
    """Every strategy on a group's history and on its present under each scenario that fits it.

    generations
        Its history; without any that a strategy can be asked about there is no replay.
    present
        group.json as ``group_json`` makes it; None, or no members, for a group that has none.
    assignors
        Names; all known ones by default.
    Returns
        A row for each strategy and scenario. A strategy or a scenario that fails gives rows with ``error``.
    """
    names = list(known() if assignors is None else assignors)
    return [*_replays(name, generations, topics, names), *_presents(present, names)]


def _replays(
    name: str, generations: Sequence[Generation], topics: TopicEntries | None, names: list[str]
) -> Iterator[ScenarioResult]:
    try:
        walk = steps(name, generations, topics)
        then = happened(walk)
    except Exception as error:  # the errors of one group end in its rows
        yield from (ScenarioResult(assignor, REPLAY, 0, error=sentence(error)) for assignor in names)
        return
    for assignor in names if walk else ():
        yield _guarded(assignor, REPLAY, len(walk), partial(_replay, walk, then, assignor))


def _replay(walk: Sequence[Step], then: Sequence[dict[str, int]], assignor: str) -> dict[str, Any]:
    done = replay_steps(walk, _strategy(assignor), then)
    whole, end = total(done), done[-1].measures
    return {
        "moves": whole["moves"],
        "moves_then": whole["moves_then"],
        **_state(end, bool(walk[-1].group.racks and walk[-1].group.racks.known)),
    }


def _presents(present: Mapping[str, Any] | None, names: list[str]) -> Iterator[ScenarioResult]:
    if present is None or not present["members"]:
        return
    try:
        group = build(present)
        changed = list(scenarios(group))
    except Exception as error:  # the errors of one group end in its rows
        yield from (ScenarioResult(assignor, "as-is", 1, error=sentence(error)) for assignor in names)
        return
    for scenario, change in changed:
        try:
            after: Group | Exception = change()
        except Exception as error:
            after = error
        for assignor in names:
            if isinstance(after, Exception):
                yield ScenarioResult(assignor, scenario, 1, error=sentence(after))
            else:
                yield _guarded(assignor, scenario, 1, partial(_plan, after, assignor))


@cache
def _strategy(name: str) -> Assignor:
    """A strategy with its default settings, made once."""
    return find(name)


def _plan(group: Group, assignor: str) -> dict[str, Any]:
    made = plan(group, _strategy(assignor))
    measures = {**measure(group, made.owner), **made.answer.measures}
    proof = ",".join(goal for goal, how in made.answer.proof.items() if how == "optimal")
    return {
        "moves": measures["moves"],
        **_state(measures, bool(group.racks and group.racks.known)),
        "proof": proof or None,
    }


def _state(measures: Mapping[str, int], racks: bool) -> dict[str, int | None]:
    return {
        "load_min": measures["load_min"],
        "load_max": measures["load_max"],
        "rack_misses": measures["rack_misses"] if racks else None,
        "lag_max": measures.get("lag_max"),
    }


def _guarded(assignor: str, scenario: str, generations: int, answer: Callable[[], dict[str, Any]]) -> ScenarioResult:
    """The answer, or a row that says why there is none: a strategy may be anybody's code."""
    try:
        return ScenarioResult(assignor, scenario, generations, **answer())
    except Exception as error:  # the errors of one group end in its rows
        return ScenarioResult(assignor, scenario, generations, error=sentence(error))


def sentence(error: Exception) -> str:
    """An error as one line; of a foreign one its type too."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ApportionError) else f"{type(error).__name__}: {text}"


def scenarios(group: Group) -> Iterator[tuple[str, Callable[[], Group]]]:
    """Changes to a group's present, each with the way to make it; what does not fit the group is left out.

    as-is; join: one more member; leave: the most loaded one goes; lose-rack: the rack with most members is gone; grow:
    the topic with most partitions gets half as many again; lag: its first partition gets ten times the group's lag.
    """
    yield "as-is", lambda: group
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
        skew = min(10 * int(group.lag[group.wanted].sum()) + 1_000_000, 2**62)
        yield "lag", lambda: whatif.set_lag(group, topic, first, skew)


def _crowded_rack(group: Group) -> str | None:
    """The rack with most members, the first of equals; None where nobody would be left, or no rack is known."""
    if group.racks is None or not group.racks.known:
        return None
    count = np.bincount(group.racks.of_member[group.racks.of_member >= 0], minlength=len(group.racks.names))
    return group.racks.names[int(count.argmax())] if count.max() < group.M else None
