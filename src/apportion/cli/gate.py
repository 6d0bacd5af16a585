"""``apportion gate``: limits on a plan, for CI and alerts; exit 3 and a reason for each that is breached."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from apportion.cli import BREACHED, OK, progress, source
from apportion.cli.output import emit_json, emit_tables, tell
from apportion.cli.parser import Parser, Usage, add_assignor, add_output, amount, settings_of, whole
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.errors import BadInput
from apportion.wording import count

if TYPE_CHECKING:
    from apportion.policies import Limits
    from apportion.sighting.sighting import Sighting

DETAILS = (
    "FILE is plan.json, or a group as describe reads it, which is then planned with --assignor. With --now the\n"
    "present owners of a group are judged instead. At least one limit must be given."
)
EXAMPLES = (
    ("a plan that was saved", "apportion gate plan.json --max-moves 10 --require-proof"),
    ("would a rebalance move too much?", "apportion gate group.json --assignor sticky --max-moves 10 --max-skew 1"),
    ("is any group a minute behind?",
     "apportion gate --bootstrap-server localhost:9092 --all-groups --now --max-lag-seconds 60"),
    ("has one member too much to read now?", "apportion gate group.json --now --max-lag 50000"),
)  # fmt: skip
_LIMITS: Final = (
    ("max-moves", "N", "partitions that change owner"),
    ("max-skew", "N", "most loaded member minus least loaded, per capacity"),
    ("max-lag", "N", "messages of the heaviest member; with --now also those that no member reads"),
    ("max-lag-seconds", "S", "age of the oldest unread message, with --now, for a dump, tables or a live cluster"),
    ("max-lag-share", "X", "of all lag, on one member: 0 to 1"),
    ("max-cross-rack", "N", "partitions read across racks"),
    ("max-unowned", "N", "subscribed partitions without an owner"),
    ("max-topic-share", "X", "of one topic's partitions, on one member: 0 to 1"),
    ("max-double-readers", "N", "with --now: partitions that several members read (0)"),
)
"""A limit, N a whole number, S seconds or X a share, and what it is on."""


Case = tuple[str, dict[str, Any], "Sighting | None"]
"""What is judged, in words, its figures, and the group; None of a saved plan."""


def add_arguments(parser: Parser) -> None:
    """Which groups to judge, and the limits."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a plan or a group; - is standard input")
    limits = parser.add_argument_group("limits")
    for name, metavar, meaning in _LIMITS:
        kind = {"N": whole(), "S": amount}.get(metavar, _share)
        limits.add_argument(f"--{name}", metavar=metavar, type=kind, help=meaning)
    limits.add_argument("--require-proof", action="store_true", help="every goal of the strategy proved optimal")
    parser.add_argument("--now", action="store_true", help="judge the present owners, not a plan")
    parser.add_argument("--all-groups", action="store_true", help="judge every group of the input or the cluster")
    parser.add_argument("--window", metavar="SECONDS", type=amount, help="seconds over which --max-lag-seconds looks")
    source.add_group_choice(parser)
    source.add_subscribe(parser)
    add_assignor(parser)
    parser.set_defaults(assignor=None)  # whether one was named must be known: a plan has its own
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Judge, name each breach, and end with 3 if there is any."""
    from apportion.report import gating
    from apportion.sighting.judged import Judged

    limits = _limits(args)
    src = source.Source.of(args)
    judged: Sequence[Case] = _each(src, args) if args.all_groups else [_judged(src, args)]
    breached: list[dict[str, Any]] = []
    notes: list[str] = []
    refused: list[BadInput] = []
    for _, facts, sighting in judged:
        try:
            exceeded = _exceeded(limits, facts, sighting, src)
        except BadInput as why:
            refused.append(why if sighting is None or not args.all_groups else _of_group(sighting.name, why))
            continue
        breached += [{"group": sighting.name, **one} for one in exceeded] if args.all_groups and sighting else exceeded
        if sighting is not None:
            notes += [f"Not all was read: {sentence}." for sentence in sighting.gaps]
            notes += source.assumptions(sighting)
    if refused and not breached:
        raise refused[0]
    if not args.now and any(sighting is not None and len(sighting.group.claims.partition) for _, _, sighting in judged):
        tell("this judged a plan and not the present owners that the input names; --now judges those")
    whose = f"the {'present owners' if args.now else 'plans'} of {count(len(judged), 'group')}"
    notes = [*gating.reasons(breached, whose if args.all_groups else judged[0][0]), *dict.fromkeys(notes)]
    notes += [f"Not judged: {why}" for why in refused]
    present = judged[0][2] if args.now and not args.all_groups else None
    verdict = None if present is None else Judged(present)
    if verdict is not None:
        notes.append(" ".join([f"Verdict {verdict.verdict}.", *verdict.reasons]))
    if args.output == "json":
        emit_json({"version": 1, "breached": breached, **(verdict.to_dict() if verdict is not None else {})})
    else:
        tables = [gating.table(breached)] if breached or args.output not in ("table", "wide") else []
        emit_tables(tables, args.output, notes)
    return BREACHED if breached else OK


def _exceeded(
    limits: Limits, facts: dict[str, Any], sighting: Sighting | None, src: source.Source
) -> list[dict[str, Any]]:
    """The limits that are breached, each with its figure.

    Raises
        BadInput: a figure is unknown; or no limit is breached and a part of the input was not read or contradicts
        another. An unread part is named first.
    """
    from apportion import policies

    try:
        exceeded = policies.breaches(limits, facts)
    except BadInput:
        if sighting is not None:
            src.refuse_parts(sighting)
        raise
    if sighting is not None and not exceeded:
        src.refuse_parts(sighting)  # the rest might breach them; what does already, needs no rest
        src.refuse_contradiction(sighting)
    return exceeded


def _of_group(name: str, why: BadInput) -> BadInput:
    return BadInput(f"{name}: {why.where}", why.found, why.needed)


def _each(src: source.Source, args: argparse.Namespace) -> Sequence[tuple[str, dict[str, Any], Sighting]]:
    """Every group of the input; one without members has no plan, and of the present all that it has not read waits."""
    from apportion import policies
    from apportion.model.protocols import SHARE

    judged: list[tuple[str, dict[str, Any], Sighting]] = []
    groups = [sighting for sighting in src.many(whole=False) if sighting.protocol != SHARE]
    for sighting in groups:
        if not sighting.group.P and not sighting.unnamed_partitions:
            continue  # it reads nothing: a group of Connect, or one that has just begun
        if not sighting.owners_told:
            judged.append(("", policies.facts_untold(sighting.group), sighting))
        elif sighting.group.M:
            judged.append(_facts_of(src.plannable(sighting, whole=False), args))
        elif args.now:
            judged.append(("the present owners", policies.facts_of_nobody(sighting.group), sighting))
    _add_ages([(facts, sighting) for _, facts, sighting in judged], src, args)
    return judged


def _limits(args: argparse.Namespace) -> Limits:
    given = {name: getattr(args, name.replace("-", "_")) for name, _, _ in _LIMITS}
    limits = {name: value for name, value in given.items() if value is not None}
    if args.require_proof:
        limits["require-proof"] = True
    if not limits:
        raise Usage("apportion gate", "no limit: give at least one, as in --max-moves 10")
    if args.now:
        # Two readers of one partition are a fault under any limit on owners, unless it is allowed by name.
        limits.setdefault("max-double-readers", 0)
    for name in ("max-double-readers", "max-lag-seconds"):
        if name in limits and not args.now:
            raise Usage("apportion gate", f"--{name} asks for the present owners: give --now too")
    if args.now and args.require_proof:
        raise Usage("apportion gate", "--require-proof asks for a plan, --now for the present owners: choose one")
    return limits


def _judged(src: source.Source, args: argparse.Namespace) -> tuple[str, dict[str, Any], Sighting | None]:
    """The thing that is judged, in words, its figures, and the group: from a plan, or a group, planned or as it is."""
    from apportion import policies
    from apportion.model.plan_json import SavedPlan

    named = "--assignor" if args.assignor else "--set" if args.settings else None
    if args.now and named:
        raise Usage("apportion gate", f"{named} asks for a plan, --now for the present owners: choose one")
    given = src.plan_or_group(whole=False)
    if isinstance(given, SavedPlan):
        if args.now or named:
            raise Usage("apportion gate", f"{named or '--now'} asks for a group, this is a plan")
        return f"the plan of {given.assignor}", policies.facts_of_saved(given), None
    content, facts, sighting = _facts_of(given, args)
    _add_ages([(facts, sighting)], src, args)
    return content, facts, sighting


def _facts_of(given: Sighting, args: argparse.Namespace) -> tuple[str, dict[str, Any], Sighting]:
    """The part of a group that is judged: its present owners, or its plan."""
    from apportion import policies
    from apportion.planning import plan

    group = given.group
    if args.now:
        return "the present owners", policies.facts_of_owners(group), given
    assignor = args.assignor or DEFAULT_ASSIGNOR
    with progress.slow(f"planning with {assignor}"):
        planned = plan(group, assignor, settings_of(args))
    return f"the plan of {planned.assignor}", policies.facts_of_plan(planned), given


def _add_ages(judged: Sequence[tuple[dict[str, Any], Sighting]], src: source.Source, args: argparse.Namespace) -> None:
    """Add the age of each group's oldest unread message, if a limit is on it."""
    if args.max_lag_seconds is None:
        return

    over_time = src.over_time([sighting for _, sighting in judged], args.window)
    if over_time is None:
        needed = "--max-lag-seconds needs a dump, tables or a live cluster: a file shows only one moment"
        raise Usage("apportion gate", needed)
    for (facts, _), known in zip(judged, over_time, strict=True):
        least, why = known.lag_in_time().whole.oldest_unread
        facts["max-lag-seconds"] = least
        facts["unknown"] = {**facts.get("unknown", {}), "max-lag-seconds": why}


def _share(text: str) -> float:
    try:
        value = float(text) if text.isascii() else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"found {text[:60]!r}; needed a number from 0 to 1")
    return value
