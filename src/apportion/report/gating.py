"""What a gate found, as a table and in a sentence."""

from __future__ import annotations

from typing import Any

from apportion.report.text import TextTable


def table(breached: list[dict[str, Any]]) -> TextTable:
    """A row a breach."""
    return TextTable(("POLICY", "LIMIT", "FOUND"), [(b["policy"], b["limit"], b["found"]) for b in breached])


def reasons(breached: list[dict[str, Any]], content: str) -> list[str]:
    """The outcome in a sentence."""
    if not breached:
        return [f"Within every limit: {content}."]
    each = ", ".join(f"{b['policy']} is {b['found']}, allowed {b['limit']}" for b in breached)
    return [f"Breached by {content}: {each}."]
