"""Readers and commands of a live cluster against what a real broker answered once, to the last letter.

``python -m tools.record_cluster`` records a broker anew (Java, Maven). ``make golden`` writes what is held.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.inputs import live_steps
from tests.support.recorded_cluster import Replay, read
from tests.support.written_down import as_written

HERE = Path(__file__).parent
RECORDING = read(HERE / "recorded_cluster.json.gz")


@pytest.mark.parametrize("step", RECORDING["steps"])
def test_a_reader_asks_what_it_asked_and_says_what_it_said(step: str) -> None:
    with Replay(RECORDING, step) as replay:
        try:
            answer = live_steps.answer(step, replay.address, live_steps.Clock(RECORDING["at"]))
        except KeyboardInterrupt:
            answer = None
        assert not replay.missing, "a request that was not recorded: see tools.record_cluster"
    as_written(HERE / "recorded_cluster_says.json", step, answer)


def test_every_step_was_recorded() -> None:
    assert list(RECORDING["steps"]) == [*live_steps.CALLS, *live_steps.LINES]
