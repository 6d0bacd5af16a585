"""Plans of a group are made with the log ends sampled first after its newest record."""

from __future__ import annotations

from tests.history.made import classic, member
from tests.support.plain_reader import EndSamples, what_if_of

from apportion.history.commits import CommittedOffset
from apportion.history.ends_then import SILENT
from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.history.steps import TopicEntries

SAMPLES = EndSamples.ordered(
    [("t", 0, (3000, 1, 30)), ("t", 0, (1000, 0, 10)), ("t", 0, (2000, 0, 20)), ("t", 1, (3000, 0, 5))]
)
NOW: TopicEntries = {
    "t": [{"partition": 0, "begin": 1, "end": 30, "racks": ["a"]}, {"partition": 1, "begin": 0, "end": 5}]
}


def test_the_first_sample_at_the_groups_newest_record_or_after_it_counts_else_the_newest() -> None:
    ends = {
        heard: [(entry["begin"], entry["end"]) for entry in SAMPLES.then(NOW, heard)["t"]]
        for heard in (SILENT, 1000, 1001, 2000, 2001, 3000, 3001)
    }
    assert [one[0] for one in ends.values()] == [(0, 10), (0, 10), (0, 20), (0, 20), (1, 30), (1, 30), (1, 30)]
    assert {one[1] for one in ends.values()} == {(0, 5)}, "a partition with a single sample has that one"
    assert SAMPLES.then(NOW, 1000)["t"][0]["racks"] == ["a"]


def test_what_is_planned_of_a_silent_group_does_not_change_with_later_samples() -> None:
    commits = {("t", 0): CommittedOffset(4, None, 1500), ("t", 1): CommittedOffset(4, None, None)}

    def lags(samples: EndSamples) -> list[int | None]:
        now = [
            {"partition": p, "begin": begin, "end": end}
            for (_, p), some in sorted(samples.of.items())
            for _, begin, end in some[-1:]
        ]
        world = TopicMetadata({"t": now})
        events = [classic(1, 1, member("m", {"t": (0, 1)}))]
        return [row.lag_max for row in what_if_of(GroupHistory("g", events, commits, [], world), ["range"], samples)]

    until = [("t", 0, (1000, 0, 10)), ("t", 0, (2000, 0, 20)), ("t", 1, (2000, 0, 5))]
    first = lags(EndSamples.ordered(until))
    assert first[:2] == [None, (20 - 4) + (5 - 4)]  # of a replay, whose offsets nobody knows, and of the present
    assert lags(EndSamples.ordered([*until, ("t", 0, (3000, 0, 300)), ("t", 1, (3000, 0, 50))])) == first
