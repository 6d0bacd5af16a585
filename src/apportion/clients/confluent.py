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
* ``poll`` takes some messages ahead from librdkafka, which is quicker; those of a partition that goes are dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

try:
    from confluent_kafka import Consumer, TopicPartition
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as Part
except ImportError:  # pragma: no cover - tried in an environment without the clients
    from apportion.errors import MissingExtra

    raise MissingExtra("apportion.clients.confluent", "confluent") from None

from apportion.assignors import Assignor as Strategy
from apportion.clients.bridge import OffsetFeed
from apportion.clients.foreign import OnForeign, StrategyNotAsked
from apportion.clients.kafka_python import assignor
from apportion.clients.rebalance import OnPlan
from apportion.errors import BadInput

log = logging.getLogger("apportion.clients")

TEND_S: Final = 0.2
"""Seconds between two looks at the group, at most."""
JOIN_S: Final = 0.05
"""Seconds that one look may last while the group rebalances."""
CLOSE_MOST_S: Final = 86_400
"""Seconds that ``close`` may wait, at most."""
AHEAD: Final = 100
"""Messages that ``poll`` takes from librdkafka at a time, at most; the caller gets them one by one."""

NEEDS_CLASSIC: Final = (
    "group.protocol=classic, which the strategies need: by the new protocol (KIP-848) the broker assigns, and no "
    "client has a strategy there. It would also refuse such a member in a group whose strategy sends user data, of "
    "which librdkafka says no more than 'The group id does not exist'. For the broker's own assignors take "
    "confluent_kafka.Consumer itself, in a group of its own"
)
_SAME: Final = {
    "metadata.broker.list": "bootstrap_servers",
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
"""librdkafka's setting to kafka-python's."""
_LOGIN: Final = ("ssl.", "sasl.", "oauth", "enable.ssl.", "enable.sasl.")
"""How librdkafka's settings of TLS and logins begin."""
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
_RESETS: Final = {"earliest": "earliest", "smallest": "earliest", "beginning": "earliest", "error": "none"}


class GroupConsumer:
    """A member of a consumer group with any strategy, which fetches by confluent-kafka.

    config
        librdkafka's settings, the whole of them for the fetching client; those of TLS and logins must be such as the
        member can take too. ``enable.auto.commit`` (true) says whether the member commits by itself: every
        ``auto.commit.interval.ms`` and before each rebalance.
    topics
        What it subscribes to.
    rack
        The member's rack, told to the group; without it that of ``client.rack``, from which librdkafka fetches.
    strategy, priority, on_plan, lag, on_foreign, capacity, settings
        As for ``apportion.clients.kafka_python.assignor``.

    It belongs to one thread, as a KafkaConsumer does.

    Raises
        BadInput for settings that it cannot have, UnknownName for a strategy that does not exist; the clients' errors.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Iterable[str],
        strategy: str | Strategy = "cooperative-sticky",
        *,
        rack: str | None = None,
        priority: int | None = None,
        on_plan: OnPlan | None = None,
        lag: OffsetFeed | None = None,
        on_foreign: OnForeign | None = None,
        capacity: int = 1,
        **settings: Any,
    ) -> None:
        if not config.get("group.id"):
            raise BadInput("config", "no 'group.id'", "the group to join")
        if str(config.get("group.protocol", "classic")).lower() != "classic":
            raise BadInput("config", f"group.protocol={config['group.protocol']}", NEEDS_CLASSIC)
        if isinstance(topics, str):  # which would be taken for a list of letters
            raise BadInput("topics", repr(topics), f"a list of names, [{topics!r}]")
        reset = _RESETS.get(str(config.get("auto.offset.reset", "latest")), "latest")
        strategy = assignor(
            strategy,
            rack=rack_of(config) if rack is None else rack,
            priority=priority,
            auto_offset_reset=reset,
            on_plan=on_plan,
            lag=lag,
            on_foreign=on_foreign,
            capacity=capacity,
            **settings,
        )
        self._next = 0.0
        self._ahead: deque[Any] = deque()
        self._reading: set[Part] = set()
        self._restart: set[Part] = set()
        self._seen: dict[Part, int] = {}
        with ExitStack() as opened:
            self._fetcher = Consumer({**config, "enable.auto.commit": False, "enable.auto.offset.store": False})
            opened.callback(self._fetcher.close)
            self._member = KafkaConsumer(
                **member_settings(config), auto_offset_reset=reset, partition_assignment_strategy=[strategy]
            )
            opened.callback(self._member.close)
            self._member.subscribe(topics=list(topics), listener=_Handover(self))
            opened.pop_all()  # from now on ``close`` closes

    def __repr__(self) -> str:
        return f"GroupConsumer(reading {len(self._reading)} partitions)"

    # -- reading -----------------------------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0) -> Any:
        """One ``confluent_kafka.Message``, or None after ``timeout`` seconds."""
        if monotonic() >= self._next:
            self._tend()
        return self._ahead.popleft() if self._ahead else self._wait(timeout)

    def _wait(self, timeout: float) -> Any:
        """Fetch, with an eye on the group: what is there already at once, else the first that comes."""
        until = monotonic() + timeout
        while True:
            self._ahead.extend(self._fetcher.consume(AHEAD, 0))
            if self._ahead:
                return self._ahead.popleft()
            left = until - monotonic()
            message = self._fetcher.poll(max(0.0, min(left, TEND_S)))
            if message is not None or left <= TEND_S:
                return message
            self._tend()

    def consume(self, num_messages: int = 1, timeout: float = 1.0) -> list[Any]:
        """Up to ``num_messages`` messages; fewer, or none, after ``timeout`` seconds."""
        until = monotonic() + timeout
        got: list[Any] = []
        while True:
            if monotonic() >= self._next:
                if got:  # what was got here is not done yet, so nobody may take its partition
                    return got
                self._tend()
            while self._ahead and len(got) < num_messages:
                got.append(self._ahead.popleft())
            left = until - monotonic()
            if len(got) < num_messages:
                got += self._fetcher.consume(num_messages - len(got), max(0.0, min(left, TEND_S)))
            if len(got) >= num_messages or left <= 0:
                return got

    def commit(self) -> None:
        """Commit everything given out so far, and wait.

        Raises
            kafka-python's errors, such as CommitFailedError where the group has gone on without this member.
        """
        offsets = {part: OffsetAndMetadata(offset, "", -1) for part, offset in self._positions().items()}
        if offsets:
            self._member.commit(offsets)

    def assignment(self) -> dict[str, list[int]]:
        """Topic to the partitions that it reads."""
        ids_of: dict[str, list[int]] = {}
        for part in sorted(self._reading):
            ids_of.setdefault(part.topic, []).append(part.partition)
        return ids_of

    def close(self, timeout: float | None = None) -> None:
        """Commit (where that is automatic), leave the group, stop fetching; a second time does nothing.

        timeout
            Seconds that the broker has to answer, half of them the commit and half the good-bye; None: kafka-python's
            own 30, as many as Java's ``close()`` has. After it the group misses this member when its session ends.
        """
        if timeout is not None and not 0 <= timeout <= CLOSE_MOST_S:
            raise BadInput("timeout", repr(timeout), f"seconds, from 0 to {CLOSE_MOST_S:,}")
        try:
            self._remember()
        finally:
            try:
                self._member.close(**({} if timeout is None else {"timeout_ms": int(timeout * 500)}))
            finally:
                self._reading.clear()
                self._ahead.clear()
                self._fetcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- the group ---------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Look after the group: say how far we are, let the member act, then read what it has now."""
        self._remember()
        calm = self._member._coordinator.stable() and not self._member._coordinator.need_rejoin()
        try:
            self._member.poll(timeout_ms=0 if calm else int(JOIN_S * 1000))
        except StrategyNotAsked:
            self._follow()  # it has given everything back
            raise
        self._follow()
        self._next = monotonic() + (TEND_S if calm else 0)

    def _positions(self) -> dict[Part, int]:
        """Next offset of every partition of which something was fetched: the first that was not given out."""
        if not self._reading:
            return {}
        asked = [TopicPartition(part.topic, part.partition) for part in self._reading]
        positions = {Part(at.topic, at.partition): at.offset for at in self._fetcher.position(asked) if at.offset >= 0}
        for message in reversed(self._ahead):  # so that the oldest of each partition has the last word
            if message.error() is None:
                positions[Part(message.topic(), message.partition())] = message.offset()
        return positions

    def _remember(self) -> None:
        """Tell the member how far we are: it commits that."""
        held = self._member.assignment()
        for part, offset in self._positions().items():
            if part in held and self._seen.get(part) != offset:
                self._member.seek(part, offset)
                self._seen[part] = offset

    def _follow(self) -> None:
        """Have the fetcher read exactly what the member owns, from the committed offset on."""
        owned = set(self._member.assignment())
        gone = {part for part in self._reading if part not in owned or part in self._restart}
        self._restart.clear()
        if gone:
            self._fetcher.incremental_unassign([TopicPartition(part.topic, part.partition) for part in gone])
            self._reading.difference_update(gone)
            self._ahead = deque(m for m in self._ahead if Part(m.topic(), m.partition()) not in gone)
        new = sorted(owned - self._reading)
        starts = {part: self._member.position(part, timeout_ms=5000) for part in new}
        known = [part for part in new if starts[part] is not None]
        if known:
            at = [TopicPartition(part.topic, part.partition, starts[part]) for part in known]
            self._fetcher.incremental_assign(at)
            self._reading.update(known)

    def given_up(self, parts: Sequence[Any], *, expelled: bool) -> None:
        """The member lets go of these (called by it, inside of ``_tend`` or ``close``)."""
        if not expelled and self._member.config["enable_auto_commit"]:
            # At most what was given out while the join was on its way; it reaches the broker before the next join.
            offsets = {part: OffsetAndMetadata(o, "", -1) for part, o in self._positions().items() if part in parts}
            if offsets:
                self._member.commit_async(offsets)
        self._restart.update(parts)
        for part in parts:
            self._seen.pop(part, None)


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


def rack_of(config: Mapping[str, Any]) -> str | None:
    """The rack that librdkafka is told; an empty one is none, as there."""
    return str(config.get("client.rack") or "") or None


def member_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings for the member, from librdkafka's.

    Raises
        BadInput for a setting of TLS or logins without a counterpart: without it the member would look for the brokers
        in another way than the fetching client, and find none.
    """
    both = [name for name in _SAME if name.startswith(_LOGIN)] + [_HOST_CHECK]
    if alone := sorted(name for name in config if name.startswith(_LOGIN) and name not in both):
        needed = "settings that the group's member, a kafka-python consumer, has too: "
        raise BadInput("config", ", ".join(alone), needed + ", ".join(both))
    settings = {theirs: config[ours] for ours, theirs in _SAME.items() if ours in config}
    settings["bootstrap_servers"] = str(settings.get("bootstrap_servers", "localhost")).split(",")
    settings = {name: int(value) if name.endswith("_ms") else value for name, value in settings.items()}
    if "security_protocol" in settings:
        settings["security_protocol"] = str(settings["security_protocol"]).upper()
    if str(config.get(_HOST_CHECK) or "").lower() == "none":
        settings["ssl_check_hostname"] = False
    auto = str(config.get("enable.auto.commit", True)).lower() not in ("false", "f", "0")
    return {**settings, "enable_auto_commit": auto}
