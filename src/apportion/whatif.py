"""What if: a change to a group as a function from group to group, and a list of changes replayed one after the other.

A change written as text is a step: ``join 2``, ``join 1 like pod-3``, ``leave pod-3``, ``grow clicks:24``,
``lose-rack b``, ``lag clicks:0=1000000``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from apportion.arrays import CAPACITY_MAX, UNKNOWN, Longs
from apportion.assignors import Assignor
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.errors import BadInput, UnknownName
from apportion.model import edits
from apportion.model.build import build
from apportion.model.group import Group, Offsets
from apportion.model.group_json import MOST_PARTITIONS, GroupLike, group_of, group_to_dict
from apportion.model.plan import Later, Plan
from apportion.model.to_names import partitions_to_names
from apportion.planning import plan, strategy_of
from apportion.wording import count

MOST_MEMBERS: Final = 100_000
"""That one step may add: a slip of the finger must not exhaust the memory."""
MOST_ROUNDS: Final = 1_000
"""Rebalances after one step; two copies a round are restored by default."""
_INT64: Final = 2**63 - 1


def join(group: Group, n: int = 1, like: str | None = None) -> Group:
    """N new members ``join-1``, ``join-2`` ... with the commonest subscription, no past and no rack.

    Of subscriptions equally common, the one of the first member counts; names that are taken are passed over.

    like
        A member whose subscription they have instead, named as ``leave`` takes it.
    """
    if not 1 <= n <= MOST_MEMBERS:
        raise BadInput("join", str(n), f"how many members come, from 1 to {MOST_MEMBERS}")
    count = np.bincount(group.subscription_of, minlength=len(group.subscriptions))
    commonest = int(count.argmax())
    if like is not None:
        commonest = int(group.subscription_of[group.members.index(member_named(group, like))])
    taken = set(group.members)
    names = list(islice((name for i in range(1, n + group.M + 1) if (name := f"join-{i}") not in taken), n))
    topics = [group.topics[t] for t in group.subscriptions[commonest].tolist()]
    return with_changed_members(group, (), {name: {"topics": topics} for name in names})


def leave(group: Group, member: str) -> Group:
    """A member is gone, and its claims with it: named by member id, instance id or a client id of its own.

    By the name of a host all that are on it are gone.
    """
    of_host = {m for m, host in zip(group.members, group.hosts, strict=False) if host == member}
    gone = of_host if of_host and member not in group.members else {member_named(group, member)}
    return _without(group, gone, f"leave {member}")


def grow(group: Group, topic: str, n: int) -> Group:
    """The topic has N partitions now; the new ones are empty and follow the highest id that is described."""
    if topic not in group.topics:
        raise UnknownName("topic", topic, group.topics)
    of_topic = group.partitions(group.topics.index(topic))
    numbers = group.number[of_topic]
    old = int(numbers.max()) + 1 if len(numbers) else 0
    if not old < n:
        raise BadInput(f"grow {topic}", count(n, "partition"), f"more than the {old} there are: a topic never shrinks")
    if n - old + group.P > MOST_PARTITIONS:
        raise BadInput(f"grow {topic}", count(n, "partition"), f"at most {MOST_PARTITIONS:,} in the whole group")
    raw = group_to_dict(group)
    logs_known = bool(group.lag_known[of_topic].any())
    raw["topics"][topic] = _grown(raw["topics"].get(topic, 0), old, n, logs_known)
    return build(raw)


def _grown(description: int | list[dict[str, Any]], old: int, n: int, logs_known: bool) -> int | list[dict[str, Any]]:
    """A topic's description with partitions old to n - 1 added, whose logs are empty if logs are described."""
    if isinstance(description, int):
        return n
    empty = {"begin": 0, "end": 0} if logs_known else {}
    return description + [{"partition": p, **empty} for p in range(old, n)]


def lose_rack(group: Group, rack: str) -> Group:
    """The rack's members are gone, and its replicas: no partition can be read there any more.

    A partition that had replicas nowhere else stays in the group without a rack, as Kafka's assignors hand out
    partitions that have no leader.
    """
    if group.racks is None or rack not in group.racks.names:
        raise UnknownName("rack", rack, group.racks.names if group.racks is not None else ())
    r = group.racks.names.index(rack)
    gone = {group.members[m] for m in np.flatnonzero(group.racks.of_member == r).tolist()}
    without_rack = _without(group, gone, f"lose-rack {rack}")
    raw = group_to_dict(without_rack)
    for description in raw["topics"].values():
        for entry in description if isinstance(description, list) else ():
            if rack in entry.get("racks", ()):
                entry["racks"] = [other for other in entry["racks"] if other != rack]
    return build(raw)


def last_replicas(group: Group, rack: str) -> dict[str, list[int]]:
    """Partitions all of whose known replicas are in the rack, topic to ids: with the rack they are lost.

    >>> from apportion.model.group_json import GroupLike, group_of, read_group
    >>> racks = [{"partition": 0, "racks": ["a"]}, {"partition": 1, "racks": ["a", "b"]}]
    >>> last_replicas(read_group({"topics": {"t": racks}, "members": {"m": {"topics": ["t"]}}}), "a")
    {'t': [0]}
    """
    if group.racks is None or rack not in group.racks.names:
        return {}
    alone = (group.racks.names.index(rack),)
    only = np.array([racks == alone for racks in group.racks.sets] + [False])  # -1, unknown, is the last one
    return partitions_to_names(group, only[group.racks.set_of])


def set_lag(group: Group, topic: str, partition: int, lag: int) -> Group:
    """The partition has this many messages left to read, whatever its offsets say."""
    if topic not in group.topics:
        raise UnknownName("topic", topic, group.topics)
    if not 0 <= lag <= _INT64:
        raise BadInput(f"lag {topic}:{partition}", str(lag), f"messages, from 0 to {_INT64}")
    of_topic = group.partitions(group.topics.index(topic))
    hit = np.flatnonzero(group.number[of_topic] == min(partition, 2**31))
    if not len(hit):
        raise BadInput(f"lag {topic}:{partition}", "no such partition", f"one of the topic's {_span(group, of_topic)}")
    unknown: Longs = np.full(group.P, UNKNOWN, dtype=np.int64)
    offsets = group.offsets or Offsets(unknown, unknown, unknown, unknown)
    lags = offsets.lag.copy()
    lags[of_topic.start + int(hit[0])] = lag
    return replace(group, offsets=replace(offsets, lag=lags))


def set_capacity(group: Group, member: str, capacity: int) -> Group:
    """The member can take this much compared with the others: by member id, instance id or a client id of its own."""
    if not 1 <= capacity <= CAPACITY_MAX:
        raise BadInput(f"capacity {member}", str(capacity), f"an integer from 1 to {CAPACITY_MAX:,}")
    capacities = group.capacity.copy()
    capacities[group.members.index(member_named(group, member))] = capacity
    return replace(group, facts={**group.facts, "capacity": capacities})


def after(plan: Plan) -> Group:
    """The group after the rebalance: the plan's assignment is the past of every member, one generation on.

    What a cooperative plan withholds belongs to nobody yet.
    """
    return plan.group.holding(plan.owner_now)


def settled(plan: Plan) -> Group:
    """The group after the rebalance and the hand-over that may follow it: the plan's target is its past.

    What the plan restores is restored.
    """
    group = plan.group.holding(plan.owner)
    return group if plan.answer.state is None else group.with_state(plan.answer.state)


def rounds(first: Plan, assignor: Assignor) -> list[Plan]:
    """The plan and those of the rebalances that it asks for, each once the copies of the one before are restored.

    The last one asks for no more, but after ``MOST_ROUNDS``, or where a round changes nothing.
    """
    plans = [first]
    while plans[-1].answer.waits and len(plans) < MOST_ROUNDS:
        before = plans[-1]
        plans.append(plan(settled(before), assignor))
        states = [step.answer.state and step.answer.state.standby for step in (before, plans[-1])]
        if states[0] == states[1] and not plans[-1].measures["moves"]:
            break
    return plans


def whole(plans: list[Plan]) -> Plan:
    """A plan and the rounds after it as one: from the first one's group to the result of the last one.

    Measures of the strategy's own, as warm-ups, are those of all rounds together, but for standbys. That no other way
    takes fewer moves in all nothing proves where it takes several rounds.
    """
    first, last = plans[0], plans[-1]
    if first is last:
        return first
    proof = {goal: "heuristic" if goal == "moves" else how for goal, how in last.proof.items()}
    measures = [step.answer.measures for step in plans]
    warmups = sum(each.get("warmups", 0) - each.get("restored", 0) for each in measures)
    number = len(plans)
    last_extra: dict[str, Callable[[], Any]] = {
        name: partial(last.answer.extra.__getitem__, name) for name in last.answer.extra
    }
    answer = replace(
        last.answer,
        proof=proof,
        measures={**last.answer.measures, "warmups": warmups},
        extra=Later({**last_extra, "rounds": lambda: number}),
    )
    return replace(first, answer=answer)


def member_named(group: Group, name: str) -> str:
    """The member id that a person means: itself, an instance id, or a client id that only one member has."""
    if name in group.members:
        return name
    for ids in (group.instance_ids, group.client_ids):
        matches = [member for member, other in zip(group.members, ids, strict=bool(ids)) if other == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            names = ", ".join(matches[:5]) + (", ..." if len(matches) > 5 else "")
            raise BadInput("member", f"{name!r}, the client id of {len(matches)} members", f"one of {names}")
    known_names = [other for ids in (group.hosts, group.instance_ids, group.client_ids) for other in ids if other]
    raise UnknownName("member", name, dict.fromkeys([*group.members, *known_names]))


def _without(group: Group, gone: set[str], step: str) -> Group:
    if len(gone) == group.M:
        raise BadInput(step, "no member left in the group", "a member that stays")
    return with_changed_members(group, gone, {}) if gone else group


def with_changed_members(group: Group, gone: Collection[str], joining: Mapping[str, Mapping[str, Any]]) -> Group:
    """The group without some members, and with others; somebody has to be left.

    joining
        Member id to its fields as in group.json; one that goes may come back under its id.
    """
    places = [m for m, member in enumerate(group.members) if member in gone] if gone else []
    if (changed := edits.with_changed_members(group, places, joining)) is not None:
        return changed
    raw = group_to_dict(group)
    staying = {member: fields for member, fields in raw["members"].items() if member not in gone}
    raw["members"] = {**staying, **{member: dict(fields) for member, fields in joining.items()}}
    return build(raw)


def _span(group: Group, of_topic: slice) -> str:
    numbers = group.number[of_topic]
    return f"{len(numbers)}, {numbers.min()} to {numbers.max()}" if len(numbers) else "partitions, of which it has none"


def change(group: Group, step: str) -> Group:
    """The group after one step given as text; ``BadInput`` if the step or its names mean nothing here."""
    verb, _, argument = step.strip().partition(" ")
    if verb not in VERBS:
        raise UnknownName("step", verb, VERBS)
    return VERBS[verb](group, argument.strip())


def texts(steps: Iterable[str]) -> list[str]:
    """Steps as a list; ``BadInput`` if they are no texts, or one, which would be taken for a list of letters."""
    if isinstance(steps, str):
        raise BadInput("steps", repr(steps), f"a list of them, [{steps!r}]")
    listed = list(steps) if isinstance(steps, Iterable) else [steps]
    if not isinstance(steps, Iterable) or not all(isinstance(step, str) for step in listed):
        raise BadInput("steps", repr(steps), "a list of texts, such as ['join 2']")
    return listed


def what_if(
    group: GroupLike,
    steps: Iterable[str],
    assignor: str | Assignor = DEFAULT_ASSIGNOR,
    settings: Mapping[str, Any] | None = None,
) -> list[tuple[str, Plan]]:
    """Each step with the plan that follows it; every next step finds the group as the plan before left it.

    Where a strategy waits for state to be restored, the plan is that of all its rounds together.

    steps
        Texts: ``join N``, ``join N like MEMBER``, ``leave MEMBER``, ``grow TOPIC:N``, ``lose-rack RACK``,
        ``lag TOPIC:PARTITION=N``, ``capacity MEMBER=N``.

    >>> pair = {"topics": {"t": 4}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}}
    >>> [(step, p.assignment) for step, p in what_if(pair, ["leave a", "join"], "roundrobin")]
    [('leave a', {'b': {'t': [0, 1, 2, 3]}}), ('join', {'b': {'t': [0, 2]}, 'join-1': {'t': [1, 3]}})]
    """
    group, steps = group_of(group), texts(steps)
    results = []
    strategy = strategy_of(assignor, settings)
    for step in steps:
        planned = rounds(plan(change(group, step), strategy), strategy)
        results.append((step, whole(planned)))
        group = settled(planned[-1])
    return results


def _join(group: Group, argument: str) -> Group:
    number, like, member = argument.partition(" like ")
    return join(group, _number("join", number, "N or N like MEMBER") if argument else 1, member if like else None)


def _grow(group: Group, argument: str) -> Group:
    topic, colon, n = argument.rpartition(":")
    if not colon:
        raise BadInput("grow", repr(argument), "TOPIC:N, as in clicks:24")
    return grow(group, topic, _number(f"grow {topic}", n, "TOPIC:N"))


def _lag(group: Group, argument: str) -> Group:
    where, equals, lag = argument.rpartition("=")
    topic, colon, partition = where.rpartition(":")
    if not equals or not colon:
        raise BadInput("lag", repr(argument), "TOPIC:PARTITION=N, as in clicks:0=1000000")
    form = "TOPIC:PARTITION=N"
    return set_lag(group, topic, _number(f"lag {topic}", partition, form), _number(f"lag {where}", lag, form))


def _capacity(group: Group, argument: str) -> Group:
    member, equals, capacity = argument.rpartition("=")
    if not equals:
        raise BadInput("capacity", repr(argument), "MEMBER=N, as in pod-0=4")
    return set_capacity(group, member, _number(f"capacity {member}", capacity, "MEMBER=N"))


def _number(where: str, text: str, form: str) -> int:
    # isdecimal and isascii: int() alone would take "1_000", " 7" and Arabic digits for numbers.
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise BadInput(where, repr(text[:60]), f"a whole number ({form})")
    return int(text)


VERBS: Final[dict[str, Callable[[Group, str], Group]]] = {
    "join": _join,
    "leave": leave,
    "grow": _grow,
    "lose-rack": lose_rack,
    "lag": _lag,
    "capacity": _capacity,
}
