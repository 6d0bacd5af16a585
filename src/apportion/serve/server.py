"""Run the server until it is stopped: the collector in its thread, uvicorn on the address, TLS if given."""

from __future__ import annotations

import functools
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn

from apportion.errors import ApportionError, BadInput, Unavailable
from apportion.serve.access import Access, is_loopback
from apportion.serve.answers import Answers
from apportion.serve.app import Server
from apportion.serve.clusters import Clusters
from apportion.serve.collector import Collector
from apportion.serve.protocol import HEAD_BYTES, BoundedProtocol
from apportion.serve.settings import ServerSettings
from apportion.sources.config import Connection
from apportion.sources.properties import is_encrypted

Cluster = tuple[ServerSettings, Connection]
KEEP_ALIVE_S: Final = 20
HANDSHAKE_S: Final = 5.0
FILES: Final = 4096
SWITCH_S: Final = 0.0005
"""For how long one thread may compute while another waits: a round must not hold up a scrape at each of its steps."""


@dataclass(frozen=True)
class Listen:
    """Where a server listens, and with what certificate.

    port
        0 takes a free one.
    """

    host: str
    port: int
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def url(self) -> str:
        """How it is reached."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_cert else 'http'}://{host}:{self.port}/"


def read_listen(text: str, tls_cert: str | None = None, tls_key: str | None = None) -> Listen:
    """``HOST:PORT``, ``:PORT`` or ``[::1]:PORT``; an empty host is this machine alone.

    >>> read_listen(":9308").url
    'http://127.0.0.1:9308/'
    """
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port[:6]) < 65536):
        raise BadInput("--listen", repr(text[:80]), "HOST:PORT, as in 127.0.0.1:9308")
    if (tls_cert is None) != (tls_key is None):
        raise BadInput("TLS", "one of two files", "both --tls-cert and --tls-key")
    return Listen(host.strip("[]") or "127.0.0.1", int(port), tls_cert, tls_key)


class _Uvicorn(uvicorn.Server):
    """uvicorn that reports when it listens, and ends its streams before it waits for them."""

    def __init__(self, config: uvicorn.Config, servers: Sequence[Server], on_start: Any) -> None:
        super().__init__(config)
        self._of_clusters, self._on_start = servers, on_start

    async def startup(self, sockets: Any = None) -> None:
        """Listen; a TLS client that does not finish its greeting is not waited for."""
        import asyncio

        loop = asyncio.get_running_loop()
        for server in self._of_clusters:
            server.hub.attach()
        if self.config.is_ssl:
            # uvicorn has no word for it; without, a thousand half-open greetings live for a minute each.
            loop.create_server = functools.partial(loop.create_server, ssl_handshake_timeout=HANDSHAKE_S)  # type: ignore[method-assign]
        await super().startup(sockets)
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            for server in self._of_clusters:
                server.answers.connections_of(lambda: len(self.server_state.connections))
            self._on_start(port)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """End in good order; uvicorn would send the signal again, and resources opened after it would not be closed."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: Any = None) -> None:
        """End."""
        for server in self._of_clusters:
            server.hub.close()
        await super().shutdown(sockets)


def run(clusters: Mapping[str, Cluster], listen: Listen, access: Access, on_start: Any) -> None:
    """Serve until SIGINT or SIGTERM.

    clusters
        Name to a cluster's settings and connection; a single one is served without its name.
    on_start
        Called with the port once it listens.
    Raises
        Unavailable: the address cannot be listened on, or a certificate not read.
        BadInput: a key that only a password opens.
    """
    _more_files()
    sys.setswitchinterval(SWITCH_S)
    collectors = [Collector(*cluster) for cluster in clusters.values()]
    local = not access.asked and is_loopback(listen.host)
    servers = [Server(Answers(collector), access, local) for collector in collectors]
    app = Clusters(dict(zip(clusters, servers, strict=True)), access, local).app if len(servers) > 1 else servers[0].app
    config = uvicorn.Config(
        app, host=listen.host, port=listen.port, http=BoundedProtocol, ws="none", lifespan="off",
        access_log=False, log_config=None, log_level="error", proxy_headers=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=3, h11_max_incomplete_event_size=HEAD_BYTES,
        ssl_certfile=listen.tls_cert, ssl_keyfile=listen.tls_key,
    )  # fmt: skip
    try:
        if listen.tls_key and is_encrypted(Path(listen.tls_key)):  # OpenSSL would ask at the terminal
            needed = f"a plain one: openssl pkey -in {listen.tls_key} -out key.pem"
            raise BadInput("--tls-key", "an encrypted key", needed)
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(f"TLS: {listen.tls_cert} and {listen.tls_key} cannot be used: {error}.") from None
    exporters = [exporter for collector in collectors if (exporter := _exporter(collector)) is not None]

    def started(port: int) -> None:
        for collector in collectors:
            collector.start()
        on_start(port)

    try:
        running = _Uvicorn(config, servers, started)
        try:
            running.run()
        except SystemExit as end:
            if end.code == 128 + signal.SIGTERM:  # it came before uvicorn heeded it
                raise
            raise Unavailable(f"cannot listen on {listen.host}:{listen.port}: is it taken?") from None
        except KeyboardInterrupt:
            return
    finally:
        for opened in (*collectors, *exporters):
            opened.close()


def _exporter(collector: Collector) -> Any:
    if collector.settings.otlp_endpoint is None:
        return None
    from apportion.serve.otlp import Exporter

    return Exporter(collector.settings, collector)


def _more_files() -> None:
    """Raise the limit of open files, so that hostile connections leave some for others; Windows has no such limit."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            raise ApportionError(f"the limit of open files cannot be raised: {error}.") from None
