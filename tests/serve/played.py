"""A server in this process whose cluster is made up: rounds are played to its collector, and its answers asked for.

Its clock is ours, so that what it answers is the same on every machine and day; ``golden`` holds it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.golden import line, of_fields, of_page

from apportion.errors import ApportionError
from apportion.serve import collector as collecting
from apportion.serve.access import Access
from apportion.serve.answers import Answers
from apportion.serve.app import Server
from apportion.serve.collector import Collector
from apportion.serve.settings import ServerSettings
from apportion.sources import group_descriptions, tasks_and_shares
from apportion.sources.cluster_round import DescribedGroup, Round, TopicLog
from apportion.sources.config import Connection
from apportion.sources.log_tails import Place, Tail
from apportion.sources.properties import Properties

PATIENCE_S = 10.0
START = 1_795_272_800.0
Log = Sequence[tuple[int, int]]
"""Begin and end of each partition's log."""


class Played:
    """One server; ``text`` is all that was asked for and answered, in order."""

    def __init__(
        self, patch: pytest.MonkeyPatch, settings: ServerSettings, access: Access | None = None, local: bool = True
    ) -> None:
        self.now, self.text, self.cluster = START, "", object()
        self._usual: dict[str, str] = {}
        self.found: Mapping[Place, Tail] | ApportionError = {}
        self._round: Round | ApportionError = Round()
        patch.setattr(time, "time", lambda: self.now)
        patch.setattr(collecting, "look", self._look)
        patch.setattr(collecting, "tails", self._tails)
        patch.setattr(collecting, "connect", self._connect)
        patch.setattr(logging.getLogger("apportion.serve"), "handlers", [_Said(self)])
        patch.setattr(logging.getLogger("apportion.serve"), "propagate", False)
        self.collector = Collector(settings, Connection("broker-1:9092", Properties()))
        self.answers = Answers(self.collector)
        self.server = Server(self.answers, Access() if access is None else access, local)

    @contextmanager
    def _connect(self, bootstrap: str, _: Properties) -> Iterator[object]:
        self.say(f"-- connected to {bootstrap}")
        yield self.cluster
        self.say("-- the connection is closed")

    def _look(self, cluster: object, _: object) -> Round:
        assert cluster is self.cluster
        if isinstance(self._round, ApportionError):
            raise self._round
        self.now += 0.5
        return self._round

    def _tails(self, cluster: object, places: Mapping[Place, int]) -> Mapping[Place, Tail]:
        assert cluster is self.cluster
        self.say(f"-- the ends of logs are looked at: {line(sorted((*at, first) for at, first in places.items()))}")
        if isinstance(self.found, ApportionError):
            raise self.found
        return {place: tail for place, tail in self.found.items() if place in places}

    def say(self, words: str) -> None:
        """A line of the text."""
        self.text += words + "\n"

    def round(
        self, groups: Iterable[DescribedGroup] = (), topics: Mapping[str, TopicLog] = {}, after: float = 10, **more: Any
    ) -> None:
        """So many seconds later a round that sees these."""
        self.now += after - 0.5
        known = {"cluster_id": "a-cluster", "brokers": 3, "requests": 7, **more}
        self._round = Round(at=self.now, ended=self.now + 0.25, topics=dict(topics), **known)
        self._round.groups = {one.name: one for one in groups}
        self.collector.round()
        self.say(f"== round {self.collector.snapshot.number}, {self.now - START:g} s after the start")

    def failed(self, why: ApportionError, after: float = 10) -> None:
        """So many seconds later a round that tells nothing."""
        self.now += after
        self._round = why
        self.collector.round()
        self.say(f"== round {self.collector.snapshot.number}, {self.now - START:g} s after the start, failed")

    def get(self, path: str, method: str = "GET", **headers: str) -> None:
        """One answer: its status, what its headers have that those of the first answer do not, and what it says."""
        asked = {"host": "localhost:9308", **{name.replace("_", "-"): value for name, value in headers.items()}}
        status, back, body = asyncio.run(request(self.server.app, path, method, asked))
        shown = " ".join(f"{name}={value}" for name, value in headers.items())
        self.say(f"-> {method} {path} {shown}".rstrip())
        self.say(f"{status}")
        packed = ("content-encoding", "gzip") in back
        if packed:
            self.say(f"gzip of the time {int.from_bytes(body[4:8], 'little')}, as quick as {body[8]}")
        headers_now = {
            name: "that of the body" if name == "content-length" and int(value) == len(body) else value
            for name, value in back
        }
        for name, value in headers_now.items():
            if self._usual.get(name) != value:
                self.say(f"{name}: {re.sub('sha256-[^ ;]+', 'sha256-...', value)}")
        self.text += "".join(f"without {name}\n" for name in self._usual if name not in headers_now)
        self._usual = self._usual or headers_now
        self.text += told(gzip.decompress(body) if packed else body, dict(back).get("content-type", ""))

    async def watch(
        self, path: str, rounds: Sequence[Callable[[], None]], events: Sequence[int], **headers: str
    ) -> None:
        """A stream: so many events before the first round, and so many of each."""
        found: list[bytes] = []
        gone = asyncio.Event()
        self.server.hub.attach()
        asked = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
        watching = asyncio.create_task(
            request(self.server.app, path, "GET", asked, gone, lambda piece: found.append(piece))
        )
        self.say(f"-> GET {path} {headers or ''}".rstrip())
        for play, many in zip([lambda: None, *rounds], events, strict=True):
            before, end = len(found), time.monotonic() + PATIENCE_S
            play()
            while b"".join(found[before:]).count(b"\n\n") < many and time.monotonic() < end:
                await asyncio.sleep(0.005)
            self.say(b"".join(found[before:]).decode() + f"-- {self.server.hub.viewers} watch")
        gone.set()
        status, back, _ = await watching
        self.say(f"{status} {back[:3]}, {self.server.hub.viewers} watch")

    def drawn(self, name: str) -> None:
        """One group as the page draws it, without the plans of strategies, which have tests of their own."""
        event = self.answers.group_event(name)
        self.say(f"-> pictures of {name}")
        if event is None:
            self.say("none")
            return
        head, _, data = event.partition(b"\ndata: ")
        data_of = json.loads(data)
        data_of["plans"] = [plan["assignor"] for plan in data_of["plans"]]
        self.say("\n".join([head.decode(), *of_fields(data_of)]))


class _Said(logging.Handler):
    """Lines of the log among the others."""

    def __init__(self, played: Played) -> None:
        super().__init__(logging.INFO)
        self._played = played

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        self._played.say(f"log: {record.getMessage()}")


async def request(
    app: Any,
    path: str,
    method: str = "GET",
    headers: Mapping[str, str] = {},
    gone: asyncio.Event | None = None,
    arrived: Callable[[bytes], None] | None = None,
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Ask an ASGI application: status, headers, body; ``arrived`` takes pieces of an endless one until ``gone``."""
    where, _, query = path.partition("?")
    messages: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": method, "path": where, "raw_path": where.encode(), "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 9308),
        "client": ("127.0.0.1", 50000), "asgi": {"version": "3.0"},
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        await (asyncio.sleep(3600) if gone is None else gone.wait())  # for ever: it is cancelled
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)
        if arrived is not None:
            arrived(message.get("body", b""))

    await app(scope, receive, send)
    [start] = [one for one in messages if one["type"] == "http.response.start"]
    body = b"".join(one.get("body", b"") for one in messages if one["type"] == "http.response.body")
    return start["status"], [(name.decode(), value.decode()) for name, value in start["headers"]], body


def told(body: bytes, kind: str) -> str:
    """A body as the file holds it: JSON and pages a field a line, two series of each metric but this process's own."""
    text = body.decode()
    if kind == "application/json":
        return "".join(f"{one}\n" for one in of_fields(json.loads(text)))
    if kind.startswith("text/html"):
        return of_page(text)
    shown, of_family = [], Counter[str]()
    for one in text.splitlines():
        family = re.split(r"[{ ]", one)[0]
        of_family[family] += not one.startswith("#")
        if not re.match(r"(# \w+ )?(process|python)_", one) and of_family[family] <= 2:
            shown.append(f"{one}\n")
    return "".join(shown)


def topic(logs: Log, topic_id: str | None = None, racks: Sequence[Sequence[str]] | None = None) -> TopicLog:
    """A topic whose partitions are numbered from 0."""
    begin, end = (np.array(side, dtype=np.int64) for side in zip(*logs, strict=True))
    return TopicLog(topic_id, np.arange(len(logs)), begin, end, tuple(map(tuple, racks or [()] * len(logs))))


Owned = Mapping[str, Sequence[int]]


def grown(log: TopicLog, *by: int) -> TopicLog:
    """The topic with more messages."""
    return replace(log, end=log.end + np.array(by, dtype=np.int64))


def classic(
    name: str, members: Mapping[str, Owned], committed: Mapping[tuple[str, int], int], *, wants: Sequence[str] = (),
    state: str = "Stable", assignor: str | None = "range", kind: str = "classic", **fields: Any,
) -> DescribedGroup:  # fmt: skip
    """A classic group: member to what it owns, ``client/rest`` its id; a name with a ``!`` is static."""
    found = {}
    for number, (member, owned) in enumerate(members.items()):
        client, _, rest = member.partition("/")
        static = rest.endswith("!")
        found[f"{client}-{rest}".rstrip("!")] = {
            "instance_id": rest.rstrip("!") if static else None, "client_id": client, "host": f"/10.0.0.{number + 1}",
            "rack": "abc"[number % 3], "topics": sorted({*wants, *owned}),
            "owned": {t: list(p) for t, p in owned.items()},
        }  # fmt: skip
    topics = {*wants, *(topic for owned in members.values() for topic in owned)}
    facts = {
        "state": state,
        "protocol": kind,
        "assignor": assignor,
        "generation": None,
        "notes": [],
        "assigned_data": [],
    }
    return DescribedGroup(name, "broker-1:9092 (1)", {**facts, "members": found, "wanted": topics, **fields}, committed)


def consumer(
    name: str, epoch: int, members: Mapping[str, Owned], committed: Mapping[tuple[str, int], int],
    ids: Mapping[str, Any], due: Mapping[str, Owned] | None = None, **more: Any,
) -> DescribedGroup:  # fmt: skip
    """A group of the new protocol, from what its coordinator answers."""

    def held(owned: Owned) -> dict[str, Any]:
        return {
            "topic_partitions": [{"topic_name": t, "topic_id": ids[t], "partitions": list(p)} for t, p in owned.items()]
        }

    rows = [
        {
            "member_id": member, "instance_id": None, "client_id": f"cli-{member}", "client_host": "/10.1.0.1",
            "rack_id": None, "subscribed_topic_names": sorted(ids), "subscribed_topic_regex": None,
            "assignment": held(owned), "target_assignment": held((due or members)[member]), "member_type": 1,
        }
        for member, owned in members.items()
    ]  # fmt: skip
    group = {"group_id": name, "group_state": "Stable", "assignor_name": "uniform", "group_epoch": epoch,
             "assignment_epoch": epoch, "members": rows, **more}  # fmt: skip
    return DescribedGroup(name, "broker-2:9092 (2)", group_descriptions.consumer_facts(group), committed)


def streams(name: str, epoch: int, members: Mapping[str, Sequence[Sequence[int]]]) -> DescribedGroup:
    """A streams group of one sub-topology that reads ``clicks``: member to its active, standby and warm-up tasks."""

    def tasks(of: Sequence[Sequence[int]]) -> dict[str, Any]:
        names = ("active_tasks", "standby_tasks", "warmup_tasks")
        return {
            n: [{"subtopology_id": "0", "partitions": list(p)}] if p else [] for n, p in zip(names, of, strict=True)
        }

    rows = [
        {
            "member_id": member, "instance_id": None, "client_id": f"app-{member}", "client_host": "/10.2.0.1",
            "rack_id": None, "process_id": f"process-{member[0]}", "assignment": tasks(of),
            "target_assignment": tasks(of),
        }
        for member, of in members.items()
    ]  # fmt: skip
    reads = {"subtopology_id": "0", "source_topics": ["clicks"], "repartition_source_topics": [],
             "state_changelog_topics": [{"name": "counts"}]}  # fmt: skip
    group = {"group_id": name, "group_state": "Stable", "group_epoch": epoch, "assignment_epoch": epoch,
             "topology": {"epoch": 0, "subtopologies": [reads]}, "members": rows}  # fmt: skip
    return DescribedGroup(name, "broker-3:9092 (3)", tasks_and_shares.facts("streams", group), {})


def share(name: str, members: Mapping[str, Owned]) -> DescribedGroup:
    """A share group: member to what it shares."""
    rows = [
        {
            "member_id": member, "client_id": f"job-{member}", "client_host": "/10.3.0.1", "rack_id": None,
            "subscribed_topic_names": sorted(held),
            "assignment": {
                "topic_partitions": [{"topic_name": t, "topic_id": t, "partitions": list(p)} for t, p in held.items()]
            },
        }
        for member, held in members.items()
    ]  # fmt: skip
    group = {"group_id": name, "group_state": "Stable", "assignor_name": "simple", "group_epoch": 4, "members": rows}
    return DescribedGroup(name, "broker-3:9092 (3)", tasks_and_shares.facts("share", group), {})


def offsets(topic: str, *committed: int) -> dict[tuple[str, int], int]:
    """What is committed of a topic's first partitions; below zero nothing."""
    return {(topic, p): offset for p, offset in enumerate(committed) if offset >= 0}
