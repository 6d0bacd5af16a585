"""A streams group's replayed epochs as a table and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.report.replaying import loads, moment
from apportion.report.text import Cell, TextTable
from apportion.wording import count


def generations(document: Mapping[str, Any]) -> TextTable:
    """A row an epoch: the plan of the broker's assignor next to this one's."""
    names = ("moves", "cold", "restored")
    rows: list[tuple[Cell, ...]] = [
        (
            row["generation"], moment(row.get("at_ms")), row["members"], row["tasks"],
            *(row[name + when] for name in names for when in ("_then", "")),
            loads(row, "_then"), loads(row, ""), row["rounds"],
        )
        for row in document["generations"]
    ]  # fmt: skip
    columns = ("EPOCH", "AT", "#MEMBERS", "#TASKS", "MOVES-THEN", "MOVES", "COLD-THEN", "COLD", "RESTORED-THEN",
               "RESTORED", "LOAD-THEN", "LOAD", "ROUNDS")  # fmt: skip
    return TextTable(columns, rows)


def notes(document: Mapping[str, Any]) -> list[str]:
    """The assignor's savings and costs in all."""
    total, name = document["total"], document["assignor"]
    if not total["generations"]:
        return ["No epoch with tasks is left in the records of this group."]
    epochs = count(total["generations"], "epoch")
    cold = count(total["cold"], "task with state", "tasks with state")
    restored = f"Copies restored from nothing: {total['restored']:,} instead of {total['restored_then']:,}."
    moves = f"Active tasks moved between processes that stay: {total['moves']:,} instead of {total['moves_then']:,}"
    sentences = [
        f"{name} would have begun {cold} where there was no copy in {epochs}; the broker began {total['cold_then']:,}.",
        f"{restored} {moves}, in {count(total['rounds'], 'rebalance')}.",
        "Cold: an active task that begins without its state, so that its messages wait until all is restored.",
    ]
    now, then = total["skew_max"], total["skew_max_then"]
    sentences.append(f"Widest difference of active tasks between threads: {now:,}, the broker's {then:,}.")
    score = document.get("score")
    if score and score["epochs"]:
        predicted = f"{score['predicted']:,} of {count(score['epochs'], 'target')}"
        sentences.append(f"The broker's assignor, followed from the records, gives {predicted} that it recorded.")
    return sentences
