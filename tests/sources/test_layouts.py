"""Tables of consumer groups as people copy them into mails, tickets and chats, of Kafka's tools and of others'.

The texts in ``cases/`` were posted in public, or are close variants of such; names are replaced.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.sighted import raw

from apportion.errors import BadInput
from apportion.sighting.sighting import Sighting
from apportion.sources.sniff import groups_in

CASES = Path(__file__).parent / "cases"
PLAIN = (CASES / "ansi-bold-header.txt").read_text().replace("\x1b[1m", "").replace("\x1b[0m", "")
"""Two members, three partitions, one never committed, 40 messages unread."""
ROWS = PLAIN.splitlines()


def read(text: str) -> list[Sighting]:
    return groups_in(text.encode(), "text")


def case(name: str, whole: bool = True) -> list[Sighting]:
    [path] = CASES.glob(f"{name}.*")
    return groups_in(path.read_bytes(), name, whole)


def sizes(group: Sighting) -> tuple[str, int, int, int]:
    """The group's name, members, partitions, and unread messages as far as they are known."""
    entries = [entry for topic in raw(group)["topics"].values() for entry in topic]
    lags = [
        entry["lag"] if "lag" in entry else max(entry["end"] - entry["committed"], 0)
        for entry in entries
        if "lag" in entry or {"end", "committed"} <= entry.keys()
    ]
    return group.name, len(raw(group)["members"]), len(entries), sum(lags)


READ = {
    "all-dash-with-ends": [("g", 2, 8, 0)],
    "ansi-bold-header": [("orders-app", 2, 3, 40)],
    "dots-between-rows": [("orders-app", 2, 4, 950_090)],
    "header-cut-140": [("orders-app", 2, 3, 40)],
    "kn2": [("test-group", 2, 3, 0)],
    "lag-is-local-knative2240": [("kafka-src50c", 1, 3, 194)],
    "markdown-table-keda5906": [("group-a", 1, 2, 5)],
    "owner-columns-cut-awk": [("orders-app", 0, 3, 40)],
    "rebalancing-sentence-cfkpy208": [("GROUP_A", 3, 4, 35_000)],
    "rhel-prompt-first": [("orders-app", 2, 3, 40)],
    "rows-without-header": [("orders-app", 2, 3, 40)],
    "rpk-group-describe-26865": [("panda3", 1, 1, 0)],
    "stderr-line-inside-table": [("orders-app", 2, 3, 950_060)],
    "two-groups-without-group-column": [("billing", 1, 2, 20), ("shipping", 1, 2, 3980)],
    "bound": [("g", 2, 4, 13_000)],
    "burrow-v3-lag": [("my-Consumer", 1, 2, 1_797_618)],
    "cat-n": [("billing", 2, 3, 4_024)],
    "confluent-lag-list": [("consumer-group-1", 2, 2, 110)],
    "csv-NULL": [("billing", 2, 2, 12)],
    "kafkactl": [("billing", 2, 2, 4_012)],
    "kafkactl-michelin360": [("my-group", 0, 3, 70)],
    "kcl-json": [("billing", 2, 2, 4_012)],
    "kcl-never-committed": [("billing", 1, 2, 5_000)],
    "kt": [("specials", 0, 3, 12)],
    "loop-equals": [("billing", 1, 1, 4_000), ("shipping", 0, 1, 10), ("gone", 0, 0, 0)],
    "no-owner-unknown": [("g", 0, 2, 120)],
    "offset-checker-negative-ck101": [("etl-photos", 0, 4, 0)],
    "plain-unknown": [("billing", 2, 2, 12)],
    "rpk-cluster-offsets-2021": [("grou33", 0, 2, 4), ("grou333", 1, 2, 4), ("group0", 0, 2, 4)],
    "spark-show-20": [("billing", 2, 2, 12)],
    "state-two": [("billing", 0, 0, 0), ("shipping", 0, 0, 0)],
    "streams-groups-offsets": [("my-streams-app", 0, 2, 120)],
    "streams-groups-offsets-verbose": [("my-streams-app", 0, 2, 170)],
}
REFUSED = {
    "akhq-comma": r"line 3, CURRENT-OFFSET: found '9,100'",
    "akhq-german-thousands": r"line 2, LAG: found '4.000'",
    "akhq-thousands": r"line 2, LAG: found '4,000'",
    "box-K": r"line 5, CURRENT-OFFSET: found '9.1K'",
    "kop": r"line 3: .*needed 9 columns: GROUP TOPIC PARTITION CURRENT-OFFSET",
    "lines-lost": r"line 2 holds a header and its rows in one line",
    "md-humanised": r"line 3, CURRENT-OFFSET: found '1.2M'",
    "other-tools-json": r"JSON of another tool, with error, message",
    "streams-groups-members": r"line 1 begins a table of a streams group's tasks, which are not read",
}


@pytest.mark.parametrize("name", READ)
def test_a_text_that_was_posted_gives_its_groups(name: str) -> None:
    assert [sizes(group) for group in case(name)] == READ[name]


def test_every_text_that_was_posted_is_tried() -> None:
    assert {path.stem for path in CASES.iterdir()} == READ.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_its_line_and_column(name: str) -> None:
    with pytest.raises(BadInput, match=f"^{name}[,:].*{REFUSED[name]}"):
        case(name)


def test_members_that_a_state_counts_are_counted() -> None:
    assert [group.counted_members for group in case("state-two")] == [3, 5]


def test_a_group_that_does_not_exist_is_named() -> None:
    gone = case("loop-equals")[2]
    assert (gone.name, gone.state, list(gone.notes)) == (
        "gone", "Dead", ["The text says that this group does not exist."],
    )  # fmt: skip


def test_json_is_read_as_the_table_of_the_same_tool() -> None:
    table = (
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
        "billing orders 0 100 4100 4000 kgo-1 /10.1.0.4 kgo\n"
        "billing orders 1 88 100 12 kgo-1 /10.1.0.4 kgo\n"
        "billing - - - - - kgo-2 /10.1.0.5 kgo\n"
    )
    [group], [as_table] = case("kcl-json"), read(table)
    assert raw(group) == raw(as_table)
    assert (group.state, group.assignor) == ("Stable", "range")


def test_a_figure_in_json_that_is_no_number_is_named_with_its_entry() -> None:
    content = (CASES / "kafkactl.json").read_text().replace("4000}", '"4K"}')
    with pytest.raises(BadInput, match=r"^text, entry 1, LAG: found '4K'"):
        read(content)


# -- variants: what goes around the same table, or is done to it, changes nothing


def same_as_plain(text: str) -> None:
    [plain], [group] = read(PLAIN), read(text)
    assert raw(group) == raw(plain)
    assert list(group.gaps) == list(plain.gaps) == []


VARIANTS = {
    "quoted in a mail": "\n".join("> " + line for line in ROWS),
    "quoted twice": "\n".join(">> " + line for line in ROWS),
    "quoted without a blank": "\n".join(">" + line for line in ROWS),
    "behind docker compose's service": "\n".join("kafka-1  | " + line for line in ROWS),
    "behind kubectl's time": "\n".join(f"2026-01-01T10:00:0{i}.123Z {line}" for i, line in enumerate(ROWS)),
    "behind a comment sign": "\n".join("# " + line for line in ROWS),
    "indented as markdown's code": "Here it is:\n\n" + "\n".join("    " + line for line in ROWS),
    "between fences": "```\n" + PLAIN + "```\n",
    "in colours": "\n".join(f"\x1b[32m{line}\x1b[0m\x1b[K" for line in ROWS),
    "in colours that lost their escape": "[1m" + ROWS[0] + "[0m\n" + "\n".join(ROWS[1:]),
    "with hard blanks": PLAIN.replace(" ", "\xa0"),
    "with blanks squeezed": re.sub(" +", " ", PLAIN),
    "with tabs": re.sub(" +", "\t", PLAIN),
    "as markdown": "\n".join("| " + " | ".join(line.split()) + " |" for line in ROWS),
    "as markdown without outer bars": "\n".join(" | ".join(line.split()) for line in ROWS),
    "as markdown with a rule": "\n".join(
        ["|" + "|".join(ROWS[0].split()) + "|", "|" + ":---|" * 9, *("|" + "|".join(r.split()) + "|" for r in ROWS[1:])]
    ),
    "in a box": "\n".join(
        ["┌────┬────┐", "│ " + " │ ".join(ROWS[0].split()) + " │", "├────┼────┤"]
        + ["│ " + " │ ".join(line.split()) + " │" for line in ROWS[1:]]
        + ["└────┴────┘"]
    ),
    "as CSV": "\n".join(",".join(line.split()) for line in ROWS),
    "with blank lines between rows": "\n\n".join(ROWS),
    "with stderr between rows": f"\n{'SLF4J: Defaulting to no-operation logger.'}\n".join(ROWS),
    "with a log4j date first": "[2026-01-01 10:00:00,123] WARN nothing (kafka.admin)\n" + PLAIN,
    "with a log that is JSON first": '{"level": "WARN", "message": "nothing"}\n' + PLAIN,
    "with a stack trace below": PLAIN + "java.lang.Exception: x\n\tat kafka.A.b(A.scala:1)\n",
    "with its header twice": PLAIN + "\n" + PLAIN,
    "wrapped at 100 places": "\n".join(part for line in ROWS for part in (line[:100], line[100:])),
    "wrapped at 150 places": "\n".join(part for line in ROWS for part in (line[:150], line[150:]) if part),
    "wrapped by a mail's width": "\n".join(
        " ".join(words) for line in ROWS for words in (line.split()[:6], line.split()[6:])
    ),
    "rows alone are wrapped": ROWS[0] + "\n" + "\n".join(line[:130] + "\n" + line[130:] for line in ROWS[1:]),
    "the header alone is gone": "\n".join(ROWS[1:]),
    "the header is gone and blanks are squeezed": re.sub(" +", " ", "\n".join(ROWS[1:])),
    "with a column that is known to nobody": "\n".join(
        line + "  " + more for line, more in zip(ROWS, ("NOTES", "a", "b", "c"), strict=True)
    ),
    "with an epoch": "\n".join(
        " ".join([*line.split()[:3], more, *line.split()[3:]])
        for line, more in zip(ROWS, ("LEADER-EPOCH", "0", "-", "2"), strict=True)
    ),
    "with names in small letters": ROWS[0].lower() + "\n" + "\n".join(ROWS[1:]),
    "with a row above its header, as sort leaves it": "\n".join([ROWS[1], ROWS[0], *ROWS[2:]]),
    "with its header below": "\n".join([*ROWS[1:], ROWS[0]]),
    "with tabs in the header alone": "\n".join([re.sub(" +", "\t", ROWS[0]), *ROWS[1:]]),
    "as Jira's table": "\n".join(
        ["||" + "||".join(ROWS[0].split()) + "||", *("|" + "|".join(line.split()) + "|" for line in ROWS[1:])]
    ),
    "as CSV with marks of quotation": "\n".join(",".join(f'"{word}"' for word in line.split()) for line in ROWS),
    "with columns in another order": "\n".join(" ".join([*line.split()[6:], *line.split()[:6]]) for line in ROWS),
}  # fmt: skip


@pytest.mark.parametrize("title", VARIANTS)
def test_what_is_done_to_a_table_on_its_way_changes_nothing(title: str) -> None:
    same_as_plain(VARIANTS[title])


@pytest.mark.parametrize("width", [92, 100, 120, 137, 139, 140, 145, 158])
def test_a_header_that_a_terminal_cut_is_read_as_far_as_it_goes(width: int) -> None:
    """Without whole ids of members nobody is told to read; the column that is cut is named."""
    [group] = read("\n".join(line[:width] for line in ROWS))
    name, members, *rest = sizes(group)
    assert (name, rest) == ("orders-app", [3, 40])
    whole = ROWS[0].index("CONSUMER-ID") + len("CONSUMER-ID")
    if width < whole:
        assert members == 0
        assert not group.owners_told
        assert "CONSUMER-ID" in group.notes[0]
    elif ROWS[0][:width].split()[-1] in ("H", "HOS", "CLIENT"):
        assert members == 2
        assert re.search("column (HOST|CLIENT-ID)", group.notes[0])


def test_a_header_cut_in_a_column_that_it_needs_is_refused_by_that_column() -> None:
    with pytest.raises(BadInput, match=r"line 1 is cut in PARTITION"):
        read("\n".join(line[:37] for line in ROWS))


def test_a_table_without_a_needed_column_is_refused_by_it_and_not_by_its_own_header() -> None:
    with pytest.raises(BadInput) as refused:
        read("GROUP TOPIC LOG-END-OFFSET\norders-app orders 5150\n")
    assert "the table of line 1 has no column" in refused.value.found
    assert "PARTITION" in refused.value.found


def test_a_header_without_rows_is_refused_as_such() -> None:
    with pytest.raises(BadInput, match="found a header, and no row below it"):
        read(ROWS[0] + "\n")


@pytest.mark.parametrize("width", range(21, 164))
def test_a_table_that_a_terminal_folded_is_unfolded(width: int) -> None:
    """At any width, in the midst of numbers too: a row is never read from a part of it."""
    same_as_plain("\n".join(line[at : at + width] for line in ROWS for at in range(0, len(line), width)))


def test_parts_that_lost_their_blanks_are_joined_where_the_lag_adds_up() -> None:
    """Else ``... 10 1`` and ``0 5 consumer`` are a row too, with an end of 1 and no lag."""
    rows = [ROWS[0], ROWS[1].replace("5120 ", "5    ").replace("5150 ", "10   ").replace("30 ", "5  ")]
    [group] = read("\n".join(line[at : at + 60].rstrip() for line in rows for at in range(0, len(line), 60)))
    assert sizes(group) == ("orders-app", 1, 1, 5)


# -- what is missing is named


def test_a_tool_that_failed_below_its_table_is_named() -> None:
    [group] = read(PLAIN + "\nError: Executing consumer group command failed due to java.util.TimeoutException\n")
    assert list(group.gaps) == ["line 6 says that the tool failed"]


@pytest.mark.parametrize(
    "line",
    [
        "...",
        "…",
        "[...]",
        "<snip>",
        "(truncated)",
        "--More--",
        "... 27 more rows ...",
        "and 12 more partitions",
        ". . .",
        "***",
        "etc.",
        "etc etc (32 in total)",
        "(and so on for the rest)",
        "[... 12 lines removed ...]",
        "output omitted",
    ],
)
def test_a_line_that_says_rows_are_missing_is_named(line: str) -> None:
    [group] = read("\n".join([*ROWS[:2], line, *ROWS[2:]]))
    assert sizes(group) == ("orders-app", 2, 3, 40)
    [sentence] = group.gaps
    assert sentence.startswith("line 3 (")
    assert sentence.endswith("says that rows are missing")


def test_a_line_that_looks_like_a_row_and_was_not_read_is_named() -> None:
    [group] = read("\n".join([*ROWS, "", "otherwise orders parts 12 40 44 4 6"]))
    assert list(group.gaps) == ["line 6 looks like a row and was not read: 'otherwise orders parts 12 40 44 4 6'"]


def test_a_row_above_a_header_without_group_may_be_anothers_and_is_named() -> None:
    [group] = read("\n".join([LOOSE.splitlines()[1], *LOOSE.splitlines()]))
    assert [reason.partition(":")[0] for reason in group.gaps] == ["line 1 looks like a row and was not read"]


def test_two_rows_that_each_lack_a_word_are_not_joined_to_one() -> None:
    short = [" ".join(line.split()[:-1]) for line in ROWS[1:]]
    with pytest.raises(BadInput, match=r"line 2: .*needed 9 columns"):
        read("\n".join([" ".join(ROWS[0].split()), *short]))


def test_ids_that_no_row_has_are_named() -> None:
    [group] = case("lag-is-local-knative2240")
    assert "No row has topic50c(0-26,28-32,34-37): rows may have been left out." in group.notes


def test_a_lag_that_is_not_the_offsets_difference_is_named() -> None:
    [group] = read(PLAIN.replace(" 30 ", " 99 "))
    assert "LAG is 99 at orders-0, but the offsets give 30: the offsets count." in group.notes


def test_a_second_table_that_is_not_read_is_named() -> None:
    [group] = read(PLAIN + "\nTOPIC   LAG\norders  40\n")
    assert list(group.gaps) == ["the table of line 6 has no column PARTITION"]


@pytest.mark.parametrize("places", range(1, 150, 7))
def test_a_last_row_cut_anywhere_before_its_last_column_is_an_error(places: int) -> None:
    with pytest.raises(BadInput, match="line 4"):
        read("\n".join([*ROWS[:3], ROWS[3][:places]]))


# -- which group a table is of

LOOSE = "\n".join(" ".join(line.split()[1:]) for line in ROWS)
"""The same table without its GROUP column."""


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ("$ kafka-consumer-groups.sh --describe --group {} --bootstrap-server b:9092", "a"),
        ("root@x:~# bin/kafka-consumer-groups.sh --bootstrap-server b:9092 --group={} --describe", "a"),
        ("kafka-consumer-groups --bootstrap-server b:9092 \\\n  --describe --group '{} b'", "a b"),
        ("Consumer group '{}' has no active members.", "a"),
        ("Warning: Consumer group '{} it' is rebalancing.", "a it"),
    ],
)
def test_a_table_without_group_is_named_by_what_stands_before(before: str, named: str) -> None:
    first, second = read(f"{before.format('a')}\n\n{LOOSE}\n{before.format('z')}\n\n{LOOSE}\n")
    assert (first.name, second.name) == (named, named.replace("a", "z", 1))
    assert sizes(first)[1:] == sizes(second)[1:]


def test_two_tables_without_group_and_name_are_refused() -> None:
    with pytest.raises(BadInput, match="two tables without a GROUP column, and nothing before the second"):
        read(LOOSE + "\n\n" + LOOSE)


def test_members_and_offsets_without_group_are_of_one_group() -> None:
    members = "CONSUMER-ID HOST CLIENT-ID #PARTITIONS\nconsumer-9 /10.0.0.9 c 0\n"
    [group] = read(f"$ x --describe --group a\n{LOOSE}\n\n{members}")
    assert sizes(group) == ("a", 3, 3, 40)


def test_the_state_that_a_sentence_tells_is_the_groups() -> None:
    [moving], [empty] = (
        read(f"Consumer group 'g' is rebalancing.\n{LOOSE}"),
        read("Consumer group 'g' has no active members.\n"),
    )
    assert (moving.state, empty.state) == ("rebalancing", "Empty")


# -- owners


def test_the_same_partition_held_by_two_is_one_group_from_both_layouts() -> None:
    twice = ROWS[1].replace("consumer-1", "consumer-7").replace("10.0.0.7", "10.0.0.70")
    [by_offsets] = read("\n".join([ROWS[0], ROWS[1], twice]))
    assert [fields["owned"] for fields in raw(by_offsets)["members"].values()] == [{"orders": [0]}] * 2
    [by_members] = case("kn2")
    assert [fields["owned"] for fields in raw(by_members)["members"].values()] == [{"test-topic": [0, 1, 2]}] * 2


def test_one_id_on_two_hosts_is_two_members_whose_ids_are_cut() -> None:
    short = [line.replace(line.split()[6], "consumer-"[: len("consumer-")]) for line in ROWS[1:]]
    [group] = read("\n".join([re.sub(" +", " ", line) for line in [ROWS[0], *short]]))
    assert sizes(group)[1] == 2
    assert [s for s in group.notes if "ids are cut" in s]


def test_members_without_verbose_count_partitions_and_name_none() -> None:
    [group] = read("GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS\ng m1 /10.0.0.1 c 3\ng m2 /10.0.0.2 c 0\n")
    assert (len(raw(group)["members"]), group.unnamed_partitions) == (2, 3)


def test_names_with_blanks_are_read_where_columns_are_squeezed() -> None:
    """What a column holds tells where it ends: a topic has no blank, a host begins with a slash."""
    [group] = read(
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
        "ads join clicks 0 10 16 6 my client-1 /10.0.0.7 my client\n"
        "ads join clicks 1 - 16 - - - -\n"
    )
    assert sizes(group) == ("ads join", 1, 2, 6)
    assert raw(group)["members"]["my client-1"]["client_id"] == "my client"


# -- other tools

RPK = """\
GROUP                  {name}
COORDINATOR-NODE       1
COORDINATOR-PARTITION  __consumer_offsets/3
STATE                  {state}
BALANCER               {balancer}
MEMBERS                {members}
TOTAL-LAG              {lag}
"""
RPK_ROWS = """
TOPIC  PARTITION  CURRENT-OFFSET  LOG-START-OFFSET  LOG-END-OFFSET  LAG  MEMBER-ID  INSTANCE-ID  CLIENT-ID  HOST
foo    0          7               2                 10              3    rpk-f4e9   pod-0        rpk        127.0.0.1
foo    1          -               0                 5               5    rpk-f4e9   pod-0        rpk        127.0.0.1
foo    2          1               0                 4               3                                       
"""  # noqa: W291


def test_rpk_tells_of_several_groups_and_of_empty_ones() -> None:
    text = "\n".join(
        [
            RPK.format(name="b", state="Stable", balancer="range", members=1, lag=11) + RPK_ROWS,
            RPK.format(name="empty", state="Empty", balancer="", members=0, lag=0),
            RPK.format(name="a", state="Stable", balancer="sticky", members=1, lag=11) + RPK_ROWS,
        ]
    )
    groups = read(text)
    assert [sizes(group) for group in groups] == [("b", 1, 3, 11), ("empty", 0, 0, 0), ("a", 1, 3, 11)]
    first, empty, _ = groups
    assert (first.state, first.assignor, first.coordinator) == ("Stable", "range", "(1)")
    assert (empty.state, empty.assignor, empty.owners_told) == ("Empty", None, True)
    assert raw(first)["topics"]["foo"][0] == {"partition": 0, "begin": 2, "end": 10, "committed": 7}
    assert raw(first)["members"]["rpk-f4e9"]["instance_id"] == "pod-0"
    assert raw(first)["members"]["rpk-f4e9"]["owned"] == {"foo": [0, 1]}


def test_rpk_with_trailing_blanks_gone_tells_the_same() -> None:
    text = RPK.format(name="b", state="Stable", balancer="range", members=1, lag=11) + RPK_ROWS
    [whole], [stripped] = read(text), read("\n".join(line.rstrip() for line in text.splitlines()))
    assert raw(whole) == raw(stripped)


KAF = """\
Group ID:       my group
State:          Stable
Protocol:       range
Protocol Type:  consumer
Offsets:
  orders:
    Partition  Group Offset  High Watermark  Lag  Metadata
    ---------  ------------  --------------  ---  --------
    0          10            12              2    
    1          -1            7               8    
    Total      9                             10   
Members:
  worker:
    Host:  /10.0.0.7
    Assignments:
      Topic   Partitions
      -----   ----------
      orders  [0 1]
    Metadata:
      UserData: nothing
"""  # noqa: W291


def test_a_total_that_the_rows_do_not_make_is_named() -> None:
    [group] = read(RPK.format(name="b", state="Stable", balancer="range", members=1, lag=40) + RPK_ROWS)
    assert list(group.gaps) == ["the rows of 'b' have a lag of 11 in all, and its TOTAL-LAG is 40"]


def test_kaf_tells_a_group_by_its_indents() -> None:
    [group] = read(KAF)
    assert (group.name, group.state, group.assignor) == ("my group", "Stable", "range")
    assert raw(group)["topics"] == {
        "orders": [{"partition": 0, "committed": 10, "end": 12}, {"partition": 1, "end": 7, "lag": 8}]
    }
    assert raw(group)["members"]["worker"]["owned"] == {"orders": [0, 1]}
    assert not group.gaps


def test_kaf_that_has_lost_its_indents_tells_the_same() -> None:
    [whole], [stripped] = read(KAF), read("\n".join(line.strip() for line in KAF.splitlines()))
    assert (raw(stripped), stripped.gaps) == (raw(whole), whole.gaps)


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("12              2 ", "12\n#", "line 9"),
        ("  orders:\n", "", "line 8"),
        ("orders  [0 1]", "orders  [0 1", "line 18"),
        ("    0          10  ", "    orders  0   10  ", "line 9"),
    ],
)
def test_a_row_of_kafs_that_was_not_read_is_named(before: str, after: str, place: str) -> None:
    assert before in KAF
    [group] = read(KAF.replace(before, after))
    assert group.gaps[0].startswith(f"{place} looks like a row and was not read: ")


def test_another_tools_table_below_kafs_is_named() -> None:
    [group] = read(KAF + "\n" + PLAIN)
    assert group.gaps[0].endswith("begins another tool's table below what kaf printed")


KAFKACTL = """\
$ kafkactl describe consumer-group my-group
TOPIC     PARTITION     NEWEST_OFFSET     OLDEST_OFFSET     CONSUMER_OFFSET     LEAD     LAG
orders    0             12                1                 10                  9        2
orders    1             7                 0                 7                   7        0

CLIENT_HOST     CLIENT_ID     TOPIC      ASSIGNED_PARTITIONS
/10.0.0.7       worker        orders     0
/10.0.0.8       worker        orders     1
"""


def test_kafkactl_tells_offsets_and_who_holds_what() -> None:
    [group] = read(KAFKACTL)
    assert sizes(group) == ("my-group", 2, 2, 2)
    assert raw(group)["topics"]["orders"][0] == {"partition": 0, "begin": 1, "committed": 10, "end": 12}
    assert [fields["owned"] for fields in raw(group)["members"].values()] == [{"orders": [0]}, {"orders": [1]}]


def test_one_client_id_on_two_hosts_is_named_evenly() -> None:
    [group] = read(KAFKACTL)
    assert list(raw(group)["members"]) == ["worker@/10.0.0.7", "worker@/10.0.0.8"]


CONFLUENT = """\
  Cluster | Consumer Group | Lag | Log End Offset | Current Offset | Consumer | Instance | Client | Topic | Partition
----------+----------------+-----+----------------+----------------+----------+----------+--------+-------+------------
  lkc-1   | g              |   5 |             10 |              5 | c1-aa    |          | c1     | t     |         0
  lkc-1   | g              |   7 |             17 |             10 | c1-aa    |          | c1     | t     |         1
"""
AKHQ = "Topic\tPartition\tMember\tOffset\tLag\norders\t0\tconsumer-1\t5120\t30\norders\t1\tconsumer-1\t4800\t10\n"


def test_other_tools_names_of_columns_are_known() -> None:
    [confluent], [akhq] = read(CONFLUENT), read(AKHQ)
    assert (sizes(confluent), raw(confluent)["members"]["c1-aa"]["owned"]) == (("g", 1, 2, 12), {"t": [0, 1]})
    assert (sizes(akhq), raw(akhq)["members"]["consumer-1"]["owned"]) == (("", 1, 2, 40), {"orders": [0, 1]})


# -- NDJSON, and what only begins like JSON


def test_groups_one_a_line_are_read_and_a_bad_line_is_named() -> None:
    line = '{"group": "%s", "topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}'
    groups = read("\n".join([line % "one", "", line % "two"]))
    assert [group.name for group in groups] == ["one", "two"]
    with pytest.raises(BadInput, match=r"^text, line 2: topics"):
        read("\n".join([line % "one", (line % "two").replace("2", "-2")]))


@pytest.mark.parametrize("text", ["{", "[1, 2", '{"group": "g",\n"topics"}', "{group: 1}"])
def test_text_that_begins_as_json_does_is_refused_as_json(text: str) -> None:
    with pytest.raises(BadInput, match=r"needed JSON\.$"):
        read(text)


@pytest.mark.parametrize("text", ["[root@kafka-0 bin]# ls\n", "[2026-01-01 10:00:00,1] INFO nothing\n"])
def test_a_prompt_or_a_date_alone_is_refused_as_text_of_no_group(text: str) -> None:
    with pytest.raises(BadInput, match=r"or what kafka-consumer-groups --describe printed\.$"):
        read(text)


def test_a_group_that_does_not_exist_is_refused_in_the_tools_own_words() -> None:
    with pytest.raises(BadInput, match=r"no group, but .Error: Consumer group 'x' does not exist"):
        read("Error: Consumer group 'x' does not exist.\n")


# -- rubbish


@pytest.mark.timeout(60)
def test_hostile_lines_take_no_time() -> None:
    names = ROWS[0] + "\n"
    for text in (
        "a " * 200_000, "- " * 100_000, "1 " * 100_000, "|" * 200_000, ">" * 200_000, "Consumer group '" * 20_000,
        "[1" * 100_000, "\x1b" * 100_000, "--group " * 50_000, "GROUP " * 50_000, "GROUP TOPIC " * 50_000,
    ):  # fmt: skip
        for around in (text, names + text, names + text + "\n" + "\n".join(ROWS[1:])):
            try:
                read(around)
            except BadInput:
                continue


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_runs_of_ids_cannot_fill_the_memory() -> None:
    head = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\n"
    with pytest.raises(BadInput, match="an assignment as in"):
        read(head + "g m /h c 1 t(0-4000000000)\n")
    many = ", ".join(f"t{i}(0-99999)" for i in range(60))
    with pytest.raises(BadInput, match="more than 5,000,000 partitions in assignments"):
        read(head + f"g m /h c 1 {many}\n")


def test_cut_and_shuffled_texts_give_a_group_or_a_sentence() -> None:
    """Never a traceback, whatever is cut where."""
    every: list[Any] = []
    for path in CASES.iterdir():
        content = path.read_bytes()
        for cut in range(0, len(content), 37):
            for part in (content[:cut], content[cut:], content[:cut] + content[cut + 11 :]):
                try:
                    every += groups_in(part, "text")
                except BadInput:
                    continue
    assert every


def test_lines_of_a_log_in_json_before_a_table_do_not_make_it_json() -> None:
    lines = b'{"level": "INFO", "msg": "a"}\n{"level": "INFO", "msg": "b"}\n'
    table = b"GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG\nads  t  0  1  5  4\n"
    [group] = groups_in(lines + table, "text")
    assert raw(group)["group"] == "ads"


def test_the_header_of_before_kafka_0_9_is_read_by_its_own_names() -> None:
    text = """Group   Topic   Pid Offset  logSize  Lag  Owner
billing orders  0   120     160      40   c-1
billing orders  1   300     300      0    c-2
"""
    [group] = groups_in(text.encode(), "text")
    assert raw(group)["group"] == "billing"
    assert {name: fields["owned"] for name, fields in raw(group)["members"].items()} == {
        "c-1": {"orders": [0]},
        "c-2": {"orders": [1]},
    }


def test_a_text_without_a_header_is_refused_by_what_it_lacks_and_not_by_its_own_words() -> None:
    with pytest.raises(BadInput, match="no line names TOPIC and PARTITION") as refused:
        groups_in(b"Name  Where  Size\na  b  3\nc  d  4\n", "text")
    assert "Where" not in str(refused.value)
