"""The simulation that the docs' table comes from, an hour or two of each trace: it relieves, and it does not flap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from apportion.acting.rule import Acting
from apportion.assignors import find
from bench.acting import ALWAYS, NEVER, RULE, TRACES, picture, row, run

STRATEGY = find("cooperative-lag-aware", {"max_skew": 4})
ACTING = Acting()


@pytest.mark.parametrize("name", TRACES)
def test_acting_relieves_and_rebalances_within_the_bound(name: str) -> None:
    never, rule = (run(TRACES[name], how, ACTING, STRATEGY, 2) for how in (NEVER, RULE))
    assert np.mean(rule.heaviest) < np.mean(never.heaviest) / 2, (np.mean(rule.heaviest), np.mean(never.heaviest))
    acts = [0, *rule.acts]
    assert all(b - a >= ACTING.rest_s for a, b in pairwise(acts))
    assert 1 <= len(rule.acts) <= 2 * 3600 / ACTING.rest_s


def test_where_the_load_stands_still_acting_ends() -> None:
    day = run(TRACES["constant"], RULE, ACTING, STRATEGY, 3)
    assert len(day.acts) <= 2
    assert max(day.acts) < 1800
    assert day.heaviest[-1] == 0


@pytest.mark.slow
def test_acting_at_every_change_rebalances_many_times_as_often() -> None:
    """The rule gives up some lag for it: that is the price, and the table shows both."""
    rule, rash = (run(TRACES["a member half as fast"], how, ACTING, STRATEGY, 1) for how in (RULE, ALWAYS))
    assert len(rash.acts) > 10 * len(rule.acts)
    assert rash.still_s > 5 * rule.still_s


def test_the_table_and_the_picture_tell_all_ways() -> None:
    day = run(TRACES["constant"], RULE, ACTING, STRATEGY, 0.5)
    cells = row("constant", RULE, day, 0.5).split("|")
    assert cells[1:4] == [" constant ", " by the rule ", f" {len(day.acts) / 0.5:.2f} "]
    drawn = picture({"constant": {NEVER: day.heaviest, RULE: day.heaviest}}, 0.5)
    assert drawn.count("<path") >= 2
    assert "NaN" not in drawn
