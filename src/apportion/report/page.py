"""One self-contained page: the data as JSON, the pictures drawn from it in the reader's browser, no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from apportion.report.group_data import DRAWN
from apportion.report.group_list import COLUMNS, TROUBLE
from apportion.report.text import printable

PACK_ABOVE: Final = 1_000_000
"""Characters of JSON from which on the page carries it packed."""
SCRIPTS: Final = ("base.js", "present.js", "past.js", "timeline.js", "switch.js", "live.js", "page.js")
"""One script in seven files, in this order."""
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
    listed = {"columns": [[one.field, one.label, one.meaning] for one in COLUMNS], "trouble": list(TROUBLE)}
    content = {"version": 1, "title": title, "source": source, "at": at, "list": listed, "groups": list(groups)}
    payload = embed(content if live is None else {**content, "live": live})
    packed = len(payload) > PACK_ABOVE
    if packed and live is None:
        payload = embed({**content, "groups": [in_columns(group) for group in groups]})
    parts = {
        "TITLE": html.escape(printable(title)),
        "POLICY": policy(live is not None),
        "STYLE": _asset("page.css"),
        "TYPE": "application/gzip" if packed else "application/json",
        "DATA": pack(payload) if packed else payload,
        "SCRIPT": _script(),
    }
    # All at once: a name in the data may look like one of the gaps.
    return _GAP.sub(lambda gap: parts[gap[1]], _asset("page.html"))


def policy(live: bool = False) -> str:
    """What the page may load: its own script and style, no request; a live page may ask its own server."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    ask = "; connect-src 'self'" if live else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'{ask}"


@cache
def _script() -> str:
    return "\n".join(_asset(name) for name in SCRIPTS)


def embed(payload: Any) -> str:
    """JSON that may stand inside a script element: no ``<`` can end it early."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def in_columns(group: dict[str, Any]) -> dict[str, Any]:
    """A group with its plans, rebalances and replays as columns, which pack into a tenth less; the page takes both."""
    plans, now, history = group["plans"], group["now"], group["history"]
    measures = _columns([plan["measures"] for plan in plans])
    return {
        **group,
        # Who owns what now stands in the group itself.
        "now": {**now, "owner": None, "measures": {name: n for name, n in now["measures"].items() if name in DRAWN}},
        "plans": {**_columns(plans), "measures": measures},
        "replays": _columns(group["replays"]),
        "history": {**history, "rebalances": _columns(history["rebalances"])},
    }


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def pack(text: str) -> str:
    """The text as gzip in base64; the same text gives the same letters."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _asset(name: str) -> str:
    return (files("apportion.report") / "assets" / name).read_text(encoding="utf-8").strip()
