"""The members of a benched group together: started, waited for, stopped; whatever client each of them is."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Protocol


class LiveMember(Protocol):
    """A member of any client."""

    @property
    def owned(self) -> Sequence[int]:
        """Its partitions of the one topic."""
        ...

    def start(self) -> None:
        """Join."""
        ...

    def close(self) -> None:
        """Leave in good order."""
        ...


def settle(members: Sequence[LiveMember], partitions: int, calm_s: float = 0.0, patience_s: float = 120) -> None:
    """Wait until each partition has one owner and nobody is without, for so long at a stretch."""
    until, since = time.monotonic() + patience_s, 0.0
    while time.monotonic() < until:
        owned = [member.owned for member in members]
        whole = all(owned) and sorted(p for own in owned for p in own) == list(range(partitions))
        since = (since or time.monotonic()) if whole else 0.0
        if since and time.monotonic() - since >= calm_s:
            return
        time.sleep(0.05)
    raise TimeoutError(f"not settled: {[list(member.owned) for member in members]}")


def start_all(members: Sequence[LiveMember], partitions: int, calm_s: float = 0.0) -> None:
    """One after the other, and wait until they have settled."""
    for member in members:
        member.start()
    settle(members, partitions, calm_s)


def close_all(members: Sequence[LiveMember]) -> None:
    """At once, so that nobody waits for the rebalance of another's good-bye."""
    threads = [threading.Thread(target=member.close) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
