"""The paths of the server, as a Starlette application over ``Answers``."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from apportion.errors import BadInput, UnknownName
from apportion.report.page import policy
from apportion.serve.access import Access, App, Guard
from apportion.serve.answers import Answers, Summaries, to_json
from apportion.serve.metrics import CONTENT_TYPE
from apportion.serve.snapshot import Snapshot

MOST_VIEWERS: Final = 64
HEARTBEAT_S: Final = 15.0
WORKERS: Final = 2
"""Plans that are made at once for whoever asks; the others wait."""
PIECE: Final = 65_536
PATHS: Final = ("/", "/metrics", "/events", "/api/v1/groups", "/api/v1/switch", "/healthz", "/readyz")
Result = TypeVar("Result")


class Hub:
    """Wakes everybody who watches when a round has ended.

    rounds
        How many have ended since the server began.
    """

    def __init__(self) -> None:
        self.viewers = 0
        self.rounds = 0
        self.closed = False
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self) -> None:
        """Belong to the running loop."""
        self._loop = asyncio.get_running_loop()

    def wake(self, _: Snapshot) -> None:
        """A round has ended; called in any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._ring)

    def close(self) -> None:
        """The server ends: so do all streams."""
        self.closed = True
        self._ring()

    def _ring(self) -> None:
        self.rounds += 1
        woken, self._woken = self._woken, asyncio.Event()
        woken.set()

    async def wait(self, rounds: int, patience_s: float) -> bool:
        """Until more than so many rounds have ended; False if that took too long."""
        if self.rounds > rounds:  # one ended while a slow reader took the last
            return True
        woken = self._woken
        try:
            await asyncio.wait_for(woken.wait(), patience_s)
        except TimeoutError:
            return False
        return True


class ExactRoute(Route):
    """A route for which a newline is a letter: Starlette's ends before one, and then answers for another group."""

    def __init__(self, path: str, endpoint: Callable[..., Any]) -> None:
        super().__init__(path, endpoint)
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)


class Server:
    """The application and its state."""

    def __init__(self, answers: Answers, access: Access, local: bool) -> None:
        self.answers, self.hub, self._access = answers, Hub(), access
        self._limiter = CapacityLimiter(WORKERS)
        answers.collector.listeners.append(self.hub.wake)
        routes = [
            ExactRoute("/", self._page),
            ExactRoute("/metrics", self._metrics),
            ExactRoute("/events", self._events),
            ExactRoute("/api/v1/groups", self._groups),
            ExactRoute("/api/v1/groups/{group:path}", self._group),
            ExactRoute("/api/v1/switch", self._switch),
            ExactRoute("/healthz", self._health),
            ExactRoute("/readyz", self._ready),
        ]
        self.inner = Starlette(routes=routes, exception_handlers={404: _not_found})
        self.app: App = Guard(self.inner, access, local, self.count)

    def count(self, path: str, status: int) -> None:
        """Count an answer."""
        known = path if path in PATHS else "/api/v1/groups/GROUP" if path.startswith("/api/v1/groups/") else "other"
        self.answers.own.answered.labels(known, str(status)).inc()

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await to_thread.run_sync(work, limiter=self._limiter)

    async def _page(self, request: Request) -> Response:
        packed = await self._in_thread(self.answers.page)
        headers = {"content-security-policy": f"{policy(live=True)}; frame-ancestors 'none'"}
        return _packed(request, packed, "text/html; charset=utf-8", headers)

    async def _metrics(self, request: Request) -> Response:
        own = self.answers.own.text()
        rendered = self.answers.scraped
        if _takes_gzip(request):
            return _pieces(rendered.gzipped(own), CONTENT_TYPE, {"content-encoding": "gzip", "vary": "accept-encoding"})

        async def plain() -> AsyncIterator[bytes]:
            for piece in rendered.pieces():
                yield piece
            yield own

        # With its length, so that no piece is framed again as a chunk of HTTP.
        headers = {"vary": "accept-encoding", "content-length": str(rendered.size + len(own))}
        return StreamingResponse(plain(), media_type=CONTENT_TYPE, headers=headers)

    async def _groups(self, request: Request) -> Response:
        body = await self._in_thread(lambda: gzip.compress(self.answers.groups_json(), 1, mtime=0))
        return _packed(request, body, "application/json")

    async def _group(self, request: Request) -> Response:
        name, query = request.path_params["group"], request.scope["query_string"].decode("latin-1")
        asked = dict(parse_qsl(query, keep_blank_values=True, encoding="latin-1"))  # a key is any bytes
        if name.endswith("/owner") and {"topic", "key"} <= asked.keys():
            return self._owner(name.removesuffix("/owner"), **asked)
        if name.endswith("/pods") and "rule" in asked:
            return await self._in_thread(lambda: self._pods(name.removesuffix("/pods"), asked["rule"]))
        body = await self._in_thread(lambda: self.answers.group_json(name))
        if body is None:
            return _refused(UnknownName("group", name[:200], list(self.answers.summaries)))
        return _pieces(body, "application/json")

    def _owner(self, name: str, topic: str, key: str, partitioner: str = "murmur2", **_: str) -> Response:
        """The member that reads a key."""
        try:
            return _pieces(self.answers.owner_json(name, topic, key.encode("latin-1"), partitioner), "application/json")
        except (BadInput, UnknownName) as wrong:
            return _refused(wrong)

    def _pods(self, name: str, rule: str) -> Response:
        """Which pods should go."""
        try:
            return _pieces(self.answers.pods_json(name, rule), "application/json")
        except (BadInput, UnknownName) as wrong:
            return _refused(wrong)

    async def _switch(self, request: Request) -> Response:
        return _pieces(await self._in_thread(self.answers.switch_json), "application/json")

    async def _events(self, request: Request) -> Response:
        if self.hub.viewers >= MOST_VIEWERS:
            return PlainTextResponse(f"{MOST_VIEWERS} pages are open, which is the most\n", 503, {"retry-after": "30"})
        group = request.query_params.get("group")
        has = request.headers.get("last-event-id") or request.query_params.get("since")
        whole = has != str(self.answers.snapshot.number)
        headers = {"x-accel-buffering": "no"}
        return StreamingResponse(self._stream(group, whole), media_type="text/event-stream", headers=headers)

    async def _stream(self, group: str | None, whole: bool) -> AsyncIterator[bytes]:
        """Rounds as they end, and the pictures of one group, until somebody hangs up."""
        self.hub.viewers += 1
        try:
            yield b"retry: 3000\n\n"
            rounds = self.hub.rounds
            event, before = await self._event(None)
            if whole:
                for start in range(0, len(event), PIECE):
                    yield event[start : start + PIECE]
            while not self.hub.closed:
                if group is not None:
                    pictures = await self._in_thread(lambda: self.answers.group_event(group))
                    for start in range(0, len(pictures or b""), PIECE):
                        yield (pictures or b"")[start : start + PIECE]
                while not await self.hub.wait(rounds, HEARTBEAT_S):
                    yield b": still here\n\n"
                if self.hub.closed:
                    return
                rounds = self.hub.rounds
                event, before = await self._event(before)
                for start in range(0, len(event), PIECE):
                    yield event[start : start + PIECE]
        finally:
            self.hub.viewers -= 1

    async def _event(self, before: Summaries | None) -> tuple[bytes, Summaries]:
        return await self._in_thread(lambda: self.answers.event(before))

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _ready(self, request: Request) -> Response:
        well, text = self.answers.ready()
        if not well and self._access.asked and not self._access.allows(request.headers.get("authorization")):
            text = b"not ready\n"  # why has names and addresses in it
        return PlainTextResponse(text, 200 if well else 503)


def _takes_gzip(request: Request) -> bool:
    offers = request.headers.get("accept-encoding", "").lower().split(",")
    named = {word.partition(";")[0].strip(): word.partition(";")[2].replace(" ", "") for word in offers}
    return "gzip" in named and re.fullmatch(r"q=0(\.0{0,3})?", named["gzip"]) is None


def _pieces(body: bytes, kind: str, headers: dict[str, str] | None = None) -> Response:
    """A body in pieces, so that a slow reader makes the server hold one of them and not all."""

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), PIECE):
            yield body[start : start + PIECE]

    length = {"content-length": str(len(body))}
    return StreamingResponse(parts(), media_type=kind, headers={**length, **(headers or {})})


def _packed(request: Request, packed: bytes, kind: str, headers: dict[str, str] | None = None) -> Response:
    """A body that is kept as gzip."""
    more = {"vary": "accept-encoding", **(headers or {})}
    if _takes_gzip(request):
        return _pieces(packed, kind, {**more, "content-encoding": "gzip"})
    return _pieces(gzip.decompress(packed), kind, more)


async def _not_found(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"nothing is here; there are {', '.join(PATHS)}\n", 404)


def _refused(error: BadInput | UnknownName) -> Response:
    body = to_json({"version": 1, "error": {**error.to_dict(), "message": str(error)}})
    return Response(body, 404 if isinstance(error, UnknownName) else 400, media_type="application/json")
