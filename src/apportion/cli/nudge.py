"""``apportion nudge``: ask the leader of a live group for a rebalance now, if a member of ours leads and acts."""

from __future__ import annotations

import argparse
import time

from apportion.cli import progress, source
from apportion.cli.output import emit
from apportion.cli.parser import Parser, Usage, whole
from apportion.errors import Unavailable

DETAILS = (
    "If the leader runs apportion and acts on lag (assignor(..., acting=Acting(...))), it finds the nudge with its\n"
    "next fetch of offsets and starts a rebalance, even during its rest. If another member leads, restart one\n"
    "member, which rebalances a group of dynamic members twice."
)
EXAMPLES = (("rebalance now", "apportion nudge --bootstrap-server localhost:9092 --group ads-join"),)


def add_arguments(parser: Parser) -> None:
    """Which group, and how long to wait."""
    source.add_group_choice(parser)
    parser.add_argument(
        "--wait", metavar="S", type=whole(1, 3600), default=60, help="seconds until it gives up (default: 60)"
    )


def run(args: argparse.Namespace) -> int:
    """Leave a nudge, and wait until a leader took it."""
    from apportion.sources import live
    from apportion.sources.cluster import connect, sentences

    if len(args.groups) != 1:
        raise Usage("apportion nudge", "give one group with --group")
    [name] = args.groups
    connection = source.connection(args)
    with connect(connection.bootstrap, connection.properties) as cluster:
        with progress.slow(f"asking {connection.bootstrap}", waits_for=connection.bootstrap):
            [group] = live.read(cluster, [name])
        topics = sorted({group.group.topics[t] for t in group.group.topic_of[group.group.claims.partition].tolist()})
        if not topics:
            raise Unavailable(f"group {name!r} has no member with partitions, so there is nothing to rebalance")
        with sentences(connection.bootstrap):
            return _nudged(cluster._admin, name, topics[0], args.wait)


def _nudged(admin: object, name: str, topic: str, wait_s: int) -> int:
    from apportion.sources import nudge_commit

    at_ms = round(time.time() * 1000)
    nudge_commit.commit(admin, name, topic, at_ms)
    try:
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            nudge = nudge_commit.newest(admin, name)
            if nudge is not None and nudge.at_ms == at_ms and nudge.heeded:
                emit(f"The leader of group {name!r} took the nudge: the group rebalances now.\n")
                return 0
            time.sleep(0.5)
    finally:
        nudge_commit.remove(admin, name)
    raise Unavailable(
        f"no leader took the nudge of group {name!r} within {wait_s} s: its leader does not act (acting=), or "
        "its lag feed fetches more rarely (every_s); restart one member instead, or wait longer with --wait"
    )
