"""One thread, virtual time, one source of chance: fibers in place of threads, and the world that runs them.

Code under simulation calls ``sleep``, ``wait``, ``acquire`` and ``select`` as always; their stand-ins park the fiber
(``World.park``), and the world resumes the next ready one, drawn from the seed, or moves the clock to the next timer.
A host is a process: its fibers are frozen, thawed and killed together.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

try:
    import greenlet
except ImportError:  # pragma: no cover - tried in an environment without it
    from apportion.errors import MissingExtra

    raise MissingExtra("apportion.testing.simulation", "simulation") from None

SWITCH_US: Final = 10
"""Virtual microseconds that each turn of a fiber takes: code that spins until time passes sees it pass."""
SLICE_US: Final = 5_000
"""A fiber that has taken so much in one turn hands it over, as its system would make it."""
EPOCH_S: Final = 1_700_000_000
"""Unix time at which every world begins."""


class Closed(greenlet.GreenletExit):  # type: ignore[misc]
    """Raised in a fiber whose world has ended."""


class Label(NamedTuple):
    """An event that may come before or after others, if somebody chooses the next one (``worlds``).

    into, line
        What it changes (a host, a connection, the cluster), and the line in which it keeps its place.
    mark
        A checksum of what it brings.
    counts
        Whether its place among others matters: a message of a group or a transaction.
    live
        Whether it still does anything.
    """

    into: str
    line: str
    mark: int
    counts: bool
    live: Callable[[], bool]


class Host:
    """One process on one machine: fibers that live and die together, and a wall clock.

    wall_s
        How far its wall clock is from the world's, in seconds.
    """

    def __init__(self, name: str) -> None:
        self.name, self.wall_s = name, 0.0
        self.frozen = self.dead = False
        self.parked: list[Fiber] = []
        self.on_death: list[Callable[[], object]] = []
        self.connections = 0


class Fiber:
    """One line of execution on a host; ``token`` is the name that its next wake-up must have."""

    def __init__(self, world: World, call: Callable[[], None], name: str, host: Host) -> None:
        self.world, self.name, self.host = world, name, host
        self.token: object | None = None
        self.ended = False
        self._greenlet = greenlet.greenlet(self._run, parent=world.hub)
        self._call = call
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that runs in it: asyncio knows one a thread."""

    def _run(self) -> None:
        try:
            self._call()
        except greenlet.GreenletExit:
            pass
        except (Exception, asyncio.CancelledError) as error:
            self.world.crashed(self, error)
        finally:
            self.ended = True

    def resume(self) -> None:
        """Let it run until it parks."""
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self._loop)
        self._greenlet.switch()
        self._loop = asyncio._get_running_loop()
        asyncio._set_running_loop(outer)

    def close(self) -> None:
        """End it where it is; calls from its ``finally`` blocks return or raise at once."""
        for _ in range(8):
            if self._greenlet.dead or not self._greenlet:
                return
            self._greenlet.throw(Closed)


class World:
    """Time, fibers, chance and the transcript of one run.

    seed
        Decides the order of ready fibers, delays, faults: everything that is drawn.
    handover
        Chance that a fiber hands its turn over at a clock read or a lock, as a thread may be preempted there.
    """

    def __init__(self, seed: int, handover: float = 0.0) -> None:
        self.us, self.random, self.handover = 0, random.Random(seed), handover  # noqa: S311 - not for secrets
        self.hub = greenlet.getcurrent()
        self.current: Fiber | None = None
        self.events: list[dict[str, Any]] = []
        self.on_event: list[Callable[[dict[str, Any]], None]] = []
        self.closing = False
        self.stopped: Exception | None = None
        self.turns = self._turn_us = 0
        self._number = itertools.count()
        self._ready: list[Fiber] = []
        self.choose: Callable[[], object] | None = None
        """Makes the next event happen in the place of the clock."""
        self.timers: list[tuple[int, int, Callable[[], object], Label | None]] = []
        self._fibers: list[Fiber] = []
        self._nobody = Host("world")

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self.us / 1e6

    @property
    def host(self) -> Host:
        """The host whose fiber runs now."""
        return self._nobody if self.current is None else self.current.host

    def number(self) -> int:
        """A number that nothing else in this world has."""
        return next(self._number)

    def note(self, event: str, **facts: Any) -> None:
        """Add an event to the transcript, and have the checks look at it."""
        line = {"at": round(self.now, 6), "event": event, **facts}
        self.events.append(line)
        for look in self.on_event:
            look(line)

    def stop(self, error: Exception) -> None:
        """Have ``run`` raise that, before anything else happens."""
        self.stopped = self.stopped or error

    def crashed(self, fiber: Fiber, error: BaseException) -> None:
        """An exception that nothing in a fiber caught."""
        if not self.closing:
            self.note("crashed", fiber=fiber.name, error=f"{type(error).__name__}: {error}")

    def at(self, delay_s: float, call: Callable[[], object], label: Label | None = None) -> None:
        """Call something on no fiber, so many seconds from now; it must not park."""
        heapq.heappush(self.timers, (self.us + max(0, int(delay_s * 1e6)), next(self._number), call, label))

    def start(self, call: Callable[[], None], name: str, host: Host | None = None) -> Fiber:
        """A new fiber, on the host of the running one unless another is named."""
        fiber = Fiber(self, call, name, host or self.host)
        self._fibers.append(fiber)
        self._ready.append(fiber)
        return fiber

    def park(self, timeout_s: float | None = None) -> None:
        """Hand the turn over until somebody wakes this fiber, or so many seconds have passed."""
        if self.closing:
            raise Closed
        fiber = self.current
        if fiber is None:
            raise RuntimeError("code that waits ran on no fiber of the simulation: start it as a member's")
        token = fiber.token = object()
        if timeout_s is not None and timeout_s < 1e8:
            host, live = fiber.host.name, lambda: fiber.token is token
            label = Label(host, host, 0, False, live) if self.choose else None
            self.at(timeout_s, lambda: self.wake(fiber) if fiber.token is token else None, label)
        self._switch()

    def wake(self, fiber: Fiber) -> None:
        """A parked fiber is ready; one that is not parked stays as it is."""
        if fiber.token is not None:
            fiber.token = None
            self._ready.append(fiber)

    def spend(self, us: int) -> None:
        """The running fiber takes so much virtual time; a thread whose slice is over is preempted here."""
        self.us += us
        if self.us - self._turn_us > SLICE_US:
            self._preempt()

    def may_hand_over(self, chance: float) -> None:
        """At each point where a thread may lose its turn, the seed decides whether this fiber does."""
        if self.random.random() < chance:
            self._preempt()

    def _preempt(self) -> None:
        if self.current is not None and not self.closing:
            self._ready.append(self.current)
            self._switch()

    def _switch(self) -> None:
        self.hub.switch()
        if self.closing:
            raise Closed

    def freeze(self, host: Host) -> None:
        """None of its fibers run from now on; messages to it wait."""
        host.frozen = True

    def thaw(self, host: Host) -> None:
        """Its fibers go on where they were."""
        host.frozen = False
        self._ready += host.parked
        host.parked.clear()

    def kill(self, host: Host) -> None:
        """Its fibers never run again, and its connections break."""
        host.dead = True
        for call in host.on_death:
            call()
        host.on_death.clear()

    def run(self, until_s: float) -> None:
        """Let time pass up to then, or until nothing is left to happen."""
        limit = int(until_s * 1e6)
        while True:
            while self.timers and self.timers[0][0] <= self.us and self.choose is None:
                heapq.heappop(self.timers)[2]()
            if self._ready:
                self._turn()
            elif self.timers and self.timers[0][0] <= limit:
                self.us = max(self.us, self.timers[0][0])
                if self.choose is not None:
                    self.choose()
            else:
                self.us = max(self.us, limit)
            if self.stopped is not None:
                raise self.stopped
            if self.us >= limit:
                return

    def _turn(self) -> None:
        ready = self._ready
        fiber = ready.pop(self.random.randrange(len(ready)) if len(ready) > 1 else 0)
        if fiber.host.dead or fiber.ended:
            return
        if fiber.host.frozen:
            fiber.host.parked.append(fiber)
            return
        self.us += SWITCH_US
        self.turns += 1
        self._turn_us = self.us
        self.current = fiber
        try:
            fiber.resume()
        finally:
            self.current = None

    def close(self) -> None:
        """End all fibers, so that nothing of this world runs in a later one."""
        self.closing = True
        for fiber in self._fibers:
            fiber.close()
        self._fibers.clear()
        self._ready.clear()
        self.timers.clear()
