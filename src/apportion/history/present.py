"""A group as it is now, in the form of group.json: members and their partitions, topics with racks and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.history.fold import Present
from apportion.history.records import GenerationMember, member_fields
from apportion.history.steps import TopicEntries
from apportion.model.protocols import STREAMS
from apportion.model.topic_columns import TopicColumns

Committed = Mapping[str, Mapping[int, int]]
"""Topic to partition id to the committed offset."""


def group_json(
    name: str, present: Present, topics: TopicEntries, committed: Committed, ids: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """group.json of a group: its members' present assignment counts as owned.

    topics
        Every topic that is known, with what is known of its partitions; in columns with its commits too.
    committed
        The group's standing commits.
    ids
        Topic to its id, where it is known.
    Returns
        Topics that a member wants or that have a commit, as far as they are known; where no topic is known at all,
        partitions up to the highest that is held or committed. Without members (an empty or simple group) the
        ``members`` are ``{}``, which no strategy takes.
    """
    wanted = {topic for seat in present.members for topic in seat.topics}
    described: dict[str, Sequence[Mapping[str, Any]]] = {}
    for topic in sorted(wanted | set(committed)):
        entries = topics.get(topic) if topics else _seen(topic, present, committed)
        if entries:
            described[topic] = (
                entries
                if isinstance(entries, TopicColumns)
                else [_entry(entry, committed.get(topic, {})) for entry in entries]
            )
    # A task's number may pass the end of the narrower ones of its topics: there is no such partition to own.
    existing = (
        {t: {e["partition"] for e in entries} for t, entries in described.items()} if present.type == STREAMS else None
    )
    members = {seat.member_id: _member(seat, present.generation, existing) for seat in present.members}
    named = {topic: ids[topic] for topic in described if topic in ids} if ids else {}
    return {
        "version": 1,
        "group": name,
        "topics": described,
        **({"topic_ids": named} if named else {}),
        "members": members,
    }


def _entry(entry: Mapping[str, Any], committed: Mapping[int, int]) -> dict[str, Any]:
    """One partition with the fields that are known; an offset below 0 is none."""
    p = entry["partition"]
    known = {"partition": p, "racks": entry.get("racks") or None, "begin": entry.get("begin"), "end": entry.get("end")}
    known["committed"] = committed.get(p)
    return {
        name: value
        for name, value in known.items()
        if value is not None and not (name in ("begin", "end", "committed") and value < 0)
    }


def _seen(topic: str, present: Present, committed: Committed) -> list[dict[str, Any]]:
    """Without any description of topics: the partitions that are held or committed."""
    ids = set(committed.get(topic, ()))
    for seat in present.members:
        ids.update(seat.assigned.get(topic, ()))
    return [{"partition": p} for p in sorted(ids) if p >= 0]


def _member(seat: GenerationMember, generation: int | None, existing: Mapping[str, set[int]] | None) -> dict[str, Any]:
    held = seat.assigned
    if existing is not None:
        held = {topic: tuple(p for p in ids if p in existing.get(topic, ())) for topic, ids in held.items()}
    owned = {topic: sorted(ids) for topic, ids in sorted(held.items()) if ids}
    fields = member_fields(seat, owned or None, generation if held else None) | {"topics": sorted(seat.topics)}
    return {name: value for name, value in fields.items() if value is not None}
