"""The promises of every strategy, tried on small groups: ``check_assignor`` tells an author which theirs breaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY
from apportion.assignors import Assignor
from apportion.errors import ApportionError, BrokenAssignor
from apportion.model.group import Group
from apportion.model.group_json import read_group
from apportion.planning import plan
from apportion.strategy.codec import Holding
from apportion.strategy.traits import traits_of
from apportion.testing.groups import GroupDict, Kinds, many_groups, shuffled
from apportion.wire.partitions import Held
from apportion.wire.subscription import Subscription

PROOFS: Final = ("optimal", "bounded", "heuristic")
Broken = Mapping[str, str]
"""Which promise is broken, and by what, in words."""


class ContractBroken(AssertionError):
    """The promises that a strategy breaks, a sentence each, with the smallest group found that shows it."""

    def __init__(self, name: str, broken: Mapping[str, tuple[str, GroupDict]]) -> None:
        lines = [f"{why}\n    shown by {json.dumps(group, ensure_ascii=False)}" for why, group in broken.values()]
        super().__init__("\n".join([f"the assignor {name!r} breaks {len(lines)} of its promises:", *lines]))
        self.promises = tuple(broken)


def check_assignor(assignor: Assignor, groups: int = 300, seed: int = 0) -> None:
    """Raise ``ContractBroken`` with every promise that the strategy breaks on some small group.

    It is tried on the groups that most often go wrong (nothing to share, members that want nothing, false claims ...)
    and on ``groups`` random ones. A strategy that leaves subscribed partitions without an owner says so by
    ``leaves: ClassVar[bool] = True``.

    Its facts are drawn too, within their bounds.

    >>> from apportion.assignors.roundrobin import RoundRobin
    >>> check_assignor(RoundRobin())
    """
    broken: dict[str, tuple[str, GroupDict]] = {}
    for promise, why in _manners(assignor).items():
        broken[promise] = (why, {})
    facts = {} if broken else traits_of(assignor).facts
    for group in (
        *hard_groups(),
        *many_groups(groups, seed, Kinds(facts=facts)),
        *many_groups(20, seed, Kinds(12, 12, 12, capacities=True, facts=facts)),
    ):
        tried = _tried(assignor, group)
        for promise in [promise for promise in tried if promise not in broken]:
            broken[promise] = _smallest(assignor, promise, tried[promise], group)
    if broken:
        raise ContractBroken(str(getattr(assignor, "name", assignor)), broken)


def _smallest(assignor: Assignor, promise: str, why: str, group: GroupDict) -> tuple[str, GroupDict]:
    """The smallest group found on which the promise broke, and how: one by chance may not break it there again."""
    shown = [(why, group)]

    def still(candidate: GroupDict) -> bool:
        why = _tried(assignor, candidate).get(promise)
        if why is not None:
            shown.append((why, candidate))
        return why is not None

    shrink(group, still)
    return shown[-1]


def _manners(assignor: Assignor) -> Broken:
    """The findings without a group."""
    broken = {}
    name = getattr(assignor, "name", None)
    if not (isinstance(name, str) and name):
        broken["name"] = f"It has no name: its members could not ask for it by {name!r}."
    goals = getattr(assignor, "goals", None)
    if not (isinstance(goals, tuple) and all(isinstance(goal, str) for goal in goals)):
        broken["goals"] = f"Its goals are {goals!r}; needed a tuple of names, most important first."
    # The flag of the class itself or of the dataclass that it inherits from.
    settings = getattr(assignor, "__dataclass_params__", None)
    if settings is not None and not settings.frozen:
        broken["frozen"] = "Its settings can change after it was made: it must be a frozen dataclass."
    if not (type(assignor).__doc__ or "").strip():
        broken["docstring"] = "It has no docstring, so nobody can see what it is for."
    return broken | _facts_broken(assignor) | _memory_broken(assignor)


def _facts_broken(assignor: Assignor) -> dict[str, str]:
    """The faults in the facts that it asks for."""
    try:
        traits_of(assignor)
    except BrokenAssignor as error:
        return {"facts": _sentence(str(error))}
    return {}


def _memory_broken(assignor: Assignor) -> dict[str, str]:
    """The partitions of a joining member of a cooperative group that its codec loses."""
    try:
        traits = traits_of(assignor)
    except BrokenAssignor:
        return {}  # said of the facts
    if not traits.cooperative:
        return {}
    held: Held = (("t", (0, 1)),)
    try:
        user_data = traits.codec.user_data(Holding(held, 3, keeps=True, epoch=3))
        claim = traits.codec.read(Subscription(("t",), user_data, held, 3))
        owned = {topic: sorted(ids) for topic, ids in claim.owned.items()}
    except Exception as error:  # whatever an author's code raises
        return {"memory": f"Its memory raised {type(error).__name__}: {error}."}
    if claim.held and owned == {"t": [0, 1]}:
        return {}
    found = f"Claim(owned={owned}, held={claim.held})"
    return {
        "memory": f"Its memory reads {found} from a member that still holds t-0 and t-1; needed owned={{'t': [0, 1]}}, "
        "held=True, from the subscription's own field `owned`: what is not held is given away while it is still read."
    }


def _tried(assignor: Assignor, raw: GroupDict) -> Broken:
    """The promises that the strategy breaks on one group."""
    try:
        group = read_group(raw).with_facts(traits_of(assignor).facts)
    except ApportionError:
        return {}  # a shrunk group that is none
    try:
        before = _snapshot(group)
        answer = plan(group, assignor)
        text = answer.to_json()
    except BrokenAssignor as error:
        return {"valid": f"{_sentence(str(error))}"}
    except Exception as error:  # whatever an author's code raises
        return {"crash": f"It raised {type(error).__name__}: {error}."}
    broken = dict(_judged(assignor, group, answer.owner, answer.proof))
    if changed := [name for name, old in before if not np.array_equal(old, _array(group, name))]:
        broken["input"] = f"It changes its input: group.{changed[0]} is not what it was."
    broken.update(_asked_again(assignor, raw, group, text))
    return broken


def _judged(assignor: Assignor, group: Group, owner: Any, proof: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    unowned = np.flatnonzero(group.wanted & (owner == NOBODY))
    if len(unowned) and not traits_of(assignor).leaves:
        topic, number = group.name_of(int(unowned[0]))
        yield "left over", f"It leaves {topic}-{number} to nobody, though some member wants {topic!r}."
    goals = getattr(assignor, "goals", None)
    goals = goals if isinstance(goals, tuple) else ()  # what they must be is a promise of its own
    for goal, how in proof.items():
        if goal not in goals:
            yield "proof", f"Its proof speaks of {goal!r}, which is none of its goals {', '.join(map(str, goals))}."
        if how not in PROOFS:
            yield "proof", f"It says that {goal} is {how!r}; needed {', '.join(PROOFS)}."


def _asked_again(assignor: Assignor, raw: GroupDict, group: Group, text: str) -> Iterator[tuple[str, str]]:
    if _text(assignor, group) != text or _text(assignor, read_group(raw)) != text:
        yield "again", "Its answer to the same group changes from call to call."
    mixed = shuffled(Random(1), raw)  # noqa: S311  # the same order in every run
    if _text(assignor, read_group(mixed)) != text:
        yield "order", "Its answer changes with the order of members, topics or claims."


def _text(assignor: Assignor, group: Group) -> str:
    try:
        return plan(group, assignor).to_json()
    except Exception as error:  # whatever an author's code raises
        return f"{type(error).__name__}: {error}"


_ARRAYS: Final = ("start", "number", "generation", "subscription_of", "owner", "lag", "topic_of", "wanted")


def _array(group: Group, name: str) -> Any:
    return group.facts[name] if name in group.facts else getattr(group, name)


def _snapshot(group: Group) -> list[tuple[str, Any]]:
    return [(name, _array(group, name).copy()) for name in (*_ARRAYS, *group.facts)]


def _sentence(text: str) -> str:
    """The core's word on an answer, as a sentence on the strategy."""
    return text[0].upper() + text[1:]


def hard_groups() -> Iterator[GroupDict]:
    """The groups that strategies most often forget."""
    plain = {"topics": ["t"]}
    yield {"topics": {}, "members": {"a": {"topics": []}}}
    yield {"topics": {"t": 3}, "members": {"a": {"topics": []}, "b": {"topics": []}}}
    yield {"topics": {"t": 0}, "members": {"a": plain}}
    yield {"topics": {}, "members": {"a": {"topics": ["nowhere"]}}}
    yield {"topics": {"t": 1}, "members": {"a": plain, "b": plain, "c": plain}}
    yield {"topics": {"t": 3, "u": 2}, "members": {"a": plain, "b": {"topics": ["u"]}, "c": {"topics": []}}}
    yield {"topics": {"t": [{"partition": 7}, {"partition": 3}]}, "members": {"a": plain, "b": plain}}
    yield {"topics": {"t": 2}, "members": {"a": {**plain, "owned": {"t": [0, 9]}}, "b": {**plain, "owned": {"t": [0]}}}}
    yield {"topics": {"t": 2, "u": 2}, "members": {"a": {**plain, "owned": {"u": [0, 1]}}, "b": {"topics": ["t", "u"]}}}
    yield {
        "topics": {"t": [{"partition": 0, "lag": 2**63 - 1}, {"partition": 1, "lag": 2**63 - 1}]},
        "members": {"a": plain},
    }


def shrink(group: GroupDict, still: Callable[[GroupDict], bool]) -> GroupDict:
    """The group without all that can go while ``still`` holds."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(group):
            if still(candidate):
                group, smaller = candidate, True
                break
    return group


def _smaller(group: GroupDict) -> Iterable[GroupDict]:
    """The group with one thing less: a member, a topic, a partition, a field, a wish, a claim."""
    for path in _paths(group, ()):
        copy = json.loads(json.dumps(group))
        holder = copy
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        yield copy
    for topic, description in group["topics"].items():
        if isinstance(description, int) and description:
            yield {**group, "topics": {**group["topics"], topic: description // 2}}
            yield {**group, "topics": {**group["topics"], topic: description - 1}}


def _paths(value: Any, at: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from _paths(item, (*at, key))
