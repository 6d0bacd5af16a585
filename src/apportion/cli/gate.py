"""``apportion gate``: limits on a plan, for CI and alerts; exit 3 and a reason for each that is breached."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from apportion.cli import BREACHED, OK, progress, source
from apportion.cli.output import emit_json, emit_tables, tell
from apportion.cli.parser import DEFAULT_ASSIGNOR, Parser, Usage, add_assignor, add_output, settings_of, whole

if TYPE_CHECKING:
    from apportion.inputs.described_group import Observed
    from apportion.policies import Limits

DETAILS = (
    "FILE is plan.json, or a group as describe reads it, which is then planned with --assignor. With --now the\n"
    "present owners of a group are judged instead. At least one limit must be given."
)
EXAMPLES = (
    ("a plan that was saved", "apportion gate plan.json --max-moves 10 --require-proof"),
    ("would a rebalance move too much?", "apportion gate group.json --assignor sticky --max-moves 10 --max-skew 1"),
    ("is one member swamped now?", "apportion gate group.json --now --max-lag-share 0.9 --max-lag 1000000"),
)  # fmt: skip
_LIMITS: Final = (
    ("max-moves", "N", "partitions that change owner"),
    ("max-skew", "N", "most loaded member minus least loaded, per capacity"),
    ("max-lag", "N", "messages of the heaviest member; with --now, or that nobody reads"),
    ("max-lag-share", "X", "of all lag, on one member: 0 to 1"),
    ("max-cross-rack", "N", "partitions read across racks"),
    ("max-unowned", "N", "wanted partitions without an owner"),
    ("max-topic-share", "X", "of one topic's partitions, on one member: 0 to 1"),
    ("max-double-readers", "N", "with --now: partitions that several members read (0)"),
)
"""A limit, N a whole number or X a share, and what it is on."""


def add_arguments(parser: Parser) -> None:
    """What to judge, and the limits."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a plan or a group; - is standard input")
    limits = parser.add_argument_group("limits")
    for name, metavar, meaning in _LIMITS:
        kind = whole() if metavar == "N" else _share
        limits.add_argument(f"--{name}", metavar=metavar, type=kind, help=meaning)
    limits.add_argument("--require-proof", action="store_true", help="every goal of the strategy proved optimal")
    parser.add_argument("--now", action="store_true", help="judge the present owners, not a plan")
    source.add_group_choice(parser)
    source.add_subscribe(parser)
    add_assignor(parser)
    parser.set_defaults(assignor=None)  # whether one was named must be known: a plan has its own
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Judge, say what is breached, and end with 3 where anything is."""
    from apportion import policies
    from apportion.report import gating

    limits = _limits(args)
    content, facts, observed = _judged(args)
    breached = policies.breaches(limits, facts)
    if observed is not None and not breached:
        source.refuse_parts(observed, args)  # the rest might breach them; what does already, needs no rest
        source.refuse_contradiction(observed, args)
    notes = gating.reasons(breached, content)
    if observed is not None and not args.now and len(observed.group.claims.partition):
        tell("this judged a plan and not the present owners that the input names; --now judges those")
    if observed is not None:
        notes += [f"Not all was read: {sentence}." for sentence in observed.left_out]
        notes += source.assumptions(observed)
    if args.output == "json":
        emit_json({"version": 1, "breached": breached})
    else:
        shown = [gating.table(breached)] if breached or args.output not in ("table", "wide") else []
        emit_tables(shown, args.output, notes)
    return BREACHED if breached else OK


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
    elif args.max_double_readers is not None:
        raise Usage("apportion gate", "--max-double-readers asks for the present owners: give --now too")
    if args.now and args.require_proof:
        raise Usage("apportion gate", "--require-proof asks for a plan, --now for the present owners: choose one")
    return limits


def _judged(args: argparse.Namespace) -> tuple[str, dict[str, Any], Observed | None]:
    """What is judged, in words, its figures, and the group: from a plan, or a group that is planned or as it is."""
    from apportion import policies
    from apportion.model.plan_json import SavedPlan
    from apportion.planning import plan

    named = "--assignor" if args.assignor else "--set" if args.settings else None
    if args.now and named:
        raise Usage("apportion gate", f"{named} asks for a plan, --now for the present owners: choose one")
    given = source.plan_or_group(args, whole=False)
    if isinstance(given, SavedPlan):
        if args.now or named:
            raise Usage("apportion gate", f"{named or '--now'} asks for a group, this is a plan")
        return f"the plan of {given.assignor}", policies.facts_of_saved(given), None
    group = given.group
    if args.now:
        return "the present owners", policies.facts_of_owners(group), given
    assignor = args.assignor or DEFAULT_ASSIGNOR
    with progress.slow(f"planning with {assignor}"):
        planned = plan(group, assignor, settings_of(args))
    return f"the plan of {planned.assignor}", policies.facts_of_plan(planned), given


def _share(text: str) -> float:
    try:
        value = float(text) if text.isascii() else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"found {text[:60]!r}; needed a number from 0 to 1")
    return value
