"""Groups, plans and comparisons as tables for a notebook; every name is escaped, long lists are cut.

Importing this module gives the three classes the method that notebooks look for, so that the model knows no HTML;
``apportion`` imports it beside any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import numpy as np

from apportion.arrays import NOBODY
from apportion.comparison import Comparison
from apportion.model.group import Group
from apportion.model.plan import Plan
from apportion.report.comparing import comparison_table
from apportion.report.text import printable
from apportion.wording import count as counted

MOST_ROWS: Final = 50
MOST_NAMES: Final = 12


def group_to_html(group: Group) -> str:
    """Members with the topics they want and how many partitions they held."""
    held = np.bincount(group.owner[group.owner != NOBODY], minlength=group.M).tolist()
    rows = (
        (group.members[m], _some([group.topics[t] for t in group.subscriptions[k]]), str(held[m]))
        for m, k in enumerate(group.subscription_of.tolist())
    )
    return _table(f"group {group.name}", ("member", "wants", "#held"), rows, group.M)


def plan_to_html(plan: Plan) -> str:
    """Members with their partitions, and the plan's moves and proof as the caption."""
    shown = ", ".join(f"{goal} {how}" for goal, how in plan.proof.items()) or "nothing proved"
    rows = (
        (member, str(sum(map(len, topics.values()))), _some(f"{t}({_ids(ids)})" for t, ids in topics.items()))
        for member, topics in plan.assignment.items()
    )
    caption = f"{plan.assignor}: {counted(plan.measures['moves'], 'move')}; {shown}"
    return _table(caption, ("member", "#partitions", "assignment"), rows, len(plan.assignment))


def comparison_to_html(comparison: Comparison) -> str:
    """A row a strategy below one for the present owners; the least of each column is marked."""
    table = comparison_table(comparison).narrow()
    rows = [["-" if cell is None else str(cell) for cell in row] for row in table.rows]
    return _table(f"group {comparison.group.name}", table.columns, rows, len(rows))


def _table(caption: str, head: Sequence[str], rows: Iterable[Iterable[str]], count: int) -> str:
    lines = []
    for i, row in enumerate(rows):
        if i == MOST_ROWS:
            lines.append(f"<tr><td colspan='{len(head)}'>and {count - MOST_ROWS} more</td></tr>")
            break
        lines.append("<tr>" + "".join(f"<td>{_shown(cell)}</td>" for cell in row) + "</tr>")
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f"<table><caption>{_shown(caption)}</caption><thead><tr>{top}</tr></thead>{''.join(lines)}</table>"


def _shown(text: str) -> str:
    return escape(printable(text))


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return ", ".join(listed[:MOST_NAMES]) + more


def _ids(ids: Sequence[int]) -> str:
    listed = ",".join(map(str, ids[:MOST_NAMES]))
    return listed + (f",... {len(ids)} in all" if len(ids) > MOST_NAMES else "")


# mypy sees no method that is given to a class from outside, hence setattr.
setattr(Group, "_repr_html_", group_to_html)  # noqa: B010
setattr(Plan, "_repr_html_", plan_to_html)  # noqa: B010
setattr(Comparison, "_repr_html_", comparison_to_html)  # noqa: B010
