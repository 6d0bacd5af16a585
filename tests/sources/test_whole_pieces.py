"""Pieces that readers are made of, whole: a batch of the log's tail, a group's world, the ids that brokers give."""

from __future__ import annotations

import sys
from base64 import urlsafe_b64encode
from pathlib import Path
from uuid import UUID, uuid4

import pytest

import apportion.demo
from apportion import sources
from apportion.errors import MissingExtra
from apportion.sources import kaf, load_history, sniff
from apportion.sources.cluster import topic_id_text
from apportion.sources.printed import Row

DEMO = Path(apportion.demo.__file__).parent / "dump"


def test_an_id_of_a_topic_is_twenty_two_characters_whatever_form_the_broker_gave_it() -> None:
    for some in (uuid4(), UUID(int=1), UUID(int=2**128 - 1)):
        text = urlsafe_b64encode(some.bytes).decode().rstrip("=")
        assert topic_id_text(some) == topic_id_text(str(some)) == text
        assert len(text) == 22
    for none in (None, UUID(int=0), str(UUID(int=0))):
        assert topic_id_text(none) is None


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
