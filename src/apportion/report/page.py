"""One self-contained page: its data as lines of JSON, drawn in the reader's browser when asked for, no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from apportion.report.group_data import DRAWN
from apportion.report.group_list import TROUBLE, declared
from apportion.report.text import printable
from apportion.sighting import measures
from apportion.sighting.judged import RANK

PACK_ABOVE: Final = 1_000_000
"""Characters of JSON from which on the page carries it packed."""
SCRIPTS: Final = ("base.js", "present.js", "past.js", "timeline.js", "switch.js", "live.js", "page.js")
"""One script in seven files, in this order."""
MOST_PLAIN: Final = 200
"""Groups in the table for a browser that runs no script, those in trouble first."""
_PLAIN: Final = {"behind_s": "{:,.0f} s", "trend": "{:+,}/s", "catch_up_s": "in {:,.0f} s", "heaviest": "{:.0%}"}
IN_ROW: Final = frozenset({"group", "state", "protocol", "kind", "verdict", "why", "diagnosis"})
_GAP: Final = re.compile(r"\{\{([A-Z]+)\}\}")


def render(
    groups: Sequence[dict[str, Any]], *, title: str, source: str, at: str, live: dict[str, Any] | None = None
) -> str:
    """The page as text.

    groups
        Each as ``report.data.group_data`` makes it; of a live page each as a row of the list has it.
    title, source, at
        What the page is about, where the data came from, and when it was true (ISO 8601); all are escaped.
    live
        What a server's page begins with: its pictures and all that follows come as events from where it came from.

    The page may load nothing: its own content policy allows the one script by its hash and forbids every request, but
    for a live page's to its own server.
    """
    more = {"totals": totals(groups)} if live is None else {"live": live}
    head = {
        "version": 2,
        "title": title,
        "source": source,
        "at": at,
        "list": {**declared(), "fields": _fields()},
        **more,
    }
    payload = "\n".join([embed(head), *_lines(groups, live is not None)])
    packed = len(payload) > PACK_ABOVE
    if packed and live is None:
        payload = "\n".join([embed(head), *_lines([packed_group(group) for group in groups], False)])
    parts = {
        "TITLE": html.escape(printable(title)),
        "POLICY": policy(live is not None),
        "SOURCE": html.escape(printable(source)),
        "PLAIN": _plain([group if live is not None else group["row"] for group in groups]),
        "STYLE": _asset("page.css"),
        "TYPE": "application/gzip" if packed else "application/x-ndjson",
        "DATA": pack(payload) if packed else payload,
        "SCRIPT": _script(),
    }
    # All at once: a name in the data may look like one of the gaps.
    return _GAP.sub(lambda gap: parts[gap[1]], _asset("page.html"))


def _plain(rows: Sequence[dict[str, Any]]) -> str:
    """The list as a table of HTML with every reason, for a browser that runs no script."""

    def trouble(row: dict[str, Any]) -> tuple[float, ...]:
        return tuple(-RANK[row[f]] if f == "verdict" else math.inf if row[f] is None else -row[f] for f in TROUBLE)

    first = sorted(rows, key=trouble)[:MOST_PLAIN]
    columns = [(field, label) for field, label, *_ in declared()["columns"] if any(row[field] for row in first)]
    cells = [[f"<th>{label}" for _, label in columns]]
    cells += [[f"<td>{_in_html(row, field)}" for field, _ in columns] for row in first]
    left_out = len(rows) - len(first)
    note = f"<p>{left_out:,} more groups are not in this table.</p>" if left_out else ""
    return "<table>" + "\n".join(f"<tr>{''.join(line)}" for line in cells) + f"</table>{note}"


def _in_html(row: dict[str, Any], field: str) -> str:
    value = row[field]
    if field == "why":
        return "<br>".join(html.escape(printable(sentence)) for sentence in value)
    if value is None or isinstance(value, str):
        return html.escape(printable(value or "-"))
    return _PLAIN.get(field, "{:,}").format(value)


def policy(live: bool = False) -> str:
    """Everything that the page may load: its own script and style, no request; a live page may ask its own server."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    ask = "; connect-src 'self'" if live else ""
    shut = "base-uri 'none'; form-action 'none'"  # these two do not follow default-src
    return f"default-src 'none'; {shut}; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'{ask}"


def _lines(groups: Sequence[dict[str, Any]], live: bool) -> Iterator[str]:
    """A line for each row of the list; of a page on its own, behind it a line that is read when the group is chosen."""
    for group in groups:
        if live:
            yield embed(group)
            continue
        yield embed(group["row"])
        yield embed({name: value for name, value in group.items() if name != "row"})


def totals(groups: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Every history as it was and under each strategy: name, groups, partitions moved, most less fewest at worst."""
    replayed = [group for group in groups if group["replays"]]
    if not replayed:
        return []
    by_name: dict[str, list[dict[str, Any]]] = {}
    for group in replayed:
        for replay in group["replays"]:
            by_name.setdefault(replay["assignor"], []).append(replay)
    then = [group["replays"][0].get("skew_max_then") or 0 for group in replayed]
    moved = sum(group["row"]["moved"] or 0 for group in replayed)
    return [
        ["as it was", len(replayed), moved, max(then)],
        *([name, len(of), sum(n or 0 for replay in of for n in replay["moves"]),
           max(replay.get("skew_max") or 0 for replay in of)]
          for name, of in sorted(by_name.items())),
    ]  # fmt: skip


def _fields() -> list[str]:
    """The fields of a row of the list, in the order in which a packed page has them."""
    return [*(measure.field for measure in measures.listed()), "diagnosis", "topics", "who", "switch"]


@cache
def _script() -> str:
    return "\n".join(_asset(name) for name in SCRIPTS)


def embed(payload: Any) -> str:
    """JSON that may be inside a script element: no ``<`` can end it early."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def packed_group(group: dict[str, Any]) -> dict[str, Any]:
    """A group without the fields of its row, and its tables as columns: a fifth less when packed."""
    row, plans, now, history = group["row"], group["plans"], group["now"], group["history"]
    measures = _columns([plan["measures"] for plan in plans])
    names = [f"{group['topics'][t]}-{n}" for t, n in zip(group["topic_of"], group["number"], strict=True)]
    partition_of = {name: p for p, name in enumerate(names)}
    return {
        **{name: value for name, value in group.items() if name not in IN_ROW},
        "row": [row.get(name) for name in _fields()],
        # Who owns what now stands in the group itself.
        "now": {**now, "owner": None, "measures": {name: n for name, n in now["measures"].items() if name in DRAWN}},
        "plans": {**_columns(plans), "measures": measures},
        "replays": _columns(group["replays"]),
        "history": {
            **history, "rebalances": _columns(history["rebalances"]),
            "rows": [partition_of.get(name, name) for name in history["rows"]],
        },
    }  # fmt: skip


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def pack(text: str) -> str:
    """The text as gzip in base64; the same text gives the same letters."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _asset(name: str) -> str:
    return (files("apportion.report") / "assets" / name).read_text(encoding="utf-8").strip()
