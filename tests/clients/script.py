"""What befalls the groups of a chaos, drawn from a seed alone, so that each group suffers the same.

A group is a row of slots; slot 2 has a member in every group, of the same kind where groups are compared. Nothing here
looks at a broker or a clock: which slots live and which are frozen follows from the events themselves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

TOPICS = ("views", "sales")
KINDS = ("java", "java", "kafka-python", "confluent")
"""Of the slots at first, and of each four that join: Java twice, as the only one of them whose eager mode forgets."""
BAG = ("joined", "joined", "left", "killed", "froze", "resubscribed", "grown")
MOST_SLOTS, FEWEST_AWAKE, MOST_PARTITIONS = 5, 2, 12


@dataclass(frozen=True)
class Event:
    """One event after a wait.

    what
        ``joined``, ``left``, ``killed``, ``froze``, ``thawed``, ``resubscribed``, ``grown``, ``broker_killed``.
    """

    wait_s: float
    what: str
    slot: int = -1
    kind: str = ""
    topics: tuple[str, ...] = ()


@dataclass
class Script:
    """An endless row of events.

    frozen_s
        How long a member stays frozen, at least.
    broker_every
        Events between two kills of the broker.
    """

    seed: int
    frozen_s: float
    broker_every: int
    sizes: dict[str, int] = field(default_factory=lambda: {"views": 6, "sales": 4})

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.living = dict(enumerate(KINDS))
        self.thaws: dict[int, float] = {}
        self.narrow = -1
        self.now = 0.0
        self._made = len(KINDS)
        self._next_kinds: list[str] = []

    def __iter__(self) -> Iterator[Event]:
        for n, what in enumerate(self._bags(), 1):
            due = self.now + self.random.uniform(0.5, 3)
            yield from self._thawed(until=due)
            event = getattr(self, f"_{what}")(due - self.now)
            if event is not None:
                self.now = due
                yield event
            if n % self.broker_every == 0:
                yield Event(0, "broker_killed")

    def end(self) -> Iterator[Event]:
        """Let all go on that are still frozen."""
        yield from self._thawed(until=float("inf"))

    def last(self) -> Event:
        """The last event of all: one leaves of at least three, which costs every group a rebalance."""
        return Event(0, "left", self._gone(min(self.living)))

    def joins_up_to(self, count: int) -> Iterator[Event]:
        """As many joins as it takes."""
        while len(self.living) < count:
            yield self._joined(0)

    def _bags(self) -> Iterator[str]:
        while True:
            yield from self.random.sample(BAG, len(BAG))

    def _thawed(self, until: float) -> Iterator[Event]:
        for slot, due in sorted(self.thaws.items(), key=lambda item: item[1]):
            if due <= until:
                del self.thaws[slot]
                wait_s, self.now = max(0.0, due - self.now), max(self.now, due)
                yield Event(wait_s, "thawed", slot)

    def _pick(self, wanted: tuple[str, ...] = KINDS) -> int | None:
        awake = [slot for slot in self.living if slot not in self.thaws]
        fit = [slot for slot in awake if self.living[slot] in wanted]
        return self.random.choice(fit) if fit and len(awake) > FEWEST_AWAKE else None

    def _gone(self, slot: int) -> int:
        del self.living[slot]
        self.narrow = -1 if slot == self.narrow else self.narrow
        return slot

    def _joined(self, wait_s: float) -> Event | None:
        if len(self.living) >= MOST_SLOTS:
            return None
        slot, self._made = self._made, self._made + 1
        self._next_kinds = self._next_kinds or self.random.sample(KINDS, len(KINDS))
        self.living[slot] = self._next_kinds.pop()
        return Event(wait_s, "joined", slot, self.living[slot])

    def _left(self, wait_s: float) -> Event | None:
        slot = self._pick()
        return None if slot is None else Event(wait_s, "left", self._gone(slot))

    def _killed(self, wait_s: float) -> Event | None:
        slot = self._pick()
        return None if slot is None else Event(wait_s, "killed", self._gone(slot))

    def _froze(self, wait_s: float) -> Event | None:
        slot = self._pick()
        if slot is None:
            return None
        self.thaws[slot] = self.now + wait_s + self.frozen_s
        return Event(wait_s, "froze", slot)

    def _resubscribed(self, wait_s: float) -> Event | None:
        """One member at a time takes less, and later all again, so that each topic has a reader."""
        if self.narrow >= 0:
            if self.narrow in self.thaws:
                return None
            narrow, self.narrow = self.narrow, -1
            return Event(wait_s, "resubscribed", narrow, topics=TOPICS)
        slot = self._pick(("java", "kafka-python"))
        if slot is None:
            return None
        self.narrow = slot
        return Event(wait_s, "resubscribed", slot, topics=TOPICS[:1])

    def _grown(self, wait_s: float) -> Event | None:
        topic = self.random.choice(TOPICS)
        if self.sizes[topic] >= MOST_PARTITIONS:
            return None
        self.sizes[topic] += 1
        return Event(wait_s, "grown", topics=(topic,))
