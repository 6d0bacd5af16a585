"""One group's governor: it plans the group as seen, has carriers bring the plan, and reads the result back.

It does no I/O. ``step`` takes the group as one look at the cluster shows it, and leaves what is to be sent with the
carriers, whose heartbeats run by themselves (``heart``). While no governor is there nothing moves, and members that die
are replaced as the last plan's rank says.

What it reads back is the broker's target. The carrier's plan is described with the group's epoch; once the target is of
that epoch, the class has computed with the plan. If the target is another one, then either another carrier has a higher
number, and the plan is published again above it, or the class does not trust this carrier, which is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from apportion.acting.rule import decide
from apportion.governing.carrier import HAND_OVER, LEAVE, Carrier
from apportion.governing.heart import Heart
from apportion.governing.plans import adopted, differences, governed_plan, member_keys, outlook
from apportion.governing.rules_file import GroupRule
from apportion.governing.seen_group import Carried, GroupToGovern
from apportion.model.group import Group
from apportion.model.protocols import CLASSIC, CONSUMER
from apportion.sighting.sighting import Sighting
from apportion.sources.cluster import Cluster, patiently
from apportion.wire import plan_text
from apportion.wire.plan_text import ASSIGNOR, RELEASE, GovernedPlan, PlanPart
from apportion.wording import count

INSTANCE: Final = "apportion-governor"
CLASS: Final = "io.apportion.broker.GovernedAssignor"
AGAIN_S: Final = 30.0
"""Before a plan that the brokers do not follow is published again."""
RESOLVED_S: Final = 15.0
"""Brokers resolve a group's expressions 10 s apart at most, and compute again; until then a target may be another."""


def without_class(cluster: Cluster) -> dict[str, str]:
    """Each broker that lacks the class among its ``group.consumer.assignors``, and the classes it has.

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
            lacking[str(broker)] = value or "(unknown: DescribeConfigs on the cluster is needed)"
    return lacking


@dataclass(frozen=True)
class Governed:
    """The result of one pass for a group, for logs, metrics and tests.

    at
        When, seconds since 1970.
    outcome
        ``publishing`` (it is on its way), ``published``, ``unchanged``, ``planning`` (in a worker process), ``refused``
        (the brokers follow another plan), ``waiting`` (another governs), ``not ours`` (the group uses another
        assignor), ``empty``, ``failed``.
    number
        Of the plan that is carried; None before the first.
    differs
        Partitions whose target is another one than this plan wants.
    """

    at: float
    outcome: str
    number: int | None = None
    differs: int = 0
    members: int = 0
    sentences: tuple[str, ...] = ()


@dataclass
class Governor:
    """One group's governor.

    key
        What plans are signed with; None where the brokers go by the carriers' instance id.
    compute
        Calls a function with arguments, here or in a worker process; gives its answer, or None if it still runs.
    """

    heart: Heart
    group: str
    rule: GroupRule
    key: bytes | None = None
    instance_id: str = INSTANCE
    compute: Callable[..., Any] = lambda function, *args: function(*args)
    carriers: list[Carrier] = field(default_factory=list)
    published_at: float = 0.0
    _plan: GovernedPlan | None = None
    _said: Governed | None = None
    _mark: object = None
    _topic: str = ""
    _published_s: float = 0.0
    _since_s: float | None = None

    def step(self, seen: GroupToGovern) -> Governed:
        """Take one look at the group, and have a plan published if it differs from the one that is carried."""
        if self.follows and seen.mark is not None and seen.mark == self._mark:
            return Governed(time.time(), "unchanged", self._number, 0, len(self._plan.members if self._plan else ()))
        foreign = self._foreign(seen.sighting)
        if foreign:
            self.leave(LEAVE)
            return Governed(time.time(), "not ours", sentences=(foreign,))
        heard = self._heard(seen.carried)
        if heard is not None:
            return heard
        group = self.rule.with_facts(seen.sighting.group)
        if not group.M:
            return Governed(time.time(), "empty")
        governed = self._planned(group, seen)
        self._mark = seen.mark if governed.outcome == "unchanged" and seen.computed else None
        return governed

    @property
    def follows(self) -> bool:
        """Whether it has a plan, and all its carriers are in the group."""
        return self._plan is not None and all(carrier.joined and carrier.settled for carrier in self.carriers)

    @property
    def named(self) -> set[str] | None:
        """The members that its plan names; None before the first."""
        return {key.member_id for key in self._plan.members} if self._plan else None

    @property
    def _number(self) -> int | None:
        return self._plan.number if self._plan else None

    def _planned(self, group: Group, seen: GroupToGovern) -> Governed:
        carried = seen.carried
        plan = self.compute(governed_plan, group, self.rule, self._next_number(carried))
        if plan is None:
            return Governed(time.time(), "planning", members=group.M)
        if self._plan is None and "lag" in self.rule.assignor.goals:
            plan = adopted(plan, group)  # whoever governed before had a reason, and a new governor begins with a rest
        why, sentences = self._why_not(plan, group), tuple[str, ...]()
        if self._plan is not None and why is not None:
            resolving = seen.by_expression and time.monotonic() - self._published_s < RESOLVED_S
            why_other = self._not_followed(group, carried) if seen.computed and not resolving else ""
            if not why_other:
                return Governed(time.time(), "unchanged", self._plan.number, 0, group.M, (why,) if why else ())
            differs = differences(self._plan, group)
            if time.monotonic() - self._published_s < AGAIN_S and not self._overtaken(carried):
                return Governed(time.time(), "refused", self._plan.number, differs, group.M, (why_other,))
            plan, sentences = replace(self._plan, number=plan.number), (why_other,)
        self._publish(plan, group, carried)
        self._said = Governed(time.time(), "published", plan.number, differences(plan, group), group.M, sentences)
        return replace(self._said, outcome="publishing")

    # -- what became of the last plan ---------------------------------------------------------------------------------

    def _heard(self, carried: Carried) -> Governed | None:
        """The carriers' trouble since the last pass; None if they carry the right plan."""
        if not self.carriers:
            return None
        if not all(carrier.settled for carrier in self.carriers):
            return Governed(time.time(), "publishing", members=len(self._plan.members) if self._plan else 0)
        if any(carrier.taken for carrier in self.carriers):
            self.leave(LEAVE)
            return Governed(time.time(), "waiting", sentences=(self._holder(carried),))
        if trouble := next((carrier.trouble for carrier in self.carriers if carrier.trouble), ""):
            return Governed(time.time(), "failed", self._number, sentences=(trouble,))
        said, self._said = self._said, None
        return said

    def _holder(self, carried: Carried) -> str:
        """Who has the lease, as a sentence."""
        for seat, _ in carried:
            if seat["instance_id"] == self.instance_id and seat["member_id"] not in self._own_ids():
                return f"{who(seat)} governs {self.group}"
        return f"another governor has {self.instance_id} in group {self.group}"

    def _own_ids(self) -> set[str]:
        return {carrier.member_id for carrier in self.carriers}

    def _overtaken(self, carried: Carried) -> list[tuple[Mapping[str, Any], PlanPart]]:
        """The carriers of others whose plan has our number, or a higher one."""
        own, number = self._own_ids(), self._plan.number if self._plan else 0
        return [(seat, part) for seat, part in carried if seat["member_id"] not in own and part.number >= number]

    def _not_followed(self, group: Group, carried: Carried) -> str:
        """Why the target, which was computed with our plan, is another one; "" if it is the plan's."""
        plan = self._plan
        numbers = {part.number for seat, part in carried if seat["member_id"] in self._own_ids()}
        if plan is None or numbers != {plan.number} or not differences(plan, group):
            return ""
        if others := self._overtaken(carried):
            seat, part = max(others, key=lambda other: other[1].number)
            return f"{who(seat)} carries plan {part.number}, which the brokers follow"
        return (
            f"the brokers have {count(differences(plan, group), 'partition')} elsewhere than plan {plan.number}, which "
            "is carried: is apportion.plan.key.file on the brokers another key, or is "
            f"{self.instance_id} missing in apportion.plan.carriers, or is the class of another version?"
        )

    def _foreign(self, seen: Sighting) -> str:
        """Why the group is not to be governed as it is now; "" if it is."""
        if seen.protocol == CLASSIC and self.rule.convert:
            if seen.assigned_data:
                return f"{self.group} is classic, and its assignments carry user data: the broker would not convert it"
            if seen.state != "Stable":  # whoever is joining would hear of an error, which aiokafka's start() raises
                return f"{self.group} is {seen.state}: a classic group is converted once it is Stable"
            return ""  # the carrier's joining converts it, and the plan is there before anything is computed
        if seen.protocol != CONSUMER or seen.assignor != ASSIGNOR:
            return (
                f"{self.group} is assigned by {seen.assignor or 'nobody'}; needed is group.remote.assignor={ASSIGNOR}"
            )
        if not self.rule.convert and seen.group.M and len(seen.classic_members) == seen.group.M:
            return f"{self.group} has classic members alone, and becomes classic again once no carrier is in it"
        return ""

    def let_go(self, group: Group, carried: Carried) -> None:
        """Give the group back to uniform: the members that are named are let go."""
        release = GovernedPlan(self._next_number(carried), RELEASE, member_keys(group), (), {})
        self._publish(release, group, carried)

    def leave(self, epoch: int = LEAVE) -> None:
        """Leave: the plan in the brokers' memory stays in force until the group changes hands.

        epoch
            ``HAND_OVER`` leaves the plan in the group until the session ends, so that a successor finds it.
        """
        for carrier in self.carriers:
            carrier.leave(LEAVE if self.rule.convert and epoch == HAND_OVER else epoch)
        self.heart.wake(self.carriers)
        self.carriers, self._plan, self._said, self._mark = [], None, None, None

    def _why_not(self, plan: GovernedPlan, group: Group) -> str | None:
        """Why the plan is not published: "" if it is the one that is carried; None if it will be."""
        was = self._plan
        if was is None or not all(carrier.joined for carrier in self.carriers):
            return None
        if was.content == plan.content:
            self._since_s = None
            return ""
        sizes = [{topic: len(owners) for topic, owners in governed.owners.items()} for governed in (was, plan)]
        if "lag" not in self.rule.assignor.goals or was.members != plan.members or sizes[0] != sizes[1]:
            return None  # somebody came or went, or a topic grew
        decision = decide(self.rule.acting, time.monotonic(), self._published_s, self._since_s, outlook(plan, group))
        self._since_s = decision.since_s
        return None if decision.act else decision.why

    def _next_number(self, carried: Carried) -> int:
        """Beyond all that are carried, by us or by others: those alone does the class compare."""
        return 1 + max([self._plan.number if self._plan else 0, *(part.number for _, part in carried)])

    def _publish(self, plan: GovernedPlan, group: Group, carried: Carried) -> None:
        self.carriers = self.carriers or [Carrier(self.group, self.instance_id, self.rule.convert)]
        self.published_at = time.time()
        texts = plan_text.texts(plan, self.carriers[0].member_id, self.key, self.published_at)
        taken = {seat["instance_id"] for seat, _ in carried if seat["member_epoch"] >= 0}
        names = (f"{self.instance_id}-{n}" for n in range(2, 2 + len(taken) + 2 * len(texts)))
        free = (name for name in names if name not in taken)
        while len(self.carriers) < len(texts):
            self.carriers.append(Carrier(self.group, next(free), self.rule.convert))
        there = np.flatnonzero(group.described).tolist()
        self._topic = group.topics[there[0]] if there else self._topic
        for carrier, text in zip(self.carriers, texts, strict=False):
            carrier.carry(text, self._topic)
            self.heart.add(carrier)
        for spare in self.carriers[len(texts) :]:
            spare.leave()
        self.heart.wake(self.carriers)
        del self.carriers[len(texts) :]
        self._plan, self._published_s, self._since_s = plan, time.monotonic(), None


def who(seat: Mapping[str, Any]) -> str:
    """A carrier, as a log names it."""
    return f"{seat['instance_id'] or seat['member_id']} ({seat['client_id']} at {seat['client_host']})"
