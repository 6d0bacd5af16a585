"""A server as a user starts it: a process of its own, asked over HTTP by Python's own client."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from typing import IO, Any

Sample = tuple[str, dict[str, str], float]


class Serving:
    """One process and the port that it listens on."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, tls: bool, log: IO[bytes]) -> None:
        self.process, self.port, self.tls, self._log = process, port, tls, log

    def log(self) -> str:
        """All that it has printed."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode()

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection: HTTPConnection = HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        else:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): v for name, v in headers.items()})
            answer = connection.getresponse()
            body = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, gzip.decompress(body) if found.get("content-encoding") == "gzip" else body
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        """A JSON answer."""
        status, _, body = self.ask(path)
        assert status == 200, body
        return json.loads(body)

    def samples(self) -> list[Sample]:
        """Every series of a scrape, read by the official client's parser."""
        from prometheus_client.parser import text_string_to_metric_families

        status, headers, body = self.ask("/metrics", Accept_Encoding="gzip")
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return [
            (sample.name, dict(sample.labels), sample.value)
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        ]

    def value(self, name: str, **labels: str) -> float | None:
        """One series' value; None where it is not there."""
        found = [v for n, had, v in self.samples() if n == name and labels.items() <= had.items()]
        assert len(found) <= 1, found
        return found[0] if found else None

    def memory_mb(self) -> float:
        """The process's resident memory."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024  # type: ignore[index]


def until(holds: Callable[[], Any], patience_s: float = 120) -> Any:
    """Wait until something holds, and give what it gave."""
    end = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < end, "it never held"
        time.sleep(0.2)
    return found


@contextmanager
def serving(*options: str, bootstrap: str = "", tls: bool = False) -> Iterator[Serving]:
    """``apportion serve`` for the block, at a free port."""
    command = [sys.executable, "-m", "apportion", "serve", *(["--bootstrap-server", bootstrap] if bootstrap else [])]
    if "--listen" not in options:
        command += ["--listen", "127.0.0.1:0"]
    with tempfile.TemporaryFile() as log:
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen([*command, *options], stderr=log, stdout=log, env=env)

        def port() -> int | None:
            log.seek(0)
            told = log.read().decode()
            assert process.poll() is None, told
            found = re.search(r"listening on https?://\S+:(\d+)/", told)
            return int(found[1]) if found else None

        try:
            yield Serving(process, until(port), tls, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
