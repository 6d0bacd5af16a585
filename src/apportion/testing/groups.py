"""Groups to try a strategy on: every kind that exists, small, from a seeded generator or from hypothesis.

@given(groups())
def test_a_promise(group): ...

for group in many_groups(20_000, seed=1): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from apportion.model.facts import MEMBER_FIELDS, Fact

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

GroupDict = dict[str, Any]
"""A group in the form of group.json."""

SUBSCRIPTIONS: Final = ("equal", "unequal", "nested", "disjoint")
_NAMES: Final = ("t", "clicks", "Größe", "日本", "\uff5e", "🛒", "a.b-c_d", "T")
"""Beyond plain letters: Java orders the last but two by UTF-16 units, Python by code points."""


@dataclass(frozen=True)
class Kinds:
    """The features of random groups, and how large they are at most.

    subscriptions
        Which of ``SUBSCRIPTIONS`` are drawn from.
    racks, lag, gaps, static, priorities, foreign_names
        Whether some groups have them.
    claims
        ``none``; ``clean`` (one claim a partition, existing and wanted, of one generation); or ``any``: also stale,
        double, nonexistent and unsubscribed ones.
    capacities
        Whether members of some groups have some.
    odd
        Whether some members want nothing, or topics that nobody describes, and some topics are wanted by nobody.
    facts
        Those that members of some groups have, as a strategy asks for them: ``Kinds(facts=Warm.facts)``.
    """

    topics: int = 4
    partitions: int = 6
    members: int = 5
    subscriptions: tuple[str, ...] = SUBSCRIPTIONS
    racks: bool = True
    lag: bool = True
    gaps: bool = True
    static: bool = True
    priorities: bool = True
    foreign_names: bool = True
    claims: str = "any"
    odd: bool = True
    capacities: bool = False
    facts: Mapping[str, Fact] = field(default_factory=dict)


def groups(kinds: Kinds | None = None) -> SearchStrategy[GroupDict]:
    """A hypothesis strategy of groups, which shrinks a failing one."""
    from hypothesis import strategies as st

    rule = kinds or Kinds()
    return st.randoms(note_method_calls=False, use_true_random=False).map(lambda rng: random_group(rng, rule))


def many_groups(count: int, seed: int, kinds: Kinds | None = None) -> Iterator[GroupDict]:
    """So many random groups, the same for the same seed."""
    rng = Random(seed)  # noqa: S311  # tests need the same groups again, not secrets
    return (random_group(rng, kinds) for _ in range(count))


def random_group(rng: Random, kinds: Kinds | None = None) -> GroupDict:
    """One group of a random kind."""
    kinds = kinds or Kinds()
    names = _topic_names(rng, kinds)
    racks = "abcd"[: rng.choice((0, 0, 1, 2, 3, 4))] if kinds.racks else ""
    topics = {name: _topic(rng, kinds, racks) for name in names}
    wished = [*names, "nowhere"] if kinds.odd and rng.random() < 0.1 else names
    members = _members(rng, kinds, wished, racks)
    if kinds.claims != "none" and rng.random() < 0.8:
        _add_claims(rng, kinds, topics, members)
    group: GroupDict = {"topics": topics, "members": members}
    if kinds.capacities and rng.random() < 0.5:
        for fields in members.values():
            fields["capacity"] = rng.choice((1, 1, 2, 3, 1_000_000))
    for name in sorted(kinds.facts.keys() - MEMBER_FIELDS.keys()):
        _add_fact(rng, name, kinds.facts[name], members)
    if rng.random() < 0.2:
        group.update(version=1, group="g", auto_offset_reset=rng.choice(("earliest", "latest", "none")))
    return group


def _topic_names(rng: Random, kinds: Kinds) -> list[str]:
    count = rng.randint(0 if kinds.odd else 1, kinds.topics)
    if kinds.foreign_names and rng.random() < 0.15:
        return rng.sample(_NAMES, min(count, len(_NAMES)))
    return [f"t{t}" for t in range(count)]


def _topic(rng: Random, kinds: Kinds, racks: str) -> int | list[dict[str, Any]]:
    """A number of partitions if nothing else is known, or their entries."""
    size = rng.randint(0 if kinds.odd else 1, kinds.partitions)
    gaps = kinds.gaps and rng.random() < 0.1
    ids = sorted(rng.sample(range(size + 3), size)) if gaps else list(range(size))
    with_lag = kinds.lag and rng.random() < 0.4
    if not (gaps or racks or with_lag):
        return size
    factor = rng.randint(1, len(racks)) if racks else 0
    entries = []
    for p in ids:
        entry: dict[str, Any] = {"partition": p}
        if racks and rng.random() < 0.9:
            entry["racks"] = rng.sample(racks, factor)
        if with_lag:
            _add_offsets(rng, entry)
        entries.append(entry)
    return entries


def _add_offsets(rng: Random, entry: dict[str, Any]) -> None:
    """A lag, offsets, only the end, or nothing."""
    kind = rng.choice(("lag", "lag", "offsets", "end", "nothing"))
    if kind == "lag":
        entry["lag"] = rng.choice((rng.randint(0, 9), rng.randint(0, 1000), rng.randint(0, 10 ** rng.randint(1, 7))))
    elif kind != "nothing":
        entry["end"] = rng.randint(0, 500)
        if kind == "offsets":
            entry["begin"], entry["committed"] = rng.randint(0, entry["end"]), rng.randint(0, 600)


def _members(rng: Random, kinds: Kinds, names: list[str], racks: str) -> dict[str, dict[str, Any]]:
    count = rng.randint(1, kinds.members)
    wishes = _wishes(rng, rng.choice(kinds.subscriptions), names, count)
    with_rack = rng.choice((0.5, 1.0)) if racks else 0
    static = rng.choice((0, 0, 0.5, 1)) if kinds.static else 0
    priorities = kinds.priorities and rng.random() < 0.3
    members = {}
    for m, name in enumerate(rng.sample(range(count), count)):
        fields: dict[str, Any] = {"topics": wishes[m]}
        if kinds.odd and rng.random() < 0.05:
            fields["topics"] = []
        if rng.random() < with_rack:
            fields["rack"] = rng.choice(racks)
        if rng.random() < static:
            fields["instance_id"] = f"i{count - name}"
        if priorities and rng.random() < 0.7:
            fields["priority"] = rng.randint(-2, 2)
        foreign = kinds.foreign_names and rng.random() < 0.03
        members[f"{rng.choice(_NAMES)}{name}" if foreign else f"m{name}"] = fields
    return members


def _wishes(rng: Random, kind: str, names: list[str], count: int) -> list[list[str]]:
    """A subscription for each member."""
    order = rng.sample(names, len(names))
    if kind == "equal":
        subscription = order[: rng.randint(min(1, len(order)), len(order))]
        return [list(subscription) for _ in range(count)]
    if kind == "nested":
        return [order[: rng.randint(0, len(order))] for _ in range(count)]
    if kind == "disjoint":
        buckets = rng.randint(1, 3)
        return [order[m % buckets :: buckets] for m in range(count)]
    return [rng.sample(order, rng.randint(0, len(order))) for _ in range(count)]


def _add_fact(rng: Random, name: str, fact: Fact, members: dict[str, dict[str, Any]]) -> None:
    """A number for some members of most groups: often one of the bounds, or a small one that others have too."""
    if rng.random() < 0.2:
        return
    for fields in members.values():
        if rng.random() < 0.8:
            near = rng.randint(fact.low, min(fact.high, fact.low + 3))
            value = rng.choice((fact.low, fact.high, near, near, rng.randint(fact.low, fact.high)))
            fields.setdefault("facts", {})[name] = value


def _add_claims(rng: Random, kinds: Kinds, topics: dict[str, Any], members: dict[str, dict[str, Any]]) -> None:
    """The members' claims on past partitions."""
    generation = rng.choice((None, rng.randint(0, 9)))
    for name, description in topics.items():
        ids = range(description) if isinstance(description, int) else [entry["partition"] for entry in description]
        wanting = [member for member, fields in members.items() if name in fields["topics"]]
        for p in ids:
            if wanting and rng.random() < 0.85:
                members[rng.choice(wanting)].setdefault("owned", {}).setdefault(name, []).append(p)
    for fields in members.values():
        if generation is not None:
            fields["generation"] = generation
    if kinds.claims == "any" and rng.random() < 0.5:
        _add_false_claims(rng, list(topics), members)


def _add_false_claims(rng: Random, names: list[str], members: dict[str, dict[str, Any]]) -> None:
    """Claims of members that missed a rebalance, or of a topic that was recreated."""
    for fields in members.values():
        if rng.random() < 0.4:
            fields["generation"] = rng.choice((None, -1, rng.randint(0, 9)))
        for _ in range(rng.choice((0, 0, 1, 3))):
            topic = rng.choice([*names, "gone"])
            fields.setdefault("owned", {}).setdefault(topic, []).append(rng.randint(-1, 9))


def shuffled(rng: Random, group: GroupDict) -> GroupDict:
    """The same group with its keys and lists in another order."""
    result: GroupDict = _mixed(rng, group)
    return result


def _mixed(rng: Random, value: Any) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        return {key: _mixed(rng, value[key]) for key in rng.sample(keys, len(keys))}
    if isinstance(value, list):
        return [_mixed(rng, item) for item in rng.sample(value, len(value))]
    return value
