"""Each group folded once: its state at the end, and the rebalances that it went through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from apportion.history import rows
from apportion.history.cause import CommitCadence, CommitInterval
from apportion.history.epochs import epoch_rows
from apportion.history.fold import Present, fold
from apportion.history.rebalance_rows import Rebalance, rebalances
from apportion.history.records import Generation
from apportion.history.scenarios import sentence
from apportion.history.stood_still import standstills
from apportion.history.stored import member_row
from apportion.model.protocols import CLASSIC, CONSUMER

Row = Mapping[str, Any]
PRESENT: Final = ("group", "type", "state", "protocol", "generation", "readable", "members")
_CHANGE: Final = tuple(field.name for field in fields(Rebalance))


def folded_rows(row: Row) -> dict[str, list[Row]]:
    """The results of a row of ``histories``, as rows: ``present``, ``rebalances``, ``epochs``."""
    group, generations = row["group"], list[Generation]()
    try:
        folded = fold(rows.events(row["group"], row["generations"], row["epochs"]), row["names"] or {})
        generations = folded.generations
        present, changes = _present(group, folded.present), rebalances(generations, _habits(row))
        stood = standstills(generations, changes)
    except Exception as error:  # other people's bytes must never stop the job: the group says what was wrong
        present, changes, stood = _unreadable(row, error), [], {}
    return {
        "present": [present],
        "rebalances": [
            {
                **_columns(change),
                **stood[change.source_offset].columns(change.kind),
                "group": group,
                "at": change.at * 1000,
            }
            for change in changes
        ],
        "epochs": [{**epoch, "at": epoch["at_ms"] * 1000} for epoch in epoch_rows(group, generations)],
    }


def _columns(change: Rebalance) -> dict[str, Any]:
    return {name: getattr(change, name) for name in _CHANGE}


def _habits(row: Row) -> CommitCadence:
    return CommitCadence(
        CommitInterval(h["after"], h["topic"], h["partition"], h["n"], h["first"], h["last"]) for h in row["habits"]
    )


def _present(group: str, present: Present | None) -> Row:
    """A group's state; nulls for one that has no record of its own or is gone."""
    facts = {name: getattr(present, name, None) for name in PRESENT}
    return {**facts, "group": group, "members": list(map(member_row, present.members)) if present else []}


def _unreadable(row: Row, error: Exception) -> Row:
    kind = CLASSIC if row["generations"] else CONSUMER
    state = f"Unreadable: {sentence(error)}"
    return {**_present(row["group"], None), "type": kind, "state": state, "readable": False}
