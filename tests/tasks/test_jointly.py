"""Tasks with and without state in one group, on two hosts with threads: nothing called optimal can be bettered."""

from __future__ import annotations

import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.tasks import assignor

pytest.importorskip("ortools", reason="without a solver nothing is proved")

GROUPS = 5_000 if os.environ.get("APPORTION_THOROUGH") else 300
FOLDER = Path(__file__).parent / "groups"


def planned(name: str, **settings: str) -> dict[str, Any]:
    """plan.json of a group of the folder."""
    return apportion.plan(json.loads((FOLDER / f"{name}.json").read_text()), "streams", settings).to_dict()


def drawn(rng: random.Random) -> tuple[dict[str, Any], set[str]]:
    """A group of at most seven tasks on two hosts of one to three threads, and the topics that keep no state."""
    sizes = {f"t{n}": rng.randint(1, 3) for n in range(rng.randint(2, 3))}
    while sum(sizes.values()) > 7:
        sizes[max(sizes, key=sizes.__getitem__)] -= 1
    names = sorted(sizes)
    stateless = set(rng.sample(names, rng.randint(1, len(names) - 1)))
    members: dict[str, Any] = {}
    threads = [(host, i) for host in "ab" for i in range(rng.randint(1, 3))]
    alike = rng.random() < 0.6
    owner = {(t, p): rng.choice([*threads, None]) for t, size in sizes.items() for p in range(size)}
    for host, i in threads:
        wants = names if alike else sorted(rng.sample(names, rng.randint(1, len(names))))
        owned = {t: ids for t in names if (ids := [p for p in range(sizes[t]) if owner[t, p] == (host, i)])}
        members[f"{host}-{i}"] = {"topics": wants, "host": host, "owned": owned, "generation": 3}
        if rng.random() < 0.3:
            members[f"{host}-{i}"]["standby"] = {t: [rng.randrange(sizes[t])] for t in wants[:1]}
    return {"topics": sizes, "members": members}, stateless


def choices(raw: dict[str, Any], stateless: set[str]) -> dict[tuple[str, int], list[str]]:
    """(topic, partition) to the members that may run it: all that want it, or of those the ones on a warm host."""
    found: dict[tuple[str, int], list[str]] = {}
    for topic, size in raw["topics"].items():
        for p in range(size):
            want = [m for m, fields in raw["members"].items() if topic in fields["topics"]]
            warm = {
                fields["host"]
                for fields in raw["members"].values()
                if p in fields.get("standby", {}).get(topic, ())
                or (p in fields["owned"].get(topic, ()) and topic in fields["topics"])
            }
            at_home = [m for m in want if raw["members"][m]["host"] in warm]
            found[topic, p] = at_home if at_home and topic not in stateless else want
    return found


def worth(raw: dict[str, Any], stateless: set[str], owner: dict[tuple[str, int], str]) -> tuple[int, ...]:
    """Squares of threads, with state and in all, and of hosts; tasks that change their host."""
    with_state, load = dict.fromkeys(raw["members"], 0), dict.fromkeys(raw["members"], 0)
    hosts = {"a": 0, "b": 0}
    moves = 0
    for (topic, p), member in owner.items():
        fields = raw["members"][member]
        with_state[member] += topic not in stateless
        load[member] += 1
        hosts[fields["host"]] += 1
        before = {
            other["host"]
            for other in raw["members"].values()
            if p in other["owned"].get(topic, ()) and topic in other["topics"]
        }
        moves += bool(before) and fields["host"] not in before
    return *(sum(number**2 for number in loads.values()) for loads in (with_state, load, hosts)), moves


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_no_placing_of_small_groups_is_better_than_one_that_is_called_optimal() -> None:
    """Against every placing of every task on the threads that may run it; all are proved."""
    rng = random.Random(36)
    compared = 0
    for _ in range(GROUPS):
        raw, stateless = drawn(rng)
        plan = apportion.plan(raw, "streams", {"process": "host", "stateless": ",".join(sorted(stateless))})
        assert set(plan.proof.values()) == {"optimal"}, raw
        given = {(topic, p): member for member, held in plan.target.items() for topic, ids in held.items() for p in ids}
        open_to = {pair: members for pair, members in choices(raw, stateless).items() if members}
        assert set(given) == set(open_to)
        assert all(member in open_to[pair] for pair, member in given.items())
        every = itertools.product(*open_to.values())
        best = min(worth(raw, stateless, dict(zip(open_to, owner, strict=True))) for owner in every)
        assert worth(raw, stateless, given) == best, (raw, stateless)
        compared += len({topic in stateless for topic, _ in given}) == 2
    assert compared > GROUPS // 2


def test_the_choice_among_equal_places_with_state_leaves_room_for_tasks_without() -> None:
    """u-0 to u-2 have state and go 2 to 1 or 1 to 2; the two of t, which a alone wants, decide."""
    plan = planned("min2", stateless="t")
    assert (plan["measures"]["load_max"], plan["measures"]["load_min"], plan["measures"]["moves"]) == (3, 2, 0)


def test_a_task_without_state_stays_where_one_with_state_can_make_room() -> None:
    plan = planned("mv", stateless="v")
    assert plan["measures"]["moves"] == 0
    assert plan["measures"]["load_squares"] == 8


def test_with_more_threads_than_tasks_every_process_has_a_task() -> None:
    plan = planned("ha-fresh", process="host")
    loads = sorted(sum(map(len, held.values())) for held in plan["tasks"]["active"].values())
    assert loads == [1, 1, 2]
    assert plan["proof"]["processes"] == "optimal"


def test_two_idle_processes_warm_up_although_each_thread_of_the_third_has_room() -> None:
    plan = planned("ha-scale-out", process="host")
    warming = {process: sum(map(len, held.values())) for process, held in plan["tasks"]["warmup"].items()}
    assert warming == {"p1": 0, "p2": 1, "p3": 1}
    assert plan["tasks"]["next_probing_rebalance_ms"] == 600_000
    assert plan["measures"]["moves"] == 0


def test_the_size_of_the_network_counts_classes_of_like_tasks() -> None:
    """2,020 tasks on 40 members are 80,800 pairs, and 80 classes at most: proved, and no load could be more even."""
    held = {m: {"s": [p for p in range(20) if p % 38 == m], "u": [p for p in range(2000) if p % 38 == m]}
            for m in range(40)}  # fmt: skip
    members = {f"m{m:02}": {"topics": ["s", "u"], "owned": held[m], "generation": 3} for m in range(40)}
    whole = apportion.plan({"topics": {"s": 20, "u": 2000}, "members": members}, "streams", {"stateless": ["u"]})
    assert set(whole.proof.values()) == {"optimal"}
    assert (whole.measures["load_min"], whole.measures["load_max"]) == (50, 51)


def test_where_the_network_would_be_too_large_nothing_is_called_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignor, "place_jointly", lambda *placing: None)
    assert planned("min2", stateless="t")["proof"]["balance"] == "heuristic"
    assert planned("ha-fresh", process="host", stateless="t")["proof"]["balance"] == "optimal"  # of one kind
