"""What the members of all clients share: their settings, words in and out, and when they commit."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

Config = Mapping[str, Any]


class Teller:
    """Writes events; one line each, at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        """One line."""
        line = json.dumps({"at": time.time(), "event": event, "member": self.name, **fields})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class Orders:
    """Lines of standard input, ``leave`` at its end."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.put(line.strip())
        self._lines.put("leave")

    def next(self) -> str:
        """The oldest that was not taken yet; "" where there is none."""
        try:
            return self._lines.get_nowait()
        except queue.Empty:
            return ""


class Done:
    """What was read and not yet committed, by an application that works on a record for ``work_ms`` after reading it.

    What is in work when a partition is revoked is not done: whoever gets the partition reads it again.
    """

    def __init__(self, config: Config, tell: Teller) -> None:
        self._every_s, self._work_s = config.get("commit_ms", 0) / 1000, config.get("work_ms", 0) / 1000
        self._tell = tell
        self._next = 0.0
        self._read: dict[Any, list[tuple[float, int]]] = {}

    def read(self, partition: Any, records: Sequence[Any]) -> None:
        """Note one batch."""
        fields = {"first": records[0].offset, "last": records[-1].offset}
        self._tell("read", topic=partition.topic, partition=partition.partition, **fields)
        self._read.setdefault(partition, []).append((time.monotonic(), records[-1].offset + 1))

    def forget(self, partitions: Iterable[Any]) -> None:
        """They go to somebody else."""
        for partition in partitions:
            self._read.pop(partition, None)

    def handed_over(self, partitions: Iterable[Any]) -> dict[Any, int]:
        """What is done of these, to be committed now; nothing of them is ours any more."""
        mine = [partition for partition in partitions if partition in self._read]
        offsets = self._done(mine, self._work_s) if self._every_s > 0 else {}
        self.forget(mine)
        return offsets

    def due(self, held: Iterable[Any], *, last: bool = False) -> dict[Any, int]:
        """What to commit now, by partition, if it is time; with ``last`` all, since the work is finished first.

        held
            The member's partitions. A client may still give out a batch of one that was just revoked; a commit that
            names it would be refused whole.
        """
        mine = set(held)
        self.forget([partition for partition in self._read if partition not in mine])
        if self._every_s < 0 or (not last and time.monotonic() < self._next):
            return {}
        return self._done(list(self._read), 0 if last else self._work_s)

    def _done(self, partitions: Iterable[Any], work_s: float) -> dict[Any, int]:
        until = time.monotonic() - work_s
        finished = {part: [offset for at, offset in self._read[part] if at <= until] for part in partitions}
        return {part: offsets[-1] for part, offsets in finished.items() if offsets}

    def committed(self, offsets: Mapping[Any, int]) -> None:
        """These are safe; what was refused instead stays due, and is tried again after the next poll."""
        self._next = time.monotonic() + self._every_s
        for partition, offset in offsets.items():
            if partition in self._read:
                self._read[partition] = [one for one in self._read[partition] if one[1] > offset]
        self._tell("committed", offsets={f"{part.topic}-{part.partition}": at for part, at in offsets.items()})


def consumer_settings(config: Config, name: str) -> dict[str, Any]:
    """Arguments that kafka-python and aiokafka call by the same names."""
    session_ms = config.get("session_ms", 6000)
    return {
        "bootstrap_servers": config["bootstrap"].split(","),
        "group_id": config["group"],
        "client_id": name,
        "group_instance_id": config.get("instance"),
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": config.get("beat_ms", session_ms // 5),
        "metadata_max_age_ms": config.get("metadata_ms", 1000),
    }


def options(config: Config, tell: Teller) -> dict[str, Any]:
    """Keyword arguments of our ``assignor()``."""
    lag = None
    if config.get("lag"):
        feeds = import_module("apportion.clients.lag_feed")
        fetch = feeds.kafka_offsets(bootstrap_servers=config["bootstrap"], **config.get("admin", {}))
        lag = feeds.LagFeed(config["group"], fetch, topics=config["topics"], every_s=config.get("lag_s", 10))
        lag.refresh()
        lag.start()
    return {
        "lag": lag,
        "rack": config.get("rack"),
        "priority": config.get("priority"),
        **({"acting": import_module("apportion.clients").Acting(**config["acting"])} if "acting" in config else {}),
        "facts": config.get("facts"),
        "on_plan": lambda rebalance: tell("planned", **rebalance.to_dict(), **_shares(config, rebalance)),
        **config.get("settings", {}),
    }


def _shares(config: Config, rebalance: Any) -> dict[str, Any]:
    """What each member is given this round, where the test asks for it."""
    return {"assignment": rebalance.assignment} if config.get("plans") and rebalance.plan is not None else {}


def strategies(config: Config, tell: Teller, adapter: str, plain: Iterable[Any]) -> list[Any]:
    """Ours, or where the member is ``plain`` the client's own of the same names."""
    names = config.get("strategies", ["sticky"])
    if config.get("plain"):
        own = {kind.name: kind for kind in plain}
        return [own[name] for name in names]
    return [ours(adapter).assignor(name, **options(config, tell)) for name in names]


def ours(module: str) -> Any:
    """An adapter; by name, since packages in one layer do not import each other."""
    return import_module(f"apportion.clients.{module}")


def by_topic(partitions: Iterable[Any]) -> dict[str, list[int]]:
    """Topic to ascending ids."""
    ids_of: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        ids_of.setdefault(topic, []).append(partition)
    return ids_of
