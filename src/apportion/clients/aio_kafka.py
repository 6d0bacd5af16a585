"""Strategies for aiokafka 0.14: ``AIOKafkaConsumer(..., partition_assignment_strategy=[assignor("sticky")])``.

The client reads version 0 of what members say, forgets instance ids, and tells its strategies no generation. Each of
ours therefore meets the coordinator that it is given to (one wrapped constructor, see ``adapter.patch_coordinators``)
and, on that one coordinator, reads the members' words itself; the plan then runs in a thread, so that the event loop
goes on.
What stays out of reach: the client gives up all partitions at every join, so a cooperative strategy works eagerly here.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

try:
    from aiokafka.consumer.group_coordinator import GroupCoordinator
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.errors import (
        GroupAuthorizationFailedError,
        InconsistentGroupProtocolError,
        KafkaError,
        UnknownTopicOrPartitionError,
    )
    from aiokafka.protocol.admin import DescribeGroupsRequest
    from aiokafka.protocol.group import JoinGroupRequest
except ImportError:  # pragma: no cover - tried in an environment without the client
    from apportion.clients.patches import AIOKAFKA, unusable

    raise unusable(AIOKAFKA, "apportion.clients.aio_kafka") from None

from apportion.clients.adapter import Adapter, assignor_for, patch_coordinators
from apportion.clients.aio_kafka_messages import GroupDescribe
from apportion.clients.bridge import Bridge, bridge_for
from apportion.clients.broker_takeover import StrategyNotAsked, TakeoverWatch
from apportion.clients.error_sentences import sentence
from apportion.clients.joined_group import JoinedGroup
from apportion.clients.patches import AIOKAFKA, require_patchable
from apportion.clients.protocol_selection import names_itself, refused
from apportion.clients.topic_metadata import ClientMetadata, can_exist
from apportion.wire.assignment import Assignment
from apportion.wire.subscription import Subscription, write_subscription

REPLICAS: Final = "replicas"
"""Where the client's metadata of a partition list the brokers of its replicas."""


class NotAsked(StrategyNotAsked, KafkaError):  # type: ignore[misc]
    """``StrategyNotAsked`` as one of the client's own errors, which ``getone`` and ``getmany`` raise."""


class AioKafkaAssignor(Adapter, AbstractPartitionAssignor):  # type: ignore[misc]
    """One consumer's strategy in aiokafka's own interface."""

    bridge: Bridge
    _event_loop: asyncio.AbstractEventLoop | None = None

    def ask_rejoin(self) -> None:
        """As in ``Adapter``; the client's future belongs to its event loop."""
        coordinator, loop = self.coordinator, self._event_loop
        if coordinator is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(coordinator.request_rejoin)

    def metadata(self, topics: Iterable[str]) -> bytes:
        """What this member says when it joins, as version 3; it has let go of everything by then."""
        return write_subscription(self.bridge.subscription(topics, keeps=False))

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, bytes]:
        """As leader, where the client decoded (version 0): what stands in user data is all that is known."""
        joined = JoinedGroup(
            list(members),
            [None] * len(members),
            [
                write_subscription(Subscription(tuple(member.subscription), member.user_data, version=0))
                for member in members.values()
            ],
        )
        return self._lead(ClientMetadata(cluster, REPLICAS), joined, time.perf_counter())

    def _lead(self, view: ClientMetadata, joined: JoinedGroup, began: float) -> dict[str, bytes]:
        coordinator = self.coordinator
        group, generation = ("", None) if coordinator is None else (str(coordinator.group_id), coordinator.generation)
        return self.bridge.lead(joined, view, group, generation, began)

    def on_assignment(self, assignment: Any) -> None:
        """Remember what this member was told."""
        partitions = tuple((topic, tuple(ids)) for topic, ids in assignment.assignment)
        coordinator = self.coordinator
        generation, group = None, None
        if coordinator is not None:
            generation, group = int(coordinator.generation), str(coordinator.group_id)
        self.bridge.on_assignment(Assignment(partitions, assignment.user_data), generation, group)

    @staticmethod
    def closed(coordinator: Any) -> bool:
        """Whether it was told to end."""
        return bool(coordinator._closing.done())

    @staticmethod
    def close_refused(coordinator: Any) -> None:
        """End its task, which would join the group for good, and hold partitions that nobody reads.

        ``stop`` of the consumer closes the rest, but knows of no coordinator where ``start`` raised.
        """
        coordinator._closing.set_result(None)
        coordinator._coordination_task.cancel()

    async def lead(self, coordinator: Any, response: Any) -> dict[str, bytes]:
        """The leader's part of a join, from the members' own bytes; a plan runs in a thread."""
        began = time.perf_counter()
        self._event_loop = asyncio.get_running_loop()
        members = response.members
        joined = JoinedGroup(
            [str(member[0]) for member in members],
            [(member[1] or None) if len(member) > 2 else None for member in members],
            [bytes(member[-1]) for member in members],
        )
        topics = set(joined.topics)
        coordinator._group_subscription = topics
        if not coordinator._subscription.subscribed_pattern:
            # The client's only task that asks for metadata ends at a name that does not fit its request, and then the
            # leader waits for ever.
            impossible = {topic for topic in topics - coordinator._client._topics if not can_exist(topic)}
            coordinator._client.set_topics(topics - impossible)
        spent = time.perf_counter() - began
        await coordinator._client._maybe_wait_metadata()
        began = time.perf_counter() - spent  # waiting for the metadata is not the plan's time
        # What the plan sees; a topic that grows while it is made must not look as if it had been seen.
        view = ClientMetadata(coordinator._cluster, REPLICAS)
        seen = coordinator._get_metadata_snapshot(view)
        shares = await asyncio.to_thread(self._lead, view, joined, began)
        coordinator._metadata_snapshot = seen
        return shares


assignor = assignor_for(AioKafkaAssignor, bridge_for, "sticky")


# -- the coordinator --------------------------------------------------------------------------------------------------


def _patch(coordinator: Any, ours: Sequence[AioKafkaAssignor]) -> None:
    """Mend on this one coordinator what would break a group: every change stands in ``patches.AIOKAFKA``."""
    self = weakref.ref(coordinator)
    ranked = any(strategy.bridge.options.rack for strategy in ours)
    rejoin, send = type(coordinator)._do_rejoin_group, type(coordinator)._send_req
    joined: list[Any] = [None]

    async def perform_assignment(response: Any) -> Mapping[str, Any]:
        c: Any = self()
        strategy = c._lookup_assignor(response.group_protocol)
        if not isinstance(strategy, AioKafkaAssignor):
            return dict(await type(c)._perform_assignment(c, response))
        return await strategy.lead(c, response)

    def snapshot(view: ClientMetadata | None = None) -> dict[str, Any]:
        return _snapshot(self(), view, ranked)

    async def send_req(request: Any) -> Any:
        c: Any = self()
        if not isinstance(request, JoinGroupRequest) or len(c._assignors) == 1:
            return await send(c, request)
        if len(request._group_protocols) == 1:
            request._group_protocols = _protocols(c)
            joined[0] = await send(c, request)
        return joined[0]

    async def do_rejoin_group(subscription: Any) -> Any:
        c: Any = self()
        try:
            return await rejoin(c, subscription)
        except InconsistentGroupProtocolError:
            raise InconsistentGroupProtocolError(await _refusal(c)) from None

    async def coordinator_known() -> Any:
        c: Any = self()
        try:
            return await type(c).ensure_coordinator_known(c)
        except GroupAuthorizationFailedError as error:
            raise GroupAuthorizationFailedError(sentence(error, f"group {c.group_id}")) from None

    coordinator._perform_assignment = perform_assignment
    coordinator.ensure_coordinator_known = coordinator_known
    coordinator._get_metadata_snapshot = snapshot
    coordinator._send_req = send_req
    coordinator._do_rejoin_group = do_rejoin_group
    _leave_out_deleted(coordinator)
    _watch_for_the_broker(coordinator, ours)
    _lead_after_a_restart(coordinator)
    _keep_paused(coordinator)


def _lead_after_a_restart(coordinator: Any) -> None:
    """On this one coordinator, join again where a static leader came back as its own follower (KAFKA-13435)."""
    self: Callable[[], Any] = weakref.ref(coordinator)
    send, complete = coordinator._send_req, coordinator._on_join_complete
    follows_itself = False

    async def send_req(request: Any) -> Any:
        nonlocal follows_itself
        response = await send(request)
        if isinstance(request, JoinGroupRequest) and not response.error_code:
            follows_itself = names_itself(response.leader_id, response.member_id, self()._group_instance_id)
        return response

    async def join_complete(*args: Any) -> None:
        await complete(*args)
        if follows_itself:
            self().request_rejoin()

    coordinator._send_req = send_req
    coordinator._on_join_complete = join_complete


def _keep_paused(coordinator: Any) -> None:
    """On this one coordinator, let what its user paused stay paused through a rebalance, if it stays here at all.

    The client makes all partitions anew at each rebalance, and what was paused to hold back load was read again.
    """
    self: Callable[[], Any] = weakref.ref(coordinator)
    prepare, complete = coordinator._on_join_prepare, coordinator._on_join_complete
    before: Any = None

    async def join_prepare(previous_assignment: Any) -> None:
        nonlocal before
        before = previous_assignment
        await prepare(previous_assignment)

    async def join_complete(*args: Any) -> None:
        subscription = self()._subscription
        assign = subscription.assign_from_subscribed

        def assign_and_pause(partitions: Any) -> None:
            assign(partitions)
            for partition in before.tps.intersection(partitions) if before is not None else ():
                if before.state_value(partition).paused:
                    subscription.pause(partition)

        subscription.assign_from_subscribed = assign_and_pause
        try:
            await complete(*args)
        finally:
            del subscription.assign_from_subscribed

    coordinator._on_join_prepare = join_prepare
    coordinator._on_join_complete = join_complete


def _leave_out_deleted(coordinator: Any) -> None:
    """On this one coordinator, let the last commit before a join or the end be done though topics were deleted."""
    self = weakref.ref(coordinator)
    autocommit, commit = type(coordinator)._maybe_do_last_autocommit, type(coordinator)._do_commit_offsets
    is_last = False

    async def last_autocommit(assignment: Any) -> None:
        nonlocal is_last
        is_last = True
        try:
            await autocommit(self(), assignment)
        finally:
            is_last = False

    async def do_commit(assignment: Any, offsets: Any) -> None:
        try:
            await commit(self(), assignment, offsets)
        except UnknownTopicOrPartitionError:  # the broker has taken the other offsets of the request
            if not is_last:
                raise

    coordinator._maybe_do_last_autocommit = last_autocommit
    coordinator._do_commit_offsets = do_commit


def _snapshot(c: Any, view: ClientMetadata | None, ranked: bool) -> dict[str, Any]:
    """What a leader watches of each topic: how many partitions it has, and where racks count, where they are."""
    view = view or ClientMetadata(c._cluster, REPLICAS)
    # As the client counts them, but without a set of all ids of each topic.
    sizes: dict[str, Any] = {topic: len(view.partitions(topic) or ()) for topic in c._group_subscription}
    if not ranked:
        return sizes
    for topic in sizes:
        view.rack_numbers(topic)
    racks = view.seen_racks()
    return {topic: (size, racks[topic]) for topic, size in sizes.items()}


def _watch_for_the_broker(coordinator: Any, ours: Sequence[AioKafkaAssignor]) -> None:
    """On this one coordinator, notice that nobody leads, and where the strategy asks for it stop for good.

    The client has given everything back before it joined; what it raises reaches the user at each call.
    """
    self: Callable[[], Any] = weakref.ref(coordinator)
    watch = TakeoverWatch([strategy.bridge for strategy in ours])
    send, rejoin = coordinator._send_req, coordinator._do_rejoin_group
    complete = type(coordinator)._on_join_complete

    async def send_req(request: Any) -> Any:
        response = await send(request)
        if isinstance(request, JoinGroupRequest) and not response.error_code:
            if watch.looks(response.leader_id):
                with suppress(KafkaError):
                    answer = await send(GroupDescribe(str(self().group_id)))
                    watch.look(answer.to_object()["groups"][0])
            watch.joined(response.leader_id, str(self().group_id), int(response.generation_id))
        return response

    async def join_complete(*args: Any) -> None:
        c: Any = self()
        if watch.stopped:
            await c._maybe_leave_group()
            raise NotAsked(watch.stopped)
        await complete(c, *args)

    async def rejoin_unless_stopped(subscription: Any) -> Any:
        if watch.stopped:
            raise NotAsked(watch.stopped)
        return await rejoin(subscription)

    coordinator._send_req = send_req
    coordinator._on_join_complete = join_complete
    coordinator._do_rejoin_group = rejoin_unless_stopped


def _protocols(coordinator: Any) -> list[tuple[str, bytes]]:
    """Every strategy of the list with what the member says to it."""
    topics = coordinator._subscription.subscription.topics
    metadata = [(strategy.name, strategy.metadata(topics)) for strategy in coordinator._assignors]
    return [(name, m if isinstance(m, bytes) else m.encode()) for name, m in metadata]


async def _refusal(coordinator: Any) -> str:
    """What each side has, by asking the coordinator's broker about the group."""
    mine = [assignor.name for assignor in coordinator._assignors]
    try:
        answer = await coordinator._send_req(DescribeGroupsRequest([coordinator.group_id]))
        _, _, state, protocol_type, protocol, members = answer.groups[0][:6]
        clients = [member[1] for member in members]
        return refused(coordinator.group_id, mine, protocol, clients, protocol_type, state)
    except KafkaError:
        return refused(coordinator.group_id, mine, "", [], "")


require_patchable(AIOKAFKA, GroupCoordinator)
patch_coordinators(GroupCoordinator, AioKafkaAssignor, _patch)
