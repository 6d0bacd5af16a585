"""A consumer group as flat arrays: topics, members, who wants what, past owners, lag, racks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeVar, overload

import numpy as np

from apportion.arrays import CELLS, NOBODY, UNKNOWN, Bools, Floats, Ints, Longs
from apportion.model.claims import STALE, JudgedClaims, judge
from apportion.model.facts import MEMBER_FIELDS, UNSET, Fact
from apportion.model.lag import lag_of

Value = TypeVar("Value")
WEIGHT_MAX: Final = 2**53
"""The largest weight of a partition: up to here floats hold every whole number."""


class NonexistentClaims(Sequence[tuple[int, str, int]]):
    """Claims on unknown partitions: (member, topic name, partition id), ascending, each once.

    They are other people's word, millions of them if a member likes, so they stay arrays until somebody looks.

    member, topic, number
        (N,) as claimed, in any order; a topic by its place among ``topics``.
    """

    def __init__(self, member: Ints, topic: Ints, number: Ints, topics: Sequence[str]) -> None:
        ordered = sorted(range(len(topics)), key=topics.__getitem__)
        self.topics = [topics[t] for t in ordered]
        rank = np.empty(len(topics), dtype=np.int64)
        rank[ordered] = np.arange(len(topics))
        order = np.lexsort((number, rank[topic], member))
        columns = [column[order] for column in (member, rank[topic], number)]
        fresh = np.ones(len(order), dtype=np.bool_)
        fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        self.member, self.topic, self.number = (column[fresh] for column in columns)

    def __len__(self) -> int:
        return len(self.member)

    @overload
    def __getitem__(self, at: int) -> tuple[int, str, int]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[tuple[int, str, int]]: ...
    def __getitem__(self, at: int | slice) -> tuple[int, str, int] | Sequence[tuple[int, str, int]]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        return int(self.member[at]), self.topics[int(self.topic[at])], int(self.number[at])

    def first_of_members(self) -> list[tuple[int, str, int]]:
        """The first claim of each member that has any."""
        return [self[n] for n in np.unique(self.member, return_index=True)[1].tolist()]


_NOBODYS: Final = np.empty(0, dtype=np.int64)
NONE_NONEXISTENT: Final = NonexistentClaims(_NOBODYS, _NOBODYS, _NOBODYS, ())


@dataclass(frozen=True, eq=False)
class Claims:
    """The members' partitions after the last rebalance that they saw, by their own words.

    member, partition
        (C,) a member and a partition that exists; no pair stands twice.
    nonexistent
        Claims on what does not exist: (member, topic name, partition id).
    """

    member: Ints
    partition: Ints
    nonexistent: NonexistentClaims = NONE_NONEXISTENT


NO_CLAIMS: Final = Claims(_NOBODYS, _NOBODYS)


@dataclass(frozen=True, eq=False)
class Offsets:
    """The facts known about each partition's log; -1 is unknown, for ``committed`` never committed.

    begin, end, committed, lag
        (P,) in messages; a given ``lag`` wins over the three offsets.
    """

    begin: Longs
    end: Longs
    committed: Longs
    lag: Longs


@dataclass(frozen=True, eq=False)
class Racks:
    """The racks of members and replicas.

    names
        (R,) every rack that anybody names, ascending.
    of_member
        (M,) rack of each member; -1 unknown.
    set_of
        (P,) which of ``sets`` holds the partition's replicas; -1 unknown.
    sets
        (S,) distinct sets of racks, each ascending and not empty.
    """

    names: tuple[str, ...]
    of_member: Ints
    set_of: Ints
    sets: tuple[tuple[int, ...], ...]

    @cached_property
    def near(self) -> Bools:
        """(R, S) whether rack r holds a replica of the partitions with set s."""
        near = np.zeros((len(self.names), len(self.sets)), dtype=np.bool_)
        for s, racks in enumerate(self.sets):
            near[list(racks), s] = True
        return near

    @cached_property
    def known(self) -> bool:
        """Whether some member's and some partition's racks are known."""
        return bool((self.of_member != UNKNOWN).any() and (self.set_of != UNKNOWN).any())


@dataclass(frozen=True, eq=False)
class MemberState:
    """The members' words about their state and their partitions, (M,) each: for strategies that move tasks.

    tags
        Client tags by name (KIP-708).
    standby
        Topic to the partitions of which the member keeps a copy of the state.
    recovery_lag
        (topic, partition) to the messages that its state lacks there; a copy without an entry lacks none.
    """

    tags: tuple[Mapping[str, str], ...]
    standby: tuple[Mapping[str, Sequence[int]], ...]
    recovery_lag: tuple[Mapping[tuple[str, int], int], ...]

    def of(self, order: Sequence[int]) -> MemberState:
        """The state of these members, in this order; of a number that is no member's nothing is known."""
        known = range(len(self.tags))
        return MemberState(
            tuple([self.tags[m] if m in known else {} for m in order]),
            tuple([self.standby[m] if m in known else {} for m in order]),
            tuple([self.recovery_lag[m] if m in known else {} for m in order]),
        )


class of_offsets(cached_property[Value]):  # noqa: N801 - read as the decorator that it is
    """A value that follows from the offsets too: a group with other offsets computes it again."""


class of_claims(cached_property[Value]):  # noqa: N801
    """A value that follows from claims and generations too: a group with another past computes it again."""


@dataclass(frozen=True, eq=False)
class Group:
    """One consumer group: the whole input of an assignor.

    topics
        (T,) names, ascending as Java compares strings.
    start
        (T + 1,) the partitions of topic t are ``start[t]:start[t + 1]``, by ascending id.
    number
        (P,) each partition's id as the broker gave it; gaps are allowed.
    described
        (T,) False for a topic that a member wants and nobody described: it has no partitions.
    members, instance_ids
        (M,) member ids in member order: static ones by instance id, then dynamic ones by member id.
    subscriptions, subscription_of
        (K,) distinct sets of topics, each ascending; (M,) which of them a member has.
    generation
        (M,) of the last rebalance that the member saw; -1 none.
    facts
        Fact to (M,) numbers of the members; ``UNSET`` where a member does not say and nobody asked yet: a strategy sees
        its own default there, see ``with_facts``. ``priority`` and ``capacity`` are always there.
    weight
        (P,) work that each partition brings in a second, NaN where unknown; None where no weight is known.
    topic_ids
        Topic to id, as Kafka prints it; topics whose id is unknown are not there.
    state
        Tags, copies and how far they are restored; None where no member tells any.
    """

    name: str
    topics: tuple[str, ...]
    start: Ints
    number: Ints
    described: Bools
    members: tuple[str, ...]
    instance_ids: tuple[str | None, ...]
    subscriptions: tuple[Ints, ...]
    subscription_of: Ints
    generation: Ints
    claims: Claims
    facts: Mapping[str, Ints]
    offsets: Offsets | None = None
    racks: Racks | None = None
    auto_offset_reset: str = "latest"
    client_ids: tuple[str | None, ...] = ()
    hosts: tuple[str | None, ...] = ()
    weight: Floats | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    state: MemberState | None = None

    def __repr__(self) -> str:
        return f"Group({self.name!r}, topics={self.T}, partitions={self.P}, members={self.M})"

    @property
    def priority(self) -> Ints:
        """(M,) for failover, highest first; ``UNSET``, lowest of all, if a member has none."""
        return self.facts["priority"]

    @property
    def capacity(self) -> Ints:
        """(M,) how much each member can take compared with the others, from 1 to ``CAPACITY_MAX``."""
        return self.facts["capacity"]

    def with_facts(self, wanted_facts: Mapping[str, Fact]) -> Group:
        """The group as a strategy sees it that asks for these facts: its defaults count if members do not say.

        Raises
            BadInput for a number out of the strategy's bounds, naming its place.
        """
        if wanted_facts.keys() <= MEMBER_FIELDS.keys():
            return self
        facts = dict(self.facts)
        for name in wanted_facts.keys() - MEMBER_FIELDS.keys():
            values = facts.get(name, np.full(self.M, UNSET))
            for m in np.flatnonzero((values != UNSET) & (wanted_facts[name].within(values) != values)).tolist():
                wanted_facts[name].check(f"members.{self.members[m]}.facts.{name}", int(values[m]))
            facts[name] = wanted_facts[name].within(values)
        return replace(self, facts=facts)

    def with_offsets(self, offsets: Offsets) -> Group:
        """The same group with other offsets; values that depend on members and partitions alone are kept."""
        return self._changed(of_offsets, offsets=offsets)

    def with_claims(self, claims: Claims, generation: Ints) -> Group:
        """The same group with another past, and its generations (M,); values that do not depend on it are kept."""
        return self._changed(of_claims, claims=claims, generation=generation)

    def holding(self, owner: Ints) -> Group:
        """The same group whose members hold, since the next generation, the partitions of ``owner`` (P,)."""
        held = np.flatnonzero(owner != NOBODY)
        return self.with_claims(Claims(owner[held], held), np.full(self.M, int(self.generation.max()) + 1))

    def with_state(self, state: MemberState | None) -> Group:
        """The same group whose members report this about their state; no computed value depends on it."""
        return self._changed((), state=state)

    def _changed(self, stale: type | tuple[()], **fields: object) -> Group:
        """The group with other fields, and all that was worked out from the others kept."""
        fresh, of = object.__new__(type(self)), vars(type(self))
        fields_kept = {name: value for name, value in vars(self).items() if not isinstance(of.get(name), stale)}
        vars(fresh).update(fields_kept, **fields)
        return fresh

    def without_past(self) -> Group:
        """The same group as if it started from the beginning."""
        return self.with_claims(NO_CLAIMS, np.full(self.M, UNKNOWN))

    # The letters are the names here: see apportion.arrays.
    @cached_property
    def P(self) -> int:
        """How many partitions."""
        return len(self.number)

    @cached_property
    def T(self) -> int:
        """How many topics."""
        return len(self.topics)

    @cached_property
    def M(self) -> int:
        """How many members."""
        return len(self.members)

    @cached_property
    def has_capacities(self) -> bool:
        """Whether some member's capacity is not 1."""
        return bool((self.capacity != 1).any())

    @cached_property
    def equal_capacities(self) -> bool:
        """Whether all members have the same capacity."""
        return bool((self.capacity == self.capacity[:1]).all())

    @property
    def knows_racks(self) -> bool:
        """Whether some member's and some partition's racks are known."""
        return self.racks is not None and self.racks.known

    @cached_property
    def topic_of(self) -> Ints:
        """(P,) the topic of each partition."""
        return np.arange(self.T).repeat(self.start[1:] - self.start[:-1])

    @cached_property
    def wanted_topic(self) -> Bools:
        """(T,) whether some member subscribes to the topic."""
        wanted = np.zeros(self.T, dtype=np.bool_)
        for topics in self.subscriptions:
            wanted[topics] = True
        return wanted

    @cached_property
    def assignable_topics(self) -> list[int]:
        """The topics that some member subscribes to and that have partitions."""
        topics: list[int] = (self.wanted_topic & (self.start[1:] > self.start[:-1])).nonzero()[0].tolist()
        return topics

    @cached_property
    def all_wanted(self) -> bool:
        """Whether some member subscribes to each topic."""
        return bool(self.wanted_topic.all())

    @cached_property
    def wanted(self) -> Bools:
        """(P,) whether some member subscribes to the partition's topic."""
        if self.all_wanted:
            return np.ones(self.P, dtype=np.bool_)
        return self.wanted_topic.repeat(self.start[1:] - self.start[:-1])

    @cached_property
    def wants(self) -> Bools:
        """(K, T) whether subscription k has topic t; use ``may_own`` if K x T passes ``CELLS``."""
        if len(self.subscriptions) * self.T > CELLS:
            raise MemoryError(f"{len(self.subscriptions)} subscriptions x {self.T} topics are too many for one matrix")
        wants = np.zeros((len(self.subscriptions), self.T), dtype=np.bool_)
        for k, topics in enumerate(self.subscriptions):
            wants[k, topics] = True
        return wants

    @cached_property
    def _wish_keys(self) -> Ints:
        """Ascending keys k * T + t of all wishes, for groups too wide for ``wants``."""
        return np.concatenate([k * self.T + topics for k, topics in enumerate(self.subscriptions)])

    def may_own(self, member: Ints, partition: Ints) -> Bools:
        """Whether each member subscribes to the topic of the partition in the same row."""
        if len(self.subscriptions) == 1 and self.all_wanted:
            return np.ones(len(partition), dtype=np.bool_)
        return self._wishes(member, self.topic_of[partition])

    def _wishes(self, member: Ints, topic: Ints) -> Bools:
        """Whether each member subscribes to the topic in the same row."""
        k, t = self.subscription_of[member], topic
        if len(self.subscriptions) * self.T <= CELLS:
            return self.wants.ravel().take(k * self.T + t)
        if not len(self._wish_keys):
            return np.zeros(len(topic), dtype=np.bool_)
        at = np.searchsorted(self._wish_keys, k * self.T + t)
        wished: Bools = self._wish_keys[np.minimum(at, len(self._wish_keys) - 1)] == k * self.T + t
        return wished

    @of_claims
    def verdict(self) -> JudgedClaims:
        """Which claims are valid, and why the others fell."""
        return judge(self.claims.member, self.claims.partition, self.generation, self.P, self.may_own)

    @property
    def owner(self) -> Ints:
        """(P,) who owned each partition before, by a valid claim; -1 for none."""
        return self.verdict.owner

    @of_claims
    def home(self) -> Ints:
        """(P,) where the partition's state may still lie: the member with the newest claim that fell as stale.

        Of members that still want the topic; of claims of one generation the first in member order counts; -1 nobody.
        """
        home = np.full(self.P, NOBODY)
        if not len(self.verdict.newest):  # no claim is contested, so none is stale
            return home
        stale = (self.verdict.code == STALE).nonzero()[0]
        if len(stale):
            stale = stale[self.may_own(self.claims.member[stale], self.claims.partition[stale])]
            member, partition = self.claims.member[stale], self.claims.partition[stale]
            oldest_first = np.lexsort((-member, self.generation[member]))
            home[partition[oldest_first]] = member[oldest_first]  # the last one written counts
        return home

    @of_claims
    def tells_home(self) -> bool:
        """Whether some stale claim shows where a partition may come home."""
        # Claims are judged only where there are some: without any a plan takes microseconds.
        return bool(len(self.claims.member) and len(self.verdict.newest) and (self.home != NOBODY).any())

    @of_offsets
    def lag(self) -> Longs:
        """(P,) messages that the group still has to read; 0 if nothing is known."""
        if self.offsets is None:
            return np.zeros(self.P, dtype=np.int64)
        o = self.offsets
        return np.where(o.lag != UNKNOWN, o.lag, lag_of(o.begin, o.end, o.committed, self.auto_offset_reset))

    @of_offsets
    def lag_floats(self) -> Floats | None:
        """(P,) ``lag`` as floats, which add up exactly; None if their sum may pass 2**53."""
        small = not self.P or int(self.lag.max()) < 2**53 // self.P
        return self.lag.astype(np.float64) if small else None

    @of_offsets
    def lag_known(self) -> Bools:
        """(P,) whether the lag is given or can be computed."""
        if self.offsets is None:
            return np.zeros(self.P, dtype=np.bool_)
        known: Bools = (self.offsets.lag != UNKNOWN) | (self.offsets.end != UNKNOWN)
        return known

    @of_offsets
    def shows_lag(self) -> bool:
        """Whether the lag of some wanted partition is known."""
        return self.offsets is not None and bool((self.lag_known & self.wanted).any())

    @of_claims
    def claimed_by(self) -> Ints:
        """(P,) who claims each partition, rightly or not: -1 none, -2 several members, else the one."""
        if self.verdict.undisputed:
            return self.owner
        claimed = np.full(self.P, NOBODY)
        claimed[self.claims.partition] = self.claims.member
        claimed[np.bincount(self.claims.partition, minlength=self.P) > 1] = -2
        return claimed

    def subscribers(self, topic: int) -> Ints:
        """Members that subscribe to the topic, in member order."""
        if len(self.subscriptions) == 1:
            return np.arange(self.M) if self.wanted_topic[topic] else np.empty(0, dtype=np.int64)
        first, of_topic = self._subscriptions_with
        has = np.zeros(len(self.subscriptions), dtype=np.bool_)
        has[of_topic[first[topic] : first[topic + 1]]] = True
        return has[self.subscription_of].nonzero()[0]

    @cached_property
    def _subscriptions_with(self) -> tuple[Ints, Ints]:
        """Subscriptions that have topic t: entries ``first[t]:first[t + 1]`` of the second array."""
        k = np.arange(len(self.subscriptions)).repeat([len(topics) for topics in self.subscriptions])
        t = np.concatenate(self.subscriptions)
        return np.searchsorted(np.sort(t), np.arange(self.T + 1)), k[np.argsort(t, kind="stable")]

    def partitions(self, topic: int) -> slice:
        """The topic's place in every (P,) array."""
        return slice(int(self.start[topic]), int(self.start[topic + 1]))

    def name_of(self, partition: int) -> tuple[str, int]:
        """The partition as Kafka calls it: topic name and id."""
        return self.topics[int(self.topic_of[partition])], int(self.number[partition])

    def same_partitions(self, other: Group) -> bool:
        """Whether the other group has the same topics, with the same partitions."""
        same = np.array_equal(self.start, other.start) and np.array_equal(self.number, other.number)
        return self.topics == other.topics and same

    def rejected_claims(self) -> Iterator[tuple[int, str, int, str]]:
        """Every claim that fell: (member, topic, partition id, why), by topic, partition, member."""
        rows = [(topic, number, member, "no such partition") for member, topic, number in self.claims.nonexistent]
        for claim, why in self.verdict.reasons(self.claims.member, self.claims.partition, self.generation):
            topic, number = self.name_of(int(self.claims.partition[claim]))
            rows.append((topic, number, int(self.claims.member[claim]), why))
        rows.sort(key=lambda row: (java_order(row[0]), row[1], row[2]))
        return ((member, topic, number, why) for topic, number, member, why in rows)


def java_order(name: str) -> bytes:
    """A sort key that orders names as Java does, by UTF-16 units.

    It differs from Python's order only beyond U+FFFF: there Java sees a surrogate, which sorts before U+E000.
    """
    return name.encode("utf-16-be", "surrogatepass")
