"""Every strategy for users of confluent-kafka, whose client takes no assignor.

    consumer = GroupConsumer({"bootstrap.servers": "...", "group.id": "g"}, ["clicks"], "cooperative-sticky")
    while running:
        message = consumer.poll(1.0)

Two clients share the work. A kafka-python consumer that never fetches is the group's member: it joins, beats and
commits. A confluent-kafka consumer, told by ``assign()`` what to read, fetches. What makes it safe:

* Commits go through the member, with its generation: the broker refuses those of a member that was expelled.
* Membership moves only inside ``poll``, ``consume`` and ``commit``, in the caller's own thread. So nobody works on a
  record of a partition while it is handed over, and none of it is given out after the member has let go.
* What ``poll`` gave out counts as done when the next call comes; that is what is committed, as with Java's client.
* Next offsets are counted here, by what was given out: librdkafka's own positions count what a signal handler that
  raised kept from the caller.
* ``poll`` takes some messages ahead from librdkafka, which is quicker; those of a partition that goes are dropped.

What a partition goes through stands as a table in ``partitions``.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from math import inf
from types import TracebackType
from typing import Any, Final, Self

try:
    from confluent_kafka import Consumer, TopicPartition
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.abstract import RebalanceProtocol
    from kafka.errors import CommitFailedError, FencedInstanceIdError
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as Part
except ImportError:  # pragma: no cover - tried in an environment without the clients
    from apportion.errors import MissingExtra

    raise MissingExtra("apportion.clients.confluent", "confluent") from None

from apportion.assignors import Assignor as Strategy
from apportion.clients.confluent.partitions import (
    COMING,
    GONE,
    HELD,
    LEAVING,
    LOST,
    OWNED,
    PAUSED,
    READING,
    Event,
    Partitions,
)
from apportion.clients.confluent.settings import NEEDS_CLASSIC, RESETS, member_settings, rack_of
from apportion.clients.group.adapter import Forked
from apportion.clients.group.broker_takeover import StrategyNotAsked
from apportion.clients.group.finished import OF_SUBSCRIPTION
from apportion.clients.kafka_python import assignor
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.errors import BadInput, Unavailable
from apportion.wording import some_of

log = logging.getLogger("apportion.clients")

TEND_S: Final = 0.2
"""Seconds between two looks at the group, at most."""
JOIN_S: Final = 0.05
"""Seconds that one look may last while the group rebalances."""
WAITS_S: Final = 5.0
"""Seconds after which the log names partitions of which no position is known."""
CLOSE_MOST_S: Final = 86_400
"""Seconds that ``close`` may wait, at most."""
AHEAD: Final = 100
"""Messages that ``poll`` takes from librdkafka at a time, at most; the caller gets them one by one."""

GROUP_METADATA: Final = b"CGMDv2:"
"""How librdkafka 2 begins what it writes of a group for producers."""

OnPartitions = Callable[["GroupConsumer", list[TopicPartition]], object]
"""Called with the consumer and the partitions, as confluent-kafka calls ``on_assign`` and ``on_revoke``."""
OnComing = Callable[[list[TopicPartition]], object]
"""Called with the partitions alone, since the consumer belongs to another thread."""


class GroupConsumer:
    """A member of a consumer group with any strategy, which fetches by confluent-kafka.

    config
        librdkafka's settings, the whole of them for the fetching client; those of TLS and logins must be such as the
        member can take too. ``enable.auto.commit`` (true) says whether the member commits by itself: every
        ``auto.commit.interval.ms`` and before each rebalance.
    topics
        What it subscribes to.
    on_assigned
        Called once for partitions that are new, before any of their records; it may ``seek`` and ``pause``.
    on_revoked
        Called before the member lets partitions go, at a rebalance and in ``close``; ``commit`` still counts in it.
    on_lost
        Called when they may be somebody else's already, and commits are refused; ``on_revoked`` where None.
    warm_up
        Called with partitions that this member will get, while their owner still reads them, in a thread of its own and
        without the consumer; once it returns they are handed over. For cooperative strategies. ``on_assigned`` follows;
        ``on_revoked`` where they do not come after all. See ``apportion.clients.group.warm_up``.
    warm_up_s
        Seconds after which they are handed over though it has not returned.
    rack
        The member's rack, told to the group; without it that of ``client.rack``, from which librdkafka fetches.
    strategy, options
        As for ``apportion.clients.kafka_python.assignor``, whose ``auto_offset_reset`` stands in ``config`` here.

    It belongs to one thread, as a KafkaConsumer does; ``close`` alone may be called from another one, and from a
    signal handler: a call that is under way then ends, and closes. All callbacks are called inside of its own calls,
    in their thread; what they raise comes out of the call, once, and the rebalance goes on with the next one.

    Raises
        BadInput for settings that it cannot have, UnknownName for a strategy that does not exist; Forked in a child
        process; RuntimeError after ``close``; the clients' errors.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Iterable[str],
        strategy: str | Strategy = DEFAULT_ASSIGNOR,
        *,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
        warm_up: OnComing | None = None,
        warm_up_s: float = 300.0,
        **options: Any,
    ) -> None:
        if not config.get("group.id"):
            raise BadInput("config", "no 'group.id'", "the group to join")
        if str(config.get("group.protocol", "classic")).lower() != "classic":
            raise BadInput("config", f"group.protocol={config['group.protocol']}", NEEDS_CLASSIC)
        if isinstance(topics, str):  # which would be taken for a list of letters
            raise BadInput("topics", repr(topics), f"a list of names, [{topics!r}]")
        reset = RESETS.get(str(config.get("auto.offset.reset", "latest")), "latest")
        if "auto_offset_reset" in options:
            raise BadInput("auto_offset_reset", "it next to config", "auto.offset.reset in config alone")
        settings = member_settings(config)
        rack = options.pop("rack", None)
        options["rack"] = rack_of(config) if rack is None else rack
        if warm_up is not None:
            options["warm_up"] = lambda places: warm_up([TopicPartition(*place) for place in places])
        self._assignor = member = assignor(strategy, auto_offset_reset=reset, warm_up_s=warm_up_s, **options)
        self._warm_up = member.bridge.warm_up
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost or on_revoked
        self._forget_all()
        self._lock, self._owner, self._pid = threading.RLock(), 0, os.getpid()
        self._closing, self._closed = False, False
        self._close_timeout: float | None = None
        with ExitStack() as opened:
            self._fetcher = Consumer({**config, "enable.auto.commit": False, "enable.auto.offset.store": False})
            opened.callback(self._fetcher.close)
            self._member = KafkaConsumer(**settings, auto_offset_reset=reset, partition_assignment_strategy=[member])
            opened.callback(self._member.close)
            member.may_join = self._may_join
            self._unfinished = OF_SUBSCRIPTION.get(self._member._subscription)
            self._member.subscribe(topics=list(topics), listener=_Handover(self))
            opened.pop_all()  # from now on ``close`` closes

    def _forget_all(self) -> None:
        self._next = 0.0
        """When to look at the group again."""
        self._ahead: deque[Any] = deque()
        """Messages that the fetcher brought and nobody got yet."""
        self._given: Sequence[Any] = ()
        """What the last call gave out; it counts as done when the next one comes."""
        self._fetched: dict[tuple[str, int], int] = {}
        """Next offset behind what was fetched, of every partition that was begun."""
        self._partitions = Partitions()
        self._let_go: deque[tuple[set[Part], Event]] = deque()
        """What the member gave up or lost, on its own thread, and this one has not seen yet."""
        self._paused_before: set[Part] = set()
        """What was paused when it went, so that it is paused again should it come back at once."""
        self._tells_loss = False
        """Whether the application hears of a loss now: it is a member again, maybe, and others have read on."""
        self._unsure = False
        """Whether messages, or what it is to read, may have been lost between the fetcher and us."""
        self._waiting: tuple[frozenset[Part], float] = frozenset(), inf

    def __repr__(self) -> str:
        return f"GroupConsumer(reading {len(self._partitions.among(READING))} partitions)"

    # -- reading -----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0) -> Any:
        """One ``confluent_kafka.Message``, or None after ``timeout`` seconds; below 0 it waits for one."""
        if not self._ahead or time.monotonic() >= self._next:
            self._fill(1, timeout)
        if not self._ahead:
            return None
        message = self._ahead[0]
        self._note((message,))
        # No call from here on: Python runs signal handlers behind calls, and what one keeps from the caller must stay.
        del self._ahead[0]
        self._given = (message,)
        return message

    def consume(self, num_messages: int = 1, timeout: float = 1.0) -> list[Any]:
        """Up to ``num_messages`` messages; fewer, or none, after ``timeout`` seconds; below 0 it waits for all."""
        if len(self._ahead) < num_messages or time.monotonic() >= self._next:
            self._fill(num_messages, timeout)
        messages = list(islice(self._ahead, num_messages))
        self._note(messages)
        given, ahead = tuple(messages), deque(islice(self._ahead, num_messages, None))
        self._given, self._ahead = given, ahead  # no call from here on, as in ``poll``
        return messages

    def _note(self, messages: Iterable[Any]) -> None:
        if self._unfinished is not None:
            self._unfinished.give(message for message in messages if message.error() is None)

    def commit(self) -> None:
        """Commit everything given out so far, and wait.

        Raises
            kafka-python's errors, such as CommitFailedError where the group has gone on without this member, and
            FencedInstanceIdError once another one has its instance id.
        """
        if self._owner != threading.get_ident():  # else a callback of ours asks, in the midst of another call
            self._given = ()
        with self._turn():
            self._assignor.raise_if_fenced()
            if self._tells_loss:
                raise CommitFailedError("the partitions were lost: other members may have read on, and committed")
            offsets = {Part(*part): OffsetAndMetadata(at, "", -1) for part, at in self._positions().items()}
            if offsets:
                self._member.commit(offsets)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give out nothing of these until ``resume``; it lasts over rebalances as long as they stay here.

        Raises
            BadInput for a partition that is not this member's.
        """
        with self._turn():
            parts = self._own(partitions)
            self._stop_reading(parts)
            self._partitions.move(parts, Event.PAUSED)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on where ``pause`` stopped.

        Raises
            BadInput for a partition that is not this member's.
        """
        with self._turn():
            self._partitions.move(self._own(partitions), Event.RESUMED)
            self._next = 0.0

    def seek(self, partition: TopicPartition) -> None:
        """Go on at ``partition.offset``, an offset from 0.

        Raises
            BadInput for a partition that is not this member's, or another offset.
        """
        if partition.offset < 0:
            raise BadInput("partition.offset", str(partition.offset), "an offset, from 0")
        with self._turn():
            parts = self._own([partition])
            self._stop_reading(parts)
            self._given = tuple(message for message in self._given if _place(message) not in parts)
            self._fetched.update(dict.fromkeys(parts, partition.offset))
            self._next = 0.0

    def assignment(self) -> dict[str, list[int]]:
        """Topic to the partitions that it has, paused ones among them."""
        ids_of: dict[str, list[int]] = {}
        for topic, partition in sorted(self._partitions.among(*HELD)):
            ids_of.setdefault(topic, []).append(partition)
        return ids_of

    def consumer_group_metadata(self) -> bytes:
        """The methods of a transactional ``confluent_kafka.Producer`` that ``send_offsets_to_transaction`` needs.

        It names the member and its generation, so that the broker refuses offsets of a member that was expelled
        (KIP-447). Take it anew for each transaction.

        Raises
            CommitFailedError where this is no member at the moment: offsets without one are taken from anybody;
            FencedInstanceIdError once another one has its instance id; Unavailable where this librdkafka writes it in a
            form that is not known (known: ``CGMDv2``).
        """
        self._assignor.raise_if_fenced()
        metadata, member = self._fetcher.consumer_group_metadata(), self._member._coordinator._generation
        if member.is_lost():
            raise CommitFailedError(f"this consumer is no member of group {self._member.config['group_id']!r} just now")
        # The mark, an int32 of this machine, group and member with a zero byte each, whether there is no instance id.
        if not metadata.startswith(GROUP_METADATA):
            raise Unavailable(f"librdkafka wrote the group's metadata as {metadata[:7]!r}; {GROUP_METADATA!r} is known")
        generation = member.generation_id.to_bytes(4, sys.byteorder, signed=True)
        group, _, instance = metadata[len(GROUP_METADATA) + 4 :].split(b"\0", 2)
        return b"\0".join([GROUP_METADATA + generation + group, member.member_id.encode(), instance])

    def close(self, timeout: float | None = None) -> None:
        """Commit (if that is automatic), leave the group, stop fetching; a second time does nothing.

        timeout
            Seconds that the broker has to answer, half of them the commit and half the good-bye; None: about 5. After
            it the group misses this member when its session ends.

        In a callback, and in a signal handler that interrupts another call, it returns at once: that call ends soon,
        gives out nothing, and closes, also where the handler raises.
        """
        if timeout is not None and not 0 <= timeout <= CLOSE_MOST_S:
            raise BadInput("timeout", repr(timeout), f"seconds, from 0 to {CLOSE_MOST_S:,}")
        self._close_timeout, self._closing = timeout, True
        if self._owner == threading.get_ident() or self._pid != os.getpid():
            return
        with self._lock:
            self._given = ()
            self._shut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        """Close; after an exception without committing the last call's records, which may be the ones that failed."""
        if wrong is None or self._pid != os.getpid():
            self.close()
            return
        with self._lock:
            self._shut()

    def _shut(self) -> None:
        if self._closed:
            return
        self._owner = threading.get_ident()
        try:
            self._make_sure()
            self._hear_of_the_member()
            self._remember()
            self._give_up(self._partitions.among(COMING, *HELD), Event.TAKEN)
        finally:
            self._closed = True
            try:
                timeout = self._close_timeout
                self._member.close(**({} if timeout is None else {"timeout_ms": int(timeout * 500)}))
            finally:
                self._owner = 0
                self._forget_all()
                self._fetcher.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One call at a time; a close that was requested meanwhile happens at its end."""
        if self._pid != os.getpid():
            raise Forked("GroupConsumer")
        if self._owner == threading.get_ident():
            yield
            return
        with self._lock:
            if self._closed:
                raise RuntimeError("this GroupConsumer is closed")
            self._owner = threading.get_ident()
            try:
                yield
            except BaseException:
                # A signal handler may have raised between any two steps: what the fetcher has is asked for anew.
                self._unsure, self._next = True, 0.0
                raise
            finally:
                self._owner = 0
                if self._closing:
                    self._shut()

    def _fill(self, count: int, timeout: float) -> None:
        """Fetch until ``count`` messages are ahead or ``timeout`` seconds are over, with an eye on the group."""
        until = inf if timeout < 0 else time.monotonic() + timeout
        with self._turn():
            self._given = ()
            while not self._closing:
                if time.monotonic() >= self._next:
                    self._tend()
                if len(self._ahead) >= count:
                    return
                self._fetch(max(count - len(self._ahead), AHEAD), 0.0)  # what has come, at once
                remaining_s = until - time.monotonic()
                if len(self._ahead) >= count or remaining_s <= 0:
                    return
                self._fetch(count - len(self._ahead), min(remaining_s, TEND_S, max(0.0, self._next - time.monotonic())))

    def _fetch(self, count: int, timeout: float) -> None:
        """Take messages from librdkafka."""
        messages = self._fetcher.consume(count, timeout)
        self._ahead.extend(messages)
        for message in messages:
            if message.error() is None:
                self._fetched[_place(message)] = int(message.offset() or 0) + 1

    # -- the group ---------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Look after the group: report our positions, let the member act, then read its present partitions."""
        self._make_sure()
        self._hear_of_the_member()
        self._remember()
        calm = self._member._coordinator.stable() and not self._member._coordinator.need_rejoin()
        try:
            self._member.poll(timeout_ms=0 if calm else int(JOIN_S * 1000))
        except (StrategyNotAsked, FencedInstanceIdError):
            self._follow()  # it has given everything back
            raise
        self._follow()
        self._look_ahead()
        self._next = time.monotonic() + (TEND_S if calm and not self._waiting[0] else JOIN_S)

    def _make_sure(self) -> None:
        """Ask the fetcher again for everything, if it may have more, or less, than is noted here."""
        if self._unsure:
            self._fetcher.unassign()
            self._partitions.move(self._partitions.among(READING), Event.STOPPED)
            self._stop_reading(set(self._fetched))
            self._unsure = False

    def _positions(self) -> dict[tuple[str, int], int]:
        """Next offset of every partition that was begun: the first that does not count as done."""
        positions = dict(self._fetched)
        for message in chain(reversed(self._ahead), reversed(self._given)):  # the oldest has the last word
            if (pair := _place(message)) in positions and message.error() is None:
                positions[pair] = message.offset()
        return positions

    def _remember(self) -> None:
        """Give the member our positions: it commits them."""
        held = self._member._subscription.assignment
        for pair, offset in self._positions().items():
            state = held.get(pair)
            if state is not None and (state.position is None or state.position.offset != offset):
                self._member.seek(Part(*pair), offset)

    def _follow(self) -> None:
        """Have the fetcher read exactly the member's partitions, from its position on, if that is known.

        The member learns positions in the background: a partition without a leader keeps no other one waiting.
        """
        self._hear_of_the_member()
        states = dict(self._member._subscription.assignment)
        owned = {part for part, state in states.items() if not state._pending_revocation}
        self._paused_before &= states.keys()
        self._give_up(self._partitions.among(*HELD) - owned, Event.TAKEN)
        self._take(owned - self._partitions.among(*HELD))
        new = self._partitions.among(OWNED)
        for part in new:
            if part not in self._fetched and states[part].position is not None:
                self._fetched[part] = states[part].position.offset
        if known := sorted(new & self._fetched.keys()):
            self._fetcher.incremental_assign(
                [TopicPartition(part.topic, part.partition, self._fetched[part]) for part in known]
            )
            self._partitions.move(known, Event.FETCHED)
        self._tell_waiting(frozenset(new.difference(known)))

    def _stop_reading(self, parts: Collection[Any]) -> None:
        """Take these from the fetcher; records of them that were not delivered are fetched again if they come back."""
        for message in reversed(self._ahead):
            if (pair := _place(message)) in parts and message.error() is None:
                self._fetched[pair] = message.offset()
        self._ahead = deque(message for message in self._ahead if _place(message) not in parts)
        if stopped := self._partitions.among(READING).intersection(parts):
            self._fetcher.incremental_unassign([TopicPartition(*part) for part in stopped])
            self._partitions.move(stopped, Event.STOPPED)

    def _tell_waiting(self, waiting: frozenset[Part]) -> None:
        """Name once each partition that has had no position for some time: no other code would."""
        before, since = self._waiting
        if waiting != before:
            since = time.monotonic()
        elif time.monotonic() - since > WAITS_S:
            names = some_of([f"{part.topic}-{part.partition}" for part in sorted(waiting)])
            log.warning("no broker has answered yet where to begin in %s; all other partitions are read", names)
            since = inf
        self._waiting = waiting, since if waiting else inf

    def _own(self, partitions: Iterable[TopicPartition]) -> set[Part]:
        parts = {Part(at.topic, at.partition) for at in partitions}
        if strange := sorted(parts - self._partitions.among(*HELD)):
            names = some_of([f"{part.topic}-{part.partition}" for part in strange])
            raise BadInput("partitions", names, "partitions that this member has, see assignment()")
        return parts

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def _may_join(self) -> bool:
        """Whether the application knows which partitions the next join takes; it hears of them in its own thread."""
        if self._on_assigned is self._on_revoked is self._on_lost is None:
            return True
        coordinator = self._member._coordinator
        expelled = coordinator._generation.is_lost()
        keeps = coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE and not expelled
        gone = self._partitions.among(*HELD) - (self._member.assignment() if keeps else set())
        if gone or self._partitions.among(*GONE):
            if self._owner != threading.get_ident():
                return False
            self._give_up(gone, Event.EXPELLED if expelled else Event.TAKEN)
        return True

    def given_up(self, parts: Iterable[Part], *, expelled: bool) -> None:
        """The member lets go of these (called by it, on its own thread, inside of ``_tend`` or ``close``)."""
        self._let_go.append((set(parts), Event.EXPELLED if expelled else Event.TAKEN))

    def _hear_of_the_member(self) -> None:
        """Its lost partitions are over, even if it has them again: they may have been another member's in between."""
        while self._let_go:
            self._end(*self._let_go.popleft())

    def _end(self, parts: set[Part], event: Event) -> None:
        self._stop_reading(parts)
        self._paused_before |= parts & self._partitions.among(PAUSED)
        self._partitions.move(parts, event)

    def _give_up(self, parts: set[Part], event: Event) -> None:
        """Report to the application the partitions it lost, and news it has not heard yet; then forget them."""
        self._end(parts, event)
        for state, call in ((LOST, self._on_lost), (LEAVING, self._on_revoked)):
            gone = sorted(self._partitions.among(state))
            self._partitions.move(gone, Event.TOLD)  # before the call: one that raises is not called again
            self._tells_loss = state is LOST
            try:
                if call is not None and gone:
                    call(self, [TopicPartition(*part) for part in gone])
            finally:
                self._tells_loss = False
                for part in gone:  # a commit in the call counts
                    self._fetched.pop(part, None)

    def _take(self, parts: set[Part]) -> None:
        """Report to the application its new partitions."""
        self._partitions.move(parts, Event.GIVEN)
        self._partitions.move(parts & self._paused_before, Event.PAUSED)
        self._paused_before -= parts
        if self._on_assigned is not None and parts:
            self._on_assigned(self, [TopicPartition(*part) for part in sorted(parts)])

    def _look_ahead(self) -> None:
        """Get ready for the coming assignment, and join again once ready."""
        if self._warm_up is None:
            return
        ready, places = self._warm_up.look()
        if ready:
            self._member._coordinator.request_rejoin()
        coming = {Part(*place) for place in places}
        self._partitions.move(coming - self._partitions.among(COMING, *HELD), Event.ANNOUNCED)
        self._give_up(self._partitions.among(COMING) - coming, Event.TAKEN)


def _place(message: Any) -> tuple[str, int]:
    return message.topic(), message.partition()


class _Handover(ConsumerRebalanceListener):  # type: ignore[misc]
    """The member's own callbacks."""

    def __init__(self, consumer: GroupConsumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Any) -> None:
        """The member fetches nothing itself."""
        self._consumer._member.pause(*assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """In good order."""
        self._consumer.given_up(list(revoked), expelled=False)

    def on_partitions_lost(self, lost: Any) -> None:
        """Somebody else may have them already."""
        self._consumer.given_up(list(lost), expelled=True)
