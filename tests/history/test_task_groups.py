"""Streams and share groups of a recorded broker: members, tasks, epochs and replays, held against Kafka's own tools."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.plain_reader import lags_of, what_if_of

from apportion.assignors import BrokerSticky, find
from apportion.errors import BadInput, UnknownName
from apportion.history.broker_tasks import score_tasks, standbys_of
from apportion.history.fold import fold
from apportion.history.group_history import GroupHistories, GroupHistory
from apportion.history.predicted_targets import Score
from apportion.history.records import Generation, GenerationMember, GroupRecord
from apportion.history.task_groups import MEASURES, replay_tasks, replay_to_dict, variants
from apportion.sources import dump
from apportion.wire.coordinator import EpochRecord

DUMP = Path(__file__).parents[1] / "data" / "task_groups"


@pytest.fixture(scope="module")
def recorded() -> GroupHistories:
    return dump.load_histories(DUMP)


def told(name: str) -> list[str]:
    """The lines that Kafka's tool printed, without headings."""
    lines = (DUMP / "truth" / name).read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith(("GROUP", "Error"))]


def lists(text: str) -> dict[str, tuple[int, ...]]:
    """``0:[1,2]; 2:[0]`` as Kafka's tool prints tasks."""
    return {sub: tuple(map(int, ids.split(","))) for sub, ids in re.findall(r"(\w+):\[([0-9,]+)\]", text)}


def test_members_hold_the_tasks_that_kafkas_tool_prints(recorded: GroupHistories) -> None:
    present = recorded.groups["enrich"].present
    assert present is not None
    members = {member.member_id: member for member in present.members}
    lines = told("streams-members.txt")
    assert len(lines) == len(members) == 3
    for line in lines:
        _, epoch, _, member_id, protocol, _, process, client = line.split()[:8]
        member, tasks = members[member_id], line.split("ACTIVE: ", 1)[1].split("TARGET-")[0]
        active, _, standby = tasks.partition("STANDBY: ")
        assert (int(epoch), protocol) == (present.generation, "streams")
        assert (member.process_id, member.client_id) == (process, client)
        assert member.roles == {"active": lists(active), "standby": lists(standby), "warmup": {}}


def test_an_active_task_reads_its_partition_of_every_source_topic(recorded: GroupHistories) -> None:
    present = recorded.groups["enrich"].present
    assert present is not None
    for member in present.members:
        joined, counted, shouted = (member.roles["active"].get(subtopology, ()) for subtopology in "012")
        assert member.assigned["clicks"] == member.assigned["users"] == joined
        assert member.assigned["enrich-by-user-repartition"] == counted
        assert member.assigned["views"] == shouted
    lags = lags_of(recorded.groups["enrich"])
    assert {row.status for row in lags} <= {"ok", "never_committed"}


def test_share_members_share_what_kafkas_tool_prints(recorded: GroupHistories) -> None:
    present = recorded.groups["workers"].present
    assert present is not None
    members = {member.member_id: member for member in present.members}
    for line in told("share-members.txt"):
        group, member_id, host, client, _, epoch, held = line.split()
        topic, ids = held.split(":")
        member = members.pop(member_id)
        assert (group, int(epoch), host, client) == ("workers", present.generation, member.host, member.client_id)
        assert member.roles["shared"] == member.roles["target"] == {topic: tuple(map(int, ids.split(",")))}
        assert member.assigned == {}
    assert not members


def test_groups_stand_empty_or_are_gone_as_kafkas_tool_says(recorded: GroupHistories) -> None:
    states = {
        name: group.present and (group.present.type, group.present.state) for name, group in recorded.groups.items()
    }
    assert states == {
        "enrich": ("streams", "Stable"),
        "paused": ("streams", "Empty"),
        "deleted": None,
        "workers": ("share", "Stable"),
        "idle": ("share", "Empty"),
        "dismissed": None,
    }
    epochs = {line.split()[0]: int(line.split()[-3]) for line in told("streams-state.txt")}
    for name, epoch in epochs.items():
        present = recorded.groups[name].present
        assert present is not None
        assert present.generation == epoch


def test_each_epoch_has_its_cause_and_counts_tasks(recorded: GroupHistories) -> None:
    rows = [(row.cause, row.members, row.moved, row.given) for row in recorded.groups["enrich"].rebalances]
    assert [row[:2] for row in rows] == [
        ("join", 2), ("topics", 2), ("join", 3), ("settings", 3), ("join", 4), ("leave", 3), ("topics", 3), ("join", 4),
        ("leave", 3),
    ]  # fmt: skip
    assert rows[1][3] == 16, "topics were made: all sixteen tasks begin"
    assert rows[6][2:] == (0, 2), "views grew by two partitions, so by two tasks"
    assert {row.needless for row in recorded.groups["enrich"].rebalances} == {0}


def test_a_changed_topology_is_a_cause_and_a_tombstone_ends_the_group() -> None:
    member = {"processId": "p", "clientId": "c", "clientHost": "h", "instanceId": None, "rackId": None}
    target = {"activeTasks": [{"subtopologyId": "0", "partitions": [0, 1]}], "standbyTasks": [], "warmupTasks": []}
    log = Log()
    log.put(19, member, "m")
    log.put(23, {"epoch": 0, "subtopologies": []})
    log.put(17, {"epoch": 1, "metadataHash": 5}, epoch=1)
    log.put(21, target, "m")
    log.put(20, {"assignmentEpoch": 1}, epoch=1)
    log.put(23, {"epoch": 1, "subtopologies": []})
    log.put(17, {"epoch": 2, "metadataHash": 5}, epoch=2)
    log.put(20, {"assignmentEpoch": 2}, epoch=2)
    folded = fold(log.events)
    group = histories(log)
    assert [generation.number for generation in folded.generations] == [1, 2]
    assert [row.cause for row in group.rebalances] == ["topology"]
    for key_type, who in ((22, "m"), (21, "m"), (19, "m"), (20, None), (17, None), (23, None)):
        log.put(key_type, None, who)
    assert fold(log.events).present is None


def test_needless_task_moves_are_counted_where_an_even_sharing_needed_none() -> None:
    log = Log()
    log.epoch(1, {"a": {"active": {"0": [0, 1]}}, "b": {"active": {"0": [2, 3]}}})
    log.epoch(2, {"a": {"active": {"0": [0, 2]}}, "b": {"active": {"0": [1, 3]}}})
    (row,) = histories(log).rebalances
    assert (row.moved, row.needless) == (2, 2)


@pytest.mark.parametrize("standbys", range(3))
def test_our_assignor_begins_no_task_cold_that_has_a_copy(recorded: GroupHistories, standbys: int) -> None:
    strategy = find("streams", {"num_standby_replicas": str(standbys)})
    walked = replay_tasks("enrich", recorded.groups["enrich"].folded.generations, strategy)
    document = replay_to_dict("enrich", "streams", walked)
    total = document["total"]
    assert (document["version"], document["group"], document["assignor"]) == (1, "enrich", "streams")
    assert [row["tasks"] for row in document["generations"]] == [16, 16, 16, 16, 16, 18, 18, 18]
    assert total["cold_then"] == 10, "the broker moved ten tasks with state to where there was none"
    # Without standbys two processes took the state of three tasks each along when they went.
    assert total["cold"] == (0 if standbys else 6)
    assert total["skew_max"] <= 1
    for row in document["generations"]:
        assert row["standbys_then"] == (0 if row["generation"] < 6 else 12)


def test_only_assignors_of_tasks_replay_a_group_whose_tasks_move_whole(recorded: GroupHistories) -> None:
    group = recorded.groups["enrich"]
    with pytest.raises(BadInput, match="tasks move whole"):
        group.replay("sticky")
    assert group.replay("streams")["total"]["generations"] == 8


def test_the_brokers_assignor_gives_every_recorded_target_of_a_broker_to_the_task(recorded: GroupHistories) -> None:
    document = recorded.groups["enrich"].replay("broker-sticky")
    assert document["score"] == {"epochs": 8, "predicted": 8}
    assert [row["generation"] for row in document["generations"]] == [4, 5, 6, 7, 8, 9, 10, 11]
    for row in document["generations"]:
        assert row["rounds"] == 1
        for measure in MEASURES:
            assert row[measure] == row[f"{measure}_then"], measure


def test_a_standby_of_the_brokers_is_kept_as_soon_as_there_are_two_processes(recorded: GroupHistories) -> None:
    rows = recorded.groups["enrich"].replay(BrokerSticky(1))["generations"]
    assert [row["standbys"] for row in rows] == [0, 12, 12, 12, 12, 12, 12, 12]
    assert [row["standbys_then"] for row in rows] == [0, 0, 12, 12, 12, 12, 12, 12]


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({"num_standby_replicas": "-1"}, "a number from 0 to 100"),
        ({"num_standby_replicas": "101"}, "a number from 0 to 100"),
        ({"num_standby_replicas": "many"}, "an integer"),
        ({"max_warmup_replicas": "2"}, "num_standby_replicas"),
    ],
)
def test_settings_that_the_brokers_assignor_does_not_have_are_refused(settings: dict[str, str], needed: str) -> None:
    with pytest.raises(BadInput, match=needed):
        find("broker-sticky", settings)


@pytest.mark.parametrize("text", ["", "-1", "9" * 30, "one", None])
def test_a_recorded_number_of_standbys_that_makes_no_sense_asks_for_little(text: str | None) -> None:
    settings = (("num.standby.replicas", text),)
    assert 0 <= standbys_of(Generation(1, 0, "streams", 1, (), facts={"settings": settings})) <= 100


def test_hostile_targets_of_tasks_are_not_followed() -> None:
    log = Log()
    log.epoch(1, {"a": {"active": {"0": [0, 2**31 - 1]}}})
    assert score_tasks(log.events) == Score(1, 0)


def test_a_topology_that_is_no_longer_told_is_taken_to_have_state() -> None:
    """A log that was cut off before its topology record: standbys that the broker handed out are computed again."""
    log = Log()
    log.put(17, {"epoch": 1, "lastAssignmentConfigs": [{"key": "num.standby.replicas", "value": "1"}]}, epoch=1)
    for member, active, standby in (("a", 0, 1), ("b", 1, 0)):
        tasks = {
            role: [{"subtopologyId": "0", "partitions": [p]}] for role, p in (("active", active), ("standby", standby))
        }
        log.put(19, {"processId": member}, member)
        log.put(22, {}, member)
        log.put(21, {"activeTasks": tasks["active"], "standbyTasks": tasks["standby"], "warmupTasks": []}, member)
    log.put(20, {"assignmentEpoch": 1}, epoch=1)
    assert score_tasks(log.events) == Score(1, 1)


def test_the_end_of_a_member_that_was_never_told_of_is_no_matter() -> None:
    """A log that was cut off at its beginning has tombstones of what it no longer tells."""
    log = Log()
    for key_type in (21, 22, 19):
        log.put(key_type, None, "ghost")
    log.epoch(1, {"a": {"active": {"0": [0, 1]}}})
    log.put(21, None, "a")
    log.put(21, None, "a")
    assert score_tasks(log.events) == Score(1, 1)
    assert len(histories(log).folded.generations) == 1


def test_what_if_of_a_streams_group_asks_our_assignor_and_the_brokers(recorded: GroupHistories) -> None:
    rows = what_if_of(recorded.groups["enrich"])
    assert {(row.assignor, row.scenario) for row in rows} == {
        (name, scenario) for name in variants() for scenario in ("replay", "as-is", "join", "leave")
    }
    assert {row.error for row in rows} == {None}
    assert {row.moves_then for row in rows if row.scenario == "replay"} == {13}
    assert what_if_of(recorded.groups["workers"]) == []
    asked = what_if_of(recorded.groups["enrich"], ["streams"])
    assert asked
    assert asked == rows
    assert what_if_of(recorded.groups["enrich"], ["range"]) == []
    moves = {(row.assignor, row.scenario): row.moves for row in rows}
    assert moves["broker-sticky num_standby_replicas=1", "as-is"] == 0, "its own target stands"
    assert {load.load_max - load.load_min for load in rows if load.load_max and load.load_min} <= {0, 1}


def test_steps_of_a_streams_group_do_what_its_scenarios_do(recorded: GroupHistories) -> None:
    """The busiest process goes, or one comes, under every assignor; what came goes again, and every task is run."""
    group = recorded.groups["enrich"]
    rows = {(row.assignor, row.scenario): (row.moves, row.load_min, row.load_max) for row in what_if_of(group)}
    assert group.present is not None
    busiest = max(sorted({str(member.process_id) for member in group.present.members}), key=partial(running, group))
    for scenario, step in (("join", "join 1"), ("leave", f"leave {busiest}")):
        (now, *stages) = group.what_if_tasks([step])
        assert (now.assignor, now.step, now.measures["moves"], now.tasks) == ("broker", "(now)", 0, 18)
        assert [stage.assignor for stage in stages] == [*variants()]
        for stage in stages:
            numbers = tuple(stage.measures[name] for name in ("moves", "load_min", "load_max"))
            assert numbers == rows[stage.assignor, scenario]
    _, came, gone = group.what_if_tasks(["join 1", "leave join-1"], "broker-sticky", {"num_standby_replicas": "1"})
    assert (came.processes - 1, came.members - 1, came.tasks) == (gone.processes, gone.members, gone.tasks)
    assert gone.measures["cold"] == 0, "its copies took over"


def running(group: GroupHistory, process: str) -> int:
    """Active tasks of a process."""
    assert group.present is not None
    mine = [member.roles["active"] for member in group.present.members if member.process_id == process]
    return sum(len(ids) for active in mine for ids in active.values())


@pytest.mark.parametrize(
    ("step", "refusal"),
    [
        ("join 0", "how many members"), ("join 1_0", "a whole number"), ("join 999999", "from 1 to 100000"),
        ("leave nobody", "no member is named 'nobody'"), ("grow a:2", "no meaning for tasks"),
    ],
)  # fmt: skip
def test_a_step_that_tasks_do_not_know_is_refused(recorded: GroupHistories, step: str, refusal: str) -> None:
    with pytest.raises((BadInput, UnknownName), match=refusal):
        recorded.groups["enrich"].what_if_tasks([step])
    with pytest.raises(BadInput, match="whose tasks move whole"):
        recorded.groups["enrich"].what_if_tasks(["join 1"], "sticky")
    with pytest.raises(BadInput, match="a streams group without members"):
        recorded.groups["workers"].what_if_tasks(["join 1"])


def test_the_last_process_cannot_leave(recorded: GroupHistories) -> None:
    group = recorded.groups["enrich"]
    assert group.present is not None
    processes = dict.fromkeys(member.process_id for member in group.present.members)
    with pytest.raises(BadInput, match="no member left"):
        group.what_if_tasks([f"leave {process}" for process in processes])


def test_hostile_topologies_and_task_numbers_take_no_memory_beyond_the_record() -> None:
    log = Log()
    wide = [f"t{n}" for n in range(3000)]
    sub = {"subtopologyId": "0", "sourceTopics": wide, "repartitionSourceTopics": [], "stateChangelogTopics": []}
    log.put(23, {"epoch": 0, "subtopologies": [sub]})
    log.put(19, {"processId": "p"}, "m")
    log.put(17, {"epoch": 1, "metadataHash": 5}, epoch=1)
    many = [{"subtopologyId": "0", "partitions": [*range(3000), 2**31 - 1, -5]}]
    log.put(21, {"activeTasks": many, "standbyTasks": [], "warmupTasks": []}, "m")
    log.put(22, {"activeTasks": many, "standbyTasks": [], "warmupTasks": []}, "m", epoch=1)
    log.put(20, {"assignmentEpoch": 1}, epoch=1)
    group = histories(log)
    assert group.present is not None
    assert group.present.members[0].assigned == {}, "nine million partitions are left out"
    assert group.replay("streams")["generations"] == [], "no sub-topology has two thousand million tasks"


class Log:
    """Records of one streams group."""

    def __init__(self) -> None:
        self.events: list[GroupRecord] = []

    def put(
        self, key_type: int, body: dict[str, Any] | None, member: str | None = None, epoch: int | None = None
    ) -> None:
        record = EpochRecord("g", key_type, body is None, member, epoch, body)
        self.events.append(GroupRecord(len(self.events), 1000 * len(self.events), record))

    def epoch(self, number: int, members: dict[str, dict[str, dict[str, list[int]]]]) -> None:
        """An epoch with its members' targets."""
        for member, roles in members.items():
            self.put(19, {"processId": member}, member)
            tasks = [{"subtopologyId": sub, "partitions": ids} for sub, ids in roles["active"].items()]
            self.put(21, {"activeTasks": tasks, "standbyTasks": [], "warmupTasks": []}, member)
        self.put(17, {"epoch": number, "metadataHash": 1}, epoch=number)
        self.put(20, {"assignmentEpoch": number}, epoch=number)


def histories(log: Log) -> Any:
    from apportion.history.group_history import GroupHistory, TopicMetadata

    return GroupHistory("g", log.events, {}, [], TopicMetadata())


def test_a_member_that_fell_silent_for_a_session_crashed() -> None:
    """By the commits on what its tasks read, since the records name tasks and commits name topics."""
    from apportion.history.cause import CommitCadence, CommitInterval

    seat = GenerationMember("m", ("0",), {"0": (1,)}, reads={"clicks": (1,)})
    before = Generation(5, 0, "streams", 1, (seat,))
    now = Generation(9, 60_000, "streams", 2, (), started=60_000)
    steady = CommitCadence([CommitInterval(5, "clicks", 1, 10, 1_000, 10_000)])
    assert steady.crashed(seat, before, now)
    assert not CommitCadence([CommitInterval(5, "clicks", 0, 10, 1_000, 10_000)]).crashed(seat, before, now)


def test_topics_by_pattern_are_said_not_to_be_known() -> None:
    log = Log()
    plain = {"sourceTopics": ["t"], "repartitionSourceTopics": [], "stateChangelogTopics": []}
    subs = [{"subtopologyId": str(n), **plain, "sourceTopicRegex": [f"clicks-{n}.*"]} for n in range(5)]
    log.put(23, {"epoch": 0, "subtopologies": [*subs, {"subtopologyId": "9", **plain}]})
    log.put(19, {"processId": "p"}, "m")
    log.put(17, {"epoch": 1, "metadataHash": 5}, epoch=1)
    present = histories(log).present
    assert present is not None
    assert len(present.sentences) == 4
    assert present.sentences[0].startswith(
        "Sub-topology 0 reads topics by the pattern 'clicks-0.*': no record names them"
    )
    assert present.sentences[-1] == "So with 2 more patterns."


def test_every_generation_of_a_streams_group_is_of_its_kind() -> None:
    kinds = {generation.kind for generation in dump.load_histories(DUMP).groups["enrich"].folded.generations}
    assert kinds == {"streams"}
