"""Subscriptions that a user states for a group whose source does not tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from apportion.errors import BadInput
from apportion.sources.described_group import Observed
from apportion.sources.pasted import ASSUMED


def subscribed(observed: Observed, stated: Sequence[str]) -> Observed:
    """The group whose members want what is stated; members that are not named want what they did.

    stated
        ``TOPIC,TOPIC`` for all members, ``MEMBER=TOPIC,TOPIC`` for one, by member id, instance id or a client id that
        only one member has; the later one counts.
    Raises
        BadInput: no topic, or a member that is not there.
    """
    from apportion.whatif import member_named

    members: dict[str, Any] = {name: dict(fields) for name, fields in observed.raw["members"].items()}
    named: set[str] = set()
    for text in stated:
        who, equals, listed = text.rpartition("=")
        topics = sorted({topic.strip() for topic in listed.split(",")} - {""})
        if not topics:
            raise BadInput("--subscribe", repr(text[:60]), "TOPIC,... or MEMBER=TOPIC,..., as in pod-0=clicks,orders")
        for name in [member_named(observed.group, who)] if equals else members:
            members[name] = {**members[name], "topics": topics}
            named.add(name)
    known = not observed.assumed or len(named) == len(members)
    sentences = [sentence for sentence in observed.sentences if not (known and sentence == ASSUMED)]
    return replace(
        observed,
        raw={**observed.raw, "members": members},
        assumed="" if known else observed.assumed,
        sentences=sentences,
    )
