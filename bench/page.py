"""BENCHMARKS.md: the figures as tables, and what they are worth."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.caches import FLOOR, OURS
from bench.cells import Cell
from bench.matrix import Row
from bench.peers import GO_VERSION, JAVA_VERSION, PYTHON_VERSION, Told

SECTIONS = {
    "parts": "The leader's call, part by part",
    "caches": "The leader's call with equal caches",
    "floors": "What lists and dicts alone take",
    "overlap": "Overlapping subscriptions",
    "million": "A million partitions",
    "large": "Large groups, from bytes to bytes",
    "tiny": "Small groups",
    "growth": "Ten sizes",
    "startup": "The command line, whole process",
    "strategies": "Other strategies",
    "tasks": "Tasks with state",
}
TEXTS = {
    "parts": """Milliseconds of CPU time, medians of 38 calls of kafka-python's coordinator, the clock read at the door
of each part. Cold: the collector walks over the whole process before each call. The client's own part asks for
metadata, wakes its other thread and checks each topic's name; no strategy can spare it. Others: what members remember,
what is withheld, the members' order.""",
    "caches": """From bytes to bytes once more, beside franz-go; medians of five processes each, by turns. In turn: as
in the table above, one call after the other. Warm: the same call was made just before, in both, and before that (in Go
once more behind it) the collector ran. Cold: the thread has written through 64 MB just before, in both. A consumer,
which rebalances once in a while, is somewhere between. Collected: the collector was made to run just before, which is
how the table above was measured until November 2026. It sets a cold call beside a warm one: Python's walks over the
whole process on the thread that plans and leaves its caches cold; Go's walks over a small heap, on other threads.
Beside our call the same with hardly any partitions, 2 a member in 5 topics, all else being equal: what the call takes
whatever the size, and no quicker work on partitions can lower.""",
    "floors": """From names to names, beside what no planner can be without that takes and gives Python's lists: to look
once at every id and every topic that is owned, and to make dicts of ready keys and ids (lists that stay are handed on,
the collector is paused). No array, no plan, no check is in it. The cells whose goals are near.""",
    "overlap": """2,000 members, each with a random half of 500 topics; 100,000 partitions.
Goal: under 500 ms, every goal proved.""",
    "million": """2,000 topics of 500 partitions, 2,000 members that want all of them; one call in a process of its own,
which first makes the input or reads it from JSON. Goals: under 1 s, and under 600 MB at the peak of the process.""",
    "large": """One leader's call, the first of its process, which has what members sent: 2,000 members that want 2,000
topics of 500 partitions; 10,000 members that want one topic each, of 100 with 1,000 partitions. Client none: the bridge
that all adapters share, which knows the sizes of the topics and has nothing else in memory; so this is what the call
itself needs. kafka-python: beside its own tables, which hold an object for each partition of the cluster before anybody
calls: what stands under "MB before" is those and what the members sent, and no strategy can spare it; the call adds the
difference. Goals: a million partitions in 1.5 s and 700 MB, 10,000 members in 150 ms.""",
    "tiny": """6 partitions, 3 members, one of them new: what a pipeline pays for each of millions of groups.
CPU time, medians of 2,000 calls; the last row also makes the names of the answer.""",
    "growth": """200 members with nested subscriptions, 100 topics, one more member joins.
Where time grows linearly, the time a partition stays the same.""",
    "startup": "Medians of five runs, after one that compiles the modules as pip does.\n"
    "Goals: 150 ms for the start, 1 s for 10,000 partitions.",
    "strategies": """100 partitions a member in 20 topics, with a past; one member joins.
Lags are drawn from a Pareto distribution.""",
    "tasks": "Ten sub-topologies, one standby a task; seconds of CPU time.",
}


LEADER = """What a group waits for while its leader thinks: one call of kafka-python's own coordinator, and of
aiokafka's, with our strategy, from the metadata in the JoinGroup answer to the bytes of the SyncGroup request. All is
in it: the client's own part, reading, what is known of the topics, the plan, what is withheld, the bytes, and the log
record through a handler that formats it. aiokafka's has a hop to a thread and back. In brackets the first call of the
process. Nothing is kept from one call to the next, by us or by franz-go. Java:
`ConsumerProtocol.deserializeSubscription` of every member, `assign`, `serializeAssignment`. franz-go:
`MemberBalancer`, `BalanceOrError`, `IntoSyncAssignment`; it knows no racks here. A consumer's call is between its first
and the later ones, which find the processor's caches warm: "The leader's call with equal caches" tells what cold ones
change. The last two columns are no leader's
call: `apportion.plan(dict)` with `to_dict()`, which judges every field of a dict that anyone may have written, and the
same group from names to names, as in the next table."""

LEADER_COLUMNS = (
    "cell", "partitions", "**kafka-python (first)**", "**aiokafka (first)**", "Java warm (first)",
    "franz-go (first)",
    "plan(dict)", "of names to names",
)  # fmt: skip

NAMES = """What a strategy itself needs, from decoded names to lists of names: `build`, `assign` and
`Plan.assignment`, for comparing planners. It is `plan(dict)` without the look at each field. "What lists and dicts
alone take" below tells, where a goal is near or missed, what of the time would be there without any planner."""

HOW = """How it is measured:

- CPU milliseconds of the planning thread, medians, a fresh input for each call, one call after the other. All garbage
  collectors are on as in production, and none is made to run between calls. Java's and Go's, and Java's compiler, work
  on other threads and are not counted; Python's works on the same one. Wall time, which other programs on the machine
  lengthen, stands beside. Everybody has a process of its own for each cell.
- Java in brackets: the first call of a fresh JVM, which is what a consumer sees, since rebalances are rare.
- franz-go needs a client to know racks, so in the rack cells it plans without them.
- kafka-python: one call, given up after the seconds of CPU time that the cell says, not tried above 10,000 partitions.
- The past of a cell is the plan that apportion made before the event. Quality is that of the target, the plan once
  every hand-over is done: rack misses / moves, and a `!` where the load is not as even as it can be.
- The goal was set beforehand, from what Python was thought to need to make the answer's lists alone; "What lists and
  dicts alone take" has what it needs."""


def page(rows: Sequence[Row], extras: Mapping[str, Sequence[Mapping[str, Any]]], repeat: str) -> str:
    """The whole page."""
    lines = ["# Benchmarks", "", *_opening(repeat), "", "## The leader's call, from bytes to bytes", "", LEADER, ""]
    lines += [*_leader(rows), "", "## Kafka's own matrix: names in, names out", "", NAMES, "", *_matrix(rows)]
    for name, found in extras.items():
        summary = SUMMARIES.get(name, _missed_rows)
        lines += ["", f"## {SECTIONS[name]}", "", TEXTS[name], "", *_table(found), *summary(found)]
    return "\n".join([*lines, ""])


def _opening(repeat: str) -> list[str]:
    python = f"{platform.python_implementation()} {platform.python_version()}, NumPy {version('numpy')}"
    peers = f"""Peers: {JAVA_VERSION} (`CooperativeStickyAssignor`), {GO_VERSION} (`CooperativeStickyBalancer`),
{PYTHON_VERSION} (`StickyPartitionAssignor`)."""
    return [
        f"Written by `{repeat}` on {date.today():%Y-%m-%d}; `make bench` makes it anew on your machine.",
        f"Machine: {_machine()}, load {os.getloadavg()[0]:.1f} at the end. {python}, {_java()}, {_go()}.",
        peers,
        "",
        HOW,
    ]


def _leader(rows: Sequence[Row]) -> list[str]:
    heads = [
        "| " + " | ".join(LEADER_COLUMNS) + " |",
        "|---" + "|---:" * (len(LEADER_COLUMNS) - 1) + "|",
    ]
    lines = []
    for row in rows:
        clients = [f"**{_ms(warm)}** ({_ms(first)})" for first, warm in row.leader.values()]
        java, go = row.told["Java with bytes"], row.told["franz-go"]
        others = [_pair(java.warm, java.first, java.why), _pair(go.whole, go.first_whole, go.why)]
        ratio = f"{row.public / row.cpu:.1f}"
        cells = [row.cell.name, f"{row.partitions:,}", *clients, *others, _ms(row.public), ratio]
        lines.append("| " + " | ".join(cells) + " |")
    return [*heads, *lines, "", *_leader_summary(rows)]


SMALL_CALLS = """Hundreds of calls of NumPy of a microsecond or more each, the log record and the client's own part are
there whatever the size of the group. "The leader's call, part by part" below tells how much of it is the plan, "The
leader's call with equal caches" how much is there with hardly any partitions, and who is ahead with cold caches."""
DEALT = """Members of such groups are dealt the partitions without NumPy and without a plan: what is left is the
client's own part, in aiokafka a thread that is asked and waited for, the log record, and writing."""


def _behind_franz_go(rows: Sequence[Row]) -> list[str]:
    """Where some client is behind franz-go, and what of that the size of the group does not change."""
    behind: dict[str, list[Cell]] = {"own partitions or want different topics": [], "are new and all alike": []}
    for row in rows:
        other = row.told["franz-go"].whole
        if other is not None and any(warm > other for _, warm in row.leader.values()):
            all_new = row.cell.event == "FULL" and row.cell.wishes == "hom" and not row.cell.racks
            behind["are new and all alike" if all_new else "own partitions or want different topics"].append(row.cell)
    lines = []
    for (kind, cells), why in zip(behind.items(), (SMALL_CALLS, DEALT), strict=True):
        if cells:
            names, most = ", ".join(cell.name for cell in cells), max(cell.members for cell in cells)
            lines += ["", f"franz-go is ahead on groups that {kind}, of {most:,} members at most: {names}. {why}"]
    return lines


def _leader_summary(rows: Sequence[Row]) -> list[str]:
    """Who was ahead of whom in how many cells."""
    lines = []
    for client in next((row.leader for row in rows), {}):
        # First calls are compared with first calls, warm ones with warm ones.
        against = {
            "Java's first call, by its own first": [(row, 0, row.told["Java with bytes"].first) for row in rows],
            "Java warm": [(row, 1, row.told["Java with bytes"].warm) for row in rows],
            "franz-go": [(row, 1, row.told["franz-go"].whole) for row in rows],
            "franz-go's first call, by its own first": [(row, 0, row.told["franz-go"].first_whole) for row in rows],
        }
        for name, pairs in against.items():
            known = [
                (row.cell.name, row.leader[client][call], other) for row, call, other in pairs if other is not None
            ]
            behind = [cell for cell, ours, other in known if ours > other]
            where = f"; behind on {', '.join(behind)}" if behind else ""
            ahead = f"{len(known) - len(behind)} of {len(known)}"
            lines.append(f"- {client} with apportion is ahead of {name} on {ahead}{where}.")
    slow = [row.cell.name for row in rows if row.public > 2.5 * row.cpu]
    lines.append(f"- `plan(dict)` above 2.5 times names to names: {', '.join(slow) or 'nowhere'}.")
    return [*lines, *_behind_franz_go(rows)]


def _matrix(rows: Sequence[Row]) -> list[str]:
    peers = "Java warm (first) | franz-go (with reading bytes) | kafka-python"
    ours = "apportion | wall | read / plan / name | goal | of goal | quality: apportion | the others"
    heads = [f"| cell | partitions | {peers} | {ours} |", "|---" + "|---:" * 10 + "|---|"]
    return [*heads, *(_line(row) for row in rows), "", *_summary(rows)]


def _line(row: Row) -> str:
    goal = row.cell.goal_ms
    cells = [
        row.cell.name,
        f"{row.partitions:,}",
        _pair(row.told["Java"].warm, row.told["Java"].first, row.told["Java"].why),
        _pair(row.told["franz-go"].warm, _wired(row.told["franz-go"]), row.told["franz-go"].why),
        _pair(row.told["kafka-python"].warm, None, row.told["kafka-python"].why),
        f"**{_ms(row.cpu)}**",
        _ms(row.wall),
        " / ".join(map(_ms, row.parts)),
        _ms(goal) if goal else "",
        f"{row.cpu / goal:.2f}" if goal else "",
        _worth(row, "apportion") + ("" if row.proof == {"optimal"} else f" {', '.join(sorted(row.proof))}"),
        ", ".join(f"{name} {_worth(row, name)}" for name in row.quality if name != "apportion"),
    ]
    return "| " + " | ".join(cells) + " |"


def _worth(row: Row, name: str) -> str:
    squares, misses, moves = row.quality[name]
    return f"{misses}/{moves}" + "!" * (squares > min(said[0] for said in row.quality.values()))


def _wired(told: Told) -> float | None:
    return None if told.warm is None or told.wire is None else told.warm + told.wire


def _summary(rows: Sequence[Row]) -> list[str]:
    """Who was ahead of whom in how many cells, and which cells are slow, by name."""
    against = {
        "Java warm": [(row, row.told["Java"].warm) for row in rows],
        "franz-go with reading bytes": [(row, _wired(row.told["franz-go"])) for row in rows],
        "franz-go without": [(row, row.told["franz-go"].warm) for row in rows],
        "kafka-python": [(row, row.told["kafka-python"].warm) for row in rows],
    }
    lines = []
    for name, pairs in against.items():
        known = [(row, other) for row, other in pairs if other is not None]
        behind = [row.cell.name for row, other in known if row.cpu > other]
        where = f"; behind on {', '.join(behind)}" if behind else ""
        lines.append(f"- Ahead of {name} on {len(known) - len(behind)} of {len(known)} cells{where}.")
    lines.append(_missed([(row.cell.name, row.cpu, row.cell.goal_ms) for row in rows if row.cell.goal_ms]))
    worse = [row.cell.name for row in rows if row.quality["apportion"] > min(row.quality.values())]
    lines.append(f"- Another's plan is better (balance, then racks, then moves): {', '.join(worse) or 'nowhere'}.")
    return lines


def _missed(aims: Sequence[tuple[str, float, float]]) -> str:
    """How many goals are missed, each with what was measured as a share of it; aims are name, measured, goal."""
    missed = [f"{name} ({measured / goal:.2f})" for name, measured, goal in aims if measured > goal]
    return f"- Goals missed: {len(missed)} of {len(aims)}{': ' + ', '.join(missed) if missed else ''}."


def _pair(first: float | None, second: float | None, why: str) -> str:
    if first is None and second is None:
        return why or "-"
    return ("-" if first is None else _ms(first)) + ("" if second is None else f" ({_ms(second)})")


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["Not measured."]
    heads = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(name.replace("_", " ") for name in heads) + " |", "|---" * len(heads) + "|"]
    return [*lines, *("| " + " | ".join(_text(row.get(name, "")) for name in heads) + " |" for row in rows)]


def _missed_rows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same for a table whose last column is the goal of one before it, in the same unit; else nothing."""
    for measured, goal in (("us", "goal_us"), ("wall_ms", "goal_ms")):
        aims = [(str(next(iter(row.values()))), row[measured], row[goal]) for row in rows if goal in row]
        if aims:
            return ["", _missed(aims)]
    return []


def _cached(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where franz-go is ahead with equal caches, and whether it would be beside a group of hardly any partitions."""
    known = [row for row in rows if isinstance(row.get("franz-go"), float)]
    lines = [f"- Ahead of franz-go in {sum(row[OURS] <= row['franz-go'] for row in known)} of {len(known)} rows."]
    for row in known:
        ours, floor, other = row[OURS], row[FLOOR], row["franz-go"]
        if ours > other:
            kind = "more" if floor > other else "less"
            lines.append(
                f"- Behind on {row['cell']}, {row['caches']}: {ours / other:.2f} times franz-go's time. Of our {ours} "
                f"ms {floor} are there with hardly any partitions, {kind} than franz-go takes for all."
            )
    return ["", *lines]


def _floored(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The goals that are missed, each beside what lists and dicts alone take."""
    lines = []
    for row in rows:
        if row.get("goal") and row["ms"] > row["goal"]:
            floor = round(row["floor of reading"] + row["floor of naming"], 2)
            least = (
                "more than the goal: no plan, however quick, meets it" if floor > row["goal"] else "less than the goal"
            )
            lines.append(
                f"- Missed on {row['cell']}: {row['ms']} of {row['goal']} ms. The floor is {floor} ms, {least}."
            )
    return ["", *(lines or ["- All of these goals are met here."])]


SUMMARIES = {"caches": _cached, "floors": _floored}
"""What the figures of a section say, where that is more than which goals are missed."""


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GB, {platform.system()}"


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    for line in told.read_text().splitlines() if told.exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _java() -> str:
    return _first_line("java", "-version").replace('"', "") or "no Java"


def _go() -> str:
    return _first_line("go", "version").removeprefix("go version ") or "no Go"


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return next(iter((done.stderr + done.stdout).splitlines()), "")
