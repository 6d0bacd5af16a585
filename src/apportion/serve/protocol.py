"""HTTP with limits against slow and hostile clients: bounded connections, deadlines for heads and answers.

uvicorn bounds the size of a request's head, but waits without limit for the head and for a client that does not read.
Here the oldest idle connection is closed for a new one, so that a thousand of them do not keep Prometheus out.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS: Final = 256
HEAD_S: Final = 5.0
"""For a request's head, from its first byte or the connection's start."""
TAKE_S: Final = 30.0
"""For a reader to take what waits for it."""
HEAD_BYTES: Final = 16_384


class BoundedProtocol(H11Protocol):
    """One connection, with its deadlines."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._head: asyncio.TimerHandle | None = None
        self._take: asyncio.TimerHandle | None = None
        self.opened = 0.0

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Close the oldest idle connection at the limit, and start the deadline for the head."""
        super().connection_made(transport)
        self.opened = self.loop.time()
        self._head = self.loop.call_later(HEAD_S, self._abort)
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [c for c in self.connections if c is not self and not c.busy]  # type: ignore[union-attr]
            loser: Any = min(idle, key=lambda c: c.opened, default=self)  # type: ignore[union-attr]
            loser._abort()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request's head, or of its body."""
        super().data_received(data)
        if self.busy:
            self._head = _cancelled(self._head)
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(HEAD_S, self._abort)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP; if a request is being answered, its connection ends too."""
        if not self.busy:
            super().send_400_response(msg)
            return
        self.cycle.disconnected = True  # else the application would answer on a connection that is over
        self._abort()

    def on_response_complete(self) -> None:
        """The answer is sent; uvicorn's keep-alive time-out starts."""
        self._head = _cancelled(self._head)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads too slowly: start the deadline for reading."""
        super().pause_writing()
        if self._take is None:
            self._take = self.loop.call_later(TAKE_S, self._abort)

    def resume_writing(self) -> None:
        """The client reads again: stop that deadline."""
        super().resume_writing()
        self._take = _cancelled(self._take)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        self._head, self._take = _cancelled(self._head), _cancelled(self._take)
        super().connection_lost(exc)

    def _abort(self) -> None:
        self.connections.discard(self)
        self.transport.abort()


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """A stand-in for a timer that was cancelled."""
    if timer is not None:
        timer.cancel()
    return None
