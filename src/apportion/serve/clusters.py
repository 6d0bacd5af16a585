"""Several clusters in one server: a page that lists them, each one's own pages below its name, and metrics of all."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from apportion.report.page import policy
from apportion.report.text import printable
from apportion.serve.access import Access, App, Guard
from apportion.serve.answers import to_json
from apportion.serve.app import Server
from apportion.serve.metrics import CONTENT_TYPE, escape

VERDICTS = ("ERR", "WARN", "OK")
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="10"><link rel="icon" href="data:,"><title>Clusters</title>
<style>{style}</style></head><body><header><h1>Clusters</h1></header><main><div class="scroll"><table>
<tr><th>Cluster<th>ERR<th>WARN<th>OK<th>Messages to read<th>As of, UTC<th>Trouble
"""


class Clusters:
    """The application over the servers of several clusters, by their names."""

    def __init__(self, servers: Mapping[str, Server], access: Access, local: bool) -> None:
        self.servers = servers
        routes: list[Any] = [
            Route("/", self._page),
            Route("/metrics", self._metrics),
            Route("/api/v1/clusters", self._api),
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            *(Mount(f"/clusters/{name}", server.inner) for name, server in servers.items()),
        ]
        self.app: App = Guard(Starlette(routes=routes), access, local, self._count)

    def rows(self) -> list[dict[str, Any]]:
        """A row a cluster, for the page and the API."""
        rows = []
        for name, server in self.servers.items():
            answers = server.answers
            groups = list(answers.summaries.values())
            verdicts = Counter(group["verdict"] for group in groups)
            rows.append({
                "cluster": name, **{verdict: verdicts[verdict] for verdict in VERDICTS},
                "lag": sum(group["lag"] or 0 for group in groups),
                "at": answers.as_of, "trouble": answers.snapshot.trouble,
            })  # fmt: skip
        return rows

    def _count(self, path: str, status: int) -> None:
        for name, server in self.servers.items():
            if path.startswith(below := f"/clusters/{name}/"):
                server.count(path.removeprefix(below[:-1]), status)

    async def _page(self, request: Request) -> Response:
        style = (files("apportion.report") / "assets" / "page.css").read_text(encoding="utf-8")
        text = _HEAD.replace("{style}", style)
        for row in self.rows():
            cluster, *cells = row.values()
            link = f'<a href="clusters/{quote(cluster, safe="")}/">{html.escape(cluster)}</a>'
            shown = (f"{cell:,}" if isinstance(cell, int) else html.escape(printable(cell)) for cell in cells)
            text += "".join(["<tr><td>", link, *(f"<td>{cell}" for cell in shown), "\n"])
        headers = {"content-security-policy": f"{policy()}; frame-ancestors 'none'"}
        return Response(f"{text}</table></div></main></body></html>\n", media_type="text/html", headers=headers)

    async def _metrics(self, request: Request) -> Response:
        """All clusters' series; large clusters are better scraped each below its own name."""

        def work() -> str:
            return merged({name: server.answers.exposition().decode() for name, server in self.servers.items()})

        return Response(await to_thread.run_sync(work), media_type=CONTENT_TYPE)

    async def _api(self, request: Request) -> Response:
        return Response(to_json({"version": 1, "clusters": self.rows()}), media_type="application/json")

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _ready(self, request: Request) -> Response:
        """Whether every cluster was reached; the names of the others are on the page."""
        waiting = sum(not server.answers.ready()[0] for server in self.servers.values())
        return PlainTextResponse(f"{waiting} not ready\n" if waiting else "ready\n", 503 if waiting else 200)


def merged(texts: Mapping[str, str]) -> str:
    """Expositions of several clusters as one: each family once, and the label ``cluster_name`` on every series.

    >>> print(merged({"a": "# TYPE n gauge\\nn 1\\n", "b": '# TYPE n gauge\\nn{t="x"} 2\\n'}), end="")
    # TYPE n gauge
    n{cluster_name="a"} 1
    n{cluster_name="b",t="x"} 2
    """
    families: dict[str, dict[str, None]] = {}
    for cluster, text in texts.items():
        label, lines = f'cluster_name="{escape(cluster)}"', dict[str, None]()
        for line in text.splitlines():
            if line.startswith("#"):
                lines = families.setdefault(line.split(" ", 3)[2], {})
                lines[line] = None
            else:
                lines[line if 'cluster_name="' in line else _labelled(line, label)] = None
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _labelled(line: str, label: str) -> str:
    name, brace, rest = line.partition("{")
    if brace:
        return f"{name}{{{label},{rest}"
    return f"{{{label}}} ".join(line.split(" ", 1))
