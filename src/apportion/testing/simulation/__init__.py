"""Deterministic simulation: consumers with their listeners in virtual time, against Kafka's own group coordinator.

    transcript = simulate(make_consumer, Listener, [{"at": 20, "do": "kill", "member": "a"}], seed=7)

One thread, one seed; the same seed gives the same transcript to the byte. It needs Java 17 or newer for the
coordinator, and the extra ``simulation``. ``python -m apportion.testing.simulation`` runs generated schedules of our
own clients.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from apportion.errors import ApportionError
from apportion.testing import jars
from apportion.testing.simulation.checks import CheckFailed, Checks
from apportion.testing.simulation.members import reading
from apportion.testing.simulation.schedules import Run, Scene, play, shortened, text
from apportion.testing.simulation.stage import Action, Stage, actions

__all__ = ["SimulationFailed", "actions", "simulate"]

TOPICS: Final[Mapping[str, int]] = {"records": 4}
REST_S: Final = 10.0
"""Traffic goes on so long after the last action."""


class SimulationFailed(ApportionError, AssertionError):
    """A check failed; its message has the seed and the shortened schedule.

    seed, check, schedule
        What runs it again, the check's name, and the actions that are needed for it.
    events
        The transcript up to the failure.
    """

    def __init__(
        self, seed: int, failure: CheckFailed, schedule: Sequence[Action], events: list[dict[str, Any]]
    ) -> None:
        super().__init__(f"{failure}\nseed {seed}, and this schedule shows it:\n{text(schedule)}")
        self.seed, self.check, self.schedule, self.events = seed, failure.check, list(schedule), events


def simulate(
    make_consumer: Callable[..., Any],
    listener: Any,
    script: Iterable[Action],
    seed: int = 0,
    *,
    topics: Mapping[str, int] = TOPICS,
    checks: Sequence[Callable[[dict[str, Any]], object]] = (),
    version: str = jars.KAFKA[0],
    handover: float = 0.0,
) -> list[dict[str, Any]]:
    """Play a script with members that run your consumer and your listener, and return its transcript.

    make_consumer
        Makes a ``kafka.KafkaConsumer`` that has not subscribed, for each start of a member. It is called with
        ``bootstrap_servers=`` and ``client_id=`` (the member's name).
    listener
        A function or class that is called with the consumer and returns its rebalance listener, or a listener, or None.
        If the listener has ``process(records)``, it is called with what each ``poll`` gave, and your code commits; else
        the member commits after each poll.
    script
        Actions: ``{"at": seconds, "do": name, ...}``; ``actions()`` has the names. Members that it names and does not
        start are started at once; without any, ``a`` starts, and ``b`` ten seconds later. Records come all the while,
        unless the script has traffic of its own.
    checks
        Called with each event; what they raise as AssertionError fails the run, next to the checks of
        ``apportion.testing.simulation.checks``.
    handover
        Chance that a thread loses its turn at a clock read or a lock.
    Returns
        The events, in order; each can be written as JSON.
    Raises
        SimulationFailed with the seed and the shortened schedule; BadInput for an action that is none; Unavailable
        without Java.
    """
    whole = _whole(list(script), topics)

    def run(actions_of_run: Sequence[Action]) -> Run:
        def watch(stage: Stage, _: Checks) -> None:
            stage.world.on_event += [_asserting(stage, check) for check in checks]

        def program(of_run: Checks) -> Any:
            return reading(make_consumer, listener, list(topics), of_run)

        also = _modules(make_consumer, listener)
        scene = Scene(program, topics, list(topics), version=version, handover=handover, watch=watch, also=also)
        return play(seed, scene, actions_of_run)

    result = run(whole)
    if result.failure is None:
        return list(json.loads(json.dumps(result.events)))
    raise SimulationFailed(seed, result.failure, shortened(whole, run), result.events)


def _whole(script: list[Action], topics: Mapping[str, int]) -> list[Action]:
    """The script with the parts it leaves out: starts of its members, records, an end."""
    last = max((float(action["at"]) for action in script), default=10.0)
    named = sorted({str(action["member"]) for action in script if "member" in action})
    started = {action["member"] for action in script if action.get("do") == "start"}
    starts: list[Action] = [{"at": 0, "do": "start", "member": m} for m in named if m not in started]
    if not named:
        starts = [{"at": 0, "do": "start", "member": "a"}, {"at": 10, "do": "start", "member": "b"}]
    traffic: list[Action] = []
    if not any(action.get("do") in ("traffic", "produce") for action in script):
        traffic = [{"at": 0, "do": "traffic", "topic": topic, "per_s": 4} for topic in topics]
    return sorted([*traffic, *starts, *script, {"at": last + REST_S, "do": "end of traffic"}], key=_at)


def _at(action: Action) -> float:
    return float(action["at"])


def _asserting(stage: Stage, check: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    def look(event: dict[str, Any]) -> None:
        try:
            check(event)
        except AssertionError as error:
            stage.world.stop(CheckFailed(getattr(check, "__name__", "check"), str(error)))

    return look


def _modules(*code: Any) -> list[Any]:
    """The modules of the user's own code: their clocks and threads are virtual, too."""
    names = {getattr(x, "__module__", None) for x in code} | {type(x).__module__ for x in code}
    ours = {"builtins", None, __name__}
    return [sys.modules[name] for name in sorted(names - ours, key=str) if name in sys.modules]
