"""The facts worth knowing about the roles in a share or streams group, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from apportion.model.protocols import SHARE, STREAMS
from apportion.wording import partitions_in_words, shorten

if TYPE_CHECKING:
    from apportion.history.records import GenerationMember

NARROW: Final = 40
PROGRESS: Final = (
    "A share group: several members may read one partition at a time, so it has no owner. How far it has read is in "
    "__share_group_state, not in __consumer_offsets: kafka-share-groups --describe --offsets tells."
)


def sentences(kind: str | None, members: Sequence[GenerationMember]) -> list[str]:
    """More facts worth knowing about a share or streams group; nothing for groups of other kinds."""
    if kind == SHARE:
        waiting = [m for m in members if "target" in m.roles and m.roles.get("shared") != m.roles["target"]]
        return [PROGRESS, *(_not_there_yet(member) for member in waiting[:3])]
    if kind != STREAMS or not members:
        return []
    lines = []
    active = [sum(map(len, member.roles.get("active", {}).values())) for member in members]
    if max(active) - min(active) > 1:
        lines.append(f"Uneven: members run {min(active):,} to {max(active):,} active tasks each.")
    alone = _copies_beside_their_task(members)
    if alone:
        lines.append(f"A standby in the process of its own active task keeps nothing safe: {alone[0]} in one process.")
    return lines


def _not_there_yet(member: GenerationMember) -> str:
    name = member.client_id or member.member_id
    shared, target = (partitions_in_words(member.roles.get(role, {})) or "nothing" for role in ("shared", "target"))
    return f"{name} shares {shorten(shared, NARROW)} and is to share {shorten(target, NARROW)}."


def _copies_beside_their_task(members: Sequence[GenerationMember]) -> list[str]:
    """Tasks of which one process has both the active task and a standby, by name."""
    held: dict[str, dict[str, set[str]]] = {}
    for member in members:
        process = held.setdefault(member.process_id or member.member_id, {"active": set(), "standby": set()})
        for role, tasks in process.items():
            tasks.update(f"{name}_{p}" for name, ids in member.roles.get(role, {}).items() for p in ids)
    return sorted(task for process in held.values() for task in process["active"] & process["standby"])
