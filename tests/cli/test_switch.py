"""``apportion switch``: what the move to the broker's protocol does to a group, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from apportion.demo import dump
from apportion.history.switch_measures import GroupFacts, Switch
from apportion.history.switching import switch
from apportion.model.group_json import read_group
from apportion.wire.coordinator import Commit, readable

from .conftest import PASTED, Runner


def even_group(topics: int = 10, size: int = 12, members: int = 6, **fields: Any) -> dict[str, Any]:
    """Every topic shared evenly, as cooperative-sticky has it after a fresh start."""
    names = [f"t{t}" for t in range(topics)]
    share = size // members
    held = {m: {name: list(range(m * share, (m + 1) * share)) for name in names} for m in range(members)}
    people = {f"m{m}": {"topics": names, "owned": held[m], "generation": 3, **fields} for m in range(members)}
    return {"group": "g", "topics": dict.fromkeys(names, size), "members": people}


def looked(raw: dict[str, Any], **facts: Any) -> Switch:
    return switch(read_group(raw), GroupFacts(**{"kind": "classic", "strategy": "cooperative-sticky", **facts}))


def test_a_group_of_many_topics_is_warned_of_whole_topics_on_one_member() -> None:
    """10 topics of 12 partitions on 6 members: 17 % of a topic each, 100 % after a fresh start, as seen on brokers."""
    found = looked(even_group(), assigned_data=())
    assert found.concentration == {"now": 0.1667, "online": 0.1667, "fresh": 1.0, "even": 0.1667}
    assert found.advice[0].startswith("Stay, unless all topics are equally busy")
    assert "One member would have 100% of t" in found.advice[1]
    assert "in a group that starts without a past, 17% after an online upgrade" in found.advice[1]
    assert found.to_dict()["upgradable"] is True
    assert found.online.measures["moves"] == 0
    document = found.to_dict()
    assert document["fresh"] == found.fresh.to_dict() != document["online"] == found.online.to_dict()
    # Equal numbers meet now, and in a fresh group of uniform none does.
    assert (found.together["of"], found.together["now"], found.together["online"]) == (12, 12, 12)
    assert found.together["fresh"] == 0


def test_of_a_governed_group_it_is_said_that_the_plan_decides_and_not_uniform() -> None:
    """A failover of 24 and 0: uniform would move half of it, and does not."""
    held = {"m0": {"t": list(range(24))}, "m1": {}}
    members = {name: {"topics": ["t"], "owned": owned, "generation": 1} for name, owned in held.items()}
    raw = {"group": "g", "topics": {"t": 24}, "members": members}
    said = looked(raw, kind="consumer", strategy="apportion").advice
    assert "a governor's plan decides" in said[0]
    assert "Without a plan its next target moves 12 partitions." in said
    assert "Its next target moves 12 partitions." in looked(raw, kind="consumer", strategy="uniform").advice


def test_what_no_longer_meets_and_what_is_read_across_racks_is_counted() -> None:
    """Range lines three numbers of two topics up; evening out four and two partitions parts one of them."""
    held = {"a": [0, 1], "b": [2]}
    lined_up = {
        name: {"topics": ["t", "u"], "owned": {"t": ids, "u": ids}, "generation": 1} for name, ids in held.items()
    }
    found = looked({"topics": {"t": 3, "u": 3}, "members": lined_up}, strategy="range", assigned_data=())
    assert (found.together["of"], found.together["now"], found.loses) == (3, 3, ["co-location"])
    assert found.together["online"] < 3
    said = " ".join(found.advice)
    assert (
        f"Of 3 partition numbers that meet on one member, {found.together['online']} would still meet after an online "
        f"upgrade, {found.together['fresh']} in a group that starts without a past."
    ) in said
    near = {"topics": {"t": [{"partition": p, "racks": ["ab"[p // 2]]} for p in range(4)]}, "group": "g"}
    members = {
        name: {"topics": ["t"], "rack": name, "owned": {"t": [n]}, "generation": 1} for n, name in enumerate("ab")
    }
    moved = looked({**near, "members": members}, assigned_data=())
    across = [line for line in moved.advice if "across racks" in line]
    now, online = moved.now["rack_misses"], moved.online.measures["rack_misses"]
    assert bool(across) == (online > now)
    assert all(line.startswith(f"{online} partition") and f"not {now}: the broker" in line for line in across)


def test_user_data_in_assignments_blocks_an_online_upgrade_and_is_told_with_a_way_out() -> None:
    found = looked(even_group(2), strategy="sticky-stream-join", assigned_data=("m1", "m2"))
    document = found.to_dict()
    assert document["upgradable"] is False
    assert document["blockers"] == [{"what": "user data in the assignment", "members": ["m1", "m2"]}]
    assert "the assignments of 2 members carry user data" in document["advice"]
    assert any("librdkafka" in trap for trap in document["traps"])
    by_name = looked(even_group(2), strategy="sticky-stream-join").to_dict()
    assert by_name["upgradable"] is False
    assert "upgradable" not in looked(even_group(2), strategy="theirs").to_dict()


def test_a_promise_that_the_broker_does_not_keep_is_a_reason_to_stay() -> None:
    found = looked(even_group(2), strategy="failover", assigned_data=())
    assert found.advice[0] == "Stay: failover promises one reader a topic, and the broker's assignors do not."
    assert found.to_dict()["upgradable"] is True  # one newcomer is enough, which is the trap
    assert any("converts the whole group at once" in trap for trap in found.traps)


def test_racks_static_members_and_short_sessions_are_named() -> None:
    raw = even_group(1, 6, 2, rack="a")
    raw["members"]["m0"]["instance_id"] = "i0"
    raw["topics"] = {"t0": [{"partition": p, "racks": ["a" if p < 3 else "b"]} for p in range(6)]}
    found = looked(raw, assigned_data=(), session_timeouts_ms=frozenset({10_000, 45_000}))
    assert list(found.loses) == ["racks"]
    assert found.advice[0].startswith("It can switch, if its clients have the new protocol, if it can do without racks")
    assert any(trap.startswith("Static members") for trap in found.traps)
    assert any("45 s unless set otherwise; it is 10 s now" in trap for trap in found.traps)


def test_a_dump_gives_history_and_score(run: Runner) -> None:
    groups = {one["group"]: one for one in run("switch", str(dump()), "-o", "json").json["groups"]}
    ads = groups["ads-range"]
    assert ads["history"] == {
        "generations": 5, "recorded": 28, "broker-uniform": 22, "broker-range": 28, "sticky": 22, "stopped": 45,
        "broker-uniform-static": 22, "broker-range-static": 28, "broker-uniform-batched": 22,
        "broker-range-batched": 28, "stopped_ms_at_least": 5, "stopped_ms_at_most": 6439,
    }  # fmt: skip
    assert "work" not in ads, "rates are measured for groups that are named"
    static = groups["stock-static"]["history"]
    assert (static["broker-uniform"], static["broker-uniform-dynamic"]) == (5, 7)
    assert "broker-uniform-static" not in static
    assert ads["score"] == {"epochs": 9, "predicted": 9}
    assert ads["online"]["prediction"] == "exact"
    assert groups["profiles-kip848"]["protocol"] == "consumer"
    assert "upgradable" not in groups["profiles-kip848"]
    assert groups["profiles-kip848"]["concentration"]["now"] == 1.0
    # Share and streams groups are no groups of consumers; groups without members cannot be looked at.
    assert not {"shared", "connect-cluster"} & set(groups)


def test_text_shows_one_group_in_full_and_many_in_a_table(run: Runner) -> None:
    one = run("switch", str(dump()), "--group", "ads-range").out
    assert one.startswith("ads-range: classic, range, can be upgraded online\n")
    assert "most of one topic on one member  38%    38%     88%" in one
    assert "work of the busiest member" in one, "its commits tell rates"
    assert "\nTraps:\n" in one
    many = run("switch", str(dump())).out.splitlines()
    assert many[0].split()[:3] == ["GROUP", "PROTOCOL", "UPGRADABLE"]
    assert len(many) > 15


def test_pasted_text_goes_as_far_as_it_can(run: Runner) -> None:
    document = run("switch", str(PASTED / "members-verbose.txt"), "-o", "json").json
    for group in document["groups"]:
        assert "history" not in group
        assert "score" not in group
        assert group["online"]["prediction"] == "shape"


def test_without_a_member_there_is_nothing_to_say(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_bytes((PASTED / "none.txt").read_bytes())
    answer = run("switch", str(tmp_path / "none.txt"))
    assert answer.code == 2


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_programs_get_a_row_a_group(run: Runner, form: str) -> None:
    out = run("switch", str(dump()), "--group", "ads-range", "-o", form).out
    if form == "ndjson":
        assert json.loads(out)["topic_anew"] == "88%"
    else:
        assert out.splitlines()[0].startswith("group,protocol,assignor,upgradable")


def test_the_report_has_the_section_where_it_is_wanted(run: Runner, tmp_path: Path) -> None:
    page = run("report", str(dump()), "--group", "ads-range", "--group", "stock-static", "--switch", "-o", "-").out
    assert page.replace(" ", "").count('"switch":{"Group":') == 2
    assert '"switch":{"Group":' not in run("report", str(dump()), "--group", "ads-range", "-o", "-").out
    (tmp_path / "g.json").write_text(json.dumps(even_group(2)))
    assert '"switch":{"Group":' in run("report", str(tmp_path / "g.json"), "--switch", "-o", "-").out


def test_the_page_carries_both_pictures_data(run: Runner) -> None:
    page = run("switch", str(dump()), "--group", "ads-range", "-o", "html").out
    assert '"switch":' in page.replace(" ", "")
    assert "switch-shares" in page
    assert "switch-moves" in page


@pytest.mark.parametrize("words", [["switch", "-o", "html"], ["report", "--switch", "-o", "-"]])
def test_the_pictures_of_a_switch_have_the_pages_own_partitions(run: Runner, tmp_path: Path, words: list[str]) -> None:
    """Also where a topic that no member wants any more is committed in part, whose other partitions no page shows."""
    folder = tmp_path / "dump"
    copytree(dump(), folder)
    records = folder / "records" / "part-0.parquet"
    table = parquet.read_table(records)
    keys = [readable(row["key"], row["value"]) for row in table.select(["key", "value"]).to_pylist()]
    lost = [
        isinstance(key, Commit) and (key.group, key.topic, key.partition) == ("tangled-wants", "emails", 0)
        for key in keys
    ]
    assert any(lost)
    parquet.write_table(table.filter(pa.array([not gone for gone in lost])), records)
    page = run(words[0], str(folder), "--group", "tangled-wants", *words[1:]).out
    rows = [
        json.JSONDecoder().raw_decode(line)[0]
        for line in page.splitlines()
        if line.startswith('{"') and '"online":' in line
    ]
    assert len(rows) == 1
    assert len(rows[0]["switch"]["online"]) == len(rows[0]["switch"]["fresh"]) == len(rows[0]["owner"])


@pytest.mark.parametrize("client", ["kafka-python-3.0.1", "aiokafka-0.12.0", "mails-aiokafka-1"])
def test_members_of_a_client_without_the_new_protocol_never_can_switch(client: str) -> None:
    found = looked(even_group(1, client_id=client), assigned_data=())
    name = client.removeprefix("mails-").rpartition("-")[0]
    assert (found.answer, found.to_dict()["classic_clients"]) == ("stay", {name: 6})
    assert found.advice[0].startswith(f"Stay: its members run {name}, by their client ids, which has no new protocol.")
    assert "move them to a client that has it" in found.advice[0]
    own = looked(even_group(1, client_id="billing"), assigned_data=())
    assert own.answer == "can"
    assert own.advice[0].startswith("It can switch, if its clients have the new protocol")
    assert any("no broker knows which client" in trap for trap in own.traps)
    already = looked(even_group(1, client_id=client), kind="consumer")
    assert (already.answer, dict(already.classic_clients)) == ("already", {})


def test_groups_that_have_no_answer_are_counted_with_the_reason(run: Runner) -> None:
    shown = run("switch", str(dump())).out.splitlines()
    groups = int(shown[-2].split()[1])
    assert shown[-2].startswith(f"Of {groups} groups: ")
    assert shown[-1] == (
        "Left out: 1 of the share protocol, not of consumers; 1 whose subscriptions cannot be read; 3 without members."
    )
    document = run("switch", str(dump()), "-o", "json").json
    assert (len(document["groups"]), len(document["left_out"])) == (groups, 5)
