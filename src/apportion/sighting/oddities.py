"""A group's oddities at one moment, in sentences a person on call can act on, each with its gravity.

What is merely odd is no warning: a group of a hundred members is never quite even. What warns goes by figures that know
the group's size, by its state, by the plan that governs it, and by what its strategy promises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints
from apportion.defaults import DEFAULT_EAGER
from apportion.errors import ApportionError
from apportion.model.group import Group
from apportion.model.lag import MARKERS_MAX
from apportion.model.measures import rack_misses
from apportion.model.present import contested, lag_now, loads_now, observed_lag, owed, topic_shares
from apportion.model.protocols import OTHERS, SHARE
from apportion.model.to_names import partitions_to_names
from apportion.planning import plan
from apportion.sighting.roles import sentences
from apportion.strategy.registry import traits_of_protocol
from apportion.strategy.traits import Traits
from apportion.wording import count, partitions_in_words, percent, shorten, some_of

if TYPE_CHECKING:
    from apportion.sighting.sighting import Sighting

OK, WARN, ERR = "OK", "WARN", "ERR"
REBALANCING: Final = frozenset({"rebalancing", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""States in which owners are about to change: who reads what just now tells nothing of the group."""
BY_A_JOB: Final = "It commits without members, as Flink, Spark and consumers with assign() do: its readers are unknown."
CONCENTRATED: Final = 0.5
"""The share of the whole lag from which on one partition or member is worth a sentence."""
LEAST_LOCAL: Final = 50
"""Messages of one partition from which on its share is worth a sentence: a marker's lag of 1 is nobody's hot key."""
HEAVY: Final = 4.0
"""Times the mean lag of the others that one member may have."""
HEAVY_LAG: Final = 10_000
"""Messages below which no member is heavy."""
LEAST_WHOLE: Final = 3
"""Partitions of a topic from which on it is odd that one member reads all: two may be together by chance."""
UNEVEN: Final = 1.25
"""Times the partitions of the fairest sharing's fullest member, and at least two more, that one may hold."""
EVENED_CELLS_MAX: Final = 100_000
"""Members x partitions above which members of different wishes are not planned to see how even they could be."""
UNGOVERNED: Final = Traits()


class Finding(NamedTuple):
    """One sentence about a group, and how grave it is: ``OK`` if it is odd and no more.

    about
        What later evidence may know better: ``EXPIRED``, ``NO_MEMBERS``, ``ONE_MEMBER``; "" nothing.
    """

    text: str
    verdict: str = OK
    about: str = ""


EXPIRED, NO_MEMBERS, ONE_MEMBER = "expired", "no members", "one member"


def findings(seen: Sighting) -> list[Finding]:
    """All findings of one look, in the order of the report: unread parts first, then those that hurt most.

    Nobody owns a share group's partitions, and a streams group balances tasks, whose partitions nobody chose: what else
    is odd there ``roles.sentences`` tells.
    """
    unread = [Finding(f"Not all was read: {sentence}.", WARN) for sentence in seen.gaps]
    told = [Finding(sentence) for sentence in (*sentences(seen.protocol, seen.roles), *seen.notes)]
    return [*unread, *_Look(seen).findings(), *told]


class _Look:
    """One group while it is looked at.

    traits
        Of its strategy; the defaults where nobody knows that.
    even
        Whether even counts are wanted: not where the strategy keeps topics or numbers whole, or a plan governs.
    counted
        (P,) partitions that the group still has to read.
    """

    def __init__(self, seen: Sighting) -> None:
        group = seen.group
        self.group, self.seen, self.protocol = group, seen, seen.protocol
        self.assumed = bool(seen.assumed)
        self.traits = traits_of_protocol(seen.assignor) or UNGOVERNED
        self.even = not (seen.protocol in OTHERS or self.traits.kept_whole or self.traits.stateful or seen.governed)
        self.moving = seen.state in REBALANCING
        self.counted = owed(group, self.assumed)
        self.lag = observed_lag(group) if group.offsets is not None else np.full(group.P, UNKNOWN)

    def findings(self) -> Iterator[Finding]:
        """All of them."""
        yield from self._state()
        if self.protocol == SHARE:
            return
        yield from self._owners()
        if self.seen.owners_told and not self.moving:
            yield from self._spread()
            yield from self._plan()
        yield from self._lag()
        yield from self._offsets()
        yield from self._members()

    def _total(self, where: Bools) -> int:
        """Messages left there, as far as they are known; as a Python number, which 64-bit lags may need."""
        lag = self.lag[where]
        return sum(lag[lag > 0].tolist())

    def _state(self) -> Iterator[Finding]:
        seen, group = self.seen, self.group
        lag = self._total(self.counted)
        waiting = count(lag, "message waits", "messages wait") if lag else ""
        if not seen.owners_told:
            source = "the text has no column CONSUMER-ID and no list of members"
            yield Finding(f"The owners are unknown: {source}{f'; {waiting}' if waiting else ''}.", WARN)
        elif self.moving:
            named = "" if seen.state == "rebalancing" else f" ({seen.state})"
            lost = self._total(self.counted & (group.owner == NOBODY) & ~contested(group))
            unread = (
                f", and {count(lost, 'message waits', 'messages wait')} in partitions without an owner" if lost else ""
            )
            yield Finding(
                f"It is rebalancing{named}: owners are about to change{unread}. Look again.", WARN if lost else OK
            )
        elif not group.M and self.protocol == "simple":
            yield Finding(BY_A_JOB)
        elif not group.M and seen.state in (None, "Empty"):
            yield Finding(_nobody(group, self.protocol, waiting), ERR if waiting else OK, NO_MEMBERS)
        elif seen.state == "Dead":
            yield Finding("The group is Dead: its coordinator has dropped it.")

    def _owners(self) -> Iterator[Finding]:
        group = self.group
        if not group.M:
            return
        twice = contested(group)
        if twice.any():
            partitions = count(int(twice.sum()), "partition is", "partitions are")
            yield Finding(f"{partitions} read by several members: {named(group, twice)}.", WARN)
        lost = group.wanted & (group.owner == NOBODY) & ~twice
        if self.moving or not self.seen.owners_told:
            pass
        elif lost.all() and group.P and not len(group.claims.partition):
            yield Finding("The owners are unknown, so moves cannot be counted.")
        elif lost.any():
            yield from self._unowned(lost)
        fallen = [claim for claim in group.rejected_claims() if not claim[3].startswith("claimed twice")]
        if fallen:
            member, topic, number, why = fallen[0]
            first = f"{group.members[member]}'s on {topic}-{number} ({why})"
            yield Finding(
                f"{count(len(fallen), 'claim contradicts', 'claims contradict')} the rest and cannot stand: {first}"
                + (", ..." if len(fallen) > 1 else ".")
            )

    def _unowned(self, lost: Bools) -> Iterator[Finding]:
        waiting, names = self._total(lost & self.counted), named(self.group, lost)
        if self.traits.leaves:
            left = f"{count(int(lost.sum()), 'partition is', 'partitions are')} left without an owner"
            yield Finding(f"{left}, as {self.seen.assignor} does: {names}.", WARN if waiting else OK)
            return
        if waiting:
            yield Finding(f"{count(waiting, 'message waits', 'messages wait')} in partitions without an owner.", ERR)
        yield Finding(f"{count(int(lost.sum()), 'partition has', 'partitions have')} no owner: {names}.", WARN)

    def _spread(self) -> Iterator[Finding]:
        """Members that could hold more even counts, and topics that one member holds whole."""
        group = self.group
        if not self.even or not group.M or not (group.owner != NOBODY).any():
            return
        held = loads_now(group)
        # What goes by lag or weights evens these out, and counts only as far as its settings bind it.
        grave = WARN if _too_full(group, held) and "lag" not in self.traits.reads else OK
        uneven = [*self._uneven_alike(held), *self._uneven_otherwise(held)]
        yield from (Finding(text, grave) for text in uneven[:1])
        yield from (Finding(text) for text in uneven[1:])
        whole = whole_topics(group)
        if whole and not self.assumed:
            names = some_of([group.topics[topic] for topic in whole])
            verb = "topic is" if len(whole) == 1 else "topics are each"
            yield Finding(f"{len(whole):,} {verb} held wholly by one member, though others want it too: {names}.", WARN)

    def _uneven_alike(self, held: Ints) -> Iterator[str]:
        """Balance is a matter among members that could swap: those with one subscription."""
        group = self.group
        for k in range(len(group.subscriptions)):
            loads = held[group.subscription_of == k]
            if len(group.subscriptions[k]) and len(loads) > 1 and loads.any() and loads.max() - loads.min() > 1:
                low, high = int(loads.sum()) // len(loads), -(-int(loads.sum()) // len(loads))
                even = f"{low}" if low == high else f"{low} or {high}"
                now = f"{loads.min():,} to {loads.max():,} partitions"
                yield f"Uneven: members that want the same topics hold {now} each; even would be {even}."

    def _uneven_otherwise(self, now: Ints) -> Iterator[str]:
        """Members of different wishes, held against the fairest sharing."""
        group = self.group
        uneven = len(group.subscriptions) > 1 and int(now.max()) - int(now.min()) > 1
        could = None if self.assumed or not uneven else _fairest(group)
        if could is not None and (int(now.max()) - could["load_max"] >= 2 or could["load_min"] - int(now.min()) >= 2):
            span = f"{could['load_min']:,} to {could['load_max']:,}"
            moves = count(could["moves"], "move")
            yield f"Uneven: members hold {now.min():,} to {now.max():,} partitions; {span} can be, with {moves}."

    def _plan(self) -> Iterator[Finding]:
        """Of a governed group: the plan decides which owners are right; its sentences name the differences."""
        governed = self.seen.governed
        if governed is not None and governed.differs:
            yield Finding(
                f"{count(len(governed.differs), 'partition is', 'partitions are')} not where its plan puts them.", WARN
            )

    def _lag(self) -> Iterator[Finding]:
        """Where the lag is: facts of this moment. Remedies depend on rates, which ``diagnosing`` knows."""
        group = self.group
        lag = np.where(self.counted & (self.lag > 0), self.lag, 0)
        total = sum(lag.tolist())
        if total <= 0 or not self.seen.owners_told:
            return
        hottest = int(lag.argmax())
        if int(lag[hottest]) / total >= CONCENTRATED and group.P > 2 and int(lag[hottest]) >= LEAST_LOCAL:
            yield Finding(self._local(hottest, total))
        elif group.M > 2 and (group.owner != NOBODY).any() and self.traits.kept_whole != "topics":
            held = lag_now(group)
            m = int(held.argmax())
            if int(held[m]) / total >= CONCENTRATED:
                its = f"{member_label(group, m)}, {int(held[m]):,} of {total:,} messages"
                yield Finding(f"One member carries {percent(int(held[m]) / total)} of the lag: {its}.")
        if self.protocol not in OTHERS and not self.moving and self.traits.kept_whole != "topics":
            yield from self._heavy()

    def _local(self, hottest: int, total: int) -> str:
        """One partition has most of the lag, and its member has more: that much could be elsewhere."""
        group = self.group
        topic, number = group.name_of(hottest)
        its, owner = int(self.lag[hottest]), int(group.owner[hottest])
        unknown = int((self.counted & (self.lag == UNKNOWN)).sum())
        known = (
            f" that are known ({count(unknown, 'partition has', 'partitions have')} an unknown lag)" if unknown else ""
        )
        hot = f"The lag is uneven: {topic}-{number} has {percent(its / total)} of {count(total, 'message')}{known}"
        if owner == NOBODY:
            return f"{hot}."
        besides = int(lag_now(group)[owner]) - its
        more = f"{besides:,} more to read, which others could take" if besides > 0 else "nothing else to read"
        return f"{hot}; its member has {more}."

    def _heavy(self) -> Iterator[Finding]:
        """One member has much more to read than the mean of the others, however small its share of a large lag."""
        group = self.group
        if group.M < 2 or not len(group.claims.partition):
            return
        held = [float(lag) for lag in lag_now(group).tolist()]
        most = max(held)
        mean = (sum(held) - most) / (group.M - 1)
        if most >= HEAVY_LAG and most >= HEAVY * mean:
            name = member_label(group, held.index(most))
            comparison = f"{most / mean:,.1f} times the mean of the others" if mean else "the others have none"
            text = f"One member has {count(int(most), 'message')} to read, {comparison}: {name}."
            yield Finding(text, WARN, ONE_MEMBER)

    def _offsets(self) -> Iterator[Finding]:
        group, o = self.group, self.group.offsets
        if o is None:
            return
        ahead = self.counted & (o.committed > o.end) & (o.end != UNKNOWN)
        if ahead.any():
            yield Finding(
                "Committed beyond the log's end, as after a topic was deleted and created again: "
                f"{named(group, ahead)}.",
                WARN,
            )
        passed = self.counted & (o.committed != UNKNOWN) & (o.begin > o.committed)
        gone = passed & (o.begin - o.committed > MARKERS_MAX)
        if (passed & ~gone).any():
            names = named(group, passed & ~gone)
            yield Finding(f"Retention passed 1 or 2 offsets that may be markers of transactions: {names}.")
        if gone.any():
            lost = sum((o.begin - o.committed)[gone].tolist())
            yield Finding(f"Retention deleted {count(lost, 'message')} unread: {named(group, gone)}.", WARN, EXPIRED)
        never = group.wanted & (o.committed == UNKNOWN) & (o.lag == UNKNOWN) & (o.end != UNKNOWN)
        empty = never & (o.end == np.maximum(o.begin, 0))
        if empty.any():
            yield Finding(f"Never committed, and nothing to read yet: {named(group, empty)}.")
        never &= ~empty
        if never.any():
            reset = f"auto.offset.reset ({group.auto_offset_reset}) decides where reading starts"
            yield Finding(f"Never committed, so that {reset}: {named(group, never)}.")
        unknown = group.wanted & ~group.lag_known
        if unknown.any() and not unknown.all():
            yield Finding(f"Lag unknown: {named(group, unknown)}.")
        if never.any() and not (self.lag != UNKNOWN).any():
            yield Finding("Lag unknown: no partition has a committed offset.")
        orphan = ~group.wanted & (o.committed != UNKNOWN)
        if orphan.any() and group.M:
            yield Finding(f"Committed, but no member subscribes to them any more: {named(group, orphan)}.")

    def _members(self) -> Iterator[Finding]:
        group = self.group
        if not group.M:
            return
        held = loads_now(group)
        idle: Ints = np.flatnonzero(held == 0)
        if len(idle) and held.any() and not self.moving and self.traits.kept_whole != "topics":
            who = ", ".join(member_label(group, m) for m in idle[:3].tolist()) + (", ..." if len(idle) > 3 else "")
            wanted = int(group.wanted.sum())
            spare = f"with {count(wanted, 'partition')} for {count(group.M, 'member')}"
            why = spare if wanted < group.M else "though there are partitions enough"
            yield Finding(f"{count(len(idle), 'member is', 'members are')} idle, {why}: {who}.")
        if len(group.subscriptions) > 1:
            yield Finding(f"Members want different topics: {len(group.subscriptions)} kinds of subscription.")
        missing = [group.topics[t] for t in np.flatnonzero(~group.described & group.wanted_topic).tolist()]
        if missing:
            yield Finding(f"Wanted but not there: {shorten(', '.join(missing), 100)}.")
        far = int(rack_misses(group, group.owner).sum())
        if far:
            yield Finding(f"{count(far, 'partition is', 'partitions are')} read across racks.")


def _nobody(group: Group, kind: str | None, waiting: str) -> str:
    """Of a group without members: a text does not say whether it ever had some, a coordinator does."""
    unread = f", and {waiting}" if waiting else ""
    committed = group.offsets is not None and bool((group.offsets.committed != UNKNOWN).any())
    if committed and kind is None:
        return f"No members{unread}: nobody reads, or the reader commits without joining (Flink, Spark, assign())."
    return f"Nobody reads: the group has no members{unread}."


def _too_full(group: Group, held: Ints) -> bool:
    """Whether one member holds so much more than in the fairest sharing that it warns."""
    if not group.equal_capacities or not group.wanted.any():
        return False
    if len(group.subscriptions) == 1:
        fullest = -(-int(group.wanted.sum()) // group.M)
    else:
        fairest = _fairest(group)
        if fairest is None:
            return False
        fullest = fairest["load_max"]
    return bool(held.max() >= max(fullest + 2, UNEVEN * fullest))


def _fairest(group: Group) -> dict[str, int] | None:
    """The measures of the fairest sharing; None of a group that is too large to plan it for a sentence."""
    if group.M * group.P > EVENED_CELLS_MAX:
        return None
    try:
        return dict(plan(group, DEFAULT_EAGER).measures)
    except ApportionError:
        return None


def whole_topics(group: Group) -> list[int]:
    """Topics of some partitions that one member holds wholly, though others want them too."""
    held = [topic for topic, share in topic_shares(group, group.owner) if share == 1]
    sizes = np.diff(group.start)
    return [topic for topic in held if sizes[topic] >= LEAST_WHOLE and len(group.subscribers(topic)) > 1]


def member_label(group: Group, m: int) -> str:
    """A person's name for a member: its instance id, else its client id if that is unique, else its id."""
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
    """Identity to client id of members, if no two that were there together have the same.

    together
        Of each moment all members, as identity (None of one that needs no other name) and client id.
    """
    names: dict[str, str] = {}
    shared: set[str | None] = set()
    for members in together:
        shared |= {client for client, n in Counter(client for _, client in members).items() if n > 1}
        names |= {identity: client for identity, client in members if identity and client}
    return {identity: client for identity, client in names.items() if client not in shared}


def named(group: Group, chosen: Bools) -> str:
    """Partitions in words, a long list cut."""
    return shorten(partitions_in_words(partitions_to_names(group, chosen)), 120)
