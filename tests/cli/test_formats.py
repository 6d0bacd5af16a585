"""Every example of the text forms gives what is written beside it, and every exit code is the promised one."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from apportion import demo
from apportion.cli.commands import COMMANDS, parser_of

from .conftest import ADS, Runner, run_apart

PAIR = (
    '{"version": 1, "group": "ads-join", "topics": {"clicks": 4, "orders": 1}, "members": {"a": {"topics": ["clicks"],'
    ' "owned": {"clicks": [0, 1, 2]}, "generation": 5}, "b": {"topics": ["clicks"], "owned": {"clicks": [9]},'
    ' "generation": 5}}}'
)
ANSWER = {
    "version": 1,
    "group": "ads-join",
    "assignor": "cooperative-sticky",
    "settings": {},
    "assignment": {"a": {"clicks": [0, 1]}, "b": {"clicks": [3]}},
    "target": {"a": {"clicks": [0, 1]}, "b": {"clicks": [2, 3]}},
    "withheld": {"clicks": [2]},
    "unassigned": {"orders": [0]},
    "ignored": [{"member": "b", "topic": "clicks", "partition": 9, "why": "no such partition"}],
    "measures": {
        "partitions": 4, "members": 2, "load_min": 2, "load_max": 2, "load_squares": 8, "kept": 2, "moves": 1,
        "rack_misses": 0, "spread_squares": 8,
    },
    "proof": {"balance": "optimal", "moves": "optimal"},
}  # fmt: skip


def test_the_plan_of_the_example_is_the_plan_beside_it(run: Runner) -> None:
    done = run("plan", "-", "-o", "json", stdin=PAIR.encode())
    assert (done.code, done.json, done.err) == (0, ANSWER, "")


def test_the_same_input_gives_the_same_bytes_in_another_process_whatever_its_order(run: Runner) -> None:
    turned = json.dumps(dict(reversed(json.loads(PAIR).items())))
    here = run("plan", "-", "-o", "json", stdin=PAIR.encode()).out
    assert run_apart("plan", "-", "-o", "json", stdin=turned.encode(), env={"PYTHONHASHSEED": "7"}).out == here


def test_the_group_of_the_example_is_read_and_written_back(run: Runner, folder: Path) -> None:
    done = run("describe", "group.json", "-o", "json")
    [group] = done.json["groups"]
    described = group.pop("described")
    assert group == json.loads(json.dumps(ADS))
    assert [member["id"] for member in described["members"]] == sorted(group["members"])
    [again] = run("describe", "-", "-o", "json", stdin=done.out.encode()).json["groups"]
    del described["diagnosis"]["next"]  # a command can name a file, but not what was piped in
    assert again == {**group, "described": described}


@pytest.mark.parametrize("setting", ["max_skew=2", "scope=topic"])
def test_a_setting_is_taken(run: Runner, folder: Path, setting: str) -> None:
    done = run("plan", "group.json", "--assignor", "lag-aware", "--set", setting, "-o", "json")
    key, _, value = setting.partition("=")
    assert done.code == 0
    assert str(done.json["settings"][key]) == value


@pytest.mark.parametrize("wrong", ["max_skew=x", "skew=1", "max_skew", "=1"])
def test_an_unknown_setting_or_value_is_wrong_usage(run: Runner, folder: Path, wrong: str) -> None:
    done = run("plan", "group.json", "--assignor", "lag-aware", "--set", wrong)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("apportion: ")


def test_each_view_of_kafkas_tool_that_is_asked_for_is_printed(run: Runner, folder: Path) -> None:
    shown = run("describe", "group.json", "--state", "--members", "--offsets").out
    assert [word for word in shown.split() if word in ("#MEMBERS", "#PARTITIONS", "CURRENT-OFFSET")] == [
        "#MEMBERS", "#PARTITIONS", "CURRENT-OFFSET"
    ]  # fmt: skip


def test_what_if_plans_its_steps_in_the_order_given(run: Runner, folder: Path) -> None:
    given = ["--leave", "pod-0", "--join", "2", "--grow", "clicks:24", "--lag", "clicks:0=1000000"]
    done = run("what-if", "group.json", *given, "-o", "json")
    assert [s["step"] for s in done.json["steps"]] == [
        "leave pod-0",
        "join 2",
        "grow clicks:24",
        "lag clicks:0=1000000",
    ]
    assert [s["plan"]["measures"]["members"] for s in done.json["steps"]] == [1, 3, 3, 3]
    turned = run("what-if", "group.json", "--join", "2", "--leave", "pod-0", "-o", "json")
    assert [s["step"] for s in turned.json["steps"]] == ["join 2", "leave pod-0"]


def test_compare_gives_every_plan_and_the_best(run: Runner, folder: Path) -> None:
    done = run("compare", "group.json", "-o", "json").json
    assert set(done) >= {"version", "group", "plans", "best"}
    plans = {plan["assignor"]: plan for plan in done["plans"]}
    assert {"range", "roundrobin", "sticky", "cooperative-sticky", "lag-aware"} <= set(plans)
    for measure, name in done["best"].items():
        owned = [p for p in plans.values() if p["measures"]["load_squares"] and not p["unassigned"]]
        assert plans[name]["measures"][measure] == min(p["measures"][measure] for p in owned)


def test_a_history_is_asked_of_a_folder(run: Runner, folder: Path) -> None:
    done = run("replay", "group.json", "--group", "ads-join")
    assert (done.code, done.out) == (2, "")
    assert "found a file; needed a folder: a dump" in done.err


def test_gate_ends_with_3_and_names_each_breach(run: Runner, folder: Path) -> None:
    (folder / "moving.json").write_text(PAIR)
    done = run("gate", "moving.json", "--max-moves", "0", "--max-skew", "0", "-o", "json")
    assert done.code == 3
    assert done.json == {"version": 1, "breached": [{"policy": "max-moves", "limit": 0, "found": 1}]}
    assert run("gate", "moving.json", "--max-moves", "1", "--require-proof").code == 0
    unproved = run("gate", "moving.json", "--assignor", "roundrobin", "--require-proof", "-o", "json")
    assert (unproved.code, unproved.json["breached"][0]["policy"]) == (3, "require-proof")


def test_gate_judges_a_saved_plan_as_it_judges_the_group(run: Runner, folder: Path) -> None:
    plan = run("plan", "-", "-o", "json", stdin=PAIR.encode()).out
    done = run("gate", "-", "--max-moves", "0", "-o", "json", stdin=plan.encode())
    assert (done.code, done.json["breached"]) == (3, [{"policy": "max-moves", "limit": 0, "found": 1}])


def test_gate_says_where_one_member_is_swamped(run: Runner, folder: Path) -> None:
    done = run("gate", "group.json", "--now", "--max-lag-share", "0.1", "-o", "json")
    assert (done.code, done.json["breached"][0]["found"]) == (3, round(10000 / 70000, 4))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("\ufeffGROUP TOPIC\n".encode("utf-16-le"), "found UTF-16, as PowerShell's > writes; needed UTF-8: "),
        ("\ufeffGROUP TOPIC\n".encode("utf-16-be"), "found UTF-16; needed UTF-8: "),
        (gzip.compress(PAIR.encode()), "found a gzip file; needed its content: gunzip -c "),
        (b"PAR1" + bytes(50), "found a Parquet file; needed the folder of the dump"),
    ],
)
def test_what_people_give_by_mistake_is_named(run: Runner, content: bytes, says: str) -> None:
    for command in ("describe", "plan", "compare", "gate"):
        limit = ["--max-moves", "1"] if command == "gate" else []
        done = run(command, "-", *limit, stdin=content)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"apportion: standard input: {says}"), done.err


def test_gate_without_a_limit_or_with_what_the_plan_does_not_tell_is_wrong_usage(run: Runner, folder: Path) -> None:
    assert run("gate", "plan.json").code == 2
    assert run("gate", "plan.json", "--max-lag-share", "0.5").code == 2
    for limit in (["--max-lag-share", "0.5"], ["--max-lag", "5"]):
        assert run("gate", "-", *limit, stdin=PAIR.encode()).code == 2  # no lag is known, so nobody is cleared


BAD = [
    ("[]", "group"),
    ('{"topics": {}}', "members"),
    ('{"topics": {}, "members": {}}', "no member at all"),
    ('{"topics": {"t": 3.0}, "members": {"a": {"topics": ["t"]}}}', "topics.t"),
    ('{"topics": {"t": true}, "members": {"a": {"topics": ["t"]}}}', "topics.t"),
    ('{"topics": {"t": NaN}, "members": {"a": {"topics": ["t"]}}}', "NaN"),
    ('{"topics": {"t": -1}, "members": {"a": {"topics": ["t"]}}}', "topics.t"),
    ('{"topics": {"t": 99999999999}, "members": {"a": {"topics": ["t"]}}}', "topics.t"),
    ('{"topics": {}, "members": {"a": {"topics": [1]}}}', "members.a.topics[0]"),
    ('{"version": 2, "topics": {}, "members": {"a": {"topics": []}}}', "version"),
    ('{"topics": {}, "members": {"a": {"topics": [], "x": 1}}}', "members.a.x"),
    ('{"topics": {}, "members": {"a": {"topics": []}, "a": {"topics": []}}}', "twice"),
    ('{"topics": {"\\ud800": 1}, "members": {"a": {"topics": []}}}', "surrogate"),
    ('{"topics": {}, "members": {"a": {"topics": [], "instance_id": "i"}, "b": {"topics": [], "instance_id": "i"}}}',
     "instance_id"),
    ('{"auto_offset_reset": "x", "topics": {}, "members": {"a": {"topics": []}}}', "auto_offset_reset"),
    ('{"topics": {}, "members": {"a": {"topics": []}}', "JSON"),
    ("", "nothing"),
    ("hello", "hello"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named"), BAD)
def test_bad_input_is_one_sentence_that_names_the_place(run: Runner, text: str, named: str) -> None:
    done = run("plan", "-", stdin=text.encode())
    assert (done.code, done.out) == (2, "")
    assert named in done.err
    assert done.err.count("\n") == 1


def test_bytes_that_are_no_text_are_one_sentence(run: Runner) -> None:
    done = run("plan", "-", stdin=b'{"topics": {"\xff": 1}}')
    assert (done.code, done.out) == (2, "")
    assert "UTF-8" in done.err


DUMP = str(demo.dump())
LINES = {
    "plan": ["group.json"],
    "compare": ["group.json"],
    "describe": ["group.json"],
    "assignors": [],
    "what-if": ["group.json", "--join", "1"],
    "size": ["group.json", "--by", "partitions", "--capacity", "3"],
    "switch": ["group.json"],
    "gate": ["group.json", "--max-moves", "100"],
    "replay": [DUMP, "--group", "ads-range"],
}
"""Every command with ``-o``, but ``pipeline status``, and what it needs besides."""
DRAWN = [name for name in LINES if ", html (default" in " ".join(parser_of(name).format_help().split())]


def test_every_command_with_forms_of_output_is_here() -> None:
    with_forms = [name for name in COMMANDS if "FORMAT" in parser_of(name).format_help()]
    assert set(with_forms) == {*LINES, "pipeline"}
    assert {*DRAWN} == {"plan", "compare", "describe", "what-if", "size", "switch", "replay"}


@pytest.mark.parametrize("name", ["json", "ndjson", "csv", "table", "wide"])
@pytest.mark.parametrize("command", LINES)
def test_every_form_of_output_is_there(run: Runner, folder: Path, command: str, name: str) -> None:
    done = run(command, *LINES[command], "-o", name)
    assert done.code == 0
    if name == "json":
        assert done.json["version"] == 1
    elif name == "ndjson":
        assert all(isinstance(line, dict) for line in done.lines)
    elif name == "csv":
        width = {line.count(",") for line in done.out.splitlines() if '"' not in line}
        assert len(width) == 1


@pytest.mark.parametrize("command", DRAWN)
def test_the_page_is_a_form_of_output_too(run: Runner, folder: Path, command: str) -> None:
    done = run(command, *LINES[command], "-o", "html")
    assert (done.code, done.err) == (0, "")
    assert done.out.lstrip().lower().startswith("<!doctype html>")
    assert ("ads-range" if command == "replay" else "consumer-2-91aa") in done.out


def test_the_page_of_a_size_has_a_plan_for_each_number_of_members_and_the_advice(run: Runner, folder: Path) -> None:
    given = ["size", *LINES["size"]]
    told = run(*given, "-o", "json").json
    (group,) = drawn(run(*given, "-o", "html").out)
    names = [plan["assignor"] for plan in group["plans"]]
    assert names[told["chosen"]].endswith(", advised")
    assert [name.split()[0] for name in names] == [str(sized["members"]) for sized in told["frontier"]]
    for plan, sized in zip(group["plans"], told["frontier"], strict=True):
        held = Counter(group["members"][m] for m in plan["owner"] if m >= 0)
        wanted = {name: sum(map(len, topics.values())) for name, topics in sized["plan"]["assignment"].items()}
        assert sorted(held.values()) == sorted(n for n in wanted.values() if n)
        assert plan["measures"]["moves"] == sized["moves"]
    assert " ".join(group["advice"]) == told["advice"]


@pytest.mark.parametrize(
    "steps", [["--join", "2"], ["--leave", "pod-0", "--join", "1"], ["--grow", "clicks:9"], ["--rolling", "--static"]]
)
def test_the_page_of_a_what_if_shows_the_end_beside_the_present(run: Runner, folder: Path, steps: list[str]) -> None:
    """Members that came are in it; whoever went is not; every owner has the name that the plan says."""
    last = run("what-if", "group.json", *steps, "-o", "json").json["steps"][-1]["plan"]
    (group,) = drawn(run("what-if", "group.json", *steps, "-o", "html").out)
    held = Counter(group["members"][m] for m in group["plans"][0]["owner"] if m >= 0)
    target = last.get("target", last["assignment"])
    assert sorted(held.values()) == sorted(n for t in target.values() if (n := sum(map(len, t.values()))))
    gone = "--leave" in steps
    assert Counter(m >= 0 for m in group["owner"])[True] == (0 if gone else 3)
    assert len(group["members"]) == len(target)


def test_the_page_of_a_replay_has_its_moves_beside_those_that_happened(run: Runner, folder: Path) -> None:
    given = ["replay", *LINES["replay"], "--assignor", "sticky"]
    told = run(*given, "-o", "json").json
    (group,) = drawn(run(*given, "-o", "html").out)
    (walked,) = group["replays"]
    assert walked["assignor"] == "sticky"
    assert sum(walked["moves"]) == told["total"]["moves"]
    assert sum(one["moved"] or 0 for one in group["history"]["rebalances"]) == told["total"]["moves_then"]


def drawn(page: str) -> list[Any]:
    """The groups of a small page, from the data that it carries."""
    lines = page.partition(' id="data">')[2].partition("</script>")[0].strip().split("\n")
    return [group for group in map(json.loads, lines) if "plans" in group]


def test_a_report_is_written_whole_and_the_same_at_the_same_moment(
    run: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795272828")
    assert run("report", "group.json", "-o", "page.html").out == "page.html\n"
    assert run("report", "group.json", "-o", "-").out == (folder / "page.html").read_text()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    assert run("report", "group.json", "-o", "page.html").code == 2


def test_a_title_or_a_file_name_that_is_no_text_stands_in_the_page_as_its_bytes(run: Runner, folder: Path) -> None:
    (folder / "g\udcff.json").write_bytes((folder / "group.json").read_bytes())
    done = run("report", "g\udcff.json", "--title", "t\udcfe", "-o", "-")
    assert (done.code, done.err) == (0, "")
    assert "t\\udcfe" in done.out


def test_an_unknown_form_of_output_gets_a_hint(run: Runner, folder: Path) -> None:
    done = run("plan", "group.json", "-o", "jsn")
    assert done.code == 2
    assert "Maybe you meant 'json'" in done.err
