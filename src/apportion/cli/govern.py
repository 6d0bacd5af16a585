"""``apportion govern``: our strategies for groups of the new protocol, by a plan that comes through the group."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from apportion.cli import source
from apportion.cli.output import emit, tell
from apportion.cli.parser import Parser, Usage, add_assignor, settings_of, whole
from apportion.errors import BadInput
from apportion.report.text import printable
from apportion.wording import count

if TYPE_CHECKING:
    from apportion.governing.governor import Governed
    from apportion.governing.rules_file import GroupRule
    from apportion.governing.service import Governing
    from apportion.sources.cluster import Cluster

DETAILS = (
    "The brokers need the class io.apportion.broker.GovernedAssignor (one jar, named in group.consumer.assignors),\n"
    "and the members group.remote.assignor=apportion. You need your own brokers: managed clouds and\n"
    "Redpanda accept no such class; use GroupConsumer there.\n"
    "It looks at the group, plans it, and a static member that takes nothing carries the plan in its rack id.\n"
    "While it is away nothing moves. All brokers are asked for the class first: a member that names\n"
    "an assignor which its broker lacks ends for good.\n"
    "Rights: DescribeConfigs on the cluster, Read on the group, Describe on its topics."
)
EXAMPLES = (
    ("do all brokers have the class?", "apportion govern --bootstrap-server localhost:9092 --check"),
    ("failover, priorities by a file", "apportion govern --context prod --group ads --config govern.toml"),
    ("racks", "apportion govern --context prod --group ads --assignor sticky --set order=balance,racks,moves"),
)

SWITCH_S = 0.0005
"""For how long one thread may compute while another waits: a look must not hold up each heartbeat."""

PUT_IN = """
What to do, on every broker, one after the other:
  plain Kafka  put apportion-broker-0.1.0.jar into libs/, and set
               group.consumer.assignors=uniform,range,io.apportion.broker.GovernedAssignor
  an image     FROM apache/kafka:4.3.0
               COPY apportion-broker-0.1.0.jar /opt/kafka/libs/
               ENV KAFKA_GROUP_CONSUMER_ASSIGNORS=uniform,range,io.apportion.broker.GovernedAssignor
  Strimzi      no image of your own: mount one that has only the jar, in spec.kafka of the Kafka resource
               config: {group.consumer.assignors: "uniform,range,io.apportion.broker.GovernedAssignor"}
               template:
                 pod: {volumes: [{name: apportion, image: {reference: registry.example.com/apportion-broker:0.1.0}}]}
                 kafkaContainer:
                   volumeMounts: [{name: apportion, mountPath: /mnt/apportion}]
                   env: [{name: CLASSPATH, value: "/mnt/apportion/*"}]
Then run apportion govern --check again.
"""


def add_arguments(parser: Parser) -> None:
    """The groups, their strategy, and how plans are trusted."""
    source.add_group_choice(parser)
    parser.add_argument("--all-groups", action="store_true", help="every group of the new protocol that --config names")
    add_assignor(parser)
    parser.add_argument("--config", metavar="FILE", help="strategies, settings and members' facts by group, TOML")
    parser.add_argument("--convert", action="store_true", help="also classic groups: the governor's join converts them")
    parser.add_argument(
        "--check", action="store_true", help="ask all brokers for the class; exit code 3 if one lacks it"
    )
    parser.add_argument("--key-file", metavar="FILE", help="the key that signs plans, as on the brokers")
    parser.add_argument("--interval", metavar="S", type=whole(1, 3600), default=5, help="seconds (default: 5)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="answer /metrics and /healthz there")
    parser.add_argument(
        "--status", action="store_true", help="list the governed groups and their differences, then end"
    )
    parser.add_argument("--release", action="store_true", help="give the groups back to uniform, then end")


def run(args: argparse.Namespace) -> int:
    """Check the brokers, then govern until it is ended."""
    from apportion.governing.governor import CLASS, without_class
    from apportion.governing.looking import Selection
    from apportion.governing.service import governing
    from apportion.sources.cluster import connect

    rules, key = _rules(args), _key(args.key_file)
    connection = source.connection(args)
    reach = connection.bootstrap, connection.properties
    with connect(*reach) as looks:
        if args.status:
            return _status(looks, args.groups)
        lacking = without_class(looks)
        for broker, assignors in lacking.items():
            emit(f"broker {broker} lacks {CLASS}: group.consumer.assignors={assignors}\n")
        if lacking:
            tell("Members that name the assignor would end for good on these brokers: nothing was begun.")
            emit(PUT_IN)
            return 3
        if args.check:
            emit(f"every broker has {CLASS}\n")
            return 0
        selection = Selection(rules, None if args.all_groups else args.groups)
        with governing(*reach, looks, selection, key) as governor:
            if args.release:
                return _released(governor, args.groups or governor.groups())
            return _govern(governor, args.interval, args.listen)


def _status(looks: Cluster, names: list[str]) -> int:
    """Each governed group, its plan's age, its carriers and its differences from the plan; 3 if one differs."""
    from apportion.governing.governor import who
    from apportion.sources.cluster_round import look

    seen, differing, listed = look(looks), 0, 0
    for name, group in sorted(seen.groups.items()):
        under = group.facts.get("governed")
        if (names and name not in names) or under is None:
            continue
        seats = [who(seat) for seat, _ in group.facts["carriers"] if seat["member_epoch"] >= 0]
        age_s = max(0.0, seen.ended - under.published_s)
        sentences = " ".join(under.sentences[1:]) or "It is followed."
        carriers = ", ".join(seats) or "no member now, until its session ends"
        emit(
            f"{printable(name)}: plan of {age_s:,.0f} s ago, carried by {printable(carriers)}. {printable(sentences)}\n"
        )
        listed, differing = listed + 1, differing + bool(under.differs)
    emit(
        f"{count(listed, 'group')} carry a plan; {differing} differ from it.\n"
        if listed
        else "No group carries a plan.\n"
    )
    for trouble in [*seen.troubles, *(f"{name}: {why}" for name, why in seen.unknown.items())]:
        tell(trouble)
    return 3 if differing or seen.troubles or seen.unknown else 0


def _govern(governing: Governing, interval_s: int, listen: str | None) -> int:
    from apportion.governing.metrics import listening
    from apportion.governing.service import govern

    over: list[int] = []

    def end(signum: int, frame: FrameType | None) -> None:
        over.append(signum)

    sys.setswitchinterval(SWITCH_S)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    with listening(listen, governing, interval_s) if listen else nullcontext():
        differing = govern(governing, interval_s, _told, lambda: bool(over))
    if differing:
        tell(f"The brokers do not follow the plan of {', '.join(differing)}.")
    return 3 if differing else 0


def _released(governing: Governing, groups: list[str]) -> int:
    """Give groups back, one after the other; 3 if the brokers did not take one."""
    refused = False
    try:
        for name in groups:
            why_not = governing.release(name)
            refused |= bool(why_not)
            if why_not:
                tell(f"{name}: not released: {why_not}")
            else:
                emit(f"{printable(name)}: released\n")
    finally:
        governing.close()
    return 3 if refused else 0


def _told(group: str, governed: Governed) -> None:
    """One line for each thing that happened."""
    if governed.outcome in ("publishing", "unchanged"):
        return
    more = f", {count(governed.differs, 'partition')} to move" if governed.outcome == "published" else ""
    tell(f"{group}: {governed.outcome}{more}{''.join(f'; {sentence}' for sentence in governed.sentences)}")


def _rules(args: argparse.Namespace) -> tuple[GroupRule, ...]:
    import re

    from apportion.governing.rules_file import GroupRule, read_rules
    from apportion.planning import strategy_of

    if not (args.check or args.status) and bool(args.groups) == args.all_groups:
        raise Usage("apportion govern", "give --group, or --all-groups with --config")
    if args.all_groups and not args.config:
        raise Usage("apportion govern", "--all-groups needs --config, which says which groups and how")
    if args.config:
        return read_rules(args.config)
    strategy = strategy_of(args.assignor, settings_of(args))
    return (GroupRule(re.compile(".*", re.DOTALL), strategy, convert=args.convert),)


def _key(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise BadInput("--key-file", f"{path}: {error.strerror}", "a readable file") from None
    if len(key) < 16:
        raise BadInput("--key-file", count(len(key), "byte"), "16 or more, as the brokers ask")
    return key
