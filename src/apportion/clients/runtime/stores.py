"""Local state of one task: keys and values, of which changelog they are, and how much of it is in them.

A store of your own needs the three methods and three attributes of ``Store``. ``SqliteStore`` is the default: one file
a task, everything that belongs together in one transaction, so that after ``kill -9`` a restart restores only the tail.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from apportion.errors import Unavailable

log = logging.getLogger("apportion.clients")

Changes = Mapping[bytes, bytes | None]
"""Key to its new value; None takes the key away."""


class StoreOrigin(NamedTuple):
    """Which changelog a store's content is of: a task's number alone may come to mean another one.

    changelog, topic_id
        Its name, and its id as Kafka prints it; "" where unknown.
    whole_ms
        The newest moment (Unix milliseconds) at which the store is known to have missed nothing: of its last record,
        or when its task began to run; -1 unknown. Later deletions are forgotten after ``delete.retention.ms``.
    """

    changelog: str = ""
    topic_id: str = ""
    whole_ms: int = -1


class Store(Protocol):
    """One task's state.

    position
        The changelog offset that comes next: everything before it is in the store.
    epoch
        The highest epoch of a writer that was seen in the changelog; records of a lower one come from a member that
        did not know that it was replaced.
    origin
        The last that ``apply`` was given.
    """

    position: int
    epoch: int
    origin: StoreOrigin

    def get(self, key: bytes) -> bytes | None:
        """The value; None if there is none."""
        ...

    def apply(self, changes: Changes, position: int, epoch: int, origin: StoreOrigin | None = None) -> None:
        """All changes together with the new position, epoch and origin (None: as it was), or nothing."""
        ...

    def close(self) -> None:
        """Let go of the file; nothing is written."""
        ...


_UNREADABLE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's codes of a file that stays unreadable, however often it is tried."""
Open = Callable[[Path], Store]
"""Opens or makes the store at a path; what cannot be read there is put away and begun anew."""


class SqliteStore:
    """A store in one SQLite file, durable at each ``apply`` against the death of the process.

    A file that SQLite cannot read is removed: the changelog brings its content back. Where that shows only later, in a
    page that was not looked at before, the file goes too, and the next start restores it.

    Raises
        Unavailable then; sqlite3's errors for all that may pass, such as a full disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._open()
        except sqlite3.OperationalError:
            raise  # locked, a full disk, no permission: the state is there all the same
        except sqlite3.DatabaseError as error:
            self._remove()
            log.warning("the state in %s cannot be read (%s); it is restored from the changelog", path, error)
            self._open()

    def _open(self) -> None:
        # The runtime calls from one thread at a time, but not always from the one that opened.
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS state (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS changelog (one INTEGER PRIMARY KEY, position INTEGER, epoch INTEGER, "
            "name TEXT, topic_id TEXT, whole_ms INTEGER)"
        )
        columns = [row[1] for row in self._db.execute("PRAGMA table_info(changelog)")]
        for column in {"name", "topic_id", "whole_ms"} - set(columns):  # a file of an earlier version has none of them
            self._db.execute(f"ALTER TABLE changelog ADD COLUMN {column}")
        self._db.execute("INSERT OR IGNORE INTO changelog VALUES (1, 0, 0, '', '', -1)")
        row = self._db.execute("SELECT position, epoch, name, topic_id, whole_ms FROM changelog").fetchone()
        self.position, self.epoch = row[:2]
        self.origin = StoreOrigin(row[2] or "", row[3] or "", -1 if row[4] is None else row[4])

    def get(self, key: bytes) -> bytes | None:
        """One look-up by primary key."""
        try:
            row = self._db.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
        except sqlite3.DatabaseError as error:
            self._remove_if_unreadable(error)
            raise
        return None if row is None else bytes(row[0])

    def apply(self, changes: Changes, position: int, epoch: int, origin: StoreOrigin | None = None) -> None:
        """One transaction."""
        origin = origin or self.origin
        present = [(key, value) for key, value in changes.items() if value is not None]
        gone = [(key,) for key, value in changes.items() if value is None]
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", present)
            self._db.executemany("DELETE FROM state WHERE key = ?", gone)
            self._db.execute(
                "UPDATE changelog SET position = ?, epoch = ?, name = ?, topic_id = ?, whole_ms = ?",
                (position, epoch, *origin),
            )
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:  # SQLite itself rolls back where the disk is full
                self._db.execute("ROLLBACK")
            self._remove_if_unreadable(error)
            raise
        self.position, self.epoch, self.origin = position, epoch, origin

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _remove(self) -> None:
        """Close, and take away the file with those that SQLite keeps next to it."""
        self._db.close()
        for piece in (self.path, *self.path.parent.glob(f"{self.path.name}-*")):
            piece.unlink(missing_ok=True)

    def _remove_if_unreadable(self, error: BaseException) -> None:
        """Else every later start would open the file, and fail at the same page.

        Raises
            Unavailable where it was removed.
        """
        # The low byte is SQLite's code, the rest says more of it; other errors have none.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNREADABLE:
            return
        self._remove()
        raise Unavailable(
            f"the state in {self.path} cannot be read ({error}); the file is removed, and the changelog brings its "
            "content back: close the runner and start it again"
        ) from error

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Everything, by key; more than the runtime needs."""
        yield from self._db.execute("SELECT key, value FROM state ORDER BY key")


class NoStore:
    """The store of a task without state."""

    position = epoch = 0
    origin = StoreOrigin()

    def get(self, key: bytes) -> bytes | None:
        """Nothing."""
        return None

    def apply(self, changes: Changes, position: int, epoch: int, origin: StoreOrigin | None = None) -> None:
        """Nothing: a task without a changelog may change nothing."""

    def close(self) -> None:
        """Nothing."""


class State:
    """A task's view of its store: it reads its own writes, which reach the store when the runtime commits.

    changes
        Writes that no commit has taken up yet.
    sent
        Writes of a commit that the brokers have not answered yet.
    size
        Bytes of keys and values that were put since the last commit.
    store
        What is committed alone.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.changes: dict[bytes, bytes | None] = {}
        self.sent: dict[bytes, bytes | None] = {}
        self.size = 0

    def get(self, key: bytes) -> bytes | None:
        """The newest value."""
        for writes in (self.changes, self.sent):
            if key in writes:
                return writes[key]
        return self.store.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set or, with None, take away; an empty key is refused, since a compacted topic has none.

        Raises
            ValueError for an empty key.
        """
        if not key:
            raise ValueError("a key of a changelog needs at least one byte")
        self.changes[key] = value
        self.size += len(key) + len(value or b"")
