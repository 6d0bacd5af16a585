"""Kafka's TimelineHashMap as far as order goes: the table in which the coordinator keeps a group's members.

Slots are the highest bits of the hash code times a constant; a slot keeps what came into it, and hands it on backwards.
The table starts with two slots, doubles when a put finds (size + 1) * 3/4 above their number, also one that replaces,
and never shrinks. A doubling walks the old slots upwards. Source: Apache Kafka 4.3.0, ``BaseHashTable``.
"""

from __future__ import annotations

from apportion.server_side.java_hash import string_hash, timeline_rank


class Timeline:
    """Member ids in the order in which the coordinator's table hands them on.

    >>> table = Timeline()
    >>> for member in ("Aa", "BB", "C"):
    ...     table.put(member)
    >>> table.members().index("BB") < table.members().index("Aa")  # of equals the last comes first
    True
    """

    def __init__(self) -> None:
        self._slots: list[list[str]] = [[], []]
        self._rank: dict[str, int] = {}

    def put(self, member: str) -> None:
        """Add a member, or replace it if it is there."""
        if (len(self._rank) + 1) * 0.75 > len(self._slots):
            self._double()
        if member not in self._rank:
            self._rank[member] = timeline_rank(string_hash(member))
            self._slot(member).append(member)

    def remove(self, member: str) -> None:
        """Take a member out, if it is there."""
        if member in self._rank:
            self._slot(member).remove(member)
            del self._rank[member]

    def __contains__(self, member: str) -> bool:
        return member in self._rank

    def members(self) -> list[str]:
        """All members."""
        return [member for slot in self._slots for member in reversed(slot)]

    def _slot(self, member: str) -> list[str]:
        return self._slots[self._rank[member] * len(self._slots) >> 64]

    def _double(self) -> None:
        members = [member for slot in self._slots for member in slot]
        self._slots = [[] for _ in range(2 * len(self._slots))]
        for member in members:
            self._slot(member).append(member)
