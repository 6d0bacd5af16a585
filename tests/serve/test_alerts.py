"""Each shipped alert fires where it must and nowhere else: rounds are played through the server's own collector, and
what is scraped from it over HTTP goes into real Prometheus rules.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from tests.serve.running import until

from apportion.demo import dump
from apportion.history.records import GroupRecord
from apportion.serve import derived_state
from apportion.serve.access import Access
from apportion.serve.answers import Answers
from apportion.serve.app import Server
from apportion.serve.collector import Collector
from apportion.serve.protocol import BoundedProtocol
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import Snapshot
from apportion.sources.cluster_round import DescribedGroup, Round, TopicLog
from apportion.sources.config import Connection
from apportion.sources.load_history import load_histories
from apportion.sources.log_tails import Tail
from apportion.sources.properties import Properties

RULES = Path(__file__).parents[2] / "examples" / "serve" / "alerts.yml"
PROMTOOL = shutil.which("promtool")
START = 1_763_730_000.0
HOUR = 3600.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: apt-get install prometheus"),
    pytest.mark.timeout(600),
]


@dataclass(frozen=True)
class Case:
    """One group on a topic of its own, of one partition: what is so after t seconds.

    begin, end, committed
        Of the log; the group's commit, None for none.
    members
        Their names; they want the topic, unless ``wants`` is another.
    owned
        Whether the first of them owns it.
    stable
        The last stable offset; None: no transaction is open.
    """

    begin: Callable[[float], float]
    end: Callable[[float], float]
    committed: Callable[[float], float]
    members: Callable[[float], Sequence[str]] = lambda t: ("a",)
    wants: str | None = None
    owned: bool = True
    stable: Callable[[float], float] | None = None


def steady(value: float) -> Callable[[float], float]:
    return lambda t: value


def per_s(rate: float, first: float = 0) -> Callable[[float], float]:
    return lambda t: first + int(rate * t)


def commit_lag(t: float) -> float:
    """Of one message a minute, each read 4 s after it was written."""
    return (t - 4) // 60 + 1 if t >= 4 else 0


CASES: Mapping[str, Case] = {
    # Reads nothing of a log that is written to; reads slowly; is caught up and has a marker behind its commit.
    "stuck": Case(steady(0), per_s(1, 100), steady(7)),
    "stuck-at-one": Case(steady(0), steady(11), steady(10)),
    "moving": Case(steady(0), per_s(10, 90_000), per_s(20)),
    "at-a-marker": Case(steady(0), steady(10), steady(9)),
    "one-a-minute": Case(steady(0), lambda t: t // 60 + 1, commit_lag),
    "left-the-topic": Case(steady(0), per_s(1, 100), steady(7), wants="t-moving"),
    # Members that come and go at each round, and one that does after long.
    "storm": Case(steady(0), steady(5), steady(5), lambda t: (f"pod-{int(t // 30)}",)),
    "calm": Case(steady(0), steady(5), steady(5), lambda t: ("a", "b") if t % 1200 < 600 else ("a",)),
    # Retention comes nearer than it reads; as it reads; near a marker; past one; past what was not read, or was left.
    "late": Case(per_s(2), per_s(2, 9_000_000), per_s(0.1, 20_000)),
    "early": Case(per_s(2), per_s(2, 9_000_000), per_s(2, 8_990_000)),
    "marker-expires": Case(lambda t: min(9_999, 2 * t), steady(10_000), steady(9_999)),
    "marker-expired": Case(lambda t: 11 if t > 600 else 10, steady(11), steady(10)),
    "unseen-marker-expired": Case(steady(11), steady(11), steady(10)),
    "lost": Case(lambda t: 500 if t > 600 else 0, steady(1000), steady(100)),
    "left-what-expired": Case(steady(500), steady(1000), steady(100), wants="t-moving"),
    # Nobody is there, and more comes, or not.
    "empty": Case(steady(0), per_s(1, 100), steady(50), lambda t: ()),
    "empty-and-quiet": Case(steady(0), steady(100), steady(50), lambda t: ()),
    # Slower than what is written; faster, with an end in sight.
    "slower": Case(steady(0), per_s(100, 10_000), per_s(50)),
    "faster": Case(steady(0), per_s(100, 900_000), per_s(200)),
    # A reader that commits every 20 minutes; a burst of 26 minutes that is then worked off within half an hour.
    "rare-commits": Case(steady(0), per_s(10, 10), lambda t: 10 * 1200 * (t // 1200)),
    "burst": Case(steady(0), lambda t: 1000 * min(t, 1560), lambda t: min(500 * t, 1000 * min(t, 1560))),
    # A producer that died in its transaction, and one whose transactions end.
    "transaction": Case(steady(0), per_s(10, 100), steady(50), stable=steady(50)),
    "transactions": Case(steady(0), per_s(10, 100), per_s(10, 50), stable=per_s(10, 60)),
    # Nobody owns a partition that a member wants; a topic was made anew below the commit.
    "unowned": Case(steady(0), steady(10), steady(10), owned=False),
    "beyond": Case(steady(0), lambda t: 10 if t > 600 else 30, steady(20)),
}
TAILS = {"at-a-marker": Tail(10, False), "marker-expires": Tail(10_000, False), "marker-expired": Tail(11, False)}
"""What is found behind the commits of these; ``stuck-at-one`` has a message there."""
FIRES = {
    "PartitionStuck": {"stuck", "stuck-at-one", "lost"},
    "OpenTransaction": {"transaction"},
    "PartitionsWithoutOwner": {"unowned"},
    "CommitBeyondEnd": {"beyond"},
    "RebalanceStorm": {"storm"},
    "DataAboutToExpireUnread": {"late", "lost"},
    "DataExpiredUnread": {"lost"},
    "NobodyReads": {"empty"},
    "NeverCaughtUp": {"stuck", "stuck-at-one", "slower", "lost", "late", "early", "transaction"},
}

OF_RECORDS = ("PartitionsStandStill", "RebalancesTakeLong")
"""Alerts that need the records of rebalances, which no description has."""


def described(name: str, case: Case, t: float) -> DescribedGroup:
    topic, members = f"t-{name}", case.members(t)
    fields = {"instance_id": None, "client_id": "c", "host": "/10.0.0.1", "rack": None}
    wants = case.wants or topic
    owner = members[:1] if case.owned else ()
    described = {m: {**fields, "topics": [wants], "owned": {wants: [0]} if m in owner else {}} for m in members}
    facts = {
        "state": "Stable" if members else "Empty", "protocol": "classic", "assignor": "range", "generation": None,
        "notes": [], "members": described, "wanted": {wants} if members else set(),
    }  # fmt: skip
    return DescribedGroup(name, "b:1 (1)", facts, {(topic, 0): int(case.committed(t))})


def round_of(cases: Mapping[str, Case], t: float) -> Round:
    def log(case: Case) -> TopicLog:
        begin, end = (np.array([int(side(t))], dtype=np.int64) for side in (case.begin, case.end))
        stable = np.array([int((case.stable or case.end)(t))], dtype=np.int64)
        return TopicLog("id", np.arange(1), begin, end, ((),), stable)

    topics = {f"t-{name}": log(case) for name, case in cases.items()}
    return Round(at=START + t, brokers=1, groups={n: described(n, c, t) for n, c in cases.items()}, topics=topics)


Series = dict[str, dict[int, str]]


class Listening:
    """A server's answers at a port of this machine, as long as the test runs."""

    def __init__(self, answers: Answers) -> None:
        app = Server(answers, Access(), local=True).app
        self.server = uvicorn.Server(
            uvicorn.Config(app, port=0, http=BoundedProtocol, lifespan="off", log_level="error")
        )
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)
        self.connection = HTTPConnection(*self.server.servers[0].sockets[0].getsockname(), timeout=60)

    def metrics(self) -> str:
        self.connection.request("GET", "/metrics")
        answer = self.connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()

    def close(self) -> None:
        self.connection.close()
        self.server.should_exit = True
        self.thread.join(30)


SERVED: list[Listening] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while SERVED:
        SERVED.pop().close()


class Play:
    """Rounds of a server, and what a scrape had after each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tails: Mapping[str, Tail], **settings: Any) -> None:
        self.now = START
        monkeypatch.setattr("time.time", lambda: self.now)
        # Without what tells of this process: it is not of the cluster.
        self.collector = Collector(
            ServerSettings(tail=False, cluster_name="c", **settings), Connection("127.0.0.1:1", Properties())
        )
        self.answers = Answers(self.collector)
        self.http = Listening(self.answers)
        SERVED.append(self.http)
        self.series: Series = {}
        self.scrapes = 0
        self.collector._tails.ask = lambda places: {
            place: tails.get(place[0].removeprefix("t-"), Tail(first, True)) for place, first in places.items()
        }

    def round(self, seen: Round) -> None:
        self.now = seen.at
        groups = self.collector._groups(seen)
        number = self.collector.snapshot.number + 1
        ends = dict(self.collector._ends)
        self.collector._publish(Snapshot(number, seen, groups, ends, trouble="", trouble_since=0.0))

    def scrape(self) -> None:
        for family in text_string_to_metric_families(self.http.metrics()):
            for sample in family.samples:
                if sample.name.startswith(("kafka_", "apportion_")):
                    labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                    self.series.setdefault(f"{sample.name}{{{labels}}}", {})[self.scrapes] = str(sample.value)
        self.scrapes += 1

    def fired(self, folder: Path, step_s: int) -> dict[str, set[str]]:
        """Alert to the groups for which it ever fired, by promtool."""
        names = re.findall(r"alert: (\w+)", RULES.read_text())
        whole = f"{self.scrapes * step_s}s"
        ever = f'count by (group) (count_over_time(ALERTS{{alertname="%s",alertstate="firing"}}[{whole}]))'
        # What is expected is wrong on purpose: what promtool finds instead stands in its answer.
        tests = [{"expr": ever % name, "eval_time": f"{(self.scrapes - 1) * step_s}s",
                  "exp_samples": [{"labels": "none", "value": -1}]} for name in names]  # fmt: skip
        rows = [{"series": name, "values": _values(had, self.scrapes)} for name, had in self.series.items()]
        file = {"rule_files": [str(RULES)], "evaluation_interval": f"{step_s}s",
                "tests": [{"interval": f"{step_s}s", "input_series": rows, "promql_expr_test": tests}]}  # fmt: skip
        (folder / "played.yml").write_text(json.dumps(file))
        done = subprocess.run(
            [str(PROMTOOL), "test", "rules", "played.yml"], cwd=folder, capture_output=True, text=True, check=False
        )
        answers = re.findall(r'alertname=\\"(\w+).*?got:(.*?)(?=\n\s*expr:|\Z)', done.stdout + done.stderr, re.DOTALL)
        assert [name for name, _ in answers] == names, done.stdout + done.stderr
        return {
            name: set(re.findall(r'group="([^"]*)"', got)) | ({""} if "{}" in got else set()) for name, got in answers
        }


def _values(had: Mapping[int, str], count: int) -> str:
    return " ".join(had.get(i, "stale" if i - 1 in had else "_") for i in range(count))


def played(
    monkeypatch: pytest.MonkeyPatch, cases: Mapping[str, Case], until_s: float, step_s: int, **settings: Any
) -> Play:
    play = Play(monkeypatch, TAILS, **settings)
    for t in range(0, int(until_s) + 1, step_s):
        play.round(round_of(cases, float(t)))
        play.scrape()
    return play


def test_each_alert_about_groups_fires_for_those_that_it_is_about_and_for_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play = played(monkeypatch, CASES, 1.7 * HOUR, 60)
    fired = play.fired(tmp_path, 60)
    quiet = {name: set[str]() for name in ("ConsumerGroupsUnknown", "GroupFault", "SeriesLeftOut", *OF_RECORDS)}
    assert fired == FIRES | quiet


def test_a_stuck_partition_is_told_whatever_the_interval(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sixty rounds of ten seconds end before the half hour for which a commit that never moved must stand still."""
    cases = {name: CASES[name] for name in ("stuck", "at-a-marker", "one-a-minute", "moving")}
    assert played(monkeypatch, cases, 2400, 10).fired(tmp_path, 10)["PartitionStuck"] == {"stuck"}


def test_a_partition_that_was_stuck_before_the_servers_start_is_told_after_the_alerts_own_quarter_of_an_hour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """More is unread than is written in half an hour; a reader that commits every 20 minutes is never so far behind."""
    cases = {"long-stuck": Case(steady(0), per_s(10, 50_000), steady(7)), "rare-commits": CASES["rare-commits"]}
    assert played(monkeypatch, cases, 16 * 60, 60).fired(tmp_path, 60)["PartitionStuck"] == {"long-stuck"}


def test_a_partition_without_writes_is_stuck_by_what_its_member_commits_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ten minutes and the alert's five after the server's start; one that commits every 20 minutes has longer."""
    quiet = Case(steady(0), steady(50), steady(7))
    cases = {"quiet-quick": quiet, "quick": CASES["moving"], "quiet-rare": quiet, "rare": CASES["rare-commits"]}
    play = Play(monkeypatch, TAILS)
    for t in range(0, 30 * 60 + 1, 60):
        seen = round_of(cases, float(t))
        for name in ("quick", "rare"):
            group, elsewhere = seen.groups[f"quiet-{name}"], f"t-{name}"
            member = group.facts["members"]["a"]
            member["topics"].append(elsewhere)
            member["owned"][elsewhere] = [0]
            group.facts["wanted"].add(elsewhere)
            group.committed[elsewhere, 0] = int(cases[name].committed(t))
        play.round(seen)
        play.scrape()
    assert play.fired(tmp_path, 60)["PartitionStuck"] == {"quiet-quick"}
    [stuck] = [
        minutes
        for name, minutes in play.series.items()
        if name.startswith("apportion_group_partition_stuck_seconds{") and 'topic="t-quiet-quick"' in name
    ]
    assert min(stuck) <= 12


def test_markers_that_nobody_may_look_at_alarm_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the right to read the topic one message and one marker are alike: they are told as what they may be."""
    names = ("at-a-marker", "marker-expires", "marker-expired", "unseen-marker-expired", "stuck-at-one", "moving")
    play = Play(monkeypatch, {})
    play.collector._tails.ask = lambda places: {}
    for t in range(0, int(1.7 * HOUR), 60):
        play.round(round_of({name: CASES[name] for name in names}, float(t)))
        play.scrape()
    assert not any(play.fired(tmp_path, 60).values())
    states = play.collector.snapshot.groups
    assert [int(states[name].maybe_markers.sum()) for name in names] == [1, 1, 0, 0, 1, 0]
    assert states["at-a-marker"].whole.in_words == "maybe at a marker"


def test_what_is_known_of_markers_makes_lags_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    play = played(
        monkeypatch, {name: CASES[name] for name in ("at-a-marker", "stuck-at-one", "marker-expired")}, 900, 60
    )
    states = play.collector.snapshot.groups
    assert {name: state.sighting.total_lag for name, state in states.items()} == {
        "at-a-marker": 0, "stuck-at-one": 1, "marker-expired": 0,
    }  # fmt: skip
    assert {name: state.whole.catch_up_s for name, state in states.items()} == {
        "at-a-marker": 0, "stuck-at-one": float("inf"), "marker-expired": 0,
    }  # fmt: skip
    assert not states["marker-expired"].expired.any()


def test_a_cluster_that_is_not_reached_is_told_and_one_that_is_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play = Play(monkeypatch, {})
    for t in range(0, 1200, 60):
        if t < 600:
            play.round(round_of({"moving": CASES["moving"]}, float(t)))
        else:
            play.now = START + t
            play.collector._failed("nobody answers")
        play.scrape()
    assert play.fired(tmp_path, 60)["ConsumerGroupsUnknown"] == {""}


def test_a_groups_picture_has_the_lag_of_the_newest_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    play = played(monkeypatch, {"slower": CASES["slower"]}, 70 * 10, 10)
    state = play.collector.snapshot.groups["slower"]
    lag = play.answers.drawn(state)["history"]["lag"]
    assert len(lag) == 60
    assert lag[-1] == [1000 * (START + 700), state.sighting.total_lag] == [1000 * (START + 700), 10_000 + 50 * 700]
    assert [at for at, _ in lag] == sorted(at for at, _ in lag)


def test_a_partition_that_moved_before_is_stuck_after_ten_minutes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cases = {"moved": Case(steady(0), per_s(10, 1000), lambda t: 10 * min(t, 300)), "moving": CASES["moving"]}
    assert played(monkeypatch, cases, 1320, 30).fired(tmp_path, 30)["PartitionStuck"] == {"moved"}


def test_what_cannot_be_worked_out_of_a_group_alarms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(group: Any) -> float | None:
        if group.name == "stuck":
            raise IndexError("nobody thought of this")
        return 1.0

    monkeypatch.setattr(derived_state, "concentration", broken)
    cases = {name: CASES[name] for name in ("moving", "stuck")}
    assert played(monkeypatch, cases, 900, 60).fired(tmp_path, 60)["GroupFault"] == {"stuck"}


def test_series_beyond_the_bound_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cases = {name: CASES[name] for name in ("moving", "stuck")}
    assert played(monkeypatch, cases, 2400, 60, most_series=20).fired(tmp_path, 60)["SeriesLeftOut"] == {""}


RECORDED = load_histories(str(dump())).groups["ads-range"].events
"""Generations of an eager group of 20 partitions, as a broker wrote them."""


def a_rebalance(number: int, at_s: float, took_s: float) -> GroupRecord:
    """One of those generations at another moment; ``took_s`` after all had joined."""
    one = RECORDED[2 + number % 2]
    at_ms = round(1000 * at_s)
    record = replace(one.record, generation=number, state_time=at_ms - round(1000 * took_s))  # type: ignore[type-var, arg-type]
    return GroupRecord(number, at_ms, record)


def test_long_rebalances_and_standstill_are_told_of_the_group_that_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every two minutes one that takes 40 s, 13 s, or none at all; each stops all partitions."""
    took_s = {"slow": 40.0, "brisk": 13.0, "quick": 0.1}
    cases = {name: Case(steady(0), steady(5), steady(5)) for name in (*took_s, "calm")}
    play = Play(monkeypatch, {})
    # The topic of records is being read.
    play.collector._tail = SimpleNamespace(trouble="")  # type: ignore[assignment]
    for t in range(0, int(HOUR), 60):
        play.round(round_of(cases, float(t)))
        for name, seconds in took_s.items():
            if t % 120 == 0:
                play.collector._past(name).take(a_rebalance(1 + t // 120, START + t, seconds))
        play.scrape()
    fired = play.fired(tmp_path, 60)
    assert {name: fired[name] for name in OF_RECORDS} == {
        "PartitionsStandStill": {"slow", "brisk"},
        "RebalancesTakeLong": {"slow"},
    }
