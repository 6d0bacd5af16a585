"""aiokafka's coordinator under strategies of ours: each method that changes causes of breakage, in a join's order.

The client reads version 0 of what members say, forgets instance ids, and tells its strategies no generation. A consumer
that has a strategy of ours gets this coordinator, which reads the members' words itself; the plan then runs in a
thread, so that the event loop goes on.

| state of the member | from | to | what it may do |
|---|---|---|---|
| joining | made, expelled, a rebalance | stable, stopped | nothing: the client gives everything up before it joins |
| handing over | ``leave`` | left | read and commit, until the others have joined too |
| stable | the leader's plan has come | joining, handing over, left | everything; one that holds nothing may stay idle |
| left | it held something and was not asked for records for too long; ``stop`` | joining | nothing |
| stopped | the broker assigns | | nothing; each call raises |
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from aiokafka.client import ConnectionGroup
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.group import JoinGroupRequest
from aiokafka.util import create_future

from apportion.clients.aio_kafka.messages import GroupDescribe
from apportion.clients.aio_kafka.strategy import REPLICAS, AioKafkaAssignor
from apportion.clients.group.adapter import strategies_for
from apportion.clients.group.broker_takeover import StrategyNotAsked, TakeoverWatch
from apportion.clients.group.client_versions import overrides
from apportion.clients.group.error_sentences import sentence
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.leaving import HandOver
from apportion.clients.group.protocol_selection import names_itself, refused
from apportion.clients.group.topic_metadata import ClientMetadata, can_exist

log = logging.getLogger("apportion.clients")

COMMIT_AGAIN_S: Final = 0.02
"""Seconds between two looks whether a join is over, of a commit that waits for it."""


class NotAsked(StrategyNotAsked, KafkaError):  # type: ignore[misc]
    """``StrategyNotAsked`` as one of the client's own errors, which ``getone`` and ``getmany`` raise."""


class ApportionGroupCoordinator(GroupCoordinator):  # type: ignore[misc]
    """The client's coordinator, with the causes of broken groups fixed."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        taken, ours = strategies_for(AioKafkaAssignor, configs["assignors"])
        self._ranked = any(strategy.bridge.options.rack for strategy in ours)
        self._watch = TakeoverWatch([strategy.bridge for strategy in ours])
        self._joined: Any = None
        """The answer to the one JoinGroup that carries all strategies."""
        self._follows_itself, self._last_commit = False, False
        self._before: Any = None
        """The assignment before this join."""
        self.hands_over, self.reads_on, self._join_answered = HandOver(), False, False
        super().__init__(client, subscription, **{**configs, "assignors": taken})
        for strategy in ours:
            strategy.bind(self)

    # -- a join ------------------------------------------------------------------------------------------------------

    @overrides
    async def ensure_coordinator_known(self) -> Any:
        """If a right to the group is missing, the error names it and the command that grants it."""
        try:
            return await super().ensure_coordinator_known()
        except GroupAuthorizationFailedError as error:
            raise GroupAuthorizationFailedError(sentence(error, f"group {self.group_id}")) from None

    @overrides
    async def ensure_active_group(self, subscription: Any, prev_assignment: Any) -> Any:
        """A member without partitions rejoins even if the application asks for no records (a standby of `failover`). A
        member that hands over keeps reading while its join waits for the others.
        """
        holds = prev_assignment is not None and prev_assignment.tps
        self.reads_on = bool(self.hands_over.begun and holds and self.generation > 0)
        if not self.reads_on:
            return await super().ensure_active_group(subscription, prev_assignment if holds else None)
        self._before = prev_assignment
        await self._stop_heartbeat_task()
        try:
            joined = await self._do_rejoin_group(subscription)
        finally:
            self.reads_on = self._join_answered = False
        if joined:
            self._start_heartbeat_task()
        return subscription.assignment if joined else None

    @overrides
    def need_rejoin(self, subscription: Any) -> bool:
        """A member that has handed over does not rejoin."""
        return not self.hands_over.over and (self.hands_over.due or bool(super().need_rejoin(subscription)))

    @overrides
    def request_rejoin(self) -> None:
        """A member that has handed over does not rejoin."""
        if not self.hands_over.over:
            super().request_rejoin()

    @overrides
    def _start_heartbeat_task(self) -> None:
        """A member that has handed over has no heartbeats."""
        if not self.hands_over.over:
            super()._start_heartbeat_task()

    @overrides
    async def _on_join_prepare(self, previous_assignment: Any) -> None:
        """Paused partitions are remembered through a rebalance, since the client makes all partitions again."""
        self._before = previous_assignment
        await super()._on_join_prepare(previous_assignment)

    @overrides
    async def _do_rejoin_group(self, subscription: Any) -> Any:
        """If a member is refused, the error names both sides' strategies. If it stopped because the broker assigns, it
        does not rejoin.
        """
        if self._watch.stopped:
            raise NotAsked(self._watch.stopped)
        try:
            return await super()._do_rejoin_group(subscription)
        except InconsistentGroupProtocolError:
            raise InconsistentGroupProtocolError(await self._refusal()) from None

    @overrides
    async def _send_req(self, request: Any) -> Any:
        """Several strategies go into one JoinGroup; the client would send one for each. An answer without a leader
        means that the broker assigns (KIP-848). A static leader that restarted rejoins and leads (KAFKA-13435). While
        a join waits and the member keeps reading, commits use another connection, since a broker answers the requests
        of one connection in order.
        """
        aside = self.reads_on and self.coordinator_id is not None
        if aside and isinstance(request, (OffsetCommitRequest, OffsetFetchRequest)):
            return await self._client.send(self.coordinator_id, request, group=ConnectionGroup.DEFAULT)
        if not isinstance(request, JoinGroupRequest):
            return await super()._send_req(request)
        if len(self._assignors) > 1:
            if len(request._group_protocols) > 1:
                return self._joined
            request = self._with_all_strategies(request)
        response = self._joined = await super()._send_req(request)
        if response.error_code:
            return response
        self._join_answered = True
        if self._watch.looks(response.leader_id):
            with suppress(KafkaError):
                answer = await super()._send_req(GroupDescribe(str(self.group_id)))
                self._watch.look(answer.to_object()["groups"][0])
        self._watch.joined(response.leader_id, str(self.group_id), int(response.generation_id))
        self._follows_itself = names_itself(response.leader_id, response.member_id, self._group_instance_id)
        return response

    def _with_all_strategies(self, request: Any) -> Any:
        topics = self._subscription.subscription.topics
        metadata = [(strategy.name, strategy.metadata(topics)) for strategy in self._assignors]
        return JoinGroupRequest(
            *(request._group, request._session_timeout, request._rebalance_timeout),
            *(request._member_id, request._group_instance_id, request._protocol_type),
            [(name, m if isinstance(m, bytes) else m.encode()) for name, m in metadata],
        )

    @overrides
    async def _perform_assignment(self, response: Any) -> Mapping[str, Any]:
        """The leader reads subscriptions of all versions, and plans in a thread."""
        strategy = self._lookup_assignor(response.group_protocol)
        if not isinstance(strategy, AioKafkaAssignor):
            return dict(await super()._perform_assignment(response))
        began = time.perf_counter()
        members = response.members
        joined = JoinedGroup(
            [str(member[0]) for member in members],
            [(member[1] or None) if len(member) > 2 else None for member in members],
            [bytes(member[-1]) for member in members],
        )
        self._group_subscription = set(joined.topics)
        if not self._subscription.subscribed_pattern:
            # The client's only task that asks for metadata ends at a name that does not fit its request, and then the
            # leader waits for ever.
            unknown = self._group_subscription - self._client._topics
            impossible = {topic for topic in unknown if not can_exist(topic)}
            self._client.set_topics(self._group_subscription - impossible)
        spent = time.perf_counter() - began
        await self._client._maybe_wait_metadata()
        began = time.perf_counter() - spent  # waiting for the metadata is not the plan's time
        # What the plan sees; a topic that grows while it is made must not look as if it had been seen.
        view = ClientMetadata(self._cluster, REPLICAS)
        seen = self._get_metadata_snapshot(view)
        shares = await asyncio.to_thread(strategy.lead, view, joined, began)
        self._metadata_snapshot = seen
        return shares

    @overrides
    def _get_metadata_snapshot(self, view: ClientMetadata | None = None) -> dict[str, Any]:
        """A leader with a rack rejoins if replicas move to other racks (KIP-881)."""
        view = view or ClientMetadata(self._cluster, REPLICAS)
        # As the client counts them, but without a set of all ids of each topic.
        sizes: dict[str, Any] = {topic: len(view.partitions(topic) or ()) for topic in self._group_subscription}
        if not self._ranked:
            return sizes
        for topic in sizes:
            view.rack_numbers(topic)
        racks = view.seen_racks()
        return {topic: (size, racks[topic]) for topic, size in sizes.items()}

    @overrides
    async def _on_join_complete(self, *args: Any) -> None:
        """Paused partitions that stay are paused again before anything is fetched. A member that gets partitions has
        the whole `max_poll_interval_ms` to ask for records. A member that hands over gives up its partitions, and
        leaves the group at once.
        """
        self._join_answered = False
        if self._watch.stopped:
            await self._maybe_leave_group()
            raise NotAsked(self._watch.stopped)
        if self.reads_on:
            await self._on_join_prepare(self._before)
        await super()._on_join_complete(*args)
        if self.hands_over.begun and not self._subscription.assigned_partitions():
            self.hands_over.over, self._rejoin_needed_fut = True, create_future()
            await self._maybe_leave_group()
        with self._subscription.fetch_context():  # the client counts from its end
            pass
        if self._follows_itself or self.hands_over.due:
            self.request_rejoin()

    def pause_again(self) -> None:
        """Called by the strategy in charge as soon as the client knows its assignment."""
        assigned = self._subscription.assigned_partitions()
        for partition in self._before.tps.intersection(assigned) if self._before is not None else ():
            if self._before.state_value(partition).paused:
                self._subscription.pause(partition)

    # -- offsets, and the end ----------------------------------------------------------------------------------------

    @overrides
    async def _maybe_do_last_autocommit(self, assignment: Any) -> None:
        """The last commit before a join or the end leaves out deleted topics."""
        self._last_commit = True
        try:
            await super()._maybe_do_last_autocommit(assignment)
        finally:
            self._last_commit = False

    @overrides
    async def _do_commit_offsets(self, assignment: Any, offsets: Any) -> None:
        """A deleted topic ends the last commit as if it were committed. A commit that meets a join of a member that
        keeps reading waits for its end.
        """
        while self.reads_on and self._join_answered:  # until the leader's plan has come the broker refuses each
            await asyncio.sleep(COMMIT_AGAIN_S)
        try:
            await super()._do_commit_offsets(assignment, offsets)
        except UnknownTopicOrPartitionError:  # the broker has taken the other offsets of the request
            if not self._last_commit:
                raise

    @overrides
    async def _maybe_leave_group(self) -> None:
        """A member without partitions stays, however long the application asks for no records: it may be a standby."""
        subscription = self._subscription.subscription
        ends = self._closing.done() or self._watch.stopped or subscription is None
        idle = self._subscription.fetcher_idle_time >= self._max_poll_interval
        ends = ends or self.hands_over.over
        if ends or not idle or self._subscription.assigned_partitions():
            await super()._maybe_leave_group()

    def hand_over(self, deadline_s: float) -> bool:
        """Join once more as a member that takes nothing, and read on; True once it holds nothing, or time is over."""
        at_once = "" if self._subscription.assigned_partitions() else "it has nothing"
        if self._group_instance_id is not None:
            at_once = "it is static: its partitions wait for it until its session ends"
        if self.hands_over.look(str(self.group_id), deadline_s, at_once, eager=True):
            self.request_rejoin()
        return self.hands_over.late

    async def _refusal(self) -> str:
        """Each side's protocols, by asking the coordinator's broker about the group."""
        mine = [assignor.name for assignor in self._assignors]
        try:
            answer = await self._send_req(DescribeGroupsRequest([self.group_id]))
            _, _, state, protocol_type, protocol, members = answer.groups[0][:6]
            clients = [member[1] for member in members]
            return refused(self.group_id, mine, protocol, clients, protocol_type, state)
        except KafkaError:
            return refused(self.group_id, mine, "", [], "")
