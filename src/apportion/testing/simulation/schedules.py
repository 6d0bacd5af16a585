"""Schedules drawn from a seed, runs of them, and the shortest schedule that still fails."""

from __future__ import annotations

import gc
import itertools
import json
import logging
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apportion.testing import jars
from apportion.testing.simulation import stand_ins
from apportion.testing.simulation.checks import CALM_S, CheckFailed, Checks
from apportion.testing.simulation.members import acting_on_lag, consumer_of, counting, reading
from apportion.testing.simulation.stage import FAULTS, Action, Program, Stage

SETTLE_S: Final = 90.0
"""Within so many seconds of the last fault a group has one reader for each partition, and all is committed."""
STRATEGIES: Final = (
    *("cooperative-sticky", "cooperative-lag-aware", "cooperative-failover"),
    *("sticky", "lag-aware", "failover", "range", "roundrobin"),
)
WHEN_READING: Final = ("Fetch", "OffsetCommit", "OffsetFetch", "JoinGroup", "SyncGroup", "Heartbeat")
WHEN_COUNTING: Final = (
    *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "Produce", "InitProducerId"),
    *("OffsetFetch", "SyncGroup"),
)


ROLLED: Final = 0.2
"""Share of schedules whose members restart one after the other once all faults are over."""


@dataclass(frozen=True)
class Plan:
    """One run: its members, and its faults.

    kind
        ``reading`` (KafkaConsumer with our strategy) or ``counting`` (TaskRunner, exactly or at least once).
    """

    seed: int
    kind: str
    strategy: str
    settings: Mapping[str, Any]
    version: str
    handover: float
    partitions: int
    script: tuple[Action, ...]


@dataclass
class Run:
    """The result of one run; ``failure`` is None if all checks held."""

    events: list[dict[str, Any]]
    failure: CheckFailed | None = None
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    joins: int = 0


def draw(seed: int, faults: int = 18) -> Plan:
    """A plan with about so many faults, the same for the same seed."""
    chance = random.Random(f"plan {seed}")  # noqa: S311 - not for secrets
    kind = "counting" if chance.random() < 0.35 else "reading"
    strategy = "streams" if kind == "counting" else chance.choice(STRATEGIES)
    settings: dict[str, Any] = {"exact": seed % 4 != 3}
    if kind == "reading":
        settings = {"static": chance.random() < 0.3, "enable_auto_commit": chance.random() < 0.2}
    members = [f"m{n}" for n in range(chance.randint(2, 4))]
    partitions = chance.randint(2, 6)
    lags = strategy.endswith("lag-aware")
    per_s = 12 if lags else chance.choice((4, 4, 16))
    script: list[Action] = [{"at": 0, "do": "traffic", "topic": "records", "per_s": per_s, "skew": 3 if lags else 1}]
    script += [{"at": round(chance.uniform(0, 4), 3), "do": "start", "member": member} for member in members]
    at, gap_s = 6.0, chance.choice((0.5, 1.0, 2.0))
    for _ in range(faults):
        at += chance.expovariate(1 / gap_s)
        script.append({"at": round(at, 3), **_fault(chance, kind, strategy, members, partitions)})
    # What a fault takes away comes back, and everybody is there in the end; some groups are rolled in peace before it.
    last = at + 12
    script += [{"at": round(last, 3), "do": "start", "member": member} for member in members]
    if chance.random() < ROLLED:
        last += CALM_S + 2 - 12 + max(float(action.get("for", 0)) for action in script)
        for member in members:
            script.append({"at": round(last, 3), "do": "leave" if kind == "reading" else "close", "member": member})
            script.append({"at": round(last + 3, 3), "do": "start", "member": member})
            last += chance.uniform(3, 6)
    script.append({"at": round(last, 3), "do": "end of traffic"})
    handover = chance.choice((0.0, 0.0, 0.02))
    return Plan(seed, kind, strategy, settings, chance.choice(jars.KAFKA), handover, partitions, tuple(script))


SMALL: Final[tuple[Action, ...]] = (
    {"do": "kill", "for": 2},
    {"do": "freeze", "for": 2},
    {"do": "freeze", "for": 9},
    {"do": "drop"},
)
"""The one fault of a small world."""


def small_worlds(depth: int) -> Iterator[Plan]:
    """Two members, two partitions, one fault: each of ``SMALL`` at each of the first requests of either member.

    depth
        How many requests; the second member joins, and the first leaves, within some 60 of the first one's.
    """
    story: list[Action] = [
        {"at": 0, "do": "traffic", "topic": "records", "per_s": 2},
        {"at": 0, "do": "start", "member": "m0"},
        {"at": 4, "do": "start", "member": "m1"},
        {"at": 10, "do": "close", "member": "m0"},
        {"at": 22, "do": "end of traffic"},
    ]
    for kind, strategy in (("reading", "cooperative-sticky"), ("reading", "range"), ("counting", "streams")):
        for fault, member, request in itertools.product(SMALL, ("m0", "m1"), range(1, depth + 1)):
            script = (*story, {"at": 0, **fault, "member": member, "request": request})
            yield Plan(request, kind, strategy, {}, jars.KAFKA[0], 0.0, 2, script)


def _fault(chance: random.Random, kind: str, strategy: str, members: list[str], partitions: int) -> dict[str, Any]:
    do = chance.choice(["kill", "freeze", "close", "leave", "lose answer", *FAULTS])
    member, node = chance.choice(members), chance.randint(1, 2)
    seconds = round(chance.choice((chance.uniform(0.1, 3), chance.uniform(3, 20))), 3)
    of_member: dict[str, Any] = {"do": do, "member": member}
    when = chance.choice(WHEN_READING if kind == "reading" else WHEN_COUNTING)
    if do in ("kill", "freeze", "drop") and chance.random() < 0.6:
        of_member["when"] = when
    if do in ("hostile", "twin", "leave") and kind == "counting":
        do, of_member = "drop", {"do": "drop", "member": member}
    wider = {"topic": "records", "partitions": partitions + 1, "with": ["changelog", "counts"] * (kind == "counting")}
    facts: dict[str, dict[str, Any]] = {
        "grow": {"do": do, **wider},
        "kill": {**of_member, "for": seconds},
        "freeze": {**of_member, "for": seconds},
        "close": of_member,
        "leave": of_member,
        "slow": {**of_member, "for": seconds, "takes": round(chance.uniform(0.05, 4), 3)},
        "drop": of_member,
        "part": {**of_member, "node": node, "for": seconds},
        "lose answer": {**of_member, "when": when},
        "stop broker": {"do": do, "node": node, "for": seconds},
        "move coordinator": {"do": do, "node": node},
        "fail append": {"do": do, "error": chance.choice(("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"))},
        "clock": {**of_member, "step": round(chance.uniform(-3600, 3600), 3)},
        "twin": {**of_member, "for": seconds},
        "hostile": {"do": do, "for": seconds, "group": "group", "topics": ["records"], "strategy": strategy},
    }
    return facts[do]


def run(plan: Plan) -> Run:
    """Play a plan to its end, or to the first check that fails."""
    with tempfile.TemporaryDirectory(prefix="apportion-simulation-") as folder:
        counts, lags = plan.kind == "counting", plan.strategy.endswith("lag-aware")
        topics = dict.fromkeys(("records", "changelog", "counts")[: 3 if counts else 1], plan.partitions)

        def program(checks: Checks) -> Program:
            if counts:
                return counting(Path(folder), "records", "counts", "changelog", checks)
            pauses = plan.seed % 8 == 5
            settings = {name: value for name, value in plan.settings.items() if name != "static"}
            settings |= {"max_poll_records": 3} if pauses else {}

            def make(client_id: str, bootstrap_servers: list[str]) -> Any:
                static = {"group_instance_id": client_id} if plan.settings.get("static") else {}
                acting = acting_on_lag(bootstrap_servers, checks) if lags else {}
                make_one = consumer_of(plan.strategy, acting, **settings, **static)
                return make_one(client_id=client_id, bootstrap_servers=bootstrap_servers)

            return reading(make, None, ["records"], checks, record_s=0.1 if lags else 0.0, pauses=pauses)

        counted, kept = ("counts", "changelog") if counts else (None, None)
        facts = {"version": plan.version, "handover": plan.handover, "exact": plan.settings.get("exact", True)}
        scene = Scene(program, topics, ["records"], counted, kept, **facts)
        return play(plan.seed, scene, plan.script)


@dataclass(frozen=True)
class Scene:
    """The tools for playing a script.

    program
        What members run, given the run's checks.
    sources, counted, kept, exact
        As ``Checks`` takes them.
    watch
        Called with stage and checks before anything happens.
    also
        More modules whose clocks and threads are virtual meanwhile.
    """

    program: Callable[[Checks], Program]
    topics: Mapping[str, int]
    sources: list[str]
    counted: str | None = None
    kept: str | None = None
    exact: bool = True
    version: str = jars.KAFKA[0]
    handover: float = 0.0
    watch: Callable[[Stage, Checks], None] | None = None
    also: Sequence[Any] = ()


def play(seed: int, scene: Scene, script: Iterable[Action]) -> Run:
    """Play a script, then wait until the group is at rest; a check's finding ends it."""
    with quiet():
        return _played(seed, scene, sorted(script, key=lambda action: float(action["at"])))


def _played(seed: int, scene: Scene, script: list[Action]) -> Run:
    stage = Stage(seed, lambda _: None, topics=scene.topics, version=scene.version, handover=scene.handover)
    checks = Checks(stage, scene.sources, scene.counted, scene.kept, scene.exact)
    stage.program = scene.program(checks)
    if scene.watch is not None:
        scene.watch(stage, checks)
    failure = None
    with stand_ins.swapped(stage.world, scene.also):
        try:
            stage.play(script, float(script[-1]["at"]) + 0.001 if script else 0.001)
            _settle(stage, checks)
        except CheckFailed as failed:
            failure = failed.with_traceback(None)  # else it keeps the whole world alive
    world, cluster = stage.world, stage.cluster
    world.note("end", requests=cluster.requests, turns=world.turns, checksum=f"{cluster.checksum:08x}")
    return Run(world.events, failure, world.now, stage.faults, cluster.joins)


def _settle(stage: Stage, checks: Checks) -> None:
    """Until the group is at rest, and stays there for a while.

    Raises
        CheckFailed where that takes longer than it may.
    """
    if not stage.living():
        return
    until = max(stage.world.now, stage.troubled_until) + SETTLE_S
    calm = 0
    while calm < 3:
        stage.world.run(stage.world.now + 1)
        check, why = checks.unsettled()
        calm = 0 if why else calm + 1
        if why and stage.world.now > until:
            raise CheckFailed(check, f"{why}, {SETTLE_S:g} s after the last fault")


@contextmanager
def quiet() -> Iterator[None]:
    """Without the clients' log, which costs more than the run, nor their complaints when they are collected."""
    before, hook = logging.root.manager.disable, sys.unraisablehook
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        sys.unraisablehook = lambda _: None
        gc.collect()
        sys.unraisablehook = hook
        logging.disable(before)


def shortened(script: Sequence[Action], run: Callable[[Sequence[Action]], Run], tries: int = 40) -> list[Action]:
    """A short schedule that fails in the same way: runs of actions are left out, ever shorter ones (Zeller's ddmin)."""

    def check(actions: Sequence[Action]) -> str | None:
        failure = run(actions).failure
        return None if failure is None else failure.check

    wanted = check(script)
    left, size = list(script), max(1, len(script) // 2)
    while tries > 0:
        for begin in range(0, len(left), size):
            fewer = left[:begin] + left[begin + size :]
            tries -= 1
            if tries >= 0 and fewer and check(fewer) == wanted:
                left = fewer
                break
        else:
            if size == 1:
                break
            size //= 2
    return left


def text(script: Iterable[Action]) -> str:
    """A schedule as JSON, one action a line."""
    return "[\n" + ",\n".join("  " + json.dumps(action) for action in script) + "\n]"
