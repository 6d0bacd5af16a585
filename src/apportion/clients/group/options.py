"""One member's settings next to its strategy: the same for every client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from apportion.acting.rule import Acting
from apportion.clients.group.acting import SampledFeed
from apportion.clients.group.finished import MOST_S
from apportion.clients.group.member_facts import FactSource
from apportion.clients.rebalance import OnPlan
from apportion.errors import BadInput
from apportion.model.facts import CAPACITY, MEMBER_FIELDS
from apportion.model.group_json import check_reset
from apportion.model.json_checks import check_text
from apportion.strategy.traits import OnForeign

MOST_WARM_UP_S: Final = 86_400


class OffsetFeed(Protocol):
    """A feed of offsets that were fetched before."""

    def table(self, topics: Iterable[str]) -> tuple[Mapping[str, Mapping[int, Mapping[str, int]]], str | None]:
        """Topic to partition id to begin, end, committed or lag; and why something is missing, or None."""
        ...


@dataclass(frozen=True)
class Options:
    """One member's settings next to its strategy.

    rack
        Its ``client.rack``; None unknown.
    priority
        For ``failover``, an int32: the highest goes first; None comes last.
    auto_offset_reset
        As the consumer has it: what a partition without a commit counts.
    on_foreign
        What to do once the broker assigns by the new protocol; None: as the strategy says.
    capacity
        How much this member can take beside the others; ``"learned"``: as fast as its commits show. None: learned
        with ``acting``, else 1.
    facts
        What its strategy asks for by name beside these: a number, or a function that is asked at each join.
    acting
        When it asks for a rebalance by itself while it leads; it needs a feed of ``lag``.
    drain_s
        Seconds that a partition waits for records that are not ``done`` before it goes; None: they are not noted.
    warm_up, warm_up_s
        What makes it ready for partitions that it will get, and the seconds after which it takes them in any case.
    Raises
        BadInput for a value that is none of these.
    """

    rack: str | None = None
    priority: int | None = None
    auto_offset_reset: str = "latest"
    on_plan: OnPlan | None = None
    lag: OffsetFeed | None = None
    on_foreign: OnForeign | None = None
    capacity: int | Literal["learned"] | None = None
    facts: Mapping[str, FactSource] = field(default_factory=dict)
    acting: Acting | None = None
    drain_s: float | None = None
    warm_up: Callable[[list[tuple[str, int]]], object] | None = None
    warm_up_s: float = 300.0

    def __post_init__(self) -> None:
        """As group.json has them: values too large for its bytes would fail at the first join, in the client."""
        for name, fits, needed in (
            ("on_plan", callable(self.on_plan), "a function"),
            ("lag", callable(getattr(self.lag, "table", None)), "a LagFeed, see apportion.clients.lag_feed"),
            ("acting", isinstance(self.acting, Acting), "an apportion.clients.Acting"),
            ("facts", isinstance(self.facts, Mapping), "a mapping of names to numbers or functions"),
        ):
            if not fits and (given := getattr(self, name)) is not None:
                raise BadInput(name, repr(given), needed)
        for name, seconds, most_s in (("drain_s", self.drain_s, MOST_S), ("warm_up_s", self.warm_up_s, MOST_WARM_UP_S)):
            if seconds is not None and not 0 < seconds <= most_s:
                raise BadInput(name, repr(seconds), f"seconds, above 0 and up to {most_s:,}")
        if self.rack is not None:
            check_text("rack", self.rack)
        check_reset("auto_offset_reset", self.auto_offset_reset)
        if self.acting is not None and not isinstance(self.lag, SampledFeed):
            given = "acting without lag" if self.lag is None else f"lag={self.lag!r}"
            raise BadInput("acting", given, "a LagFeed as lag=, by which the group's lag is known")
        if self.capacity == "learned" and self.acting is None:
            raise BadInput("capacity", "'learned' without acting", "acting=Acting(...), which learns it, or a number")
        for name, value in {"capacity": self.own_capacity, "priority": self.priority}.items():
            if value is not None:
                MEMBER_FIELDS[name].check(name, value)
        for name in self.fields.keys() & self.facts.keys():
            raise BadInput(f"facts.{name}", f"it next to {name}={self.fields[name]}", "one of the two")

    @property
    def learns(self) -> bool:
        """Whether members' speeds are learned."""
        return self.acting is not None and self.capacity in (None, "learned")

    @property
    def own_capacity(self) -> int:
        """The number that this member sends."""
        return CAPACITY.default if self.capacity in (None, "learned") else self.capacity  # type: ignore[return-value]

    @property
    def fields(self) -> dict[str, int]:
        """The facts that have an argument of their own, as far as they are set."""
        priority = {} if self.priority is None else {"priority": self.priority}
        own = self.own_capacity
        return priority if own == CAPACITY.default else {**priority, "capacity": own}
