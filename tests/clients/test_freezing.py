"""Exactly once while processes are killed and wake in transactions of a session that has ended; 30 runs: make chaos."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.testing.broker import Broker

from .freezing import run

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_no_input_counts_twice_though_processes_wake_in_transactions_while_others_have_their_tasks(
    broker: Broker, tmp_path: Path
) -> None:
    verdict = run(broker, 3, tmp_path, freezes=3, kills=1, broker_dies=False)
    assert verdict.woke_in_time, verdict.proofs
    assert (verdict.wrong, verdict.twice, verdict.lost, verdict.waits) == ([], 0, 0, ""), verdict.line()
