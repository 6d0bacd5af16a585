"""What a change brings beside a plan is said: lost replicas, what newcomers want, subscriptions that were assumed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Done, run_here

CASES = Path(__file__).parent / "cases"
TWO_MINDS = {
    "topics": {"clicks": 4, "orders": 2},
    "members": {
        "a": {"topics": ["clicks"], "owned": {"clicks": [0, 1, 2, 3]}},
        "b": {"topics": ["clicks"]},
        "z": {"topics": ["orders"], "owned": {"orders": [0, 1]}},
    },
}
PASTED = """\
GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID
g clicks 0 1 9 8 m1 /10.0.0.1 c1
g clicks 1 1 9 8 m1 /10.0.0.1 c1
g orders 0 1 9 8 m2 /10.0.0.2 c2
"""


def what_if(folder: Path, *words: str) -> Done:
    (folder / "g.json").write_text(json.dumps(TWO_MINDS))
    return run_here("what-if", str(folder / "g.json"), *words)


def test_partitions_that_lose_their_last_replica_are_named() -> None:
    done = run_here("what-if", str(CASES / "lr.json"), "--lose-rack", "a")
    assert "lose-rack a: t(0,1) lost the last replica: nobody can read there." in done.out
    as_json = run_here("what-if", str(CASES / "lr.json"), "--lose-rack", "a", "-o", "json")
    assert as_json.json["steps"][0]["lost_replicas"] == {"t": [0, 1]}
    unharmed = run_here("what-if", str(CASES / "lr.json"), "--lose-rack", "b", "--join", "1", "-o", "json")
    assert [step.get("lost_replicas") for step in unharmed.json["steps"]] == [{"t": [2]}, None]


def test_what_a_newcomer_wants_is_said_and_can_be_chosen(tmp_path: Path) -> None:
    common = what_if(tmp_path, "--join", "2")
    assert "join 2: join-1, join-2 want clicks, as 2 of 3 members do (--like MEMBER chooses)." in common.out
    chosen = what_if(tmp_path, "--join", "1", "--like", "z")
    assert "join 1 like z: join-1 wants orders." in chosen.out
    [step] = what_if(tmp_path, "--scale", "4", "--like", "z", "-o", "json").json["steps"]
    assert step["newcomers_topics"] == ["orders"]
    assert step["plan"]["assignment"]["join-1"].keys() <= {"orders"}


def test_like_without_a_newcomer_or_with_an_unknown_member_is_refused(tmp_path: Path) -> None:
    assert "give --join or --scale too" in what_if(tmp_path, "--leave", "a", "--like", "z").err
    assert "no member is named 'y'" in what_if(tmp_path, "--join", "1", "--like", "y").err


def test_advice_on_assumed_subscriptions_says_so_in_the_result_until_they_are_stated(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(PASTED)
    path = str(tmp_path / "p.txt")
    for command, more in (
        ("plan", ()), ("compare", ()), ("what-if", ("--join", "1")), ("gate", ("--max-moves", "9")),
        ("size", ("--capacity", "2", "--by", "partitions")),
    ):  # fmt: skip
        done = run_here(command, path, *more)
        assert "This rests on subscriptions that are assumed." in done.out, command
        assert "assumed" not in done.err, command
    for command, more in (("plan", ()), ("compare", ()), ("what-if", ("--join", "1")), ("gate", ("--max-moves", "9"))):
        assert "assumed" not in run_here(command, path, *more, "--subscribe", "clicks,orders").out, command


def test_stated_subscriptions_are_planned_with(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(PASTED)
    path = str(tmp_path / "p.txt")
    guessed = run_here("plan", path, "-o", "json").json["measures"]
    stated = run_here("plan", path, "--subscribe", "clicks,orders", "-o", "json").json["measures"]
    assert (guessed["moves"], stated["load_max"] - stated["load_min"]) == (0, 1)
    one = run_here(
        "plan", path, "--subscribe", "c1=clicks,orders", "--subscribe", "m2=orders", "-A", "range", "-o", "json"
    )
    assert one.json["assignment"] == {"m1": {"clicks": [0, 1], "orders": [0]}, "m2": {}}
    assert "assumed" not in run_here("plan", path, "--subscribe", "c1=clicks", "--subscribe", "c2=orders").out
    assert "assumed" in run_here("plan", path, "--subscribe", "c1=clicks").out
    assert "no member is named 'c9'" in run_here("plan", path, "--subscribe", "c9=clicks").err
    assert "--subscribe: found 'c1='" in run_here("plan", path, "--subscribe", "c1=").err
