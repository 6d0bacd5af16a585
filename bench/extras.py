"""What Kafka's matrix does not ask: overlap, a million partitions, tiny groups, growth, start-up, other strategies.

``python -m bench.extras NAME`` runs one of them in this process and prints its rows as JSON, so that memory and
collector see nothing else.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from apportion.assignors import find
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.topic_metadata import ClientMetadata
from bench.cells import Cell
from bench.leader import kafka_python, logged, metadata
from bench.matrix import planned, timed

Row = dict[str, Any]
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)


def parts() -> list[Row]:
    """The leader's call in small groups, part by part."""
    from bench.parts import leader_parts  # here, since it imports a client, and memory is measured in this module

    return leader_parts()


def caches() -> list[Row]:
    """The leader's call in small groups beside franz-go, with equally warm and equally cold caches."""
    from bench.caches import caches as measured

    return measured()


def floors() -> list[Row]:
    """What lists and dicts alone take where a goal is near or missed."""
    from bench.parts import list_floors

    return list_floors()


def overlap() -> list[Row]:
    """2,000 members with random halves of 500 topics, 100,000 partitions."""
    chance = random.Random(7)  # noqa: S311
    names = [f"topic{t}" for t in range(500)]
    members = {f"member{m}": {"topics": chance.sample(names, 250)} for m in range(2000)}
    raw: Row = {"topics": dict.fromkeys(names, 200), "members": members}
    fresh, cpu, wall = timed(raw, 3)
    rows = [_row("at first", fresh, cpu, wall)]
    for name, held in fresh.target.items():
        raw["members"][name] |= {"owned": held, "generation": 5}
    raw["members"]["newcomer"] = {"topics": chance.sample(names, 250)}
    return [*rows, _row("one joins", *timed(raw, 3))]


def million() -> list[Row]:
    """2,000 topics of 500 partitions, 2,000 members; time and the whole process's peak memory, input included."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for event in ("FULL", "JOIN_ONE"):
            path = Path(folder) / f"{event}.json"
            if event == "JOIN_ONE":
                path.write_text(json.dumps(_million_joined()))
            rows.append(_child("million_one", str(path)))
    return rows


def _million_raw() -> Row:
    names = [f"topic{t}" for t in range(2000)]
    return {"topics": dict.fromkeys(names, 500), "members": {f"member{m}": {"topics": names} for m in range(2000)}}


def _million_joined() -> Row:
    raw = _million_raw()
    newest = raw["members"].pop("member1999")
    for name, held in planned(raw, find("cooperative-sticky"))[0].target.items():
        raw["members"][name] |= {"owned": held, "generation": 5}
    names = raw["members"]["member0"]["topics"]
    del newest["topics"]
    return {**raw, "members": {**raw["members"], "member1999": {"topics": names}}}


def million_one(path: str) -> list[Row]:
    """One call on a million partitions: made here where the file is missing, else read from it."""
    there = Path(path).exists()
    raw = json.loads(Path(path).read_text()) if there else _million_raw()
    strategy, before = find("cooperative-sticky"), _peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    plan, _ = planned(raw, strategy)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = _peak_mb()
    row = _row("one joins (read from JSON)" if there else "at first", plan, cpu * 1000, wall * 1000)
    return [{**row, "MB with input": round(before), "MB at peak": round(peak)}]


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# -- large groups, from bytes to bytes ---------------------------------------------------------------------------------


def large() -> list[Row]:
    """The leader's call of large groups from what members sent, each in a process that reads that from a file."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("a million partitions, one joins", _million_joined), ("10,000 members", _one_topic_each)):
            raw, path = make(), Path(folder) / "sent"
            sizes = {topic: what for topic, what in raw["topics"].items() if isinstance(what, int)}
            pieces = [json.dumps(sizes).encode(), *(piece for m, sent in metadata(raw) for piece in (m.encode(), sent))]
            path.write_bytes(b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces))
            del raw, pieces
            rows += [{"group": name, **_child("large_one", str(path), client)} for client in ("none", "kafka-python")]
    return rows


def _one_topic_each() -> Row:
    """10,000 members that want one topic each, of 100 with 1,000 partitions each; one member joins."""
    raw: Row = {
        "topics": {f"topic{t}": 1000 for t in range(100)},
        "members": {f"member{m}": {"topics": [f"topic{m % 100}"]} for m in range(9999)},
    }
    for name, held in planned(raw, find("cooperative-sticky"))[0].target.items():
        raw["members"][name] |= {"owned": held, "generation": 5}
    raw["members"]["member9999"] = {"topics": ["topic99"]}
    return raw


def large_one(path: str, client: str) -> list[Row]:
    """One call by kafka-python's coordinator, or ("none") by the bridge that adapters share, on sizes alone."""
    pieces, raw, at = [], Path(path).read_bytes(), 0
    while at < len(raw):
        end = at + 8 + int.from_bytes(raw[at : at + 8], "big")
        pieces.append(raw[at + 8 : end])
        at = end
    del raw
    sizes, ids, sent = json.loads(pieces[0]), [piece.decode() for piece in pieces[1::2]], pieces[2::2]
    call = _bridge_call(sizes, ids, sent)
    if client != "none":
        prepare: Any = kafka_python({"topics": sizes, "members": {}})
        call = prepare(list(zip(ids, sent, strict=True)))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of the call alone from here on
    before = _memory_mb("VmRSS")
    with logged():
        wall, cpu = time.perf_counter(), time.process_time()
        answers = call()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return [
        {
            "client": client,
            "cpu_ms": _ms(cpu * 1000),
            "wall_ms": _ms(wall * 1000),
            "MB received": round(sum(map(len, sent)) / 1e6),
            "MB answered": round(sum(map(len, answers.values())) / 1e6),
            "MB before": round(before),
            "MB at peak": round(_memory_mb("VmHWM")),
        }
    ]


def _bridge_call(sizes: dict[str, int], ids: list[str], sent: list[bytes]) -> Callable[[], dict[str, bytes]]:
    bridge = Bridge("cooperative-sticky", Options())
    tables = {topic: dict.fromkeys(range(size)) for topic, size in sizes.items()}
    view = ClientMetadata(SimpleNamespace(_partitions=tables), "replicas")
    return lambda: bridge.lead(JoinedGroup(ids, [None] * len(ids), sent), view, "bench", 6)


def _memory_mb(field: str) -> float:
    """A line of this process's status, which Linux tells in kB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def tiny() -> list[Row]:
    """6 partitions, 3 members, a past: from arrays, from the trusted form, from a dict whose fields are checked."""
    from apportion.model.build import build
    from apportion.model.group_json import read_group

    raw = {
        "topics": {"clicks": 6},
        "members": {
            "a": {"topics": ["clicks"], "owned": {"clicks": [0, 1, 2]}, "generation": 4},
            "b": {"topics": ["clicks"], "owned": {"clicks": [3, 4, 5]}, "generation": 4},
            "c": {"topics": ["clicks"]},
        },
    }
    strategy, count = find("cooperative-sticky"), 2000
    groups = [build(raw) for _ in range(count)]
    copies = [copy.deepcopy(raw) for _ in range(count)]

    def each(what: Callable[[Any], object], items: list[Any]) -> float:
        spent = []
        for item in items:
            at = time.process_time_ns()
            what(item)
            spent.append(time.process_time_ns() - at)
        return round(median(spent) / 1000, 1)

    ways: list[tuple[str, Callable[[Any], object], list[Any], int]] = [
        ("arrays: assign", strategy.assign, groups, 100),
        ("dict: build, assign", lambda raw: strategy.assign(build(raw)), copies, 300),
        ("dict: read_group, assign", lambda raw: strategy.assign(read_group(raw)), copies, 300),
        ("dict: build, assign, names", lambda raw: planned(raw, strategy), copies, 300),
    ]
    return [{"from": name, "us": each(what, items), "goal_us": goal} for name, what, items, goal in ways]


def growth() -> list[Row]:
    """Ten sizes, 100 topics, 200 members with nested subscriptions, one more joins."""
    rows = []
    for size in SIZES:
        plan, cpu, wall = timed(Cell("nes", 200, size // 200, 100, "JOIN_ONE").group(), 3)
        per = round(cpu * 1e6 / max(plan.group.P, 1))
        rows.append({"partitions": plan.group.P, "cpu_ms": _ms(cpu), "wall_ms": _ms(wall), "ns_a_partition": per})
    return rows


def startup() -> list[Row]:
    """The whole process of the command line: its start alone, and what it says of 10,000 partitions from a file."""
    from bench.startup import big_group

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "group.json"
        path.write_text(json.dumps(big_group()))
        told = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        told["PYTHONPYCACHEPREFIX"] = folder  # compiled modules, as pip leaves them: made by the first run
        asked = (["plan", str(path), "-o", "json"], ["describe", str(path)], ["compare", str(path)])
        for words, goal in ((["--version"], 150), *((words, 1000) for words in asked)):
            command = [sys.executable, "-m", "apportion", *words]
            spent = [_process(command, told) for _ in range(6)][1:]
            cpu, wall = (median(part) for part in zip(*spent, strict=True))
            shown = " ".join(["apportion", *words]).replace(str(path), "group.json")
            rows.append({"command": shown, "cpu_ms": round(cpu), "wall_ms": round(wall), "goal_ms": goal})
    return rows


def _process(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, wall * 1000


def strategies() -> list[Row]:
    """Lag-aware and stream-join with a past and a newcomer, at 10,000 and 100,000 partitions."""
    rows = []
    for name in ("lag-aware", "sticky-stream-join"):
        for total in (10_000, 100_000):
            raw = _joined(name, total)
            plan, cpu, wall = timed(raw, 3, name)
            rows.append({"strategy": name, "members": plan.group.M, **_row("one joins", plan, cpu, wall)})
    return rows


def _joined(name: str, total: int) -> Row:
    chance = random.Random(11)  # noqa: S311
    topics = [f"topic{t}" for t in range(20)]
    size = total // len(topics)
    described: Row = {
        topic: [{"partition": p, "lag": int(chance.paretovariate(1.2) * 1000)} for p in range(size)]
        if name == "lag-aware"
        else size
        for topic in topics
    }
    members: Row = {f"member{m}": {"topics": topics} for m in range(total // 100)}
    raw: Row = {"topics": described, "members": members}
    for member, held in planned(raw, find(name))[0].target.items():
        members[member] |= {"owned": held, "generation": 5}
    members["newcomer"] = {"topics": topics}
    return raw


def tasks() -> list[Row]:
    """Stateful tasks with one standby each, as ``bench/tasks.py`` makes them; seconds."""
    from tests.tasks.applications import Process

    from bench.tasks import application, as_after, seconds

    rows = []
    for count, processes in ((100, 4), (1000, 40), (4000, 160)):
        topology, partitions = application(count)
        fresh = [Process(f"p{q:03}", (f"p{q:03}-0",)) for q in range(processes)]
        first, plan = seconds(topology, partitions, fresh)
        settled = as_after(plan)
        dies, _ = seconds(topology, partitions, settled[1:])
        joins, _ = seconds(topology, partitions, [*settled, Process("q", ("q-0",))])
        times = {"at_first_s": round(first, 3), "one_dies_s": round(dies, 3), "one_joins_s": round(joins, 3)}
        rows.append({"tasks": count, "processes": processes, **times})
    return rows


def _ms(value: float) -> float:
    return round(value, 1 if value < 100 else 0)


def _row(event: str, plan: Any, cpu: float, wall: float) -> Row:
    said = plan.measures
    proof = ", ".join(f"{goal}: {how}" for goal, how in plan.proof.items())
    worth = {"moves": said["moves"], "loads": f"{said['load_min']} to {said['load_max']}"}
    return {
        "event": event,
        "partitions": plan.group.P,
        "cpu_ms": _ms(cpu),
        "wall_ms": _ms(wall),
        **worth,
        "proof": proof,
    }


def _child(*words: str) -> Row:
    return dict(run(*words)[0])


def run(*words: str) -> list[Row]:
    """The rows of one section, from a process of its own."""
    command = [sys.executable, "-m", "bench.extras", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    if done.returncode:
        return [{"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}]
    return list(json.loads(done.stdout))


if __name__ == "__main__":
    gc.collect()
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
