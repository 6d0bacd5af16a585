"""All that a server answers before and after its first round, held as a file: ``make golden`` writes it again.

A round of a made-up cluster is played to a server in this process, which is then asked for its metrics and API.
``golden/first_round.txt`` is every answer, headers too: the diff shows a renamed metric or a field that went.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest
from tests.serve.played import Played, classic, consumer, offsets, share, streams, topic
from tests.support.golden import hold, write

from apportion.serve.settings import ServerSettings
from apportion.sources.cluster_round import DescribedGroup

IDS = {name: uuid.UUID(int=number) for number, name in enumerate(("clicks", "orders"), 1)}
CLICKS = topic([(0, 100), (0, 90), (5, 80), (0, 70)], "AAAAAAAAAAAAAAAAAAAAAQ", ["ab", "bc", "ca", "ab"])
ORDERS = topic([(0, 5000), (40, 60)], "AAAAAAAAAAAAAAAAAAAAAg")
ODD = topic([(0, 3), (0, -1)])
TOPICS = {"clicks": CLICKS, "orders": ORDERS, 'a"b\\c\nd{e="f"} é': ODD}
EVEN = {"app/1-aa": {"clicks": [0, 1]}, "app/2-bb": {"clicks": [2, 3]}}


def of_all_kinds() -> list[DescribedGroup]:
    """A group of each kind, and two with strange names or without members."""
    return [
        classic("shop", EVEN, offsets("clicks", 90, 90, 2, -1), wants=["clicks"]),
        consumer("next", 5, {"n1": {"clicks": [0, 1, 2, 3]}, "n2": {"orders": [0, 1]}},
                 {**offsets("clicks", 100, 90, 80, 69), **offsets("orders", 10, 60)}, IDS),
        streams("enrich", 3, {"a1": ([0, 1], [2], []), "b1": ([2, 3], [0], [1])}),
        share("workers", {"w1": {"orders": [0, 1]}, "w2": {"orders": [0]}}),
        classic("nightly", {}, offsets("orders", 4000, 60), state="Empty", assignor=None),
        classic("export", {}, offsets("clicks", 1, 2), state="Empty", assignor=None, kind="simple"),
        classic('a"b\\c\nd{e="f"} é', {'x"/y': {"clicks": [0]}, "x/z": {"clicks": [0, 1, 2, 3]}},
                {('a"b\\c\nd{e="f"} é', 0): 1, **offsets("clicks", 100, 200)}),
    ]  # fmt: skip


def first_round(patch: pytest.MonkeyPatch) -> str:
    """Every path before and after the first round, without personal data."""
    played = Played(patch, ServerSettings(tail=False))
    for path in ("/readyz", "/api/v1/groups", "/", "/nowhere", "/api/v1/groups/shop"):
        played.get(path)
    played.round(of_all_kinds(), TOPICS)
    for path in ("/readyz", "/healthz", "/metrics", "/api/v1/groups", "/api/v1/switch"):
        played.get(path)
    played.get("/api/v1/groups/shop")
    played.get("/api/v1/groups/shpo")
    played.get('/api/v1/groups/a"b\\c\nd{e="f"} é')
    return played.text


FOLDER = Path(__file__).parent / "golden"
SCENES = {"first_round": first_round}


@pytest.mark.golden
def test_a_server_answers_what_it_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    hold(FOLDER, "first_round", first_round, monkeypatch)


if __name__ == "__main__":
    write(FOLDER, SCENES, sys.argv[1:])
