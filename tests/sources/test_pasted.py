"""Text that kafka-consumer-groups printed, from 0.9 to 4.3, becomes the group that it tells of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.sighted import raw

from apportion.demo import dump as recorded
from apportion.errors import BadInput
from apportion.sighting.sighting import Sighting
from apportion.sources.pasted import groups_in, looks_pasted, subscriptions

HERE = Path(__file__).parent / "pasted"
"""What ConsumerGroupCommand of Kafka 4.3 printed of one cluster: --all-groups with each view."""
POD = "pod-0-7928b417-6ce2-474c-95eb-17edd2065fc9"
OTHER = "other-173a5046-b653-416b-a71c-6be90139b6ba"


def read(text: str) -> dict[str, Sighting]:
    return {group.name: group for group in groups_in(text.encode())}


def printed(*views: str) -> dict[str, Sighting]:
    return read("".join((HERE / f"{view}.txt").read_text() for view in views))


def owned(group: Sighting) -> dict[str, Any]:
    return {member: fields.get("owned", {}) for member, fields in raw(group)["members"].items()}


def test_offsets_tell_partitions_owners_and_lag() -> None:
    group = printed("offsets")["ads join é"]
    assert raw(group)["topics"]["clicks"] == [
        {"partition": 0, "committed": 10, "end": 16},
        {"partition": 1, "committed": 10, "end": 16},
        {"partition": 2, "committed": 10, "end": 15},
    ]
    assert owned(group) == {POD: {"clicks": [0, 1], "orders": [0]}, OTHER: {"clicks": [2], "orders": [1]}}
    assert {fields["generation"] for fields in raw(group)["members"].values()} == {0}
    assert raw(group)["members"][POD]["client_id"] == "my client"
    assert group.group.lag.tolist() == [6, 6, 5, 0, 0]


def test_verbose_offsets_tell_the_same() -> None:
    plain, verbose = printed("offsets"), printed("verbose")
    assert {name: raw(group) for name, group in plain.items()} == {name: raw(group) for name, group in verbose.items()}


def test_all_views_together_tell_the_group_whole() -> None:
    groups = printed("offsets", "members-verbose", "state-verbose")
    assert list(groups) == ["ads join é", "gone", "new", "views"]
    assert raw(groups["ads join é"])["members"][POD]["instance_id"] == "pod-0"
    assert (groups["new"].state, groups["new"].assignor, groups["new"].protocol) == ("Stable", "uniform", "consumer")
    assert (groups["gone"].state, raw(groups["gone"])["members"]) == ("Empty", {})
    assert len(raw(groups["views"])["members"]) == 2, "the idle member stands in --members alone"


def test_members_without_verbose_count_partitions_and_name_none() -> None:
    """Such a group is not one without partitions, and nothing of it can be planned."""
    group = printed("members")["ads join é"]
    assert group.unnamed_partitions == 5
    assert list(group.notes) == ["The listing does not show 5 owned partitions: add the output of --members --verbose."]
    assert printed("offsets", "members")["ads join é"].unnamed_partitions == 0


def test_guessed_subscriptions_are_told_where_members_hold_different_topics() -> None:
    text = (HERE / "offsets.txt").read_text()
    line = next(line for line in text.splitlines() if "orders" in line and OTHER in line)
    fewer = read(text.replace(line + "\n", ""))["ads join é"]
    assert raw(fewer)["members"][OTHER]["topics"] == ["clicks"]
    assert (
        list(fewer.notes)
        == [fewer.assumed]
        == ["The text has no subscriptions: each member counts as subscribed to the topics whose partitions it holds."]
    )
    assert not printed("offsets")["ads join é"].assumed


def test_the_order_of_the_views_does_not_matter() -> None:
    one, two = printed("state", "offsets", "members-verbose"), printed("members-verbose", "state", "offsets")
    for name, group in one.items():
        assert (raw(group)["topics"], owned(group)) == (raw(two[name])["topics"], owned(two[name]))


def test_a_dash_is_unknown() -> None:
    entries = {entry["partition"]: entry for entry in raw(printed("offsets")["new"])["topics"]["clicks"]}
    assert entries[1] == {"partition": 1, "end": 16}


def test_the_recorded_cluster_is_the_same_by_kafkas_words_and_by_its_records() -> None:
    from apportion.sources.load_history import groups_of, load_histories

    truth = recorded() / "truth"
    text = b"\n".join((truth / name).read_bytes() for name in ("offsets.txt", "members.txt", "state.txt"))
    by_tool = {group.name: group for group in groups_in(text)}
    remembered = groups_of(load_histories(recorded()), recorded())
    by_records = {group.name: group for group in remembered if group.name in by_tool}
    assert len(by_records) >= 15
    for name, there in by_records.items():
        here = by_tool[name]
        assert {m: o for m, o in owned(here).items() if o} == {m: o for m, o in owned(there).items() if o}, name
        assert (here.state, here.assignor) == (there.state, there.assignor), name
        for topic, entries in raw(here)["topics"].items():
            known = {e["partition"]: e for e in raw(there)["topics"][topic]}
            for entry in entries:
                both = [{key: e.get(key) for key in ("committed", "end")} for e in (entry, known[entry["partition"]])]
                assert both[0] == both[1], (name, topic, entry)


# -- older layouts: KIP-175 (1.0 to 2.1, no GROUP), 0.10 (OWNER), 0.9 (commas), 3.7 (no topics in assignments)

KIP_175 = """\
Consumer group 'my-group' has no active members.

TOPIC            PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG    CONSUMER-ID     HOST            CLIENT-ID
my-topic         0          16577           33154           16577  consumer1-81fe  /127.0.0.1      consumer1
my-topic         1          16578           33155           16577  consumer1-81fe  /127.0.0.1      consumer1
my-topic         2          16577           33155           16578  consumer2-db6f  /127.0.0.1      consumer2
-                -          -               -               -      consumer8-6078  /127.0.0.1      consumer8
my-other-topic   1          7901            8652            751    -               -               -
"""


def test_the_layout_without_group_of_1_0_to_2_1() -> None:
    [group] = read(KIP_175).values()
    assert group.name == "my-group"
    assert owned(group)["consumer1-81fe"] == {"my-topic": [0, 1]}
    assert raw(group)["members"]["consumer8-6078"] == {
        "client_id": "consumer8", "host": "/127.0.0.1", "topics": ["my-other-topic", "my-topic"],
    }  # fmt: skip
    assert raw(group)["topics"]["my-other-topic"] == [{"partition": 1, "committed": 7901, "end": 8652}]


def test_the_layout_with_owner_of_0_10() -> None:
    text = (
        "GROUP                          TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             OWNER\n"  # noqa: E501
        "my-group                       my-topic                       0          1               2               1               consumer-1_/10.0.0.7\n"  # noqa: E501
        "my-group                       my-topic                       1          unknown         2               unknown         none\n"  # noqa: E501
    )
    group = read(text)["my-group"]
    assert owned(group) == {"consumer-1_/10.0.0.7": {"my-topic": [0]}}
    assert raw(group)["members"]["consumer-1_/10.0.0.7"]["client_id"] == "consumer-1"
    assert raw(group)["members"]["consumer-1_/10.0.0.7"]["host"] == "/10.0.0.7"
    assert raw(group)["topics"]["my-topic"][1] == {"partition": 1, "end": 2}


def test_the_layout_with_commas_of_0_9() -> None:
    text = (
        "GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER\n"
        "my-group, my-topic, 0, 1, 3, 2, consumer-1_/10.0.0.7\n"
    )
    group = read(text)["my-group"]
    assert raw(group)["topics"] == {"my-topic": [{"partition": 0, "committed": 1, "end": 3}]}
    assert owned(group) == {"consumer-1_/10.0.0.7": {"my-topic": [0]}}


MEMBERS = """\
GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT
g               m1              /10.0.0.1       c1              3               {first}
g               m2              /10.0.0.2       c2              0               -
"""


def test_assignments_as_until_3_9() -> None:
    group = read(MEMBERS.format(first="clicks(0,1), orders(10)"))["g"]
    assert owned(group) == {"m1": {"clicks": [0, 1], "orders": [10]}, "m2": {}}
    assert raw(group)["topics"] == {"clicks": [{"partition": 0}, {"partition": 1}], "orders": [{"partition": 10}]}


def test_assignments_without_topics_as_kafka_3_7_prints_them_are_not_guessed() -> None:
    group = read(MEMBERS.format(first="(0,1), (10)"))["g"]
    assert owned(group) == {"m1": {}, "m2": {}}
    assert "without their topics" in group.notes[0]


# -- what is around it, and what is wrong with it


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "around", ["", "$ kafka-consumer-groups.sh --describe --group x\n", "[2026-01-01 10:00:00,1] WARN x y\n"]
)
def test_prompts_logs_and_line_ends_do_not_matter(around: str, newline: str) -> None:
    text = (HERE / "offsets.txt").read_text()
    noisy = (around + text + around).replace("\n", newline)
    assert {name: raw(group) for name, group in read(noisy).items()} == {n: raw(g) for n, g in read(text).items()}


def test_tabs_for_blanks_do_not_matter() -> None:
    row = "g\tt\t0\t1\t3\t2\tm-1\t/10.0.0.7\tc"
    head = "GROUP\tTOPIC\tPARTITION\tCURRENT-OFFSET\tLOG-END-OFFSET\tLAG\tCONSUMER-ID\tHOST\tCLIENT-ID"
    assert owned(read(f"{head}\n{row}\n")["g"]) == {"m-1": {"t": [0]}}


def test_a_file_of_powershell_is_read() -> None:
    text = (HERE / "offsets.txt").read_text()
    [first, *_] = groups_in(text.encode("utf-16"))
    assert raw(first) == raw(printed("offsets")["ads join é"])


def test_letters_beyond_the_basic_plane_do_not_shift_the_columns() -> None:
    # Java pads by UTF-16 units: the letter below takes two.
    head = f"{'GROUP':15} {'TOPIC':15} {'PARTITION':10} {'CURRENT-OFFSET':15} {'LOG-END-OFFSET':15} {'LAG':15} {'CONSUMER-ID':15} {'HOST':15} CLIENT-ID"  # noqa: E501
    row = f"{'g 𝄞':14} {'t':15} {'0':10} {'1':15} {'3':15} {'2':15} {'m 1':15} {'/10.0.0.7':15} my client"
    group = read(f"\n{head}\n{row}")["g 𝄞"]
    assert owned(group) == {"m 1": {"t": [0]}}


def test_a_cut_row_is_an_error_that_names_the_line() -> None:
    text = (HERE / "offsets.txt").read_text().splitlines()
    text[3] = text[3][:45]
    with pytest.raises(BadInput, match=r"^text, line 4: found"):
        read("\n".join(text))


def test_two_moments_of_one_group_are_not_mixed() -> None:
    text = (HERE / "offsets.txt").read_text()
    with pytest.raises(BadInput, match="again, with other values"):
        read(text + text.replace("              16  ", "              99  "))


def test_a_number_beyond_64_bits_is_an_error() -> None:
    with pytest.raises(BadInput, match="CURRENT-OFFSET"):
        read(KIP_175.replace("16577           33154", "99999999999999999999999 33154"))


def test_what_kafka_says_of_a_missing_group_is_passed_on() -> None:
    assert looks_pasted((HERE / "none.txt").read_bytes())
    with pytest.raises(BadInput, match="GroupIdNotFoundException"):
        groups_in((HERE / "none.txt").read_bytes())


def test_other_text_is_not_taken_for_it() -> None:
    for text in (b"{}", b"GROUP of people", b"\xff\xfe\x00", b""):
        assert not looks_pasted(text)


def test_a_group_of_one_mind_wants_all_that_is_listed() -> None:
    assert subscriptions({"a": {"t"}, "b": {"t"}, "idle": set()}, ["t", "u"]) == {
        "a": ["t", "u"], "b": ["t", "u"], "idle": ["t", "u"],
    }  # fmt: skip


def test_members_of_different_minds_want_what_they_hold() -> None:
    assert subscriptions({"a": {"t"}, "b": {"t", "u"}, "idle": set()}, ["t", "u"]) == {
        "a": ["t"], "b": ["t", "u"], "idle": [],
    }  # fmt: skip


def test_a_row_whose_blanks_were_squeezed_is_read_word_by_word() -> None:
    text = (
        b"GROUP  TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG     CONSUMER-ID      HOST       CLIENT-ID\n"
        b"ads    clicks  0          100             160             60      consumer-1-0c0e  /10.0.0.7  consumer-1\n"
        b"ads    clicks  3          -               950             -       - - -\n"
    )
    group = raw(groups_in(text)[0])
    assert group["topics"]["clicks"][1] == {"partition": 3, "end": 950}
    assert list(group["members"]) == ["consumer-1-0c0e"]


@pytest.mark.parametrize(
    "row", ["g     averylongtopic 0 5 9 4 c-1 /h c", "g     averylongtopic 7         5  9  4  c-1 /h c"]
)
def test_a_name_that_runs_over_the_next_column_is_read_whole(row: str) -> None:
    """Somebody has shortened the header, or pasted a row below another listing's."""
    names = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    [group] = groups_in(f"{names}\n{row}\n".encode())
    assert list(raw(group)["topics"]) == ["averylongtopic"]
