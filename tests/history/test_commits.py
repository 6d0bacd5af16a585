"""Which commits stand, how often they came between a group's records, and what topic ids are called."""

from __future__ import annotations

from apportion.history.cause import CommitInterval
from apportion.history.commits import TIME_MAX, CommittedOffset, CommitTimes, GroupCommits, topic_names

PLACE = ("t", 3)


def test_the_last_commit_stands_until_it_is_deleted() -> None:
    commits = GroupCommits()
    commits.take(PLACE, 7, "X", 1_000, after=-1)
    commits.take(PLACE, 5, None, 900, after=-1)
    commits.take(("t", 4), 1, None, 950, after=-1)
    assert commits.standing == {PLACE: CommittedOffset(5, None, 900), ("t", 4): CommittedOffset(1, None, 950)}
    commits.take(PLACE, None, None, None, after=-1)
    commits.take(("gone", 0), None, None, None, after=-1)
    assert commits.standing == {("t", 4): CommittedOffset(1, None, 950)}
    commits.take(PLACE, 0, "Y", 2_000, after=-1)
    assert commits.standing[PLACE] == CommittedOffset(0, "Y", 2_000)


def test_commits_are_counted_partition_by_partition_between_records() -> None:
    commits = GroupCommits()
    for at, after in ((5_000, -1), (1_000, 0), (3_000, 0), (2_000, 0), (9_000, 8)):
        commits.take(PLACE, 1, None, at, after)
    commits.take(("t", 4), 1, None, 4_000, 0)
    assert commits.times.intervals() == [
        CommitInterval(0, "t", 3, 3, 1_000, 3_000),
        CommitInterval(8, "t", 3, 1, 9_000, 9_000),
        CommitInterval(0, "t", 4, 1, 4_000, 4_000),
    ], "before a group's first record they say nothing of a member"


def test_a_time_that_no_timestamp_holds_is_no_time() -> None:
    commits = GroupCommits()
    for partition, at in enumerate((TIME_MAX, TIME_MAX + 1, -TIME_MAX, -TIME_MAX - 1, None)):
        commits.take(("t", partition), 1, None, at, after=2)
    assert [standing.at for standing in commits.standing.values()] == [TIME_MAX, None, -TIME_MAX, None, None]
    assert [row.partition for row in commits.times.intervals()] == [0, 2]
    assert CommitTimes().intervals() == []


def test_an_id_is_called_what_its_topic_is_called_now() -> None:
    assert topic_names([("X", "b"), ("X", "a"), ("Y", "y")], [("X", "0"), ("Z", "z"), ("Z", "now")]) == {
        "X": "0", "Y": "y", "Z": "z",
    }  # fmt: skip
    assert topic_names([("X", "a"), ("X", "b")], []) == {"X": "b"}
