"""Blocks of compressed text: foreign readers unpack what is made of them, and kept ones are as if written anew."""

from __future__ import annotations

import gzip
import random
import subprocess
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from apportion.inputs.cluster_round import DescribedGroup, TopicLog
from apportion.inputs.config import Connection
from apportion.inputs.properties import Properties
from apportion.serve.answers import Answers, summary
from apportion.serve.collector import Collector
from apportion.serve.end_times import AllEnds, Commits
from apportion.serve.exposition import EMPTY, PIECE, Block, Rendered, block, joined_crc
from apportion.serve.metrics import Renderer
from apportion.serve.past import GroupPast
from apportion.serve.settings import ServerSettings
from apportion.serve.state import GroupState, Snapshot
from apportion.serve.states import entries_of, group_state, group_with_offsets, lag_times_of

from .test_metrics import TOPICS, seen, snapshot

NAMES = [f"g-{n:03}" for n in range(16)] + ["100 % s %s", 'q"\\', "é\r\u2028x", "\ud800"]


def test_blocks_are_one_member_of_gzip_that_gzip_and_curl_unpack(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = [rng.randbytes(rng.randrange(3000)).hex().encode() for _ in range(40)]
    texts[7], texts[-1] = b"0" * 3_000_001, b"1" * (1 << 19)  # of which little input makes several pieces
    rendered = Rendered.of([block(text, 1) for text in texts], 0)
    whole, packed = b"".join(texts), rendered.gzipped(b"and more")
    assert b"".join(rendered.pieces()) == whole
    assert max(map(len, rendered.pieces())) <= PIECE
    assert (rendered.series, rendered.size) == (40, len(whole))
    assert subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True).stdout == whole + b"and more"
    unpacker = zlib.decompressobj(31)
    assert unpacker.decompress(packed) == whole + b"and more"
    assert (unpacker.eof, unpacker.unused_data) == (True, b""), "one member: some readers stop behind the first"
    assert gzip.decompress(EMPTY.gzipped()) == b"".join(EMPTY.pieces()) == b""


@pytest.mark.parametrize("size", [0, 1, 2, 255, 65_537, 1_000_003])
def test_the_checksum_of_two_texts_follows_from_theirs(size: int) -> None:
    one, other = b"first text", bytes(range(251)) * (size // 251 + 1)
    assert joined_crc(zlib.crc32(one), zlib.crc32(other[:size]), size) == zlib.crc32(one + other[:size])


def groups(rng: random.Random) -> list[DescribedGroup]:
    """Some of all groups: commits, owners and partitions differ from draw to draw, and often do not."""
    return [
        seen(name, {"clicks": [p for p in range(4) if rng.random() < 0.8]},
             {("clicks", p): rng.randrange(9, 11) for p in range(4) if rng.random() < 0.9})
        for name in NAMES if rng.random() < 0.9
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apportion.serve.metrics._RUN", 4)


@pytest.mark.parametrize(
    ("bound", "personal"), [(500_000, False), (500_000, True), (900, False), (300, True), (7, False)]
)
def test_what_is_written_from_kept_blocks_is_what_would_be_written_anew(bound: int, personal: bool) -> None:
    settings = ServerSettings(most_series=bound, personal=personal)
    rng, kept, now = random.Random(bound), Renderer(settings), time.time()
    for turn in range(3):
        shown = snapshot(*groups(rng), settings=settings, at=now + turn)
        for again in (shown, replace(shown, brokers=turn)):
            rendered, anew = kept.render(again, now + turn), Renderer(settings).render(again, now + turn)
            text = b"".join(rendered.pieces())
            assert text == b"".join(anew.pieces()) == gzip.decompress(rendered.gzipped())
            assert (rendered.series, rendered.left_out) == (anew.series, anew.left_out)
            assert sum(1 for line in text.split(b"\n") if line and line[:1] != b"#") == rendered.series <= bound


def test_of_groups_that_stay_nothing_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServerSettings()
    rng, renderer, now = random.Random(1), Renderer(settings), time.time()
    drawn = groups(rng)
    shown = snapshot(*drawn, settings=settings, at=now)
    first = renderer.render(shown, now)
    texts: list[bytes] = []

    def noted(text: bytes, series: int = 0) -> Block:
        texts.append(text)
        return block(text, series)

    monkeypatch.setattr("apportion.serve.metrics.block", noted)
    assert renderer.render(shown, now).deflated == first.deflated
    assert texts == []
    moved = [replace(one, committed={("clicks", 0): 2}) if one.name == NAMES[9] else one for one in drawn]
    renderer.render(_with(shown, snapshot(*moved, settings=settings, at=now), NAMES[9]), now)
    assert 0 < sum(map(len, texts)) < first.size / 2


def _with(one: Snapshot, other: Snapshot, name: str) -> Snapshot:
    """A snapshot with one group as another has it."""
    return replace(one, groups={**one.groups, name: other.groups[name]})


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
        assert answers._summary("g", now) == summary(now) == summary(anew)
        assert (now.odd, now.verdict, now.total_lag) == (anew.odd, anew.verdict, anew.total_lag)
        assert (now.distance, now.concentration) == (anew.distance, anew.concentration)
        assert now.lag.tolist() == anew.lag.tolist()
        assert now.shown.group.owner.tolist() == anew.shown.group.owner.tolist()
        kept += old is not None and now.shown is old.shown
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
    built = group_with_offsets(one, entries_of(logs), old)
    commits = Commits.none(built.group.P)
    ((times, whole),) = lag_times_of([(built.group, commits, None)], AllEnds({}), at)
    return group_state(one, built, at, past, old, (times, whole), commits, settings, ())
