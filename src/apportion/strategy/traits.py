"""The traits of a strategy in addition to its name and goals, each once, with the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Final, Literal

from apportion.errors import BrokenAssignor
from apportion.model.facts import MEMBER_FIELDS, Fact
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.strategy.codec import InSubscription, InUserData, UserDataCodec

OnForeign = Literal["stop", "log", "continue"]
FACT_NAME_MAX: Final = 255
"""Bytes of a fact's name: every member sends it at every join."""


@dataclass(frozen=True)
class Traits:
    """A strategy's optional attributes: class variables of these names, or methods; here are their defaults.

    cooperative
        What changes hands is withheld for a round (KIP-429).
    leaves
        It leaves some wanted partitions to nobody on purpose.
    server_side
        The broker alone runs it: consumers refuse it.
    facts
        Numbers about members that it asks for, by name; it reads them as ``group.facts[name]``, (M,).
    memory
        How it remembers between rebalances. None: as ``cooperative-sticky`` does where it is cooperative, else as
        ``sticky`` does.
    assigned_data
        Its assignments carry user data, for which a broker refuses an online upgrade to the new protocol.
    on_foreign
        What a member does once the broker assigns by the new protocol; ``stop`` where the strategy's promise is lost.
    kept_whole
        What goes to one member where the planned owner is gone: ``topics``, or ``numbers`` (partitions of one number);
        "" nothing. The brokers' class keeps it for governed groups.
    promise
        What it gives that neither of the broker's assignors gives, as it follows "promises"; "" nothing.
    reads
        What it goes by beside subscriptions and the past: some of ``lag``, ``weights``, ``racks``.
    also_known_as
        Names under which members of other programs join with the same promise, each with what to add to it.
    advised
        Whether ``compare`` may tell members to take it.
    stateful
        It places state, so it is shown, but not advised for a group of which nobody knows that it has any.
    quick
        Its plans of groups of a hundred thousand partitions take no time that somebody notices.
    structural
        What counts in its answer beside the structure of a group, so that what-ifs plan many groups of one structure
        once. ``order``: the order of names, and nothing else; ``names``: names themselves, which it hashes as the
        broker does; ``lag``: lags too; ``rounds``: lags by which each topic is dealt in rounds, heaviest first. "": not
        known.
    target_of
        A strategy and one of ``homes`` (stale claims) or ``racks``: where none of those are known, its targets are
        that strategy's.
    unlisted
        It is compared, and built into tables, by name alone: another strategy with one of its settings, or one for a
        broker's tasks.
    tabled
        The recipe in the tables of what-ifs, its name with settings; None: as it is compared.
    summary
        ``assign`` without what stands in no table (how sure a prediction is, a plan of tasks), where that costs less.
    """

    cooperative: bool = False
    leaves: bool = False
    server_side: bool = False
    facts: Mapping[str, Fact] = field(default_factory=dict)
    memory: UserDataCodec | None = None
    assigned_data: bool = False
    on_foreign: OnForeign = "log"
    kept_whole: Literal["", "topics", "numbers"] = ""
    promise: str = ""
    reads: frozenset[str] = frozenset()
    also_known_as: Mapping[str, str] = field(default_factory=dict)
    advised: bool = True
    stateful: bool = False
    quick: bool = False
    structural: Literal["", "order", "names", "lag", "rounds"] = ""
    target_of: tuple[str, str] | None = None
    unlisted: bool = False
    tabled: str | None = None
    summary: Callable[[Group], Answer] | None = None

    @property
    def codec(self) -> UserDataCodec:
        """Its memory, or the one of Kafka's that it then has."""
        if self.memory is not None:
            return self.memory
        return InSubscription() if self.cooperative else InUserData()


_NAMES: Final = tuple(trait.name for trait in fields(Traits))


def traits_of(strategy: object) -> Traits:
    """The traits of a strategy, or of a strategy's class.

    Raises
        BrokenAssignor where it asks for facts that cannot be, or for one of ``MEMBER_FIELDS`` within other bounds.

    >>> from apportion.strategy.registry import known
    >>> traits_of(known()["failover"]).on_foreign, traits_of(object()).on_foreign
    ('stop', 'log')
    """
    return _of_class(strategy) if isinstance(strategy, type) else _read(strategy)


@lru_cache(maxsize=256)
def _of_class(strategy: type) -> Traits:
    """A build asks the same classes a hundred thousand times."""
    return _read(strategy)


def _read(strategy: object) -> Traits:
    facts_of(strategy)
    return Traits(**{name: getattr(strategy, name) for name in _NAMES if hasattr(strategy, name)})


def facts_of(strategy: object) -> Mapping[str, Fact]:
    """The facts alone, as ``traits_of`` gives them and raises: each plan asks for them.

    >>> facts_of(object())
    {}
    """
    facts: Mapping[str, Fact] = getattr(strategy, "facts", {})
    if wrong := _wrong_facts(facts):
        raise BrokenAssignor(f"the assignor {getattr(strategy, 'name', strategy)!r} asks for {wrong}.")
    return facts


def _wrong_facts(declared: object) -> str:
    """The fault in the facts that a strategy asks for, and the need; "" nothing."""
    if not (isinstance(declared, Mapping) and all(isinstance(fact, Fact) for fact in declared.values())):
        return f"the facts {declared!r}; needed names, each with an apportion.Fact"
    for name, fact in declared.items():
        if not (isinstance(name, str) and 0 < len(name.encode()) <= FACT_NAME_MAX):
            return f"a fact named {name!r}; needed a text of 1 to {FACT_NAME_MAX} bytes"
        if name in MEMBER_FIELDS and fact != MEMBER_FIELDS[name]:
            return f"{name!r} as {fact}; all strategies share it, so needed apportion.strategy.{name.upper()}"
    return ""
