"""What is played to a server, scene by scene: ``golden/NAME.txt`` holds all that it answered."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from tests.serve.played import Played, classic, consumer, grown, offsets, share, streams, topic

from apportion.demo import dump
from apportion.errors import Unavailable
from apportion.history.records import SHARE, STREAMS
from apportion.inputs.cluster_round import DescribedGroup, TopicLog
from apportion.inputs.described_group import Observed
from apportion.inputs.load_history import groups_in_folder
from apportion.inputs.log_tails import Tail
from apportion.inputs.offsets_tail import TailRecord
from apportion.serve import app
from apportion.serve.access import Access
from apportion.serve.settings import ServerSettings

IDS = {name: uuid.UUID(int=number) for number, name in enumerate(("clicks", "orders"), 1)}
CLICKS = topic([(0, 100), (0, 90), (5, 80), (0, 70)], "AAAAAAAAAAAAAAAAAAAAAQ", ["ab", "bc", "ca", "ab"])
ORDERS = topic([(0, 5000), (40, 60)], "AAAAAAAAAAAAAAAAAAAAAg")
ODD = topic([(0, 3), (0, -1)])
TOPICS = {"clicks": CLICKS, "orders": ORDERS, 'a"b\\c\nd{e="f"} é': ODD}
EVEN = {"app/1-aa": {"clicks": [0, 1]}, "app/2-bb": {"clicks": [2, 3]}}


def of_all_kinds() -> list[DescribedGroup]:
    """A group of each kind, and two with strange names or without members."""
    return [
        classic("shop", EVEN, offsets("clicks", 90, 90, 2, -1), wants=["clicks"]),
        consumer("next", 5, {"n1": {"clicks": [0, 1, 2, 3]}, "n2": {"orders": [0, 1]}},
                 {**offsets("clicks", 100, 90, 80, 69), **offsets("orders", 10, 60)}, IDS),
        streams("enrich", 3, {"a1": ([0, 1], [2], []), "b1": ([2, 3], [0], [1])}),
        share("workers", {"w1": {"orders": [0, 1]}, "w2": {"orders": [0]}}),
        classic("nightly", {}, offsets("orders", 4000, 60), state="Empty", assignor=None),
        classic("export", {}, offsets("clicks", 1, 2), state="Empty", assignor=None, kind="simple"),
        classic('a"b\\c\nd{e="f"} é', {'x"/y': {"clicks": [0]}, "x/z": {"clicks": [0, 1, 2, 3]}},
                {('a"b\\c\nd{e="f"} é', 0): 1, **offsets("clicks", 100, 200)}),
    ]  # fmt: skip


def first_round(patch: pytest.MonkeyPatch) -> str:
    """Every path before and after the first round, without personal data."""
    played = Played(patch, ServerSettings(tail=False))
    for path in ("/readyz", "/healthz", "/metrics", "/api/v1/groups", "/", "/nowhere", "/api/v1/groups/shop"):
        played.get(path)
    played.round(of_all_kinds(), TOPICS)
    for path in ("/readyz", "/healthz", "/metrics", "/api/v1/groups", "/", "/api/v1/switch"):
        played.get(path)
    played.get("/api/v1/groups/shop")
    played.get("/api/v1/groups/shpo")
    played.get('/api/v1/groups/a"b\\c\nd{e="f"} é')
    for name in ("shop", "next", "enrich", "workers", "nightly"):
        played.drawn(name)
    played.drawn("shpo")
    return played.text


def changes(patch: pytest.MonkeyPatch) -> str:
    """Rounds in which groups read on, members come, a topic is made anew, a group goes, and brokers do not answer."""
    played = Played(
        patch, ServerSettings(tail=False, names="all", personal=True, cluster_name='c"1', capacity=2.0, catch_up_s=60)
    )
    clicks, orders = CLICKS, ORDERS
    shop: dict[str, Any] = dict(EVEN)
    reads = [90, 90, 2, 0]
    before = None

    def seen(*more: DescribedGroup, without: str = "", **about: Any) -> None:
        groups = [classic("shop", shop, offsets("clicks", *reads), wants=["clicks"]),
                  classic("nightly", {}, offsets("orders", 4000, 58), state="Empty", assignor=None), *more]  # fmt: skip
        played.round([one for one in groups if one.name != without], {"clicks": clicks, "orders": orders}, **about)

    def event() -> None:
        nonlocal before
        text, before = played.answers.event(before)
        played.say(text.decode())

    seen(
        consumer(
            "next",
            5,
            {"n1": {"clicks": [0, 1]}, "n2": {"clicks": [2, 3]}},
            offsets("clicks", 99, 88, 70, 70),
            {"clicks": IDS["clicks"]},
        )
    )
    event()
    for turn in range(3):
        clicks, orders = grown(clicks, 10, 5, 20, 0), grown(orders, 30, 0)
        reads = [reads[0] + 8, reads[1] + 5, reads[2] + 20 * turn, reads[3]]
        if turn == 1:
            shop = {"app/1-aa": {"clicks": [0]}, "app/2-bb": {"clicks": [2, 3]}, "new/3-cc!": {"clicks": [1]}}
        seen(
            consumer(
                "next",
                5 + turn,
                {"n1": {"clicks": [0, 1, 2]}, "n2": {"clicks": [3]}},
                offsets("clicks", 100, 88, 75, 70),
                {"clicks": IDS["clicks"]},
            )
        )
        event()
    played.get("/metrics", accept_encoding="gzip")
    played.get("/api/v1/groups")
    played.drawn("shop")
    played.drawn("nightly")
    played.get("/api/v1/groups/shop")
    seen(
        unknown={"next": "its coordinator is loading"},
        troubles=["Broker 2 told no log ends: it is away."],
        silent=frozenset({2}),
        away=frozenset({2}),
        leaders={0: (1, 0), 1: (2, 1), 2: (-1, 3)},
    )
    event()
    clicks = replace(topic([(0, 5), (0, 5), (0, 5), (0, 5)], "AAAAAAAAAAAAAAAAAAAAZZ"), racks=CLICKS.racks)
    seen(unknown={"late": "this user may not describe it"}, without="nightly")
    played.say(f"pasts: {[(name, state.past.name) for name, state in played.collector.snapshot.groups.items()]}")
    event()
    played.failed(Unavailable("No broker answers at broker-1:9092: Connection refused."))
    event()
    for path in ("/readyz", "/api/v1/groups", "/metrics"):
        played.get(path)
    seen(without="nightly", after=400)
    event()
    seen(without="nightly", after=20)
    event()
    played.get("/api/v1/groups")
    played.drawn("nightly")
    played.get("/api/v1/switch")
    played.now += 100
    played.get("/metrics")
    seen(without="nightly", after=3700)
    played.get("/api/v1/groups")
    played.get("/metrics")
    return played.text


def records_of_two(patch: pytest.MonkeyPatch) -> str:
    """A cooperative group, and one that rebalances again and again."""
    return records(patch, "feed-cooperative", "fraud-storm")


def records_of_others(patch: pytest.MonkeyPatch) -> str:
    """Static members, racks, a topic that grows, and a group of the new protocol."""
    return records(patch, "stock-static", "near-racks", "inventory-grows", "profiles-kip848")


def records(patch: pytest.MonkeyPatch, *names: str) -> str:
    """The records of the demo's cluster come down the topic, and its groups are described as they ended."""
    played = Played(patch, ServerSettings(personal=True, names="apportion"))
    tail = played.collector._tail
    assert tail is not None
    tail.trouble = ""
    groups, topics = recorded()
    chosen = [one for one in groups if one.name in names]
    played.round(chosen, topics)
    batch = list(raw_records())
    played.collector._take(batch[: len(batch) // 2])
    played.round(chosen, topics)
    played.collector._take(
        [*batch[len(batch) // 2 :], TailRecord(0, 1, 1, b"\x00", b""), TailRecord(0, 2, 1, None, b"")]
    )
    tail.trouble = "this user may not read it"
    played.round(chosen, topics)
    played.get("/metrics")
    played.get("/api/v1/groups")
    for one in chosen:
        played.drawn(one.name)
    return played.text


def seeded(patch: pytest.MonkeyPatch) -> str:
    """A past that somebody kept, behind a login."""
    played = Played(
        patch, ServerSettings(past=str(dump())), Access((hashlib.sha256(b"a-token-of-ours").digest(),)), local=False
    )
    groups, topics = recorded()
    played.round(groups, topics)
    played.get("/api/v1/groups")
    played.get("/readyz")
    good = {"authorization": "Bearer a-token-of-ours"}
    for path in ("/api/v1/groups", "/api/v1/switch", "/api/v1/groups/near-racks"):
        played.get(path, **good)
    for name in ("search-sticky", "tickets-share"):
        played.drawn(name)
    return played.text


def requests(patch: pytest.MonkeyPatch) -> str:
    """Requests that are refused, and how an answer is packed."""
    login = hashlib.sha256(b"ann:a-password").digest()
    token = hashlib.sha256(b"a-token").digest()
    played = Played(patch, ServerSettings(tail=False), Access((token,), (login,)))
    basic = base64.b64encode(b"ann:a-password").decode()
    for value in ("Bearer a-token", "bearer  a-token ", "Bearer b-token", f"Basic {basic}", f"basic {basic}",
                  f"Basic {basic}=", f"Digest {basic}", "Basic ann:a-password", "Bearer ann:a-password",
                  ""):  # fmt: skip
        played.get("/api/v1/groups", authorization=value)
    played.get("/healthz")
    played.get("/readyz")
    played.get("/readyz", authorization="Bearer a-token")
    played.get("/readyz", "POST")
    open_to_all = Played(patch, ServerSettings(tail=False), local=True)
    open_to_all.round([classic("g", EVEN, offsets("clicks", 1, 2, 3, 4))], {"clicks": CLICKS})
    for host in ("localhost:9308", "127.0.0.1", "[::1]:9308", "evil.example:9308", "localhost.evil.example", ""):
        open_to_all.get("/healthz", host=host)
        open_to_all.get("/api/v1/groups/g?x=1", host=host)
    for method in ("HEAD", "POST", "OPTIONS", "DELETE"):
        open_to_all.get("/", method)
    open_to_all.get("/healthz", content_length="10")
    open_to_all.get("/healthz", content_length="0")
    open_to_all.get("/healthz", transfer_encoding="chunked")
    for offered in ("gzip", "br, GZIP;q=0.5", "gzip;q=0", "gzip; q=0.000", "deflate", "gzip;q=0.001"):
        open_to_all.get("/api/v1/groups", accept_encoding=offered)
        open_to_all.get("/healthz", accept_encoding=offered)
    open_to_all.get("/metrics", accept_encoding="gzip")
    open_to_all.get("/", accept_encoding="gzip")
    far = Played(patch, ServerSettings(tail=False), local=False)
    far.get("/healthz", host="kafka.example")
    far.get("/api/v1/groups", host="kafka.example")
    return played.text + open_to_all.text + far.text


def ends_of_logs(patch: pytest.MonkeyPatch) -> str:
    """A group that stays one or two offsets behind: the ends of its logs are looked at, once for each commit."""
    played = Played(patch, ServerSettings(tail=False))
    one = classic("g", EVEN, offsets("clicks", 99, 88, 79, 70), wants=["clicks"])

    def state() -> None:
        [s] = played.collector.snapshot.groups.values()
        assert s.read is not None
        played.say(f"lag {s.lag.tolist()}, {s.total_lag} in all, read up to {s.read.first.tolist()}, ")
        played.say(f"message {s.read.message.tolist()}, maybe markers {s.maybe_markers.tolist()}")

    played.round([one], {"clicks": CLICKS})
    state()
    played.found = {("clicks", 0): Tail(100, False), ("clicks", 1): Tail(88, True)}
    for _ in range(3):
        played.round([one], {"clicks": CLICKS})
        state()
    grew = {"clicks": grown(CLICKS, 0, 0, 1, 2)}
    played.found = Unavailable("No broker answers.")
    for _ in range(3):
        played.round([one], grew)
        state()
    played.round([one], {"clicks": replace(CLICKS, topic_id="another")})
    state()
    return played.text


def streams_of_rounds(patch: pytest.MonkeyPatch) -> str:
    """What pages are sent while rounds end, one with a group's pictures, and what too many of them are told."""
    patch.setattr(app, "PIECE", 300)
    played = Played(patch, ServerSettings(tail=False))

    def round_of(*committed: int) -> Callable[[], None]:
        return lambda: played.round([classic("g", EVEN, offsets("clicks", *committed))], {"clicks": CLICKS})

    async def scene() -> None:
        round_of(1, 2, 6, 4)()
        await played.watch("/events", [round_of(5, 2, 6, 4), round_of(5, 2, 6, 4)], [2, 1, 1])
        await played.watch("/events?since=3", [round_of(7, 7, 7, 7)], [1, 1])
        await played.watch("/events", [round_of(8, 8, 8, 8)], [1, 1], last_event_id="4")
        await played.watch("/events?group=none", [], [2])
        patch.setattr(played.answers, "drawn", lambda state: {"group": state.name, "lag": state.lag.tolist()})
        await played.watch("/events?group=g", [round_of(9, 9, 9, 9)], [3, 2])
        patch.setattr(app, "HEARTBEAT_S", 0.5)
        await played.watch("/events?since=6", [], [2])

    asyncio.run(scene())
    patch.setattr(app, "MOST_VIEWERS", 0)
    played.get("/events")
    played.server.hub.close()
    patch.setattr(app, "MOST_VIEWERS", 1)
    played.get("/events")
    return played.text


def telemetry(patch: pytest.MonkeyPatch) -> str:
    """What OpenTelemetry's SDK sends of two rounds, and that it sends nothing of one that is too old."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    from apportion.serve.otlp import Exporter

    played = Played(patch, ServerSettings(tail=False, cluster_name="c"))
    taken: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            taken.append(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    receiver = HTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=receiver.serve_forever, args=(0.01,), daemon=True).start()
    at = f"http://127.0.0.1:{receiver.server_port}/v1/metrics"
    settings = replace(played.collector.settings, otlp_endpoint=at)
    exporter = Exporter(settings, played.collector)
    played.round(of_all_kinds(), TOPICS)
    past = played.collector.snapshot.groups["shop"].past
    past.rebalance_ms, past.standstill_ms = 1500, 4000
    exporter._provider.force_flush()
    played.now += 61
    exporter.close()
    receiver.shutdown()
    receiver.server_close()
    for told in (ExportMetricsServiceRequest.FromString(body) for body in taken):
        played.say("-- sent")
        for resource in told.resource_metrics:
            named = {a.key: a.value.string_value for a in resource.resource.attributes}
            played.say(f"service.name: {named['service.name']}, scope {[s.scope.name for s in resource.scope_metrics]}")
            for metric in sorted((m for s in resource.scope_metrics for m in s.metrics), key=lambda m: m.name):
                data = metric.sum if metric.HasField("sum") else metric.gauge
                kind = f"sum, monotonic {metric.sum.is_monotonic}" if metric.HasField("sum") else "gauge"
                played.say(f"{metric.name} [{metric.unit}] {metric.description}: {kind}")
                for point in data.data_points:
                    labels = {a.key: a.value.string_value or a.value.int_value for a in point.attributes}
                    value = point.as_double if point.HasField("as_double") else point.as_int
                    played.say(f"  {labels} {value:g}")
    return played.text


def recorded() -> tuple[list[DescribedGroup], dict[str, TopicLog]]:
    """The demo's groups as they ended, as a live cluster would describe them, and its topics."""
    groups, logs = [], {}
    for one in groups_in_folder(str(dump())):
        topics: Mapping[str, Any] = one.raw["topics"]
        for name, entries in topics.items():
            known = logs.setdefault(name, {})
            for entry in entries:
                known[entry["partition"]] = {**known.get(entry["partition"], {}), **entry}
        groups.append(_described(one))
    tables = {}
    for name, rows in logs.items():
        each = [rows[p] for p in sorted(rows)]
        if [row["partition"] for row in each] == list(range(len(each))):
            tables[name] = topic(
                [(row.get("begin", -1), row.get("end", -1)) for row in each],
                None,
                [row.get("racks", ()) for row in each],
            )
    return groups, tables


def _described(one: Observed) -> DescribedGroup:
    fields = ("instance_id", "client_id", "host", "rack")
    members: dict[str, dict[str, Any]] = {}
    for name, given in one.raw["members"].items():
        members[name] = {field: given.get(field) for field in fields}
        members[name] |= {"topics": sorted(given["topics"]), "owned": dict(given.get("owned", {}))}
    committed = {
        (name, entry["partition"]): entry["committed"]
        for name, entries in one.raw["topics"].items() for entry in entries if "committed" in entry
    }  # fmt: skip
    told = {"state": one.state, "protocol": one.protocol, "kind": one.kind, "sentences": list(one.sentences),
            "generation": None if one.kind == "classic" else one.generation}  # fmt: skip
    seats = {"seats": list(one.members)} if one.kind in (STREAMS, SHARE) else {}
    wanted = {t for given in members.values() for t in (*given["topics"], *given["owned"])}
    return DescribedGroup(
        one.raw["group"], "broker-1:9092 (1)", {**told, **seats, "members": members, "wanted": wanted}, committed
    )


def raw_records() -> Iterator[TailRecord]:
    """The demo's records as they stand in the topic."""
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(dump() / "records" / "part-0.parquet").to_pylist()
    for row in sorted(rows, key=lambda row: (row["timestamp"], row["partition"], row["offset"])):
        yield TailRecord(
            row["partition"], row["offset"], int(row["timestamp"].timestamp() * 1000), row["key"], row["value"]
        )


SCENES = {
    scene.__name__: scene
    for scene in (
        first_round, changes, records_of_two, records_of_others, seeded, requests, ends_of_logs, streams_of_rounds,
        telemetry,
    )
}  # fmt: skip
