"""Each strategy's plans, proofs, reasons and memories on groups of every kind: what changes in them is looked at."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.support.written_down import as_written

import apportion
from apportion.assignors import streams
from apportion.errors import ApportionError
from apportion.model.group_json import read_group
from apportion.strategy.codec import Holding
from apportion.strategy.traits import traits_of
from apportion.testing.groups import Kinds, many_groups
from apportion.wire.subscription import Subscription

WRITTEN = Path(__file__).parent / "whole_answers.json"
STREAMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "joined": {"subtopologies": ["t0+t1"]},
    "copies": {"num.standby.replicas": 1, "acceptable.recovery.lag": 50, "max.warmup.replicas": 1},
    "joined copies": {"subtopologies": ["t0+t1", "t2"], "num.standby.replicas": 2, "stateless": ["t2"]},
    "stateless": {"stateless": ["t0"]},
    "apart": {"num.standby.replicas": 1, "rack.aware.assignment.tags": ["zone"]},
    "near": {"rack.aware.assignment.strategy": "min_traffic"},
    "near and even": {"rack.aware.assignment.strategy": "balance_subtopology", "rack.aware.assignment.traffic.cost": 3},
    "hosts": {"process": "host"},
    "hosts with copies": {"process": "host", "num.standby.replicas": 1, "subtopologies": ["t0+t1"]},
    "near copies": {"num.standby.replicas": 1, "rack.aware.assignment.strategy": "min_traffic", "process": "host"},
    "joined near": {"subtopologies": ["t1+t2"], "rack.aware.assignment.strategy": "min_traffic", "stateless": ["t0"]},
}
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "failover": ({}, {"preempt": "false"}),
    "lag-aware": ({}, {"scope": "topic"}, {"max_skew": "2"}, {"tolerance": "0.3"}, {"by": "weight"}),
}
NAMES = [name for name in apportion.known() if name != "streams"]


def answered(raw: dict[str, Any], name: str, settings: dict[str, Any]) -> Any:
    """What a strategy makes of a group, in short; the error, where it makes nothing."""
    try:
        plan = apportion.plan(raw, name, settings)
    except ApportionError as error:
        return str(error)
    written = plan.to_dict()
    rest = {key: written[key] for key in written if key not in SHOWN_ELSEWHERE}
    again = traits_of(plan_of := apportion.find(name, settings)).summary
    if again is not None and plan_of is not None:
        short = again(plan.group)
        assert short.owner.tolist() == plan.owner.tolist(), "the short answer is the answer"
        assert dict(short.proof) == dict(plan.proof)
    return [plan.owner.tolist(), np.flatnonzero(plan.withheld).tolist(), rest, plan.explain()]


SHOWN_ELSEWHERE = ("version", "group", "assignor", "assignment", "target", "withheld", "unassigned", "ignored")


@pytest.mark.parametrize("name", NAMES)
def test_plans_are_those_written_down(name: str) -> None:
    facts = dict(traits_of(apportion.find(name)).facts)
    answers = []
    for settings in SETTINGS.get(name.removeprefix("cooperative-"), ({},)):
        for n, raw in enumerate(many_groups(14, seed=12, kinds=Kinds(capacities=True, facts=facts))):
            draw = Random(n)
            for entries in raw["topics"].values():
                for entry in entries if isinstance(entries, list) else ():
                    entry["weight"] = draw.choice((0, 1, 2.5, 30))
            answers.append(answered(raw, name, settings))
    as_written(WRITTEN, name, answers)


def application(seed: int) -> dict[str, Any]:
    """A streams application's group: three topics, hosts, racks, zones, copies and how far they lag."""
    draw = Random(seed)
    sizes = {f"t{n}": draw.randint(1, 5) for n in range(3)}
    topics: dict[str, Any] = {
        topic: [{"partition": p, "racks": draw.sample(["a", "b", "c"], 2)} for p in range(size)]
        for topic, size in sizes.items()
    }
    members: dict[str, Any] = {}
    for m in range(draw.randint(2, 6)):
        wants = list(sizes) if draw.random() < 0.8 else draw.sample(list(sizes), 2)
        members[f"c{m}"] = {
            "topics": wants, "rack": draw.choice("abc"), "host": f"/h{m // 2}", "owned": {}, "generation": 4,
            "tags": {"zone": draw.choice("xy")}, "standby": {}, "recovery_lag": {},
        }  # fmt: skip
    for topic, size in sizes.items():
        readers = [m for m, fields in members.items() if topic in fields["topics"]]
        for number in range(size):
            if readers and draw.random() < 0.8:
                members[draw.choice(readers)]["owned"].setdefault(topic, []).append(number)
            for who in draw.sample(readers, min(len(readers), draw.randint(0, 2))):
                if draw.random() < 0.5:
                    members[who]["standby"].setdefault(topic, []).append(number)
                lag = draw.choice((0, 40, 51, 20_000))
                members[who]["recovery_lag"].setdefault(topic, []).append({"partition": number, "lag": lag})
    return {"group": "app", "topics": topics, "members": members}


@pytest.mark.parametrize("kind", STREAMS)
def test_tasks_are_placed_as_was_written_down(kind: str) -> None:
    answers = []
    for seed in range(5):
        raw = application(seed)
        if kind in ("plain", "joined", "stateless", "near") and seed % 2:
            for fields in raw["members"].values():
                for field in ("standby", "recovery_lag", "tags"):
                    del fields[field]
        answers.append(answered(raw, "streams", STREAMS[kind]))
    as_written(WRITTEN, f"streams {kind}", answers)


@pytest.mark.parametrize(
    "settings",
    [
        {"subtopologies": ["t0+nope"]}, {"stateless": ["t9"]}, {"rack.aware.assignment.tags": ["zone"]},
        {"num.standby.replicas": 1, "rack.aware.assignment.tags": ["cell"]},
        {"rack.aware.assignment.traffic.cost": 3}, {"rack.aware.assignment.non.overlap.cost": 3},
        {"subtopologies": ["t0+t1", "t1+t2"]}, {"process": "cell"}, {"num.standby.replicas": -1},
        {"max.warmup.replicas": 0}, {"acceptable.recovery.lag": -1}, {"probing.rebalance.interval.ms": 59_999},
        {"num.standby.replicas": 2**31}, {"acceptable.recovery.lag": 2**63},
    ],
)  # fmt: skip
def test_settings_that_cannot_count_are_refused_in_the_words_written_down(settings: dict[str, Any]) -> None:
    with pytest.raises(ApportionError) as refused:
        apportion.plan(application(1), "streams", settings)
    as_written(WRITTEN, f"refused {settings}", str(refused.value))


def test_settings_without_anything_to_count_on_are_refused() -> None:
    bare = {"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}
    for settings, words in (
        (
            {"rack.aware.assignment.strategy": "min_traffic"},
            "rack.aware.assignment.strategy: found min_traffic, and no member's or no partition's rack is known",
        ),
        (
            {"num.standby.replicas": 1, "rack.aware.assignment.tags": ["zone"]},
            "rack.aware.assignment.tags: found 'zone', and no member has tags; needed a key of members' tags (members.",
        ),
    ):
        with pytest.raises(ApportionError) as refused:
            apportion.plan(bare, "streams", settings)
        assert str(refused.value).startswith(words)


@pytest.mark.parametrize("name", apportion.known())
def test_memories_go_out_and_come_back_as_was_written_down(name: str) -> None:
    strategy = apportion.find(name)
    codec, facts = traits_of(strategy).codec, traits_of(strategy).facts
    answers: list[Any] = []
    raw = {"topics": {"t": 4, "u": 3}, "members": {m: {"topics": ["t", "u"]} for m in "ab"}}
    data = codec.assignment_data(apportion.plan(raw, strategy))
    answers.append([data and data.hex(), codec.epoch(data), codec.epoch(None), codec.epoch(b"\x00")])
    for owned in ((), (("t", (0, 2)), ("u", (1,)))):
        for generation in (None, 0, 7):
            for keeps in (False, True):
                for epoch in (None, 5):
                    told = {fact: each.high for fact, each in facts.items()}
                    holding = Holding(owned, generation, keeps, epoch, told)
                    sent = codec.user_data(holding)
                    claim = codec.read(Subscription(("t",), sent, owned if keeps else (), generation))
                    cut = codec.read(Subscription(("t",), sent and sent[:-1], (), generation))
                    answers.append([sent and sent.hex(), *(
                        [one.owned, one.generation, one.held, dict(one.facts), one.lost] for one in (claim, cut)
                    )])  # fmt: skip
    for strange in (b"", b"\x00" * 4, b"\xff" * 9, b"\x00\x01" + b"\x00" * 20):
        claim = codec.read(Subscription(("t",), strange, (), 3))
        answers.append([claim.owned, claim.generation, claim.held, dict(claim.facts), claim.lost])
    as_written(WRITTEN, f"memory {name}", answers)


def test_predictions_say_how_sure_they_are() -> None:
    draw, answers = Random(2), list[Any]()
    for n in range(12):
        members: dict[str, Any] = {
            f"m{draw.randrange(10**4)}": {
                "topics": draw.sample(["t", "u"], draw.randint(1, 2)) if n % 2 else ["t", "u"]
            }
            for _ in range(draw.randint(1, 6))
        }
        for p in range(6):
            members[draw.choice(list(members))].setdefault("owned", {}).setdefault("t", []).append(p)
        raw: dict[str, Any] = {"topics": {"t": 6, "u": draw.choice((3, 40))}, "members": members}
        if n % 3:
            raw["topic_ids"] = {"t": "rQcN1_L45HFQpfnIeDwgag", "u": "AAAAAAAAAAEAAAAAAAAAAg"}
        for name in ("broker-uniform", "broker-range"):
            answers.append(answered(raw, name, {}))
        assert read_group(raw).P
    as_written(WRITTEN, "predictions", answers)


@pytest.mark.parametrize("kind", ["plain", "copies", "hosts", "near", "joined", "joined copies", "stateless"])
def test_many_like_members_get_their_tasks_as_was_written_down(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, as those of large groups are, where the settings ask for nothing that counting does not know."""
    monkeypatch.setattr(streams, "LARGE", 1)
    draw = Random(3)
    members: dict[str, Any] = {
        f"c{m:02}": {
            "topics": ["t0", "t1", "t2"],
            "owned": {},
            "generation": 4,
            "rack": "ab"[m % 2],
            "host": f"/{m // 2}",
        }
        for m in range(40)
    }
    sizes = {"t0": 90, "t1": 70, "t2": 50}
    topics = {topic: [{"partition": p, "racks": ["ab"[p % 2]]} for p in range(n)] for topic, n in sizes.items()}
    for topic, n in sizes.items():
        for p in range(n):
            if draw.random() < 0.9:
                members[f"c{draw.randrange(30):02}"]["owned"].setdefault(topic, []).append(p)
    raw = {"group": "app", "topics": topics, "members": members}
    as_written(WRITTEN, f"like members {kind}", answered(raw, "streams", STREAMS[kind]))


@pytest.mark.parametrize("kind", STREAMS)
def test_small_applications_are_counted_as_large_ones_where_the_settings_allow_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LARGE", 1)
    answers = []
    for seed in range(8):
        raw = application(seed)
        for fields in raw["members"].values() if seed % 4 else ():
            fields["topics"] = list(raw["topics"]) if seed % 2 else fields["topics"]
            for field in ("standby", "recovery_lag", "tags")[: None if kind != "apart" else 2]:
                del fields[field]
        answers.append(answered(raw, "streams", STREAMS[kind]))
    as_written(WRITTEN, f"counted {kind}", answers)
