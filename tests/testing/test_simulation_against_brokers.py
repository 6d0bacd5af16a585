"""The simulated cluster answers as real brokers of both releases do, request by request."""

from __future__ import annotations

import pytest
from tests.testing import broker_scripts

from apportion.testing import jars
from apportion.testing.broker import Broker

SEEDS = range(1, 11)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("version", jars.KAFKA)
def test_a_script_gets_the_same_answers_from_the_simulation_and_from_a_broker(version: str) -> None:
    differences = []
    with Broker(version=version) as broker:
        for seed in SEEDS:
            broker.create_topic(f"topic-{seed}", 2)
            simulated = broker_scripts.Simulated(seed, version)
            simulated.cluster.create_topic(f"topic-{seed}", 2)
            answers = [
                broker_scripts.play(peer, seed, lambda kind, seed=seed: f"{kind}-{seed}")  # type: ignore[misc]
                for peer in (broker_scripts.Real(broker.bootstrap), simulated)
            ]
            differences += [f"seed {seed}: {a!r}, simulated {b!r}" for a, b in zip(*answers, strict=True) if a != b]
    assert differences == []
