"""Offsets for lag-aware plans, fetched in the background, so that no strategy ever waits for a broker.

    feed = LagFeed("my-group", kafka_offsets(bootstrap_servers="..."), topics=["clicks"]).start()
    KafkaConsumer("clicks", partition_assignment_strategy=[assignor("lag-aware", lag=feed)])

A plan takes the newest answer if it is not too old; else it counts partitions, and the log says why.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from apportion.clients.group.error_sentences import sentence
from apportion.errors import BadInput, MissingExtra, Unavailable
from apportion.sources import nudge_commit

log = logging.getLogger("apportion.clients")

Table = Mapping[str, Mapping[int, Mapping[str, int]]]
"""Topic to partition id to ``begin``, ``end``, ``committed`` (messages; absent: unknown, never committed)."""
Fetch = Callable[[str, Sequence[str], float], Table]
"""Group, topics, deadline in seconds -> offsets. It may wait and raise; it runs in a thread of its own."""


class Sampled(dict[str, Mapping[int, Mapping[str, int]]]):
    """A table of offsets that were true some time before they were fetched.

    age_s
        Topic to the seconds since its oldest offsets were sampled; a topic that is left out was sampled just now.

    >>> Sampled({"clicks": {0: {"end": 9}}}, age_s={"clicks": 30.0}).age_s
    {'clicks': 30.0}
    """

    def __init__(self, table: Table, age_s: Mapping[str, float]) -> None:
        super().__init__(table)
        self.age_s = dict(age_s)


class LagFeed:
    """The newest offsets of a group's topics, fetched again and again by a thread of its own.

    group
        Whose committed offsets.
    fetch
        Where they come from: ``kafka_offsets(...)``, ``folder_offsets(...)``, or a function of yours. If it has a
        ``close``, that is called when the feed ends; it may be asked again after it, by another feed.
    topics
        To be fetched from the start; those of later plans are added by themselves.
    every_s, deadline_s
        Seconds between two fetches, and for one.
    max_age_s
        Offsets that were asked for longer ago, or sampled longer ago where ``fetch`` tells (``Sampled``), are not used.
    """

    def __init__(
        self,
        group: str,
        fetch: Fetch,
        *,
        topics: Iterable[str] = (),
        every_s: float = 10,
        deadline_s: float = 5,
        max_age_s: float = 60,
    ) -> None:
        if isinstance(topics, str):  # which would be taken for a list of letters
            raise BadInput("topics", repr(topics), f"a list of names, [{topics!r}]")
        self.group, self.every_s, self.deadline_s, self.max_age_s = group, every_s, deadline_s, max_age_s
        self._fetch, self._topics = fetch, set(topics)
        self._disconnect: Callable[[], object] = getattr(fetch, "close", lambda: None)
        self._newest: tuple[float, Table] | None = None
        self.on_nudge: Callable[[], bool] | None = None
        """Asked when somebody wants a rebalance (``apportion nudge``): whether it was taken."""
        self._trouble = "nothing was fetched yet"
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"LagFeed({self.group!r}, every_s={self.every_s}, max_age_s={self.max_age_s})"

    def start(self) -> Self:
        """Begin to fetch; again, if the feed was closed."""
        if self._thread is None or self._over.is_set():
            self._wake, self._over = threading.Event(), threading.Event()  # those of a thread that ends are its own
            events, name = (self._wake, self._over), f"lag of {self.group}"
            self._thread = threading.Thread(target=self._run, args=events, name=name, daemon=True)
            self._thread.start()
        return self

    def close(self) -> None:
        """Stop; does not wait for a fetch that is on its way: its thread, if it has one, closes the connections."""
        self._over.set()
        self._wake.set()
        if self._thread is None:
            self._disconnect()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def asked_s(self) -> float | None:
        """``time.monotonic()`` at which the newest offsets were asked for; None if there are none yet."""
        return None if self._newest is None else self._newest[0]

    def table(self, topics: Iterable[str]) -> tuple[Table, str | None]:
        """Offsets of the topics as far as known and fresh, and the missing ones, in words; returns at once."""
        wanted = set(topics)
        if not wanted <= self._topics:
            self._topics |= wanted
            self._wake.set()
        newest = self._newest
        if newest is None:
            return {}, self._trouble
        asked_s, table = newest
        since_s = time.monotonic() - asked_s
        sampled = table.age_s if isinstance(table, Sampled) else {}
        age_s = {topic: since_s + sampled.get(topic, 0.0) for topic in wanted if topic in table}
        old = sorted(topic for topic, age in age_s.items() if age > self.max_age_s)
        if since_s > self.max_age_s or (old and len(old) == len(age_s)):
            why = f" ({self._trouble})" if self._trouble else ""
            least = min(age_s.values(), default=since_s)
            return {}, f"the newest offsets are {least:.0f} s old, at most {self.max_age_s:g} s are allowed{why}"
        missing = sorted(wanted - set(table))
        reasons = [f"no offsets yet of {', '.join(missing)}"] if missing else []
        if old:
            reasons.append(f"those of {', '.join(old)} are more than {self.max_age_s:g} s old")
        return {topic: table[topic] for topic in age_s if topic not in old}, "; ".join(reasons) or None

    def refresh(self) -> bool:
        """Fetch now, in the calling thread; whether it went well. Its trouble is logged and never raised."""
        topics, started = sorted(self._topics), time.monotonic()
        if not topics:
            return False
        try:
            table = self._fetch(self.group, topics, self.deadline_s)
        except Exception as error:
            self._trouble = sentence(error)
            log.warning("the lag of group %r could not be fetched: %s", self.group, self._trouble)
            return False
        if time.monotonic() - started > self.deadline_s:
            log.info("the lag of group %r took %.1f s", self.group, time.monotonic() - started)
        self._newest, self._trouble = (started, table), ""
        if self.on_nudge is not None and (heed := getattr(self._fetch, "heed", None)) is not None:
            heed(self.group, self.on_nudge)
        return True

    def _run(self, wake: threading.Event, over: threading.Event) -> None:
        """Fetch until ``over``; a later start has events of its own."""
        while True:
            # Cleared before ``over`` is looked at: ``close`` sets that one first, so its call is never missed.
            wake.clear()
            if over.is_set():
                break
            self.refresh()
            wake.wait(self.every_s)
        # After a later start its thread fetches with the same client, and will close it.
        if over is self._over:
            self._disconnect()


def kafka_offsets(**settings: Any) -> Fetch:
    """Offsets by kafka-python's admin client: three requests for all topics (one a broker), over one connection.

    settings
        What ``KafkaAdminClient`` takes: ``bootstrap_servers``, ``security_protocol`` ... They are kept out of every
        repr, log and error.
    """
    return _AdminOffsets(settings)


class _AdminOffsets:
    """Offsets by one admin client, made when first asked and after each failure."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._admin: Any = None

    def __call__(self, group: str, topics: Sequence[str], deadline_s: float) -> Table:
        try:
            from kafka import KafkaAdminClient
            from kafka.errors import RetriableError
        except ImportError:
            raise MissingExtra("kafka_offsets", "kafka-python") from None
        until = time.monotonic() + deadline_s
        while True:
            try:
                if self._admin is None:
                    # At DEBUG this client writes its whole configuration to the log, passwords included.
                    logging.getLogger("kafka.admin.client").addFilter(_no_configuration)
                    self._admin = KafkaAdminClient(**{**_patience(deadline_s), **self._settings})
                return _ask(self._admin, group, topics, int(deadline_s * 1000))
            except Exception as error:
                self.close()
                # A coordinator that is just loading, a leader that has just moved: the next moment knows better.
                if not isinstance(error, RetriableError) or time.monotonic() + 0.2 > until:
                    raise
                time.sleep(0.2)

    def heed(self, group: str, on_nudge: Callable[[], bool]) -> None:
        """Look for a nudge of the group, and mark it if ``on_nudge`` takes it; never raises."""
        try:
            nudge = nudge_commit.newest(self._admin, group)
            if nudge is not None and nudge.waits and on_nudge():
                nudge_commit.commit(self._admin, group, nudge.topic, nudge.at_ms, nudge_commit.HEEDED)
        except Exception as error:  # a right that is missing, a broker that is away: the lag is known all the same
            log.debug("nudges of group %r could not be read: %s", group, sentence(error))

    def close(self) -> None:
        """Give back the client, with its thread and its connections; the next call makes another."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


def _no_configuration(record: logging.LogRecord) -> bool:
    return "with configuration" not in str(record.msg)


def _patience(deadline_s: float) -> dict[str, int]:
    """How long the admin client may wait for one request, and for the first broker."""
    return {"request_timeout_ms": int(deadline_s * 1000), "bootstrap_timeout_ms": int(deadline_s * 1000)}


def _ask(admin: Any, group: str, topics: Sequence[str], deadline_ms: int) -> Table:
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec

    parts = [
        TopicPartition(topic["name"], partition["partition_index"])
        for topic in admin.describe_topics(list(topics))
        for partition in topic["partitions"]
    ]
    begin = admin.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.EARLIEST), timeout_ms=deadline_ms)
    end = admin.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.LATEST), timeout_ms=deadline_ms)
    committed = admin.list_group_offsets({group: parts})[group]
    table: dict[str, dict[int, dict[str, int]]] = {}  # no topic without partitions: its offsets are not known
    for part in parts:
        row = {"begin": begin[part].offset, "end": end[part].offset}
        if part in committed and committed[part].offset >= 0:
            row["committed"] = committed[part].offset
        table.setdefault(part.topic, {})[part.partition] = row
    return table


def folder_offsets(folder: str | Path) -> Fetch:
    """Offsets from the pipeline's table ``gold/lag`` (a folder of Parquet files), for groups without a way to ask.

    They are as old as the pipeline's last samples of the logs' ends: the feed's ``max_age_s`` counts from
    ``sampled_at``, by this machine's clock. A table without that column counts as sampled when it is read.
    """
    path = Path(folder)

    def fetch(group: str, topics: Sequence[str], deadline_s: float) -> Table:
        try:
            from pyarrow import dataset  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise MissingExtra("folder_offsets", "spark") from None
        if not path.is_dir():
            raise Unavailable(f"no lag table: {path} is no folder; needed the pipeline's gold/lag.")
        lags = dataset.dataset(path, format="parquet")
        columns = ["topic", "partition", "begin", "end", "committed"]
        rows = lags.to_table(
            columns=[*columns, "sampled_at"] if "sampled_at" in lags.schema.names else columns,
            filter=(dataset.field("group") == group) & dataset.field("topic").isin(list(topics)),
        )
        table: dict[str, dict[int, dict[str, int]]] = {}
        age_s: dict[str, float] = {}
        now = datetime.now(UTC)
        for row in rows.to_pylist():
            known = {name: row[name] for name in ("begin", "end", "committed") if row[name] is not None}
            table.setdefault(row["topic"], {})[row["partition"]] = known
            if (at := row.get("sampled_at")) is not None:  # null: no ends are known, so nothing can be stale
                passed = now - (at if at.tzinfo else at.replace(tzinfo=UTC))
                age_s[row["topic"]] = max(passed.total_seconds(), age_s.get(row["topic"], 0.0))
        return Sampled(table, age_s)

    return fetch
