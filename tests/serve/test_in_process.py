"""The server on a socket, in this process: what it is told, whom it hangs up on, and how it ends."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from apportion.serve import protocol, server
from apportion.serve.access import Access
from apportion.serve.collector import Collector
from apportion.serve.server import Listen
from apportion.serve.settings import ServerSettings
from apportion.sources.config import Connection
from apportion.sources.properties import Properties

NOBODY = Connection("127.0.0.1:1", Properties())
SETTINGS = ServerSettings(tail=False, interval_s=60)
PATIENCE_S = 60
"""For what comes at once where nothing else is at work."""


@contextmanager
def running(patch: pytest.MonkeyPatch, listen: Listen | None = None) -> Iterator[tuple[int, Any]]:
    """The port of a server that runs in a thread, and uvicorn's own object."""
    made: list[Any] = []
    started, ports = threading.Event(), []
    patch.setattr(server.sys, "setswitchinterval", lambda _: None)  # type: ignore[attr-defined]

    class Kept(server._Uvicorn):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    def on_start(port: int) -> None:
        ports.append(port)
        started.set()

    patch.setattr(server, "_Uvicorn", Kept)
    patch.setattr(Collector, "round", lambda self: self.snapshot)
    at = Listen("127.0.0.1", 0) if listen is None else listen
    thread = threading.Thread(target=server.run, args=({"": (SETTINGS, NOBODY)}, at, Access(), on_start))
    thread.start()
    try:
        assert started.wait(120)
        yield ports[0], made[0]
    finally:
        made[0].handle_exit(signal.SIGTERM, None)
        thread.join(120)
        assert not thread.is_alive()


def connected(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    one.settimeout(PATIENCE_S)
    return one


def rest(one: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := one.recv(65536):
            found += piece
    return found


def until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, "it never held"
        time.sleep(0.005)
    return found


def test_who_does_not_take_an_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch) as (port, uvicorn):
        uvicorn._of_clusters[0].answers.group_json = lambda name: b"x" * 30_000_000
        for slow in (True, False):
            monkeypatch.setattr(protocol, "TAKE_S", 0.3 if slow else 20)
            one = socket.socket()
            if slow:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.settimeout(PATIENCE_S)
            one.connect(("127.0.0.1", port))
            one.sendall(b"GET /api/v1/groups/g HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if slow:
                until(lambda: uvicorn.server_state.connections)
                until(lambda: not uvicorn.server_state.connections)
            assert (len(rest(one)) > 30_000_000) is not slow
            one.close()


def test_a_greeting_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject = ["-subj", "/CN=127.0.0.1", "-days", "2", "-keyout", "key.pem", "-out", "crt.pem"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        *subject,
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    listen = Listen("127.0.0.1", 0, str(tmp_path / "crt.pem"), str(tmp_path / "key.pem"))
    with monkeypatch.context() as soon:
        soon.setattr(server, "HANDSHAKE_S", 0.3)
        with running(soon, listen) as (port, _), connected(port) as silent:
            assert rest(silent) == b""
    with running(monkeypatch, listen) as (port, _):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(connected(port)) as one:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert rest(one).endswith(b"alive\n")
