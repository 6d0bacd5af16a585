"""What is said of a group is in its input: who reads, what lags, what was left out; and no gate passes on a part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Done, run_here
from tests.sources.test_layouts import READ
from tests.support.sighted import sighting

from apportion.report.page_groups import of_present
from apportion.sources.sniff import groups_in

TEXTS = Path(__file__).parents[1] / "sources" / "cases"
GROUPS = Path(__file__).parent / "cases"


def on(command: str, case: str, *words: str) -> Done:
    path = next(TEXTS.glob(f"{case}.*"), GROUPS / f"{case}.json")
    return run_here(command, str(path), *words)


def gated(text: str, *words: str) -> Done:
    return run_here("gate", "-", *words, stdin=text.encode())


def test_what_was_left_out_is_said_first_and_no_gate_or_plan_passes_on_the_rest() -> None:
    described = on("describe", "dots-between-rows")
    assert described.code == 0
    assert "! Not all was read: line 4 ('...') says that rows are missing." in described.out
    passed = on("gate", "dots-between-rows", "--now", "--max-lag", "10000000")
    assert (passed.code, passed.out) == (2, "")
    assert "a text of which not all was read: line 4" in passed.err
    breached = on("gate", "dots-between-rows", "--now", "--max-lag", "1000")
    assert breached.code == 3
    assert "max-lag is 950030, allowed 1000" in breached.out
    for command in ("plan", "compare"):
        assert on(command, "dots-between-rows").code == 2


def test_without_a_column_for_owners_nobody_is_said_to_read_or_not() -> None:
    described = on("describe", "owner-columns-cut-awk")
    assert "orders-app: members unknown, 3 partitions, lag 40" in described.out
    assert (
        "! The owners are unknown: the text has no column CONSUMER-ID and no list of members; 40 messages wait."
        in described.out
    )
    assert "Nobody reads" not in described.out
    planned = on("plan", "owner-columns-cut-awk")
    assert planned.code == 2
    assert "that does not show which member reads; needed the column CONSUMER-ID" in planned.err


def test_a_table_without_owners_keeps_no_gate_from_judging_the_other_groups() -> None:
    """Its own lag is said, as is that nobody can tell with whom it is; what another group breaches stays breached."""
    head = "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG"
    text = f"{head}  CONSUMER-ID\nbilling  t  0  10  500  490  c-1\n\n{head}\nother  u  0  10  500  490\n"
    breached = gated(text, "--all-groups", "--now", "--max-lag", "10")
    assert breached.code == 3
    assert "max-lag of billing is 490, allowed 10" in breached.out
    within = gated(text, "--all-groups", "--now", "--max-lag", "1000")
    assert within.code == 2
    for said in (breached.out, within.err):
        assert (
            "other: --max-lag: found a table that does not show which member reads, so not with whom its lag of 490 is"
            in said
        )


def test_a_rebalance_is_said_where_a_sentence_tells_it() -> None:
    out = on("describe", "rebalancing-sentence-cfkpy208").out
    assert "GROUP_A: rebalancing, 3 members, 4 partitions, lag 35,000" in out
    assert (
        "! It is rebalancing: owners are about to change, and 35,000 messages wait in partitions without an owner."
        in out
    )


def test_no_gate_passes_on_owners_that_are_not_there_or_on_lag_that_nobody_reads() -> None:
    case = "rebalancing-sentence-cfkpy208"
    for limit, value in (("--max-skew", "0"), ("--max-topic-share", "1"), ("--max-lag-share", "1")):
        gated = on("gate", case, "--now", limit, value)
        assert (gated.code, gated.out) == (2, "")
        assert f"{limit}: found an input without it" in gated.err
    breached = on("gate", case, "--now", "--max-lag", "1000", "-o", "json")
    assert (breached.code, breached.json["breached"][0]["found"]) == (3, 35_000)


def test_a_group_without_members_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("Consumer group 'payments' has no active members.\n")
    for command in (("plan",), ("compare",), ("gate", "--now", "--max-lag", "1"), ("what-if", "--join", "1")):
        done = run_here(command[0], str(tmp_path / "empty.txt"), *command[1:])
        assert (done.code, done.out) == (2, "")
        assert "empty.txt: found no member at all in group 'payments'; needed at least one" in done.err


def test_a_log_that_is_empty_has_no_lag_though_nobody_committed() -> None:
    out = on("describe", "rpk-group-describe-26865").out
    assert "panda3: Stable, cooperative-sticky, 1 member, 1 partition, lag 0" in out
    assert "! Never committed, and nothing to read yet: foo(0)." in out


def test_a_lag_that_nothing_tells_is_unknown_and_passes_no_gate() -> None:
    assert "lag unknown" in on("describe", "all-dash-with-ends").out
    gated = on("gate", "all-dash-with-ends", "--now", "--max-lag", "10")
    assert (gated.code, gated.out) == (2, "")
    assert "--max-lag: found an input without it" in gated.err
    assert on("gate", "all-dash-with-ends", "--max-lag-share", "0.9").code == 2
    sized = on("size", "all-dash-with-ends", "--capacity", "3", "--by", "lag")
    assert (sized.code, sized.out) == (2, "")
    assert "--by lag: found no partition whose lag is known" in sized.err
    assert "LAG-MAX" not in on("compare", "all-dash-with-ends").out
    assert "No lag is known" in on("plan", "all-dash-with-ends").out


def test_a_partition_that_two_read_is_read_by_two_everywhere() -> None:
    out = on("describe", "kn2").out
    assert "! 3 partitions are read by several members: test-topic(0-2)." in out
    assert "generation 0" not in out + on("plan", "kn2").out
    described = on("describe", "kn2", "-o", "json").json["groups"][0]["described"]
    assert [member["partitions"] for member in described["members"]] == [3, 3]
    assert on("describe", "kn2", "-o", "csv").out.count("test-topic") == 6
    assert "(now) 3 partitions are read by several members: test-topic(0-2)." in on("compare", "kn2").out
    now = next(row for row in on("compare", "kn2", "-o", "ndjson").lines if row["assignor"] == "(now)")
    assert (now["load"], now["unowned"]) == ("3", 0)


def test_double_readers_breach_any_gate_on_present_owners_unless_they_are_allowed() -> None:
    gated = on("gate", "kn2", "--now", "--max-skew", "0", "-o", "json")
    assert (gated.code, gated.json["breached"]) == (3, [{"policy": "max-double-readers", "limit": 0, "found": 3}])
    assert on("gate", "kn2", "--now", "--max-skew", "0", "--max-double-readers", "3").code == 0
    assert on("gate", "kn2", "--max-double-readers", "3").code == 2


def test_two_readers_are_the_same_from_both_layouts(tmp_path: Path) -> None:
    head = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    rows = [f"test-group test-topic {p} 5 5 0 {m} /172.0.0.1 kafka-node" for m in ("m1", "m2") for p in range(3)]
    (tmp_path / "dup.txt").write_text("\n".join([head, *rows]))
    assert (
        "! 3 partitions are read by several members: test-topic(0-2)."
        in run_here("describe", str(tmp_path / "dup.txt")).out
    )


def test_members_can_help_where_the_hot_partition_has_company() -> None:
    assert ("clicks-0 has 54% of 55,200 messages; its member has 24,000 more to read, which others could take.") in on(
        "describe", "two-hot"
    ).out
    for case in ("two-hot", "lag-is-local-knative2240"):
        assert "cannot help" not in on("describe", case).out


def test_a_markers_lag_is_nobodys_hot_key(tmp_path: Path) -> None:
    entries = [{"partition": p, "end": 10, "committed": 10 - (p == 0)} for p in range(4)]
    group = {"topics": {"t": entries}, "members": {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2, 3]}}}}
    (tmp_path / "g.json").write_text(json.dumps(group))
    assert "hot key" not in run_here("describe", str(tmp_path / "g.json")).out


def test_a_topic_held_wholly_by_one_member_is_odd_and_seen_by_compare_and_gate() -> None:
    assert (
        "! 2 topics are each held wholly by one member, though others want it too: A, B." in on("describe", "conc").out
    )
    rows = {row["assignor"]: row for row in on("compare", "conc", "-A", "range", "-o", "ndjson").lines}
    assert (rows["(now)"]["spread"], rows["range"]["spread"]) == (32, 16)
    assert on("gate", "conc", "--now", "--max-topic-share", "0.5").code == 3
    assert on("gate", "conc", "--assignor", "range", "--max-topic-share", "0.5").code == 0
    for assignor, code in (("range", 0), ("failover", 3)):
        saved = on("plan", "conc", "-A", assignor, "-o", "json").out
        assert run_here("gate", "-", "--max-topic-share", "0.5", stdin=saved.encode()).code == code


def test_members_of_different_wishes_that_could_be_even_are_odd() -> None:
    assert "! Uneven: members hold 1 to 11 partitions; 6 to 6 can be, with 5 moves." in on("describe", "h553").out


def test_no_members_in_a_text_may_be_a_reader_that_commits_without_being_one(tmp_path: Path) -> None:
    text = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\nflink t 0 5 9 4 - - -\n"
    (tmp_path / "flink.txt").write_text(text)
    assert (
        "or the reader commits without joining (Flink, Spark, assign())"
        in run_here("describe", str(tmp_path / "flink.txt")).out
    )


@pytest.mark.parametrize("case", [*READ, "conc", "h553", "two-hot"])
def test_what_describe_writes_as_json_is_read_again_as_the_same_group(case: str) -> None:
    once = on("describe", case, "-o", "json")
    again = run_here("describe", "-", "-o", "json", stdin=once.out.encode())
    first, second = ([{**group, "described": None} for group in done.json["groups"]] for done in (once, again))
    assert first == second


@pytest.mark.parametrize("form", ["table", "wide", "csv"])
@pytest.mark.parametrize("case", ["lag-is-local-knative2240", "kn2", "markdown-table-keda5906", "ansi-bold-header"])
def test_what_describe_prints_is_read_again_as_the_same_owners_and_offsets(case: str, form: str) -> None:
    once = on("describe", case, "-o", form)
    first = on("describe", case, "-o", "json").json["groups"][0]
    second = run_here("describe", "-", "-o", "json", stdin=once.out.encode()).json["groups"][0]
    owned = [{name: fields.get("owned") for name, fields in one["members"].items()} for one in (first, second)]
    assert owned[0] == owned[1]
    assert (first["group"], first["topics"]) == (second["group"], second["topics"])


def test_two_groups_as_describe_prints_them_are_read_again_as_two() -> None:
    text = on("describe", "two-groups-without-group-column", "--verbose").out
    again = run_here("describe", "-", "-o", "json", stdin=text.encode()).json["groups"]
    assert [(one["group"], one["described"]["lag"]) for one in again] == [("shipping", 3980), ("billing", 20)]


def page_of(case: str) -> dict[str, Any]:
    return of_present(groups_in((TEXTS / f"{case}.txt").read_bytes(), case)[0])


def test_the_page_claims_no_more_than_the_text() -> None:
    cut, twice = page_of("owner-columns-cut-awk"), page_of("kn2")
    assert (cut["verdict"], cut["why"][0][:23]) == ("WARN", "The owners are unknown:")
    assert (twice["verdict"], twice["why"][0][:40]) == ("WARN", "3 partitions are read by several members")
    assert (twice["now"]["measures"]["load_min"], twice["now"]["measures"]["double_readers"]) == (3, 3)
    assert page_of("all-dash-with-ends")["lag_known"] is False
    assert page_of("dots-between-rows")["why"][0].startswith("Not all was read: line 4")


def test_a_share_groups_lag_is_unknown_on_the_page_as_in_the_text() -> None:
    topics = {"t": [{"partition": 0, "begin": 0, "end": 9, "lag": 9}]}
    raw = {"group": "s", "topics": topics, "members": {"a": {"topics": ["t"]}}}
    seen = sighting(raw, "Stable", "share")
    assert of_present(seen)["lag_known"] is False
    assert seen.total_lag is None


HEAD = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
FIRST = "billing orders 0 88 100 12 c-1 /10.0.0.1 c-1\n"
NOW = ("--now", "--max-lag", "1000")
NOT_WHOLE = {
    "a figure that has lost digits": "billing orders 1 9.1K 913K 904K c-2 /10.0.0.2 c-2\n",
    "a row without its last columns": "billing orders 1 88 913100\n",
    "a line that says that rows are missing": "only showing top 1 row\n",
    "a lag that contradicts its offsets": "billing orders 1 88 913100 12 c-2 /10.0.0.2 c-2\n",
    "a lag that is longer than the log": "billing orders 1 - 100 904000 c-2 /10.0.0.2 c-2\n",
    "a lag that nothing tells": "billing orders 1 - 913100 - c-2 /10.0.0.2 c-2\n",
}


@pytest.mark.parametrize("output", ["table", "json", "csv"])
@pytest.mark.parametrize("spoilt", NOT_WHOLE)
def test_no_gate_passes_on_a_text_that_was_not_read_whole_and_a_breach_stays_one(spoilt: str, output: str) -> None:
    text = HEAD + FIRST + NOT_WHOLE[spoilt]
    limit = ("--now", "--max-lag", "1000000")
    for words in (limit, ("--max-lag", "1000000")):
        passed = gated(text, *words, "-o", output)
        assert (passed.code, passed.out) == (2, "")
        assert passed.err.startswith("apportion: ")
    assert gated(text, "--now", "--max-lag", "5", "-o", output).code == 3
    assert gated(HEAD + FIRST, *limit, "-o", output).code == 0


def test_a_gate_judges_every_group_of_a_text_and_names_those_that_breach() -> None:
    listing = HEAD + FIRST + FIRST.replace("billing", "orders").replace("88 100 12", "88 9088 9000")
    listing += "idle t 0 5 2000 1995 - - -\n"
    both = gated(listing, "--all-groups", "--now", "--max-lag", "1000", "-o", "json")
    assert (both.code, [(b["group"], b["found"]) for b in both.json["breached"]]) == (
        3,
        [("orders", 9000), ("idle", 1995)],
    )
    assert gated(listing, "--all-groups", "--now", "--max-lag", "9000").code == 0
    assert (
        gated(listing + NOT_WHOLE["a lag that nothing tells"], "--all-groups", "--now", "--max-lag", "9000").code == 2
    )
    spoilt = gated(listing + NOT_WHOLE["a lag that nothing tells"], "--all-groups", "--now", "--max-lag", "1000")
    assert (spoilt.code, "Not judged: billing: --max-lag" in spoilt.out) == (3, True)


def test_a_limit_in_seconds_needs_more_than_one_moment_and_passes_on_no_unknown_age() -> None:
    pytest.importorskip("pyarrow")
    from apportion.demo import dump

    assert "a file shows only one moment" in gated(HEAD + FIRST, "--now", "--max-lag-seconds", "60").err
    unknown = run_here("gate", str(dump()), "--group", "ads-range", "--now", "--max-lag-seconds", "60")
    assert (unknown.code, "a message whose age is not known" in unknown.err) == (2, True)
    assert run_here("gate", str(dump()), "--all-groups", "--max-moves", "1000").code == 0


def test_an_unknown_lag_keeps_no_gate_from_passing_that_is_not_about_lag() -> None:
    text = HEAD + FIRST + NOT_WHOLE["a lag that nothing tells"]
    assert gated(text, "--now", "--max-skew", "1").code == 0
    refused = gated(text, "--now", "--max-lag-share", "1")
    assert (refused.code, "that the lag of orders(1) is not known" in refused.err) == (2, True)


def test_a_gate_says_which_lag_is_not_known() -> None:
    refused = on("gate", "plain-unknown", *NOW)
    assert (refused.code, refused.out) == (2, "")
    assert "the lag of orders(1) is not known" in refused.err


def test_a_gate_names_the_cell_that_it_could_not_read() -> None:
    refused = on("gate", "akhq-comma", *NOW)
    assert (refused.code, "line 3, CURRENT-OFFSET, is '9,100'" in refused.err) == (2, True)


def test_a_negative_lag_is_odd() -> None:
    out = on("describe", "offset-checker-negative-ck101").out
    assert "etl-photos: 0 members, 4 partitions, lag 0" in out
    assert "nobody reads" in out
    assert "Committed beyond the log's end" in out
    without_ends = "TOPIC,PARTITION,MEMBER,OFFSET,LAG\nt,0,a,10,-5\n"
    assert "! LAG is negative" in run_here("describe", "-", stdin=without_ends.encode()).out


def test_members_that_a_text_counts_are_counted_in_the_list() -> None:
    out = on("describe", "state-two").out
    assert [line.split()[4] for line in out.splitlines()[1:3]] == ["3", "5"]


def test_what_is_not_known_of_a_text_without_owners_is_named() -> None:
    assert "! The lag of t(1) is not known." in on("describe", "no-owner-unknown").out


def test_a_fault_of_the_input_does_not_hide_that_the_strategy_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Not a group\n")
    done = run_here("plan", str(tmp_path / "README.md"), "-A", "stiky")
    assert done.code == 2
    file, strategy = done.err.splitlines()
    assert "README.md: found '# Not a group" in file
    assert "no assignor is named 'stiky'" in strategy
    assert "Maybe you meant 'sticky'" in strategy
    group = run_here("plan", str(tmp_path / "README.md"), "-A", "sticky")
    assert len(group.err.splitlines()) == 1
