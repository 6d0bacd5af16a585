"""What the bench of a rolling deploy counts, on reads made by hand, and what it is told beforehand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench.rolling_deploy import Way, foretell, judge

WRITTEN = [[100.0 + n / 4 for n in range(40)]]


def test_a_partition_stands_still_while_a_message_waits_for_it_and_not_while_none_is_there() -> None:
    """Member 0 reads until 102.0; member 1 goes on at 104.0 with what was written at 102.25, and reads two twice."""
    reads = [(100.1 + n / 4, 0, 0, n, n) for n in range(8)] + [(104.0, 1, 0, 7, 15), (104.2, 1, 0, 16, 16)]
    figures = judge(reads, WRITTEN, 100.0, 110.0)
    assert (figures.moved, figures.twice) == (1, 1)
    assert figures.still_s == figures.longest_s == pytest.approx(104.0 - 101.85)
    late = [(101.0, 0, 0, 0, 3), (102.0, 0, 0, 4, 4)]
    slow = [[100.0, 100.0, 100.0, 100.0, 101.9]]
    assert judge(late, slow, 100.0, 110.0).still_s == 0, "nothing was there to be read"
    assert judge(reads, WRITTEN, 105.0, 110.0).still_s == 0, "before the deploy"


def test_what_if_is_asked_about_the_group_as_it_stands() -> None:
    pods = [SimpleNamespace(slot=n, owned=[n, n + 3]) for n in range(3)]
    way = Way("", lambda *_: None, "cooperative", "cooperative-sticky")
    foretold = foretell(way, pods, "t", 6)
    assert foretold.rebalances == 3 * 3, "gone, back, and the hand-over to who is back"
    assert foretold.moved == 2 * 6
    static = foretell(Way("", lambda *_: None, "cooperative", "cooperative-sticky", static=True), pods, "t", 6)
    assert (static.rebalances, static.moved, static.still_s) == (0, 0, 6.0)
