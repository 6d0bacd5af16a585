"""A member's behaviour once the broker assigns by the new protocol, and no longer asks the member's own strategy.

One consumer with ``group.protocol=consumer`` (KIP-848) that joins a classic group turns it into one of the new
protocol, unless the broker forbids it or an assignment carries user data. The classic members stay, join and sync as
before, and get what the broker's ``uniform`` gives them: a failover group of 24 and 0 partitions becomes 8, 8 and 8
without a word. What gives it away is the answer to JoinGroup. In a classic group it names the leader; in a group of
the new protocol nobody leads, and the name is empty (Kafka, ``GroupMetadataManager.classicGroupJoinToConsumerGroup``).
When the last member of the new protocol has left, the group is classic again, and the next answer names a leader.

A governor may keep the strategy all the same (``apportion govern``): its plan comes through the group, and the class on
the brokers follows it. A member that would stop looks for such a plan first, at the group's coordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from apportion.clients.rebalance import PlannedRebalance
from apportion.errors import ApportionError, BadInput
from apportion.strategy.traits import OnForeign, traits_of
from apportion.wire import plan_text

if TYPE_CHECKING:
    from apportion.clients.group.bridge import Bridge

log = logging.getLogger("apportion.clients")


class StrategyNotAsked(ApportionError):
    """The broker assigns by the new protocol, and this member's strategy must not be passed over."""


def policy(strategy: object, wanted: OnForeign | None) -> OnForeign:
    """The behaviour of a member with this strategy: as its user says, else as the strategy's promise needs.

    Raises
        BadInput for a word that is none of the three.
    """
    chosen: OnForeign = traits_of(strategy).on_foreign if wanted is None else wanted
    if chosen not in get_args(OnForeign):
        raise BadInput("on_foreign", repr(chosen), "one of " + ", ".join(get_args(OnForeign)))
    return chosen


class TakeoverWatch:
    """Looks at each answer to JoinGroup, and says once a change who assigns.

    members
        The strategies of one consumer; the strictest counts, since which of them the group would use nobody knows.
    """

    def __init__(self, members: Sequence[Bridge]) -> None:
        self.members = members
        self.policy: OnForeign = next(
            policy for policy in get_args(OnForeign) if any(m.on_foreign == policy for m in members)
        )
        self.foreign = False
        self.stopped = ""
        """The sentence with which this member stopped; "" while it takes part."""
        self.plan_keeps = False
        """Whether a governor's plan keeps what this member's strategies promise."""

    def looks(self, leader: str | None) -> bool:
        """Whether this answer to JoinGroup stops the member unless ``look`` says otherwise."""
        return not leader and self.policy == "stop"

    def look(self, group: Mapping[str, Any]) -> None:
        """Take the facts of ConsumerGroupDescribe about the group: is its strategy kept by a plan that it carries?

        A plan that was seen once counts on without its carrier, while the class assigns: the brokers remember it.
        """
        if group["assignor_name"] != plan_text.ASSIGNOR:
            self.plan_keeps = False
            return
        wanted = [plan_text.PROMISES.get(member.kept_whole, 0) for member in self.members]
        promises = plan_text.promises(group["members"])
        if promises:
            self.plan_keeps = all(bit and all(promise & bit for promise in promises) for bit in wanted)

    def joined(self, leader: str | None, group: str, generation: int | None) -> bool:
        """Take one answer without an error; True if the member must stop.

        leader
            The leader's member id in the answer.
        """
        foreign, changed = not leader, bool(leader) == self.foreign
        self.foreign, self.plan_keeps = foreign, self.plan_keeps and foreign
        if changed and foreign:
            self._began(group, generation)
        elif changed:
            log.info("group %r is classic again: %s is asked again", group, self._names())
        elif foreign and self._stops and not self.stopped:
            self._began(group, generation)  # it went on by a plan, which is no more
        return foreign and self._stops

    @property
    def _stops(self) -> bool:
        return self.policy == "stop" and not self.plan_keeps

    def _began(self, group: str, generation: int | None) -> None:
        if self.plan_keeps:
            text = (
                f"group {group!r} is of the new protocol now, and a governor's plan keeps {self._names()}: it reads on"
            )
        else:
            text = sentence(group, self._names(), self.policy)
        if self._stops:
            self.stopped = text
        levels = {"stop": logging.ERROR, "log": logging.WARNING, "continue": logging.INFO}
        level = logging.INFO if self.plan_keeps else levels[self.policy]
        log.log(level, "%s", text, extra={"apportion": {"group": group, "generation": generation, "foreign": True}})
        event = PlannedRebalance.of_broker(group, generation, self.members[0].name)
        for hook in {id(m.options.on_plan): m.options.on_plan for m in self.members}.values():
            if hook is None:
                continue
            try:
                hook(event)
            except Exception:
                log.exception("the on_plan hook failed; the rebalance goes on")

    def _names(self) -> str:
        return ", ".join(repr(member.name) for member in self.members)


def sentence(group: str, strategies: str, chosen: OnForeign) -> str:
    """Who assigns now, the consequences, and the remedy."""
    means = {
        "stop": "this member has given its partitions back and stopped",
        "log": "this member reads what the broker gives it",
        "continue": "this member reads what the broker gives it, as on_foreign='continue' says",
    }[chosen]
    read_on = "; or set on_foreign='continue' to read what the broker gives" if chosen == "stop" else ""
    return (
        f"group {group!r} is of the new protocol now, since some member has group.protocol=consumer: the broker "
        f"assigns by its own assignor, {strategies} is no longer asked, and {means}. What to do: end the members with "
        "group.protocol=consumer, and the group is classic again at once (group.consumer.migration.policy=disabled on "
        f"the broker keeps them out){read_on}."
    )
