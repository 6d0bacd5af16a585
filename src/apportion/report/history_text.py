"""A group's history in a few lines: its state, its last rebalances, and the other strategies' results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apportion.report.describing import members
from apportion.report.replaying import moment
from apportion.report.text import Cell, TextTable
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting
from apportion.wording import count

LAST: Final = 3
"""Rebalances that are told."""


def tables(standing: Sighting, rebalances: Sequence[Any]) -> list[TextTable]:
    """Members as they are now, and the last rebalances; a group without either has no table for it."""
    present = [members(standing)] if standing.group.M else []
    return [*present, last(rebalances)] if rebalances else present


def last(rebalances: Sequence[Any]) -> TextTable:
    """A row for each of the last rebalances: when, why, and the fate of the partitions."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{event.previous_generation} -> {event.generation}", moment(event.at), event.cause, event.members,
            event.moved, event.needless, event.kept, event.given,
        )
        for event in rebalances[-LAST:]
    ]  # fmt: skip
    more = len(rebalances) - len(rows)
    title = "Last rebalances, UTC" + (f" ({count(more, 'earlier one', 'earlier ones')}):" if more else ":")
    return TextTable(("GENERATION", "AT", "CAUSE", "#MEMBERS", "MOVED", "NEEDLESS", "KEPT", "GIVEN"), rows, title)


def notes(judged: Judged, replayed: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The oddities, and in one line each strategy's moves over the whole history."""
    sentences = [f"! {sentence}" for sentence in judged.why]
    really = next((total["moves_then"] for total in replayed.values()), 0)
    if any(total["moves"] for total in replayed.values()) or really:
        # Evenness first: who leaves all work to one member moves nothing.
        order = sorted(replayed.items(), key=lambda item: (item[1]["skew_max"], item[1]["moves"], item[0]))
        each = ", ".join(f"{name} {total['moves']:,} (skew {total['skew_max']})" for name, total in order)
        widest = next(iter(replayed.values()))["skew_max_then"]
        sentences.append(f"Moved over its history: {really:,} (skew {widest}). It would have been: {each}.")
    elif replayed:
        sentences.append("Nothing moved over its history, nor would it have under any strategy.")
    return sentences


def totals(stories: Sequence[Mapping[str, Mapping[str, Any]]]) -> TextTable:
    """A row a strategy: its moves in all groups together, and how uneven it would have been."""
    names = sorted({name for story in stories for name in story})
    really = sum(next(iter(story.values()))["moves_then"] for story in stories if story)
    widest = max((next(iter(story.values()))["skew_max_then"] for story in stories if story), default=0)
    rows: list[tuple[Cell, ...]] = [("(as it was)", len([s for s in stories if s]), really, widest)]
    for name in names:
        mine = [story[name] for story in stories if name in story]
        rows.append((name, len(mine), sum(t["moves"] for t in mine), max(t["skew_max"] for t in mine)))
    return TextTable(
        ("ASSIGNOR", "GROUPS", "MOVES", "WIDEST-SKEW"),
        rows,
        "All groups under each strategy (skew: partitions of the fullest member less those of the emptiest):",
    )
