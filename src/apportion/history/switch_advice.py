"""The meaning of a switch to the new protocol for one group, in sentences with figures; see ``switching``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apportion.history import switch_history
from apportion.history.switch_measures import Switch
from apportion.model.present import topic_shares
from apportion.model.protocols import CONSUMER
from apportion.strategy.registry import traits_of_protocol
from apportion.wire.plan_text import ASSIGNOR
from apportion.wording import count, percent

SESSION_MS: Final = 45_000
"""The broker's default time-out of a member's session under the new protocol."""
LOPSIDED: Final = 2.0
"""A topic is called lopsided where one member has this many times its even share."""


def loses(switch: Switch) -> list[str]:
    """The settings of the group that the broker's assignors do not look at."""
    group = switch.group
    lost: list[str] = []
    if switch.facts.kind == CONSUMER:
        return lost
    strategy = traits_of_protocol(switch.facts.strategy)  # None: of one that nobody knows, whatever there is counts
    if group.knows_racks and (strategy is None or "racks" in strategy.reads):
        lost.append("racks")
    if strategy is not None and "lag" in strategy.reads:
        lost.append("lag")
    elif strategy is not None and strategy.promise:
        lost.append("the strategy's promise")
    together = switch.together
    if together["of"] and together["now"] == together["of"] > together["online"]:
        lost.append("co-location")
    if group.has_capacities and (strategy is None or "capacity" in strategy.facts):
        lost.append("capacities")
    return lost


IF_CLIENTS: Final = "if its clients have the new protocol"
"""No broker tells which client a member runs, and client ids seldom do."""


def traps(switch: Switch) -> list[str]:
    """The traps for people who switch a group like this."""
    if switch.facts.kind == CONSUMER:
        return []
    sentences = [_first_newcomer(switch)]
    if not switch.classic_clients:
        sentences.append(
            "Its clients need the new protocol: Java's and librdkafka have it, kafka-python and aiokafka have not, and "
            "no broker knows which client a member runs."
        )
    if any(switch.group.instance_ids):
        sentences.append(
            "Static members: if an instance id is used twice, the newcomer is refused; in a classic group the older "
            "member is fenced."
        )
    other = sorted(ms for ms in switch.facts.session_timeouts_ms if ms != SESSION_MS)
    if other:
        now = ", ".join(f"{ms / 1000:g} s" for ms in other)
        sentences.append(
            f"The session time-out becomes the broker's, {SESSION_MS // 1000} s unless set otherwise; it is {now} now."
        )
    strategy = traits_of_protocol(switch.facts.strategy)
    if strategy is not None and not strategy.cooperative:
        sentences.append(
            "Callbacks get only the partitions lost and gained: those that call assign(), or take a revocation for "
            "the loss of all partitions, break."
        )
    sentences.append("Topic patterns are matched by the broker (RE2J), without look-ahead and back-references.")
    return sentences


def _first_newcomer(switch: Switch) -> str:
    if switch.blockers:
        return (
            "A consumer of the new protocol is refused; librdkafka only reports 'The group id does not exist', and "
            "reads nothing."
        )
    return (
        f"One consumer with group.protocol=consumer under the name {switch.group.name!r} converts the whole "
        "group at once; group.consumer.migration.policy=disabled on the broker refuses it."
    )


def advice(switch: Switch) -> list[str]:
    """Switch or stay, and why, most important first."""
    verdict = _verdict(switch)
    return [verdict, *_concentrated(switch), *_worked(switch), *_loads(switch), *_past(switch), *_scored(switch)]


def _verdict(switch: Switch) -> str:
    strategy = switch.facts.strategy
    if _by_plan(switch):
        return (
            "It uses the new protocol already, and a governor's plan decides: online is what uniform would assign to "
            "its members now if there were no plan."
        )
    if switch.facts.kind == CONSUMER:
        return "It uses the new protocol already: online is the assignment that the broker would compute now."
    if switch.classic_clients:
        return _other_clients(switch)
    if switch.blockers:
        who = count(sum(len(blocker.members) for blocker in switch.blockers), "member")
        whose = f" of {who}" if any(blocker.members for blocker in switch.blockers) else ""
        return (
            f"Stay, or take another strategy first: the assignments{whose} carry user data, so the broker refuses an "
            "online upgrade. Move to {DEFAULT_ASSIGNOR} first (two bounces), or stop and restart all members."
        )
    traits = traits_of_protocol(strategy)
    if traits is not None and traits.promise:
        return f"Stay: {strategy} promises {traits.promise}, and the broker's assignors do not."
    if _lopsided(switch):
        return "Stay, unless all topics are equally busy: the broker's uniform ignores topics."
    if "co-location" in switch.loses:
        return "Stay, or have members ask for range (group.remote.assignor=range): uniform separates equal numbers."
    if switch.loses:
        return f"It can switch, {IF_CLIENTS}, if it can do without {', '.join(switch.loses)}, which the broker ignores."
    if switch.blockers is None:
        return (
            f"It can switch, {IF_CLIENTS}, as far as this input shows: whether assignments carry user data is not "
            "known."
        )
    return (
        f"It can switch, {IF_CLIENTS}: the broker accepts what its strategy sends, and does all that the strategy "
        "guarantees."
    )


def _by_plan(switch: Switch) -> bool:
    """Whether the class that follows a governor's plan assigns the group, and no assignor of Kafka's."""
    return switch.facts.kind == CONSUMER and switch.facts.strategy == ASSIGNOR


def _other_clients(switch: Switch) -> str:
    """The changes that members need if they run a client without the new protocol."""
    clients = " and ".join(switch.classic_clients)
    members = sum(switch.classic_clients.values())
    who = "its members run" if members == switch.group.M else f"{members} of its {switch.group.M} members run"
    return (
        f"Stay: {who} {clients}, by their client ids, which has no new protocol. To switch, move them to a client that "
        "has it, such as confluent-kafka (librdkafka 2.4 or later) or Java's (4.0), with group.protocol=consumer."
    )


def _lopsided(switch: Switch) -> bool:
    c = switch.concentration
    return max(c["online"], c["fresh"]) >= LOPSIDED * c["even"] and max(c["online"], c["fresh"]) > c["now"]


def _concentrated(switch: Switch) -> list[str]:
    c, group = switch.concentration, switch.group
    if not c["even"] or max(c["online"], c["fresh"]) <= max(c["now"], c["even"]):
        return []
    name, plan = ("fresh", switch.fresh) if c["fresh"] >= c["online"] else ("online", switch.online)
    topic, share = max(topic_shares(group, plan.owner), key=lambda pair: pair[1])
    when = "in a group that starts without a past" if name == "fresh" else "after an online upgrade"
    after = f", {percent(c['online'])} after an online upgrade" if name == "fresh" else ""
    return [
        (
            f"One member would have {percent(share)} of {group.topics[topic]} {when}{after}; now the most is "
            f"{percent(c['now'])}, an even share {percent(c['even'])}."
        )
    ]


def _worked(switch: Switch) -> list[str]:
    """The effect of whole topics on one member if some are busier than others."""
    work = switch.busiest
    if not work or max(work["online"], work["fresh"]) <= max(work["now"], work["even"]):
        return []
    return [
        (
            f"By rates the busiest member has {percent(work['now'])} of the group's work now; "
            f"{percent(work['online'])} after an online upgrade, {percent(work['fresh'])} in a group that starts "
            f"anew, where {percent(work['even'])} is the least."
        )
    ]


def _loads(switch: Switch) -> list[str]:
    now, online = switch.now, switch.online.measures
    moved = count(online["moves"], "partition")
    sentences = [
        f"An online upgrade with the same members moves {moved}; the consumer that starts it is one member more."
    ]
    if switch.facts.kind == CONSUMER:
        sentences = [
            f"Without a plan its next target moves {moved}." if _by_plan(switch) else f"Its next target moves {moved}."
        ]
    if "lag_max" in now and "lag_max" in online and online["lag_max"] > 1.1 * now["lag_max"]:
        sentences.append(
            f"The member most behind would have {count(online['lag_max'], 'message')} to read instead of "
            f"{now['lag_max']:,}."
        )
    if online["rack_misses"] > now["rack_misses"]:
        sentences.append(
            f"{count(online['rack_misses'], 'partition')} would be read across racks, not {now['rack_misses']:,}: "
            "the broker's assignors do not look at racks."
        )
    if "co-location" in switch.loses:
        met = switch.together
        sentences.append(
            f"Of {count(met['of'], 'partition number that meets', 'partition numbers that meet')} on one member, "
            f"{met['online']:,} would still meet after an online upgrade, {met['fresh']:,} "
            "in a group that starts without a past."
        )
    return sentences


def _past(switch: Switch) -> list[str]:
    history = switch.history
    if history is None:
        return []
    moved = count(history["recorded"], "partition")
    otherwise = ", ".join(f"{history[name]:,} under {name}" for name in switch_history.replayed())
    recorded = f"In its {history['generations']:,} recorded generations {moved} moved between members that stayed"
    sentences = [f"{recorded}; it would have been {otherwise}.", *switch_history.sentences(history)]
    if history["stopped"]:
        stopped = count(history["stopped"], "partition")
        sentences.append(
            f"Its eager members gave up {stopped} at those rebalances only to get them again; under the new protocol, "
            f"as under a cooperative strategy, these would have been read on. {_still(history)}"
        )
    return sentences


def _still(history: Mapping[str, int]) -> str:
    """How long the partitions that were given up stopped, as far as records show."""
    low, high = history.get("stopped_ms_at_least"), history.get("stopped_ms_at_most")
    parts = [] if low is None else [f"at least {_seconds(low)}, from all having joined to the assignment"]
    parts += [] if high is None else [f"at most {_seconds(high)}, from the last commit before to the first after"]
    if not parts:
        return "How long they were paused is unknown: no record has the time when the rebalance began."
    return f"The median partition was paused for {', and '.join(parts)}."


def _seconds(ms: int) -> str:
    return f"{ms / 1000:,.3g} s" if ms < 100_000 else f"{ms / 1000:,.0f} s"


def _scored(switch: Switch) -> list[str]:
    score = switch.score
    if not score.epochs:
        return []
    return [
        (
            f"Of {count(score.epochs, 'target')} that this cluster's broker has recorded for groups of the new "
            f"protocol, {score.predicted:,} are predicted to the partition."
        )
    ]
