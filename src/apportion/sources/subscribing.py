"""Subscriptions that a user states for a group whose source does not give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apportion.errors import BadInput
from apportion.model.build import build
from apportion.model.group_json import group_to_dict
from apportion.sighting.sighting import Sighting
from apportion.sources.pasted import ASSUMED


def subscribed(sighting: Sighting, stated: Sequence[str]) -> Sighting:
    """The group whose members want the stated topics; members that are not named want the same as before.

    stated
        ``TOPIC,TOPIC`` for all members, ``MEMBER=TOPIC,TOPIC`` for one, by member id, instance id or a client id that
        only one member has; the later one counts.
    Raises
        BadInput: no topic, or a member that is not there.
    """
    from apportion.whatif import member_named

    raw = group_to_dict(sighting.group)
    named: set[str] = set()
    for text in stated:
        who, equals, listed = text.rpartition("=")
        topics = sorted({topic.strip() for topic in listed.split(",")} - {""})
        if not topics:
            raise BadInput("--subscribe", repr(text[:60]), "TOPIC,... or MEMBER=TOPIC,..., as in pod-0=clicks,orders")
        for name in [member_named(sighting.group, who)] if equals else sighting.group.members:
            raw["members"][name]["topics"] = topics
            named.add(name)
    known = not sighting.assumed or len(named) == sighting.group.M
    notes = [note for note in sighting.notes if not (known and note == ASSUMED)]
    return replace(sighting, group=build(raw), assumed="" if known else sighting.assumed, notes=notes)
