"""Stand-ins for ``time``, ``threading``, ``random``, ``socket`` and ``selectors`` in the modules under simulation.

``swapped(world)`` points every loaded module of the named packages at them and puts all back at its end. A module that
holds a clock, a thread, a socket or chance in a form that this does not catch (``from time import monotonic``, a base
class, a default argument) is refused with its name: see ``Uncaught``.
"""

from __future__ import annotations

import collections
import errno
import random
import selectors
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import Any, Final

from apportion.errors import ApportionError
from apportion.testing.simulation.kernel import EPOCH_S, Closed, Fiber, World

PACKAGES: Final = ("kafka", "aiokafka", "apportion.clients", "apportion.governing", "apportion.sources")
"""Packages whose modules are swapped, with all below them."""
EXPECTED: Final = {
    "kafka.producer.sender.Sender": "its base class is swapped by hand",
    "kafka.record.default_records.DefaultRecordBatchBuilder.append": "its default argument is swapped by hand",
    "aiokafka.record.default_records._DefaultRecordBatchBuilderPy.append": "nothing is produced by it",
}
"""Forms that the swap of names does not catch, and why they may be."""

SELECT_US: Final = 300
"""Virtual microseconds that a ``select`` and what follows it take: a loop that never waits takes up time, too."""
LOOKS_A_SECOND: Final = 100
SPIN_S: Final = 0.01
"""A thread that selects more often in a second (the client spins while it cannot reach a broker) waits so long at each
further one: what it does in a whole second of spinning shows no more than what it does in the first tenth."""
READ, WRITE, WRITABLE = selectors.EVENT_READ, selectors.EVENT_WRITE, ("open", "refused")
LOOKS: Final = 0.1
"""Chance that a thread loses its turn at a ``select`` that does not wait."""

_world: World | None = None
_AFTER: Final = World(0)
_AFTER.closing = True


class Uncaught(ApportionError):
    """A module under simulation reaches a real clock, thread, socket or chance."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"real time, threads, sockets or chance would get into the simulation by {', '.join(names)}; import the "
            "module (import time) and call it by that name, so that its stand-in is called"
        )


def world() -> World:
    """The world that runs now; after its end one in which nothing waits, for later calls of the garbage collector."""
    return _world or _AFTER


class Time:
    """``time``."""

    def monotonic(self) -> float:
        """Virtual seconds; a thread may be preempted here."""
        here = _world or _AFTER
        here.spend(1)
        if here.handover:
            here.may_hand_over(here.handover)
        return here.us / 1e6

    perf_counter = monotonic

    def time(self) -> float:
        """The host's wall clock."""
        return EPOCH_S + world().us / 1e6 + world().host.wall_s

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        world().park(seconds)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_ns"):
            return lambda: int(getattr(self, name.removesuffix("_ns"))() * 1e9)
        if name.startswith(("strf", "strp", "gmtime", "struct", "timezone")):
            return getattr(time, name)
        raise Uncaught([f"time.{name}"])


def _forget(waiters: list[Fiber], fiber: Fiber) -> None:
    """One whose time was over waits for something else next, and must not be woken there."""
    if fiber in waiters:
        waiters.remove(fiber)


class Lock:
    """``threading.Lock`` and, with ``reentrant``, ``RLock``."""

    reentrant = False

    def __init__(self) -> None:
        self.owner: Fiber | None = None
        self.count = 0
        self.waiters: list[Fiber] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, waiting in virtual time."""
        here = _world or _AFTER
        if here.closing:
            return True
        if here.handover:
            here.may_hand_over(here.handover)
        me = here.current
        if not self.count:
            self.owner, self.count = me, 1
            return True
        if self.count and self.reentrant and self.owner is me:
            self.count += 1
            return True
        until = None if timeout < 0 else here.now + timeout
        while self.count:
            rest = None if until is None else until - here.now
            if not blocking or (rest is not None and rest <= 0):
                return False
            assert me is not None  # noqa: S101 - timers take no locks
            self.waiters.append(me)
            here.park(rest)
            _forget(self.waiters, me)
        self.owner, self.count = me, 1
        return True

    def release(self) -> None:
        """Give it back, and wake the first that waits."""
        if (_world or _AFTER).closing:
            return
        self.count -= 1
        if not self.count:
            self.owner = None
            if self.waiters:
                world().wake(self.waiters.pop(0))

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """``threading.RLock``."""

    reentrant = True


class Condition:
    """``threading.Condition``."""

    def __init__(self, lock: Lock | None = None) -> None:
        self.lock = lock or RLock()
        self.waiters: list[Fiber] = []
        self.acquire, self.release = self.lock.acquire, self.lock.release

    def __enter__(self) -> bool:
        return self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Until notified or so many seconds have passed."""
        here = world()
        me, count = here.current, self.lock.count
        assert me is not None  # noqa: S101
        self.lock.count = 1
        self.waiters.append(me)
        self.lock.release()
        here.park(timeout)
        notified = me not in self.waiters
        _forget(self.waiters, me)
        self.lock.acquire()
        self.lock.count = count
        return notified

    def notify(self, n: int = 1) -> None:
        """Wake some."""
        for fiber in self.waiters[:n]:
            world().wake(fiber)
        del self.waiters[:n]

    def notify_all(self) -> None:
        """Wake all."""
        self.notify(len(self.waiters))


class Event:
    """``threading.Event``."""

    def __init__(self) -> None:
        self.flag = False
        self.waiters: list[Fiber] = []

    def is_set(self) -> bool:
        """Whether it is set."""
        return self.flag

    def set(self) -> None:
        """Set it, and wake all that wait."""
        self.flag = True
        waiters, self.waiters = self.waiters, []
        for fiber in waiters:
            world().wake(fiber)

    def clear(self) -> None:
        """Unset it."""
        self.flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is set or so many seconds have passed."""
        me = world().current
        if not self.flag and me is not None and (timeout is None or timeout > 0):
            self.waiters.append(me)
            world().park(timeout)
            _forget(self.waiters, me)
        return self.flag


class Thread:
    """``threading.Thread``: a fiber on the host of its starter."""

    def __init__(self, *, target: Any = None, name: str = "", args: Sequence[Any] = (), daemon: bool = False) -> None:
        self._target, self._args = target, args
        self.name, self.daemon = name or f"thread-{world().number()}", daemon
        self.fiber: Fiber | None = None
        self._ended = Event()

    def run(self) -> None:
        """The thread's work."""
        if self._target is not None:
            self._target(*self._args)

    def start(self) -> None:
        """Begin."""
        self.fiber = world().start(self._body, self.name)
        self.fiber.thread = self  # type: ignore[attr-defined]

    def _body(self) -> None:
        try:
            self.run()
        finally:
            self._ended.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._ended.wait(timeout)

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return self.fiber is not None and not self.fiber.ended


class Threading:
    """``threading``."""

    Lock, RLock, Condition, Event, Thread = Lock, RLock, Condition, Event, Thread
    TIMEOUT_MAX = threading.TIMEOUT_MAX
    local = threading.local

    def current_thread(self) -> Any:
        """The thread whose fiber runs; the fiber itself if none was made for it."""
        fiber = world().current
        return getattr(fiber, "thread", fiber)

    def __getattr__(self, name: str) -> Any:
        raise Uncaught([f"threading.{name}"])


class Socket:
    """A client's end of a connection, without blocking; the network moves its bytes."""

    def __init__(self, *_: Any) -> None:
        self.number = 1000 + world().number()
        self.host = world().host
        self.state, self.received, self.ended = "new", bytearray(), False
        self.watchers: list[Selector] = []
        self.link: Any = None
        self.address: tuple[str, int] | None = None

    def setblocking(self, *_: Any) -> None:
        """It never blocks, no option matters, and ``close`` works like ``shutdown``."""

    setsockopt = shutdown = setblocking

    def fileno(self) -> int:
        """A number; -1 once closed."""
        return -1 if self.state == "closed" else self.number

    def getpeername(self) -> Any:
        """The address that it was connected to."""
        return self.address

    def getsockname(self) -> Any:
        """Its own address."""
        return (self.host.name, self.number)

    def connect_ex(self, address: tuple[str, int]) -> int:
        """Begin to connect, or say how far that is."""
        if self.state == "new":
            self.state, self.address = "connecting", (address[0], address[1])
            world().network.connect(self)  # type: ignore[attr-defined]
        return {"connecting": errno.EINPROGRESS, "open": 0}.get(self.state, errno.ECONNREFUSED)

    def send(self, octets: Any) -> int:
        """Hand bytes to the network."""
        if self.state != "open":
            raise BrokenPipeError(errno.EPIPE, "the connection is closed")
        self.link.up.send(bytes(octets))
        return len(octets)

    def recv(self, size: int) -> bytes:
        """The bytes that have come."""
        if self.received:
            octets = bytes(self.received[:size])
            del self.received[:size]
            return octets
        if self.ended:
            return b""
        raise BlockingIOError(errno.EAGAIN, "nothing has come yet")

    def close(self) -> None:
        """Close, and have the other end notice."""
        if self.state != "closed":
            self.state = "closed"
            if self.link is not None and not world().closing:
                self.link.close_from_client()

    def arrive(self, octets: bytes) -> None:
        """Bytes of the other end; none: it closed."""
        self.received += octets
        self.ended = self.ended or not octets
        self.changed()

    def changed(self) -> None:
        """Have all selectors look again."""
        for selector in self.watchers:
            selector.poke()


class _Pair(Socket):
    """One half of ``socketpair``: bytes are there at once."""

    other: _Pair

    def send(self, octets: Any) -> int:
        self.other.arrive(bytes(octets))
        return len(octets)


class SocketModule:
    """``socket``."""

    socket = Socket

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("create_", "gethost", "getname", "getserv", "from")):
            raise Uncaught([f"socket.{name}"])
        return getattr(socket, name)

    def socketpair(self) -> tuple[Socket, Socket]:
        """Two connected ends on one host."""
        a, b = _Pair(), _Pair()
        a.other, b.other = b, a
        a.state = b.state = "open"
        return a, b

    def getaddrinfo(self, host: str, port: int, *_: Any) -> list[Any]:
        """Every name is an address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]


class Selector:
    """``selectors.DefaultSelector``."""

    def __init__(self) -> None:
        self.keys: dict[Any, selectors.SelectorKey] = {}
        self.sleeper: Fiber | None = None
        self.second_us = self.looks = 0

    def register(self, file: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: D102 - as there
        if file in self.keys:
            raise KeyError(f"{file} is registered already")
        if file.fileno() < 0:
            raise ValueError(f"{file} is closed")
        file.watchers.append(self)
        self.keys[file] = selectors.SelectorKey(file, file.fileno(), events, data)
        return self.keys[file]

    def modify(self, file: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: D102
        self.keys[file] = self.keys[file]._replace(events=events, data=data)
        return self.keys[file]

    def unregister(self, file: Any) -> selectors.SelectorKey:  # noqa: D102
        key = self.keys.pop(file)
        file.watchers.remove(self)
        return key

    def get_key(self, file: Any) -> selectors.SelectorKey:  # noqa: D102
        return self.keys[file]

    def get_map(self) -> dict[Any, selectors.SelectorKey]:  # noqa: D102
        return self.keys

    def close(self) -> None:  # noqa: D102
        self.keys.clear()

    def poke(self) -> None:
        """Something changed."""
        if self.sleeper is not None:
            world().wake(self.sleeper)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The ready files, waiting in virtual time."""
        here = world()
        if here.closing:
            raise Closed
        here.spend(SELECT_US)
        if here.us > self.second_us:
            self.second_us, self.looks = here.us + 1_000_000, 0
        self.looks += 1
        if self.looks > LOOKS_A_SECOND:
            here.park(SPIN_S)
        ready = self._ready()
        if timeout is not None and timeout <= 0:
            here.may_hand_over(LOOKS)
        elif not ready:
            self.sleeper = here.current
            here.park(timeout)
            self.sleeper = None
            ready = self._ready()
        return ready

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for key in self.keys.values():
            file: Any = key.fileobj
            events = (READ if file.received or file.ended else 0) | (WRITE if file.state in WRITABLE else 0)
            if events := events & key.events:
                ready.append((key, events))
        return ready


class Uuid:
    """``uuid``: its random parts are drawn from the seed."""

    UUID = uuid.UUID

    def uuid4(self) -> uuid.UUID:
        """Drawn from the seed."""
        return uuid.UUID(int=world().random.getrandbits(128), version=4)


class _Exit:
    """``atexit``: a world ends before its process does."""

    def register(self, *_: Any) -> None:
        """Nothing."""

    unregister = register


# -- the swap ---------------------------------------------------------------------------------------------------------


@contextmanager
def swapped(here: World, also: Sequence[ModuleType] = ()) -> Iterator[None]:
    """Have the packages' modules, and some more, call the stand-ins of this world until the end of the block.

    Raises
        Uncaught where a module reaches the real thing in another form.
    """
    global _world
    import atexit

    stand_ins: dict[Any, Any] = {
        time: Time(),
        threading: Threading(),
        random: here.random,
        socket: SocketModule(),
        uuid: Uuid(),
        atexit: _Exit(),
    }
    modules = [module for name, module in sorted(sys.modules.items()) if _within(name, PACKAGES)]
    guard(modules)
    with ExitStack() as undo:
        for module in dict.fromkeys((*modules, *also)):
            for name, value in list(vars(module).items()):
                if isinstance(value, ModuleType) and value in stand_ins:
                    _set(undo, module, name, stand_ins[value])
        _swap_by_hand(undo, stand_ins)
        _trap(undo)
        _world = here
        try:
            yield
        finally:
            here.close()
            _world = None


def _within(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _set(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _swap_by_hand(undo: ExitStack, stand_ins: dict[Any, Any]) -> None:
    """The parts without a module's name: base classes, default arguments, order by address."""
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.net import selector as network_selector
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.selector import NetworkSelector, Task
    from kafka.producer.sender import Sender
    from kafka.record.default_records import DefaultRecordBatchBuilder

    for configured in (KafkaAdminClient, KafkaConsumer, KafkaProducer, NetworkSelector, KafkaConnectionManager):
        defaults = getattr(configured, "DEFAULT_CONFIG", {})
        if "selector" in defaults:
            ours = {"selector": Selector, "slow_task_threshold_secs": None}  # tasks take no time here
            _set(undo, configured, "DEFAULT_CONFIG", {**defaults, **{k: v for k, v in ours.items() if k in defaults}})
    _set(undo, Sender, "__bases__", (Thread,))
    _set(undo, KafkaProducer, "__del__", lambda _: None)
    append = DefaultRecordBatchBuilder.append
    defaults = tuple(stand_ins[time].time if value is time.time else value for value in append.__defaults__)
    _set(undo, append, "__defaults__", defaults)
    construct = Task.__init__

    def numbered(self: Any, *args: Any) -> None:
        construct(self, *args)
        self.number = world().number()

    # Python draws the order of a set of strings anew for each process, and so that of the client's sets of partitions.
    numbers: dict[str, int] = collections.defaultdict(lambda: 1 + 1000 * len(numbers))
    _set(undo, TopicPartition, "__hash__", lambda pair: numbers[pair[0]] + pair[1])
    if structs := sys.modules.get("aiokafka.structs"):
        _set(undo, structs.TopicPartition, "__hash__", lambda pair: numbers[pair[0]] + pair[1])
        _set(undo, structs.BrokerMetadata, "__hash__", lambda broker: broker[0])
    _set(undo, network_selector, "log_trace", lambda *_: None)  # one call in ten would be this one's
    _set(undo, Task, "__init__", numbered)
    _set(undo, Task, "__lt__", lambda a, b: a.number < b.number)  # the client breaks ties by address
    _set(undo, Task, "__hash__", lambda a: a.number)


def _trap(undo: ExitStack) -> None:
    """A call that gets to a real wait all the same fails there; other threads of the process go on as they are."""
    simulating = threading.get_ident()
    for owner, name in ((time, "sleep"), (threading.Thread, "start"), (socket, "getaddrinfo")):
        real = getattr(owner, name)

        def refuse(*args: Any, real: Any = real, name: str = f"{owner.__name__}.{name}") -> Any:
            if _world is None or _world.current is None or threading.get_ident() != simulating:
                return real(*args)
            raise Uncaught([name])

        _set(undo, owner, name, refuse)


def guard(modules: Sequence[ModuleType]) -> None:
    """Look for forms that the swap of module names does not catch.

    Raises
        Uncaught with all of them.
    """
    real = _real()
    uncaught = []
    for module in modules:
        for name, value in vars(module).items():
            if _is_real(value, real):
                uncaught.append(f"{module.__name__}.{name}")
            elif isinstance(value, type) and value.__module__ == module.__name__:
                uncaught += (
                    [f"{module.__name__}.{name}"] if any(map(real.__contains__, map(id, value.__bases__))) else []
                )
                for method, function in vars(value).items():
                    uncaught += _defaults(f"{module.__name__}.{name}.{method}", function, real)
            else:
                uncaught += _defaults(f"{module.__name__}.{name}", value, real)
    if uncaught := [name for name in uncaught if name not in EXPECTED]:
        raise Uncaught(uncaught)


def _real() -> set[int]:
    """Addresses of everything that reaches a real clock, thread, socket or chance."""
    reaching = [
        *(time.time, time.monotonic, time.perf_counter, time.sleep, time.time_ns, time.monotonic_ns),
        *(threading.Thread, threading.Lock, threading.RLock, threading.Event, threading.Condition, threading.Timer),
        *(threading.Semaphore, threading.BoundedSemaphore, threading.Barrier, threading.current_thread),
        *(socket.socket, socket.socketpair, socket.getaddrinfo, socket.create_connection, uuid.uuid4, uuid.uuid1),
        random.Random,
    ]
    return set(map(id, reaching))


def _is_real(value: Any, real: set[int]) -> bool:
    return id(value) in real or isinstance(getattr(value, "__self__", None), random.Random)


def _defaults(name: str, function: Any, real: set[int]) -> list[str]:
    if not isinstance(function, FunctionType):
        return []
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [name] if any(_is_real(value, real) for value in values) else []
