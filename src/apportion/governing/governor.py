"""A governor: it looks at a group, plans it with a real strategy, and has a carrier bring the plan to the brokers.

While it is away nothing moves, and members that die are replaced as the last plan's rank says. One governs at a time:
the carrier is static, and a second governor waits for its instance id.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from apportion.acting.rule import decide
from apportion.errors import ApportionError, Unavailable
from apportion.governing.carrier import Carrier, LeaseTaken
from apportion.governing.plans import differences, governed_plan, outlook
from apportion.governing.rules_file import GroupRule
from apportion.inputs import live
from apportion.inputs.cluster import Cluster, patiently
from apportion.inputs.described_group import Observed
from apportion.model.group import Group
from apportion.model.group_json import read_group
from apportion.wire import plan_text
from apportion.wire.plan_text import ASSIGNOR, GovernedPlan

LOG: Final = logging.getLogger("apportion.governing")
INSTANCE: Final = "apportion-governor"
CLASS: Final = "io.apportion.broker.GovernedAssignor"


def without_class(cluster: Cluster) -> dict[str, str]:
    """Each broker that has not the class among its ``group.consumer.assignors``, and what it has.

    A member that names an assignor which its coordinator's broker lacks ends for good, so every broker is asked.

    Raises
        Unavailable: a broker does not answer, or this user may not describe its configuration.
    """
    from kafka.admin import ConfigResource, ConfigResourceType

    key = "group.consumer.assignors"
    admin, where = cluster._admin, cluster.bootstrap
    brokers = sorted(broker["broker_id"] for broker in patiently(where, admin.describe_cluster)["brokers"])
    lacking = {}
    for broker in brokers:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker), {key: None})
        ask = partial(admin.describe_configs, [resource], config_filter="all")
        configs = patiently(where, ask).get("broker", {}).get(str(broker), {})
        value = str(configs.get(key, {}).get("value") or "")
        if CLASS not in [name.strip() for name in value.split(",")]:
            lacking[str(broker)] = value or "(not told: DescribeConfigs on the cluster is needed)"
    return lacking


@dataclass
class Governed:
    """What one round came to, for logs, metrics and tests.

    at
        When, seconds since 1970.
    outcome
        ``published``, ``unchanged``, ``waiting`` (another governs), ``not ours`` (the group uses another assignor),
        ``empty``.
    number
        Of the plan that is carried; None before the first.
    differs
        Partitions that are not where the plan wants them.
    """

    at: float
    outcome: str
    number: int | None = None
    differs: int = 0
    members: int = 0
    sentences: tuple[str, ...] = ()


@dataclass
class Governor:
    """One group's governor; ``round`` looks, plans and publishes, ``beat`` keeps its carriers alive.

    key
        What plans are signed with; None where the brokers go by the carriers' instance id.
    """

    cluster: Cluster
    group: str
    rule: GroupRule
    key: bytes | None = None
    instance_id: str = INSTANCE
    carriers: list[Carrier] = field(default_factory=list)
    _plan: GovernedPlan | None = None
    _topic: str = ""
    _published_s: float = 0.0
    _since_s: float | None = None

    def beat(self) -> None:
        """Say that the carriers live, where there are any."""
        with self._anew():
            for carrier in self.carriers:
                carrier.beat()

    @contextmanager
    def _anew(self) -> Iterator[None]:
        """Where the coordinator did not answer, look for it anew the next time: it may have moved."""
        try:
            yield
        except Unavailable:
            self.cluster.forget_coordinator(self.group)
            raise

    def round(self) -> Governed:
        """Look at the group once, and publish a plan where it differs from the one that is carried.

        Raises
            Unavailable: the cluster does not answer, or refuses.
        """
        with self._anew():
            return self._round()

    def _round(self) -> Governed:
        observed = live.read(self.cluster, [self.group], leave_out=True)
        if not observed:
            return Governed(time.time(), "empty")
        seen = observed[0]
        foreign = self._foreign(seen)
        if foreign:
            self.release()
            return Governed(time.time(), "not ours", sentences=(foreign,))
        raw = self.rule.with_facts(seen.raw)
        if not raw["members"]:
            return Governed(time.time(), "empty")
        group = read_group(raw)
        plan = governed_plan(group, raw, self.rule, self._next_number(seen))
        differs = differences(plan, group, raw)
        why = self._why_not(plan, group, raw)
        if self._plan is not None and why is not None:
            self.beat()
            reasons = (why,) if why else ()
            return Governed(time.time(), "unchanged", self._plan.number, differs, group.M, reasons)
        try:
            self._publish(plan, raw)
        except LeaseTaken as taken:
            return Governed(time.time(), "waiting", None, differs, group.M, (str(taken),))
        LOG.info("%s: plan %d published, %d partitions to move", self.group, plan.number, differs)
        return Governed(time.time(), "published", plan.number, differs, group.M)

    def _foreign(self, seen: Observed) -> str:
        """Why the group is not to be governed as it is now; "" where it is."""
        if seen.kind == "classic" and self.rule.convert:
            if seen.assigned_data:
                return f"{self.group} is classic, and its assignments carry user data: the broker would not convert it"
            if seen.state != "Stable":  # whoever is joining would hear of an error, which aiokafka's start() raises
                return f"{self.group} is {seen.state}: a classic group is converted once it is Stable"
            return ""  # the carrier's joining converts it, and the plan is there before anything is computed
        if seen.kind != "consumer" or seen.protocol != ASSIGNOR:
            return (
                f"{self.group} is assigned by {seen.protocol or 'nobody'}; needed is group.remote.assignor={ASSIGNOR}"
            )
        if not self.rule.convert and seen.raw["members"] and len(seen.classic_members) == len(seen.raw["members"]):
            return f"{self.group} has classic members alone, and becomes classic again once no carrier is in it"
        return ""

    def let_go(self) -> None:
        """Give the group back to uniform: a plan without members, then leave."""
        if self._plan is not None and self.carriers:
            number = self._plan.number + 1
            [text] = plan_text.texts(GovernedPlan(number, 0, (), (), {}), self.key)
            self.carriers[0].carry(text, self._topic)
        self.release()

    def release(self) -> None:
        """Leave, plan and all: what the brokers remember stays in force until the group changes hands."""
        for carrier in self.carriers:
            try:
                carrier.leave()
            except ApportionError as error:
                LOG.warning("%s: %s did not leave: %s", self.group, carrier.instance_id, error)
        self.carriers, self._plan = [], None

    def _why_not(self, plan: GovernedPlan, group: Group, raw: Mapping[str, Any]) -> str | None:
        """Why the plan is not published: "" where it is the one that is carried; None where it shall be."""
        was = self._plan
        if was is None or not all(carrier.joined for carrier in self.carriers):
            return None
        if (was.promise, was.members, was.rank, was.owners) == (plan.promise, plan.members, plan.rank, plan.owners):
            self._since_s = None
            return ""
        sizes = [{topic: len(owners) for topic, owners in governed.owners.items()} for governed in (was, plan)]
        if "lag" not in self.rule.assignor.goals or was.members != plan.members or sizes[0] != sizes[1]:
            return None  # somebody came or went, or a topic grew
        decision = decide(
            self.rule.acting, time.monotonic(), self._published_s, self._since_s, outlook(plan, group, raw)
        )
        self._since_s = decision.since_s
        return None if decision.act else decision.why

    def _next_number(self, seen: Observed) -> int:
        """Beyond the one that is carried, by us or by who was before us, and near to milliseconds since 1970."""
        carried = [self._plan.number] if self._plan else []
        carried += [plan.number for plan in seen.carried]
        return max(int(time.time() * 1000), *[number + 1 for number in carried], 0)

    def _publish(self, plan: GovernedPlan, raw: Mapping[str, Any]) -> None:
        texts = plan_text.texts(plan, self.key)
        while len(self.carriers) < len(texts):
            number = len(self.carriers)
            name = self.instance_id if not number else f"{self.instance_id}-{number + 1}"
            self.carriers.append(Carrier(self.cluster, self.group, name, self.rule.convert))
        self._topic = next(iter(raw["topics"]), self._topic)
        try:
            for carrier, text in zip(self.carriers, texts, strict=False):
                if not carrier.joined:
                    carrier.join(text)
        except LeaseTaken:
            self.release()
            raise
        for carrier, text in zip(self.carriers, texts, strict=False):
            carrier.carry(text, self._topic)
        for spare in self.carriers[len(texts) :]:
            spare.leave()
        del self.carriers[len(texts) :]
        self._plan, self._published_s, self._since_s = plan, time.monotonic(), None
