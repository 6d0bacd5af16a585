"""Strategies for aiokafka 0.14: ``AIOKafkaConsumer(..., partition_assignment_strategy=[assignor("sticky")])``.

The client reads version 0 of what members say, forgets instance ids, and tells its strategies no generation. Each of
ours therefore meets the coordinator that it is given to (one wrapped constructor, see ``adapter.introduce``) and, on
that one coordinator, reads the members' words itself; the plan then runs in a thread, so that the event loop goes on.
What stays out of reach: the client gives up all partitions at every join, so a cooperative strategy works eagerly here.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

try:
    from aiokafka.consumer.group_coordinator import GroupCoordinator
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.errors import GroupAuthorizationFailedError, InconsistentGroupProtocolError, KafkaError
    from aiokafka.protocol.admin import DescribeGroupsRequest
    from aiokafka.protocol.group import JoinGroupRequest
except ImportError:  # pragma: no cover - tried in an environment without the client
    from apportion.errors import MissingExtra

    raise MissingExtra("apportion.clients.aio_kafka", "aiokafka") from None

from apportion.assignors import Assignor as Strategy
from apportion.clients.adapter import Adapter, patch_coordinators
from apportion.clients.bridge import Bridge, JoiningMember, OffsetFeed, Settings, rack_sets
from apportion.clients.error_sentences import sentence
from apportion.clients.foreign import ForeignWatch, OnForeign, StrategyNotAsked
from apportion.clients.protocol_selection import refused
from apportion.clients.rebalance import OnPlan
from apportion.errors import UnreadableBytes
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.subscription import Subscription, read_subscription, write_subscription

log = logging.getLogger("apportion.clients")


def assignor(
    strategy: str | Strategy = "sticky",
    *,
    rack: str | None = None,
    priority: int | None = None,
    auto_offset_reset: str = "latest",
    on_plan: OnPlan | None = None,
    lag: OffsetFeed | None = None,
    on_foreign: OnForeign | None = None,
    **settings: Any,
) -> AioKafkaAssignor:
    """A strategy for ``partition_assignment_strategy``, one for each consumer.

    The arguments are those of ``apportion.clients.kafka_python.assignor``; ``on_plan`` is called in the thread that
    planned.
    """
    return AioKafkaAssignor(
        Bridge(strategy, Settings(rack, priority, auto_offset_reset, on_plan, lag, on_foreign), settings)
    )


class NotAsked(StrategyNotAsked, KafkaError):  # type: ignore[misc]
    """The same as one of the client's own errors, which ``getone`` and ``getmany`` raise."""


class AioKafkaAssignor(Adapter, AbstractPartitionAssignor):  # type: ignore[misc]
    """One consumer's strategy in aiokafka's own interface."""

    def metadata(self, topics: Iterable[str]) -> bytes:
        """What this member says when it joins, as version 3; it has let go of everything by then."""
        return write_subscription(self.bridge.subscription(topics, keeps=False))

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, bytes]:
        """As leader, where the client decoded (version 0): what stands in user data is all that is known."""
        joined = [
            JoiningMember(member, None, Subscription(tuple(subscription.subscription), subscription.user_data))
            for member, subscription in members.items()
        ]
        return self._share_out(cluster, joined)

    def _share_out(self, cluster: Any, joined: Sequence[JoiningMember]) -> dict[str, bytes]:
        coordinator = self.coordinator
        group, generation = ("", None) if coordinator is None else (str(coordinator.group_id), coordinator.generation)
        shares = self.bridge.assign(joined, AioKafkaMetadata(cluster), group, generation)
        return {member: write_assignment(share) for member, share in shares.items()}

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

    async def lead(self, coordinator: Any, response: Any) -> dict[str, bytes]:
        """The leader's part of a join, from the members' own bytes; the plan runs in a thread."""
        joined = [_joined(member) for member in response.members]
        topics = {topic for member in joined for topic in member.subscription.topics}
        coordinator._group_subscription = topics
        if not coordinator._subscription.subscribed_pattern:
            coordinator._client.set_topics(topics)
        await coordinator._client._maybe_wait_metadata()
        # What the plan saw; a topic that grows while it is made must not look as if it had been seen.
        seen = coordinator._get_metadata_snapshot()
        shares = await asyncio.to_thread(self._share_out, coordinator._cluster, joined)
        coordinator._metadata_snapshot = seen
        return shares


class AioKafkaMetadata:
    """aiokafka's metadata, as the bridge asks for it; racks come from its private tables, for want of others."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def partitions(self, topic: str) -> Iterable[int] | None:
        """Partition ids, or None before the client has metadata."""
        ids: Iterable[int] | None = self._cluster.partitions_for_topic(topic)
        return ids

    def racks(self, topic: str) -> Mapping[int, Sequence[str]]:
        """Partition id to the racks of all its replicas."""
        partitions = getattr(self._cluster, "_partitions", {}).get(topic, {})
        nodes = {node for data in partitions.values() for node in data.replicas}
        rack = {node: getattr(self._cluster.broker_metadata(node), "rack", None) for node in nodes}
        return {p: [r for node in data.replicas if (r := rack[node])] for p, data in partitions.items()}


def _joined(member: Sequence[Any]) -> JoiningMember:
    """A member of a JoinGroup answer: id, instance id (version 5), bytes."""
    member_id, raw = str(member[0]), bytes(member[-1])
    instance = member[1] if len(member) > 2 else None
    try:
        subscription = read_subscription(raw)
    except UnreadableBytes as error:
        log.warning("member %s sent no subscription that anyone can read (%s); it gets nothing", member_id, error)
        subscription = Subscription(())
    return JoiningMember(member_id, instance or None, subscription)


# -- the coordinator --------------------------------------------------------------------------------------------------


def _patch(coordinator: Any, ours: Sequence[AioKafkaAssignor]) -> None:
    """Mend on this one coordinator what would break a group (seen with aiokafka 0.14).

    * The leader's strategy gets the whole JoinGroup answer, not what version 0 leaves of it.
    * With several strategies the client sends one JoinGroup for each, the first with the first alone, so that the
      group is asked for a choice that no member meant. Now the first names them all, and the others are not sent.
    * A refusal for want of a common strategy says what each side has, and one for want of a right how it is given.
    * When replicas move to other racks, a leader with a rack rejoins (KIP-881): racks are part of what it watches.
    """
    self = weakref.ref(coordinator)
    ranked = any(strategy.bridge.settings.rack for strategy in ours)
    rejoin, send = type(coordinator)._do_rejoin_group, type(coordinator)._send_req
    joined: list[Any] = [None]

    async def perform_assignment(response: Any) -> Mapping[str, Any]:
        c: Any = self()
        strategy = c._lookup_assignor(response.group_protocol)
        if not isinstance(strategy, AioKafkaAssignor):
            return dict(await type(c)._perform_assignment(c, response))
        return await strategy.lead(c, response)

    def snapshot() -> dict[str, Any]:
        c: Any = self()
        sizes: dict[str, Any] = type(c)._get_metadata_snapshot(c)
        if not ranked:
            return sizes
        view = AioKafkaMetadata(c._cluster)
        return {topic: (size, rack_sets(view.racks(topic))) for topic, size in sizes.items()}

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

    coordinator._perform_assignment = perform_assignment

    async def coordinator_known() -> Any:
        c: Any = self()
        try:
            return await type(c).ensure_coordinator_known(c)
        except GroupAuthorizationFailedError as error:
            raise GroupAuthorizationFailedError(sentence(error, f"group {c.group_id}")) from None

    coordinator.ensure_coordinator_known = coordinator_known
    coordinator._get_metadata_snapshot = snapshot
    coordinator._send_req = send_req
    coordinator._do_rejoin_group = do_rejoin_group
    _watch_for_the_broker(coordinator, ours)


def _watch_for_the_broker(coordinator: Any, ours: Sequence[AioKafkaAssignor]) -> None:
    """On this one coordinator, notice that nobody leads, and where the strategy asks for it stop for good.

    The client has given everything back before it joined; what it raises reaches the user at each call.
    """
    self: Callable[[], Any] = weakref.ref(coordinator)
    watch = ForeignWatch([strategy.bridge for strategy in ours])
    send, rejoin = coordinator._send_req, coordinator._do_rejoin_group
    complete = type(coordinator)._on_join_complete

    async def send_req(request: Any) -> Any:
        response = await send(request)
        if isinstance(request, JoinGroupRequest) and not response.error_code:
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
        _, _, _, protocol_type, protocol, members = answer.groups[0][:6]
        return refused(coordinator.group_id, mine, protocol, [member[1] for member in members], protocol_type)
    except KafkaError:
        return refused(coordinator.group_id, mine, "", [], "")


patch_coordinators(GroupCoordinator, AioKafkaAssignor, _patch)
