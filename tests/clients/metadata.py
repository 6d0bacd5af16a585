"""A client's metadata in a few lines, and the lines that a leader logs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from .test_joined_group import Replica

MS = re.compile(r"ms=\S+")


class Cluster:
    """As much of a client's metadata as counts here."""

    def __init__(self, ids: dict[str, list[int]]) -> None:
        self._partitions = {topic: {p: Replica([1]) for p in parts} for topic, parts in ids.items()}

    def broker_metadata(self, node: int) -> None:
        return None


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """The lines and values of all rebalances so far, without their time."""
    records = [record for record in caplog.records if record.getMessage().startswith("rebalance ")]
    caplog.clear()
    values: list[dict[str, Any]] = [{**record.apportion, "ms": 0} for record in records]  # type: ignore[attr-defined]
    return [(MS.sub("", record.getMessage()), one) for record, one in zip(records, values, strict=True)]
