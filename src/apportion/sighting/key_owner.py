"""The member that reads a key, and where it can be asked: for queries that go to the member with the key's state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.arrays import NOBODY
from apportion.errors import UnknownName
from apportion.sighting.sighting import Sighting
from apportion.wire.partitioners import partition_of


@dataclass(frozen=True)
class KeyOwner:
    """Where a key is read.

    partition
        The key's partition.
    member, client_id, host
        The member that reads it, as the broker names it; None: no member does, as during a rebalance.
    address
        Where the member says that it answers queries: the tag ``address`` of a ``TaskRunner``, or the user endpoint of
        a streams group's member (``application.server``); None: it says nothing.
    """

    partition: int
    member: str | None = None
    client_id: str | None = None
    host: str | None = None
    address: str | None = None


def owner_of(seen: Sighting, topic: str, key: bytes, partitioner: str = "murmur2") -> KeyOwner:
    """The owner of the key's partition.

    Raises
        UnknownName: a topic that the group does not read, or a partitioner that is not there.
        BadInput: an empty key that goes to any partition.
    """
    group = seen.group
    if topic not in group.topics:
        raise UnknownName("topic of the group", topic, list(group.topics))
    span = group.partitions(group.topics.index(topic))
    number = partition_of(key, len(group.number[span]), partitioner)
    m = int(group.owner[span][np.flatnonzero(group.number[span] == number)[0]])
    if m == NOBODY:
        return KeyOwner(number)
    member = group.members[m]
    client_id, host = (names[m] if names else None for names in (group.client_ids, group.hosts))
    return KeyOwner(number, member, client_id, host, seen.addresses.get(member))
