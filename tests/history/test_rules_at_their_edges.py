"""Rules of the history at their edges: what is forgotten, what counts as handed over, when silence is a crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.history.made import classic, member
from tests.history.test_lags_and_verdicts import verdict
from tests.history.verdict_of_one import CommitSample

from apportion.assignors import Assignor
from apportion.history import rebalance_rows as module
from apportion.history.broker_tasks import score_tasks
from apportion.history.cause import CommitCadence, CommitInterval
from apportion.history.fold import fold
from apportion.history.predicted_targets import Score
from apportion.history.rebalance_rows import Rebalance, rebalances
from apportion.history.records import Generation, GenerationMember, GroupRecord
from apportion.history.replay import replay, replay_to_dict
from apportion.history.verdicts import STOP
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.wire.coordinator import EpochRecord

A, B = member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]})


def walked(assignor: str, *events: GroupRecord) -> dict[str, Any]:
    return replay_to_dict("g", assignor, replay("g", fold(events).generations, assignor))


def compared(*events: GroupRecord) -> list[Rebalance]:
    return rebalances(fold(events).generations)


def test_a_strategy_starts_with_nothing_after_an_empty_group() -> None:
    """``sticky`` would keep what a and b had before, if the past went on through the empty generation."""
    swapped = member("a", {"t": [2, 3]}), member("b", {"t": [0, 1]})
    rows = walked("sticky", classic(1, 1, A, B), classic(2, 2), classic(3, 3, *swapped))["generations"]
    assert [row["kept"] for row in rows] == [0, 0]
    assert [row["kept_then"] for row in rows] == [0, 0]
    rows = walked("sticky", classic(1, 1, A, B), classic(3, 2, *swapped))["generations"]
    assert [row["kept"] for row in rows] == [0, 4], "without the empty one it does keep them"


def test_the_widest_skew_is_that_of_the_worst_generation_neither_first_nor_last() -> None:
    topics = ("t", "u", "v")
    whole = member("a", {topic: [0] for topic in topics})
    three = (
        member("a", {"t": [0], "u": [0]}, topics=topics),
        member("b", {"v": [0]}, topics=topics),
        member("c", topics=topics),
    )
    # Range deals each topic of one partition to the first member.
    total = walked("range", classic(1, 1, whole), classic(2, 2, *three), classic(3, 3, whole))["total"]
    assert (total["skew_max"], total["skew_max_then"]) == (3, 2)


@dataclass(frozen=True)
class Unproved:
    """Deals as ``sticky`` might, and promises nothing."""

    name: ClassVar[str] = "unproved"
    goals: ClassVar[tuple[str, ...]] = ("balance", "moves")

    def assign(self, group: Group) -> Answer:
        return Answer(np.arange(group.P) % group.M, proof={"balance": "optimal", "moves": "heuristic"})


def test_needless_is_not_told_where_the_least_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = member("a", {"t": [2, 3]}), member("b", {"t": [0, 1]})
    (proved,) = compared(classic(1, 1, A, B), classic(2, 2, *swapped))
    assert proved.needless == 4
    unproved: Assignor = Unproved()
    monkeypatch.setattr(module, "_least", lambda: unproved)
    (row,) = compared(classic(1, 1, A, B), classic(2, 2, *swapped))
    assert (row.moved, row.needless) == (4, None)


def test_only_what_a_living_member_had_given_up_is_handed_over() -> None:
    both = member("a", {"t": [0, 1]}, topics=["t"])
    revoked = member("a", {"t": [0]}), member("b", topics=["t"])
    handed = compared(
        classic(1, 1, both), classic(2, 2, *revoked), classic(3, 3, *(member("a", {"t": [0]}), member("b", {"t": [1]})))
    )
    assert (handed[-1].moved, handed[-1].given, handed[-1].handed) == (1, 0, 1)
    left = compared(classic(1, 1, both), classic(2, 2, *revoked), classic(3, 3, member("b", {"t": [0, 1]})))
    assert (left[-1].moved, left[-1].given, left[-1].handed) == (0, 2, 0), (
        "a, which had it, is gone: nobody handed it over"
    )


SEAT = GenerationMember("m", ("t",), {"t": (0,)}, session_timeout_ms=6_000)
BEFORE = Generation(5, 0, "classic", 1, (SEAT,))


def crashed(silent_ms: int, last: int = 10_000, n: int = 1, first: int = 10_000) -> bool:
    now = Generation(9, last + silent_ms, "classic", 2, (), started=last + silent_ms)
    return CommitCadence([CommitInterval(5, "t", 0, n, first, last)]).crashed(SEAT, BEFORE, now)


@pytest.mark.parametrize(("silent_ms", "so"), [(3_999, False), (4_000, True), (9_000, True), (9_001, False)])
def test_one_commit_then_silence_is_a_crash_from_two_thirds_to_one_and_a_half_sessions(
    silent_ms: int, so: bool
) -> None:
    assert crashed(silent_ms) is so


@pytest.mark.parametrize(("silent_ms", "so"), [(5_999, False), (6_000, False), (6_001, True), (60_000, True)])
def test_a_steady_member_crashed_when_it_is_silent_for_three_times_its_habit(silent_ms: int, so: bool) -> None:
    assert crashed(silent_ms, n=3, first=6_000) is so, "it commits every two seconds"


def test_a_frequent_member_must_still_be_silent_for_two_thirds_of_a_session() -> None:
    assert not crashed(3_999, n=101, first=9_900)
    assert crashed(4_000, n=101, first=9_900)


def test_a_reader_that_is_silent_for_longer_than_its_window_took_has_stopped() -> None:
    """Moments are those of today, not small numbers: what counts is how far apart they are."""
    begin = 1_790_000_000_000
    window = [CommitSample(begin, 5, 10), CommitSample(begin + 60_000, 6, 10)]
    assert verdict(window, 10, begin + 60_000 + 60_000) != STOP
    assert verdict(window, 10, begin + 60_000 + 60_001) == STOP
    assert verdict(window, 10, begin + 60_000 + 60_001, behind_since=begin + 60_002) != STOP


def test_a_replay_weighs_the_last_generation_by_the_topics_of_today() -> None:
    racks = [{"partition": p, "racks": ["b"], "begin": 0, "end": 9, "committed": 2} for p in range(2)]
    one = GenerationMember("m", ("t",), {"t": (0, 1)}, rack="a")
    walked = replay("g", [Generation(0, 0, "classic", 1, (one,), "range")], "range", {"t": racks})
    assert (walked[-1].measures["rack_misses"], walked[-1].measures["lag_max"]) == (2, 14)


@pytest.mark.parametrize(("ids", "predicted"), [((0, 1), 1), ((0, 9), 0), ((), None)])
def test_a_streams_log_that_lost_its_head_is_scored_without_settings(
    ids: tuple[int, ...], predicted: int | None
) -> None:
    """A broker's targets have no gaps, so that none of mostly gaps is computed."""
    body = {"processId": "p"}
    tasks = {"activeTasks": [{"subtopologyId": "0", "partitions": list(ids)}], "standbyTasks": [], "warmupTasks": []}
    records = [EpochRecord("g", 19, False, "a", None, body), EpochRecord("g", 21, False, "a", None, tasks)]
    records.append(EpochRecord("g", 20, False, None, 1, {"assignmentEpoch": 1}))
    events = [GroupRecord(n, n, record) for n, record in enumerate(records)]
    assert score_tasks(events) == (Score() if predicted is None else Score(1, predicted))
