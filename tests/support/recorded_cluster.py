"""A broker's answers, recorded between a real broker and our own client, and given again to the same requests.

A recording is a file of JSON: answers in base64, and for each step (a command line, or a call of a reader) the requests
that were sent, each with the number of its answer. ``tools.record_cluster`` writes one; ``Replay`` stands in for the
broker, request by request, byte by byte but for their order. Of a request that comes several times in a step the
answers come in their order, the last one again and again. One that was not recorded interrupts the step: somebody asks
otherwise than before.
"""

from __future__ import annotations

import base64
import gzip
import json
import socket
import struct
import threading
from _thread import interrupt_main
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

HOST: Final = "127.0.0.1"
CLIENT: Final = b"apportion"
FETCH, API_VERSIONS = 1, 18
Exchange = tuple[bytes, int]
"""What a request is known by, and the number of its answer."""


def known_by(request: bytes) -> bytes:
    """A request without its correlation id; of the question for versions, which tells the client's own, the head."""
    kind = struct.unpack(">h", request[:2])[0]
    return request[:4] if kind == API_VERSIONS else request[:4] + request[8:]


def unordered(asked: bytes) -> bytes:
    """A request whatever the order in it: the client lists topics and groups in the order of a set."""
    return asked[:4] + bytes(sorted(asked[4:]))


def frame(connection: socket.socket) -> bytes:
    """The next request or answer; empty at the end."""
    head = exactly(connection, 4)
    return exactly(connection, struct.unpack(">i", head)[0]) if head else b""


def exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or none where the other side ended."""
    parts = []
    while size:
        try:
            part = connection.recv(min(size, 1 << 16))
        except OSError:
            return b""
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Listener(ABC):
    """A server for the block: ``serve`` is called in a thread for each connection."""

    def __init__(self) -> None:
        self.door = socket.create_server((HOST, 0))
        self.port: int = self.door.getsockname()[1]
        self.open: list[socket.socket] = []
        self.over = False

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        for one in (self.door, *self.open):
            one.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self.door.accept()
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """One connection from its beginning to its end."""


class Proxy(Listener):
    """Stands before a real broker, which must advertise its address, and writes down what our client says to it."""

    def __init__(self) -> None:
        super().__init__()
        self.target: Sequence[str] = ()
        self.answers: list[bytes] = []
        self.steps: dict[str, list[Exchange]] = {}
        self.now: list[Exchange] | None = None
        self.lock = threading.Lock()

    def record(self, step: str, do: Callable[[], object]) -> None:
        """What is said while ``do`` runs."""
        self.now = self.steps[step] = []
        try:
            do()
        finally:
            self.now = None

    def write(self, path: Path, **more: Any) -> None:
        """The recording."""
        steps = {step: [[coded(asked), answer] for asked, answer in said] for step, said in self.steps.items()}
        recording = {"port": self.port, **more, "answers": [coded(one) for one in self.answers], "steps": steps}
        path.write_bytes(gzip.compress(json.dumps(recording).encode(), mtime=0))

    def serve(self, connection: socket.socket) -> None:
        host, port = self.target[0].split(":")
        waiting: dict[bytes, bytes] = {}
        with connection, socket.create_connection((host, int(port))) as broker:
            self.open.append(broker)
            threading.Thread(target=self._back, args=[broker, connection, waiting], daemon=True).start()
            while request := frame(connection):
                size = struct.unpack(">h", request[8:10])[0]
                if request[10 : 10 + size] == CLIENT:
                    waiting[request[4:8]] = known_by(request)
                broker.sendall(struct.pack(">i", len(request)) + request)

    def _back(self, broker: socket.socket, connection: socket.socket, waiting: dict[bytes, bytes]) -> None:
        while answer := frame(broker):
            asked = waiting.pop(answer[:4], None)
            with self.lock:
                if asked is not None and self.now is not None:
                    if answer[4:] not in self.answers:
                        self.answers.append(answer[4:])
                    self.now.append((asked, self.answers.index(answer[4:])))
            try:
                connection.sendall(struct.pack(">i", len(answer)) + answer)
            except OSError:
                return
        connection.close()


class Replay(Listener):
    """Gives again what was recorded in one step.

    missing
        Requests that were not recorded, by which the step was interrupted.
    """

    def __init__(self, recording: dict[str, Any], step: str) -> None:
        super().__init__()
        old, new = (HOST.encode() + struct.pack(">i", port) for port in (recording["port"], self.port))
        self.answers: dict[bytes, list[bytes]] = {}
        for asked, answer in recording["steps"][step]:
            octets = base64.b64decode(recording["answers"][answer]).replace(old, new)
            self.answers.setdefault(unordered(base64.b64decode(asked)), []).append(octets)
        self.missing: list[bytes] = []
        self.lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        with connection:
            while request := frame(connection):
                answer = self._answer(unordered(known_by(request)))
                if answer is None and struct.unpack(">h", request[:2])[0] == FETCH:
                    continue  # it waits for records, as at a broker where nothing is written any more
                if answer is None:
                    if not self.over:
                        self.missing.append(request)
                        interrupt_main()
                    return
                try:
                    connection.sendall(struct.pack(">i", len(answer) + 4) + request[4:8] + answer)
                except OSError:
                    return

    def _answer(self, asked: bytes) -> bytes | None:
        with self.lock:
            answers = self.answers.get(asked)
            if not answers:
                return None
            return answers.pop(0) if len(answers) > 1 else answers[0]


def coded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def read(path: Path) -> dict[str, Any]:
    """A recording."""
    return dict(json.loads(gzip.decompress(path.read_bytes())))
