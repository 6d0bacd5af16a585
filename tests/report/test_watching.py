"""The live view names members as people do, and tells a move from a new name."""

from __future__ import annotations

from typing import Any

from apportion.model.group_json import read_group
from apportion.report.watching import View
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting


def standing(members: dict[str, Any]) -> Sighting:
    topics = {"clicks": [{"partition": p, "begin": 0, "end": 100, "committed": 10} for p in range(4)]}
    return Sighting(read_group({"group": "g", "topics": topics, "members": members}), state="Stable")


def member(client: str, *owned: int) -> dict[str, Any]:
    return {"client_id": client, "topics": ["clicks"], "owned": {"clicks": list(owned)}, "generation": 1}


def test_a_second_member_of_the_same_client_id_moves_nothing() -> None:
    view = View()
    view.take(standing({"pod-1111": member("pod", 0, 1, 2, 3)}), 0.0)
    assert "\npod  #" in view.text()
    view.take(standing({"pod-1111": member("pod", 0, 1, 2, 3), "pod-2222": member("pod")}), 2.0)
    assert view.changes == ["00:00:02  joined: pod-2222"]
    assert "\npod-1111  #" in view.text()


def test_names_that_a_terminal_would_obey_keep_the_columns_and_the_end_of_a_sentence() -> None:
    view = View()
    hostile = "b" * 30 + "\x1b[2J\u202e"
    view.take(standing({hostile: {**member(hostile), "owned": {}}, "a": member("a", 0, 1, 2, 3)}), 0.0)
    lines = view.text(width=140).splitlines()
    bars = [line for line in lines if line.endswith((" 4 partitions", " 0 partitions"))]
    assert len(bars) == 2
    assert len({line.rindex(" partition") for line in bars}) == 1
    lines = view.text(width=60).splitlines()
    assert all(line.isprintable() and len(line) <= 60 for line in lines)
    assert "b" * 30 + "\\x1b[2J\\u202e." in "".join(line.strip() for line in lines)


def test_what_is_odd_is_told_to_the_end_however_narrow_the_terminal_is() -> None:
    view = View()
    view.take(standing({"a" * 30: member("a" * 30, 0, 1, 2, 3), "b" * 30: member("b" * 30)}), 0.0)
    told = " ".join(view.text(width=60).split())
    assert view.standing is not None
    assert all(sentence in told for sentence in Judged(view.standing).odd)
    assert all(len(line) <= 60 for line in view.text(width=60).splitlines())
