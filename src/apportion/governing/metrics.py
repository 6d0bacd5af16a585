"""A governor about itself: metrics in Prometheus' text, ``/healthz``, and the port that both are asked at."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from apportion.errors import BadInput
from apportion.governing.service import Governing

CONTENT: Final = "text/plain; version=0.0.4; charset=utf-8"
PASSES_LATE: Final = 3
"""After so many intervals without a whole pass ``/healthz`` is 503."""
OUTCOMES: Final = (
    "published",
    "publishing",
    "unchanged",
    "planning",
    "refused",
    "waiting",
    "not ours",
    "empty",
    "failed",
)
ANSWER_S: Final = 5
"""For a client that asks slowly."""

Sample = tuple[str, float]
"""Labels as text, and the value."""


def exposition(governing: Governing) -> str:
    """All metrics, as Prometheus reads them."""
    state, counts, heart = dict(governing.state), governing.counts, governing.heart
    now = Counter(governed.outcome for governed in state.values())
    published = {name: governor.published_at for name, governor in list(governing.governors.items())}
    families: list[tuple[str, str, str, Iterable[Sample]]] = [
        ("groups", "gauge", "Groups that this governor governs, by the outcome of the last pass.",
         [(f'{{outcome="{outcome}"}}', now[outcome]) for outcome in OUTCOMES]),
        ("outcomes_total", "counter", "How often a group's outcome became this one.",
         [(f'{{outcome="{outcome}"}}', counts.changes[outcome]) for outcome in OUTCOMES]),
        ("plan_timestamp_seconds", "gauge", "When the group's plan was published.",
         [(label(name), at) for name, at in sorted(published.items()) if at]),
        ("differing_partitions", "gauge", "Partitions whose target is another one than the plan's.",
         [(label(name), governed.differs) for name, governed in sorted(state.items())]),
        ("passes_total", "counter", "Looks at the cluster that were planned from.", [("", counts.passes)]),
        ("pass_seconds", "gauge", "Duration of the last pass.", [("", counts.pass_s)]),
        ("look_timestamp_seconds", "gauge", "When the last look at the cluster ended.", [("", counts.looked_at)]),
        ("heartbeats_total", "counter", "Heartbeats of carriers that were answered.", [("", heart.beats)]),
        ("heartbeat_gap_seconds", "gauge", "The longest time between two heartbeats of a carrier in the last minute.",
         [("", heart.longest_gap_s())]),
        ("governors", "gauge", "Governors of the same rules that are there.", [("", counts.governors)]),
        ("trouble", "gauge", "1 if the last look did not show the cluster whole.", [("", bool(counts.trouble))]),
    ]  # fmt: skip
    return "".join(line for family in families for line in _lines(*family))


def _lines(name: str, kind: str, about: str, samples: Iterable[Sample]) -> Iterator[str]:
    whole = f"apportion_governor_{name}"
    yield f"# HELP {whole} {about}\n# TYPE {whole} {kind}\n"
    for labels, value in samples:
        yield f"{whole}{labels} {float(value):.15g}\n"


def label(group: str) -> str:
    """A group's name as a label; names may have quotes and line ends in them.

    >>> label('a"b')
    '{group="a\\\\"b"}'
    """
    escaped = group.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{group="{escaped}"}}'


def health(governing: Governing, interval_s: float) -> str:
    """Why the governor is not well, a sentence; "" if it is."""
    age_s = time.time() - max(governing.counts.looked_at, governing.counts.began_at)
    if age_s > PASSES_LATE * interval_s + ANSWER_S:
        return f"the cluster was last looked at {age_s:.0f} s ago: {governing.counts.trouble or 'a pass takes long'}"
    return ""


@contextmanager
def listening(address: str, governing: Governing, interval_s: float) -> Iterator[int]:
    """Answer ``/metrics`` and ``/healthz`` for the block; the port is its own if 0 was asked for.

    Raises
        BadInput: the address is none, or cannot be listened at.
    """
    host, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port[:6]) < 65536):
        raise BadInput("--listen", repr(address[:80]), "HOST:PORT, as in 127.0.0.1:9309")

    class HealthRequests(BaseHTTPRequestHandler):
        timeout = ANSWER_S

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, exposition(governing))
            elif self.path == "/healthz":
                trouble = health(governing, interval_s)
                self._answer(503 if trouble else 200, f"{trouble or 'ok'}\n")
            else:
                self._answer(404, "there are /metrics and /healthz\n")

        def _answer(self, code: int, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", CONTENT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Not each request is worth a line."""

    try:
        server = ThreadingHTTPServer((host.strip("[]") or "127.0.0.1", int(port)), HealthRequests)
    except OSError as error:
        raise BadInput("--listen", f"{address}: {error.strerror or error}", "an address of this machine") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True, name="governor-metrics").start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
