"""The three timelines of docs/streams.md are what the simulation gives, and say what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def timelines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import timelines

    return timelines


def test_under_streams_hardly_anything_waits_for_state_where_range_restores_a_great_deal(timelines) -> None:
    for scenario in timelines.SCENARIOS:
        streams, ranged = (timelines.simulate(scenario, warm) for warm in (True, False))
        assert streams.waited < ranged.waited / 100, scenario.name
        assert streams.idle_s < ranged.idle_s
        for run in (streams, ranged):
            assert len(run.ready) == run.world.tasks, "at the end every task runs"
            assert set(run.place.values()) == run.alive, "on every process that lives"


def test_a_scale_out_never_restores_more_warm_ups_at_once_than_allowed(timelines) -> None:
    run = timelines.simulate(timelines.SCENARIOS[2], True)
    for second in range(run.world.seconds):
        warming = sum(len(roles) > second and roles[second] == "warmup" for roles in run.drawn.values())
        assert warming <= run.world.settings.max_warmup_replicas


def test_in_every_second_at_most_one_process_runs_a_task(timelines) -> None:
    for scenario in timelines.SCENARIOS:
        for warm in (True, False):
            run = timelines.simulate(scenario, warm)
            for n in range(run.world.tasks):
                rows = [roles for (_, task), roles in run.drawn.items() if task == n]
                for second in range(run.world.seconds):
                    assert sum(roles[second] in ("active", "restoring") for roles in rows) == 1


def test_the_pictures_in_the_documentation_are_those_of_today(timelines, tmp_path: Path) -> None:
    timelines.main(tmp_path)
    for picture in tmp_path.glob("*.svg"):
        assert picture.read_text() == (ROOT / "docs" / "pictures" / picture.name).read_text(), (
            "python -m bench.timelines"
        )
        assert picture.stat().st_size < 100_000
