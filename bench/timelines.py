"""Three days in the life of an application with state, drawn: a kill, a rolling restart, a scale-out.

    python -m bench.timelines          writes docs/pictures/timeline-*.svg and prints the table of docs/streams.md

A simulation of one-second steps on the real planners: ``streams`` plans come from the task planner, those of ``range``
from the strategy itself. Brokers, networks and sessions are not in it; ``examples/word_counts`` measures those.
What is assumed stands in ``World``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.tasks.applications import Process, plan_tasks

import apportion
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Task, Topology

Event = tuple[int, str, str]
"""Second, ``stop`` or ``start``, process."""


@dataclass(frozen=True)
class Scenario:
    """What happens to which processes."""

    name: str
    title: str
    first: str
    events: tuple[Event, ...]


SCENARIOS = (
    Scenario("kill", "process b dies at second 60 and does not come back", "abcd", ((60, "stop", "b"),)),
    Scenario(
        "rolling",
        "a rolling restart: each process is away for 20 seconds, its disk stays",
        "abcd",
        tuple(e for n, p in enumerate("abcd") for e in ((40 + 60 * n, "stop", p), (60 + 60 * n, "start", p))),
    ),
    Scenario("scale-out", "processes d and e join at second 60", "abc", ((60, "start", "d"), (60, "start", "e"))),
)


@dataclass(frozen=True)
class World:
    """What is assumed.

    tasks, backlog, growth_s
        Tasks; messages in the changelog of each at first, and more of them each second.
    restore_s
        Changelog messages that a process reads in a second, its waiting tasks first.
    """

    tasks: int = 12
    backlog: int = 200_000
    growth_s: int = 50
    restore_s: int = 20_000
    seconds: int = 300
    settings: TaskSettings = field(
        default_factory=lambda: TaskSettings(num_standby_replicas=1, acceptable_recovery_lag=1_000)
    )


@dataclass
class Run:
    """A simulated day.

    place
        Task to who should run it; ``copies`` the (process, task) pairs that are kept warm, with their role.
    position
        (Process, task) to the changelog messages in its store; it outlives the process.
    drawn
        (Process, task) to its role in each second.
    waited, behind
        Messages restored while a task waited for them, and in the background; ``idle_s`` task-seconds nobody ran it.
    """

    world: World
    warm: bool
    alive: set[str]
    place: dict[int, str] = field(default_factory=dict)
    copies: dict[tuple[str, int], str] = field(default_factory=dict)
    position: dict[tuple[str, int], int] = field(default_factory=dict)
    drawn: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
    waited: int = 0
    behind: int = 0
    idle_s: int = 0
    moves: int = 0

    def end(self, second: int) -> int:
        """Where every changelog ends."""
        return self.world.backlog + self.world.growth_s * second

    def rebalance(self, second: int) -> None:
        """A new plan: who runs what; a task that moves must have its state whole before it runs."""
        before = dict(self.place)
        if self.warm:
            self._plan_streams(second)
        else:
            self._plan_range()
        moved = {n for n, process in self.place.items() if before.get(n) != process}
        self.moves += sum(before.get(n) in self.alive for n in moved if n in before)
        self.ready -= moved

    def _plan_streams(self, second: int) -> None:
        processes = []
        for name in sorted(self.alive):
            mine = {Task(0, n): None for n, owner in self.place.items() if owner == name}
            lag = {
                Task(0, n): self.end(second) - at
                for (process, n), at in self.position.items()
                if process == name and (Task(0, n) not in mine or n not in self.ready)
            }
            processes.append(Process(name, (f"{name}-0",), mine, lag=lag))
        topology = Topology.of(Subtopology(("source",), "changelog"))
        plan = plan_tasks(topology, {"source": self.world.tasks}, processes, self.world.settings)
        self.place = {task.partition: p for p, hands in plan.active.items() for ts in hands.values() for task in ts}
        self.copies = {
            (p, task.partition): role
            for role, hands in (("standby", plan.standby), ("warmup", plan.warmup))
            for p, threads in hands.items()
            for tasks in threads.values()
            for task in tasks
        }
        self.coming = {
            (plan.application.processes[int(plan.answer.target[n])].process_id, plan.application.tasks[n].partition)
            for n in range(self.world.tasks)
            if plan.answer.active[n] != plan.answer.target[n]
        }
        self.coming |= {at for at, role in self.copies.items() if role == "warmup" and not self._near(at, second)}

    def _plan_range(self) -> None:
        members = {name: {"topics": ["source"]} for name in sorted(self.alive)}
        plan = apportion.plan({"topics": {"source": self.world.tasks}, "members": members}, "range")
        self.place = {n: name for name, owned in plan.assignment.items() for n in owned.get("source", ())}
        self.copies, self.coming = {}, set()

    def step(self, second: int) -> None:
        """One second: running tasks write, processes restore, waiting tasks first."""
        end = self.end(second)
        for n in list(self.ready):
            self.position[self.place[n], n] = end
        for name in sorted(self.alive):
            self._restore(name, end)
        self.idle_s += self.world.tasks - len(self.ready)
        for name in self._names():
            for n in range(self.world.tasks):
                self.drawn.setdefault((name, n), ["" for _ in range(second)]).append(self._role(name, n))

    def _restore(self, name: str, end: int) -> None:
        budget = self.world.restore_s
        waiting = [n for n, owner in sorted(self.place.items()) if owner == name and n not in self.ready]
        for n in waiting + [n for process, n in sorted(self.copies) if process == name]:
            at = self.position.get((name, n), 0)
            read = min(budget, end - at)
            budget -= read
            self.position[name, n] = at + read
            if n in waiting:
                self.waited += read
                if at + read == end:
                    self.ready.add(n)
            else:
                self.behind += read

    def probes(self, second: int) -> bool:
        """Whether some task or standby that is to move has caught up where it is to go."""
        return any(self._near(at, second) for at in self.coming)

    def _near(self, at: tuple[str, int], second: int) -> bool:
        return self.end(second) - self.position.get(at, 0) <= self.world.settings.acceptable_recovery_lag

    def _names(self) -> list[str]:
        return sorted({process for process, _ in self.drawn} | self.alive)

    def _role(self, name: str, n: int) -> str:
        if name not in self.alive:
            return "down"
        if self.place.get(n) == name:
            return "active" if n in self.ready else "restoring"
        return self.copies.get((name, n), "")


def simulate(scenario: Scenario, warm: bool, world: World | None = None) -> Run:
    """Run a scenario under ``streams`` (warm) or ``range``; the first plan begins with everything in place."""
    world = world or World()
    run = Run(world, warm, set(scenario.first))
    run.rebalance(0)
    run.position = dict.fromkeys([(p, n) for n, p in run.place.items()] + list(run.copies), world.backlog)
    run.ready = set(range(world.tasks))
    for second in range(world.seconds):
        happened = [event for event in scenario.events if event[0] == second]
        for _, what, process in happened:
            run.alive = run.alive - {process} if what == "stop" else run.alive | {process}
        run.ready -= {n for n, owner in run.place.items() if owner not in run.alive}
        if happened or run.probes(second):
            run.rebalance(second)
        run.step(second)
    return run


COLOURS = {"active": "#2b6cb0", "standby": "#9ae6b4", "warmup": "#f6ad55", "restoring": "#e53e3e", "down": "#e2e8f0"}
SAYS = {"active": "runs", "standby": "standby", "warmup": "warm-up", "restoring": "waits for its state", "down": "down"}
LANE, GAP, LEFT, WIDE = 5, 10, 30, 2


def picture(scenario: Scenario, runs: Sequence[tuple[str, Run]]) -> str:
    """SVG: under each strategy a band for each process, in it a lane for each task, time to the right."""
    seconds = runs[0][1].world.seconds
    parts, y = [f'<text x="{LEFT}" y="16" font-size="13">{scenario.title}</text>'], 28
    for x, (role, colour) in zip(range(LEFT, 9999, 120), COLOURS.items(), strict=False):
        parts.append(f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="{colour}"/>')
        parts.append(f'<text x="{x + 13}" y="{y}">{SAYS[role]}</text>')
    y += 20
    for label, run in runs:
        said = f"{label}: {run.waited:,} messages restored while a task waited; {run.idle_s:,} task-seconds stood still"
        parts.append(f'<text x="{LEFT}" y="{y}" font-weight="bold">{said}</text>')
        y += 8
        for name in sorted({process for process, _ in run.drawn}):
            parts.append(f'<text x="12" y="{y + 34}">{name}</text>')
            for n in range(run.world.tasks):
                parts += lane(run.drawn.get((name, n), []), y + n * LANE)
            y += run.world.tasks * LANE + GAP
        y += 14
    ticks = [f'<text x="{LEFT + WIDE * s}" y="{y}">{s} s</text>' for s in range(0, seconds + 1, 60)]
    box = f'viewBox="0 0 {LEFT + WIDE * seconds + 40} {y + 10}"'
    style = 'font-family="sans-serif" font-size="11" shape-rendering="crispEdges"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>\n' + "\n".join(parts + ticks) + "\n</svg>\n"


def lane(roles: Sequence[str], y: int) -> list[str]:
    """One rectangle for each stretch of one role."""
    found, began = [], 0
    for second in range(1, len(roles) + 1):
        if second == len(roles) or roles[second] != roles[began]:
            if roles[began]:
                x, width = LEFT + WIDE * began, WIDE * (second - began)
                colour = COLOURS[roles[began]]
                found.append(f'<rect x="{x}" y="{y}" width="{width}" height="{LANE - 1}" fill="{colour}"/>')
            began = second
    return found


def main(folder: Path) -> None:
    """Draw all three and print what they cost."""
    folder.mkdir(parents=True, exist_ok=True)
    heads = ("scenario", "strategy", "restored while a task waited", "in the background", "task-seconds still", "moves")
    print("| " + " | ".join(heads) + " |")
    print("|---|---|---:|---:|---:|---:|")
    for scenario in SCENARIOS:
        runs = [("streams, one standby", simulate(scenario, True)), ("range", simulate(scenario, False))]
        (folder / f"timeline-{scenario.name}.svg").write_text(picture(scenario, runs), encoding="utf-8")
        for label, run in runs:
            print(f"| {scenario.name} | {label} | {run.waited:,} | {run.behind:,} | {run.idle_s:,} | {run.moves} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "pictures")
