"""A switch to the new protocol as text: one group in figures and sentences, or a row a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from apportion.arrays import Ints
from apportion.history.switch_measures import ALREADY, CAN, STAY, Switch
from apportion.model.measures import loads
from apportion.model.protocols import CONSUMER
from apportion.report.text import Cell, TextTable, span
from apportion.strategy.registry import brokers
from apportion.wording import count, percent

ANSWERS: Final = {CAN: "can switch", STAY: "should stay", ALREADY: "is there already"}


def page_row(switch: Switch) -> dict[str, Cell]:
    """A group's row in the page's table of all groups: heading to cell."""
    c, history = switch.concentration, switch.history or {}
    return {
        "Group": switch.group.name, "Answer": ANSWERS[switch.answer], "Protocol": switch.facts.kind or "unknown",
        "Most of a topic on one member now": percent(c["now"]), "after an upgrade": percent(c["online"]),
        "started anew": percent(c["fresh"]), "Moves so far": history.get("recorded"),
        **{f"Moves under {name}": history.get(name) for name in brokers()},
        "Why": switch.advice[0] if switch.advice else None,
    }  # fmt: skip


def group_table(switch: Switch) -> TextTable:
    """A row a figure: now, after an online upgrade, and in a group that starts without a past."""
    owners = (switch.group.owner, switch.online.owner, switch.fresh.owner)
    measures = (switch.now, switch.online.measures, switch.fresh.measures)
    c = switch.concentration
    rows: list[tuple[Cell, ...]] = [
        ("partitions a member", *(_load(owner, switch.group.M) for owner in owners)),
        ("most of one topic on one member", *(percent(c[name]) for name in ("now", "online", "fresh"))),
        ("moves", 0, switch.online.measures["moves"], None),
    ]
    if "lag_max" in switch.now:
        rows.append(("messages to read, at most", *(measured.get("lag_max") for measured in measures)))
    if switch.busiest:
        work = switch.busiest
        rows.append(("work of the busiest member", *(percent(work[name]) for name in ("now", "online", "fresh"))))
    if switch.group.knows_racks:
        rows.append(("read across racks", *(measured["rack_misses"] for measured in measures)))
    if switch.together["of"]:
        met = switch.together
        rows.append((f"co-located numbers, of {met['of']}", met["now"], met["online"], met["fresh"]))
    rows.append(("prediction", None, *(plan.answer.extra["prediction"] for plan in (switch.online, switch.fresh))))
    kind, strategy = switch.facts.kind or "unknown protocol", switch.facts.strategy
    title = f"{switch.group.name}: {kind}{f', {strategy}' if strategy else ''}, {_upgrade(switch)}\n"
    return TextTable(("FIGURE", "NOW", "ONLINE", "ANEW"), rows, title)


def totals(switches: Sequence[Switch], left_out: Sequence[tuple[str, str]]) -> list[str]:
    """How many groups can switch, and how many have no answer, and why.

    left_out
        Groups, each with the reason as what follows "1 group".
    """
    answers = Counter(switch.answer for switch in switches)
    parts = [f"{answers[CAN]:,} can switch", f"{answers[STAY]:,} should stay"]
    if answers[ALREADY]:
        parts.append(f"{answers[ALREADY]:,} on the new protocol already")
    lines = [f"Of {count(len(switches), 'group')}: {', '.join(parts)}."]
    reasons = Counter(why for _, why in left_out)
    if reasons:
        lines.append(f"Left out: {'; '.join(f'{n:,} {why}' for why, n in sorted(reasons.items()))}.")
    return lines


def _load(owner: Ints, members: int) -> str:
    held = loads(owner, members)
    return span(int(held.min()), int(held.max()))


def _upgrade(switch: Switch) -> str:
    if switch.facts.kind == CONSUMER:
        return "of the new protocol already"
    if switch.blockers is None:
        return "whether it can be upgraded online is not known"
    return "cannot be upgraded online" if switch.blockers else "can be upgraded online"


def sentences(switch: Switch) -> list[str]:
    """The advice, a sentence a line, then the traps."""
    traps = [f"- {trap}" for trap in switch.traps]
    return [f"Advice: {switch.advice[0]}", *switch.advice[1:], *(["", "Traps:", *traps] if traps else [])]


def overview(switches: Sequence[Switch]) -> TextTable:
    """A row a group."""
    rows: list[tuple[Cell, ...]] = []
    for switch in switches:
        c, history = switch.concentration, switch.history or {}
        online = (
            None if switch.facts.kind == CONSUMER or switch.blockers is None else "no" if switch.blockers else "yes"
        )
        rows.append((
            switch.group.name, switch.facts.kind, switch.facts.strategy, online,
            *(percent(c[name]) for name in ("now", "online", "fresh", "even")),
            *(history.get(name) for name in ("recorded", *brokers())),
            switch.advice[0],
        ))  # fmt: skip
    columns = ("GROUP", "PROTOCOL", "ASSIGNOR", "UPGRADABLE", "TOPIC-NOW", "TOPIC-ONLINE", "TOPIC-ANEW", "TOPIC-EVEN",
               "MOVES-THEN", *(name.replace("broker", "moves").upper() for name in brokers()), "ADVICE")  # fmt: skip
    return TextTable(columns, rows, extra=frozenset({"ASSIGNOR", "TOPIC-EVEN"}))
