"""Names in, names out: what members said goes to a strategy, and what each is told comes back.

Every client's adapter is a thin coat over ``Bridge``. It does no I/O and waits for nothing: lag comes from a feed
that fetched before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from apportion.arrays import NOBODY, Bools
from apportion.assignors import Assignor, find
from apportion.clients.foreign import OnForeign, policy
from apportion.clients.rebalance import Causes, OnPlan, record
from apportion.clients.user_data import Claim, Holding, UserDataCodec, codec_of
from apportion.errors import BadInput
from apportion.model.build import build
from apportion.model.plan import Plan
from apportion.model.to_names import owners_to_shares
from apportion.planning import plan as make_plan
from apportion.wire.assignment import Assignment
from apportion.wire.partitions import Held, held
from apportion.wire.primitives import utf16
from apportion.wire.subscription import Subscription

log = logging.getLogger("apportion.clients")

Topic = int | list[dict[str, Any]]
"""A topic as group.json has it: a number of partitions, or an entry for each."""


@dataclass(frozen=True, slots=True)
class JoiningMember:
    """One member at the door: who it is and what it subscription."""

    member_id: str
    instance_id: str | None
    subscription: Subscription


class ClusterMetadata(Protocol):
    """What a client knows of topics, in memory."""

    def partitions(self, topic: str) -> Iterable[int] | None:
        """Partition ids; None where the client has no metadata of the topic (yet)."""
        ...

    def racks(self, topic: str) -> Mapping[int, Sequence[str]]:
        """Partition id to the racks that hold a replica."""
        ...


class OffsetFeed(Protocol):
    """A feed of offsets that were fetched before."""

    def table(self, topics: Iterable[str]) -> tuple[Mapping[str, Mapping[int, Mapping[str, int]]], str | None]:
        """Topic to partition id to begin, end, committed or lag; and why something is missing, or None."""
        ...


@dataclass(frozen=True)
class Settings:
    """What one member brings along beside its strategy.

    rack
        Its ``client.rack``; None unknown.
    priority
        For ``failover``: the highest goes first; None comes last.
    auto_offset_reset
        As the consumer has it: what a partition without a commit counts.
    on_foreign
        What to do once the broker assigns by the new protocol; None: as the strategy says.
    """

    rack: str | None = None
    priority: int | None = None
    auto_offset_reset: str = "latest"
    on_plan: OnPlan | None = None
    lag: OffsetFeed | None = None
    on_foreign: OnForeign | None = None


def require_client_side(strategy: Assignor) -> None:
    """Refuse a strategy that the broker alone runs.

    Raises
        BadInput for ``broker-uniform`` and ``broker-range``.
    """
    if getattr(strategy, "server_side", False):
        found = f"{strategy.name!r}, which Kafka's broker alone runs"
        raise BadInput(
            "assignor",
            found,
            f"a strategy that a member runs; for the broker's, set group.protocol=consumer and "
            f"group.remote.assignor={strategy.name.removeprefix('broker-')} in a client that has them, such as "
            "confluent-kafka, and leave apportion out of it",
        )


class Bridge:
    """One member's side of a strategy: what it says, what it plans as leader, what it remembers."""

    def __init__(self, strategy: str | Assignor, settings: Settings, options: Mapping[str, Any] | None = None) -> None:
        self.strategy: Assignor = find(strategy, options) if isinstance(strategy, str) else strategy
        require_client_side(self.strategy)
        self.on_foreign = policy(self.strategy, settings.on_foreign)
        self.settings = settings
        self.cooperative = bool(getattr(self.strategy, "cooperative", False))
        self.memory: UserDataCodec = codec_of(self.strategy)
        self.last = Holding(priority=settings.priority)
        self._causes = Causes()

    @property
    def name(self) -> str:
        """The strategy's name, as the group knows it."""
        return self.strategy.name

    def subscription(self, topics: Iterable[str], *, keeps: bool, holds: Held | None = None) -> Subscription:
        """What this member says when it joins.

        keeps
            Whether the client keeps its partitions meanwhile (cooperative mode).
        holds
            What it holds at this moment, where the client tells; else its last assignment, as far as still wanted.
        """
        wanted = tuple(sorted(topics, key=utf16))
        owned = self.last.owned if holds is None else holds
        if keeps:
            owned = tuple((topic, ids) for topic, ids in owned if topic in wanted)
        holding = Holding(owned, self.last.generation, keeps, self.last.epoch, self.last.priority)
        data = self.memory.user_data(holding)
        return Subscription(wanted, data, owned if keeps else (), holding.generation, self.settings.rack)

    def on_assignment(self, given: Assignment, generation: int | None, group: str | None = None) -> None:
        """Remember what this member was told; one log line."""
        before = {(topic, p) for topic, ids in self.last.owned for p in ids}
        now = {(topic, p) for topic, ids in given.partitions for p in ids}
        epoch = self.memory.told(given.user_data)
        self.last = Holding(given.partitions, generation, self.cooperative, epoch, self.settings.priority)
        log.info(
            "assigned group=%s generation=%s assignor=%s partitions=%d gained=%d lost=%d",
            *(group, generation, self.name, len(now), len(now - before), len(before - now)),
        )

    def assign(
        self, members: Sequence[JoiningMember], cluster: ClusterMetadata, group: str = "", generation: int | None = None
    ) -> dict[str, Assignment]:
        """As leader: every member's share.

        Raises
            BrokenAssignor where a strategy's answer is no plan; never for what another member subscription.
        """
        began = time.perf_counter()
        claims = {member.member_id: self._read(member) for member in members}
        raw = self._group(members, claims, cluster, group)
        plan = make_plan(build(raw, reuse_lists=True), self.strategy)
        held_back = withheld(plan, np.array([claims[m].held for m in plan.group.members], dtype=np.bool_))
        shares = owners_to_shares(plan.group, np.where(held_back, NOBODY, plan.owner))
        data = self.memory.tell(plan)
        told = {member: Assignment(held(share), data) for member, share in shares.items()}
        self._report(plan, int(held_back.sum()), generation, (time.perf_counter() - began) * 1000)
        return told

    def _read(self, member: JoiningMember) -> Claim:
        claim = self.memory.read(member.subscription)
        if claim.lost:
            log.warning("member %s remembers nothing, since its words are unreadable: %s", _who(member), claim.lost)
        return claim

    def _group(
        self, members: Sequence[JoiningMember], claims: Mapping[str, Claim], cluster: ClusterMetadata, group: str
    ) -> dict[str, Any]:
        """The group in the form of group.json."""
        wanted = list({topic: None for member in members for topic in member.subscription.topics})
        racks = any(member.subscription.rack for member in members)
        topics = {topic: _describe(topic, cluster, racks) for topic in wanted}
        known = {topic: what for topic, what in topics.items() if what is not None}
        if len(known) < len(wanted):
            log.info("no metadata yet of %s: they get no owner in this round", sorted(set(wanted) - set(known)))
        if self.settings.lag is not None:
            known = self._with_lag(known)
        return {
            "group": group,
            "auto_offset_reset": self.settings.auto_offset_reset,
            "topics": known,
            "members": {member.member_id: _member(member, claims[member.member_id]) for member in members},
        }

    def _with_lag(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        assert self.settings.lag is not None  # noqa: S101 - asked by the only caller
        table, missing = self.settings.lag.table(topics)
        if missing:
            log.warning("the plan counts partitions where lag is unknown: %s", missing)
        return {topic: _add_offsets(what, table.get(topic, {})) for topic, what in topics.items()}

    def _report(self, plan: Plan, held_back: int, generation: int | None, ms: float) -> None:
        """The log line, warnings on impossible claims, and the user's hook, whose trouble is not the group's."""
        for m, (topic, number) in _nonexistent(plan).items():
            log.warning(
                "member %s claims what does not exist, such as %s-%d; the claim falls",
                *(plan.group.members[m], topic, number),
            )
        rebalance = record(plan, held_back, generation, self._causes.why(plan.group, held_back), ms)
        log.info("%s", rebalance.line(), extra={"apportion": rebalance.to_dict()})
        if self.settings.on_plan is None:
            return
        try:
            self.settings.on_plan(rebalance)
        except Exception:
            log.exception("the on_plan hook failed; the rebalance goes on")


def withheld(plan: Plan, holds: Bools) -> Bools:
    """(P,) partitions that go to nobody this round, because somebody else still holds them (KIP-429).

    holds
        (M,) whether a member still has what it claims. The claims of one that has let go are wishes: they count for
        the strategy, but nobody needs to wait for them.
    """
    group = plan.group
    if not plan.cooperative or not holds.any():
        return np.zeros(group.P, dtype=np.bool_)
    hard = holds[group.claims.member]
    member, partition = group.claims.member[hard], group.claims.partition[hard]
    claimants = np.bincount(partition, minlength=group.P)
    mine = np.bincount(partition[plan.owner[partition] == member], minlength=group.P) > 0
    keeps = mine & (plan.owner == group.owner)
    alone = mine & (claimants == 1)
    back: Bools = (plan.owner != NOBODY) & (claimants > 0) & ~keeps & ~alone
    return back


def rack_sets(racks: Mapping[int, Sequence[str]]) -> list[tuple[str, ...]]:
    """The racks of each partition, by id: what a leader compares to see whether replicas moved to other racks."""
    return [tuple(sorted(set(racks[p]))) for p in sorted(racks)]


def _who(member: JoiningMember) -> str:
    return f"{member.member_id} (instance {member.instance_id})" if member.instance_id else member.member_id


def _member(member: JoiningMember, claim: Claim) -> dict[str, Any]:
    return {
        "instance_id": member.instance_id or None,
        "rack": member.subscription.rack,
        "topics": member.subscription.topics,
        "owned": claim.owned,
        "generation": claim.generation,
        "priority": claim.priority,
    }


def _describe(topic: str, cluster: ClusterMetadata, racks: bool) -> Topic | None:
    """The topic's number of partitions, or an entry for each; None where it is not known."""
    ids = cluster.partitions(topic)
    if ids is None:
        return None
    numbers = sorted(ids)
    if racks:
        where = cluster.racks(topic)
        return [{"partition": p, "racks": list(where.get(p, ()))} for p in numbers]
    if numbers and numbers[-1] == len(numbers) - 1:
        return len(numbers)
    return [{"partition": p} for p in numbers]


def _add_offsets(what: Topic, offsets: Mapping[int, Mapping[str, int]]) -> Topic:
    if not offsets:
        return what
    entries = [{"partition": p} for p in range(what)] if isinstance(what, int) else what
    return [{**entry, **offsets.get(entry["partition"], {})} for entry in entries]


def _nonexistent(plan: Plan) -> dict[int, tuple[str, int]]:
    """Member to the first partition that it claims and that does not exist."""
    first: dict[int, tuple[str, int]] = {}
    for m, topic, number in plan.group.claims.nonexistent:
        first.setdefault(m, (topic, number))
    return first
