"""One build at a time in a place without locks: an object that is made only if it is absent says who is at work.

The locks of a place are numbered. Who makes number n + 1 has it, and only one can, for it is made only if absent; it
may be made when n was released or its owner is dead. Deleting a lock and making it anew would let two that saw the same
dead owner delete each other's. Whoever has the highest number is the owner; one that was taken for dead and wakes up
finds a higher number than its own before its next commit, and stops.

An owner is shown dead by its process, where it ran on this machine, in the same boot of it: hosts of one name are not
one machine. On another one, and of a process whose start nothing tells (without /proc), only the beat can be seen: the
owner writes its lock anew every ``BEAT_S`` seconds, and one that did not for ``SILENCE_S``, by the clock of who
waits, is dead. Lower numbers are swept away by the next owner.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from apportion.errors import Unavailable

if TYPE_CHECKING:
    from apportion.spark.shelves import Shelf

BEAT_S: Final = 10.0
SILENCE_S: Final = 60.0
_RELEASED: Final = "released"
_HELD: Final[set[str]] = set()
"""Tokens of this process: a lock that it could not release, for the store was away, is not among them."""


@dataclass(frozen=True)
class Owner:
    """Who has a lock.

    machine
        What processes must share for one to see the other's: a boot of a kernel, and a namespace of processes.
    started
        When the process began, by that kernel's clock: its number may be another's by now.
    token
        No two owners have the same.
    beat
        Goes up while the owner lives.
    """

    host: str
    machine: str
    pid: int
    started: str
    since: str
    token: str = ""
    beat: int = 0

    def seen_dead(self) -> bool | None:
        """Whether the process is gone; None if it cannot be seen from here."""
        if self.machine != _machine():
            return None
        started = _started(self.pid)
        if started == "":  # it may be another process of that number
            return None
        return started != self.started or (self.pid == os.getpid() and self.token not in _HELD)


class Held:
    """A lock that is ours, as long as ``check`` does not say otherwise."""

    def __init__(self, shelf: Shelf, number: int, owner: Owner, after_death: bool) -> None:
        self._shelf, self._number, self._owner = shelf, number, owner
        self.after_death = after_death
        """Whether the one before us died, or gave up half way: what it left is to be put right."""
        self.finished = False
        """Set by the owner when nothing is half done; the next one is told otherwise."""

    def check(self) -> None:
        """Raise if somebody else has taken us for dead."""
        if _highest(self._shelf)[0] > self._number:
            who = "this build was silent for so long that another took it for dead and is at work now"
            raise Unavailable(f"{who}; nothing is lost, run it again when that one has ended")

    def beat(self) -> None:
        """Show that we live."""
        self._owner = replace(self._owner, beat=self._owner.beat + 1)
        if _highest(self._shelf)[0] <= self._number:
            self._shelf.overwrite(_name(self._number), json.dumps(asdict(self._owner)))

    def release(self) -> None:
        """Let the next one in."""
        try:
            self._shelf.create(f"{_name(self._number)}.{_RELEASED}", json.dumps({"finished": self.finished}))
        finally:
            _HELD.discard(self._owner.token)


@contextmanager
def held(
    shelf: Shelf, called: str, silence_s: float = SILENCE_S, beat_s: float = BEAT_S,
    progress: Callable[[str], None] = lambda line: None,
) -> Iterator[Held]:  # fmt: skip
    """The lock of a place, for the block.

    Raises
        Unavailable: another build has it and lives.
    """
    lock = _acquire(shelf, called, silence_s, progress)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(beat_s):
            with suppress(Exception):  # a store that is away for a moment; ``check`` tells if it was too long
                lock.beat()

    beating = threading.Thread(target=beat, name="apportion-lock", daemon=True)
    beating.start()
    try:
        yield lock
    finally:
        ended.set()
        beating.join(beat_s)
        with suppress(Exception):  # Spark may be gone; then the next one finds our process dead
            lock.release()


def _acquire(shelf: Shelf, called: str, silence_s: float, progress: Callable[[str], None]) -> Held:
    while True:
        number, finished = _highest(shelf)
        if finished is None:
            _must_be_dead(shelf, number, called, silence_s, progress)
        us = this_process()
        _HELD.add(us.token)  # before another thread can see it
        if not shelf.create(_name(number + 1), json.dumps(asdict(us))):
            continue
        if _highest(shelf)[0] > number + 1:
            # While we looked, our number came, went, and was swept away: what we made anew is nobody's lock.
            shelf.delete(_name(number + 1))
            continue
        for name in shelf.names():
            if 0 < _number(name) <= number:
                shelf.delete(name)
        return Held(shelf, number + 1, us, after_death=number > 0 and not finished)


def _must_be_dead(shelf: Shelf, number: int, called: str, silence_s: float, progress: Callable[[str], None]) -> None:
    """Return when the owner of a lock that was not released is shown to be dead, or its lock is no more the highest."""
    first = _owner(shelf, number)
    if first is None:
        return  # released and swept away since
    busy = Unavailable(
        f"another build is writing to {called} (process {first.pid} on {first.host}, since {first.since}); "
        "wait for it to end"
    )
    dead = first.seen_dead()
    if dead is False:
        raise busy
    if dead:
        return
    progress(f"{called} is locked by {first.host}: listening for {silence_s:.0f} s whether it lives")
    until = time.monotonic() + silence_s
    while time.monotonic() < until:
        time.sleep(min(1.0, silence_s / 20))
        now = _owner(shelf, number)
        if now is None or _highest(shelf) != (number, None):
            return
        if now.beat != first.beat:
            raise busy


def _highest(shelf: Shelf) -> tuple[int, bool | None]:
    """The highest number, 0 for none, and whether its owner finished; None if it was not released."""
    names = shelf.names()
    number = max((_number(name) for name in names), default=0)
    if number == 0:
        return 0, True
    marker = f"{_name(number)}.{_RELEASED}"
    if marker not in names:
        return number, None
    try:
        return number, bool(json.loads(shelf.read(marker) or "{}").get("finished"))
    except ValueError:
        return number, False


def _owner(shelf: Shelf, number: int) -> Owner | None:
    text = shelf.read(_name(number))
    if text is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(text)
        return Owner(**{name: fields[name] for name in Owner.__dataclass_fields__})
    except (ValueError, KeyError, TypeError):  # a lock that was not written to its end: of somebody whom nobody knows
        return Owner("a machine that did not say its name", "", 0, "", "an unknown time")


def _name(number: int) -> str:
    return f"{number:09d}"


def _number(name: str) -> int:
    digits = name.partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def this_process() -> Owner:
    """Ourselves."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Owner(socket.gethostname(), _machine(), os.getpid(), _started(os.getpid()) or "", since, uuid4().hex)


@cache
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        # Where no boot has a name, no process of others is taken for one that could be seen from here.
        return _boot_of_mac() or f"of process {uuid4().hex}"


def _boot_of_mac() -> str | None:
    if sys.platform != "darwin":
        return None
    with suppress(OSError, subprocess.SubprocessError):
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return answer.stdout.strip() or None
    return None


def _started(pid: int) -> str | None:
    """When a process began, in ticks since the boot; "" if that is unknown; None if it is gone."""
    if not Path("/proc/self").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except OSError:  # another user's
            return ""
        return ""
    try:
        # The name, in brackets, may hold anything; the state and the 20th field after it cannot.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
