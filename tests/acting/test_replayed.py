"""When a leader would have acted in a recorded group: acts rest, looks are counted, the generation's owners count."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.history.made import classic, member

from apportion.acting.replayed import replay_acting
from apportion.acting.rule import Acting
from apportion.assignors import find
from apportion.history.fold import fold
from apportion.history.lag_time import Series
from apportion.history.steps import steps
from apportion.report import replaying

A, B = member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]})
ACTING = Acting(gain=0.2, hold_s=20, rest_s=100)


def told(*, until_s: int = 600, hot: tuple[int, ...] = (0, 1), commits: bool = True) -> dict[str, Any]:
    """Two members, whose hot partitions get 100 messages a second and are read at 50."""
    walk = steps("g", fold([classic(1, 1, A, B, at=1000)]).generations)
    series = {}
    for p in range(4):
        rate, speed = (100, 50) if p in hot else (10, 10)
        moments = range(0, until_s * 1000, 10_000)
        ends = [(at, at // 1000 * rate) for at in moments]
        read = [(at, at // 1000 * speed) for at in moments] if commits else []
        series["t", p] = Series(ends, read)
    return replay_acting(walk, series, find("cooperative-lag-aware"), ACTING)


def test_it_tells_when_it_would_have_acted_and_why_not_before() -> None:
    acted = told()
    assert acted["looks"] == 59, "the first sample is older than the first generation"
    first = acted["acts"][0]
    assert first["at_ms"] == 110_000, "101 s after the generation, at the next sample"
    assert (first["generation"], first["member"], first["moves"]) == (1, "a", 2)
    assert first["after"] < first["before"] * 0.8
    moments = [act["at_ms"] for act in acted["acts"]]
    assert all(b - a >= 100_000 for a, b in pairwise(moments))
    assert acted["left"]["rest"] > 0
    assert sum(acted["left"].values()) + len(moments) == acted["looks"]


def test_an_even_group_would_have_been_left_alone() -> None:
    acted = told(hot=(0, 2))
    assert acted["acts"] == []
    assert set(acted["left"]) == {"rest", "too little"}
    assert replaying.acting_notes(acted)[0].startswith("An apportion leader would have acted 0 times in 59 looks")


def test_people_read_a_row_for_each_act() -> None:
    acted = told()
    table = replaying.acts(acted)
    assert table.rows[0][:3] == ("1970-01-01 00:01:50", 1, "a")
    assert len(table.rows) == len(acted["acts"])
    assert "The lag is the recorded one" in replaying.acting_notes(acted)[1]


@pytest.mark.parametrize("text", ["gain=2", "gan=0.2", "gain"])
def test_a_rule_that_is_none_is_refused_by_the_command(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    from apportion.cli import main
    from apportion.demo import dump

    assert main(["replay", str(dump()), "--group", "ads-range", "--assignor", "lag-aware", "--acting", text]) == 2
    assert "gain" in capsys.readouterr().err
