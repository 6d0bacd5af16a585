"""Bytes in, bytes out: members' bytes go to a strategy, and each member's answer comes back.

Every client's adapter is a thin coat over ``Bridge``. It does no I/O and waits for nothing: lag comes from a feed
that fetched before. This is what goes over the wire, and when:

| when | from | to | in | what |
|---|---|---|---|---|
| each join | member | leader | subscription: topics | what it wants |
| each join | member | leader | subscription: owned partitions, generation (version 2) | what it still holds |
| each join | member | leader | subscription: rack (version 3) | where it stands |
| each join | member | leader | subscription: user data | what its strategy remembers, its wishes, its facts |
| all have joined | leader | member | assignment: partitions | what it has now, but not what others hold |
| all have joined | leader | member | assignment: user data | of few: an epoch, tasks, what it will get (`warm_up`) |
| all have joined, some must let go | leader | member | assignment: behind user data | that a second round follows |
| an assignment that took some away | member | group | the next join | that it has let go (cooperative, KIP-429) |
| any assignment | member | itself | memory | partitions, generation and epoch, for its next join |
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, Self

import numpy as np

from apportion.acting.loop import with_free_counts
from apportion.acting.rule import Acting
from apportion.arrays import NOBODY, Bools, Ints
from apportion.assignors import Assignor, find
from apportion.clients.group.acting import LagWatch, PinnedPlan, SampledFeed
from apportion.clients.group.broker_takeover import policy
from apportion.clients.group.joined_group import JoinedGroup, Memories
from apportion.clients.group.member_facts import FactSource, MemberFacts
from apportion.clients.group.options import OffsetFeed, Options
from apportion.clients.group.topic_metadata import ClientMetadata, Topic, describe_topics
from apportion.clients.group.warm_up import FACT, WARM_UP, WarmUp, Work, stays_until_warm, tell
from apportion.clients.rebalance import Causes, LeadersView, OnPlan, PlannedRebalance, line_of, record
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.errors import BadInput
from apportion.model.build import MemberColumns, build_columns
from apportion.model.group import Group
from apportion.model.plan import Plan, hand_over
from apportion.model.to_names import by_owner, collector_paused
from apportion.planning import plan as make_plan
from apportion.strategy.codec import Holding, UserDataCodec, with_facts
from apportion.strategy.settings import changed_settings
from apportion.strategy.traits import OnForeign, traits_of
from apportion.wire.assignment import Assignment
from apportion.wire.assignment_columns import write_assignments
from apportion.wire.partitions import Held
from apportion.wire.primitives import utf16
from apportion.wire.subscription import Subscription

log = logging.getLogger("apportion.clients")

AGAIN: Final = b"again\0\0\1"
"""Behind an assignment's user data: a second round follows, so join it at once instead of at the next heartbeat."""


def require_client_side(strategy: Assignor) -> None:
    """Refuse a strategy that the broker alone runs.

    Raises
        BadInput for ``broker-uniform`` and ``broker-range``.
    """
    if traits_of(strategy).server_side:
        refused = f"{strategy.name!r}, which Kafka's broker alone runs"
        raise BadInput(
            "assignor",
            refused,
            f"a strategy that a member runs; for the broker's, set group.protocol=consumer and "
            f"group.remote.assignor={strategy.name.removeprefix('broker-')} in a client that has them, such as "
            "confluent-kafka, and leave apportion out of it",
        )


class Bridge:
    """One member's side of a strategy: its subscription, its plan as leader, its memory."""

    def __init__(self, strategy: str | Assignor, options: Options, settings: Mapping[str, Any] | None = None) -> None:
        self.strategy: Assignor = find(strategy, settings) if isinstance(strategy, str) else strategy
        require_client_side(self.strategy)
        self.on_foreign = policy(self.strategy, options.on_foreign)
        self.options, self._settings = options, settings
        self.traits = traits_of(self.strategy)
        self.kept_whole: str = self.traits.kept_whole
        self.cooperative, self.reads_on = self.traits.cooperative, True
        self.memory: UserDataCodec = self.traits.codec
        self.facts = MemberFacts(self.name, self.traits.facts, {**options.fields, **options.facts})
        self.last = Holding()
        self.watch: LagWatch | None = None
        if options.acting is not None:
            assert isinstance(options.lag, SampledFeed)  # noqa: S101 - ``Options`` has asked
            free = self.strategy if "max_skew" in (settings or {}) else with_free_counts(self.strategy)
            self.watch = LagWatch(options.acting, options.lag, self.strategy, free, learned=options.learns)
        self.warm_up = None if options.warm_up is None else WarmUp(options.warm_up, options.warm_up_s)
        if self.warm_up is not None and not self.can_warm_up:
            raise BadInput("warm_up", f"it under {self.name!r}", f"a cooperative strategy, such as {DEFAULT_ASSIGNOR}")
        self._hand_over: PinnedPlan | None = None
        self._causes = Causes()
        self._joined_again = False

    def copy(self) -> Self:
        """The same for another consumer, without the memory of this one."""
        return type(self)(self.strategy, self.options, self._settings)

    @property
    def name(self) -> str:
        """The strategy's name, as the group knows it."""
        return self.strategy.name

    @property
    def can_warm_up(self) -> bool:
        """Whether a leader can announce a member's partitions: they stay meanwhile, and user data is free."""
        return self.cooperative and self._data_is_free

    @property
    def _data_is_free(self) -> bool:
        return type(self.memory).assignment_data is UserDataCodec.assignment_data

    def subscription(self, topics: Iterable[str], *, keeps: bool, holds: Held | None = None) -> Subscription:
        """This member's subscription when it joins.

        keeps
            Whether the client keeps its partitions meanwhile (cooperative mode).
        holds
            What it holds at this moment, where the client tells; else its last assignment, as far as still wanted.
        """
        wanted = tuple(sorted(topics, key=utf16))
        owned = self.last.owned if holds is None else holds
        if keeps:
            still = set(wanted)
            owned = tuple((topic, ids) for topic, ids in owned if topic in still)
        facts = self.facts.now()
        holding = Holding(owned, self.last.generation, keeps, self.last.epoch, facts)
        user_data = self.memory.user_data(holding)
        if self.warm_up is None:
            user_data = with_facts(self.memory, user_data, facts, self.traits.facts)
        else:
            more = {**facts, FACT: self.warm_up.fact()}
            user_data = with_facts(self.memory, user_data, more, {**self.traits.facts, FACT: WARM_UP})
        return Subscription(wanted, user_data, owned if keeps else (), holding.generation, self.options.rack)

    def on_assignment(self, given: Assignment, generation: int | None, group: str | None = None) -> bool:
        """Remember this member's assignment, with one log line; whether it joins again at once.

        It does so once in a row: a member that never lets go of what it claims would keep the group joining for ever.
        """
        follows = given.user_data is not None and given.user_data.endswith(AGAIN)
        if follows:
            given = replace(given, user_data=(given.user_data or b"").removesuffix(AGAIN) or None)
        again = follows and not self._joined_again
        self._joined_again = again
        before = {(topic, p) for topic, ids in self.last.owned for p in ids}
        now = {(topic, p) for topic, ids in given.partitions for p in ids}
        epoch = self.memory.epoch(given.user_data)
        if self.watch is not None:
            self.watch.assigned(group)
        if self.warm_up is not None:
            self.warm_up.assigned(given)
        self.last = Holding(given.partitions, generation, self.cooperative, epoch)
        gained, lost = len(now - before), len(before - now)
        values = {"group": group, "generation": generation, "assignor": self.name, "partitions": len(now)}
        log.info("%s", line_of("assigned", {**values, "gained": gained, "lost": lost}))
        return again

    def lead(
        self,
        joined: JoinedGroup,
        cluster: ClientMetadata,
        group: str = "",
        generation: int | None = None,
        began: float | None = None,
    ) -> dict[str, bytes]:
        """As leader: the bytes of every member's assignment.

        began
            ``time.perf_counter()`` at which the call began, as far as the time that the log tells counts from there.
        Raises
            BrokenAssignor where a strategy's answer is no plan; never for what another member sent.
        """
        began = time.perf_counter() if began is None else began
        with collector_paused():
            memories = joined.memories(self.memory, cooperative=self.cooperative)
            planned_group, order = self._group(joined, memories, cluster, group)
            plan, cause = self._plan(planned_group)
            # An eager member keeps what it has only if it hands over, and then it wants nothing.
            holds = (memories.held if self.cooperative else joined.hand_over())[order]
            held_back = hand_over(planned_group, plan.owner, holds, plan.answer.together)
            owner, user_data, of_member = self._in_this_round(plan, held_back, joined, order)
            written = _write_answers(planned_group, owner, user_data)
            written = [tell(answer, of_member[m]) if m in of_member else answer for m, answer in enumerate(written)]
            answers = dict(zip(planned_group.members, written, strict=True))
        self._report(plan, owner, held_back, generation, (time.perf_counter() - began) * 1000, cause)
        if self.watch is not None:
            self.watch.led(planned_group, owner)
        return answers

    def _in_this_round(
        self, plan: Plan, held_back: Bools, joined: JoinedGroup, order: Ints
    ) -> tuple[Ints, bytes | None, dict[int, bytes]]:
        """(P,) who owns in this round, the user data of all answers, and those of single members, by their index.

        held_back
            (P,) what of the target somebody else holds.
        order
            (M,) where among ``joined`` each member is.
        """
        owner = np.where(held_back, NOBODY, plan.owner) if held_back.any() else plan.owner
        user_data, warm_data, follows = self.memory.assignment_data(plan), dict[int, bytes](), b""
        if held_back.any() and self._data_is_free:
            stays, warm_data = stays_until_warm(plan.group, plan.owner, held_back, joined, order)
            owner = np.where(stays, plan.group.owner, owner)
            follows = AGAIN if (held_back & ~stays).any() else b""
        return owner, (user_data or b"") + follows or None, {m: data + follows for m, data in warm_data.items()}

    def _columns(self, joined: JoinedGroup, memories: Memories, group: str) -> MemberColumns:
        """The members with the facts that the strategy asks for."""
        return joined.columns(memories, self.traits.facts)

    def _plan(self, group: Group) -> tuple[Plan, str]:
        """The plan, and why the loop asked for it; "" if it did not.

        What was asked for is given as it was planned then, and so is the second round of a hand-over by lag: the lag
        is another one by now. Any other rebalance is planned anew.
        """
        watched = None if self.watch is None else self.watch.take_plan(group)
        watched, self._hand_over = watched or self._hand_over, None
        if watched is not None and watched.fits(group):
            plan = Plan(group, self.name, changed_settings(self.strategy), watched.answer, self.cooperative)
        else:
            watched = None
            plan = make_plan(*((group, self.strategy) if self.watch is None else self.watch.prepared(group)))
        if self.options.lag is not None and self.cooperative and not plan.answer.extra and plan.withheld.any():
            self._hand_over = PinnedPlan(group, plan.answer)
        return plan, "" if watched is None else watched.why

    def _group(
        self, joined: JoinedGroup, memories: Memories, cluster: ClientMetadata, group: str
    ) -> tuple[Group, Ints]:
        """The group, and the place among ``joined`` of each of its members."""
        wanted = joined.topics
        described, replicas = describe_topics(cluster, wanted, racks=any(joined.subscriptions.rack))
        if len(described) < len(wanted):
            missing = sorted(set(wanted) - set(described))
            log.info("no metadata yet of %s: they get no owner in this round", missing)
        columns, reset = self._columns(joined, memories, group), self.options.auto_offset_reset
        if self.options.lag is not None:
            try:
                return build_columns(group, columns, self._with_lag(described), replicas, reset)
            except Exception:  # a feed, or a function that fetches, is its user's code: no rebalance may fail for it
                log.exception("the plan counts partitions, since the offsets of the lag feed cannot be used")
        elif "lag" in self.traits.reads:
            log.warning("the plan counts partitions: %s was given no lag, as by assignor(..., lag=feed)", self.name)
        return build_columns(group, columns, described, replicas, reset)

    def _with_lag(self, topics: Mapping[str, Topic]) -> dict[str, Topic]:
        assert self.options.lag is not None  # noqa: S101 - asked by the only caller
        table, missing = self.options.lag.table(topics)
        if missing:
            log.warning("the plan counts partitions, since lag is unknown: %s", missing)
        return {topic: _add_offsets(description, table.get(topic, {})) for topic, description in topics.items()}

    def _report(
        self, plan: Plan, owner: Ints, held_back: Bools, generation: int | None, ms: float, cause: str = ""
    ) -> None:
        """The log line, warnings on impossible claims, and the user's hook, whose trouble is not the group's."""
        for m, topic, number in plan.group.claims.nonexistent.first_of_members():
            if not len(plan.group.subscriptions[int(plan.group.subscription_of[m])]):
                continue  # it hands over, and nobody else wants the topic
            log.warning(
                "member %r claims what does not exist, such as %s-%d; the claim falls",
                *(plan.group.members[m], topic, number),
            )
        seen = LeadersView.of(plan.group, bool(held_back.any()))
        if self.options.on_plan is None and not log.isEnabledFor(logging.INFO):
            self._causes.remember(seen)
            return
        why = self._causes.why(seen)
        rebalance = record(plan, owner, held_back, generation, cause or why, ms, "lag" if cause else "group")
        if log.isEnabledFor(logging.INFO):
            _log(rebalance)
        if self.options.on_plan is None:
            return
        try:
            self.options.on_plan(rebalance)
        except Exception:
            log.exception("the on_plan hook failed; the rebalance goes on")


def bridge_for(
    strategy: str | Assignor | None = None,
    *,
    rack: str | None = None,
    priority: int | None = None,
    auto_offset_reset: str = "latest",
    on_plan: OnPlan | None = None,
    lag: OffsetFeed | None = None,
    on_foreign: OnForeign | None = None,
    capacity: int | Literal["learned"] | None = None,
    facts: Mapping[str, FactSource] | None = None,
    acting: Acting | None = None,
    drain_s: float | None = None,
    warm_up: Work | None = None,
    warm_up_s: float = 300.0,
    **settings: Any,
) -> Bridge:
    """A strategy for ``partition_assignment_strategy``, one for each consumer.

    strategy
        A known name, with ``settings`` as its settings, or a strategy of your own. Without one ``cooperative-sticky``
        in kafka-python, and ``sticky`` in aiokafka, which gives all partitions up at each join.
    rack
        This member's rack: the client's own ``client_rack`` does not reach the group.
    priority
        For ``failover``; the highest goes first.
    on_plan
        Called with a ``PlannedRebalance`` after each that this member leads, on kafka-python's IO thread, or in the
        thread that planned (aiokafka): be quick.
    lag
        A ``LagFeed``, for strategies that look at lag.
    on_foreign
        What to do once the broker assigns by the new protocol (``group.protocol=consumer``): ``stop`` gives all back
        and raises from ``poll``, ``log`` and ``continue`` read on, with a warning or without. The strategy's own choice
        where None: ``stop`` for ``failover``, ``sticky-stream-join`` and ``streams``, ``log`` for the others.
    capacity
        How much this member can take beside the others, 1 to 1,000,000, for ``sticky``, ``cooperative-sticky`` and
        ``lag-aware``. It travels behind what Java members read; a Java leader counts every member as 1. Without a
        number a group that acts learns its members' speeds from their commits, and in others each counts 1.
    facts
        What a strategy of your own asks for by name: a number, or a function without arguments that is asked at each
        join, on the client's thread. Where it raises, or answers out of bounds, the log says so, and the default is
        sent.
    acting
        When the leader asks for a rebalance by itself, since a member cannot catch up; it needs ``lag``. Counts may be
        uneven then, unless ``max_skew`` is given. The leader's rule counts.
    drain_s
        The application calls ``apportion.clients.done`` for finished records, in kafka-python or ``GroupConsumer``:
        only these are committed, and a partition that goes waits so many seconds for its open ones.
    warm_up
        Called with (topic, partition) pairs that this member will get, while their owner still reads them, in a thread
        of its own; once it returns they are handed over, and after ``warm_up_s`` in any case. For cooperative
        strategies in kafka-python; ``GroupConsumer`` has its own.
    Raises
        UnknownName, BadInput for names and settings that do not exist.
    """
    told = (rack, priority, auto_offset_reset, on_plan, lag, on_foreign, capacity, facts or {}, acting, drain_s)
    options = Options(*told, warm_up, warm_up_s)
    return Bridge(DEFAULT_ASSIGNOR if strategy is None else strategy, options, settings)


def _log(rebalance: PlannedRebalance) -> None:
    """One line, and its values for handlers that know them."""
    values = rebalance.to_dict()
    log.info("%s", line_of("rebalance", values), extra={"apportion": values})


def _add_offsets(description: Topic, offsets: Mapping[int, Mapping[str, int]]) -> Topic:
    if not offsets:
        return description
    entries = [{"partition": p} for p in range(description)] if isinstance(description, int) else description
    return [{**entry, **offsets.get(entry["partition"], {})} for entry in entries]


def _write_answers(group: Group, owner: Ints, user_data: bytes | None) -> list[bytes]:
    """Every member's assignment, in the group's order of members, of an owner array (P,)."""
    order, held = by_owner(owner, group.M)
    return write_assignments(group.topics, group.topic_of[order], group.number[order], held, user_data)
