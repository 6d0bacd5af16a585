"""A live group is the group that Kafka's own tool prints at the same moment."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from tests.cli.conftest import run_here
from tests.serve.running import serving
from tests.support.examples import thorough
from tests.support.sighted import raw

from apportion.cli import main
from apportion.cli.commands import COMMANDS, command
from apportion.errors import Unavailable, UnknownName
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting
from apportion.sources import live, offsets_log, pasted, series
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember
from apportion.wire.coordinator import GroupGeneration
from tools.recording import dump

pytestmark = pytest.mark.broker
CLASSIC, NEW, IDLE = "live classic é", "live-new", "live-idle"
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Broker]:
    """Three real groups: a classic one with a static member and blanks in names, a KIP-848 one, one with an idler."""
    from kafka import KafkaProducer

    topics = {"live-clicks": 3, "live-orders": 2, "live-one": 1}
    for topic, partitions in topics.items():
        broker.create_topic(topic, partitions)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap.split(","))
    for topic, partitions in topics.items():
        for i in range(30):
            producer.send(topic, b"x", partition=i % partitions)
    producer.flush()
    both = ["live-clicks", "live-orders"]
    new = {"group.protocol": "consumer"}
    members = [
        (CLASSIC, both, {"client.id": "my client", "group.instance.id": "pod-0"}, "range"),
        (CLASSIC, both, {"client.id": "other"}, "range"),
        (NEW, ["live-clicks", "live-one"], {**new, "client.id": "n1"}, None),
        (NEW, ["live-clicks", "live-one"], {**new, "client.id": "n2"}, None),
        (IDLE, ["live-one"], {}, None),
        (IDLE, ["live-one"], {}, None),
    ]
    with ExitStack() as living:
        started = [
            living.enter_context(JavaMember(broker.bootstrap, group, wants, settings, strategy=strategy))
            for group, wants, settings, strategy in members
        ]
        until(lambda: settled(broker, {CLASSIC: 5, NEW: 4, IDLE: 1}))
        for member in started:
            member.commit()
        until(lambda: all(committed(broker, name) for name in (CLASSIC, NEW, IDLE)))
        for i in range(17):
            producer.send("live-clicks", b"x", partition=i % 3)
        producer.close()
        yield broker


def until(ready: Callable[[], bool], patience_s: float = 90) -> None:
    end = time.monotonic() + patience_s
    while not ready():
        assert time.monotonic() < end, "the group never became what the test needs"
        time.sleep(0.5)


def connection(broker: Broker) -> Connection:
    return Connection(broker.bootstrap, Properties())


def seen(broker: Broker, name: str) -> Sighting:
    return live.groups(connection(broker), [name])[0]


def settled(broker: Broker, partitions: dict[str, int]) -> bool:
    try:
        found = live.groups(connection(broker), list(partitions))
    except UnknownName:
        return False
    return all(
        group.state == "Stable" and len(raw(group)["members"]) == 2 and held(group) == partitions[group.name]
        for group in found
    )


def held(group: Sighting) -> int:
    return sum(len(ids) for m in raw(group)["members"].values() for ids in m.get("owned", {}).values())


def committed(broker: Broker, name: str) -> bool:
    return any("committed" in entry for entries in raw(seen(broker, name))["topics"].values() for entry in entries)


def test_switch_scores_itself_on_the_clusters_own_log(cluster: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    """Its log is young and whole: every target of the group of the new protocol is computed again from it."""
    assert main(["switch", "--bootstrap-server", cluster.bootstrap, "--all-groups", "-o", "json"]) == 0
    groups = {one["group"]: one for one in json.loads(capfd.readouterr().out)["groups"]}
    score = groups[NEW]["score"]
    assert score["epochs"] == score["predicted"] > 1
    assert groups[CLASSIC]["score"] == score, "it speaks of the cluster, and stands beside each group"
    assert main(["switch", "--bootstrap-server", cluster.bootstrap, "--group", NEW, "-o", "json"]) == 0
    (alone,) = json.loads(capfd.readouterr().out)["groups"]
    assert "score" not in alone


def comparable(group: Sighting) -> dict[str, Any]:
    """What both tell: partitions with offsets, owners, ids; not what the printed text leaves out."""
    topics = {
        topic: [{key: entry[key] for key in ("partition", "committed", "end") if key in entry} for entry in entries]
        for topic, entries in raw(group)["topics"].items()
    }
    fields = ("instance_id", "client_id", "host", "owned", "generation")
    members = {m: {key: f[key] for key in fields if key in f} for m, f in raw(group)["members"].items()}
    return {"group": group.name, "topics": topics, "members": members}


@pytest.mark.parametrize("name", [CLASSIC, NEW, thorough(IDLE)])
def test_a_live_group_is_what_kafkas_own_tool_prints(cluster: Broker, name: str) -> None:
    views = (("--offsets",), ("--members", "--verbose"), ("--state", "--verbose"))
    text = "".join(cluster.tool(GROUP_TOOL, "--describe", "--group", name, *view) for view in views)
    printed, there = pasted.groups_in(text.encode())[0], seen(cluster, name)
    assert comparable(printed) == comparable(there)
    assert (printed.state, printed.assignor) == (there.state, there.assignor)
    assert printed.group.lag.tolist() == there.group.lag.tolist()


def of_tool(cluster: Broker, name: str, folder: Path) -> list[str]:
    """What Kafka's own tool prints, three views in one file."""
    views = (("--offsets",), ("--members", "--verbose"), ("--state", "--verbose"))
    text = "".join(cluster.tool(GROUP_TOOL, "--describe", "--group", name, *view) for view in views)
    (folder / "pasted.txt").write_text(text, encoding="utf-8")
    return [str(folder / "pasted.txt")]


def of_dump(cluster: Broker, name: str, folder: Path) -> list[str]:
    """The records of the offsets topic, the topics and the ends of their logs."""
    dump.write_records(folder / "dump", cluster.bootstrap)
    dump.write_ends(folder / "dump", cluster, dump.write_topics(folder / "dump", cluster))
    return [str(folder / "dump"), "--group", name]


def of_server(cluster: Broker, name: str, folder: Path) -> list[str]:
    """The group.json that a server answers with."""
    with serving("--interval", "1", bootstrap=cluster.bootstrap) as server:
        answer = until_ready(lambda: server.ask(f"/api/v1/groups/{quote(name)}"))
    fields = ("version", "group", "auto_offset_reset", "topics", "topic_ids", "members")
    group = {key: value for key, value in json.loads(answer).items() if key in fields}
    (folder / "group.json").write_text(json.dumps(group), encoding="utf-8")
    return [str(folder / "group.json")]


def until_ready(ask: Callable[[], Any]) -> bytes:
    """The body of the first answer of status 200."""
    end = time.monotonic() + 90
    while (answer := ask())[0] != HTTPStatus.OK:
        assert time.monotonic() < end, answer
        time.sleep(0.5)
    body: bytes = answer[2]
    return body


def told_alike(groups: Any) -> dict[str, Any]:
    """What every source tells of a group: partitions with offsets, lag and owner, members by id, sums."""
    [group] = groups
    offsets = {
        (topic, entry["partition"]): (entry.get("committed"), entry.get("end"))
        for topic, entries in group["topics"].items()
        for entry in entries
    }
    described = group["described"]
    return {
        "group": group["group"], "lag": described["lag"], "offsets": offsets,
        "owned": {(one["topic"], one["partition"]): (one.get("id"), one.get("lag")) for one in described["partitions"]},
        "members": {m["id"]: (m.get("client_id"), m["partitions"], m.get("lag")) for m in described["members"]},
        "state": described.get("state", "Stable"),
        "assignor": described.get("assignor") or None,
    }  # fmt: skip


@pytest.mark.parametrize("name", [CLASSIC, NEW])
@pytest.mark.parametrize("source", [of_tool, of_dump, of_server], ids=["pasted", "dump", "server"])
def test_every_source_of_a_group_describes_it_as_the_live_cluster_does(
    cluster: Broker, name: str, source: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Its tables are compared with its dump by ``tests/cli/test_transcripts.py``, group by group."""
    live_one = run_here("describe", "--bootstrap-server", cluster.bootstrap, "--group", name, "-o", "json").json
    other = run_here("describe", *source(cluster, name, tmp_path), "-o", "json").json
    expected, found = told_alike(live_one["groups"]), told_alike(other["groups"])
    if source is of_server:  # group.json does not say which assignor the group runs
        del expected["assignor"], found["assignor"]
    assert found == expected


def test_state_fills_coordinator_and_generation_as_kafkas_own_tool_and_log_have_them(
    cluster: Broker, capfdbinary: Any
) -> None:
    names = ("--group", CLASSIC, "--group", NEW)
    assert main(["describe", "--bootstrap-server", cluster.bootstrap, *names, "--state", "-o", "json"]) == 0
    groups = {one["group"]: one["described"] for one in json.loads(capfdbinary.readouterr().out)["groups"]}
    for name in (CLASSIC, NEW):
        text = cluster.tool(GROUP_TOOL, "--describe", "--group", name, "--state", "--verbose")
        printed = pasted.groups_in(text.encode())[0]
        assert groups[name]["coordinator"] == printed.coordinator
        assert groups[name]["generation"] >= 1
        assert printed.generation in (None, groups[name]["generation"])
    log = offsets_log.whole_groups(connection(cluster)).groups[CLASSIC]
    generations = [one.record.generation for one in log if isinstance(one.record, GroupGeneration)]
    assert groups[CLASSIC]["generation"] == generations[-1]


def test_a_group_that_only_commits_has_no_members_and_is_not_said_to_be_unread(cluster: Broker) -> None:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), group_id="live-flink")
    part = TopicPartition("live-orders", 0)
    consumer.assign([part])
    consumer.commit({part: OffsetAndMetadata(3, "", -1)})
    consumer.close()
    group = seen(cluster, "live-flink")
    assert (group.protocol, raw(group)["members"]) == ("simple", {})
    sentence = "It commits without members, as Flink, Spark and consumers with assign() do: its readers are unknown."
    assert Judged(group).odd[0] == sentence


def test_a_live_group_tells_subscriptions_racks_and_log_starts_besides(cluster: Broker) -> None:
    group = seen(cluster, IDLE)
    assert [member["topics"] for member in raw(group)["members"].values()] == [["live-one"], ["live-one"]]
    assert raw(group)["topics"]["live-one"] == [
        {"partition": 0, "racks": ["a"], "begin": 0, "end": 30, "committed": 30}
    ]


def test_all_groups_are_found_by_the_command_line(cluster: Broker, capfdbinary: Any) -> None:
    words = ["describe", "--bootstrap-server", cluster.bootstrap, "--all-groups", "-o", "json", "--window", "1"]
    code = main(words)
    groups = {group["group"]: group["described"] for group in json.loads(capfdbinary.readouterr().out)["groups"]}
    assert code == 0
    assert {CLASSIC, NEW, IDLE} <= groups.keys()
    # Their members joined one after the other a moment ago, as their records tell.
    assert groups[CLASSIC]["last_hour"] >= 1
    assert groups[NEW]["last_hour"] >= 1
    assert groups[IDLE]["behind_s"] == 0


def test_all_groups_are_looked_at_together_and_one_that_ends_meanwhile_is_no_error(
    cluster: Broker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look of ten seconds at each of a thousand groups would take hours, in which some group always ends."""
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    with cluster.admin() as admin:
        offsets = {TopicPartition("live-one", 0): OffsetAndMetadata(7, "", -1)}
        admin.alter_group_offsets("live-ending", offsets)
        looks: list[float] = []

        def ends(seconds: float) -> None:
            looks.append(seconds)
            admin.delete_groups(["live-ending"])

        monkeypatch.setattr(series, "time", SimpleNamespace(sleep=ends, time=time.time))
        words = ["describe", "--bootstrap-server", cluster.bootstrap, "--time", "--window", "2"]
        assert main([*words, "--all-groups"]) == 0
        out, err = capfd.readouterr()
        assert looks == [2]
        assert all(f"{name}: lag in time" in out for name in (CLASSIC, NEW, IDLE))
        assert re.fullmatch(r"looking at \d+ groups for 2 s\n", err)
        admin.alter_group_offsets("live-ending", offsets)
        assert main([*words, "--group", "live-ending"]) == 2
        assert "no group is named 'live-ending'" in capfd.readouterr().err


OF_THEIR_OWN = ("pipeline", "govern", "nudge", "mcp")
"""They write, or wait for an agent: tests/spark, tests/broker, tests/clients and tests/cli/test_mcp.py run them."""
LIVE_EXAMPLES = [
    line
    for name in COMMANDS
    for _, line in command(name).EXAMPLES
    if "--bootstrap-server" in line and "|" not in line and name not in OF_THEIR_OWN
]


@pytest.mark.parametrize("line", LIVE_EXAMPLES)
def test_every_example_on_a_live_cluster_works(cluster: Broker, line: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    words = [CLASSIC if word == "ads-join" else word for word in line.split()[1:]]
    words = [cluster.bootstrap if word == "localhost:9092" else word for word in words]
    if words[0] == "serve":
        assert serves(words) == 0
        return
    once = ["--once"] if words[0] == "watch" and "--once" not in words else []
    # Ten seconds' look knows of an old message that it is ten seconds old at least: no gate on its age can tell.
    assert main(words + once) == (2 if "--max-lag-seconds" in words else 0)


def serves(words: list[str]) -> int:
    """The exit code of ``apportion serve`` that was ended by Ctrl-C once it knew the cluster."""
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-m", "apportion", *words, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            listening = re.search(r"http://127\.0\.0\.1:(\d+)", first)
            assert listening, first
            until(lambda: is_ready(int(listening[1])))
            process.send_signal(signal.SIGINT)
            return process.wait(timeout=200)
        finally:
            process.kill()


def is_ready(port: int) -> bool:
    """Whether the service says that it knows the cluster."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == HTTPStatus.OK
    except TimeoutError:  # a busy machine: asked again
        return False
    finally:
        connection.close()


def test_a_watcher_sees_a_member_leave(cluster: Broker, capfd: Any) -> None:
    from apportion.report.watching import View

    view = View()
    with JavaMember(cluster.bootstrap, "live-leaving", ["live-clicks"]) as one:
        one.wait_until(lambda member: member.assignment, patience_s=90)
        until(lambda: held(seen(cluster, "live-leaving")) == 3)
        view.take(seen(cluster, "live-leaving"), 0.0)
    until(lambda: not raw(seen(cluster, "live-leaving"))["members"])
    view.take(seen(cluster, "live-leaving"), 60.0)
    assert view.changes == [
        "00:01:00  left: consumer-live-leaving-1; 3 partitions without an owner now; Stable -> Empty"
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_watching_leaves_the_terminal_as_it_was(cluster: Broker, number: int, code: int) -> None:
    here, there = pty.openpty()
    words = ["watch", "--bootstrap-server", cluster.bootstrap, "--group", NEW, "--interval", "1"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [sys.executable, "-m", "apportion", *words]
    # A shell that starts the tests in the background has them ignore Ctrl-C; the watcher must not inherit that.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipes: dict[str, Any] = {"stdin": there, "stdout": there, "stderr": subprocess.PIPE, "env": env, "preexec_fn": heed}
    with subprocess.Popen(command, **pipes) as process:
        os.close(there)
        shown = b""
        while b"partitions" not in shown:
            shown += os.read(here, 4096)
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=200)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        with suppress(OSError):  # the terminal's other end is closed
            while more := os.read(here, 4096):
                shown += more
    os.close(here)
    assert (process.returncode, said) == (code, b"")
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1, "the other screen came and went"
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l"), "the cursor is back"


def test_a_context_of_the_config_file_finds_the_cluster(cluster: Broker, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "config.toml").write_text(f'[contexts.here]\nbootstrap-server = "{cluster.bootstrap}"\n')
    monkeypatch.setenv("APPORTION_CONFIG", str(tmp_path / "config.toml"))
    assert main(["describe", "--context", "here", "--group", NEW]) == 0


def test_a_misspelt_group_gets_a_hint(cluster: Broker) -> None:
    with pytest.raises(UnknownName, match="Maybe you meant 'live-new'"):
        live.groups(connection(cluster), ["live-nwe"])


def test_a_cluster_that_is_not_there_is_one_sentence(capfd: Any) -> None:
    assert main(["describe", "--bootstrap-server", "127.0.0.1:1", "--group", "g"]) == 2
    said = capfd.readouterr().err
    assert "127.0.0.1:1" in said
    assert "Traceback" not in said


def test_a_broker_that_is_not_there_raises_unavailable() -> None:
    with pytest.raises(Unavailable):
        live.groups(Connection("127.0.0.1:1", Properties()), ["g"])
