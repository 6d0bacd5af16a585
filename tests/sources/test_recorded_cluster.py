"""Readers and commands of a live cluster against what a real broker answered once.

``python -m tools.record_cluster`` records a broker anew (Java, Maven).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sources import live_steps
from tests.support.recorded_cluster import Replay, read

HERE = Path(__file__).parent
RECORDING = read(HERE / "recorded_cluster.json.gz")


@pytest.mark.parametrize("step", RECORDING["steps"])
def test_a_reader_understands_what_the_broker_answered_and_asks_no_more(step: str) -> None:
    with Replay(RECORDING, step) as replay:
        try:
            answer = live_steps.answer(step, replay.address, live_steps.Clock(RECORDING["at"]))
        except KeyboardInterrupt:
            answer = None
        assert "fault in apportion" not in str(answer)
        assert not replay.missing, "a request that was not recorded: see tools.record_cluster"


def test_every_step_was_recorded() -> None:
    assert list(RECORDING["steps"]) == [*live_steps.CALLS, *live_steps.LINES]
