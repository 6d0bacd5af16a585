"""An asyncio loop in virtual time, for aiokafka: one on each host, in a fiber of its own."""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections.abc import Callable
from typing import Any

from apportion.testing.simulation.stand_ins import SELECT_US, Socket, world


class _Numbered:
    """Sets of tasks and futures have an order that the seed decides, not the memory."""

    def __hash__(self) -> int:
        if (number := getattr(self, "_order", None)) is None:
            number = self._order = world().number()
        return int(number)


class _Task(_Numbered, asyncio.Task):  # type: ignore[type-arg]
    @classmethod
    def of(cls, loop: Any, coroutine: Any, **facts: Any) -> _Task:
        """Without a complaint if its world ends before it does."""
        task = cls(coroutine, loop=loop, **facts)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task


class _Future(_Numbered, asyncio.Future):  # type: ignore[type-arg]
    pass


class Loop(base_events.BaseEventLoop):
    """A loop whose clock is the world's, and whose connections are the simulated network's."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._sleeper: Any = None
        self._poked = False
        self.set_task_factory(_Task.of)

    def time(self) -> float:
        """Virtual seconds."""
        return world().now

    def create_future(self) -> Any:
        """A future with a number."""
        return _Future(loop=self)

    def select(self, timeout: float | None) -> tuple[()]:
        """Wait until something calls from outside, or so many seconds have passed."""
        here = world()
        here.spend(SELECT_US)
        if not self._poked and (timeout is None or timeout > 0):
            self._sleeper = here.current
            here.park(timeout)
            self._sleeper = None
        self._poked = False
        return ()

    def _process_events(self, _: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        self._poked = True
        if self._sleeper is not None:
            world().wake(self._sleeper)

    def run_in_executor(self, _: Any, call: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Call it at once: a thread that takes no virtual time."""
        future = self.create_future()
        try:
            future.set_result(call(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def create_connection(self, protocol: Callable[[], Any], host: str, port: int, **_: Any) -> Any:  # type: ignore[override]
        """A transport over a socket of the network."""
        transport = _Transport(self, protocol())
        await transport.connected(host, port)
        return transport, transport.protocol


class _Transport(asyncio.Transport):
    """One connection, as asyncio's streams use it."""

    def __init__(self, loop: Loop, protocol: Any) -> None:
        super().__init__()
        self.loop, self.protocol, self.socket = loop, protocol, Socket()
        self._opened = loop.create_future()
        self.socket.watchers.append(self)  # type: ignore[arg-type]

    async def connected(self, host: str, port: int) -> None:
        """Connect; a broker that is down refuses."""
        self.socket.connect_ex((host, port))
        try:
            await self._opened
        except asyncio.CancelledError:
            self.socket.close()
            raise
        self.protocol.connection_made(self)

    def poke(self) -> None:
        """The socket has changed; the network calls, on no fiber."""
        self.loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        if not self._opened.done():
            if self.socket.state == "open":
                self._opened.set_result(None)
            elif self.socket.state == "refused":
                self._opened.set_exception(ConnectionRefusedError("no broker listens there"))
            return
        if self.is_closing():
            return
        octets, self.socket.received = bytes(self.socket.received), bytearray()
        if octets:
            self.protocol.data_received(octets)
        if self.socket.ended and not self.is_closing():
            self.protocol.eof_received()
            self.close()

    def write(self, octets: Any) -> None:
        """Hand bytes to the network; they are lost if the connection is."""
        if self.socket.state == "open":
            self.socket.send(octets)

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self.socket.state == "closed"

    def close(self) -> None:
        """Close, and tell the protocol so."""
        if not self.is_closing():
            self.socket.close()
            self.loop.call_soon(self.protocol.connection_lost, None)

    abort = close
