"""A group of the new protocol (KIP-848) under governors: its members, ``govern``'s own code, and the checks of both.

- ``epochs``: no partition is in the answers to two members at overlapping epochs (``ValidPartitionEpoch``).
- ``whole``: the broker computes a plan's target as a whole (one member has all), or deals evenly, as by default.
- ``forgotten``: a plan that the brokers must know is followed until they load the group again. They must know it once
  they have computed with it, or once a governor and they have been there for ``KNOWN_S`` without a fault.
- ``foreign``: a group without a plan of its own is dealt evenly, whoever's member ids and plan it copies.
- ``settles``: in the end the first member has all partitions, and the governor has nothing to add.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from apportion.assignors import find
from apportion.errors import ApportionError
from apportion.governing.carrier import Carrier
from apportion.governing.governor import INSTANCE
from apportion.governing.heart import Heart
from apportion.governing.looking import Selection
from apportion.governing.rules_file import GroupRule
from apportion.governing.service import govern, governing
from apportion.sources.cluster import Cluster, connect
from apportion.sources.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.testing.simulation.checks import CALM_S, Checks, Pair
from apportion.testing.simulation.stage import FAULTS, Action, Process, Program, Stage
from apportion.wire.coordinator import EpochRecord, decode
from apportion.wire.plan_text import ASSIGNOR, MARK

GROUP: Final = "group"
TOPIC: Final = "records"
KNOWN_S: Final = CALM_S
LOOK_S: Final = 2.0
"""How often a governor looks."""
AWAY_S: Final = 1.0
"""Before a process whose brokers are away tries again."""
TURN_S: Final = 0.1


class Reader(Carrier):
    """A member that is nothing but its heartbeats: it revokes when its loop comes to it, and then says so.

    has, given
        The partitions that it works on, and those of the broker's last answer.
    """

    def __init__(self, group: str, process: Process, checks: GovernedChecks | None, member_id: str = "") -> None:
        super().__init__(group, None)
        self.member_id, self.assignor = member_id or self.member_id, ASSIGNOR
        self.process, self.checks, self.topic_id = process, checks, process.stage.cluster.topic_ids[TOPIC]
        self.has, self.given = set[Pair](), set[Pair]()

    def fields(self) -> Mapping[str, Any]:
        """Its partitions go with each heartbeat of a member."""
        fields = super().fields()
        if not self.joined or self.leaving is not None:
            return fields
        part = ConsumerGroupHeartbeatRequest.TopicPartitions
        own = [part(topic_id=self.topic_id, partitions=sorted(p for _, p in self.has))] if self.has else []
        return {**fields, "topic_partitions": own}

    def _everything(self, topics: Any) -> dict[str, Any]:
        return super()._everything([TOPIC])

    def take(self, fields: Mapping[str, Any], answer: Mapping[str, Any], connection: object) -> None:
        """Hear an answer; one that was expelled has nothing any more."""
        before = self.member_id
        super().take(fields, answer, connection)
        if self.member_id != before and self.leaving is None:
            self.given = set()
            self.give_up("lost")

    def _taken_up(self, fields: Mapping[str, Any], answer: Mapping[str, Any], connection: object, now_s: float) -> None:
        super()._taken_up(fields, {**answer, "assignment": None}, connection, now_s)
        if answer["assignment"] is not None:
            self.given = {(TOPIC, p) for part in answer["assignment"]["topic_partitions"] for p in part["partitions"]}
        if self.checks is not None:
            self.checks.answered(self.member_id, self.epoch, self.given)

    def reconcile(self, heart: Heart) -> None:
        """Revoke, then take on, as the last answer says; the next heartbeat, which is due, has it."""
        if self.given == self.has:
            return
        self.process.pause()
        self.give_up("revoked")
        fresh = self.given - self.has
        self.has |= fresh
        if self.checks is not None:
            self.checks.assigned(self.process, fresh)
        self.announce()
        self.to_say = False
        heart.wake([self])

    def give_up(self, how: str) -> None:
        """What the broker gives it no longer."""
        gone, self.has = self.has - self.given, self.has & self.given
        if gone and self.checks is not None:
            self.checks.given_up(self.process, gone, how)


def _connected(process: Process, work: Callable[[Cluster], None]) -> None:
    """Work with a connection until the process leaves; what ended because its brokers are away is started again."""
    while not process.ends():
        try:
            with connect(process.stage.cluster.bootstrap, client_id=process.name) as cluster:
                work(cluster)
        except ApportionError as error:
            process.stage.world.note("away", member=process.name, error=str(error))
            process.stage.world.park(AWAY_S)


def _beating(process: Process, carriers: list[Carrier]) -> None:
    def work(cluster: Cluster) -> None:
        heart = Heart(cluster)
        for carrier in carriers:
            heart.add(carrier)
        readers = [carrier for carrier in carriers if isinstance(carrier, Reader)]
        while not process.ends():
            process.stage.world.park(TURN_S)
            for reader in readers:
                reader.reconcile(heart)
        for carrier in carriers:
            if isinstance(carrier, Reader):
                carrier.given = set()
                carrier.give_up("closed")
            carrier.leave()
        heart.wake(carriers)
        heart.close()

    _connected(process, work)


def program(checks: GovernedChecks) -> Program:
    """What the processes of a governed group run: those whose names begin with ``g`` govern, the others read."""
    checks.stage.hostile = partial(foreign, checks)

    def govern_here(process: Process) -> None:
        def work(looks: Cluster) -> None:
            selection = Selection((GroupRule(re.compile(GROUP), find("failover")),))
            with governing(process.stage.cluster.bootstrap, None, looks, selection) as running:
                checks.governors[process] = process.stage.world.now
                govern(running, LOOK_S, partial(checks.governed, process), process.ends)

        _connected(process, work)

    def run(process: Process) -> None:
        if process.member.startswith("g"):
            govern_here(process)
            return
        reader = Reader(GROUP, process, checks)
        process.member_id = lambda: reader.member_id  # type: ignore[attr-defined]
        _beating(process, [reader])

    return run


def foreign(checks: GovernedChecks, action: Action, process: Process) -> None:
    """Another group whose members have the same ids, one of which carries a copy of the governed group's plan."""
    readers = [Reader(action["group"], process, None, member) for member in sorted(checks.members[GROUP])]
    copy = Carrier(action["group"], INSTANCE)
    if checks.carried:
        copy.carry(checks.carried, TOPIC)
    _beating(process, [*readers, *([copy] if checks.carried else [])])


class GovernedChecks(Checks):
    """The checks of a governed group, and of those that a stranger fills with its member ids.

    carried
        The newest plan of the governed group, as text.
    governors
        Process to when it began to govern.
    """

    def __init__(self, stage: Stage, *sources: Any) -> None:
        super().__init__(stage, *sources)
        self.carried = ""
        self.governors: dict[Process, float] = {}
        self._targets: dict[str, dict[str, set[int]]] = defaultdict(dict)
        self._readers: dict[str, set[str]] = defaultdict(set)
        self.members = {GROUP: self._readers[GROUP]}  # a stranger's members count nowhere, whatever their ids
        self._computed_for, self._knowing = set[str](), set[str]()
        self._quiet_s = 0.0
        self._given: dict[str, set[Pair]] = {}
        self._spans: dict[Pair, list[tuple[str, int, int]]] = defaultdict(list)

    def governed(self, process: Process, group: str, governed: Any) -> None:
        """A governor reports."""
        why = " ".join(governed.sentences)
        self.stage.world.note("governed", member=process.name, group=group, outcome=governed.outcome, why=why)

    def answered(self, member: str, epoch: int, given: set[Pair]) -> None:
        """A heartbeat's answer: a member has partitions from the first epoch to the last at which it was given them."""
        for pair in given:
            spans = self._spans[pair]
            before = next(s for s in reversed(spans) if s[0] == member) if pair in self._given.get(member, ()) else None
            if before:
                spans.remove(before)
            first = before[1] if before else epoch
            for other, begin, end in spans:
                if other != member and begin <= epoch and first <= end:
                    epochs = f"{member} at epochs {first} to {epoch}, {other} at {begin} to {end}"
                    self._broken("epochs", f"two members are given {pair}: {epochs}")
            spans.append((member, first, epoch))
        self._given[member] = set(given)

    def _written(self, key: bytes, value: bytes | None) -> None:
        record = decode(key, value)
        if not isinstance(record, EpochRecord) or record.key_type not in (5, 6, 7):
            return
        group, member, body = record.group, record.member_id or "", record.body or {}
        if record.key_type == 6 and not record.tombstone:
            self._computed(group)
        elif record.key_type == 7:
            parts = body.get("topicPartitions", ())
            self._targets[group][member] = {p for part in parts for p in part["partitions"]}
        elif record.key_type == 5 and (body.get("rackId") or "").startswith(MARK):
            self.carried = body["rackId"] if group == GROUP else self.carried
        elif record.key_type == 5:
            (self._readers[group].discard if record.tombstone else self._readers[group].add)(member)

    def _computed(self, group: str) -> None:
        """The broker has a new target."""
        members = self._readers[group]
        shares = [self._targets[group].get(member, set()) for member in sorted(members)]
        sizes = sorted(map(len, shares))
        self.stage.world.note("computed", group=group, sizes=sizes)
        if sum(sizes) > len(set().union(*shares)):
            self._broken("double", f"the target of {group} gives a partition to two members: {shares}")
        whole, even = sizes[-1:] == [sum(sizes)], not sizes or sizes[-1] - sizes[0] <= 1
        if not (even or (whole and group == GROUP)):
            check = "whole" if group == GROUP else "foreign"
            self._broken(check, f"{group} is dealt as {sizes}, which is neither a plan of its own nor the default")
        if group != GROUP:
            return
        self._learn(max(self._quiet_s, self.stage.troubled_until))
        if self._knowing & members and not whole:
            self._broken("forgotten", f"the brokers dealt {GROUP} as {sizes}, though they must know its plan")
        if (whole and not even) or self._knowing & members:
            self._knowing |= members
        self._computed_for = set(members)

    def _learn(self, quiet_s: float) -> None:
        """After a while without a fault, with a governor, the brokers must know the plan."""
        now = self.stage.world.now
        there = [p for p, at in self.governors.items() if now - at > KNOWN_S]
        there = [p for p in there if not (p.dead or p.frozen or p.leaving or p.hands_over)]
        if there and now - quiet_s > KNOWN_S:
            self._knowing |= self._computed_for

    def _happened(self, event: dict[str, Any]) -> None:
        super()._happened(event)
        if event["event"] in (*FAULTS, "close", "leave", "loaded"):
            self._learn(self._quiet_s)
        if event["event"] in FAULTS:
            self._quiet_s = self.stage.troubled_until
        elif event["event"] == "loaded":
            self._quiet_s, self._knowing = self.stage.world.now, set()
            self._computed_for = set(self.members[GROUP])

    def unsettled(self) -> tuple[str, str]:
        """Each partition has one reader, and it is the same one for all."""
        numbers = range(self.stage.cluster.topics[TOPIC])
        held = {p: [x.name for x in self.holds[TOPIC, p] if not x.dead] for p in numbers}
        if len(held[0]) == 1 and all(names == held[0] for names in held.values()):
            return "", ""
        return "settles", f"one member should have all partitions of {GROUP}, and they are held as {held}"
