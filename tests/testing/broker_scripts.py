"""Scripts of requests, drawn from a seed, put to a real broker and to the simulated cluster, and what each answered.

python -m tests.testing.broker_scripts --seeds 300     both releases, every difference, and how many of each kind
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

from apportion.testing import jars
from apportion.testing.broker import Broker
from apportion.testing.simulation.broker import Cluster, built
from apportion.testing.simulation.coordinator import Coordinator
from apportion.testing.simulation.kernel import EPOCH_S, World
from apportion.testing.simulation.network import Network

VERSIONS = {
    "FindCoordinator": (FindCoordinatorRequest, FindCoordinatorResponse, 3),
    "JoinGroup": (JoinGroupRequest, JoinGroupResponse, 7),
    "SyncGroup": (SyncGroupRequest, SyncGroupResponse, 5),
    "Heartbeat": (HeartbeatRequest, HeartbeatResponse, 4),
    "LeaveGroup": (LeaveGroupRequest, LeaveGroupResponse, 4),
    "OffsetCommit": (OffsetCommitRequest, OffsetCommitResponse, 8),
    "OffsetFetch": (OffsetFetchRequest, OffsetFetchResponse, 7),
    "ListOffsets": (ListOffsetsRequest, ListOffsetsResponse, 5),
    "Fetch": (FetchRequest, FetchResponse, 11),
    "Produce": (ProduceRequest, ProduceResponse, 8),
    "InitProducerId": (InitProducerIdRequest, InitProducerIdResponse, 4),
    "AddPartitionsToTxn": (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, 3),
    "AddOffsetsToTxn": (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, 3),
    "TxnOffsetCommit": (TxnOffsetCommitRequest, TxnOffsetCommitResponse, 3),
    "EndTxn": (EndTxnRequest, EndTxnResponse, 3),
}
AGAIN = (51, 14, 15, 16)
"""Concurrent transactions, and a coordinator that loads, is not there yet or has moved: the request is sent again."""


class Peer:
    """Somebody who answers requests, one at a time and at once."""

    def ask(self, name: str, **facts: Any) -> Any:
        """The answer; a broker that is busy with the last transaction, or loads, is asked again."""
        for _ in range(200):
            answer = self.once(name, facts)
            if _error(answer) not in AGAIN:
                return answer
            self.wait()
        raise AssertionError(f"{name} is not answered")

    def once(self, name: str, facts: dict[str, Any]) -> Any:
        raise NotImplementedError

    def wait(self) -> None:
        raise NotImplementedError


def _error(answer: Any) -> int:
    if hasattr(answer, "results_by_topic_v3_and_below"):
        codes = [p.partition_error_code for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]
        return max(codes, default=0)
    return int(getattr(answer, "error_code", 0) or 0)


def _frame(name: str, facts: dict[str, Any], number: int) -> tuple[bytes, Any, int]:
    request_class, response_class, version = VERSIONS[name]
    request = built(request_class, facts, version)
    request.with_header(correlation_id=number, client_id="script")
    return bytes(request.encode(header=True, framed=False)), response_class, version


class Real(Peer):
    """A broker behind a socket."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self.socket, self.number = socket.create_connection((host, int(port)), timeout=30), 0

    def once(self, name: str, facts: dict[str, Any]) -> Any:
        self.number += 1
        frame, response_class, version = _frame(name, facts, self.number)
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._take(4), "big")
        return response_class.decode(memoryview(self._take(size)), version=version, header=True)

    def _take(self, size: int) -> bytes:
        octets = b""
        while len(octets) < size:
            octets += self.socket.recv(size - len(octets))
        return octets

    def wait(self) -> None:
        time.sleep(0.05)


class Simulated(Peer):
    """The cluster of a world, one broker of it; requests come by no network."""

    def __init__(self, seed: int, version: str) -> None:
        self.world = World(seed)
        coordinator = Coordinator(seed, EPOCH_S * 1000, version)
        self.cluster, self.number = Cluster(self.world, Network(self.world), coordinator, nodes=1), 0

    def once(self, name: str, facts: dict[str, Any]) -> Any:
        self.number += 1
        frame, response_class, version = _frame(name, facts, self.number)
        answers: list[bytes] = []
        host = SimpleNamespace(name="script")
        link = SimpleNamespace(socket=SimpleNamespace(host=host), lost=False)
        self.cluster.handle(SimpleNamespace(node=self.cluster.nodes[0], link=link, reply=answers.append), frame)  # type: ignore[arg-type]
        while not answers:
            self.world.run(self.world.now + 0.01)
        return response_class.decode(memoryview(answers[0]), version=version, header=True)

    def wait(self) -> None:
        self.world.run(self.world.now + 0.05)


def differences(version: str, seeds: Iterable[int]) -> Iterator[tuple[int, int, str, str]]:
    """For each script: seed, how many answers were compared, the broker's first other answer, the simulation's.

    The last two are empty if all are the same; behind the first other answer the two are in different states.
    """
    with Broker(version=version) as broker:
        for seed in seeds:
            broker.create_topic(f"topic-{seed}", 2)
            simulated = Simulated(seed, version)
            simulated.cluster.create_topic(f"topic-{seed}", 2)
            peers = (Real(broker.bootstrap), simulated)
            answers = [play(peer, seed, lambda kind, seed=seed: f"{kind}-{seed}") for peer in peers]  # type: ignore[misc]
            pairs = list(zip(*answers, strict=True))
            yield seed, len(pairs), *next(((a, b) for a, b in pairs if a != b), ("", ""))


def main() -> int:
    """Print every script that differs; exit code 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.testing.broker_scripts", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="scripts for each release (default: 300)")
    parser.add_argument("--first", type=int, default=1, help="the first one's seed")
    arguments = parser.parse_args()
    worst = 0
    for version in jars.KAFKA:
        kinds: Counter[str] = Counter()
        compared = 0
        for seed, answers, real, simulated in differences(
            version, range(arguments.first, arguments.first + arguments.seeds)
        ):
            compared += answers
            if real:
                kinds[f"{real.split()[0]}: {real.split()[1]}, simulated {simulated.split()[1]}"] += 1
                print(f"{version}, seed {seed}: {real!r}, simulated {simulated!r}", flush=True)
        worst = max(worst, len(kinds))
        print(f"{version}: {arguments.seeds} scripts, {compared} answers, differences {dict(kinds)}", flush=True)
    return int(worst > 0)


def play(peer: Peer, seed: int, names: Callable[[str], str], steps: int = 40) -> list[str]:
    """A script on a peer, and a line for each answer in which ids of the peer's own choosing are numbered."""
    return Script(peer, seed, names).play(steps)


class Script:
    """One member that joins again and again, and producers with transactions; right requests and wrong ones."""

    def __init__(self, peer: Peer, seed: int, names: Callable[[str], str]) -> None:
        self.peer, self.chance = peer, random.Random(seed)
        self.group, self.topic, self.id = names("group"), names("topic"), names("txn")
        self.member, self.generation = "", -1
        self.producer, self.epoch = -1, -1
        self.sequence = [0, 0]
        self.lines: list[str] = []
        self.known: dict[Any, str] = {}

    def play(self, steps: int) -> list[str]:
        moves = [self.join, self.sync, self.heartbeat, self.leave, self.commit, self.look_up, self.init, self.add]
        moves += [self.produce, self.add_offsets, self.commit_in_transaction, self.end, self.ends, self.fetch]
        weights = [4, 4, 2, 1, 3, 3, 2, 5, 6, 4, 4, 5, 3, 3]
        for kind, key in enumerate((self.group, self.id)):
            self.peer.ask("FindCoordinator", key=key, key_type=kind)
        self.ends(level=0)
        while ", 6, -1)" in self.lines[-1]:  # the topic has no leaders yet
            self.peer.wait()
            self.lines.clear()
            self.ends(level=0)
        for _ in range(steps):
            self.chance.choices(moves, weights)[0]()
        return self.lines

    def say(self, name: str, *facts: Any) -> None:
        self.lines.append(f"{name} {' '.join(map(str, facts))}")

    def named(self, value: Any, kind: str) -> str:
        return self.known.setdefault(value, f"{kind}{len(self.known)}") if value not in ("", -1) else repr(value)

    def off(self, value: int) -> int:
        """A number that is right mostly."""
        return value + self.chance.choice((0, 0, 0, 0, 1, -1))

    def join(self) -> None:
        sent = ConsumerProtocolSubscription(version=1, topics=[self.topic], user_data=b"", owned_partitions=[]).encode()
        protocols = [{"name": "range", "metadata": bytes(sent)}]
        times = {"session_timeout_ms": self.chance.choice((30000, 30000, 10)), "rebalance_timeout_ms": 30000}
        who = self.member if self.chance.random() < 0.9 else "nobody"
        facts = {"group_id": self.group, "member_id": who, "group_instance_id": None, "protocol_type": "consumer"}
        answer = self.peer.ask("JoinGroup", **facts, **times, protocols=protocols)
        self.say(
            "join", answer.error_code, answer.generation_id, self.named(answer.member_id, "m"), len(answer.members)
        )
        if answer.error_code in (0, 79):
            self.member = answer.member_id
        if answer.error_code == 0:
            self.generation = answer.generation_id

    def _me(self) -> dict[str, Any]:
        return {"group_id": self.group, "generation_id": self.off(self.generation), "member_id": self.member}

    def sync(self) -> None:
        shares = [{"member_id": self.member, "assignment": b"\0\1\0\0\0\0\0\0\0\0"}]
        facts = {"protocol_type": "consumer", "protocol_name": "range", "group_instance_id": None}
        answer = self.peer.ask("SyncGroup", **self._me(), **facts, assignments=shares)
        self.say("sync", answer.error_code, bytes(answer.assignment).hex())

    def heartbeat(self) -> None:
        self.say("heartbeat", self.peer.ask("Heartbeat", **self._me(), group_instance_id=None).error_code)

    def leave(self) -> None:
        members = [{"member_id": self.member, "group_instance_id": None}]
        answer = self.peer.ask("LeaveGroup", group_id=self.group, members=members)
        self.say("leave", answer.error_code, [m.error_code for m in answer.members])

    def _offsets(self) -> list[dict[str, Any]]:
        facts = {"committed_offset": self.chance.randrange(100), "committed_leader_epoch": -1, "committed_metadata": ""}
        topic = self.chance.choice((self.topic, self.topic, self.topic, "no-such-topic"))
        return [{"name": topic, "partitions": [{"partition_index": self.chance.randrange(2), **facts}]}]

    def commit(self) -> None:
        me = self._me()
        me["generation_id_or_member_epoch"] = me.pop("generation_id")
        answer = self.peer.ask("OffsetCommit", **me, group_instance_id=None, topics=self._offsets())
        self.say("commit", [(t.name == self.topic, p.error_code) for t in answer.topics for p in t.partitions])

    def look_up(self) -> None:
        topics = [{"name": self.topic, "partition_indexes": [0, 1]}]
        stable = self.chance.random() < 0.5
        answer = self.peer.ask("OffsetFetch", group_id=self.group, topics=topics, require_stable=stable)
        found = sorted(
            (p.partition_index, p.committed_offset, p.error_code) for t in answer.topics for p in t.partitions
        )
        self.say("look up", answer.error_code, found)

    def init(self) -> None:
        facts = {"transactional_id": self.id, "transaction_timeout_ms": 60000, "producer_id": -1, "producer_epoch": -1}
        answer = self.peer.ask("InitProducerId", **facts)
        self.say("init", answer.error_code, self.named(answer.producer_id, "p"), answer.producer_epoch)
        self.producer, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, [0, 0]

    def _producer(self, prefix: str = "") -> dict[str, Any]:
        facts = {"transactional_id": self.id, "producer_id": self.producer, "producer_epoch": self.off(self.epoch)}
        return {f"{prefix}{name}": value for name, value in facts.items()}

    def add(self) -> None:
        if self.producer < 0:
            self.init()
            return
        topics = [{"name": self.topic, "partitions": [self.chance.randrange(2)]}]
        answer = self.peer.ask("AddPartitionsToTxn", **self._producer("v3_and_below_"), v3_and_below_topics=topics)
        self.say("add", _error(answer))

    def produce(self) -> None:
        partition, count = self.chance.randrange(2), self.chance.randint(1, 3)
        transactional = self.producer >= 0 and self.chance.random() < 0.8
        sequence = max(0, self.off(self.sequence[partition]))
        who = (self.producer, self.off(self.epoch), sequence) if transactional else (-1, -1, -1)
        builder = DefaultRecordBatchBuilder(2, 0, transactional, *who, 1 << 20)
        for n in range(count):
            builder.append(n, int(time.time() * 1000), None, b"x", [])  # an old time would begin a new segment
        data = [{"index": partition, "records": bytes(builder.build())}]
        facts = {"transactional_id": self.id if transactional else None, "acks": -1, "timeout_ms": 5000}
        answer = self.peer.ask("Produce", **facts, topic_data=[{"name": self.topic, "partition_data": data}])
        [written] = answer.responses[0].partition_responses
        self.say("produce", partition, written.error_code, written.base_offset)
        if transactional and written.error_code == 0 and who[2] == self.sequence[partition]:
            self.sequence[partition] += count

    def add_offsets(self) -> None:
        if self.producer >= 0:
            self.say(
                "add offsets", self.peer.ask("AddOffsetsToTxn", **self._producer(), group_id=self.group).error_code
            )

    def commit_in_transaction(self) -> None:
        if self.producer >= 0:
            facts = {**self._me(), **self._producer(), "group_instance_id": None, "topics": self._offsets()}
            answer = self.peer.ask("TxnOffsetCommit", **facts)
            self.say("commit in transaction", [p.error_code for t in answer.topics for p in t.partitions])

    def end(self) -> None:
        if self.producer >= 0:
            answer = self.peer.ask("EndTxn", **self._producer(), committed=self.chance.random() < 0.6)
            self.say("end", answer.error_code)
            for _ in range(4):
                self.peer.wait()  # for its markers

    def ends(self, level: int | None = None) -> None:
        partitions = [{"partition_index": p, "current_leader_epoch": -1, "timestamp": -1} for p in (0, 1)]
        level = self.chance.randrange(2) if level is None else level
        topics = [{"name": self.topic, "partitions": partitions}]
        answer = self.peer.ask("ListOffsets", replica_id=-1, isolation_level=level, topics=topics)
        self.say(
            "ends", level, sorted((p.partition_index, p.error_code, p.offset) for p in answer.topics[0].partitions)
        )

    def fetch(self) -> None:
        partition = {
            "partition": self.chance.randrange(2),
            "fetch_offset": self.chance.randrange(6),
            "partition_max_bytes": 1 << 20,
        }
        times = {"max_wait_ms": 10, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": self.chance.randrange(2)}
        topics = [{"topic": self.topic, "partitions": [partition]}]
        answer = self.peer.ask(
            "Fetch",
            **times,
            session_id=0,
            session_epoch=-1,
            topics=topics,
            rack_id="",
            replica_id=-1,
            forgotten_topics_data=[],
        )
        [got] = answer.responses[0].partitions
        ends = (got.high_watermark, got.last_stable_offset) if got.error_code == 0 else ()
        gone = sorted((self.named(x.producer_id, "p"), x.first_offset) for x in got.aborted_transactions or ())
        self.say("fetch", partition["fetch_offset"], got.error_code, ends, gone, batches(bytes(got.records or b"")))


def batches(octets: bytes) -> list[tuple[int, int, int]]:
    """(base offset, last offset delta, attributes) of each batch."""
    rows, at = [], 0
    while at + 61 <= len(octets):
        size = 12 + int.from_bytes(octets[at + 8 : at + 12], "big")
        head = octets[at : at + 61]
        rows.append(
            (int.from_bytes(head[:8], "big"), int.from_bytes(head[23:27], "big"), int.from_bytes(head[21:23], "big"))
        )
        at += size
    return rows


if __name__ == "__main__":
    sys.exit(main())
