"""Plans that are shared between groups of one structure: the rows are those that each group gets by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from tests.support.plain_reader import what_if

from apportion.arrays import Ints
from apportion.assignors import find as own
from apportion.assignors import known
from apportion.errors import BadInput
from apportion.history import scenarios
from apportion.history.records import Generation, GenerationMember
from apportion.history.scenarios import ScenarioResult, outcomes
from apportion.history.shared_plans import LikeGroups, SharedPlans, lay_on
from apportion.history.structure import structure
from apportion.model.group import Group
from apportion.model.protocols import CLASSIC

Question = tuple[str, list[Generation], "dict[str, Any] | None", dict[str, list[dict[str, Any]]]]


def question(seed: int, name: str = "g", prefix: str = "", lag_seed: int | None = None) -> Question:
    """A small group with its past: of one seed always the same but for names and lags."""
    rng, lags = random.Random(seed), random.Random(seed if lag_seed is None else lag_seed)
    topics = {f"{prefix}t{n}": rng.randrange(1, 8) for n in range(rng.randrange(1, 4))}
    racks = rng.choice(((), ("x", "y"), ("x", "y", "z")))
    generations: list[Generation] = []
    for turn in range(rng.randrange(4)):
        members = deal(rng, topics, prefix, racks)
        fresh = turn == 0 or rng.random() < 0.1
        number = max(turn - (rng.random() < 0.1), 0)
        generations.append(Generation(turn, turn, CLASSIC, number, members, "range", fresh=fresh))
    known_topics = {topic: entries(rng, lags, n, racks) for topic, n in topics.items()}
    present = group_of(name, deal(rng, topics, prefix, racks), known_topics) if rng.random() < 0.9 else None
    return name, generations, present, {**known_topics, **(present["topics"] if present else {})}


def deal(
    rng: random.Random, topics: Mapping[str, int], prefix: str, racks: Sequence[str]
) -> tuple[GenerationMember, ...]:
    """Members that want some of the topics, and hold partitions of them."""
    members = []
    held: dict[int, dict[str, tuple[int, ...]]] = {m: {} for m in range(rng.randrange(1, 5))}
    wants = {m: [topic for topic in topics if rng.random() < 0.8] or list(topics)[:1] for m in held}
    for topic, n in topics.items():
        takers = [m for m in held if topic in wants[m]]
        owner = [rng.choice(takers) if takers else None for _ in range(n)]
        for m in takers:
            if mine := tuple(p for p in range(n) if owner[p] == m):
                held[m][topic] = mine
    for m in held:
        instance = f"{prefix}i{9 - m}" if rng.random() < 0.2 else None
        rack = rng.choice(racks) if racks and rng.random() < 0.9 else None
        members.append(GenerationMember(f"{prefix}m{m}", tuple(wants[m]), held[m], instance, "c", "/h", rack))
    return tuple(members)


def entries(rng: random.Random, lags: random.Random, n: int, racks: Sequence[str]) -> list[dict[str, Any]]:
    """Partitions with ends, most of them committed."""
    told = rng.random() < 0.9
    rows = []
    for p in range(n):
        if rng.random() < 0.05:
            continue  # a gap in the ids
        row: dict[str, Any] = {"partition": p, "racks": rng.sample(racks, k=min(2, len(racks))) or None}
        committed, behind = lags.randrange(1000), lags.randrange(500)
        if told:
            row |= {"begin": 0, "end": committed + behind}
            if rng.random() < 0.8:
                row["committed"] = committed
        rows.append({field: value for field, value in row.items() if value is not None})
    return rows


def group_of(name: str, members: Sequence[GenerationMember], topics: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for member in members:
        held = {topic: list(ids) for topic, ids in member.assigned.items()}
        told = {
            "instance_id": member.instance_id, "client_id": "c", "host": "/h", "rack": member.rack,
            "topics": sorted(member.topics), "owned": held or None, "generation": 5 if held else None,
        }  # fmt: skip
        fields[member.member_id] = {field: value for field, value in told.items() if value is not None}
    return {"version": 1, "group": name, "topics": dict(topics), "members": fields}


def answers(plans: SharedPlans, *asked: Any) -> list[ScenarioResult]:
    """What ``what_if`` gives for the group, by shared plans."""
    return [ScenarioResult(*row) for row in zip(*plans.planned(*asked)[0].values(), strict=True)]


@pytest.mark.parametrize("start", range(12))
def test_a_group_like_one_that_was_planned_gets_the_rows_that_it_gets_by_itself(start: int) -> None:
    """Two of each structure, with other names and other lags: the second one's plans come from the first's."""
    plans = SharedPlans(list(known()))
    for seed in range(start * 4, start * 4 + 4):
        answers(plans, *question(seed))
        other = question(seed, "other", "z-", lag_seed=seed + 1)
        first, second = structure(*question(seed)[1:]), structure(*other[1:])
        assert first is not None
        assert second is not None
        assert first.key == second.key, "the two are of one structure"
        assert answers(plans, *other) == what_if(*other, list(known())), f"seed {seed}"


def test_lags_that_64_bits_cannot_sum_are_planned_by_themselves() -> None:
    plans = SharedPlans(["range", "lag-aware"])
    seed = next(
        s for s in range(50) if (asked := question(s))[2] and any("end" in row for row in chain(*asked[3].values()))
    )
    answers(plans, *question(seed))
    huge = question(seed, lag_seed=1)
    for row in chain(*huge[3].values()):
        if "end" in row:
            row["end"] = 2**62
    assert answers(plans, *huge) == what_if(*huge, ["range", "lag-aware"])


@pytest.mark.parametrize("hurt", ["join-1", "instance m", "mé"])
def test_a_name_that_an_order_does_not_tell_all_of_makes_a_group_a_case_of_its_own(hurt: str) -> None:
    seed = next(s for s in range(50) if question(s)[2])
    name, generations, present, topics = question(seed)
    assert present is not None
    present["members"][hurt] = present["members"].pop(next(iter(present["members"])))
    assert structure(generations, present, topics) is None
    plans = SharedPlans(["range", "sticky"])
    assert answers(plans, name, generations, present, topics) == what_if(
        name, generations, present, topics, ["range", "sticky"]
    )


class Longest:
    """A strategy that looks at names: all goes to the member whose id is longest."""

    name = "longest"
    goals = ("balance",)

    def assign(self, group: Group) -> Ints:
        best = max(range(group.M), key=lambda m: (len(group.members[m]), -m))
        wants = group.may_own(np.full(group.P, best), np.arange(group.P))
        return np.where(wants, best, -1)


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """``longest`` is known beside our own strategies."""
    monkeypatch.setattr(
        scenarios, "of_recipe", lambda name, *rest: Longest() if name == "longest" else own(name, *rest)
    )
    scenarios._strategy.cache_clear()
    yield
    scenarios._strategy.cache_clear()


def lengthened(asked: Question, longer: str) -> Question:
    """The same group, past and present, with a longer name for one member."""
    name, generations, present, topics = asked

    def called(member: str) -> str:
        return f"{member}-the-longest" if member == longer else member

    past = [
        replace(one, members=tuple(replace(member, member_id=called(member.member_id)) for member in one.members))
        for one in generations
    ]
    assert present is not None
    members = {called(member): fields for member, fields in present["members"].items()}
    return name, past, {**present, "members": members}, topics


def several_members() -> int:
    """A seed whose group has a past, and three members or more at present."""
    return next(s for s in range(50) if (p := question(s)[2]) and len(p["members"]) > 2 and len(question(s)[1]) > 1)


@pytest.mark.usefixtures("longest")
def test_a_strategy_of_somebody_else_is_asked_for_each_group() -> None:
    """It may look at names, which groups of one structure need not share."""
    both = [lengthened(question(several_members()), longer) for longer in ("m0", "m1")]
    first, second = (structure(*asked[1:]) for asked in both)
    assert first is not None
    assert second is not None
    assert first.key == second.key, "the two are of one structure"
    plans = SharedPlans(["range", "longest"])
    for asked in both:
        assert answers(plans, *asked) == what_if(*asked, ["range", "longest"])


@pytest.mark.usefixtures("longest")
def test_groups_that_are_laid_on_one_plan_together_each_get_what_the_foreign_strategy_answers_them() -> None:
    both = [lengthened(question(several_members()), longer) for longer in ("m0", "m1")]
    _, alike, template = SharedPlans(["range", "longest"]).planned(*both[0])
    assert alike is not None
    assert template is not None
    theirs = [structure(*asked[1:]) for asked in both]
    groups = LikeGroups(
        np.stack([one.lag for one in theirs if one]), [one.members for one in theirs if one],
        [one.topics for one in theirs if one], [lambda few, q=q: outcomes(q[0], q[1], q[2], q[3], few) for q in both],
    )  # fmt: skip
    ((block, left),) = lay_on([(template, groups)])
    assert left == []
    for g, asked in enumerate(both):
        rows = [ScenarioResult(*row) for row in zip(*block.columns(g).values(), strict=True)]
        assert rows == what_if(*asked, ["range", "longest"])


def test_the_brokers_strategy_is_asked_for_each_group_of_more_members_than_one_order_of_hashes_tells() -> None:
    """Nine members: the table of their hash map may have grown, so the order is not looked up."""

    def nine(prefix: str) -> Question:
        members = {f"{prefix}{m}": {"topics": ["t"]} for m in range(9)}
        topics = {"t": [{"partition": p, "begin": 0, "end": 5 + p, "committed": 3} for p in range(11)]}
        return "g", [], {"version": 1, "group": "g", "topics": topics, "members": members}, topics

    plans = SharedPlans(["broker-uniform"])
    for asked in (nine("m"), nine("named-otherwise-"), nine("q")):
        assert answers(plans, *asked) == what_if(*asked, ["broker-uniform"])
    assert len(plans._kept) == 1, "they are of one structure"


class Touchy:
    """A strategy that hashes names, as its own name says, and cannot take a member called so."""

    name = "broker-uniform"
    goals = ("balance",)

    def assign(self, group: Group) -> Ints:
        if any(member.endswith("-the-longest") for member in group.members):
            raise BadInput("members", "a name that is too long", "another")
        return Longest().assign(group)


def test_a_group_whose_names_a_strategy_cannot_take_keeps_the_sentence_in_its_own_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        scenarios, "of_recipe", lambda name, *rest: Touchy() if name == "broker-uniform" else own(name, *rest)
    )
    scenarios._strategy.cache_clear()
    plain = question(several_members())
    asked = ["range", "broker-uniform"]
    several = (plain, lengthened(plain, "m0"), lengthened(plain, "m1"), plain)
    for order in (several, several[1:]):
        plans = SharedPlans(asked)
        for each in order:
            rows = answers(plans, *each)
            assert rows == what_if(*each, asked)
            refused = {row.error for row in rows if row.assignor == "broker-uniform"}
            assert any("too long" in str(error) for error in refused) == (each is not plain)
        assert len(plans._kept) == 1, "they are of one structure"
    scenarios._strategy.cache_clear()
