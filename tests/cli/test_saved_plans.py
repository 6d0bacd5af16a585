"""A saved plan is judged like a group, shown, compared with, and a base to see what changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Runner

GROUP = {
    "version": 1,
    "group": "g",
    "topics": {"t": 4},
    "members": {
        "a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}, "generation": 5},
        "b": {"topics": ["t"], "owned": {"t": [3]}, "generation": 5},
    },
}


@pytest.fixture
def saved(run: Runner, tmp_path: Path) -> Path:
    """The plan of ``sticky`` in plan.json beside the group in group.json."""
    (tmp_path / "group.json").write_text(json.dumps(GROUP))
    done = run("plan", str(tmp_path / "group.json"), "--assignor", "sticky", "--save", str(tmp_path / "plan.json"))
    assert done.code == 0, done.err
    return tmp_path / "plan.json"


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        ("version", 2, "version"),
        ("version", "1", "version"),
        ("group", 7, "group"),
        ("assignor", None, "assignor"),
        ("measures", {"moves": "1"}, "measures"),
        ("measures", 7, "measures"),
        ("proof", {"balance": "perfect"}, "proof.balance"),
        ("proof", {"balance": []}, "proof.balance"),
        ("assignment", {"a": {"t": ["0"]}}, "assignment.a.t[0]"),
        ("assignment", {"a": {"t": [0]}, "b": {"t": [0]}}, "assignment.b.t"),
        ("assignment", {"a": {"t": [0, 0]}}, "assignment.a.t"),
        ("assignment", {"a": 5}, "assignment.a"),
        ("unassigned", [], "unassigned"),
        ("ignored", {}, "ignored"),
        ("settings", [], "settings"),
    ],
)
def test_gate_judges_a_saved_plan_as_strictly_as_a_group(
    run: Runner, saved: Path, field: str, value: object, where: str
) -> None:
    plan = json.loads(saved.read_text())
    saved.write_text(json.dumps({**plan, field: value}))
    done = run("gate", str(saved), "--max-moves", "9")
    assert done.code == 2, done.out
    assert "Traceback" not in done.err
    assert where in done.err


def test_a_figure_of_a_plan_must_be_a_number_that_can_be(run: Runner, saved: Path) -> None:
    plan = json.loads(saved.read_text())
    for value in ("1", 1.5, True, -1, None):
        saved.write_text(json.dumps({**plan, "measures": {**plan["measures"], "moves": value}}))
        done = run("gate", str(saved), "--max-moves", "9")
        assert (done.code, "measures.moves" in done.err) == (2, True), value


def test_gate_clears_nobody_of_crossing_racks_where_no_rack_is_known(run: Runner, saved: Path) -> None:
    for given in (["gate", str(saved)], ["gate", str(saved.parent / "group.json")],
                  ["gate", str(saved.parent / "group.json"), "--now"]):  # fmt: skip
        done = run(*given, "--max-cross-rack", "0")
        assert (done.code, "--max-cross-rack" in done.err) == (2, True), given


def test_gate_counts_racks_that_are_crossed_where_they_are_known(run: Runner, tmp_path: Path) -> None:
    near = {
        "topics": {"t": [{"partition": 0, "racks": ["x"]}, {"partition": 1, "racks": ["x"]}]},
        "members": {"a": {"topics": ["t"], "rack": "x"}, "b": {"topics": ["t"], "rack": "y"}},
    }
    (tmp_path / "group.json").write_text(json.dumps(near))
    done = run("gate", str(tmp_path / "group.json"), "--assignor", "roundrobin", "--max-cross-rack", "0", "-o", "json")
    assert (done.code, done.json["breached"]) == (3, [{"policy": "max-cross-rack", "limit": 0, "found": 1}])
    done = run("gate", str(tmp_path / "group.json"), "--assignor", "roundrobin", "--max-cross-rack", "1")
    assert done.code == 0


def test_describe_shows_a_saved_plan(run: Runner, saved: Path) -> None:
    done = run("describe", str(saved), "-o", "json")
    assert done.code == 0, done.err
    (group,) = done.json["groups"]
    assert {m: fields["owned"] for m, fields in group["members"].items()} == json.loads(saved.read_text())["assignment"]
    assert "saved plan" in run("describe", str(saved)).out


def test_compare_shows_a_saved_plan_beside_the_others(run: Runner, saved: Path) -> None:
    done = run("compare", str(saved.parent / "group.json"), "--saved", str(saved), "-o", "json")
    assert done.json["saved"]["assignor"] == "sticky"
    assert done.json["saved"]["measures"]["moves"] == 1
    shown = run("compare", str(saved.parent / "group.json"), "--saved", str(saved)).out
    assert [line.split()[1:3] for line in shown.splitlines() if line.startswith("(saved)")] == [["2", "1"]]


def test_plan_tells_what_changed_since_a_saved_plan(run: Runner, saved: Path) -> None:
    group = str(saved.parent / "group.json")
    same = run("plan", group, "--assignor", "sticky", "--diff", "--saved", str(saved))
    assert "Nothing changes against the saved plan." in same.out
    other = run("plan", group, "--assignor", "range", "--diff", "--saved", str(saved), "-o", "json")
    target = json.loads(saved.read_text())["assignment"]
    for member, change in other.json["diff"].items():
        now = set(other.json["assignment"][member].get("t", []))
        was = set(target[member].get("t", []))
        assert set(change["gains"].get("t", [])) == now - was
        assert set(change["loses"].get("t", [])) == was - now
    assert run("plan", group, "--saved", str(saved)).code == 2


@pytest.mark.parametrize(
    ("content", "begins"), [("{}", "'{}'"), (" \n", "nothing"), ("GROUP  TOPIC", "'GROUP  TOPIC'")]
)
def test_what_is_no_plan_is_told_by_its_beginning(run: Runner, saved: Path, content: str, begins: str) -> None:
    (saved.parent / "other").write_text(content)
    done = run("compare", str(saved.parent / "group.json"), "--saved", str(saved.parent / "other"))
    assert (done.code, done.out) == (2, "")
    assert f"other: found {begins}; needed plan.json, as plan --save writes it." in done.err


def test_a_plan_of_another_group_is_a_sentence(run: Runner, saved: Path, tmp_path: Path) -> None:
    other = {**GROUP, "members": {"z": {"topics": ["t"]}}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    done = run("compare", str(tmp_path / "other.json"), "--saved", str(saved))
    assert (done.code, "the member" in done.err) == (2, True)
    small = {**GROUP, "topics": {"t": 2}}
    (tmp_path / "small.json").write_text(json.dumps(small))
    done = run("compare", str(tmp_path / "small.json"), "--saved", str(saved))
    assert (done.code, "partition 2" in done.err or "partition 3" in done.err) == (2, True)
