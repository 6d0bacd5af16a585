"""Lines of lag: what the server keeps of the last rounds, and what of them it sends."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

from apportion.serve.answers import Answers
from apportion.serve.collector import Collector
from apportion.serve.end_times import SAMPLES, EndTimes
from apportion.serve.lag_lines import lines
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import Snapshot
from apportion.sources.config import Connection
from apportion.sources.properties import Properties

from .test_metrics import TOPICS, seen, snapshot

SETTINGS = ServerSettings(tail=False)


def with_ends(one: Snapshot) -> Snapshot:
    ends = {}
    for topic, log in TOPICS.items():
        ends[topic] = EndTimes(log.topic_id, log.number)
        ends[topic].add(one.round.at - 20, log.end - 4)
        ends[topic].add(one.round.at, log.end)
    return replace(one, ends=ends)


def test_a_line_is_what_was_left_at_each_round_and_a_members_is_the_sum_of_what_it_holds() -> None:
    one = with_ends(snapshot(seen("g", {"clicks": [0, 1]}, {("clicks", p): p for p in range(3)}), settings=SETTINGS))
    [state] = one.groups.values()
    told = lines(state, one.ends)["lines"]
    # Ends were 6 and are 10; committed were and are 0, 1 and 2.
    assert dict(told["partitions"]) == {
        "clicks-0": [6, 10], "clicks-1": [5, 9], "clicks-2": [4, 8], "clicks-3": [None, None],
    }  # fmt: skip
    assert [values for _, values in told["members"]] == [[11, 19], [None, None]]
    assert told["at"][1] - told["at"][0] == 20_000
    assert lines(state, {}) == {}


def test_a_page_gets_the_last_rounds_once_and_then_only_what_changed_of_a_group() -> None:
    answers = Answers(Collector(SETTINGS, Connection("127.0.0.1:1", Properties())))
    groups = [seen(name, {"clicks": [0, 1]}, {("clicks", 0): 4}) for name in ("a", "b")]
    one = snapshot(*groups, settings=SETTINGS)
    for number in range(SAMPLES + 5):
        answers.collector._publish(replace(one, number=number + 1))
    first, had = answers.event(None)
    rows = json.loads(first.split(b"data: ")[1])["groups"]
    assert [row["lags"] for row in rows] == [[6] * SAMPLES] * 2
    moved = snapshot(seen("a", {"clicks": [0, 1]}, {("clicks", 0): 7}), groups[1], settings=SETTINGS, at=one.round.at)
    answers.collector._publish(replace(moved, number=100, groups={**one.groups, "a": moved.groups["a"]}))
    second, _ = answers.event(had)
    [row] = json.loads(second.split(b"data: ")[1])["groups"]
    assert (row["group"], row["lag"]) == ("a", 3)
    assert {"who", "members", "lags", "state", "kind"}.isdisjoint(row)


def test_a_page_of_before_the_first_answer_has_no_moment() -> None:
    answers = Answers(Collector(SETTINGS, Connection("127.0.0.1:1", Properties())))
    assert b'"at":""' in gzip.decompress(answers.page())
    assert json.loads(answers.event(None)[0].split(b"data: ")[1])["at"] == ""
