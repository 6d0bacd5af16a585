"""How long the machine keeps threads waiting: a time that is promised on a quiet machine may be longer by that."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

TICK_S = 0.01
PROCESSES = 3
"""What a time in a group consists of: a member, another one and the broker, each of which waits for its turn."""


class Pauses:
    """Ticks for a block, and sums up by how much the ticks came late."""

    def __init__(self) -> None:
        self._late_s, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def _tick(self) -> None:
        last = time.monotonic()
        while not self._over.wait(TICK_S):
            now = time.monotonic()
            self._late_s += max(now - last - 2 * TICK_S, 0.0)
            last = now

    @property
    def allowance_s(self) -> float:
        """Seconds that something which takes part in a group may take longer than on a quiet machine."""
        return PROCESSES * self._late_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
