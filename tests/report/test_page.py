"""The page is opened in a real browser: what it shows is what the JSON says, and it asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.report.browser import binary

import apportion
from apportion.model.group_json import read_group
from apportion.report import page
from apportion.report.group_data import MOST_ROWS, group_data
from apportion.sighting.judged import Judged
from apportion.sighting.oddities import member_label
from apportion.sighting.sighting import Sighting

HOSTILE = "</script><script>alert(1)</script>&<b>"


def one_group(name: str, partitions: int = 6, members: int = 3) -> dict[str, Any]:
    entries = [
        {"partition": p, "racks": ["abc"[p % 3]], "begin": 0, "end": 1000 * (p + 1), "committed": 10 * p}
        for p in range(partitions)
    ]
    return {
        "group": name,
        "topics": {"clicks": entries},
        "members": {
            f"consumer-{m}": {
                "instance_id": f"pod-{m}",
                "rack": "abc"[m],
                "topics": ["clicks"],
                "owned": {"clicks": [p for p in range(partitions) if p % members == m]},
                "generation": 3,
            }
            for m in range(members)
        },
    }


def page_data(name: str) -> dict[str, Any]:
    group = read_group(one_group(name))
    owners = [{("clicks", p): f"pod-{(p + shift) % 3}" for p in range(6)} for shift in (0, 0, 1)]
    history = [
        {
            "generation": g + 1,
            "at": f"2026-01-01T00:0{g}:00Z",
            "cause": "join",
            "members": 3,
            "moved": 6 if g == 2 else 0,
            "kept": 0 if g == 2 else 6,
            "given": 0,
            "needless": 5 if g == 2 else 0,
            "owners": held,
        }
        for g, held in enumerate(owners)
    ]
    plans = [apportion.plan(group, name) for name in ("roundrobin",)]
    replays = [{"assignor": "range", "moves": [0, 0, 2]}]
    return group_data(Judged(Sighting(group, "Stable")), plans, history=history, replays=replays)


def in_browser(path: Path, profile: Path) -> tuple[str, str]:
    """The document after its script ran, and what the browser logged."""
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    quiet = "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=8000 --dump-dom"
    command = [binary(), *flags.split(), *quiet.split(), f"--user-data-dir={profile}", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


@pytest.mark.browser
@pytest.mark.parametrize("packed", [False, True])
def test_the_browser_shows_the_numbers_of_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    if packed:
        monkeypatch.setattr(page, "PACK_ABOVE", 10)
    data = page_data(HOSTILE)
    path = tmp_path / "page.html"
    path.write_text(page.render([data], title=HOSTILE, source="a test", at="2026-01-01T00:00:00Z"), encoding="utf-8")
    document, log = in_browser(path, tmp_path / "profile")
    assert "CONSOLE" not in log, log
    assert "alert(1)</b>" not in document
    assert html.escape(HOSTILE, quote=False) in document
    texts = {html.unescape(text) for text in re.findall(r">([^<>]+)<", document)}
    total = sum(data["lag"])
    assert f"{total:,}" in texts
    assert {"roundrobin", "range", "pod-0", "pod-1", "pod-2", "clicks-0", "00:02:00"} <= texts
    assert "clicks-0, generation 3: pod-1, moved from pod-0" in texts
    for plan in data["plans"]:
        assert f"{plan['measures']['lag_max']:,}" in texts
    for figure in ("lag", "tradeoff", "racks", "handover", "timeline", "owners", "strategies"):
        assert f'id="picture-{figure}"' in document


@pytest.mark.browser
def test_the_page_shows_what_each_member_holds_for_its_capacity(tmp_path: Path) -> None:
    raw = one_group("g")
    raw["members"]["consumer-0"]["capacity"] = 4
    group = read_group(raw)
    data = group_data(Judged(Sighting(group)), [apportion.plan(group, name) for name in ("roundrobin", "sticky")])
    assert data["capacity"] == [4, 1, 1]
    path = tmp_path / "page.html"
    path.write_text(page.render([data], title="t", source="s", at=""), encoding="utf-8")
    document, log = in_browser(path, tmp_path / "profile")
    assert "CONSOLE" not in log, log
    texts = [html.unescape(text) for text in re.findall(r">([^<>]+)<", document)]
    assert "Load² / capacity" in texts
    assert [text for text in texts if " / 1)" in text or " / 4)" in text] == ["2 (2 / 1)", "2 (2 / 1)", "0.5 (2 / 4)"]
    # 2²/4 + 2² + 2² with round robin, 4²/4 + 1 + 1 with sticky: the star is at the smaller one.
    rows = [re.sub(r"<[^>]*>", " ", row).split() for row in re.findall(r"<tr[^>]*>.*?</tr>", document)]
    starred = {row[0]: "6 *" in " ".join(row) for row in rows if row[:1] in (["roundrobin"], ["sticky"])}
    assert starred == {"roundrobin": False, "sticky": True}
    assert group_data(Judged(Sighting(read_group(one_group("g")))), [])["capacity"] is None


@pytest.mark.browser
@pytest.mark.parametrize("lag", [True, False])
def test_the_lag_bound_is_spoken_of_where_there_is_one(tmp_path: Path, lag: bool) -> None:
    raw = one_group("g")
    if not lag:
        raw["topics"] = {topic: len(entries) for topic, entries in raw["topics"].items()}
    group = read_group(raw)
    path = tmp_path / "page.html"
    data = group_data(Judged(Sighting(group)), [apportion.plan(group, "sticky")])
    path.write_text(page.render([data], title="t", source="s", at=""), encoding="utf-8")
    document, _ = in_browser(path, tmp_path / "profile")
    assert "Lag bound" not in document
    bounds = re.findall(r"No plan can bring the heaviest member below ([0-9,]+) messages?\.", document)
    assert bounds == ([f"{data['plans'][0]['measures']['lag_bound']:,}"] if lag else [])


@pytest.mark.browser
def test_every_picture_has_its_words_for_a_screen_reader(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page.render([page_data("g")], title="t", source="s", at=""), encoding="utf-8")
    document, _ = in_browser(path, tmp_path / "profile")
    pictures = re.findall(r"<svg [^>]*>", document)
    assert pictures
    assert all('role="img"' in picture and 'aria-label="' in picture for picture in pictures)
    assert document.count("<summary>The numbers") == len(pictures)


def test_the_page_may_load_nothing_and_names_no_address() -> None:
    text = page.render([page_data("g")], title="t", source="s", at="")
    assert "default-src 'none'" in text
    assert "script-src 'sha256-" in text
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, addresses


def test_names_that_look_like_gaps_of_the_page_stay_names() -> None:
    text = page.render([page_data("{{SCRIPT}}")], title="{{DATA}}", source="{{POLICY}}", at="{{STYLE}}")
    assert "<title>{{DATA}}</title>" in text
    held = re.findall(r'<script type="application/x-ndjson" id="data">(.*?)</script>', text, re.DOTALL)
    data, row, group = map(json.loads, held[0].split("\n"))
    assert row["group"] == group["group"]
    assert [group["group"], data["title"], data["source"]] == ["{{SCRIPT}}", "{{DATA}}", "{{POLICY}}"]
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_the_same_data_gives_the_same_page() -> None:
    first, second = (page.render([page_data("g")], title="t", source="s", at="") for _ in range(2))
    assert first == second


def test_a_long_history_shows_the_partitions_that_moved_first() -> None:
    owners = [{("t", p): "a" if g == 0 or p % 2 else "b" for p in range(2 * MOST_ROWS)} for g in range(2)]
    group = read_group(one_group("g"))
    data = group_data(
        Judged(Sighting(group)), [], history=[{"generation": g, "owners": held} for g, held in enumerate(owners)]
    )
    assert len(data["history"]["rows"]) == MOST_ROWS
    assert data["history"]["left_out"] == MOST_ROWS
    assert all(row[0] != row[1] for row in data["history"]["owners"])


def test_a_member_is_called_by_its_instance_else_by_a_client_id_of_its_own() -> None:
    members = {
        "m1": {"instance_id": "pod-0", "topics": []},
        "m2": {"client_id": "lonely", "topics": []},
        "m3": {"client_id": "same", "topics": []},
        "m4": {"client_id": "same", "topics": []},
    }
    group = read_group({"topics": {}, "members": members})
    assert [member_label(group, m) for m in range(4)] == ["pod-0", "lonely", "m3", "m4"]


def test_a_group_among_thousands_is_packed_with_each_nought_of_its_plans() -> None:
    """A nought is a figure; what is not known is null."""
    group = page_data("g")
    packed = page.packed_group({**group, "row": group.get("row") or {}})
    measures = packed["plans"]["measures"]
    for at, plan in enumerate(group["plans"]):
        assert {name: values[at] for name, values in measures.items() if name in plan["measures"]} == plan["measures"]
    assert any(0 in values for values in measures.values())
    assert packed["history"]["rebalances"]["moved"] == [one["moved"] for one in group["history"]["rebalances"]]
