"""What a member knows of one number: open impressions, clicks, rows given out; in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from examples.ads_join.traffic import GRACE_MS, WINDOW_MS

TABLES = """
CREATE TABLE IF NOT EXISTS impressions (auction TEXT PRIMARY KEY, at INTEGER);
CREATE TABLE IF NOT EXISTS clicks (click TEXT PRIMARY KEY, auction TEXT, at INTEGER);
CREATE INDEX IF NOT EXISTS clicks_of ON clicks (auction);
CREATE TABLE IF NOT EXISTS given (click TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS progress (topic TEXT PRIMARY KEY, next INTEGER, seen_ms INTEGER);
"""


class JoinState:
    """The join of one number. Nothing is kept until ``keep``: state, rows given out and offsets go together."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + TABLES)
        self._db.execute("BEGIN")

    def next_offset(self, topic: str) -> int:
        """Where to read on; 0 at the very first."""
        found = self._db.execute("SELECT next FROM progress WHERE topic = ?", (topic,)).fetchone()
        return int(found[0]) if found else 0

    def was_given(self, record: Any) -> None:
        """A row that stands in the output already, whoever wrote it."""
        self._db.execute("INSERT OR IGNORE INTO given VALUES (?)", (json.loads(record.value)["click"],))
        self._note(record, 0)

    def take(self, record: Any) -> list[dict[str, Any]]:
        """Take an impression or a click; returns the rows that it completes and that nobody gave out yet."""
        said = json.loads(record.value)
        self._note(record, said["at"])
        if record.topic == "impressions":
            self._db.execute("INSERT OR IGNORE INTO impressions VALUES (?, ?)", (said["auction"], said["at"]))
            query = "SELECT click, auction, at FROM clicks WHERE auction = ?"
            pairs = [(said, click) for click in self._db.execute(query, (said["auction"],)).fetchall()]
        else:
            click = (said["click"], said["auction"], said["at"])
            self._db.execute("INSERT OR IGNORE INTO clicks VALUES (?, ?, ?)", click)
            query = "SELECT at FROM impressions WHERE auction = ?"
            found = self._db.execute(query, (said["auction"],)).fetchall()
            pairs = [({"auction": said["auction"], "at": at}, click) for (at,) in found]
        return [made for shown, click in pairs if (made := self._match(shown, click))]

    def keep(self) -> None:
        """One transaction for all since the last; what no further record can match is forgotten."""
        oldest = self._db.execute(
            "SELECT min(seen_ms) FROM progress WHERE topic IN ('impressions', 'clicks')"
        ).fetchone()
        both = self._db.execute("SELECT count(*) FROM progress WHERE topic IN ('impressions', 'clicks')").fetchone()
        if both[0] == 2:
            self._db.execute("DELETE FROM impressions WHERE at < ?", (oldest[0] - GRACE_MS - WINDOW_MS,))
            self._db.execute("DELETE FROM clicks WHERE at < ?", (oldest[0] - GRACE_MS,))
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Let go; what was not kept is read again."""
        self._db.execute("ROLLBACK")
        self._db.close()

    def _match(self, shown: dict[str, Any], click: tuple[str, str, int]) -> dict[str, Any] | None:
        name, auction, at = click
        if not 0 <= at - shown["at"] <= WINDOW_MS:
            return None
        if not self._db.execute("INSERT OR IGNORE INTO given VALUES (?)", (name,)).rowcount:
            return None
        return {"click": name, "auction": auction, "impression_at": shown["at"], "click_at": at}

    def _note(self, record: Any, at_ms: int) -> None:
        update = "ON CONFLICT DO UPDATE SET next = excluded.next, seen_ms = max(seen_ms, excluded.seen_ms)"
        self._db.execute(
            f"INSERT INTO progress VALUES (?, ?, ?) {update}",  # noqa: S608 - a constant
            (record.topic, record.offset + 1, at_ms),
        )
