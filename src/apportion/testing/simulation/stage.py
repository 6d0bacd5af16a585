"""One simulated cluster with members on it, and everything that can befall them: ``Stage.act``.

An action is a JSON object with ``at`` (virtual seconds), ``do`` (a method ``_do_...`` below, with spaces) and what it
needs. A script, or schedule, is a list of them. ``FAULTS`` are those that count as faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from kafka.protocol import consumer, producer

from apportion.errors import BadInput
from apportion.testing import jars
from apportion.testing.simulation import stand_ins
from apportion.testing.simulation.broker import Cluster
from apportion.testing.simulation.coordinator import CONFIG, Coordinator
from apportion.testing.simulation.kernel import EPOCH_S, Host, World
from apportion.testing.simulation.network import Network

Action = Mapping[str, Any]
Program = Callable[["Process"], None]
"""What a process runs: it returns when ``Process.leaving`` is set and it has left."""

FAULTS: Final = (
    *("kill", "freeze", "slow", "drop", "part", "lose answer", "stop broker", "move coordinator", "fail append"),
    *("grow", "clock", "twin", "hostile"),
)
APIS: Final[Mapping[str, int]] = {
    name.removesuffix("Request"): request.API_KEY
    for module in (consumer, producer)
    for name, request in vars(module).items()
    if name.endswith("Request")
} | {"ConsumerGroupHeartbeat": 68}
"""Requests that a fault may wait for: ``{"do": "freeze", "member": "a", "when": "EndTxn"}``."""


class Process(Host):
    """One life of a member, on a host of its own.

    member, life
        Its name, and how often it was started before.
    slow_s
        How long its callbacks take now.
    """

    def __init__(self, stage: Stage, member: str, life: int) -> None:
        super().__init__(member if not life else f"{member}#{life}")
        self.stage, self.member, self.life, self.began_s = stage, member, life, stage.world.now
        self.leaving = self.ended = self.hands_over = False
        self.slow_s = 0.0

    def ends(self) -> bool:
        """Whether it is to close; one that needs no hand-over leaves at once."""
        self.leaving = self.leaving or self.hands_over
        return self.leaving

    def pause(self, work_s: float = 0.0) -> None:
        """The time that a callback or some records take, and more if the member is slow now."""
        if seconds := self.slow_s + work_s:
            stand_ins.world().park(seconds)


class Stage:
    """A world, its cluster, and members by name.

    program
        What each member runs.
    topics
        Name to partitions.
    Raises
        Unavailable without Java.
    """

    def __init__(
        self,
        seed: int,
        program: Program,
        *,
        topics: Mapping[str, int],
        version: str = jars.KAFKA[0],
        handover: float = 0.0,
        nodes: int = 2,
        config: Mapping[str, Any] = CONFIG,
    ) -> None:
        self.world = World(seed, handover)
        self.network = Network(self.world)
        self.cluster = Cluster(self.world, self.network, Coordinator(seed, EPOCH_S * 1000, version, config), nodes)
        self.program, self.hostile = program, None  # type: Program, Callable[[Action, Process], None] | None
        self.processes: dict[str, Process] = {}
        self.traffic: list[str] = []
        self.faults: dict[str, int] = {}
        self.troubled_until = -1e9
        """When the last fault was over."""
        self._awaited: list[tuple[str, int, bool, Callable[[], object]]] = []
        self._records = 0
        for topic, partitions in topics.items():
            self.cluster.create_topic(topic, partitions)
        self.cluster.on_request.append(partial(self._due, answered=False))
        self.cluster.on_answer.append(partial(self._due, answered=True))

    def play(self, script: Iterable[Action], until_s: float) -> None:
        """Put the actions on the clock and let time pass."""
        for action in script:
            self.world.at(float(action["at"]) - self.world.now, partial(self.act, dict(action)))
        self.world.run(until_s)

    def act(self, action: Action) -> None:
        """Carry out one action now; one that is of a member which is not there does nothing.

        Raises
            BadInput for an action that is none.
        """
        do = action.get("do", "")
        method = getattr(self, f"_do_{str(do).replace(' ', '_')}", None)
        if method is None:
            raise BadInput("script", f"an action that does {do!r}", f"one of {', '.join(sorted(actions()))}")
        facts = {name: value for name, value in action.items() if name not in ("at", "do")}
        if do in FAULTS:
            self.faults[do] = self.faults.get(do, 0) + 1
            self.trouble(float(action.get("for", 0.0)))
        self.world.note(do, **facts)
        method(facts)

    def trouble(self, seconds: float) -> None:
        """A fault lasts so long from now."""
        self.troubled_until = max(self.troubled_until, self.world.now + seconds)

    # -- members

    def living(self) -> list[Process]:
        """Processes that are neither dead nor about to leave."""
        return [p for p in self.processes.values() if not p.dead and not p.leaving]

    def _do_start(self, action: Action) -> None:
        self._start(action["member"])

    def _start(self, member: str) -> None:
        before = self.processes.get(member)
        if before is not None and not (before.dead or before.ended):
            if before.leaving:  # it is on its way out
                self.world.at(1.0, lambda: self._start(member))
            return
        process = Process(self, member, 0 if before is None else before.life + 1)
        self.processes[member] = process
        self._run(process, self.program)

    def _run(self, process: Process, program: Program, seconds: float | None = None) -> None:
        def body() -> None:
            try:
                program(process)
            finally:
                process.leaving = process.ended = True

        self.world.start(body, process.name, process)
        if seconds is not None:
            self.world.at(seconds, lambda: setattr(process, "leaving", True))

    def _do_close(self, action: Action) -> None:
        self._once(action, lambda process: setattr(process, "leaving", True))

    def _do_leave(self, action: Action) -> None:
        self._once(action, lambda process: setattr(process, "hands_over", True))

    def _do_kill(self, action: Action) -> None:
        def now(process: Process) -> None:
            self.world.kill(process)
            self.network.drop(process)
            self.trouble(0.0)
            if "for" in action:
                self.world.at(action["for"], lambda: self._start(process.member))

        self._once(action, now)

    def _do_freeze(self, action: Action) -> None:
        def now(process: Process) -> None:
            self.world.freeze(process)
            self.trouble(action["for"])
            self.world.at(action["for"], lambda: self._thaw(process))

        self._once(action, now)

    def _thaw(self, process: Process) -> None:
        self.world.note("thaw", member=process.name)
        self.world.thaw(process)

    def _do_slow(self, action: Action) -> None:
        if process := self._there(action):
            process.slow_s = action["takes"]
            self.world.at(action["for"], lambda: setattr(process, "slow_s", 0.0))

    def _do_drop(self, action: Action) -> None:
        self._once(action, self._cut)

    def _cut(self, process: Process) -> None:
        self.trouble(0.0)
        self.network.drop(process)

    def _do_lose_answer(self, action: Action) -> None:
        """The request is carried out, and the connection breaks before its answer comes."""
        if process := self._there(action):
            self._awaited.append((process.name, APIS[action["when"]], True, lambda: self._cut(process)))

    def _do_part(self, action: Action) -> None:
        if process := self._there(action):
            self.network.part(process.name, action["node"])
            self.world.at(action["for"], self.network.heal)

    def _do_clock(self, action: Action) -> None:
        if process := self._there(action):
            process.wall_s += action["step"]

    def _do_twin(self, action: Action) -> None:
        """A second process of a member, while the first runs on: same instance id, if it has one."""
        if process := self._there(action):
            twin = Process(self, process.member, process.life + 1)
            twin.name += "+"
            self._run(twin, self.program, action["for"])

    def _do_hostile(self, action: Action) -> None:
        """A member of another program joins with unreadable user data, and leaves again."""
        from apportion.testing.simulation.members import hostile

        stranger = Process(self, f"hostile{self.world.number()}", 0)
        self._run(stranger, partial(self.hostile or hostile, action), action["for"])

    def _there(self, action: Action) -> Process | None:
        process = self.processes.get(action["member"])
        return None if process is None or process.dead else process

    def _once(self, action: Action, call: Callable[[Process], object]) -> None:
        """Now, or ``when`` the member's next request of that kind reaches a broker."""
        if process := self._there(action):
            if "when" not in action:
                call(process)
            else:
                self._awaited.append((process.name, APIS[action["when"]], False, lambda: call(process)))

    def _due(self, api: int, host: Host, *, answered: bool) -> None:
        if self._awaited and (key := (host.name, api, answered)):
            due = [call for *waits, call in self._awaited if tuple(waits) == key]
            self._awaited = [entry for entry in self._awaited if entry[:3] != key]
            for call in due:
                call()

    # -- the cluster

    def _do_stop_broker(self, action: Action) -> None:
        node = self.cluster.nodes[action["node"] - 1]
        if all(n.up for n in self.cluster.nodes):
            self.cluster.stop(node)
            self.world.at(action["for"], lambda: self.cluster.restart(node))

    def _do_move_coordinator(self, action: Action) -> None:
        node = self.cluster.nodes[action["node"] - 1]
        if node.up:
            self.cluster.move_coordinator(node)

    def _do_fail_append(self, action: Action) -> None:
        self.cluster.fail_append(action["error"])

    def _do_grow(self, action: Action) -> None:
        self.cluster.create_topic(action["topic"], max(self.cluster.topics[action["topic"]], action["partitions"]))
        for topic in action.get("with", ()):
            self.cluster.create_topic(topic, self.cluster.topics[action["topic"]])

    def _do_produce(self, action: Action) -> None:
        self.produce(action["topic"], action["partition"], action.get("records", 1))

    def _do_traffic(self, action: Action) -> None:
        """Records in random partitions from now on, about ``per_s`` of them; with ``skew``, most in the first ones."""
        self.traffic = [action["topic"]]
        self._flow(float(action["per_s"]), action.get("skew", 1))

    def _do_end_of_traffic(self, action: Action) -> None:
        self.traffic = []

    def _flow(self, per_s: float, skew: float) -> None:
        for topic in self.traffic:
            self.produce(topic, int(self.cluster.topics[topic] * self.world.random.random() ** skew), 1)
            self.world.at(self.world.random.expovariate(per_s), lambda: self._flow(per_s, skew))

    def produce(self, topic: str, partition: int, records: int) -> None:
        """Records whose values are their numbers."""
        first, self._records = self._records, self._records + records
        self.cluster.append(topic, partition, [(None, b"%d" % n) for n in range(first, first + records)])


def actions() -> list[str]:
    """The possible actions of a script."""
    return [name.removeprefix("_do_").replace("_", " ") for name in vars(Stage) if name.startswith("_do_")]
