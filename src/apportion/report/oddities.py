"""What is odd about a group, in sentences a person on call can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints
from apportion.model.group import Group
from apportion.model.measures import lag_held, loads, rack_misses
from apportion.model.to_names import partitions_to_names
from apportion.wording import count, partitions_in_words, percent, shorten

CONCENTRATED: Final = 0.5
"""The share of the whole lag from which on one partition or member is worth a sentence."""


def oddities(group: Group, state: str | None = None, kind: str | None = None) -> list[str]:
    """Everything odd about a group, the gravest first; empty where all is as it should be.

    state, kind
        As Kafka names them, where the source told them. Nobody owns a share group's partitions, and a streams group
        balances tasks, whose partitions nobody chose: what else is odd there ``roles.sentences`` tells.
    """
    if kind == "share":
        return [*_about_state(group, state)]
    return [*_about_state(group, state), *_about_owners(group, balanced=kind != "streams"), *_about_lag(group),
            *_about_offsets(group), *_about_members(group)]  # fmt: skip


def _about_state(group: Group, state: str | None) -> Iterator[str]:
    lag = sum(group.lag.tolist())  # as Python numbers, here and below: 64-bit lags may need more than 64 bits
    if not group.M and state in (None, "Empty"):
        unread = f", and {count(lag, 'message')} wait" if lag else ""
        yield f"Nobody reads: the group has no members{unread}."
    elif state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        yield f"It is rebalancing ({state}): owners are about to change; look again."
    elif state == "Dead":
        yield "The group is Dead: its coordinator has dropped it."


def _about_owners(group: Group, balanced: bool = True) -> Iterator[str]:
    if not group.M:
        return
    lost = group.wanted & (group.owner == NOBODY)
    if lost.all() and group.P and not len(group.claims.partition):
        yield "No owners are told, so moves cannot be counted."
    elif lost.any():
        yield f"{count(int(lost.sum()), 'partition has', 'partitions have')} no owner: {_named(group, lost)}."
    held = loads(group.owner, group.M)
    # Balance is a matter among members that could swap: those with one subscription.
    for k in range(len(group.subscriptions) if balanced else 0):
        alike = held[group.subscription_of == k]
        if len(group.subscriptions[k]) and len(alike) > 1 and alike.any() and alike.max() - alike.min() > 1:
            low, high = int(alike.sum()) // len(alike), -(-int(alike.sum()) // len(alike))
            even = f"{low}" if low == high else f"{low} or {high}"
            now = f"{alike.min():,} to {alike.max():,} partitions"
            yield f"Uneven: members that want the same topics hold {now} each; even would be {even}."
    fallen = list(group.rejected_claims())
    if fallen:
        member, topic, number, why = fallen[0]
        first = f"{group.members[member]}'s on {topic}-{number} ({why})"
        yield f"{count(len(fallen), 'claim contradicts', 'claims contradict')} the rest and cannot stand: {first}" + (
            ", ..." if len(fallen) > 1 else "."
        )


def _about_lag(group: Group) -> Iterator[str]:
    total = sum(group.lag.tolist())
    if total <= 0:
        return
    worst = int(group.lag.argmax())
    share = int(group.lag[worst]) / total
    topic, number = group.name_of(worst)
    if share >= CONCENTRATED and group.P > 2:
        here = f"{topic}-{number} has {percent(share)} of {total:,} messages"
        yield f"The lag is local: {here}; more members cannot help: look for a hot key or a stuck record."
        return
    if group.M > 2 and (group.owner != NOBODY).any():
        held = lag_held(group, group.owner)
        m = int(held.argmax())
        part = int(held[m]) / total
        if part >= CONCENTRATED:
            name, its = member_label(group, m), int(held[m])
            yield f"One member carries {percent(part)} of the lag: {name}, {its:,} of {total:,} messages."


def _about_offsets(group: Group) -> Iterator[str]:
    o = group.offsets
    if o is None:
        return
    ahead = (o.committed > o.end) & (o.end != UNKNOWN)
    if ahead.any():
        yield f"Committed beyond the log's end, as after a topic was made anew: {_named(group, ahead)}."
    gone = (o.committed != UNKNOWN) & (o.begin > o.committed)
    if gone.any():
        lost = sum((o.begin - o.committed)[gone].tolist())
        yield f"Retention deleted {count(lost, 'message')} unread: {_named(group, gone)}."
    never = group.wanted & (o.committed == UNKNOWN) & (o.end > 0) & (o.lag == UNKNOWN)
    if never.any():
        yield (f"Never committed, so that auto.offset.reset ({group.auto_offset_reset}) decides where reading starts: "
               f"{_named(group, never)}.")  # fmt: skip
    unknown = group.wanted & ~group.lag_known
    if unknown.any() and not unknown.all():
        yield f"Lag unknown: {_named(group, unknown)}."
    orphan = ~group.wanted & (o.committed != UNKNOWN)
    if orphan.any() and group.M:
        yield f"Committed but wanted by nobody any more: {_named(group, orphan)}."


def _about_members(group: Group) -> Iterator[str]:
    if not group.M:
        return
    held = loads(group.owner, group.M)
    idle: Ints = np.flatnonzero(held == 0)
    if len(idle) and held.any():
        who = ", ".join(member_label(group, m) for m in idle[:3].tolist()) + (", ..." if len(idle) > 3 else "")
        wanted = int(group.wanted.sum())
        spare = f"with {count(wanted, 'partition')} for {count(group.M, 'member')}"
        why = spare if wanted < group.M else "though there are partitions enough"
        yield f"{count(len(idle), 'member is', 'members are')} idle, {why}: {who}."
    if len(group.subscriptions) > 1:
        yield f"Members want different topics: {len(group.subscriptions)} kinds of subscription."
    missing = [group.topics[t] for t in np.flatnonzero(~group.described & group.wanted_topic).tolist()]
    if missing:
        yield f"Wanted but not there: {shorten(', '.join(missing), 100)}."
    far = int(rack_misses(group, group.owner).sum())
    if far:
        yield f"{count(far, 'partition is', 'partitions are')} read across racks."


def member_label(group: Group, m: int) -> str:
    """How a person calls a member: its instance id, else its client id where that tells members apart, else its id."""
    return member_labels(group, [m])[0]


def member_labels(group: Group, members: Iterable[int] | None = None) -> list[str]:
    """Labels of these members, or of all; their client ids are counted once, not for each."""
    clients = group.client_ids or (None,) * group.M
    times = Counter(clients)
    labels = []
    for m in range(group.M) if members is None else members:
        client = clients[m]
        labels.append(group.instance_ids[m] or (client if client and times[client] == 1 else group.members[m]))
    return labels


def _named(group: Group, chosen: Bools) -> str:
    return shorten(partitions_in_words(partitions_to_names(group, chosen)), 120)
