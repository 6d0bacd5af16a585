"""A group without personal data: client ids and hosts dropped, member ids without the client id that they begin with.

The order of members stays as it is, so that plans stay what they are; only what is shown changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from apportion.model.group import Group
from apportion.sighting.sighting import Sighting


def shown_ids(members: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Member id to the id that is shown: the part that a broker adds to a client id distinguishes members by itself.

    >>> shown_ids({"ann-1-0fd2": {"client_id": "ann-1"}, "pod-0-77": {"client_id": "ann-1", "instance_id": "pod-0"}})
    {'ann-1-0fd2': '0fd2', 'pod-0-77': 'pod-0-77'}
    """
    shown: dict[str, str] = {}
    taken: set[str] = set()
    tried: dict[str, int] = {}
    for member in sorted(members):
        client = members[member].get("client_id")
        bare = member.removeprefix(f"{client}-") if client else member
        if not bare or (client and client in bare):
            bare = "member"
        n = tried.get(bare, 1)  # all below it are taken
        while (name := bare if n == 1 else f"{bare}-{n}") in taken:
            n += 1
        tried[bare] = n
        taken.add(name)
        shown[member] = name
    return shown


def nameless(group: Group, ids: Mapping[str, str]) -> Group:
    """The group under the shown ids, without client ids and hosts."""
    nobody = (None,) * group.M
    members = tuple(ids.get(member, member) for member in group.members)
    return replace(group, members=members, client_ids=nobody, hosts=nobody)


def nameless_sighting(sighting: Sighting, ids: Mapping[str, str]) -> Sighting:
    """The facts seen with a group likewise: members with roles, and sentences that may name a member by its id."""
    roles = [
        replace(role, member_id=ids.get(role.member_id, role.member_id), client_id=None, host=None)
        for role in sighting.roles
    ]
    carriers = sighting.assigned_data
    return replace(
        sighting, roles=roles, notes=[nameless_text(note, ids) for note in sighting.notes],
        assigned_data=None if carriers is None else [ids.get(member, member) for member in carriers],
        addresses={ids.get(member, member): address for member, address in sighting.addresses.items()},
    )  # fmt: skip


def nameless_text(text: str, ids: Mapping[str, str]) -> str:
    """A sentence that may name a member by its id."""
    for member, shown in ids.items():
        if member != shown:
            text = text.replace(member, shown)
    return text
