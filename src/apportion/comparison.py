"""One group under several strategies, the best of each measure, and the strategy to take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from apportion.arrays import NOBODY
from apportion.assignors import Assignor, find, known
from apportion.errors import ApportionError, BadInput, UnknownName
from apportion.model.frames import Tabular
from apportion.model.group import Group
from apportion.model.group_json import GroupLike, group_of
from apportion.model.measures import measure
from apportion.model.plan import Plan
from apportion.model.plan_json import SavedPlan
from apportion.planning import plan, strategy_of
from apportion.strategy.settings import key_of, settings_of
from apportion.strategy.traits import traits_of
from apportion.wording import count

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
NEW_PROTOCOL: Final = "consumer"
"""Kafka's word for groups whose broker assigns (KIP-848)."""
NONE_OF_THE_BROKERS: Final = (
    "Advice: none: the broker assigns to this group, which is of the new protocol, and no strategy of the broker's was "
    "compared."
)
JUDGED: Final = ("load_squares", "load_cost", "spread_squares", "moves", "lag_max", "rack_misses")
"""Measures of which less is better."""
WORTH: Final = 0.8
"""Lag on the heaviest member must fall to this share before it is worth moves."""
NEARLY: Final = 0.9
"""The lightest plan is not worth more moves than one whose heaviest member it relieves by a tenth."""


def _advisable(p: Plan, kind: str | None = None) -> bool:
    """Whether the group could be given this strategy: not one that places state; and one that the broker runs
    where the broker assigns (KIP-848), and there alone.
    """
    traits = traits_of(known().get(p.assignor))
    return traits.advised and not traits.stateful and traits.server_side == (kind == NEW_PROTOCOL)


def named(p: Plan) -> str:
    """A strategy with the settings that are not its defaults: ``lag-aware scope=topic``."""
    return " ".join([p.assignor, *(f"{key}={_plain(value)}" for key, value in p.settings.items())])


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def server_side(p: Plan) -> bool:
    """Whether the broker alone runs the strategy."""
    return traits_of(known().get(p.assignor)).server_side


ALL_STRATEGIES_MAX_PARTITIONS: Final = 20_000
"""Above it a group is planned by quick strategies alone: a page of a big cluster must not take minutes."""


@dataclass(frozen=True)
class Comparison(Tabular):
    """One group under several strategies.

    failed
        Strategy to why it gave no plan.
    saved
        A plan that was made before, to be seen beside them.
    kind, running
        The group's protocol (``classic``, ``consumer``), and the strategy that it runs now; None where not known.
    """

    group: Group
    plans: Sequence[Plan]
    failed: dict[str, str]
    saved: SavedPlan | None = None
    kind: str | None = None
    running: str | None = None

    @property
    def complete(self) -> list[Plan]:
        """Plans that give an owner to as many partitions as any plan does: others look light by leaving work undone."""
        given = [int((p.owner != NOBODY).sum()) for p in self.plans]
        return [p for p, n in zip(self.plans, given, strict=True) if n == max(given)]

    @property
    def best(self) -> dict[str, str]:
        """Measure to the strategy with the least of it; of equals, the one with the better rank, see ``_rank``."""
        best: dict[str, Plan] = {}
        for name in JUDGED:
            judged = [p for p in self.complete if name in p.measures]
            if judged and (name != "rack_misses" or self.group.knows_racks):
                best[name] = min(judged, key=lambda p: (Fraction(p.measures[name]), _rank(p)))
        return {measure: named(p) for measure, p in best.items()}

    def columns(self) -> dict[str, list[Any]]:
        """A row for each strategy: its recipe, its measures, its proof in words, and why it gave no plan."""
        names = dict.fromkeys(name for p in self.plans for name in p.measures)
        missing = [None] * len(self.failed)
        return {
            "assignor": [*map(named, self.plans), *self.failed],
            **{name: [*(p.measures.get(name) for p in self.plans), *missing] for name in names},
            "proof": [*(", ".join(map(" ".join, p.proof.items())) for p in self.plans), *missing],
            "error": [*([None] * len(self.plans)), *self.failed.values()],
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``apportion compare``."""
        result: dict[str, Any] = {
            "version": 1,
            "group": self.group.name,
            "plans": [p.to_dict() for p in self.plans],
            "best": self.best,
        }
        if self.failed:
            result["failed"] = self.failed
        if self.saved is not None:
            measures = measure(self.group, self.saved.owners_in(self.group))
            result["saved"] = {"assignor": self.saved.assignor, "measures": measures}
        return result


def compare(
    group: GroupLike, assignors: Sequence[str | Assignor] = (), saved: SavedPlan | None = None,
    settings: Mapping[str, str] = NO_SETTINGS, kind: str | None = None, running: str | None = None,
) -> Comparison:  # fmt: skip
    """Plan the group with each strategy at its default settings, or with these alone; one that fails says why.

    group
        A ``Group``, group.json as a dict or text, or the ``Path`` of a file.
    assignors
        Names of known strategies, or strategies.
    settings
        A known strategy that has any of these is planned once more, with them.
    kind, running
        As ``Comparison`` has them.
    Raises
        BadInput (UnknownName) for a bad group, name or setting; ApportionError where no strategy has a plan.

    >>> group = {"topics": {"t": 4}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}}
    >>> compare(group, ["range", "sticky"]).best
    {'load_squares': 'range', 'spread_squares': 'range', 'moves': 'range'}
    """
    group = group_of(group)
    if isinstance(assignors, str) or not isinstance(assignors, Iterable):
        raise BadInput("assignors", repr(assignors), "a list of names or strategies, such as ['range', 'sticky']")
    every = list(dict.fromkeys([*known(unlisted=False), *([running] if running and running in known() else [])]))
    given = [strategy_of(assignor) for assignor in assignors] or [find(name) for name in every]
    strategies = [variant for strategy in given for variant in (strategy, *_with_settings(strategy, settings))]
    _check_settings(given, settings)
    plans: list[Plan] = []
    failed = {}
    # A strategy that is named twice, or whose setting is its default, is no second one.
    for strategy in [variant for n, variant in enumerate(strategies) if variant not in strategies[:n]]:
        try:
            plans.append(plan(group, strategy))
        except ApportionError as error:
            failed[strategy.name] = str(error)
    if not plans:
        raise ApportionError(
            "no strategy could plan this group: " + "; ".join(f"{n}: {why}" for n, why in failed.items())
        )
    return Comparison(group, plans, failed, saved, kind, running)


def _with_settings(strategy: Assignor, settings: Mapping[str, str]) -> list[Assignor]:
    """A known strategy once more, with those of the settings that it has."""
    mine = {key: value for key, value in settings.items() if key_of(key) in settings_of(type(strategy))}
    return [find(strategy.name, mine)] if mine and strategy.name in known() else []


def _check_settings(strategies: Sequence[Assignor], settings: Mapping[str, str]) -> None:
    has = {setting for strategy in strategies for setting in settings_of(type(strategy))} if settings else set()
    for key in settings:
        if key_of(key) not in has:
            raise UnknownName("setting", key, sorted(has))


def _rank(p: Plan, running: str | None = None) -> tuple[Fraction, int, int, int, bool, bool, bool, str]:
    """Fairest, then nearest, stillest, least loaded with lag; of equals one that members run, that stops no member, and
    that the group runs now.
    """
    m = p.measures
    measured = _load_cost(p), m["rack_misses"], m["moves"], m.get("lag_max", 0)
    changes = p.assignor not in (running, f"broker-{running}")
    return *measured, server_side(p), not p.cooperative, changes, p.assignor


def _load_cost(p: Plan) -> Fraction:
    """The sum of squared loads, over capacities if they differ."""
    return Fraction(p.measures.get("load_cost", p.measures["load_squares"]))


def advice(comparison: Comparison) -> list[str]:
    """One sentence that names a strategy and says why, and one for each that failed."""
    able = [p for p in comparison.complete if _advisable(p, comparison.kind)]
    if not able and comparison.kind == NEW_PROTOCOL:
        sentences = [NONE_OF_THE_BROKERS]
    else:
        sentences = _advise(comparison, min(able or comparison.complete, key=lambda p: _rank(p, comparison.running)))
    sentences += [f"{name} gave no plan: {why}" for name, why in comparison.failed.items()]
    partial = [p.assignor for p in comparison.plans if p not in comparison.complete]
    if partial:
        sentences.append(f"Not judged, as they leave partitions without an owner: {', '.join(partial)}.")
    named = {p.assignor: known()[p.assignor] for p in comparison.plans if p.assignor in known()}
    blind = [name for name, strategy in named.items() if "capacity" not in traits_of(strategy).facts]
    if comparison.group.has_capacities and blind:
        sentences.append(f"Members' capacities count for nothing in {', '.join(blind)}.")
    return sentences


def _advise(comparison: Comparison, fairest: Plan) -> list[str]:
    m = fairest.measures
    lighter = _lighter(comparison, m) if "lag_max" in m else None
    if lighter is not None:
        its = lighter.measures
        sentence = (
            f"Advice: {_asked_for(lighter)}, while this lag lasts: the heaviest member has {its['lag_max']:,} messages "
            f"to read instead of {m['lag_max']:,} under {named(fairest)}, for {count(its['moves'], 'move')} "
            f"instead of {m['moves']:,}."
        )
        return [sentence, *_in_a_consumer(lighter)]
    running = _runs_by_lag(comparison, fairest)
    if running is not None and running is not fairest:
        sentence = (
            f"Advice: {_asked_for(running)}, which it runs: {_shared(running.measures)}, as fair as any plan, and lag "
            "may come back; a change of strategy stops or moves more than it saves."
        )
        return [sentence]
    why = [_shared(m)]
    as_fair = [
        p for p in comparison.complete
        if _load_cost(p) == _load_cost(fairest) and (comparison.kind != NEW_PROTOCOL or server_side(p))
    ]  # fmt: skip
    most = max(as_fair, key=lambda p: p.measures["moves"])
    if most.measures["moves"] > m["moves"]:
        why.append(f"it moves {m['moves']:,} where {most.assignor}, as fair, moves {most.measures['moves']:,}")
    else:
        why.append(f"it moves {m['moves']:,}")
    if _fewest_moves_proved(fairest):
        why.append("no fairer plan moves less, which is proved")
    if fairest.cooperative:
        why.append("members keep reading the partitions that stay")
    return [f"Advice: {_asked_for(fairest)}: {'; '.join(why)}.", *_in_a_consumer(fairest)]


def _runs_by_lag(comparison: Comparison, fairest: Plan) -> Plan | None:
    """The plan of the strategy that the group runs, if that looks at lag and is as fair as the fairest.

    Lag comes and goes: who is told to leave such a strategy the minute all is read is told to take it again the next.
    """
    for p in comparison.complete:
        looks_at_lag = "lag" in getattr(known().get(p.assignor), "goals", ())
        if p.assignor == comparison.running and looks_at_lag and _load_cost(p) == _load_cost(fairest):
            return p
    return None


def _in_a_consumer(p: Plan) -> list[str]:
    """How the strategy is written in a Python consumer, if that is more than its name."""
    if server_side(p):
        return []
    looks_at_lag = "lag" in p.proof
    if not p.settings and not looks_at_lag:
        return []
    arguments = [repr(p.assignor), *(f"{key}={value!r}" for key, value in p.settings.items())]
    return [f"In a consumer: assignor({', '.join([*arguments, *(['lag=feed'] if looks_at_lag else [])])})."]


def _fewest_moves_proved(p: Plan) -> bool:
    """Whether the plan is shown to be fairest and to move least of those: many strategies prove other goals."""
    looks_at_work = bool({"lag", "weight"} & set(p.proof))  # before it counts moves
    balanced = next(iter(p.proof), "") == "balance" and "moves" in p.proof and not looks_at_work
    return balanced and set(p.proof.values()) == {"optimal"}


def _lighter(comparison: Comparison, m: dict[str, int]) -> Plan | None:
    """The plan to take while lag is worth moves: nearly the lightest there is, and of those the one that moves least.

    m
        Measures of the plan that would be taken if nothing lagged.
    """
    worth = WORTH * m["lag_max"]
    if m.get("lag_bound", 0) >= worth:
        return None
    judged = [p for p in comparison.complete if "lag_max" in p.measures and _advisable(p, comparison.kind)]
    least = min((p.measures["lag_max"] for p in judged), default=worth)
    if least >= worth:
        return None
    return min(
        (p for p in judged if p.measures["lag_max"] * NEARLY <= least), key=lambda p: (p.measures["moves"], _rank(p))
    )


def _asked_for(p: Plan) -> str:
    """The strategy as the command line takes it."""
    return " ".join([p.assignor, *(f"--set {key}={_plain(value)}" for key, value in p.settings.items())])


def _shared(m: dict[str, int]) -> str:
    if m["load_min"] == m["load_max"]:
        return f"every member gets {m['load_min']:,}"
    return f"members get {m['load_min']:,} to {m['load_max']:,}"


def every_plan(group: Group) -> list[Plan]:
    """Every strategy's plan now; strategies that have none are left out."""
    planned: list[Plan] = []
    if not group.M:
        return planned
    small = group.P <= ALL_STRATEGIES_MAX_PARTITIONS
    for name in [name for name, strategy in known(unlisted=False).items() if small or traits_of(strategy).quick]:
        try:
            planned.append(plan(group, name))
        except ApportionError:
            continue
    return planned
