"""Pieces that readers are made of, whole: a batch of the log's tail, a group's world, the ids that brokers give."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import apportion.demo
from apportion import sources
from apportion.errors import MissingExtra
from apportion.sources import kaf, load_history, sniff
from apportion.sources.printed import Row

DEMO = Path(apportion.demo.__file__).parent / "dump"


@pytest.mark.parametrize("folder", ["dump", "tables"])
def test_a_folder_that_no_library_is_there_for_names_the_extra(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = DEMO
    if folder == "tables":
        path = tmp_path
        (path / "silver").mkdir()
    monkeypatch.delattr(sources, "dump", raising=False)
    monkeypatch.setitem(sys.modules, "apportion.sources.dump", None)
    with pytest.raises(MissingExtra) as refused:
        load_history.reader_of(path)
    assert refused.value.extra == "spark"
    assert str(refused.value).startswith(f"Reading a {sniff.folder_kind(str(path))} needs a library")


KAF = """Group ID:     shop
State:        Stable
Members:
    idle:
        Host: /10.0.0.1
    busy:
        Host: /10.0.0.2
        Assignments:
            clicks [0 2]
"""


def test_kafs_members_have_a_row_each_and_one_for_each_topic_that_they_hold() -> None:
    rows = [event.fields for event in kaf.events(KAF.splitlines()) if isinstance(event, Row)]
    assert rows == [
        {"CLIENT-ID": "idle", "HOST": "/10.0.0.1", "TOPIC": "-", "NUMBERS": "-"},
        {"CLIENT-ID": "busy", "HOST": "/10.0.0.2", "TOPIC": "-", "NUMBERS": "-"},
        {"CLIENT-ID": "busy", "HOST": "/10.0.0.2", "TOPIC": "clicks", "NUMBERS": "0,2"},
    ]
