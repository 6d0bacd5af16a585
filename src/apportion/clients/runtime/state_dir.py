"""The folder of one process's state: one file a task, locked against other processes, shared by our own threads."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import uuid
from pathlib import Path
from typing import Any, Final, Self

from apportion.errors import BadInput, Unavailable
from apportion.tasks.topology import Task, Topology

log = logging.getLogger("apportion.clients")

_ours: Final[dict[Path, StateFolder]] = {}
_guard: Final = threading.Lock()


class StateFolder:
    """A folder that this process has; ``of`` gives every thread the same one.

    process_id
        Written at the first use, so that a restart on the folder is the same process; see ``renew``.
    run
        Differs from one start to the next: two members with one process id and two runs are two processes.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = _locked(path / "lock")
        for draft in path.glob("*.draft"):  # of a process that died in the middle
            draft.unlink(missing_ok=True)
        self.process_id, self.run = _process_id(path / "process-id"), uuid.uuid4().hex
        self._users = 0
        self._application: str | None = None
        self._claimed: dict[Task, str] = {}
        self._numbers: set[int] = set()

    @classmethod
    def of(cls, path: str | Path) -> Self:
        """The folder at ``path``; every call needs a ``close`` of its own.

        Raises
            Unavailable where another process has it.
        """
        key = Path(path).resolve()
        with _guard:
            if key not in _ours:
                _ours[key] = cls(key)
            folder = _ours[key]
            folder._users += 1
        assert isinstance(folder, cls)  # noqa: S101 - there is no other class
        return folder

    def close(self) -> None:
        """When the last thread lets go, other processes may have it."""
        with _guard:
            self._users -= 1
            if not self._users:
                if _ours.get(self.path) is self:  # a fork of the process that has it has none
                    del _ours[self.path]
                if self._lock is not None:
                    self._lock.close()

    def claim(self, task: Task) -> bool:
        """Whether the caller may open the task's file: another thread of ours that has it must let go first."""
        with _guard:
            if task in self._claimed:
                return False
            self._claimed[task] = threading.current_thread().name
            return True

    def release(self, task: Task) -> None:
        """The file is closed."""
        with _guard:
            self._claimed.pop(task, None)

    def claimed(self) -> dict[Task, str]:
        """Tasks with files open in some thread of ours, and the thread's name."""
        with _guard:
            return dict(self._claimed)

    def renew(self, process_id: str) -> None:
        """Take another process id in place of that one, which another member's process has, too."""
        with _guard:
            if self.process_id != process_id:
                return  # another thread of ours did it
            log.warning(
                "the state folder %s was copied (a cloned volume, a snapshot, an image): another process of the group "
                "has its id %s, too. As one process, neither would keep a copy for the other, so this one takes an id "
                "of its own; give each process a folder of its own, empty at first",
                *(self.path, process_id),
            )
            self.process_id = str(uuid.uuid4())
            _write_whole(self.path / "process-id", self.process_id)

    def take_number(self) -> int:
        """The smallest number that no other consumer of this process has: the same again after a restart."""
        with _guard:
            number = next(n for n in range(len(self._numbers) + 1) if n not in self._numbers)
            self._numbers.add(number)
            return number

    def give_number(self, number: int) -> None:
        """The number is no longer in use."""
        with _guard:
            self._numbers.discard(number)

    def used_for(self, application: str, topology: Topology) -> None:
        """Note whom the folder's files belong to; if an earlier run had other sub-topologies, the log says so.

        The files of tasks whose numbers mean other work now are known by their changelog, and begun anew.
        Raises
            BadInput where another consumer of this process has the folder for another application.
        """
        parts = [[list(part.topics), part.changelog] for part in topology.subtopologies]
        with _guard:
            if self._users > 1 and self._application not in (None, application):
                raise BadInput(
                    str(self.path), f"the state of application {self._application!r}, in use by this process",
                    f"a folder of its own for {application!r}",
                )  # fmt: skip
            self._application = application
        path, note = self.path / "topology", json.dumps({"application": application, "subtopologies": parts})
        before = path.read_text(encoding="utf-8", errors="replace") if path.exists() else note
        if before != note:
            log.warning(
                "the state folder %s was last used for %s, and is used for %s now: tasks whose changelog is another "
                "one begin anew",
                *(self.path, before[:500], note[:500]),
            )
        _write_whole(path, note)

    def file(self, task: Task) -> Path:
        """The folder of the task's state."""
        return self.path / f"{task}.store"

    def tasks(self) -> list[Task]:
        """Tasks that have a file here."""
        stored = []
        for path in self.path.glob("*_*.store"):
            try:
                stored.append(Task.read(path.stem))
            except BadInput:
                continue
        return sorted(stored)


def _forget() -> None:
    """In a fork: the folders are the first process's, and its locks must die with it, not with the fork."""
    for folder in _ours.values():
        if folder._lock is not None:
            folder._lock.close()
    _ours.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget)


def _locked(path: Path) -> Any:
    """An open file with a lock that ends with the process; None if the system knows no such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Unavailable(f"the state folder {path.parent} is in use by another process; give each its own") from None
    return file


def _write_whole(path: Path, text: str) -> None:
    """Whole or not there, even if the process dies, the disk is full, or others write it meanwhile."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.draft")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def _process_id(path: Path) -> str:
    if not path.exists():
        _write_whole(path, str(uuid.uuid4()))
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not re.fullmatch(r"[0-9a-f-]{36}", text):
        raise BadInput(str(path), repr(text[:40]), "the id that an earlier run wrote; remove the folder to start again")
    return text
