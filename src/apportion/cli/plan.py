"""``apportion plan``: a strategy's assignment for one group, or for one group a line."""

from __future__ import annotations

import argparse

from apportion.cli import progress, source
from apportion.cli.output import emit, emit_json, emit_page, emit_tables, tell
from apportion.cli.parser import PICTURES, Parser, Usage, add_assignor, add_output, settings_of
from apportion.report.text import printable

DETAILS = (
    "FILE is group.json, or anything else that describe reads and that holds one group; - is standard input.\n"
    "With --batch one group a line is read and one plan a line written, in the same order; a bad line gives an error\n"
    "object on its line, the others are planned, and the exit code is 1."
)
EXAMPLES = (
    ("a table for people", "apportion plan group.json --assignor sticky"),
    ("plan.json, with a setting", "apportion plan group.json --assignor lag-aware --set max_skew=2 -o json"),
    ("why it is the best, and the changes for each member", "apportion plan group.json --explain --diff"),
    ("many groups, one per line", "apportion plan --batch --assignor range < groups.ndjson > plans.ndjson"),
)


def add_arguments(parser: Parser) -> None:
    """The group, the strategy, and the parts to show."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the group; - is standard input")
    source.add_group_choice(parser)
    source.add_subscribe(parser)
    add_assignor(parser)
    add_output(parser, PICTURES)
    parser.add_argument("--batch", action="store_true", help="NDJSON in, NDJSON out")
    parser.add_argument("--explain", action="store_true", help="the proof in words")
    parser.add_argument("--diff", action="store_true", help="each member's gains and losses")
    parser.add_argument("--saved", metavar="PLAN", help="with --diff: against this plan.json, not the present owners")
    parser.add_argument("--save", metavar="FILE", help="also write plan.json to this file")


def run(args: argparse.Namespace) -> int:
    """Plan, and show the plan."""
    if args.batch:
        return _batch(args)
    for name in ("diff", "explain"):
        if getattr(args, name) and args.output not in ("table", "wide", "json"):
            raise Usage("apportion plan", f"--{name} is for table, wide and json, not for {args.output}")
    if args.saved and not args.diff:
        raise Usage("apportion plan", "--saved is the plan that --diff compares with: give both")
    from apportion.planning import plan
    from apportion.report import tables

    src = source.Source.of(args)
    sighting = src.one()
    past = source.saved_plan(args.saved).owners_in(sighting.group) if args.saved else sighting.group.owner
    with progress.slow(f"planning with {args.assignor}"):
        planned = plan(sighting.group, args.assignor, settings_of(args))
    if args.save:
        source.write_whole(args.save, planned.to_json() + "\n")
        tell(f"plan saved to {args.save}")
    if args.output == "html":
        from apportion.report import page_groups

        emit_page([page_groups.of_plans(sighting, [planned])], src.title)
        return 0
    if args.output == "json":
        document = planned.to_dict()
        if args.diff:
            document["diff"] = tables.diff_to_dict(planned, past)
        if args.explain:
            document["explanation"] = planned.explain()
            checked = getattr(planned.answer.certificate, "to_dict", None)
            document |= {"certificate": certificate} if checked and (certificate := checked(planned.group)) else {}
        emit_json(document)
    elif args.output in ("csv", "ndjson"):
        emit_tables([tables.plan_rows(planned)], args.output)
    else:
        shown = [tables.plan_members(planned, wide=args.output == "wide")]
        changes = tables.diff(planned, past, "the saved plan" if args.saved else "the present owners")
        notes = [*tables.plan_notes(planned), *source.assumptions(sighting)]
        if args.diff and changes.rows:
            shown.append(changes)
        elif args.diff:
            notes.insert(0, f"Nothing changes against {'the saved plan' if args.saved else 'the present owners'}.")
        emit_tables(shown, args.output, notes)
        if args.explain:
            emit("\n" + "".join(f"{printable(line)}\n" for line in planned.explain()))
    return 0


def _batch(args: argparse.Namespace) -> int:
    """One group a line in, one plan a line out; memory holds one line."""
    from apportion.cli.batch import answer_lines

    for name in ("explain", "diff", "saved", "save", "groups", "subscriptions", *source.CONNECTION):
        if getattr(args, name):
            option = {"groups": "--group", "subscriptions": "--subscribe"}.get(name, "--" + name.replace("_", "-"))
            raise Usage("apportion plan", f"{option} is for a single group, not for --batch")
    if args.output not in ("table", "json", "ndjson"):
        raise Usage("apportion plan", f"--batch writes one plan.json per line, not {args.output}")
    with source.open_bytes(args.file or "-") as lines:
        return answer_lines(lines, args.assignor, settings_of(args))
