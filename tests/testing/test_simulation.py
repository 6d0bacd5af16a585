"""The simulator repeats itself to the byte, runs generated faults without a broken promise, and finds planted ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import pytest

from apportion.testing.simulation import stand_ins

pytestmark = pytest.mark.broker  # it needs Java, and Kafka's jars


def simulation(*words: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "apportion.testing.simulation", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("seed", ["4", "5"])
def test_a_seed_gives_the_same_events_to_the_byte_in_two_processes(seed: str) -> None:
    first, second = (simulation("--show", "--seed", seed, hash_seed=str(h)) for h in (1, 2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert events[-1]["event"] == "end"
    assert {"assigned", "read", "generation"} <= {event["event"] for event in events}


@pytest.mark.slow
def test_five_hundred_faults_break_no_promise() -> None:
    process = simulation("--faults", "500", "--seed", "1")
    line = json.loads(process.stdout.splitlines()[-1])
    assert process.returncode == 0, process.stderr
    assert line["failures"] == []
    assert sum(n for kind, n in line["events"].items() if kind != "join") >= 500
    assert line["seed"] == 1
    assert line["hours"] > 0.3


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
