"""A replayed history as a table and in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from apportion.report.text import Cell, TextTable, span
from apportion.wording import count


def generations(document: Mapping[str, Any]) -> TextTable:
    """A row a generation: the strategy's plan next to the real one."""
    rows: list[tuple[Cell, ...]] = [
        (
            row["generation"], moment(row.get("at_ms")), row["members"], row["partitions"], row.get("moves_then"),
            row.get("moves"), loads(row, "_then"), loads(row, ""), row.get("rack_misses_then"), row.get("rack_misses"),
        )
        for row in document["generations"]
    ]  # fmt: skip
    columns = ("GENERATION", "AT", "#MEMBERS", "#PARTITIONS", "MOVES-THEN", "MOVES", "LOAD-THEN", "LOAD",
               "CROSS-RACK-THEN", "CROSS-RACK")  # fmt: skip
    racks = any(row[8] or row[9] for row in rows)
    return TextTable(columns, rows, extra=frozenset() if racks else frozenset({"CROSS-RACK-THEN", "CROSS-RACK"}))


def notes(document: Mapping[str, Any]) -> list[str]:
    """The strategy's savings in all."""
    total, name = document["total"], document["assignor"]
    if not total["generations"]:
        return ["No generation of this group is left in the records."]
    saved = total["moves_then"] - total["moves"]
    differs = f"{abs(saved):,} {'fewer' if saved > 0 else 'more'} than the {total['moves_then']:,} that moved"
    verdict = differs if saved else "exactly as many as moved"
    walked = count(total["generations"], "generation")
    would = f"In {walked} {name} would have moved {count(total['moves'], 'partition')}"
    sentences = [f"{would}, {verdict}."]
    now, then = total["skew_max"], total["skew_max_then"]
    sentences.append(f"Widest difference of loads: {now:,} instead of {then:,}." if now != then else
                f"Widest difference of loads: {now:,}, as it was.")  # fmt: skip
    if total.get("rack_misses") or total.get("rack_misses_then"):
        sentences.append(f"Read across racks: {total['rack_misses']:,} instead of {total['rack_misses_then']:,}.")
    return sentences


def acts(acting: Mapping[str, Any]) -> TextTable:
    """A row for each time at which the rule would have acted."""
    rows: list[tuple[Cell, ...]] = [
        (moment(act["at_ms"]), act["generation"], act["member"],
         _time(act, "before"), _time(act, "after"), act["moves"])
        for act in acting["acts"]
    ]  # fmt: skip
    return TextTable(("WOULD-ACT-AT", "GENERATION", "HEAVIEST", "CATCH-UP", "CATCH-UP-AFTER", "MOVES"), rows)


def _time(act: Mapping[str, Any], when: str) -> str:
    return f"{act[when]:,.0f} {act['unit']}"


def acting_notes(acting: Mapping[str, Any]) -> list[str]:
    """How often it would have acted, and why not the other times."""
    looks, times = count(acting["looks"], "look"), count(len(acting["acts"]), "time")
    reasons = ", ".join(f"{number:,} {why}" for why, number in acting["left"].items())
    sentence = f"An apportion leader would have acted {times} in {looks}"
    sentences = [f"{sentence}; why not at the others: {reasons}." if reasons else f"{sentence}."]
    if acting["acts"]:
        sentences.append("The lag is the recorded one: what acting would have made of it is not in it.")
    return sentences


def moment(at_ms: int | None) -> str | None:
    """Milliseconds as a time in UTC; None for times that no calendar holds, and for -1, Kafka's "no timestamp"."""
    if at_ms is None or at_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return None


def loads(row: Mapping[str, Any], when: str) -> str | None:
    """The least and the most loaded member of a generation; None if its row does not say."""
    low, high = row.get(f"load_min{when}"), row.get(f"load_max{when}")
    return None if low is None or high is None else span(low, high)
