"""``apportion serve``: a page that stays current, metrics that dashboards know, a small JSON API; read-only."""

from __future__ import annotations

import argparse
import logging
import os
import re
from dataclasses import replace

from apportion.cli import source
from apportion.cli.output import tell
from apportion.cli.parser import Parser, Usage, amount, whole
from apportion.errors import MissingExtra
from apportion.report.text import printable

DETAILS = (
    "It asks the cluster on a schedule, reads the tail of __consumer_offsets where it may, and keeps a while\n"
    "in memory. Nothing is written to the cluster.\n"
    "/ is the page of report, live; /metrics is for Prometheus; /api/v1/groups and /api/v1/groups/GROUP are JSON;\n"
    "/healthz is about the process, /readyz about the cluster. Beyond this machine it wants TLS and a login.\n"
    "Rights: Describe on the cluster, the groups and the topics; Read on __consumer_offsets, which may be missing."
)
EXAMPLES = (
    ("for this machine", "apportion serve --bootstrap-server localhost:9092"),
    ("two families of metrics", "apportion serve --context prod --names kafka_exporter,apportion"),
    (
        "for a network",
        "apportion serve --context prod --listen 0.0.0.0:9308 --tls-cert crt.pem --tls-key key.pem --token-file tokens",
    ),
    ("with the past at once", "apportion serve --context prod --from tables"),
)


def add_arguments(parser: Parser) -> None:
    """The cluster, the address, metrics, access."""
    source.add_connection(parser)
    parser.add_argument(
        "--contexts", metavar="NAME,...", type=lambda text: text.split(","), default=[],
        help="several clusters, by their contexts in the config file: one page lists them",
    )  # fmt: skip
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:9308", help="default: 127.0.0.1:9308, this machine alone"
    )
    parser.add_argument("--interval", metavar="S", type=whole(1, 3600), default=10, help="seconds (default: 10)")
    parser.add_argument("--from", metavar="DIR", dest="past", help="a dump or the pipeline's tables: the past at once")
    parser.add_argument(
        "--capacity",
        metavar="N",
        type=whole(1),
        help="messages a second that a member can read: advises a number of members",
    )
    parser.add_argument(
        "--catch-up", metavar="S", type=amount, help="with --capacity: also read the lag within this many seconds"
    )
    source.add_checkpoints(parser)
    parser.add_argument("--no-tail", action="store_true", help="do not read __consumer_offsets")
    shown = parser.add_argument_group("metrics")
    shown.add_argument(
        "--names", metavar="NAMES", default="",
        help="families of metrics: all, kafka-lag-exporter, kafka_exporter, kminion, apportion, or a metric's name; "
        "-NAME leaves out (default: kafka-lag-exporter,apportion, each lag once)",
    )  # fmt: skip
    shown.add_argument(
        "--max-series", metavar="N", type=whole(1000, 50_000_000), default=500_000, help="default: 500000"
    )
    shown.add_argument("--cluster-name", metavar="NAME", help="the label cluster_name (default: the cluster's id)")
    names = shown.add_mutually_exclusive_group()
    names.add_argument(
        "--personal",
        action="store_true",
        default=None,
        help="show client ids and hosts, in labels of metrics too (the page and the API show them where this machine "
        "alone can reach them)",
    )
    names.add_argument("--no-personal", action="store_false", dest="personal", help="never show them")
    shown.add_argument(
        "--otlp-endpoint", metavar="URL", help="send the metrics by OTLP too, as in http://localhost:4318/v1/metrics"
    )
    safety = parser.add_argument_group("access")
    safety.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    safety.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    safety.add_argument("--token-file", metavar="FILE", help="bearer tokens, one a line")
    safety.add_argument("--basic-auth-file", metavar="FILE", help="name:password, one a line")
    safety.add_argument("--insecure", action="store_true", help="listen beyond this machine without TLS or login")


def run(args: argparse.Namespace) -> int:
    """Serve until it is ended."""
    try:
        from apportion.serve import server
    except ImportError as error:
        raise MissingExtra("apportion serve", "serve") from error
    from apportion.serve import metrics
    from apportion.serve.access import check_exposure, is_loopback, read_access
    from apportion.serve.otlp import check_endpoint
    from apportion.serve.settings import ServerSettings

    if args.catch_up is not None and args.capacity is None:
        raise Usage(
            "apportion serve", "--catch-up is the time in which members of a --capacity read the lag: give both"
        )
    listen = server.read_listen(args.listen, args.tls_cert, args.tls_key)
    access, notes = read_access(args.token_file, args.basic_auth_file)
    missing = check_exposure(listen.host, listen.tls_cert is not None, access, args.insecure)
    metrics.chosen(args.names)
    otlp_endpoint = args.otlp_endpoint or os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    check_endpoint(otlp_endpoint)
    if args.contexts and any(getattr(args, name) for name in (*source.CONNECTION, "past", "checkpoints")):
        raise Usage("apportion serve", "--contexts names the clusters: leave out the options of a single one")
    if odd := [name for name in args.contexts if not re.fullmatch(r"[\w.-]+", name)]:
        raise Usage("apportion serve", f"--contexts: {odd[0]!r} is no name of letters, digits, '.', '_' and '-'")
    clusters = {name: argparse.Namespace(**{**vars(args), "context": name}) for name in args.contexts} or {"": args}
    connections = {name: source.connection(of_cluster) for name, of_cluster in clusters.items()}
    _log()
    for note in (*notes, *(f"--insecure: without {safeguard}" for safeguard in missing)):
        tell(note)
    common = ServerSettings(
        interval_s=float(args.interval), tail=not args.no_tail, past=args.past,
        personal=is_loopback(listen.host) if args.personal is None else args.personal,
        personal_labels=bool(args.personal),
        names=args.names, most_series=args.max_series, cluster_name=args.cluster_name,
        capacity=None if args.capacity is None else float(args.capacity),
        otlp_endpoint=otlp_endpoint, catch_up_s=args.catch_up,
        checkpoints=tuple(args.checkpoints),
    )  # fmt: skip

    def settings(name: str) -> ServerSettings:
        return replace(common, source=source.reach(clusters[name]), cluster_name=name or args.cluster_name)

    def started(port: int) -> None:
        tell(f"listening on {server.Listen(listen.host, port, listen.tls_cert, listen.tls_key).url}; Ctrl-C ends it")

    served = {name: (settings(name), connection) for name, connection in connections.items()}
    server.run(served, listen, access, started)
    return 0


def _log() -> None:
    """Warnings of the server on standard error, a line each; names from the cluster cannot forge a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("apportion.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if os.environ.get("APPORTION_DEBUG") else logging.WARNING)


class _OneLine(logging.Formatter):
    """One line a message, even if it quotes several."""

    def format(self, record: logging.LogRecord) -> str:
        """The message with every control character escaped."""
        return printable(super().format(record))
