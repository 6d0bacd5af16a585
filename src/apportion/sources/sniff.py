"""The kind of an input, found out from its content: group.json, a folder of records or tables, or pasted text."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Final

from apportion.errors import ApportionError, BadInput, within
from apportion.sighting.sighting import Sighting

NEEDED: Final = (
    "group.json, a dump (a folder with records/), the pipeline's tables (a folder with silver/ and gold/), "
    "or what kafka-consumer-groups --describe printed"
)


_AS_UTF_8: Final = "UTF-8: in PowerShell, pipe it through Out-File -Encoding utf8"
_OTHERS: Final = (
    (b"PAR1", "a Parquet file", "the folder of the dump or of the tables that it belongs to"),
    (b"\xff\xfe", "UTF-16, as PowerShell's > writes", _AS_UTF_8),
    (b"\xfe\xff", "UTF-16", _AS_UTF_8),
    (b"\x1f\x8b", "a gzip file", "its content: gunzip -c FILE | apportion ..."),
)
"""What people give by mistake: how it begins, what it is, and what was needed."""

FROM_PLAN: Final = (
    "This is a saved plan: its owners are planned, and each member subscribes to the topics that it holds."
)


def groups_in(content: bytes, name: str, whole: bool = True) -> list[Sighting]:
    """Every group in the text of a file or of standard input.

    name
        How errors call the input.
    whole
        Whether a row that cannot be read is an error; else ``Sighting.gaps`` names it.
    """
    start = content[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not content.strip():
        raise BadInput(name, "nothing", NEEDED)
    if start[:1] in (b"{", b"[") and _is_json(content):
        return _from_json(content, name, whole)
    for beginning, kind, needed in _OTHERS:
        if content.startswith(beginning):
            raise BadInput(name, kind, needed)
    from apportion.sources import pasted

    if pasted.looks_pasted(content):
        return pasted.groups_in(content, name, whole)
    if content.count(b"\n") > 1 and content.isascii():
        raise BadInput(name, "a text of which no line names TOPIC and PARTITION", NEEDED)
    shown = ascii(content[:40].decode("utf-8", "replace"))
    raise BadInput(name, shown, NEEDED)


def _is_json(content: bytes) -> bool:
    """Whether a text that begins with a brace or a bracket is meant as JSON.

    A prompt (``[root@kafka-0 bin]#``), a log's date and a line of a log that is JSON itself may stand before a table.
    """
    from apportion.sources import pasted

    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    first, _, rest = text.partition(b"\n")
    if not _BEGINS_JSON.match(text):
        return text[:1] == b"{" and not pasted.looks_pasted(content)
    if not rest.strip() or rest.lstrip()[:1] in (b"[", b"]", b"}", b'"', b","):
        return True
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True  # it goes on in the next line
    return not pasted.looks_pasted(content)  # lines of JSON are groups, or a log before a table


_BEGINS_JSON: Final = re.compile(
    rb'\{\s*["}]|\[\s*(?:[\][{"]|-?[0-9]+(?:\.[0-9]+)?\s*[,\]]|true\b|false\b|null\b)|[{[]\s*$'
)


def folder_kind(path: str) -> str:
    """``dump`` or ``tables``; a clear error for a folder that is neither."""
    files = set(os.listdir(path))
    if "records" in files:
        return "dump"
    if {"silver", "gold"} & files:
        return "tables"
    raise BadInput(path, "a folder with neither records/ nor silver/ and gold/", NEEDED)


_OURS: Final = frozenset({"version", "group", "groups", "topics", "members", "assignment"})
"""Fields of which our own JSON has one at least."""


def _from_json(content: bytes, name: str, whole: bool = True) -> list[Sighting]:
    """One group, the ``{"groups": [...]}`` that describe itself writes, or another tool's output."""
    from apportion.model.group_json import read_group
    from apportion.model.json_checks import read_json
    from apportion.sources import tool_json

    if (groups := tool_json.groups_in(content, name, whole)) is not None:
        return groups
    if (lines := _json_lines(content)) is not None:
        # As plan --batch takes them; the first bad line is an error that names it.
        return [group for number, line in lines for group in _from_json(line, f"{name}, line {number}")]
    raw: Any = read_json(content.removeprefix(b"\xef\xbb\xbf"), name, finite=False)
    if isinstance(raw, dict) and raw and not _OURS & raw.keys():
        raise BadInput(name, f"JSON of another tool, with {', '.join(sorted(raw))[:100]}", NEEDED)
    with within(name):
        if isinstance(raw, dict) and "groups" in raw and "members" not in raw:
            return _many(raw)
        if is_plan(raw):
            from apportion.model.build import build
            from apportion.model.plan_json import read_plan

            saved = read_plan(raw)
            return [Sighting(build(saved.as_group()), assignor=saved.assignor, notes=[FROM_PLAN])]
        return [Sighting(read_group(raw))]


def _json_lines(content: bytes) -> list[tuple[int, bytes]] | None:
    """The lines of NDJSON with their numbers, None for a single document: a line of it is none by itself."""
    lines = [(n, line) for n, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1) if line.strip()]
    if len(lines) < 2 or not lines[0][1].lstrip().startswith(b"{"):
        return None
    try:
        json.loads(lines[0][1])
    except (ValueError, RecursionError):
        return None
    return lines


def is_plan(raw: Any) -> bool:
    """Whether this is a plan.json rather than a group.json."""
    return isinstance(raw, dict) and "assignment" in raw and "assignor" in raw and "members" not in raw


def _many(raw: dict[str, Any]) -> list[Sighting]:
    from apportion.model.group_json import read_group

    if raw.get("version", 1) != 1 or set(raw) - {"version", "groups"}:
        raise BadInput("version and groups", ", ".join(sorted(raw))[:60], '{"version": 1, "groups": [...]}')
    if not isinstance(raw["groups"], list) or not raw["groups"]:
        raise BadInput("groups", "no list of groups", "at least one group")
    sightings = []
    for i, group in enumerate(raw["groups"]):
        try:  # a group without members is bad input alone, but one of many may be empty, as describe writes it
            sightings.append(Sighting(read_group(group, empty=True)))
        except BadInput as error:
            raise BadInput(f"groups[{i}].{error.where}", error.found, error.needed) from None
    return sightings


def chosen(groups: list[Sighting], names: list[str]) -> list[Sighting]:
    """The groups of these names, in the order of the names; all if no name is given."""
    if not names:
        return groups
    from apportion.errors import UnknownName

    by_name = {group.name: group for group in groups}
    for name in names:
        if name not in by_name:
            raise UnknownName("group", name, by_name)
    return [by_name[name] for name in dict.fromkeys(names)]


def the_one(groups: list[Sighting], where: str) -> Sighting:
    """The single group of an input; an error that names the groups if there are more."""
    if len(groups) == 1:
        return groups[0]
    names = ", ".join(repr(group.name) for group in groups[:8]) + (", ..." if len(groups) > 8 else "")
    raise ApportionError(f"{where} holds {len(groups)} groups ({names}): choose one with --group.")
