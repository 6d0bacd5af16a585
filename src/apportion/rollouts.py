"""Rollouts before they happen: the generations that a restart or a change of size brings, and the cost of each.

Who must let go, who gets what, and how long partitions stand still differ by the protocol of the group:

- eager: whoever joins or leaves, every member gives up all it has, and all partitions are paused for one rebalance.
- cooperative (KIP-429): only what changes hands is given up; it is assigned in a second generation.
- consumer (KIP-848): the broker's strategy, and only what changes hands is given up, member by member.

A dynamic member that restarts leaves and comes back as another member: two rebalances. A static one (KIP-345) that is
back before its session ends keeps everything, and nobody else notices; after that it counts as gone, and as new when
it returns. Moves follow from the strategy and are exact where it is; times follow from three that are given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from apportion import whatif
from apportion.arrays import NOBODY, Bools, Ints, ints
from apportion.assignors import Assignor
from apportion.defaults import PROTOCOLS
from apportion.errors import BadInput, UnknownName
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.group_json import GroupLike, group_of, group_to_dict
from apportion.model.plan import Answer, Plan
from apportion.planning import plan, strategy_of
from apportion.strategy.registry import brokers
from apportion.strategy.traits import traits_of
from apportion.wording import count, some_of

Protocol = Literal["eager", "cooperative", "consumer"]
_GONE: Final = -2
"""In the place of an owner: a member that is not there any more."""
_VERBS: Final = ("rolling", "scale")
_HELD: Final = ("owned", "generation", "standby", "recovery_lag")
"""Fields of what a member has, which one that starts anew has no more."""


@dataclass(frozen=True)
class Times:
    """Seconds: until a member is back, until a silent one counts as gone, and that a partition's hand-over takes.

    The defaults of the last two are Kafka's: ``session.timeout.ms``, and one ``heartbeat.interval.ms``, after which the
    slowest member hears of a rebalance.
    """

    restart_s: float = 10
    session_s: float = 45
    rebalance_s: float = 3


@dataclass(frozen=True)
class MembershipChange:
    """The events that happen to a group at once.

    leave
        Member ids that go; ``silent``: without a word, so that the group waits for their session to end.
    join
        Member id to its fields, as in group.json.
    restart
        Static members that are back before their session ends; they are in neither list.
    """

    step: str
    leave: tuple[str, ...] = ()
    join: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    silent: bool = False
    restart: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Stage:
    """One change of the group with its cost.

    generations
        How many it takes: none where nobody notices, two where a cooperative plan withholds partitions, more where a
        strategy waits for state to be restored; the figures below are those of all of them.
    revoked
        Partitions that members which stay must let go, if only to get them back.
    taken
        Of those, the ones that they do not get back.
    moved
        Of those, the ones that go to another member, one that comes too: a move as ``history.moves`` counts it. What
        its owner's leaving set free does not move.
    read_anew
        Partitions that another member reads than before, from the last commit on; its state is restored. Those that
        a topic grew by nobody has read before, and they do not count.
    lost_replicas
        Partitions that have no replica left after a rack is lost, topic to ids.
    standstill_s
        Seconds that nobody reads, summed over the partitions; ``longest_s``: of the one that waits longest.
    still_s, movers
        (P,) the same of each partition, and the partitions that ``moved`` counts.
    """

    step: str
    plan: Plan
    generations: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    revoked: int
    taken: int
    moved: int
    read_anew: int
    standstill_s: float
    longest_s: float
    still_s: NDArray[np.float32]
    movers: Ints
    lost_replicas: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def newcomers_topics(self) -> list[str]:
        """The topics of the members that joined in a step which adds members; empty if none did."""
        if not self.joined or self.step.partition(" ")[0] not in ("join", "scale"):
            return []
        group = self.plan.group
        m = group.members.index(self.joined[0])
        return [group.topics[t] for t in group.subscriptions[int(group.subscription_of[m])].tolist()]

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON, its plan as plan.json."""
        return {
            "step": self.step,
            "generations": self.generations,
            "joined": list(self.joined),
            "left": list(self.left),
            "revoked": self.revoked,
            "taken": self.taken,
            "moved": self.moved,
            "read_anew": self.read_anew,
            "standstill_s": round(self.standstill_s, 3),
            "longest_s": round(self.longest_s, 3),
            **({"lost_replicas": dict(self.lost_replicas)} if self.lost_replicas else {}),
            **({"newcomers_topics": self.newcomers_topics} if self.newcomers_topics else {}),
            "plan": self.plan.to_dict(),
        }


def rollout(
    group: GroupLike,
    steps: Iterable[str],
    protocol: Protocol = "cooperative",
    assignor: str | Assignor | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    static: bool = False,
    by_host: bool = False,
    times: Times = Times(),
) -> list[Stage]:
    """All that the steps bring, one after the other; each finds the group as the one before left it.

    All stages stay in memory with their plans: 900 of them take 0.2 GB at 450 members and 3,000 partitions. ``walk``
    gives them one by one.

    steps
        Texts as ``what_if`` takes them, and ``rolling N`` (all members restart, N at a time) and ``scale N``.
    assignor
        A strategy or its name; None: Kafka's usual one for the protocol.
    static
        Members come back under instance ids; those that have none get their member id as one.
    by_host
        ``rolling N`` restarts the members of N hosts at a time, as the threads of N processes.
    >>> three = {"topics": {"t": 6}, "members": {m: {"topics": ["t"]} for m in "abc"}}
    >>> [(stage.step, stage.plan.measures["load_max"]) for stage in rollout(three, ["scale 2"])]
    [('scale to 2', 3)]
    """
    return list(walk(group, steps, protocol, assignor, settings, static=static, by_host=by_host, times=times))


def walk(
    group: GroupLike, steps: Iterable[str], protocol: Protocol, assignor: str | Assignor | None,
    settings: Mapping[str, Any] | None, *, static: bool, by_host: bool = False, times: Times,
) -> Iterator[Stage]:  # fmt: skip
    """The stages of ``rollout`` one by one, as each is planned."""
    group, steps = group_of(group), whatif.texts(steps)
    if not isinstance(times, Times):
        raise BadInput("times", repr(times), "apportion.rollouts.Times(...)")
    strategy = strategy_for(protocol, assignor, settings)
    if static:
        group = with_instance_ids(group)
    for step in steps:
        verb, _, argument = step.strip().partition(" ")
        if verb not in (*whatif.VERBS, *_VERBS):
            raise UnknownName("step", verb, (*whatif.VERBS, *_VERBS))
        if verb not in _VERBS:
            stage = _stage(step, group, whatif.change(group, step), strategy, protocol, times, 0.0)
            if verb == "lose-rack":
                stage = replace(stage, lost_replicas=whatif.last_replicas(group, argument.strip()))
            yield stage
            group = whatif.settled(stage.plan)
            continue
        number, _, like = argument.partition(" like ")
        size = _number(verb, number or ("1" if verb == "rolling" else ""))
        if verb == "rolling":
            changes: Iterable[MembershipChange] = rolling(group, size, static, times, by_host)
        else:
            changes = scale(group, size, static, like or None)
        for stage in follow(group, changes, strategy, protocol, times):
            yield stage
            group = whatif.settled(stage.plan)


def strategy_for(protocol: str, assignor: str | Assignor | None, settings: Mapping[str, Any] | None) -> Assignor:
    """The strategy under that protocol; BadInput if the two cannot go together."""
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise BadInput("protocol", repr(protocol), f"one of {', '.join(PROTOCOLS)}")
    name = PROTOCOLS[protocol] if assignor is None else assignor
    strategy = strategy_of(name, settings)
    traits = traits_of(strategy)
    if (protocol == "consumer") != traits.server_side:
        needed = " or ".join(brokers()) if protocol == "consumer" else "a strategy that consumers run"
        raise BadInput(f"protocol {protocol}", f"the strategy {strategy.name!r}", needed)
    if protocol == "eager" and traits.cooperative:
        raise BadInput("protocol eager", f"the strategy {strategy.name!r}", f"an eager one, as {PROTOCOLS['eager']}")
    return strategy


def protocol_of(strategy: Assignor) -> Protocol:
    """The protocol under which a strategy runs."""
    traits = traits_of(strategy)
    if traits.server_side:
        return "consumer"
    return "cooperative" if traits.cooperative else "eager"


def with_instance_ids(group: Group) -> Group:
    """The same group with every member static."""
    raw = group_to_dict(group)
    for member, fields in raw["members"].items():
        fields.setdefault("instance_id", member)
    return build(raw)


def rolling(group: Group, n: int, static: bool, times: Times, by_host: bool = False) -> Iterator[MembershipChange]:
    """All members restart, n at a time in member order; those with an instance id come back under it.

    static
        Members without an instance id come back under their member id.
    by_host
        All members of a host restart together, n hosts at a time.
    """
    if not 1 <= n <= whatif.MOST_MEMBERS:
        raise BadInput("rolling", str(n), f"how many members restart at a time, from 1 to {whatif.MOST_MEMBERS}")
    fields = group_to_dict(group)["members"]
    units = _by_host(group) if by_host else [[member] for member in group.members]
    batches = [[member for unit in units[i : i + n] for member in unit] for i in range(0, len(units), n)]
    for i, batch in enumerate(batches):
        which = f"rolling {i + 1} of {len(batches)}"
        named = tuple(m for m in batch if static or fields[m].get("instance_id"))
        back_in_time = named if times.restart_s <= times.session_s else ()
        silent = () if back_in_time else named
        loud = tuple(m for m in batch if m not in named)
        if back_in_time:
            yield MembershipChange(
                f"{which}: {some_of(back_in_time)} back in {times.restart_s:g} s", restart=back_in_time
            )
        if loud:
            yield MembershipChange(f"{which}: {some_of(loud)} gone", leave=loud)
        if silent:
            yield MembershipChange(f"{which}: {some_of(silent)} gone", leave=silent, silent=True)
        comers = {m if m in silent else _reborn(group, m, i): _bare(fields[m]) for m in batch if m not in back_in_time}
        if comers:
            yield MembershipChange(f"{which}: {some_of([m for m in batch if m not in back_in_time])} back", join=comers)


def _by_host(group: Group) -> list[list[str]]:
    """Members gathered by host, in the order of each host's first; one without a host is alone."""
    units: dict[tuple[str, str], list[str]] = {}
    hosts = group.hosts or (None,) * group.M
    for member, host in zip(group.members, hosts, strict=True):
        units.setdefault(("host", host) if host else ("member", member), []).append(member)
    return list(units.values())


def scale(group: Group, n: int, static: bool, like: str | None = None) -> list[MembershipChange]:
    """The group comes to n members: the last ones in member order go, or new ones come.

    Of those that go dynamic ones leave at once; static ones say nothing and are missed when their sessions end. Those
    that come want what most want, or what the member ``like`` wants.
    """
    if not 1 <= n <= whatif.MOST_MEMBERS or n == group.M:
        needed = f"another number of members than the {group.M} there are, from 1 to {whatif.MOST_MEMBERS}"
        raise BadInput("scale", str(n), needed)
    if n < group.M:
        gone = zip(group.members[n:], group.instance_ids[n:], strict=True)
        silent_of = {member: bool(static or instance) for member, instance in gone}
        both = len(set(silent_of.values())) > 1
        changes = []
        for silent in sorted(set(silent_of.values())):
            leave = tuple(member for member in silent_of if silent_of[member] == silent)
            step = f"scale to {n}: {some_of(leave)} gone" if both else f"scale to {n}"
            changes.append(MembershipChange(step, leave=leave, silent=silent))
        return changes
    grown = group_to_dict(whatif.join(group, n - group.M, like))["members"]
    joined = {m: fields for m, fields in grown.items() if m not in group.members}
    if static:
        joined = {m: {**fields, "instance_id": m} for m, fields in joined.items()}
    return [MembershipChange(f"scale to {n}", join=joined)]


def follow(
    group: Group, changes: Iterable[MembershipChange], strategy: Assignor, protocol: Protocol, times: Times
) -> Iterator[Stage]:
    """A stage for each change, each on the result of the one before; one that leaves no member comes with the next."""
    emptied_s: float | None = None
    for change in changes:
        if change.restart:
            stage = _returned(change, group, strategy, times)
        else:
            wait = times.session_s if change.silent else 0.0
            # While nobody was there, those who had left stayed in the group as it was: what they had is the past.
            gone = set(group.members if emptied_s is not None else change.leave)
            if not change.join and gone.issuperset(group.members):
                emptied_s = max(wait, times.restart_s)
                continue
            wait += emptied_s or 0.0
            after = whatif.with_changed_members(group, gone, change.join)
            stage = _stage(change.step, group, after, strategy, protocol, times, wait, emptied_s is not None)
            emptied_s = None
        yield stage
        group = whatif.settled(stage.plan)


def _returned(change: MembershipChange, group: Group, strategy: Assignor, times: Times) -> Stage:
    """Static members are back in time: no generation, and only their own partitions paused."""
    away = {group.members.index(m) for m in change.restart}
    idle = int(np.isin(group.owner, list(away)).sum())
    same = Plan(group, strategy.name, {}, Answer(group.owner), traits_of(strategy).cooperative)
    longest = times.restart_s if idle else 0.0
    still = np.where(np.isin(group.owner, list(away)), times.restart_s, 0.0).astype(np.float32)
    return Stage(change.step, same, 0, (), (), 0, 0, 0, 0, idle * times.restart_s, longest, still, ints([]))


def _stage(
    step: str, before: Group, after: Group, strategy: Assignor, protocol: Protocol, times: Times, wait_s: float,
    emptied: bool = False,
) -> Stage:  # fmt: skip
    """The plan after a change, and the partitions it takes from each member.

    wait_s
        Seconds that the partitions of those who left waited before the group rebalanced.
    emptied
        Whether nobody was there in between: whoever is there after it has come, if only come back.
    """
    plans = whatif.rounds(plan(after, strategy), strategy)
    at = {who: m for m, who in enumerate(identities(after))}
    now_at = ints([_GONE if emptied else at.get(who, _GONE) for who in identities(before)])
    stays = np.zeros(after.M, dtype=np.bool_)
    stays[now_at[now_at != _GONE]] = True
    had, described = _owners_before(before, after, now_at)
    orphans = had == _GONE
    still = np.where(orphans, wait_s + times.rebalance_s, 0.0)
    longest = float(still.max(initial=0.0))
    movers = np.zeros(after.P, dtype=np.bool_)
    revoked = taken = moved = read_anew = 0
    present = stays
    for planned in plans:
        has = planned.owner
        changed = (had != NOBODY) & (has != NOBODY) & (had != has)
        read_anew += int(changed.sum() + ((had == NOBODY) & (has != NOBODY) & described).sum())
        at_stayers = _whether(present, had)
        let_go = at_stayers & (has != had)
        stops = at_stayers if protocol == "eager" else let_go
        taken += int(let_go.sum())
        revoked += int(stops.sum())
        from_stayers = changed & _whether(stays, had)
        moved += int(from_stayers.sum())
        movers |= from_stayers
        still[stops] += times.rebalance_s
        longest = max(longest, times.rebalance_s if stops.any() else 0.0)
        had, present, described = has, np.ones(after.M, dtype=np.bool_), np.ones(after.P, dtype=np.bool_)
    return Stage(
        step=step,
        plan=whatif.whole(plans),
        generations=sum(2 if planned.withheld.any() else 1 for planned in plans),
        joined=tuple(m for m, stayed in zip(after.members, stays.tolist(), strict=True) if not stayed),
        left=tuple(m for m, number in zip(before.members, now_at.tolist(), strict=True) if number == _GONE),
        revoked=revoked,
        taken=taken,
        moved=moved,
        read_anew=read_anew,
        standstill_s=float(still.sum()),
        longest_s=longest,
        # Half as wide as others: a large group's rollout has thousands of these.
        still_s=still.astype(np.float32),
        movers=movers.nonzero()[0],
    )


def _owners_before(before: Group, after: Group, now_at: Ints) -> tuple[Ints, Bools]:
    """(P,) who had each partition, as a member of the group after, or ``_GONE``; and whether it was there before.

    now_at
        Number after of each member before; ``_GONE`` of one that is not there any more.
    """
    position = places_in(before, after)
    had = np.append(np.where(before.owner == NOBODY, NOBODY, now_at[before.owner]), NOBODY)
    return had[position], position != NOBODY


def places_in(group: Group, other: Group) -> Ints:
    """(P of the other,) the number of each of the other's partitions in the group; -1 if it is not there."""
    if other.topics == group.topics and np.array_equal(other.start, group.start):
        return np.arange(other.P)
    number_of = {group.name_of(p): p for p in range(group.P)}
    return ints([number_of.get(other.name_of(p), NOBODY) for p in range(other.P)])


def begins_and_ends(stages: Sequence[Stage], times: Times) -> list[tuple[float, float]]:
    """Seconds from the beginning to each stage and to its end, if each follows the one before at once.

    Members that restart are back no sooner than ``restart_s`` after they left.
    """
    moments, now, left_at = [], 0.0, 0.0
    for stage in stages:
        begin = max(now, left_at + times.restart_s) if stage.joined and stage.step.startswith("rolling") else now
        if stage.left or not stage.joined:
            left_at = begin
        now = begin + max(stage.longest_s, stage.generations * times.rebalance_s)
        moments.append((begin, now))
    return moments


def _whether(of_member: Bools, owner: Ints) -> Bools:
    """(P,) the fact about each partition's owner; False if there is none or it is gone."""
    held: Bools = (owner >= 0) & of_member[np.maximum(owner, 0)]
    return held


def identities(group: Group) -> list[str]:
    """(M,) who each member is across restarts: its instance, else its member id."""
    pairs = zip(group.members, group.instance_ids, strict=True)
    return [member if instance is None else f"instance {instance}" for member, instance in pairs]


def owners(group: Group, owner: Ints) -> dict[tuple[str, int], str]:
    """Topic and partition to the identity that has it."""
    who = identities(group)
    return {group.name_of(p): who[m] for p, m in enumerate(owner.tolist()) if m != NOBODY}


def _bare(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A member that comes back knows nothing of its past partitions."""
    return {name: value for name, value in fields.items() if name not in _HELD}


def _reborn(group: Group, member: str, i: int) -> str:
    """The id that a restarted dynamic member gets: its client's name and a random-looking part, always the same.

    Kafka draws a UUID, so that the place among the members of one client's name is anybody's guess; so is this one.
    """
    client = next((c for m, c in zip(group.members, group.client_ids, strict=False) if m == member), None)
    drawn = hashlib.sha256(f"{group.name}\0{member}\0{i}".encode()).hexdigest()
    uuid = "-".join((drawn[:8], drawn[8:12], drawn[12:16], drawn[16:20], drawn[20:32]))
    return f"{client}-{uuid}" if client else uuid


def _number(verb: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadInput(verb, repr(text[:60]), "a whole number")
    return int(text)


def total_sentence(stages: Sequence[Stage]) -> str:
    """The cost of all stages together."""
    generations = sum(stage.generations for stage in stages)
    revoked, taken, anew = (sum(getattr(stage, name) for stage in stages) for name in ("revoked", "taken", "read_anew"))
    seconds = sum(stage.standstill_s for stage in stages)
    longest_s = max((stage.longest_s for stage in stages), default=0.0)
    return (
        f"In all {count(generations, 'generation')}: members that stay give up {count(revoked, 'partition')}, "
        f"{taken:,} of them for good; {anew:,} {'is' if anew == 1 else 'are'} read again by another member; "
        f"partitions are paused for {seconds:,.0f} s in all, one of them for {longest_s:g} s at a stretch."
    )
