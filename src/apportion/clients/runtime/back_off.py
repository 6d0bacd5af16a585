"""A task that failed is left alone, each time twice as long."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

Key = TypeVar("Key")


class BackOff(Generic[Key]):
    """Keys that are left alone: for ``first_s`` seconds, then twice as long each time, ``longest_s`` at most."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._until: dict[Key, tuple[float, float]] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether it has failed since it was last well."""
        return key in self._until

    def waits(self, key: Key) -> bool:
        """Whether it is to be left alone now."""
        return time.monotonic() < self._until.get(key, (0.0, 0.0))[0]

    def failed(self, key: Key) -> float:
        """Leave it alone from now on; for how many seconds."""
        wait_s = min(self._longest_s, 2 * self._until.get(key, (0.0, self._first_s / 2))[1])
        self._until[key] = time.monotonic() + wait_s, wait_s
        return wait_s

    def well(self, key: Key) -> None:
        """The next failure is the first."""
        self._until.pop(key, None)
