"""The simulator repeats itself to the byte, runs generated faults without a broken promise, and finds planted ones."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest
from tests.support.examples import thorough

from apportion.errors import BadInput
from apportion.testing.simulation import SimulationFailed, schedules, simulate, stand_ins, worlds

pytestmark = pytest.mark.broker  # it needs Java, and Kafka's jars


GOVERNED = 15
"""A seed whose members are of the new protocol, under governors, while a stranger copies their ids and their plan."""


def simulation(*words: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "apportion.testing.simulation", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def first_of_both_clients() -> schedules.Plan:
    """The first drawn schedule in which kafka-python and aiokafka share the partitions of one group."""
    plans = map(schedules.draw, itertools.count(1))
    return next(plan for plan in plans if "mixed" in plan.habits and not plan.strategy.endswith("failover"))


@pytest.mark.parametrize("seed", [str(first_of_both_clients().seed), str(GOVERNED), thorough("4")])
def test_a_seed_gives_the_same_events_to_the_byte_in_two_processes(seed: str) -> None:
    first, second = (simulation("--show", "--seed", seed, hash_seed=str(h)) for h in (1, 2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert events[-1]["event"] == "end"
    kinds = {"governed", "computed"} if seed == str(GOVERNED) else {"read", "generation"}
    assert kinds | {"assigned"} <= {event["event"] for event in events}


@pytest.mark.slow
def test_five_hundred_faults_break_no_promise() -> None:
    process = simulation("--faults", "500", "--seed", "1")
    line = json.loads(process.stdout.splitlines()[-1])
    assert process.returncode == 0, process.stderr
    assert line["failures"] == []
    assert sum(n for kind, n in line["events"].items() if kind != "join") >= 500
    assert line["seed"] == 1
    assert line["hours"] > 0.3


def test_aiokafkas_members_read_and_commit_in_one_group_with_kafka_pythons() -> None:
    plan = first_of_both_clients()
    result = schedules.run(plan)
    readers = {event["member"].split("#")[0] for event in result.events if event["event"] == "read"}
    assert result.failure is None
    assert readers & set(schedules.MIXED)
    assert readers - set(schedules.MIXED)


def test_the_class_in_the_brokers_follows_the_governors_plans_through_faults_and_no_other_group_does() -> None:
    result = schedules.run(schedules.draw(GOVERNED))
    assert result.failure is None
    assert {"stop broker", "kill", "hostile"} <= result.faults.keys()
    governed = {event["outcome"] for event in result.events if event["event"] == "governed"}
    assert {"published", "unchanged"} <= governed
    targets = [event for event in result.events if event["event"] == "computed" and len(event["sizes"]) > 1]
    assert any(event["sizes"][-2:-1] == [0] for event in targets if event["group"] == "group"), "one has all"
    assert any(event["sizes"][0] > 0 for event in targets if event["group"] == "foreign"), "all have some"


def test_every_order_of_messages_up_to_a_depth_breaks_no_promise_in_small_worlds() -> None:
    results = list(worlds.explored("hand-over", 2))
    ended = [result for _, result in results if result is not None]
    assert len({choices for choices, _ in results}) == len(results) > 1 + len(worlds.FAULTS)
    assert all(result.failure is None for result in ended)
    orders = {result.events[-1]["checksum"] for result in ended if not result.faults}
    assert len(orders) > 1, "messages came in another order"


def test_a_fault_at_a_request_breaks_no_promise_in_small_worlds() -> None:
    for choices, result in itertools.islice(worlds.explored("exactly once", 0, 40), 1 + len(worlds.FAULTS)):
        assert result is not None
        assert result.failure is None, (choices, result.failure)
        assert bool(result.faults) == bool(choices)


def test_a_module_that_reaches_a_real_clock_or_thread_in_another_form_is_refused() -> None:
    module = types.ModuleType("client")
    exec(  # noqa: S102 - a module as somebody may write one
        "import time\nfrom time import monotonic\nfrom threading import Thread\nimport random\n"
        "class Worker(Thread): pass\ndef wait(clock=time.time): pass\ndraw = random.random\n"
        "class Timer:\n    def run(self, *, sleep=time.sleep): pass\n",
        vars(module),
    )
    module.Worker.__module__ = module.Timer.__module__ = "client"  # type: ignore[attr-defined]
    with pytest.raises(stand_ins.Uncaught) as refused:
        stand_ins.guard([module])
    for name in ("monotonic", "Thread", "Worker", "wait", "draw", "Timer.run"):
        assert f"client.{name}" in str(refused.value)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """What the documentation's example defines, up to where it simulates."""
    page = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0].split("transcript = ")[0]
    module = types.ModuleType("documented_example")
    sys.modules[module.__name__] = module
    exec(code, vars(module))  # noqa: S102 - our own page
    return vars(module)


def test_a_listener_that_commits_too_late_is_caught_with_the_schedule_that_shows_it(example: dict[str, Any]) -> None:
    with pytest.raises(SimulationFailed) as failed:
        simulate(example["make_consumer"], example["Late"], example["script"], seed=3)
    assert failed.value.check == "twice"
    assert "seed 3" in str(failed.value)
    kinds = [(action["do"], action.get("member")) for action in failed.value.schedule]
    assert ("start", "b") in kinds, "without a second member nothing is handed over"
    assert len(kinds) <= len(example["script"]) + 1


def test_a_listener_that_commits_in_time_passes_and_its_transcript_is_the_same_again(example: dict[str, Any]) -> None:
    first, again = (simulate(example["make_consumer"], example["InTime"], example["script"], seed=3) for _ in range(2))
    assert json.dumps(first) == json.dumps(again)
    assert {"assigned", "read", "committed", "revoked", "close"} <= {event["event"] for event in first}
    other = simulate(example["make_consumer"], example["InTime"], example["script"], seed=4)
    assert json.dumps(first) != json.dumps(other)


def test_other_threads_of_the_process_sleep_as_ever_while_one_simulates(example: dict[str, Any]) -> None:
    """Spark's client has one that sleeps a second at a time, in a test process and in a notebook."""
    over, naps = threading.Event(), []

    def nap() -> None:
        while not over.is_set():
            time.sleep(0.001)
            naps.append(1)

    sleeper = threading.Thread(target=nap)
    sleeper.start()
    try:
        before = len(naps)
        simulate(example["make_consumer"], example["InTime"], example["script"], seed=3)
        assert len(naps) > before, "it did"
        assert sleeper.is_alive(), "it was refused nothing"
    finally:
        over.set()
        sleeper.join()


def test_a_check_of_your_own_fails_the_run(example: dict[str, Any]) -> None:
    def nobody_reads_partition_three(event: dict[str, Any]) -> None:
        assert event.get("partition") != ("records", 3), "somebody does"

    checks = [nobody_reads_partition_three]
    with pytest.raises(SimulationFailed, match="nobody_reads_partition_three: somebody does"):
        simulate(example["make_consumer"], example["InTime"], example["script"], checks=checks)


def test_an_action_that_is_none_is_refused_with_those_that_there_are(example: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"'explode'.*kill.*move coordinator"):
        simulate(example["make_consumer"], None, [{"at": 1, "do": "explode"}])
