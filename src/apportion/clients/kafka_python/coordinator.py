"""kafka-python's coordinator under strategies of ours: each method that changes causes of breakage, in a join's order.

The client hands its strategies neither the generation at which they lead, nor what is still held at this moment, nor
a way to ask for a rebalance. A consumer that has a strategy of ours gets this coordinator, which knows both sides.

| state of the member | comes with | goes to | the member may |
|---|---|---|---|
| unjoined | the consumer; an expulsion; a good-bye | joining | nothing |
| joining | a ``poll`` once a join is due | answered, unjoined | read on (cooperative); commit in its old generation |
| answered | the broker's answer to JoinGroup | stable, joining | read on (cooperative); commit behind the plan |
| stable | a ``poll`` that takes the assignment | joining | do everything |
| ended | a taken instance id; a broker that assigns; ``fork``; ``close`` | | do nothing: each call raises |
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from types import SimpleNamespace
from typing import Any, Final

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    RebalanceInProgressError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import MemberState

from apportion.clients.group.adapter import Forked, strategies_for
from apportion.clients.group.broker_takeover import StrategyNotAsked, TakeoverWatch
from apportion.clients.group.client_versions import overrides
from apportion.clients.group.error_sentences import sentence
from apportion.clients.group.finished import OF_SUBSCRIPTION, Unfinished
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.leaving import HandOver
from apportion.clients.group.protocol_selection import names_itself, refused
from apportion.clients.group.topic_metadata import can_exist
from apportion.clients.kafka_python.strategy import KafkaPythonAssignor
from apportion.errors import UnreadableBytes
from apportion.wire.subscription import Subscription, read_subscription, write_subscription

log = logging.getLogger("apportion.clients")

LAST_COMMIT_MS: Final = 1_000
"""Time that a last commit has at least: the client gives it what is left of ``poll``, then cancels it."""
JOIN_MS: Final = 20
"""How long one ``poll`` waits for the answer to a join while there is something to read."""
BEAT_S: Final = 0.5
"""Seconds between heartbeats behind a completed join: one rebalance seldom comes alone."""
BEATS: Final = 12
"""How many there are."""
BEATS_AN_HOUR: Final = 0.05
"""As much more than an hour's regular heartbeats and commits: what these cost the broker, at most."""
CLOSE_MS: Final = 2_400
"""Time that ``close`` gives the broker for the last commit, and again for the good-bye, unless it is told a time."""


class NotAsked(StrategyNotAsked, KafkaError):  # type: ignore[misc]
    """``StrategyNotAsked`` as one of the client's own errors, which ``poll`` raises."""


class _MustLook(Exception):
    """The broker assigns, and whether a governor keeps the strategy is to be asked first."""


class ApportionCoordinator(ConsumerCoordinator):  # type: ignore[misc]
    """The client's coordinator, with the causes of broken groups fixed."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        taken, self._ours = strategies_for(KafkaPythonAssignor, configs["assignors"])
        super().__init__(client, subscription, **{**configs, "assignors": taken})
        for strategy in self._ours:
            strategy.bind(self)
        drains = [strategy.bridge.options.drain_s for strategy in self._ours]
        self._unfinished = Unfinished(max(drain_s or 0 for drain_s in drains))
        if any(drains):
            OF_SUBSCRIPTION[subscription] = self._unfinished
        self._pid, self._fenced = os.getpid(), False
        self._watch, self._looked = TakeoverWatch([strategy.bridge for strategy in self._ours]), False
        self._join_answered, self._last_commit, self._follows_itself = False, False, False
        self._answered_at = -inf
        self._answer: tuple[int, float, bytes] | None = None
        """Generation, moment and assignment of an answer that no ``poll`` has taken yet."""
        self._generation_before: int | None = None
        self._paused: set[Any] = set()
        self.hands_over = HandOver()
        self._beats: deque[float] = deque()
        """When it beat between the regular heartbeats, in the last hour."""
        self._offset_fetch_futures: dict[frozenset[Any], Any] = {}
        self._looked_up_in: object = None
        """The generation in which committed offsets were looked up last."""

    # -- when a join is due ------------------------------------------------------------------------------------------

    @overrides
    def need_rejoin(self) -> bool:
        """A join that was begun is completed, even if `poll` ends between its two answers. A leader with a rack rejoins
        if replicas move to other racks (KIP-881). A member that has handed over does not rejoin.
        """
        if self.hands_over.over:
            return False
        pending = self.rejoining and self._subscription.partitions_auto_assigned()
        due = pending or self.hands_over.due or super().need_rejoin()
        # The strategy in charge alone: what another saw in its own time would have it rejoin for ever.
        chosen = self._generation.protocol
        due = due or (self._is_leader and any(a.racks_moved(self._cluster) for a in self._ours if a.name == chosen))
        return bool(due) and self._may_join()

    def _may_join(self) -> bool:
        return all(strategy.may_join() for strategy in self._ours)

    @overrides
    def poll(self, timeout_ms: float | None = None) -> bool:
        """A cooperative member keeps reading while its join waits for the others. A member that stopped, was forked, or
        lost its instance id raises at each call.
        """
        self._require_alive()
        if self._watch.stopped:
            raise NotAsked(self._watch.stopped)
        for warm_up in [strategy.bridge.warm_up for strategy in self._ours]:
            if warm_up is not None and warm_up.look()[0]:
                self.request_rejoin()
        try:
            polled = self._poll(timeout_ms)
            if self.hands_over.over and not self._generation.is_lost() and self._may_join():
                self._net.run(self.maybe_leave_group_async, "it has handed over", LAST_COMMIT_MS)
            return polled
        except FencedInstanceIdError:
            self.raise_if_fenced(heard=True)
            raise

    def _poll(self, timeout_ms: float | None) -> bool:
        if self._join_waits() and self._reads_on():
            self._invoke_completed_offset_commit_callbacks()
            self._maybe_auto_commit_offsets_async()
            return True
        if not (self._reads_on() and self.need_rejoin()):
            return bool(super().poll(timeout_ms=timeout_ms))
        begun = self._join_task is not None
        patience_ms = max(JOIN_MS, timeout_ms or 0) if begun else JOIN_MS
        return bool(super().poll(timeout_ms=patience_ms)) or (self._reads_on() and self._join_waits())

    @overrides
    def time_to_next_poll(self) -> float:
        """While a join waits and the member keeps reading, the client looks for the answer often."""
        return JOIN_MS / 1000 if self._join_waits() and self._reads_on() else float(super().time_to_next_poll())

    def _reads_on(self) -> bool:
        """Whether it keeps its partitions through a join; a foreign strategy in its list would not know of that."""
        keeps = self._rebalance_protocol == RebalanceProtocol.COOPERATIVE and not self._generation.is_lost()
        ours = len(self._ours) == len(self._assignors) and all(strategy.bridge.reads_on for strategy in self._ours)
        return bool(keeps and ours and self._subscription.assignment)

    def _join_waits(self) -> bool:
        return self._join_task is not None and not self._join_task.is_done

    # -- a join ------------------------------------------------------------------------------------------------------

    @overrides
    async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: float | None = None) -> None:
        """The commit before a join leaves out deleted topics (KAFKA-16224) and has at least a second, however short the
        poll. If a listener raises, the error comes up once, and the member joins all the same.
        """
        patience_ms = None if timeout_ms is None else max(timeout_ms, LAST_COMMIT_MS)
        if self._generation.is_lost():
            self._unfinished.keep(())
        elif self._rebalance_protocol == RebalanceProtocol.EAGER:  # type: ignore[has-type]
            await self._drain(self._subscription.assigned_partitions())
        try:
            with self._committing_last():
                await super()._on_join_prepare_async(generation, member_id, timeout_ms=patience_ms)
        except KafkaError:
            self.rejoining = (
                True  # the listener raised: poll tells of it, and the next one joins, as Java's client does
            )
            raise

    @overrides
    async def _do_join_and_sync_async(self) -> Any:
        """An answer that arrives between two polls is used by the next poll; the join is not sent again. If a member is
        expelled while it joins, it has lost its partitions (KIP-429). If it is refused, the error names both sides'
        strategies.
        """
        self._looked = self._watch.foreign
        if self._looked:
            await self._look()
        try:
            with self._noting_fenced():
                try:
                    return await self._join_and_sync()
                except _MustLook:  # it is a member already, and joins once more
                    self._looked = True
                    await self._look()
                    return await self._join_and_sync()
        except NotAsked:
            if self._rebalance_protocol == RebalanceProtocol.COOPERATIVE:
                await self._on_close_prepare_async()  # an eager member has told its listener before it joined
            self._subscription.assign_from_subscribed([])
            await self.maybe_leave_group_async(reason="the broker assigns by the new protocol")
            raise

    async def _join_and_sync(self) -> Any:
        self._join_answered = False
        if self._generation.is_lost() and self._subscription.assigned_partitions():
            await self._on_join_prepare_async(self._generation.generation_id, self._generation.member_id)
        if self._answer is not None:
            generation, at, assignment = self._answer
            in_time = time.monotonic() - at < self.config["session_timeout_ms"] / 2000
            if in_time and generation == self._generation.generation_id:
                self._join_answered = True
                return assignment
        try:
            assignment = await super()._do_join_and_sync_async()
        except InconsistentGroupProtocolError:
            raise InconsistentGroupProtocolError(await self._refusal()) from None
        self._answer = self._generation.generation_id, time.monotonic(), assignment
        return assignment

    @overrides
    def _process_join_group_response(self, response: Any, send_time: float) -> Any:
        """An answer without a leader means that the broker assigns (KIP-848). A static leader that restarted rejoins
        and leads (KAFKA-13435).
        """
        processed = super()._process_join_group_response(response, send_time)
        self._join_answered, self._answered_at = True, time.monotonic()
        if self._watch.looks(response.leader) and not self._looked:
            raise _MustLook
        if self._watch.joined(response.leader, str(self.group_id), int(self._generation.generation_id)):
            raise NotAsked(self._watch.stopped)
        self._follows_itself = names_itself(response.leader, response.member_id, self.group_instance_id)
        return processed

    @overrides
    def _perform_assignment(self, leader_id: str, protocol_name: str, members: Sequence[Any]) -> Any:
        """The leader plans from the members' own bytes, so unreadable ones do no harm, even if the group uses a foreign
        strategy of the leader's list. In the plain client they kill the leader.
        """
        began = time.perf_counter()
        strategy = self._lookup_assignor(protocol_name)
        if not isinstance(strategy, KafkaPythonAssignor):
            readable = [_member(m.member_id, m.group_instance_id, _readable(m.member_id, m.metadata)) for m in members]
            return super()._perform_assignment(leader_id, protocol_name, readable)
        joined = JoinedGroup(
            [member.member_id for member in members],
            [member.group_instance_id or None for member in members],
            [sent if type(sent := member.metadata) is bytes else bytes(sent) for member in members],
        )
        strategy.lead(joined, began)
        stand_ins = _stand_ins(leader_id, joined, self._subscription.group_subscription())
        return super()._perform_assignment(leader_id, protocol_name, stand_ins)

    @overrides
    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        """Partitions that the member loses after its join waited are committed first. After an eager member missed a
        generation, it looks up its positions again.
        """
        self._answer, self._join_answered = None, False
        if self._reads_on():
            await self._drain_and_commit(member_assignment_bytes)
        missed = self._generation_before not in (None, generation - 1)
        self._paused = self._subscription.paused_partitions()
        if missed and self._rebalance_protocol == RebalanceProtocol.EAGER:
            # The client keeps positions of partitions that it has again, as if nobody had had them in between, and its
            # next commit would set offsets back. A cooperative member claims what it holds, so nobody else got it.
            self._subscription.assign_from_subscribed([])
        self._generation_before = generation
        try:
            await super()._on_join_complete_async(generation, member_id, protocol, member_assignment_bytes)
        finally:
            self._unfinished.keep(self._subscription.assigned_partitions())
            self.hands_over.over = self.hands_over.begun and not self._subscription.assigned_partitions()
            if self._follows_itself:
                self.request_rejoin()
            self._manager.call_soon(self._beat_quickly, self._generation)

    async def _beat_quickly(self, joined: Any) -> None:
        """Hear of the next rebalance soon: one follows in a deploy, and in a hand-over under a foreign leader."""
        interval_s = self.config["heartbeat_interval_ms"] / 1000
        commits = 1000 / self.config["auto_commit_interval_ms"] if self.config["enable_auto_commit"] else 0.0
        most = 3600 * (1 / interval_s + commits) * BEATS_AN_HOUR
        for _ in range(BEATS if interval_s > BEAT_S else 0):
            await self._net.sleep(BEAT_S)
            while self._beats and time.monotonic() - self._beats[0] > 3600:
                self._beats.popleft()
            calm = self._generation is joined and self.stable() and not self.rejoin_needed
            if not calm or self._heartbeat_closed or len(self._beats) >= most:
                return
            self._beats.append(time.monotonic())
            await self._do_heartbeat()

    async def _drain(self, parts: Collection[Any]) -> None:
        """Wait until these have no open records, as long as they may take."""
        until = time.monotonic() + self._unfinished.drain_s
        while count := self._unfinished.open_in(parts):
            if time.monotonic() >= until:
                log.warning("%d records are not done after %g s: they are read again", count, self._unfinished.drain_s)
                return
            await self._net.sleep(JOIN_MS / 1000)

    async def _drain_and_commit(self, assignment: bytes) -> None:
        """Its next owner gets it in the next generation only, so the open records and the commit come first."""
        stays = set(ConsumerProtocolAssignment.decode(assignment).partitions())
        await self._drain(self._subscription.assigned_partitions() - stays)
        if not self.config["enable_auto_commit"]:
            return
        goes = {at: offset for at, offset in self._subscription.all_consumed_offsets().items() if at not in stays}
        if not goes:
            return
        try:
            with self._committing_last():
                await self._commit_offsets_sync_async(goes, timeout_ms=LAST_COMMIT_MS)
        except KafkaError as error:
            log.warning("what was read of %d partitions that go is not committed (%s)", len(goes), sentence(error))

    def pause_again(self) -> None:
        """Called by the strategy in charge as soon as the client knows its assignment."""
        for partition in self._paused.intersection(self._subscription.assigned_partitions()):
            self._subscription.pause(partition)

    def forget_positions(self, partitions: Collection[Any] | None = None) -> None:
        """Read on in those (None: in all) from the committed offsets, which are looked up as after an assignment."""
        assigned, self._paused = self._subscription.assigned_partitions(), self._subscription.paused_partitions()
        self._subscription.assign_from_subscribed([] if partitions is None else sorted(assigned - set(partitions)))
        self._subscription.assign_from_subscribed(sorted(assigned))
        self.pause_again()

    # -- offsets -----------------------------------------------------------------------------------------------------

    @overrides
    def coordinator(self) -> Any:
        """While a join waits, commits and look-ups use another connection, since a broker answers the requests of one
        connection in order.
        """
        known = super().coordinator()
        return self._beside_the_join() if known is not None and self._join_waits() else known

    def _beside_the_join(self) -> int:
        """The coordinator's node as any broker's: the client keeps a connection of its own for the coordinator."""
        return int(str(self.coordinator_id).removeprefix("coordinator-"))

    @overrides
    def generation_if_stable(self) -> Any:
        """A member whose join waits commits in its present generation, which the broker accepts. A cooperative member
        also commits in the new one, since no other member gets what it gives up before it has joined once more.
        """
        stable = super().generation_if_stable()
        if stable is not None or self.state is not MemberState.REBALANCING or self._generation.is_lost():
            return stable
        keeps = self._rebalance_protocol == RebalanceProtocol.COOPERATIVE
        return self._generation if keeps or not self._join_answered else None

    @overrides
    async def _send_offset_commit_request(self, offsets: Any) -> None:
        """A deleted topic ends the last commit as if it were committed. A commit that meets a join is sent again after
        it, if the member keeps its partitions. If another member took the instance id, each call fails.
        """
        offsets = self._unfinished.capped(offsets)
        if self._join_answered:  # until the leader's plan has come the broker refuses both generations
            await self._join_over()
        try:
            with self._noting_fenced():
                try:
                    await super()._send_offset_commit_request(offsets)
                except RebalanceInProgressError:
                    if not self._reads_on():
                        raise
                    await self._join_over()
                    await super()._send_offset_commit_request(offsets)
        except UnknownTopicOrPartitionError:  # the broker has taken the other offsets of the request
            if not self._last_commit:
                raise

    async def _join_over(self) -> None:
        if self._join_waits():
            with suppress(KafkaError):  # whatever becomes of the join: the commit says it better
                await self._manager.wait_for(self._join_task, self.config["request_timeout_ms"])

    @overrides
    def _handle_offset_commit_response(self, offsets: Any, send_time: float, response: Any) -> None:
        """If a join has overtaken a commit, only the commit fails, and the member keeps its new membership (as in
        Java).
        """
        if self._join_waits() or send_time < self._answered_at:
            errors = {code for _, partitions in response.topics for _, code in partitions}
            if errors & {IllegalGenerationError.errno, RebalanceInProgressError.errno}:
                raise RebalanceInProgressError("the group has a new generation since the commit was sent")
        super()._handle_offset_commit_response(offsets, send_time, response)

    @overrides
    def commit_offsets_sync(self, offsets: Any, timeout_ms: float | None = None) -> Any:
        """A member that was forked or lost its instance id raises at each call."""
        self._require_alive()
        try:
            return super().commit_offsets_sync(offsets, timeout_ms)
        except FencedInstanceIdError:
            self.raise_if_fenced(heard=True)
            raise

    @overrides
    def fetch_committed_offsets(self, partitions: Any, timeout_ms: float | None = None) -> Any:
        """If a look-up timed out, its late answer is not used for a later look-up."""
        return self._net.run(self._look_up_anew, partitions, timeout_ms) if partitions else {}

    async def _look_up_anew(self, partitions: Any, timeout_ms: float | None) -> Any:
        self._offset_fetch_futures = {}
        return await self.fetch_committed_offsets_async(partitions, timeout_ms)

    @overrides
    async def fetch_committed_offsets_async(self, partitions: Any, timeout_ms: float | None = None) -> Any:
        """An answer is not used in another generation: another member may have had the partitions meanwhile."""
        if self._looked_up_in is not self._generation:  # the client makes a new object with each answer to a join
            self._looked_up_in, self._offset_fetch_futures = self._generation, {}
        return await super().fetch_committed_offsets_async(partitions, timeout_ms)

    @contextmanager
    def _committing_last(self) -> Iterator[None]:
        self._last_commit = True
        try:
            yield
        finally:
            self._last_commit = False

    # -- the end -----------------------------------------------------------------------------------------------------

    @overrides
    async def _send_heartbeat_request(self) -> Any:
        """If another member took the instance id, each call fails. The client itself would only stop its heartbeats and
        keep reading.
        """
        with self._noting_fenced():
            return await super()._send_heartbeat_request()

    @overrides
    def _handle_find_coordinator_response(self, response: Any) -> Any:
        """If a right to the group is missing, the error names it and the command that grants it."""
        try:
            return super()._handle_find_coordinator_response(response)
        except GroupAuthorizationFailedError as error:
            raise GroupAuthorizationFailedError(sentence(error, f"group {self.group_id}")) from None

    @overrides
    async def maybe_leave_group_async(self, reason: str | None = None, timeout_ms: float | None = None) -> None:
        """A member whose join waits leaves by another connection, so the broker learns it at once."""
        if self._join_waits() and self.coordinator_id is not None:  # type: ignore[has-type]
            self.coordinator_id = self._beside_the_join()
        await super().maybe_leave_group_async(reason, timeout_ms)

    @overrides
    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Without a timeout it takes at most 5 s, however long another member keeps a join waiting. Records that the
        application will finish have their time before.
        """
        if os.getpid() == self._pid and not self._fenced:
            self._net.run(self._drain, self._subscription.assigned_partitions())
        untold = timeout_ms in (None, self.config["request_timeout_ms"])  # the consumer's own default for it
        super().close(autocommit=autocommit, timeout_ms=CLOSE_MS if untold else timeout_ms)

    def hand_over(self, deadline_s: float) -> bool:
        """Join once more as a member that takes nothing, and read on; True once it holds nothing, or time is over."""
        eager = self._rebalance_protocol != RebalanceProtocol.COOPERATIVE  # type: ignore[has-type]
        if self.hands_over.look(self.group_id, deadline_s, self._goes_at_once(), eager=eager):
            # By itself an eager member would give all up before it joins: this one joins as a cooperative one does.
            self._rebalance_protocol = RebalanceProtocol.COOPERATIVE
            self.request_rejoin()
        return self.hands_over.late or not self._subscription.assigned_partitions()

    def _goes_at_once(self) -> str:
        if not self.is_dynamic_member():
            return "it is static: its partitions wait for it until its session ends"
        if len(self._ours) < len(self._assignors):
            return "a strategy of the client's own is in its list, too"
        return "" if self._subscription.assigned_partitions() else "it has nothing"

    def raise_if_fenced(self, *, heard: bool = False) -> None:
        """Give everything up, and raise, once another member has this one's instance id.

        heard
            It has: an answer to somebody else's request said so.
        """
        self._fenced = self._fenced or heard
        if self._fenced:
            self._net.run(self._give_up)
            raise FencedInstanceIdError(
                f"another member of group {self.group_id!r} has group_instance_id {self.group_instance_id!r} now, and "
                "this one has given its partitions up; give each member an id of its own"
            ) from None

    async def _give_up(self) -> None:
        self.reset_generation()  # so that its partitions are lost, not revoked
        await self._on_close_prepare_async()

    def _require_alive(self) -> None:
        if os.getpid() != self._pid:
            raise Forked("KafkaConsumer")
        self.raise_if_fenced()

    @contextmanager
    def _noting_fenced(self) -> Iterator[None]:
        try:
            yield
        except FencedInstanceIdError:
            self._fenced = True
            raise

    # -- what the broker is asked beside -----------------------------------------------------------------------------

    async def _look(self) -> None:
        """Ask the coordinator's broker who assigns; one that does not answer changes nothing."""
        from apportion.sources.messages.consumer_group_describe import ConsumerGroupDescribeRequest

        with suppress(KafkaError):
            request = ConsumerGroupDescribeRequest(group_ids=[self.group_id])
            answer = await self._manager.send(request, node_id=self.coordinator_id)
            self._watch.look(answer.to_dict()["groups"][0])

    async def _refusal(self) -> str:
        """Each side's protocols, by asking the coordinator's broker about the group."""
        mine = list(self._assignors)
        try:
            request = DescribeGroupsRequest(groups=[self.group_id])
            answer = await self._manager.send(request, node_id=self.coordinator_id)
            group = answer.groups[0]
            clients = [member.client_id for member in group.members]
            facts = (group.protocol_data or "", clients, group.protocol_type or "", group.group_state or "")
            return refused(self.group_id, mine, *facts)
        except KafkaError:
            return refused(self.group_id, mine, "", [], "")


def _stand_ins(leader_id: str, joined: JoinedGroup, watched: Container[str]) -> list[Any]:
    """One member that wants topics which the client does not watch yet, if any: all it looks at before it asks.

    A name that no topic can have stays out, since the client would fail at it.
    """
    fresh = {topic for topic in joined.topics if topic not in watched and can_exist(topic)}
    if not fresh:
        return []
    sent = joined.subscriptions.wish_for(fresh)
    return [_member(leader_id, None, sent)]


def _member(member_id: str, instance_id: str | None, metadata: bytes) -> SimpleNamespace:
    """As much of a member in an answer to JoinGroup as the client looks at."""
    return SimpleNamespace(member_id=member_id, group_instance_id=instance_id, metadata=metadata)


def _readable(member: str, raw: bytes) -> bytes:
    try:
        read_subscription(raw)
    except UnreadableBytes as error:
        log.warning("member %r sent no subscription that anyone can read (%s); it gets nothing", member, error)
        return write_subscription(Subscription(()))
    return raw
