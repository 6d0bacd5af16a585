"""Whatever breaks on one group is that group's alone: the round, its other groups and the server's readiness stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from tests.serve.played import Played, classic, grown, offsets, topic

from apportion.history.records import GroupRecord
from apportion.serve import advice, answers, collector, derived_state, metrics, otlp, switched
from apportion.serve.past import GroupPast
from apportion.serve.settings import ServerSettings
from apportion.serve.tails import Tails
from apportion.sighting.measures import MEASURES

BAD = "bad"


def is_bad(value: Any) -> bool:
    """Whether an argument is the bad group's, or holds something of it."""
    if isinstance(value, list | tuple):
        return any(map(is_bad, value))
    inner = (getattr(value, field, None) for field in ("group", "state"))
    names = {str(getattr(each, "name", "")) for each in (value, *inner)}
    return BAD in names or (isinstance(value, str) and value == BAD)


def breaking(work: Callable[..., Any], broken: Callable[[], bool]) -> Callable[..., Any]:
    """The same work, which raises what no caller expects for the bad group while it is broken."""

    def instead(*given: Any, **named: Any) -> Any:
        if broken() and any(map(is_bad, [*given, *named.values()])):
            raise IndexError("nobody thought of this")
        return work(*given, **named)

    return instead


LAG = next(measure for measure in MEASURES if measure.otlp == "kafka.consumer_group.lag")
DERIVATIONS: Mapping[str, tuple[Any, str]] = {
    "past": (GroupPast, "describe"),
    "group": (collector, "group_with_offsets"),
    "commits of the last rounds": (collector, "commits_then"),
    "lag in time": (derived_state, "_lag_times_of"),
    "state": (collector, "group_state"),
    "distance to the fairest sharing": (derived_state, "distance"),
    "concentration": (derived_state, "concentration"),
    "short lags": (Tails, "want"),
    "advised number of members": (advice, "advised"),
    "row": (answers, "row_of"),
    "what else the list knows": (answers, "found_by"),
    "labels": (metrics.Labels, "__init__"),
    "metric of a partition": (metrics, "_partitions"),
    "metric of a topic": (metrics, "_topics"),
    "metric of a group": (metrics, "_group"),
    "switch": (switched, "switch_of"),
    "record": (GroupPast, "take"),
    "OpenTelemetry's metric": (otlp, "_of_group"),
    "commits of before": (collector, "commits_on"),
}
"""What a server derives from each group, and where."""


class Server:
    """A server of a good group and a bad one, in rounds of ten seconds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        settings = ServerSettings(tail=False, capacity=1.0, cluster_name="c", personal=True)
        self.played = Played(patch, settings)
        self.clicks, self.rounds = topic([(0, 100), (0, 100)], "id-1"), 0

    def round(self) -> None:
        """One more: both groups read on, and are one or two messages behind."""
        self.rounds += 1
        n = self.rounds
        groups = [
            classic(name, {"a/1": {"clicks": [0]}, "a/2": {"clicks": [1]}}, offsets("clicks", 98 + n, 99 + n))
            for name in ("good", BAD)
        ]
        self.clicks = grown(self.clicks, 1, 1)
        # From the third round on the topic is another one, so that commits of before mean other messages.
        log = self.clicks if n < 3 else topic([(0, int(end)) for end in self.clicks.end], "id-2")
        self.played.round(groups, {"clicks": log})
        self.exported = list(self.exporter.points(LAG))

    @property
    def exporter(self) -> Any:
        """OpenTelemetry's points without the SDK that sends them."""
        exporter = otlp.Exporter.__new__(otlp.Exporter)
        exporter._settings, exporter._collector = self.played.collector.settings, self.played.collector
        return exporter

    def of_good(self) -> list[str]:
        """All that is said of the good group."""
        scraped = b"".join(self.played.answers.scraped.pieces()).decode().splitlines()
        api = json.loads(self.played.answers.groups_json())["groups"]
        return [
            *(line for line in scraped if 'group="good"' in line),
            *(str(row) for row in api if row["group"] == "good"),
            *(str(point) for point in self.exported if point[1]["group"] == "good"),
        ]


@pytest.mark.parametrize("derived", DERIVATIONS)
def test_a_derivation_that_breaks_on_one_group_ends_no_round_and_the_group_says_so(
    derived: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = Server(monkeypatch)
    broken = True
    home, name = DERIVATIONS[derived]
    expected = []
    for _ in range(4):
        well.round()
        expected.append(well.of_good())
    monkeypatch.setattr(home, name, breaking(getattr(home, name), lambda: broken))
    server = Server(monkeypatch)
    for n in range(4):
        server.round()
        if derived == "record":
            record = GroupRecord(n, 0, None)  # type: ignore[arg-type]
            take = server.played.collector._past(BAD).take
            server.played.collector.faults.guard(BAD, "history", partial(take, record))
        assert server.of_good() == expected[n]
        assert server.played.answers.ready() == (True, b"ready\n")
        assert {row["group"] for row in json.loads(server.played.answers.groups_json())["groups"]} == {"good", BAD}
    _says_so(server)
    broken = False
    server.round()
    server.round()
    if derived not in ("record", "commits of before"):  # nothing of these comes again
        assert not list(server.played.collector.faults)
        assert b"apportion_group_fault{" not in server.played.answers.own.text()


def _says_so(server: Server) -> None:
    """The log, the metrics and the API name the bad group and no other."""
    text = server.played.answers.own.text().decode()
    faults = [line for line in text.splitlines() if line.startswith("apportion_group_fault{")]
    assert faults, "the metrics do not say it"
    assert all('group="bad"' in line for line in faults)
    assert "log: group bad: its" in server.played.text
    assert "log: group good: its" not in server.played.text
    server.round()
    [row] = [row for row in json.loads(server.played.answers.groups_json())["groups"] if row["group"] == BAD]
    assert row["verdict"] == "WARN"
    assert any("cannot be worked out (IndexError: nobody thought of this" in sentence for sentence in row["why"]), row


def test_a_group_that_lost_its_members_and_never_committed_leaves_the_server_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With --capacity such a group once raised IndexError in every round, and all groups' figures were gone."""
    played = Played(monkeypatch, ServerSettings(tail=False, capacity=1.0))
    clicks = topic([(0, 100), (0, 100)], "id-1")
    for members in ({"a/1": {"clicks": [0, 1]}}, {}, {}):
        clicks = grown(clicks, 10, 10)
        state = "Stable" if members else "Empty"
        played.round([classic("g", members, {}, state=state)], {"clicks": clicks})
        assert played.answers.ready()[0]
        assert b'"group":"g"' in (played.answers.group_event("g") or b""), "its picture"
    assert not list(played.collector.faults)
