"""Java peers: a real KafkaConsumer on a leash, Kafka's own assignors, Kafka's own serializers.

with JavaMember(broker.bootstrap, "g", ["clicks"], {"client.rack": "a"}) as member:
    member.wait_for("assignment", where=lambda event: event["partitions"])
    member.commit({"clicks": {0: 5}})

with JavaAssignors() as kafka:
    kafka.assign("sticky", group)             # {"member": {"topic": [0, 1]}}, group in its JSON form

with JavaCodec() as codec:
    codec.decode("subscription", bytes_)      # {"version": 3, "json": {...}} in Kafka's field names
"""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from apportion.errors import ApportionError, Unavailable
from apportion.testing import jars, processes

Json = dict[str, Any]
QUIET = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
STRATEGIES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "cooperative-lag-aware": "apportion.Follower",
}


class PeerError(ApportionError):
    """The exception that Kafka's own code threw at a request."""


class Peer:
    """A Java process that reads one JSON object a line and answers with one."""

    main_class = ""
    heap = "-Xmx512m"

    def __init__(self, main_class: str = "", *args: str) -> None:
        self.main_class = main_class or self.main_class
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the peer
        command = [jars.java(), self.heap, *QUIET, "-cp", jars.kafka(), f"apportion.{self.main_class}", *args]
        self.process: subprocess.Popen[str] = processes.start(
            command, log=self.log, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process; twice does no harm."""
        processes.end(self.process)
        self.log.close()

    def tell(self, line: Mapping[str, Any]) -> None:
        """Send one object."""
        assert self.process.stdin is not None  # noqa: S101  # for mypy: it is a pipe
        try:
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError) as gone:
            raise Unavailable(f"the Java {self.main_class} is gone: {self.last_words()}") from gone

    def hear(self) -> Json:
        """Read one object."""
        assert self.process.stdout is not None  # noqa: S101  # for mypy: it is a pipe
        line = self.process.stdout.readline()
        if not line:
            raise Unavailable(f"the Java {self.main_class} ended: {self.last_words()}")
        return dict(json.loads(line))

    def last_words(self) -> str:
        """The end of its standard error."""
        if self.log.closed:
            return "it was closed"
        self.log.seek(0)
        return self.log.read()[-2000:].decode(errors="replace") or "without a word"

    def ask(self, line: Mapping[str, Any]) -> Json:
        """Send one object and read its answer; an exception of Kafka's is a ``PeerError``."""
        self.tell(line)
        return answered(self.hear())

    def ask_all(self, lines: Iterable[Mapping[str, Any]]) -> list[Json]:
        """Send many objects while their answers are read; an answer may be ``{"error": ...}``."""
        wanted = list(lines)
        feeder = threading.Thread(target=self._tell_all, args=(wanted,), daemon=True)
        feeder.start()
        answers = [self.hear() for _ in wanted]
        feeder.join()
        return answers

    def _tell_all(self, lines: Iterable[Mapping[str, Any]]) -> None:
        for line in lines:
            self.tell(line)


def answered(answer: Json) -> Json:
    """The answer, unless it is an error."""
    if "error" in answer:
        raise PeerError(answer["error"])
    return answer


class JavaAssignors(Peer):
    """Kafka's range, roundrobin, sticky and cooperative-sticky assignors, thousands of groups a JVM."""

    main_class = "Assignors"

    def assign(self, assignor: str, group: Mapping[str, Any]) -> dict[str, dict[str, list[int]]]:
        """The assignment: ``{"member": {"topic": [0, 1]}}``. Racks, instance ids and generations count."""
        return dict(self.ask({"assignor": assignor, "group": group})["assignment"])

    def assign_all(self, questions: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, dict[str, list[int]]]]:
        """The assignments, for many pairs of (assignor, group)."""
        answers = self.ask_all({"assignor": assignor, "group": group} for assignor, group in questions)
        return [dict(answered(answer)["assignment"]) for answer in answers]


class JavaCodec(Peer):
    """Kafka's own serializers; ``json`` is in the field names of Kafka's message files."""

    main_class = "Codec"

    def decode(self, kind: str, octets: bytes) -> Json:
        """``{"version": ..., "json": ...}`` of a ``subscription``, an ``assignment``; ``sticky`` has no version."""
        return self.ask({"do": "decode", "what": kind, "hex": octets.hex()})

    def encode(self, kind: str, body: Mapping[str, Any], version: int = 1) -> bytes:
        """The bytes of a ``subscription`` or ``assignment`` with its version in front, or of ``sticky`` user data.

        ``sticky``: ``{"generation": 5, "partitions": {"clicks": [0]}}``, versions 0 and 1.
        """
        answer = self.ask({"do": "encode", "what": kind, "version": version, "json": body})
        return bytes.fromhex(answer["hex"])

    def decode_record(self, key: bytes, value: bytes | None) -> Json:
        """``{"type", "key", "version", "value"}`` of a record of ``__consumer_offsets``; a tombstone's are null."""
        return self.ask(record_line(key, value))

    def decode_records(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[Json]:
        """The result of ``decode_record``, for many; if Kafka throws, ``{"error": ...}``."""
        return self.ask_all(record_line(key, value) for key, value in records)

    def encode_record(
        self, key_type: int, key: Mapping[str, Any], value: Mapping[str, Any] | None, version: int = 0
    ) -> tuple[bytes, bytes | None]:
        """The key and the value, both with their type or version in front."""
        line = {"do": "encode", "what": "record", "type": key_type, "version": version, "key": key, "value": value}
        answer = self.ask(line)
        return bytes.fromhex(answer["key"]), None if answer["value"] is None else bytes.fromhex(answer["value"])


def record_line(key: bytes, value: bytes | None) -> Json:
    """A request to decode one record."""
    return {"do": "decode", "what": "record", "key": key.hex(), "value": None if value is None else value.hex()}


class JavaMember(Peer):
    """A KafkaConsumer in a JVM of its own, which takes orders and can be killed.

    topics
        What it subscribes to; or a ``pattern``; or what it takes for itself with ``assign={"clicks": [0]}``.
    properties
        Any of KafkaConsumer's; ``strategy`` is short for ``partition.assignment.strategy`` (``"sticky"``, or a class).
    read
        Whether it reads records; without, it holds its partitions and its positions stay.
    commit_ms
        Milliseconds between commits of what it has done, which it also does when partitions are revoked and when it
        leaves; 0: only when it is told.
    work_ms
        Milliseconds that it works on a record after it has read it; what it has in work when a partition is revoked is
        not done.
    each_us
        Microseconds that it sleeps for each record before it polls again: a reader of that speed.

    ``events`` is all that happened to it, oldest first: ``assignment`` (the whole of it, whenever it, the generation or
    the member id changed), ``assigned`` (what is new, and all that it ``holds``), ``revoked``, ``lost``, ``records``,
    ``done``, ``error``; ``at`` is when we heard.
    """

    main_class = "Member"
    heap = "-Xmx128m"

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str] = (),
        properties: Mapping[str, object] | None = None,
        *,
        strategy: str | Sequence[str] | None = None,
        pattern: str | None = None,
        assign: Mapping[str, Sequence[int]] | None = None,
        read: bool = True,
        commit_ms: int = 0,
        work_ms: int = 0,
        each_us: int = 0,
    ) -> None:
        super().__init__()
        properties_: dict[str, object] = {"bootstrap.servers": bootstrap, "group.id": group}
        if strategy is not None:
            names = [strategy] if isinstance(strategy, str) else strategy
            properties_["partition.assignment.strategy"] = ",".join(STRATEGIES.get(name, name) for name in names)
        self.settings = {key: str(value) for key, value in (properties_ | dict(properties or {})).items()}
        spec: Json = {"properties": self.settings, "read": read, "commit_ms": commit_ms, "work_ms": work_ms}
        spec |= {"each_us": each_us}
        spec |= {"assign": assign} if assign is not None else {"topics": list(topics), "pattern": pattern}
        self.events: list[Json] = []
        self.replies: queue.Queue[Json] = queue.Queue()
        self._news = threading.Condition()
        self.tell(spec)
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def assignment(self) -> dict[str, list[int]]:
        """Its partitions, as it last reported them."""
        return dict(self._last("partitions", {}))

    @property
    def generation(self) -> int:
        """The generation or member epoch it said last; -1 before it joined."""
        return int(self._last("generation", -1))

    @property
    def member_id(self) -> str:
        """The member id it said last; "" before it joined."""
        return str(self._last("member", ""))

    def wait_for(
        self, event: str, *, where: Callable[[Json], object] = bool, since: int = 0, patience_s: float = 90
    ) -> Json:
        """The first event of that kind for which ``where`` is true, from the ``since``-th event on; waits for it."""
        hits: list[Json] = []

        def there(member: JavaMember) -> bool:
            hits[:] = (seen for seen in member.events[since:] if seen["event"] == event and where(seen))
            return bool(hits)

        self.wait_until(there, patience_s)
        return hits[0]

    def wait_until(self, true: Callable[[JavaMember], object], patience_s: float = 90) -> None:
        """Wait until something is true of this member; a member that ended is not waited for."""
        until = time.monotonic() + patience_s
        with self._news:
            while not true(self):
                remaining_s = until - time.monotonic()
                if remaining_s <= 0 or self.process.poll() is not None:
                    events = json.dumps(self.events[-5:])
                    raise Unavailable(f"waited in vain; the member's last events: {events}; {self.last_words()}")
                self._news.wait(min(remaining_s, 1))

    def commit(
        self,
        offsets: Mapping[str, Mapping[int, int]] | None = None,
        *,
        metadata: str = "",
        leader_epoch: int | None = None,
        transaction: str | None = None,
    ) -> None:
        """Commit its positions, or these offsets; ``transaction="commit"`` or ``"abort"`` does it inside of one."""
        line: Json = {"do": "commit", "offsets": offsets, "metadata": metadata, "epoch": leader_epoch}
        self.do(line | {"transaction": transaction})

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to other topics."""
        self.do({"do": "subscribe", "topics": list(topics)})

    def read(self, wanted: bool = True) -> None:
        """Read on, or stop reading."""
        self.do({"do": "read", "read": wanted})

    def do(self, line: Mapping[str, Any], patience_s: float = 90) -> None:
        """Give one command and wait until it is done."""
        self.tell(line)
        try:
            reply = self.replies.get(timeout=patience_s)
        except queue.Empty:
            raise Unavailable(f"the member did not {line['do']} in {patience_s:.0f} s: {self.last_words()}") from None
        if reply["error"]:
            raise PeerError(f"{line['do']}: {reply['error']}")

    def leave(self) -> None:
        """Close the consumer in good order: it leaves the group."""
        self.do({"do": "close"})
        self.process.wait(60)

    def kill(self) -> None:
        """Kill -9: the group finds out when the session is over."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Stop the whole process as a long garbage collection would; ``thaw`` lets it go on."""
        self.process.send_signal(19)

    def thaw(self) -> None:
        """Go on after ``freeze``."""
        self.process.send_signal(18)

    def close(self) -> None:
        """Leave the group if it still can, and end the process."""
        if self.process.poll() is None:
            try:
                self.leave()
            except (ApportionError, subprocess.TimeoutExpired):
                self.kill()
        super().close()

    def _last(self, field: str, otherwise: object) -> Any:
        for event in reversed(self.events):
            if event["event"] == "assignment":
                return event[field]
        return otherwise

    def _listen(self) -> None:
        assert self.process.stdout is not None  # noqa: S101  # for mypy: it is a pipe
        for line in self.process.stdout:
            event = dict(json.loads(line))  # with ``at``, by the clock of the member itself
            with self._news:
                self.events.append(event)
                self._news.notify_all()
            if event["event"] == "done":
                self.replies.put(event)
        with self._news:
            self._news.notify_all()
