"""Strategies for kafka-python 3: ``KafkaConsumer(..., partition_assignment_strategy=[assignor("sticky")])``.

The client hands its strategies neither the generation at which they lead, nor what is still held at this moment, nor
a way to ask for a rebalance. Each strategy of ours therefore meets the coordinator that it is given to (one wrapped
constructor, see ``adapter.patch_coordinators``), and on that one coordinator mends what breaks groups: see ``_patch``.
"""

from __future__ import annotations

import logging
import operator
import os
import time
import weakref
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

try:
    from kafka.consumer.subscription_state import TopicPartitionState
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.errors import (
        FencedInstanceIdError,
        GroupAuthorizationFailedError,
        InconsistentGroupProtocolError,
        KafkaError,
        UnknownTopicOrPartitionError,
    )
    from kafka.protocol.admin import DescribeGroupsRequest
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
except ImportError:  # pragma: no cover - tried in an environment without the client
    from apportion.clients.patches import KAFKA_PYTHON, unusable

    raise unusable(KAFKA_PYTHON, "apportion.clients.kafka_python") from None

from apportion.clients.adapter import Adapter, Forked, assignor_for, patch_coordinators
from apportion.clients.bridge import bridge_for
from apportion.clients.broker_takeover import StrategyNotAsked, TakeoverWatch
from apportion.clients.error_sentences import sentence
from apportion.clients.joined_group import JoinedGroup
from apportion.clients.member_bridge import JoiningMember, MemberBridge
from apportion.clients.patches import KAFKA_PYTHON, require_patchable
from apportion.clients.protocol_selection import names_itself, refused
from apportion.clients.topic_metadata import ClientMetadata, can_exist
from apportion.errors import UnreadableBytes
from apportion.wire.assignment import Assignment
from apportion.wire.partitions import Held, held, in_order
from apportion.wire.subscription import Subscription, read_subscription, write_subscription

log = logging.getLogger("apportion.clients")

REPLICAS: Final = "replica_nodes"
"""Where the client's metadata of a partition list the brokers of its replicas."""
LAST_COMMIT_MS: Final = 1_000
"""Time that the commit before a join has at least: the client gives it what is left of ``poll``, then cancels it."""


class _MustLook(Exception):
    """The broker assigns, and whether a governor keeps the strategy is to be asked first."""


class NotAsked(StrategyNotAsked, KafkaError):  # type: ignore[misc]
    """``StrategyNotAsked`` as one of the client's own errors, which ``poll`` raises."""


class KafkaPythonAssignor(Adapter, AbstractPartitionAssignor):  # type: ignore[misc]
    """One consumer's strategy in kafka-python's own interface."""

    def __init__(self, bridge: MemberBridge) -> None:
        super().__init__(bridge)
        self._planned_racks: Mapping[str, list[tuple[str, ...]]] = {}
        self._compared: tuple[Any, Any] | None = None
        self._joined: tuple[JoinedGroup, float] | None = None
        self.may_join: Callable[[], bool] = lambda: True
        """Asked when a join is due; one that is put off is due again at the next poll."""
        self.raise_if_fenced: Callable[..., None] = lambda **_: None
        """Raises FencedInstanceIdError once another member has this one's instance id; ``heard=True``: it has."""

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Cooperative strategies work eagerly too, so that a group can be switched to them in two bounces."""
        if self.bridge.cooperative:
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """What this member says when it joins, as version 3."""
        coordinator = self.coordinator
        keeps = self.bridge.cooperative
        holds = None
        if coordinator is not None:
            keeps = coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE
            holds = _held(coordinator._subscription.assigned_partitions()) if keeps else None
        subscription = self.bridge.subscription(topics, keeps=keeps, holds=holds)
        return ConsumerProtocolSubscription.decode(write_subscription(subscription))

    def lead(self, joined: JoinedGroup, began: float) -> None:
        """As leader: plan the group that ``joined`` when the client calls ``assign`` next.

        began
            ``time.perf_counter()`` at which the members' bytes came.
        """
        self._joined = joined, began

    def assign(self, cluster: Any, members: Sequence[Any]) -> Mapping[str, Any]:
        """As leader: every member's share. It does no I/O; the client calls it on its IO thread.

        members
            A stand-in or nobody after ``lead``; else members as the client decoded what they sent.
        """
        coordinator = self.coordinator
        group, generation = "", None
        if coordinator is not None:
            group, generation = str(coordinator.group_id), int(coordinator._generation.generation_id)
        view = ClientMetadata(cluster, REPLICAS)
        joined, self._joined = self._joined, None
        if joined is None:
            decoded = [
                JoiningMember(m.member_id, m.group_instance_id or None, _subscription_of(m.metadata)) for m in members
            ]
            shares = self.bridge.assign(decoded, view, group, generation)
            answer: Mapping[str, Any] = {member: _encoded(share) for member, share in shares.items()}
        else:
            answer = self.bridge.lead(joined[0], view, group, generation, joined[1])
        self._planned_racks = view.seen_racks() if self.bridge.options.rack else {}
        return answer

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Remember what this member was told."""
        partitions = tuple((topic, tuple(ids)) for topic, ids in assignment.assigned_partitions)
        coordinator = self.coordinator
        group = None if coordinator is None else str(coordinator.group_id)
        self._compared = None
        self.bridge.on_assignment(Assignment(partitions, assignment.user_data), generation, group)

    @staticmethod
    def closed(coordinator: Any) -> bool:
        """Whether it has stopped beating."""
        return bool(coordinator._heartbeat_closed)

    @staticmethod
    def close_refused(coordinator: Any) -> None:
        """The client's thread and connections: nobody has the consumer to close them by."""
        coordinator._client.close()

    def racks_moved(self, cluster: Any) -> bool:
        """Whether replicas stand in other racks than at this leader's last plan (KIP-881: then it rejoins).

        It is asked at each poll. The client makes its tables of topics and of brokers anew with each answer of a
        broker, so the same two objects say the same racks, and are read once.
        """
        view = ClientMetadata(cluster, REPLICAS)
        tables = view.tables()
        if self._compared is not None and all(map(operator.is_, tables, self._compared)):
            return False
        for topic in self._planned_racks:
            view.rack_numbers(topic)
        moved = view.seen_racks() != self._planned_racks
        self._compared = None if moved else tables
        return moved


assignor = assignor_for(KafkaPythonAssignor, bridge_for, "cooperative-sticky")


def _subscription_of(metadata: Any) -> Subscription:
    """A member's subscription as kafka-python decoded it."""
    generation = metadata.generation_id
    return Subscription(
        topics=tuple(metadata.topics),
        user_data=metadata.user_data,
        owned=tuple((claim.topic, tuple(claim.partitions)) for claim in metadata.owned_partitions or ()),
        generation=generation if generation is not None and generation >= 0 else None,
        rack=metadata.rack_id or None,
    )


def _encoded(share: Assignment) -> ConsumerProtocolAssignment:
    return ConsumerProtocolAssignment(
        version=share.version,
        assigned_partitions=[(topic, list(ids)) for topic, ids in share.partitions],
        user_data=share.user_data,
    )


def _held(partitions: Iterable[Any]) -> Held:
    owned: dict[str, list[int]] = {}
    for partition in partitions:
        owned.setdefault(partition.topic, []).append(partition.partition)
    return in_order(held(owned))


# -- the coordinator --------------------------------------------------------------------------------------------------


def _patch(coordinator: Any, ours: Sequence[KafkaPythonAssignor]) -> None:
    """Mend on this one coordinator what would break a group: every change stands in ``patches.KAFKA_PYTHON``."""
    self = weakref.ref(coordinator)
    need_rejoin = type(coordinator).need_rejoin
    join = type(coordinator)._do_join_and_sync_async
    complete = type(coordinator)._on_join_complete_async
    in_time_s = coordinator.config["session_timeout_ms"] / 2000
    answered: list[tuple[int, float, bytes]] = []

    def needs() -> bool:
        c = self()
        if c is None:
            return False
        pending = c.rejoining and c._subscription.partitions_auto_assigned()
        # The strategy in charge alone: what another saw in its own time would have it rejoin for ever.
        chosen = c._generation.protocol
        due = pending or need_rejoin(c)
        due = due or (c._is_leader and any(a.racks_moved(c._cluster) for a in ours if a.name == chosen))
        return due and all(strategy.may_join() for strategy in ours)

    async def join_and_sync() -> Any:
        c: Any = self()
        if c._generation.is_lost() and c._subscription.assigned_partitions():
            await c._on_join_prepare_async(c._generation.generation_id, c._generation.member_id)
        for generation, at, assignment in answered:
            if generation == c._generation.generation_id and time.monotonic() - at < in_time_s:
                return assignment
        try:
            assignment = await join(c)
        except InconsistentGroupProtocolError:
            raise InconsistentGroupProtocolError(await _refusal(c)) from None
        answered[:] = [(c._generation.generation_id, time.monotonic(), assignment)]
        return assignment

    async def join_complete(generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        answered.clear()
        await complete(self(), generation, member_id, protocol, assignment)

    coordinator.need_rejoin = needs
    coordinator._do_join_and_sync_async = join_and_sync
    coordinator._on_join_complete_async = join_complete
    _leave_out_deleted(coordinator)
    _name_missing_right(coordinator)
    _lead_from_bytes(coordinator)
    _watch_for_the_broker(coordinator, ours)
    _lead_after_a_restart(coordinator)
    _forget_positions(coordinator)
    _end_when_fenced(coordinator, ours)


def _lead_after_a_restart(coordinator: Any) -> None:
    """On this one coordinator, join again where a static leader came back as its own follower.

    A static member that restarts gets its place without a rebalance, and an answer that names its former member id as
    the leader (KAFKA-13435). Nobody would watch how the topics grow; a second join makes it the leader it was.
    """
    self: Callable[[], Any] = weakref.ref(coordinator)
    process, complete = coordinator._process_join_group_response, coordinator._on_join_complete_async
    follows_itself = False

    def process_join_group_response(response: Any, sent_at: float) -> None:
        nonlocal follows_itself
        process(response, sent_at)
        follows_itself = names_itself(response.leader, response.member_id, self().group_instance_id)

    async def join_complete(*args: Any) -> None:
        try:
            await complete(*args)
        finally:
            if follows_itself:
                self().request_rejoin()

    coordinator._process_join_group_response = process_join_group_response
    coordinator._on_join_complete_async = join_complete


def _forget_positions(coordinator: Any) -> None:
    """On this one coordinator, take up committed offsets after a generation that the member missed.

    The client keeps positions of partitions that it has again, as if nobody had had them in between. That holds from
    one generation to the next; a member whose SyncGroup came too late for one may have been somebody else's follower,
    and its next commit would set offsets back. A cooperative member claims what it holds, so nobody else got it.
    """
    self = weakref.ref(coordinator)
    complete = coordinator._on_join_complete_async
    last: int | None = None

    async def join_complete(generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        nonlocal last
        c: Any = self()
        if last is not None and generation != last + 1 and c._rebalance_protocol == RebalanceProtocol.EAGER:
            for partition, state in list(c._subscription.assignment.items()):
                fresh = TopicPartitionState()
                fresh.paused = state.paused
                c._subscription.assignment[partition] = fresh
        last = generation
        await complete(generation, member_id, protocol, assignment)

    coordinator._on_join_complete_async = join_complete


def _end_when_fenced(coordinator: Any, ours: Sequence[KafkaPythonAssignor]) -> None:
    """On this one coordinator, raise from each call once another member has its instance id, or the process is a fork.

    The answer to a heartbeat, a commit or a join says so, whichever comes first. By itself the client stops beating and
    says nothing: without commits of its own it would read on beside its successor.
    """
    self, pid = weakref.ref(coordinator), os.getpid()
    cls, poll, join = type(coordinator), coordinator.poll, coordinator._do_join_and_sync_async
    send_commit = coordinator._send_offset_commit_request
    fenced = False

    def noting(request: Callable[..., Any]) -> Callable[..., Any]:
        async def noted(*args: Any) -> Any:
            nonlocal fenced
            try:
                return await request(*args)
            except FencedInstanceIdError:
                fenced = True
                raise

        return noted

    async def give_up() -> None:
        c: Any = self()
        c.reset_generation()  # so that its partitions are lost, not revoked
        await c._on_close_prepare_async()

    def raise_if_fenced(*, heard: bool = False) -> None:
        nonlocal fenced
        fenced = fenced or heard
        if fenced:
            c: Any = self()
            c._net.run(give_up)
            raise FencedInstanceIdError(
                f"another member of group {c.group_id!r} has group_instance_id {c.group_instance_id!r} now, and this "
                "one has given its partitions up; give each member an id of its own"
            ) from None

    def ending(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            if os.getpid() != pid:
                raise Forked("KafkaConsumer")
            raise_if_fenced()
            try:
                return call(*args, **options)
            except FencedInstanceIdError:
                raise_if_fenced(heard=True)

        return called

    coordinator._send_heartbeat_request = noting(lambda: cls._send_heartbeat_request(self()))
    coordinator._send_offset_commit_request = noting(send_commit)
    coordinator._do_join_and_sync_async = noting(join)
    coordinator.poll = ending(poll)
    coordinator.commit_offsets_sync = ending(lambda *args, **options: cls.commit_offsets_sync(self(), *args, **options))
    for strategy in ours:
        strategy.raise_if_fenced = raise_if_fenced


def _leave_out_deleted(coordinator: Any) -> None:
    """On this one coordinator, let the commit before a join be done though topics of it were deleted."""
    self = weakref.ref(coordinator)
    prepare, send = type(coordinator)._on_join_prepare_async, type(coordinator)._send_offset_commit_request
    preparing = False

    async def join_prepare(generation: int, member_id: str, timeout_ms: float | None = None) -> None:
        nonlocal preparing
        preparing = True
        c: Any = self()
        try:
            patience_ms = None if timeout_ms is None else max(timeout_ms, LAST_COMMIT_MS)
            await prepare(c, generation, member_id, timeout_ms=patience_ms)
        except KafkaError:
            c.rejoining = True  # the listener raised: poll tells of it, and the next one joins, as Java's client does
            raise
        finally:
            preparing = False

    async def send_commit(offsets: Any) -> None:
        try:
            await send(self(), offsets)
        except UnknownTopicOrPartitionError:  # the broker has taken the other offsets of the request
            if not preparing:
                raise

    coordinator._on_join_prepare_async = join_prepare
    coordinator._send_offset_commit_request = send_commit


def _watch_for_the_broker(coordinator: Any, ours: Sequence[KafkaPythonAssignor]) -> None:
    """On this one coordinator, notice that nobody leads, and where the strategy asks for it stop for good."""
    self = weakref.ref(coordinator)
    watch = TakeoverWatch([strategy.bridge for strategy in ours])
    join = coordinator._do_join_and_sync_async
    looked = False

    def process_join_group_response(response: Any, sent_at: float) -> None:
        c: Any = self()
        type(c)._process_join_group_response(c, response, sent_at)
        if watch.looks(response.leader) and not looked:
            raise _MustLook
        if watch.joined(response.leader, str(c.group_id), int(c._generation.generation_id)):
            raise NotAsked(watch.stopped)

    async def join_and_sync() -> Any:
        nonlocal looked
        c: Any = self()
        if looked := watch.foreign:
            await _look(c, watch)
        try:
            try:
                return await join()
            except _MustLook:  # it is a member already, and joins once more
                looked = True
                await _look(c, watch)
                return await join()
        except NotAsked:
            if c._rebalance_protocol == RebalanceProtocol.COOPERATIVE:
                await c._on_close_prepare_async()  # an eager member has told its listener before it joined
            c._subscription.assign_from_subscribed([])
            await c.maybe_leave_group_async(reason="the broker assigns by the new protocol")
            raise

    def poll_unless_stopped(*args: Any, **options: Any) -> Any:
        if watch.stopped:
            raise NotAsked(watch.stopped)
        c: Any = self()
        return type(c).poll(c, *args, **options)

    coordinator._process_join_group_response = process_join_group_response
    coordinator._do_join_and_sync_async = join_and_sync
    coordinator.poll = poll_unless_stopped


async def _look(coordinator: Any, watch: TakeoverWatch) -> None:
    """Ask the coordinator's broker who assigns; one that does not answer changes nothing."""
    from apportion.inputs.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    with suppress(KafkaError):
        request = ConsumerGroupDescribeRequest(group_ids=[coordinator.group_id])
        answer = await coordinator._manager.send(request, node_id=coordinator.coordinator_id)
        watch.look(answer.to_dict()["groups"][0])


def _name_missing_right(coordinator: Any) -> None:
    """On this one coordinator, name the right to the group that is missing, and how it is given."""
    self = weakref.ref(coordinator)
    handler = type(coordinator)._handle_find_coordinator_response

    def find_coordinator(response: Any) -> Any:
        c: Any = self()
        try:
            return handler(c, response)
        except GroupAuthorizationFailedError as error:
            raise GroupAuthorizationFailedError(sentence(error, f"group {c.group_id}")) from None

    coordinator._handle_find_coordinator_response = find_coordinator


def _lead_from_bytes(coordinator: Any) -> None:
    """On this one coordinator, give the leader's strategy what members sent as bytes, before the client reads it.

    A strategy of somebody else's beside ours gets what the client reads, but for members whose bytes are no
    subscription: they killed the leader, and now want nothing.
    """
    self = weakref.ref(coordinator)
    perform = type(coordinator)._perform_assignment

    def perform_assignment(leader_id: str, protocol: str, members: Sequence[Any]) -> Any:
        began = time.perf_counter()
        c: Any = self()
        strategy = c._lookup_assignor(protocol)
        if not isinstance(strategy, KafkaPythonAssignor):
            for member in members:
                member.metadata = _readable(member.member_id, member.metadata)
            return perform(c, leader_id, protocol, members)
        joined = JoinedGroup(
            [member.member_id for member in members],
            [member.group_instance_id or None for member in members],
            [sent if type(sent := member.metadata) is bytes else bytes(sent) for member in members],
        )
        strategy.lead(joined, began)
        return perform(c, leader_id, protocol, _stand_ins(leader_id, joined, c._subscription.group_subscription()))

    coordinator._perform_assignment = perform_assignment


async def _refusal(coordinator: Any) -> str:
    """What each side has, by asking the coordinator's broker about the group."""
    mine = list(coordinator._assignors)
    try:
        request = DescribeGroupsRequest(groups=[coordinator.group_id])
        answer = await coordinator._manager.send(request, node_id=coordinator.coordinator_id)
        group = answer.groups[0]
        clients = [member.client_id for member in group.members]
        facts = (group.protocol_data or "", clients, group.protocol_type or "", group.group_state or "")
        return refused(coordinator.group_id, mine, *facts)
    except KafkaError:
        return refused(coordinator.group_id, mine, "", [], "")


def _stand_ins(leader_id: str, joined: JoinedGroup, watched: Container[str]) -> list[Any]:
    """One member that wants what the client does not watch yet, if anything: all it looks at before it asks.

    A name that no topic can have stays out, since the client would fail at it.
    """
    fresh = {topic for topic in joined.topics if topic not in watched and can_exist(topic)}
    if not fresh:
        return []
    sent = joined.subscriptions.wish_for(fresh)
    return [SimpleNamespace(member_id=leader_id, group_instance_id=None, metadata=sent)]


def _readable(member: str, raw: bytes) -> bytes:
    try:
        read_subscription(raw)
    except UnreadableBytes as error:
        log.warning("member %r sent no subscription that anyone can read (%s); it gets nothing", member, error)
        return write_subscription(Subscription(()))
    return raw


require_patchable(KAFKA_PYTHON, ConsumerCoordinator)
patch_coordinators(ConsumerCoordinator, KafkaPythonAssignor, _patch)
