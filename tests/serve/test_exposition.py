"""A round's text, kept packed: foreign readers unpack what each scrape gets; and what is kept of groups holds."""

from __future__ import annotations

import gzip
import random
import subprocess
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from apportion.serve.answers import Answers
from apportion.serve.collector import Collector
from apportion.serve.derived_state import group_state, group_with_offsets, lag_times_of
from apportion.serve.end_times import AllEnds, Commits
from apportion.serve.exposition import EMPTY, PIECE, Rendered
from apportion.serve.metrics import Renderer
from apportion.serve.past import GroupPast
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import GroupState
from apportion.sources.cluster_round import DescribedGroup, TopicLog
from apportion.sources.config import Connection
from apportion.sources.properties import Properties

from .test_metrics import TOPICS, seen, snapshot

NAMES = [f"g-{n:03}" for n in range(16)] + ["100 % s %s", 'q"\\', "é\r\u2028x", "\ud800"]


def test_a_scrape_is_one_member_of_gzip_that_gzip_and_curl_unpack() -> None:
    rng = random.Random(5)
    texts = [rng.randbytes(rng.randrange(3000)).hex().encode() for _ in range(40)]
    texts[7], texts[-1] = b"0" * 3_000_001, b"1" * (1 << 19)  # of which little input makes several pieces
    rendered = Rendered(texts, 40)
    whole, packed = b"".join(texts), rendered.gzipped(b"and more")
    assert b"".join(rendered.pieces()) == whole
    assert max(map(len, rendered.pieces())) <= PIECE
    assert (rendered.series, rendered.size) == (40, len(whole))
    assert subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True).stdout == whole + b"and more"
    unpacker = zlib.decompressobj(31)
    assert unpacker.decompress(packed) == whole + b"and more"
    assert (unpacker.eof, unpacker.unused_data) == (True, b""), "one member: some readers stop behind the first"
    assert gzip.decompress(EMPTY.gzipped()) == b"".join(EMPTY.pieces()) == b""


def groups(rng: random.Random) -> list[DescribedGroup]:
    """Some of all groups: commits, owners and partitions differ from draw to draw, and often do not."""
    return [
        seen(name, {"clicks": [p for p in range(4) if rng.random() < 0.8]},
             {("clicks", p): rng.randrange(9, 11) for p in range(4) if rng.random() < 0.9})
        for name in NAMES if rng.random() < 0.9
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bound", "personal"), [(500_000, False), (500_000, True), (900, False), (300, True), (7, False)]
)
def test_of_more_series_than_the_bound_those_beyond_it_are_counted(bound: int, personal: bool) -> None:
    drawn, now = groups(random.Random(bound)), time.time()
    settings = ServerSettings(most_series=bound, personal=personal)
    rendered = Renderer(settings).render(snapshot(*drawn, settings=settings, at=now), now)
    every = Renderer(replace(settings, most_series=500_000)).render(snapshot(*drawn, settings=settings, at=now), now)
    text = b"".join(rendered.pieces())
    assert text == gzip.decompress(rendered.gzipped())
    assert (
        sum(1 for line in text.split(b"\n") if line and line[:1] != b"#") == rendered.series == min(bound, every.series)
    )
    assert rendered.series + rendered.left_out == every.series
    assert set(text.splitlines()) <= set(b"".join(every.pieces()).splitlines())


def test_what_is_kept_of_a_group_from_round_to_round_is_what_would_be_worked_out_anew() -> None:
    settings, rng, logs = ServerSettings(), random.Random(3), dict(TOPICS)
    answers = Answers(Collector(replace(settings, tail=False), Connection("127.0.0.1:1", Properties())))
    past, old, kept = GroupPast("g", {}), None, 0
    one = seen("g", {"clicks": [0, 1]}, {("clicks", p): 7 for p in range(4)})
    for turn in range(60):
        draw = rng.randrange(4)
        if draw == 0:
            one = replace(one, committed={("clicks", p): rng.randrange(4, 12) for p in range(rng.randrange(5))})
        elif draw == 1:
            one = seen("g", {"clicks": list(range(rng.randrange(5)))}, one.committed)
        elif draw == 2:
            logs["clicks"] = replace(TOPICS["clicks"], end=np.array([rng.randrange(6, 12) for _ in range(4)]))
        now = _state(one, logs, float(turn), past, old, settings)
        anew = _state(one, logs, float(turn), past, None, settings)
        assert answers._summary("g", now) == answers._summary("g", anew)
        assert (now.odd, now.verdict, now.sighting.total_lag) == (anew.odd, anew.verdict, anew.sighting.total_lag)
        assert (now.distance, now.concentration) == (anew.distance, anew.concentration)
        assert now.sighting.lag.tolist() == anew.sighting.lag.tolist()
        assert now.sighting.group.owner.tolist() == anew.sighting.group.owner.tolist()
        kept += old is not None and now.sighting is old.sighting
        old = now
    assert 10 < kept < 50


def _state(
    one: DescribedGroup,
    logs: Mapping[str, TopicLog],
    at: float,
    past: GroupPast,
    old: GroupState | None,
    settings: ServerSettings,
) -> GroupState:
    """One group at a round."""
    built = group_with_offsets(one, logs, old)
    commits = Commits.none(built.group.P)
    ((times, whole),) = lag_times_of([(built.group, commits, None)], AllEnds({}), at)
    return group_state(one, built, logs, at, past, old, (times, whole), commits, settings, ())
