"""Each group folded once: what it is at the end, and the rebalances that it went through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from apportion.history import rows
from apportion.history.cause import CommitCadence, CommitInterval
from apportion.history.fold import Folded, fold
from apportion.history.rebalances import Rebalance, rebalances
from apportion.history.records import CLASSIC, CONSUMER
from apportion.history.scenarios import sentence
from apportion.history.stored import member_row
from apportion.spark import epochs

Row = Mapping[str, Any]
PRESENT: Final = ("group", "type", "state", "protocol", "generation", "readable", "members")
_CHANGE: Final = tuple(field.name for field in fields(Rebalance))
_FOLDED: Final = (*PRESENT, "rebalances")
"""A group's state, nulls for one that has no record of its own or is gone; its rebalances."""


def _folded(row: Row) -> Row:
    try:
        return _fold_one(row)
    except Exception as error:  # other people's bytes must never stop the job: the group says what was wrong
        empty = dict.fromkeys(_FOLDED)
        kind = CLASSIC if row["generations"] else CONSUMER
        return {
            **empty, "group": row["group"], "type": kind, "state": f"Unreadable: {sentence(error)}", "readable": False,
            "members": [], "rebalances": [],
        }  # fmt: skip


def _fold_one(row: Row) -> Row:
    folded = folded_of(row)
    habits = CommitCadence(
        CommitInterval(h["after"], h["topic"], h["partition"], h["n"], h["first"], h["last"]) for h in row["habits"]
    )
    changes = [_change(change) for change in rebalances(folded.generations, habits)]
    present = folded.present
    return {
        "group": row["group"],
        "type": present.type if present else None,
        "state": present.state if present else None,
        "protocol": present.protocol if present else None,
        "generation": present.generation if present else None,
        "readable": present.readable if present else None,
        "members": list(map(member_row, present.members)) if present else [],
        "rebalances": changes,
    }


def _change(change: Rebalance) -> dict[str, Any]:
    row = {name: getattr(change, name) for name in _CHANGE}
    row["at_ms"] = row.pop("at")
    return row


def folded_rows(row: Row) -> dict[str, list[Row]]:
    """What a row of ``histories`` comes to, as rows: ``present``, ``rebalances``, ``epochs``."""
    present = _folded(row)
    return {
        "present": [present],
        "rebalances": [
            {**change, "group": row["group"], "at": change["at_ms"] * 1000} for change in present["rebalances"]
        ],
        "epochs": [{**one, "at": one["at_ms"] * 1000} for one in (epochs.of_group(row) if row["epochs"] else ())],
    }


def folded_of(row: Row) -> Folded:
    """A row of ``histories`` as generations and present."""
    return fold(rows.events(row["group"], row["generations"], row["epochs"]), row["names"] or {})
