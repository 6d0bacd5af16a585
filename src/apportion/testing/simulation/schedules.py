"""Schedules drawn from a seed, runs of them, and the shortest schedule that still fails."""

from __future__ import annotations

import gc
import json
import logging
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from apportion.testing import jars
from apportion.testing.simulation import governed, stand_ins
from apportion.testing.simulation.checks import CALM_S, CheckFailed, Checks
from apportion.testing.simulation.coordinator import OURS
from apportion.testing.simulation.governed import KNOWN_S
from apportion.testing.simulation.members import Committing, acting_on_lag, consumer_of, counting, reading
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
WHEN: Final = {"reading": WHEN_READING, "counting": WHEN_COUNTING, "governed": ("ConsumerGroupHeartbeat",)}


WHEN_GOING: Final = ("JoinGroup", "SyncGroup", "Heartbeat")
CHANGES: Final = 0.33
"""How many members come, or go and come back, for each fault and besides it."""
MOST: Final = 6
"""Members that a group grows to."""
HABITS: Final[Mapping[str, Mapping[str, float]]] = {
    "reading": {
        name: share
        for share, names in {
            0.3: "static",
            0.2: "auto listens warms",
            0.15: "pauses pattern mixed",
            0.1: "seeks",
        }.items()
        for name in names.split()
    },
    "counting": {"repeats": 0.25, "standbys": 0.4, "warms": 0.4, "timed": 0.2},
}
"""Kind to the share of its schedules in which members do as ``members.reading`` and ``members.counting`` say."""
MIXED: Final = ("m1", "m3", "m5")
"""The members that run aiokafka, in a schedule with ``mixed``."""
ROLLED: Final = 0.2
"""Share of schedules whose members restart one after the other once all faults are over."""


@dataclass(frozen=True)
class Plan:
    """One run: its members, and its faults.

    kind
        ``reading`` (KafkaConsumer with our strategy), ``counting`` (TaskRunner, exactly or at least once), or
        ``governed`` (members of the new protocol that are nothing but their heartbeats, and two governors).
    habits
        Names in ``HABITS``.
    watch
        As ``Scene`` has it.
    """

    seed: int
    kind: str
    strategy: str
    habits: frozenset[str]
    version: str
    handover: float
    partitions: int
    script: tuple[Action, ...]
    watch: Callable[[Stage, Checks], None] | None = None


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
    if under_governors := bool(OURS) and seed % 8 == 7:
        kind, strategy = "governed", "failover"
    lags = strategy.endswith("lag-aware")
    habits = frozenset(name for name, share in HABITS.get(kind, {}).items() if chance.random() < share)
    habits -= {"pauses"} if lags else set()  # such a member would never catch up with so many records
    members = [f"m{n}" for n in range(chance.randint(2, 4))] + ["g0", "g1"] * under_governors
    partitions = chance.randint(6, 9) if lags else chance.randint(2, 6)
    per_s = 12 if lags else chance.choice((4, 4, 16))
    script: list[Action] = [{"at": 0, "do": "traffic", "topic": "records", "per_s": per_s, "skew": 3 if lags else 1}]
    script += [{"at": round(chance.uniform(0, 4), 3), "do": "start", "member": member} for member in members]
    at, gap_s = 6.0, chance.choice((1.0, 2.0, 6.0) if lags else (0.5, 1.0, 2.0))  # a leader acts once its group rests
    for _ in range(faults):
        at += chance.expovariate(1 / gap_s)
        script.append({"at": round(at, 3), **_fault(chance, kind, strategy, members, partitions)})
        if chance.random() < CHANGES:
            script += _change(chance, at, members)
    # What a fault takes away comes back, and everybody is there in the end; some groups are rolled in peace before it.
    last = at + 12
    script += [{"at": round(last, 3), "do": "start", "member": member} for member in members]
    if under_governors:
        script += _without_governors(last, members[0])
        last += 1.5 * KNOWN_S + 20
    elif chance.random() < ROLLED:
        last += CALM_S + 2 - 12 + max(float(action.get("for", 0)) for action in script)
        for member in members:
            script.append({"at": round(last, 3), "do": "leave", "member": member})
            script.append({"at": round(last + 3, 3), "do": "start", "member": member})
            last += chance.uniform(3, 6)
    script.append({"at": round(last, 3), "do": "end of traffic"})
    handover = chance.choice((0.0, 0.0, 0.02))
    return Plan(seed, kind, strategy, habits, chance.choice(jars.KAFKA), handover, partitions, tuple(script))


def _change(chance: random.Random, at: float, members: list[str]) -> Iterator[Action]:
    """A new member, which ``members`` has from now on, or one that goes and comes back."""
    if len(members) < MOST and chance.random() < 0.3:
        members.append(f"m{len(members)}")
        yield {"at": round(at, 3), "do": "start", "member": members[-1]}
        return
    member = chance.choice(members)
    when = {"when": chance.choice(WHEN_GOING)} if chance.random() < 0.3 else {}
    yield {"at": round(at, 3), "do": chance.choice(("close", "leave")), "member": member, **when}
    yield {"at": round(at + chance.uniform(0.3, 6), 3), "do": "start", "member": member}


def _without_governors(at: float, member: str) -> Iterator[Action]:
    """Both brokers restart, the governors say their plan again and die, and a member restarts: nothing else moves."""
    for node in (1, 2):
        yield {"at": at + 2 * node, "do": "stop broker", "node": node, "for": 1}
    for governor in ("g0", "g1"):
        yield {"at": at + 1.5 * KNOWN_S, "do": "kill", "member": governor}
        yield {"at": at + 1.5 * KNOWN_S + 20, "do": "start", "member": governor}
    yield {"at": at + 1.5 * KNOWN_S + 10, "do": "close", "member": member}
    yield {"at": at + 1.5 * KNOWN_S + 14, "do": "start", "member": member}


def _fault(chance: random.Random, kind: str, strategy: str, members: list[str], partitions: int) -> dict[str, Any]:
    do = chance.choice(["kill", "freeze", "lose answer", *FAULTS])
    member, node = chance.choice(members), chance.randint(1, 2)
    seconds = round(chance.choice((chance.uniform(0.1, 3), chance.uniform(3, 20))), 3)
    of_member: dict[str, Any] = {"do": do, "member": member}
    when = chance.choice(WHEN[kind])
    if do in ("kill", "freeze", "drop") and chance.random() < 0.6:
        of_member["when"] = when
    if do == "hostile" and kind == "counting":
        do, of_member = "drop", {"do": "drop", "member": member}
    wider = {"topic": "records", "partitions": partitions + 1, "with": ["changelog", "counts"] * (kind == "counting")}
    stranger: dict[str, Any] = {"group": "group", "topics": ["records"], "strategy": strategy}
    stranger = {"group": "foreign"} if kind == "governed" else stranger
    facts: dict[str, dict[str, Any]] = {
        "grow": {"do": do, **wider},
        "kill": {**of_member, "for": seconds},
        "freeze": {**of_member, "for": seconds},
        "slow": {**of_member, "for": seconds, "takes": round(chance.uniform(0.05, 4), 3)},
        "drop": of_member,
        "part": {**of_member, "node": node, "for": seconds},
        "lose answer": {**of_member, "when": when},
        "stop broker": {"do": do, "node": node, "for": seconds},
        "move coordinator": {"do": do, "node": node},
        "fail append": {"do": do, "error": chance.choice(("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"))},
        "clock": {**of_member, "step": round(chance.uniform(-3600, 3600), 3)},
        "twin": {**of_member, "for": seconds},
        "hostile": {"do": do, "for": seconds, **stranger},
    }
    return facts[do]


def run(plan: Plan) -> Run:
    """Play a plan to its end, or to the first check that fails."""
    with tempfile.TemporaryDirectory(prefix="apportion-simulation-") as folder:
        counts, lags = plan.kind == "counting", plan.strategy.endswith("lag-aware")
        topics = dict.fromkeys(("records", "changelog", "counts")[: 3 if counts else 1], plan.partitions)

        def program(checks: Checks) -> Program:
            if isinstance(checks, governed.GovernedChecks):
                return governed.program(checks)
            if counts:
                return counting(Path(folder), "records", "counts", "changelog", checks, plan.habits)
            settings: dict[str, Any] = {"enable_auto_commit": plan.habits & {"auto", "listens"} == {"auto"}}
            settings |= {"max_poll_records": 3} if "pauses" in plan.habits else {}

            def make(client_id: str, bootstrap_servers: list[str]) -> Any:
                static = {"group_instance_id": client_id} if "static" in plan.habits else {}
                acting = acting_on_lag(bootstrap_servers, checks) if lags else {}
                make_one = consumer_of(plan.strategy, acting, **settings, **static)
                return make_one(client_id=client_id, bootstrap_servers=bootstrap_servers)

            listener, record_s = Committing if "listens" in plan.habits else None, 0.1 if lags else 0.0
            ours = reading(make, listener, ["records"], checks, plan.habits, record_s)
            if "mixed" not in plan.habits:
                return ours
            from apportion.testing.simulation import aio_members

            theirs = aio_members.reading(plan.strategy, ["records"], checks, record_s)
            return lambda process: (theirs if process.member in MIXED else ours)(process)

        counted, kept = ("counts", "changelog") if counts else (None, None)
        scene = Scene(program, topics, ["records"], counted, kept, plan.habits, plan.version, plan.handover)
        scene = replace(scene, watch=plan.watch, checks=governed.GovernedChecks if plan.kind == "governed" else Checks)
        return play(plan.seed, scene, plan.script)


@dataclass(frozen=True)
class Scene:
    """The tools for playing a script.

    program
        What members run, given the run's checks.
    sources, counted, kept, habits
        As ``Checks`` takes them.
    checks
        What must hold.
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
    habits: frozenset[str] = frozenset()
    version: str = jars.KAFKA[0]
    handover: float = 0.0
    checks: type[Checks] = Checks
    watch: Callable[[Stage, Checks], None] | None = None
    also: Sequence[Any] = ()


def play(seed: int, scene: Scene, script: Iterable[Action]) -> Run:
    """Play a script, then wait until the group is at rest; a check's finding ends it."""
    with quiet():
        return _played(seed, scene, sorted(script, key=lambda action: float(action["at"])))


def _played(seed: int, scene: Scene, script: list[Action]) -> Run:
    stage = Stage(seed, lambda _: None, topics=scene.topics, version=scene.version, handover=scene.handover)
    checks = scene.checks(stage, scene.sources, scene.counted, scene.kept, scene.habits)
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
    """A short schedule that fails in the same way: runs of actions are left out, ever shorter ones (Zeller's ddmin).

    The end of the traffic stays: without it nothing is ever read to its end.
    """
    ends = [action for action in script if action["do"] == "end of traffic"]

    def check(actions: Sequence[Action]) -> str | None:
        failure = run([*actions, *ends]).failure
        return None if failure is None else failure.check

    wanted = check(script)
    left, size = [action for action in script if action not in ends], max(1, len(script) // 2)
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
    return [*left, *ends]


def text(script: Iterable[Action]) -> str:
    """A schedule as JSON, one action a line."""
    return "[\n" + ",\n".join("  " + json.dumps(action) for action in script) + "\n]"
