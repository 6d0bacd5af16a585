"""What is odd about a group, in sentences a person on call can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints
from apportion.history.lag_time import MARKERS_MAX
from apportion.model.group import Group
from apportion.model.measures import rack_misses
from apportion.model.present import contested, lag_now, loads_now, observed_lag, owed, topic_shares
from apportion.model.to_names import partitions_to_names
from apportion.planning import plan
from apportion.wording import count, partitions_in_words, percent, shorten, some_of

CONCENTRATED: Final = 0.5
"""The share of the whole lag from which on one partition or member is worth a sentence."""
LEAST_LOCAL: Final = 50
"""Messages of one partition from which on its share is worth a sentence: a marker's lag of 1 is nobody's hot key."""
ALONE: Final = 1.05
"""A member with at most so much of its heaviest partition's lag has nothing else that could be taken from it."""
HEAVY: Final = 4.0
"""Times the mean lag of the others that one member may have."""
HEAVY_LAG: Final = 10_000
"""Messages below which no member is heavy."""
LEAST_WHOLE: Final = 3
"""Partitions of a topic from which on it is odd that one member reads all: two may be together by chance."""
EVENED_CELLS_MAX: Final = 100_000
"""Members x partitions above which members of different wishes are not planned to see how even they could be."""
KEPT_TOGETHER: Final = frozenset({"failover"})
"""Strategies that give whole topics to one member on purpose."""


def oddities(
    group: Group,
    state: str | None = None,
    kind: str | None = None,
    *,
    protocol: str | None = None,
    owners_told: bool = True,
    assumed: bool = False,
) -> list[str]:
    """Everything odd about a group, the gravest first; empty where all is as it should be.

    state, kind, protocol
        As Kafka names them, where the source told them. Nobody owns a share group's partitions, and a streams group
        balances tasks, whose partitions nobody chose: what else is odd there ``roles.sentences`` tells.
    owners_told
        Whether the source tells who reads.
    assumed
        Whether subscriptions are guessed, so that nothing is to be said of what they would allow.
    """
    if kind == "share":
        return [*_about_state(group, state, kind, owners_told)]
    balanced = kind != "streams"
    return [
        *_about_state(group, state, kind, owners_told),
        *_about_owners(group, balanced),
        *_about_spread(group, balanced and protocol not in KEPT_TOGETHER, assumed),
        *_about_lag(group, owed(group, assumed)),
        *_about_offsets(group, owed(group, assumed)),
        *_about_members(group),
    ]


def _about_state(group: Group, state: str | None, kind: str | None, owners_told: bool) -> Iterator[str]:
    lag = sum(group.lag.tolist())  # as Python numbers, here and below: 64-bit lags may need more than 64 bits
    waiting = f"{count(lag, 'message waits', 'messages wait')}" if lag else ""
    if not owners_told:
        source = "the text has no column CONSUMER-ID and no list of members"
        yield f"Owners are not told: {source}{f'; {waiting}' if waiting else ''}."
    elif not group.M and kind == "simple":
        yield "It commits without members, as Flink, Spark and consumers with assign() do: who reads is not told."
    elif not group.M and state in (None, "Empty"):
        yield _nobody(group, kind, waiting)
    elif state == "rebalancing":
        yield "It is rebalancing: owners are about to change; look again."
    elif state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        yield f"It is rebalancing ({state}): owners are about to change; look again."
    elif state == "Dead":
        yield "The group is Dead: its coordinator has dropped it."


def _nobody(group: Group, kind: str | None, waiting: str) -> str:
    """Of a group without members: a text does not tell whether it ever had some, a coordinator does."""
    unread = f", and {waiting}" if waiting else ""
    committed = group.offsets is not None and bool((group.offsets.committed != UNKNOWN).any())
    if committed and kind is None:
        return f"No members{unread}: nobody reads, or who reads commits without members (Flink, Spark, assign())."
    return f"Nobody reads: the group has no members{unread}."


def _about_owners(group: Group, balanced: bool = True) -> Iterator[str]:
    if not group.M:
        return
    twice = contested(group)
    lost = group.wanted & (group.owner == NOBODY) & ~twice
    if twice.any():
        partitions = count(int(twice.sum()), "partition is", "partitions are")
        yield f"{partitions} read by several members: {_named(group, twice)}."
    if lost.all() and group.P and not len(group.claims.partition):
        yield "No owners are told, so moves cannot be counted."
    elif lost.any():
        yield f"{count(int(lost.sum()), 'partition has', 'partitions have')} no owner: {_named(group, lost)}."
    held = loads_now(group)
    # Balance is a matter among members that could swap: those with one subscription.
    for k in range(len(group.subscriptions) if balanced else 0):
        loads = held[group.subscription_of == k]
        if len(group.subscriptions[k]) and len(loads) > 1 and loads.any() and loads.max() - loads.min() > 1:
            low, high = int(loads.sum()) // len(loads), -(-int(loads.sum()) // len(loads))
            even = f"{low}" if low == high else f"{low} or {high}"
            now = f"{loads.min():,} to {loads.max():,} partitions"
            yield f"Uneven: members that want the same topics hold {now} each; even would be {even}."
    fallen = [claim for claim in group.rejected_claims() if not claim[3].startswith("claimed twice")]
    if fallen:
        member, topic, number, why = fallen[0]
        first = f"{group.members[member]}'s on {topic}-{number} ({why})"
        yield f"{count(len(fallen), 'claim contradicts', 'claims contradict')} the rest and cannot stand: {first}" + (
            ", ..." if len(fallen) > 1 else "."
        )


def _about_spread(group: Group, balanced: bool, assumed: bool) -> Iterator[str]:
    """Topics that one member holds whole, and members of different wishes that could be more even."""
    if not balanced or group.M < 2 or not (group.owner != NOBODY).any():
        return
    whole = whole_topics(group)
    if whole and not assumed:
        names = some_of([group.topics[topic] for topic in whole])
        verb = "topic is" if len(whole) == 1 else "topics are each"
        yield f"{len(whole):,} {verb} held wholly by one member, though others want it too: {names}."
    now = loads_now(group)
    uneven = len(group.subscriptions) > 1 and int(now.max()) - int(now.min()) > 1
    if not uneven or assumed or group.M * group.P > EVENED_CELLS_MAX:
        return
    could = plan(group, "sticky").measures
    if int(now.max()) - could["load_max"] >= 2 or could["load_min"] - int(now.min()) >= 2:
        span = f"{could['load_min']:,} to {could['load_max']:,}"
        moves = count(could["moves"], "move")
        yield f"Uneven: members hold {now.min():,} to {now.max():,} partitions; {span} can be, with {moves}."


def whole_topics(group: Group) -> list[int]:
    """Topics of some partitions that one member holds wholly, though others want them too."""
    held = [topic for topic, share in topic_shares(group, group.owner) if share == 1]
    sizes = np.diff(group.start)
    return [topic for topic in held if sizes[topic] >= LEAST_WHOLE and len(group.subscribers(topic)) > 1]


def _about_lag(group: Group, counted: Bools) -> Iterator[str]:
    lag = np.where(counted, group.lag, 0)
    total = sum(lag.tolist())
    if total <= 0:
        return
    hottest = int(lag.argmax())
    its = int(lag[hottest])
    share = its / total
    if share >= CONCENTRATED and group.P > 2 and its >= LEAST_LOCAL:
        yield _local(group, hottest, share, total)
        return
    if group.M > 2 and (group.owner != NOBODY).any():
        held = lag_now(group)
        m = int(held.argmax())
        part = int(held[m]) / total
        if part >= CONCENTRATED:
            name, its = member_label(group, m), int(held[m])
            yield f"One member carries {percent(part)} of the lag: {name}, {its:,} of {total:,} messages."
            return
    yield from heavy(group)


def heavy(group: Group) -> Iterator[str]:
    """One member has much more to read than the mean of the others, however small its share of a large group's lag."""
    if group.M < 2 or not len(group.claims.partition):
        return
    held = [float(lag) for lag in lag_now(group).tolist()]
    most = max(held)
    mean = (sum(held) - most) / (group.M - 1)
    if most >= HEAVY_LAG and most >= HEAVY * mean:
        name = member_label(group, held.index(most))
        comparison = f"{most / mean:,.1f} times the mean of the others" if mean else "the others have none"
        yield f"One member has {count(int(most), 'message')} to read, {comparison}: {name}."


def _local(group: Group, hottest: int, share: float, total: int) -> str:
    """One partition has most of the lag: whether members can help depends on what its member has besides."""
    topic, number = group.name_of(hottest)
    its = int(group.lag[hottest])
    hot = f"{topic}-{number} has {percent(share)} of {total:,} messages"
    owner = int(group.owner[hottest])
    held = int(lag_now(group)[owner]) if owner != NOBODY else its
    if held <= ALONE * its:
        return f"The lag is local: {hot}; more members cannot help: look for a hot key or a stuck record."
    # Alone it is as light as it can be: no plan cuts a partition in two.
    who = "more members, or lag-aware with those there are," if group.M > 1 else "more members"
    return (
        f"The lag is uneven: {hot}, and its member {held:,} in all; {who} can take that towards {its:,}, and no plan "
        "below."
    )


def _about_offsets(group: Group, counted: Bools) -> Iterator[str]:
    o = group.offsets
    if o is None:
        return
    ahead = counted & (o.committed > o.end) & (o.end != UNKNOWN)
    if ahead.any():
        yield f"Committed beyond the log's end, as after a topic was made anew: {_named(group, ahead)}."
    passed = counted & (o.committed != UNKNOWN) & (o.begin > o.committed)
    gone = passed & (o.begin - o.committed > MARKERS_MAX)
    if (passed & ~gone).any():
        yield f"Retention passed 1 or 2 offsets that may be markers of transactions: {_named(group, passed & ~gone)}."
    if gone.any():
        lost = sum((o.begin - o.committed)[gone].tolist())
        yield f"Retention deleted {count(lost, 'message')} unread: {_named(group, gone)}."
    never = group.wanted & (o.committed == UNKNOWN) & (o.lag == UNKNOWN) & (o.end != UNKNOWN)
    empty = never & (o.end == np.maximum(o.begin, 0))
    if empty.any():
        yield f"Never committed, and nothing to read yet: {_named(group, empty)}."
    never &= ~empty
    if never.any():
        yield (f"Never committed, so that auto.offset.reset ({group.auto_offset_reset}) decides where reading starts: "
               f"{_named(group, never)}.")  # fmt: skip
    unknown = group.wanted & ~group.lag_known
    if unknown.any() and not unknown.all():
        yield f"Lag unknown: {_named(group, unknown)}."
    if never.any() and not (observed_lag(group) != UNKNOWN).any():
        yield "Lag unknown: no partition has a committed offset."
    orphan = ~group.wanted & (o.committed != UNKNOWN)
    if orphan.any() and group.M:
        yield f"Committed but wanted by nobody any more: {_named(group, orphan)}."


def _about_members(group: Group) -> Iterator[str]:
    if not group.M:
        return
    held = loads_now(group)
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


def own_names(together: Iterable[Sequence[tuple[str | None, str | None]]]) -> dict[str, str]:
    """Identity to client id of members, where no two that were there together have the same.

    together
        Of each moment all members, as identity (None of one that needs no other name) and client id.
    """
    names: dict[str, str] = {}
    shared: set[str | None] = set()
    for members in together:
        shared |= {client for client, n in Counter(client for _, client in members).items() if n > 1}
        names |= {identity: client for identity, client in members if identity and client}
    return {identity: client for identity, client in names.items() if client not in shared}


def _named(group: Group, chosen: Bools) -> str:
    return shorten(partitions_in_words(partitions_to_names(group, chosen)), 120)
