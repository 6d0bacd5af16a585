"""``apportion what-if``: changes in the order given, each planned on the result of the one before."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apportion.cli import progress, source
from apportion.cli.output import emit, emit_json, emit_page, emit_tables
from apportion.cli.parser import PICTURES, OneOf, Parser, Usage, add_assignor, add_output, amount, settings_of
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.report.text import to_json

if TYPE_CHECKING:
    from apportion.assignors import Assignor
    from apportion.history.group_history import GroupHistory
    from apportion.model.group import Group
    from apportion.rollouts import Protocol
    from apportion.sighting.sighting import Sighting

DETAILS = (
    "Steps may be given in any order and as often as needed; they happen in that order. After each step the group\n"
    "rebalances, and the next step starts from there. --rolling and --scale show all generations\n"
    "of a rollout: what the other members must give up, lose and read again, and how long partitions are paused.\n"
    "A streams group of a dump or of tables takes --join and --leave, and its tasks are planned: by streams and by\n"
    "broker-sticky, Kafka 4.3's own task assignor, with no, one and two standbys each, or as -A says. --rolling\n"
    "restarts its processes; under broker-sticky and with the standbys that the group asks for, or as -A says."
)
EXAMPLES = (
    ("a member leaves, then two come", "apportion what-if group.json --leave consumer-2-91aa --join 2"),
    ("a topic grows", "apportion what-if group.json --grow clicks:24 --assignor sticky"),
    (
        "all members restart, one at a time, under the broker's protocol",
        "apportion what-if group.json --rolling --protocol consumer",
    ),
    (
        "the same with static members that are back in 30 seconds",
        "apportion what-if group.json --rolling --static --restart-time 30",
    ),
    ("a zone fails during a burst", "apportion what-if group.json --lag impressions:0=1000000 --lose-rack b -o json"),
)


class _Step(argparse.Action):
    """Collect the steps of all options in the order of the command line."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        steps: Sequence[str] = getattr(namespace, "steps", None) or ()
        verb = self.option_strings[-1].removeprefix("--")
        if not str(values).strip():  # a script's variable that was not set
            raise argparse.ArgumentError(self, f"found {values!r}; needed {self.metavar}")
        namespace.steps = [*steps, f"{verb} {values}"]
        namespace.rollout = getattr(namespace, "rollout", False) or verb in ("rolling", "scale")


def add_arguments(parser: Parser) -> None:
    """The group, the steps, the strategy."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the group, as describe reads it")
    steps = parser.add_argument_group("steps")
    for option, form, meaning in (
        ("--join", "N", "N members join, with the commonest subscription"),
        (
            "--leave",
            "MEMBER",
            "a member leaves: by member id, instance id, a client id that only one has; or all of a host",
        ),
        ("--grow", "TOPIC:N", "the topic has N partitions from now on"),
        ("--lose-rack", "RACK", "the rack's members and replicas are gone"),
        ("--lag", "TOPIC:P=N", "the partition is N messages behind"),
        ("--capacity", "MEMBER=N", "the member can read N times as much as one of capacity 1"),
    ):
        steps.add_argument(option, metavar=form, action=_Step, dest="steps", default=argparse.SUPPRESS, help=meaning)
    steps.add_argument(
        "--rolling", metavar="N", nargs="?", const="1", action=_Step, dest="steps", default=argparse.SUPPRESS,
        help="all members restart, N at a time (1)",
    )  # fmt: skip
    steps.add_argument("--scale", metavar="N", action=_Step, dest="steps", default=argparse.SUPPRESS,
                       help="to N members: the last ones leave, or new ones join")  # fmt: skip
    steps.add_argument("--like", metavar="MEMBER", help="new members subscribe to this member's topics")
    rollout = parser.add_argument_group("rollout")
    rollout.add_argument("--static", action="store_true", help="members without an instance id get one")
    rollout.add_argument(
        "--protocol", metavar="NAME", type=OneOf(("eager", "cooperative", "consumer"), "protocol"), default=None,
        help="eager, cooperative or consumer (the broker's); -A is then Kafka's usual strategy for it",
    )  # fmt: skip
    for option, default, meaning in (
        ("--restart-time", 10, "seconds until a member is back"),
        ("--session-timeout", 45, "seconds until a silent member counts as gone"),
        ("--rebalance-time", 3, "seconds that a rebalance pauses a partition"),
    ):
        rollout.add_argument(option, metavar="SECONDS", type=amount, default=default, help=f"{meaning} ({default})")
    source.add_group_choice(parser)
    source.add_subscribe(parser)
    add_assignor(parser, default=None)
    add_output(parser, PICTURES)


def run(args: argparse.Namespace) -> int:
    """Plan step by step, and show the effects of each."""
    from apportion import rollouts
    from apportion.model.protocols import STREAMS
    from apportion.report import comparing
    from apportion.report import rollouts as pictures

    texts = getattr(args, "steps", None)
    if not texts:
        needed = "give --join, --leave, --grow, --lose-rack, --lag, --capacity, --rolling or --scale"
        raise Usage("apportion what-if", f"no step: {needed}")
    if args.like is not None:
        texts = _like(texts, args.like)
    src = source.Source.of(args)
    sighting = src.one()
    tasks = src.history(sighting.name) if sighting.protocol == STREAMS else None
    shown = getattr(args, "rollout", False) or args.static or args.protocol is not None
    if tasks is not None and not shown:
        return _of_tasks(tasks, texts, args)
    group, strategy, protocol, under_notes = _planned_under(sighting, tasks, texts, args)
    times = rollouts.Times(args.restart_time, args.session_timeout, args.rebalance_time)
    stages: list[rollouts.Stage] = []
    documents: list[str] = []
    with progress.slow("planning each step") as begin:
        for stage in rollouts.walk(
            group, texts, protocol, strategy, None, static=args.static, by_host=tasks is not None, times=times
        ):  # fmt: skip
            if args.output == "json":  # a large group's plans as objects take ten times the memory of their text
                documents.append(to_json(stage.to_dict()))
            elif stages and (shown or args.output == "html"):
                stages[-1:] = [pictures.as_shown(stages[-1]), stage]  # only of the last one is more told
            else:
                stages.append(stage)
            begin(f"planned {stage.step}")
    if args.output == "json":
        emit(f'{{"version": 1, "steps": [{", ".join(documents)}]}}\n')
    elif args.output == "html":
        emit_page([pictures.page_data(sighting, group, stages, times)], src.title)
    elif shown:
        notes = [*pictures.notes(stages, protocol), *pictures.changes_in_words(stages), *under_notes]
        emit_tables([pictures.table(stages)], args.output, notes)
    else:
        planned = [(stage.step, stage.plan) for stage in stages]
        notes = [*comparing.step_notes(planned), *pictures.changes_in_words(stages), *under_notes]
        emit_tables([comparing.steps(group, planned)], args.output, notes)
    return 0


def _planned_under(
    sighting: Sighting, tasks: GroupHistory | None, steps: Sequence[str], args: argparse.Namespace
) -> tuple[Group, Assignor, Protocol, Sequence[str]]:
    """The group as it is planned, by which strategy, under which protocol, and the notes on that."""
    from apportion import rollouts
    from apportion.assignors import find

    if tasks is None:
        name = args.assignor or (None if args.protocol else _runs(sighting, args) or DEFAULT_ASSIGNOR)
        protocol = args.protocol or rollouts.protocol_of(find(name or "", settings_of(args)))
        strategy = rollouts.strategy_for(protocol, name, settings_of(args))
        return sighting.group, strategy, protocol, source.assumptions(sighting)
    from apportion.history import task_groups

    _refuse_for_tasks(tasks, steps, args, ("join", "leave", "rolling", "scale"))
    last = task_groups.last_step(tasks.name, tasks.folded.generations)
    strategy = task_groups.asked_for(last, args.assignor, settings_of(args))
    return last.group, strategy, rollouts.protocol_of(strategy), task_groups.rollout_sentences(last)


def _runs(sighting: Sighting, args: argparse.Namespace) -> str | None:
    """The strategy that the group runs itself, under which its rollout goes; None if it is not given or not known."""
    from apportion.assignors import known

    own = f"broker-{sighting.assignor}" if sighting.protocol == "consumer" else sighting.assignor
    return own if getattr(args, "rollout", False) and own in known() else None


def _like(steps: Sequence[str], member: str) -> list[str]:
    """The steps, those that add members with whose subscription these have."""
    if not any(text.partition(" ")[0] in ("join", "scale") for text in steps):
        raise Usage("apportion what-if", "--like chooses the topics of members that join: give --join or --scale too")
    return [f"{text} like {member}" if text.partition(" ")[0] in ("join", "scale") else text for text in steps]


def _refuse_for_tasks(
    group: GroupHistory, steps: Sequence[str], args: argparse.Namespace, known: Sequence[str]
) -> None:
    """Refuse options that have no meaning if tasks move whole."""
    verbs = {text.partition(" ")[0] for text in steps} - set(known)
    verbs |= {"like"} if args.like is not None else set()
    if verbs or args.protocol is not None:
        option = f"--{min(verbs)}" if verbs else "--protocol"
        sentence = f"{option} has no meaning for {group.name!r}, a streams group, whose tasks move whole"
        needed = "give --join N, --leave NAME (a process or a member), --rolling or --scale"
        raise Usage("apportion what-if", f"{sentence}: {needed}")


def _of_tasks(group: GroupHistory, steps: Sequence[str], args: argparse.Namespace) -> int:
    """A streams group's steps, under the assignor that is asked for or all that give tasks."""
    from apportion.report import task_steps

    _refuse_for_tasks(group, steps, args, ("join", "leave"))
    if args.output == "html":
        raise Usage(
            "apportion what-if",
            "these steps of a streams group have no page: take -o table, wide, json, ndjson or csv, or --rolling",
        )
    stages = group.what_if_tasks(steps, args.assignor, settings_of(args))
    if args.output == "json":
        emit_json({"version": 1, "group": group.name, "steps": [stage.to_dict() for stage in stages]})
    else:
        emit_tables([task_steps.table(stages)], args.output, task_steps.notes(stages))
    return 0
