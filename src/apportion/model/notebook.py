"""Groups and plans as tables for a notebook; every name is escaped, long lists are cut with their number told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

MOST_ROWS: Final = 50
MOST_NAMES: Final = 12


def group_to_html(name: str, members: Sequence[str], wants: Sequence[Sequence[str]], held: Sequence[int]) -> str:
    """Members with the topics they want and how many partitions they held."""
    rows = ((member, _some(topics), str(n)) for member, topics, n in zip(members, wants, held, strict=True))
    return _table(f"group {name}", ("member", "wants", "#held"), rows, len(members))


def plan_to_html(
    assignor: str,
    assignment: Mapping[str, Mapping[str, Sequence[int]]],
    measures: Mapping[str, int],
    proof: Mapping[str, str],
) -> str:
    """Members with what they get, and the plan's moves and proof as the caption."""
    shown = ", ".join(f"{goal} {how}" for goal, how in proof.items()) or "nothing proved"
    rows = (
        (member, str(sum(map(len, topics.values()))), _some(f"{t}({_ids(ids)})" for t, ids in topics.items()))
        for member, topics in assignment.items()
    )
    caption = f"{assignor}: {measures['moves']} moves; {shown}"
    return _table(caption, ("member", "#partitions", "assignment"), rows, len(assignment))


def _table(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]], count: int) -> str:
    lines = []
    for i, row in enumerate(rows):
        if i == MOST_ROWS:
            lines.append(f"<tr><td colspan='3'>and {count - MOST_ROWS} more</td></tr>")
            break
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>{''.join(lines)}</table>"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return ", ".join(listed[:MOST_NAMES]) + more


def _ids(ids: Sequence[int]) -> str:
    listed = ",".join(map(str, ids[:MOST_NAMES]))
    return listed + (f",... {len(ids)} in all" if len(ids) > MOST_NAMES else "")
