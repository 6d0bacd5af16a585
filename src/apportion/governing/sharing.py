"""Which of several governors governs which group: about as many each, without anybody numbering them.

Governors are members of one group, ``apportion-governors``, which reads nothing: it tells each who the others are. A
group's lease is its carrier's instance id, which one member at a time can have; so if two governors disagree for a
moment, one of them waits. Who holds a lease keeps it, unless the others have too few: then it hands over what is beyond
its share. A group whose holder is gone goes to the governor with room that hashes highest with the group's name, so all
choose the same one, and a governor that comes or goes moves no lease between the others.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

CLUB: Final = "apportion-governors"
"""The group of all governors of a cluster; whoever governs needs READ on it."""


def share(groups: Collection[str], holders: Mapping[str, str], governors: Collection[str], me: str) -> set[str]:
    """The groups that this governor is to govern now.

    holders
        Group to the governor that holds its lease, for those that somebody holds.
    governors
        All that are there, of the same rules; this one among them.
    """
    most = -(-len(groups) // max(1, len(governors)))
    holds = Counter(holder for group, holder in holders.items() if group in groups and holder in governors)
    mine = sorted((group for group in groups if holders.get(group) == me), key=lambda group: weight(group, me))
    keeps = set(mine[max(0, len(mine) - most) :])
    for group in sorted(groups):
        if holders.get(group) in governors:
            continue
        room = [governor for governor in governors if holds[governor] < most]
        taker = max(room or governors, key=lambda governor: weight(group, governor))
        holds[taker] += 1
        if taker == me:
            keeps.add(group)
    return keeps


def weight(group: str, governor: str) -> bytes:
    """By which governors compete for a group (rendezvous hashing)."""
    return hashlib.sha256(f"{governor}\0{group}".encode()).digest()
