"""Streams and share groups as people see them: tasks by process on the terminal and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.browser import Browser

from apportion.cli import main
from apportion.history.records import GenerationMember
from apportion.report import page_groups
from apportion.sighting.roles import PROGRESS, sentences
from apportion.sources import dump

DUMP = Path(__file__).parents[1] / "data" / "task_groups"


def described(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["describe", str(DUMP), *args]) == 0
    return capsys.readouterr().out


def test_describe_names_each_process_with_what_it_runs_and_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    text = described(capsys, "--group", "enrich")
    rows = [line.split() for line in text.splitlines() if "StreamThread" in line and "-" in line.split()[0]]
    tasks = {row[2].split("-Stream")[0] + row[2][-10]: row[3:] for row in rows if len(row[0]) == 36}
    assert len(tasks) == 3
    assert tasks["pod-31"] == ["0(5),", "1(4,5),", "2(2,3,5)", "0(0-4),", "1(0-3)", "-"]
    assert "Uneven" not in text, "six tasks each is even, whatever number of partitions they read"


def test_a_share_group_says_where_its_progress_lies(capsys: pytest.CaptureFixture[str]) -> None:
    text = described(capsys, "--group", "workers")
    assert PROGRESS in text
    assert "SHARED" in text
    assert "no owner" not in text.replace(PROGRESS, "")
    assert "moves cannot be counted" not in text


def test_sentences_tell_uneven_tasks_and_copies_that_keep_nothing_safe() -> None:
    one = GenerationMember("a", process_id="p", roles={"active": {"0": (0, 1, 2)}, "standby": {"0": (4,)}})
    two = GenerationMember("b", process_id="p", roles={"active": {"0": (4,)}})
    uneven, beside = sentences("streams", [one, two])
    assert uneven == "Uneven: members run 1 to 3 active tasks each."
    assert "0_4" in beside
    waiting = GenerationMember("c", client_id="w", roles={"shared": {}, "target": {"jobs": (0, 1)}})
    assert sentences("share", [waiting])[1] == "w shares nothing and is to share jobs(0,1)."
    assert sentences("classic", [one, two]) == []


@pytest.mark.browser
def test_the_page_shows_tasks_and_share_members_and_plans_for_neither(tmp_path: Path) -> None:
    histories = dump.load_histories(DUMP)
    data = [page_groups.of_remembered(group, dump.sighted(group)) for group in histories.living]
    path = tmp_path / "page.html"
    path.write_text(page_groups.page_of(data, "tasks", "dump"), encoding="utf-8")
    browser = Browser(tmp_path / "profile")
    try:
        for name, needed in (("enrich", "pod-3-StreamThread-1-consumer"), ("workers", "jobs(0,2)")):
            browser.open(Path(f"{path}"), 1280)
            browser.js(f"location.hash = '#group={name}'")
            browser.js("new Promise((done) => setTimeout(done, 200))")
            assert needed in browser.js("document.querySelector('#picture-roles').textContent")
            assert browser.js("document.querySelector('#picture-strategies')") is None
        assert browser.complaints() == []
    finally:
        browser.close()
