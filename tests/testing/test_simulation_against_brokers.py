"""The simulated cluster answers as real brokers of both releases do, request by request."""

from __future__ import annotations

import pytest
from tests.testing import broker_scripts

from apportion.testing import jars

SEEDS = (*range(1, 11), 32, 175)
"""In the last two, batches come under an older and a newer epoch before their partition is in the transaction."""


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("version", jars.KAFKA)
def test_a_script_gets_the_same_answers_from_the_simulation_and_from_a_broker(version: str) -> None:
    for seed, _, real, simulated in broker_scripts.differences(version, SEEDS):
        assert real == simulated, f"seed {seed}"
