"""Subscriptions by pattern are told in sentences, the first three of them."""

from __future__ import annotations

from apportion.history.member_speeds import Speed
from apportion.history.patterns import of_members, of_topology
from apportion.history.time_window import learned_capacity


def test_members_are_counted_by_their_pattern() -> None:
    one, two, *rest = of_members(["b.*", "a.*", None, "", "b.*"])
    assert one.startswith("1 member subscribes by the pattern 'a.*', which the broker resolves")
    assert two.startswith("2 members subscribe by the pattern 'b.*', which the broker resolves")
    assert rest == []
    assert of_members([None, ""]) == ()


def test_only_three_patterns_are_named() -> None:
    told = of_members([f"p{n}" for n in range(5)])
    assert [sentence[:39] for sentence in told[:3]] == [f"1 member subscribes by the pattern 'p{n}'" for n in range(3)]
    assert told[3:] == ("So with 2 more patterns.",)
    assert len(of_members(["p0", "p1", "p2"])) == 3
    assert of_members([f"p{n}" for n in range(4)])[3:] == ("So with 1 more pattern.",)


def test_sub_topologies_name_the_patterns_that_they_read_by() -> None:
    told = of_topology([
        {"subtopologyId": "0", "sourceTopicRegex": ["x.*", "y.*"]},
        {"subtopologyId": "1", "sourceTopicRegex": None},
        {"subtopologyId": "2"},
    ])  # fmt: skip
    assert [sentence[:48] for sentence in told] == [
        "Sub-topology 0 reads topics by the pattern 'x.*'",
        "Sub-topology 0 reads topics by the pattern 'y.*'",
    ]


def test_what_a_member_takes_is_the_median_of_its_members_that_were_busy() -> None:
    idle = Speed(None, None, None, 3)
    capacity, how = learned_capacity({"a": Speed(150, 100, 200, 40), "b": Speed(160, 90, 210, 40), "c": idle})
    assert capacity == 160
    assert how.startswith("A member takes 160 messages a second, as 2 members of 3 did")
    assert "(quartiles from 90 to 210)" in how
    assert learned_capacity({"c": idle}) == (
        None, "no member had lag in enough intervals for a speed: 3 at most",
    )  # fmt: skip
    # Members that stood still, or as good as, had enough intervals: no capacity of 0 follows from them.
    for stuck in (Speed(0.0, 0.0, 0.0, 40), Speed(0.0001, 0.0, 0.0002, 40)):
        assert learned_capacity({"a": stuck, "c": idle}) == (None, "the members that had lag read nothing meanwhile")
