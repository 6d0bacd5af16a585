"""A gate's findings, as a table and in a sentence."""

from __future__ import annotations

from typing import Any

from apportion.report.text import TextTable


def table(breached: list[dict[str, Any]]) -> TextTable:
    """A row a breach, with its group if several were judged."""
    names = (
        ("group", "policy", "limit", "found") if any("group" in b for b in breached) else ("policy", "limit", "found")
    )
    return TextTable(tuple(name.upper() for name in names), [tuple(b[name] for name in names) for b in breached])


def reasons(breached: list[dict[str, Any]], content: str) -> list[str]:
    """The outcome in a sentence."""
    if not breached:
        return [f"Within every limit: {content}."]
    each = ", ".join(
        f"{b['policy']}{' of ' + b['group'] if 'group' in b else ''} is {b['found']}, allowed {b['limit']}"
        for b in breached
    )
    return [f"Breached by {content}: {each}."]
