"""What a reader of the page sees first, on a phone, on paper and without a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from tests.report.browser import Browser
from tests.report.many_groups import different_groups
from tests.report.test_page import one_group, page_data
from tests.report.test_page_in_use import with_row, written

from apportion.comparison import every_plan
from apportion.model.group_json import read_group
from apportion.report.group_data import group_data
from apportion.report.page import MOST_PLAIN
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting

HEADS = """[...document.querySelectorAll('#groups thead th')]
  .filter((cell) => cell.offsetParent).map((cell) => cell.innerText.trim().replace(/ [▾▴]/, ''))"""
PAPER_WIDTH = 718
"""CSS pixels between the margins of an A4 sheet."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


def diagnosed(kind: str) -> dict[str, Any]:
    """A group with a past, whose diagnosis is of this kind."""
    group = page_data("g")
    diagnosis = {"kind": kind, "sentence": "So it is."}
    return with_row({**group, "diagnosis": diagnosis}, diagnosis=diagnosis)


def test_the_group_in_the_most_trouble_is_open_though_it_has_no_members(browser: Browser, tmp_path: Path) -> None:
    empty = read_group(
        {"group": "z", "topics": {"t": [{"partition": 0, "end": 9, "committed": 1}]}, "members": {}}, empty=True
    )
    nobody_reads = group_data(Judged(Sighting(empty, "Empty")), [])
    assert nobody_reads["verdict"] == "ERR"
    warned = with_row(page_data("a"), verdict="WARN", lag=10**9)
    browser.open(written(tmp_path, [warned, nobody_reads]), 1280)
    assert browser.js("document.getElementById('name').textContent") == "z"


def test_the_list_says_why_a_group_is_not_ok(browser: Browser, tmp_path: Path) -> None:
    groups = [
        with_row(page_data("a"), verdict="WARN", why=["It rebalanced 8 times in 9 s.", "Second."]),
        with_row(page_data("b"), verdict="OK", why=["Two members are idle."]),
    ]
    browser.open(written(tmp_path, groups), 1280)
    heads = browser.js(HEADS)
    assert heads[:4] == ["Group", "Verdict", "Why", "Lag"]
    assert not {"Moved", "Needless"} & set(heads)
    cells = browser.js("[...document.querySelectorAll('#groups .why')].map((cell) => [cell.innerText, cell.title])")
    assert cells[0] == ["It rebalanced 8 times in 9 s.", "It rebalanced 8 times in 9 s. Second."]
    assert "idle" not in cells[1][0]
    assert browser.js("document.getElementById('facts').innerText").count("Partitions moved") == 1


def test_a_column_that_says_nothing_of_the_groups_in_sight_is_hidden(browser: Browser, tmp_path: Path) -> None:
    groups = [with_row(page_data("known"), behind_s=70), page_data("unknown")]
    browser.open(written(tmp_path, groups), 1280)
    assert "Behind" in browser.js(HEADS)
    find = "(() => { const f = document.getElementById('find'); f.value = %r; f.dispatchEvent(new Event('input')); })()"
    browser.js(find % "unknown")
    assert "Behind" not in browser.js(HEADS)
    browser.js(find % "")
    assert "Behind" in browser.js(HEADS)


@pytest.mark.parametrize(
    ("kind", "first"), [("rebalancing", "timeline"), ("hot_partition", "lag"), ("unknown", "strategies")]
)
def test_pictures_of_what_the_diagnosis_is_about_come_first(
    browser: Browser, tmp_path: Path, kind: str, first: str
) -> None:
    browser.open(written(tmp_path, [diagnosed(kind)]), 1280)
    figures = browser.js("[...document.querySelectorAll('figure')].map((one) => one.id.replace('picture-', ''))")
    assert figures[0] == first
    assert {"strategies", "lag", "timeline", "owners", "tradeoff"} <= set(figures)


def test_the_heading_of_the_chosen_group_is_at_the_top(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(tmp_path, different_groups(30)), 1280)
    browser.js("document.querySelectorAll('#groups tbody a')[12].click()")
    sleep(1.5)  # the page glides there
    assert 0 <= browser.js("document.getElementById('name').getBoundingClientRect().top") <= 24
    assert browser.js("document.activeElement.id") == "name"


def test_an_explanation_is_below_its_picture_when_somebody_opens_it(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [page_data("g")]), 1280)
    figure = "document.querySelector('#picture-owners')"
    assert browser.js(f"{figure}.querySelector('figcaption').innerText") == "Owners over the generations"
    browser.js(f"{figure}.querySelector('details').open = true; new Promise((drawn) => setTimeout(drawn, 200))")
    assert "Each row is a partition" in browser.js(f"{figure}.querySelector('details').innerText")


def test_a_phone_shows_the_strategies_that_differ_from_now_and_names_the_others(
    browser: Browser, tmp_path: Path
) -> None:
    group = read_group(one_group("g"))
    plans = every_plan(group)
    same = {plan.assignor for plan in plans if plan.owner.tolist() == group.owner.tolist()}
    assert same
    path = written(tmp_path, [group_data(Judged(Sighting(group)), plans)])
    rows = """[...document.querySelectorAll('#picture-strategies tbody tr')].filter((row) => row.offsetParent)
      .map((row) => row.cells[0].innerText)"""
    browser.open(path, 390)
    assert len(browser.js(rows)) == 1 + len(plans) - len([p for p in plans if p.assignor in same])
    assert all(name in browser.js("document.querySelector('#picture-strategies .phone').innerText") for name in same)
    browser.open(path, 1280)
    assert len(browser.js(rows)) == 1 + len(plans)


def test_paper_has_every_column_and_whole_pictures(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(tmp_path, different_groups(5)), 1280)
    heads = browser.js(HEADS)
    browser.js("document.documentElement.dataset.theme = 'dark'")
    browser.call("Emulation.setEmulatedMedia", media="print")
    size = {"width": PAPER_WIDTH, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.js("new Promise((drawn) => setTimeout(drawn, 300))")
    try:
        assert browser.js(HEADS) == heads
        cut = """[...document.querySelectorAll('.scroll, .picture')]
          .filter((box) => box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1)
          .map((box) => box.closest('figure, section').id)"""
        assert browser.js(cut) == []
        assert browser.js("document.documentElement.scrollWidth") <= PAPER_WIDTH
        ink = "getComputedStyle(document.body).color"
        assert browser.js(ink) == "rgb(27, 29, 33)", "dark ink, though the screen is dark"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


def test_without_a_script_there_is_a_table_of_the_groups_with_every_reason(browser: Browser, tmp_path: Path) -> None:
    count = MOST_PLAIN + 2
    groups = [with_row(page_data(f"g{i}"), verdict="OK", why=[]) for i in range(count - 1)]
    groups.append(with_row(page_data("<b>last"), verdict="ERR", why=["First & worst.", "Second."], behind_s=None))
    path = written(tmp_path, groups)
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.navigate", url=path.as_uri())
        sleep(1)  # the page draws what it was told
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    names = [node["name"]["value"] for node in nodes if node["role"]["value"] == "StaticText"]
    table = names[names.index("Group") :]
    assert table[table.index("<b>last") : table.index("<b>last") + 4] == [
        "<b>last", "ERR", "First & worst.", "Second.",
    ]  # fmt: skip
    assert table.index("<b>last") < table.index("g0"), "the worst first"
    assert "2 more groups are not in this table." in names
    assert "t" in names, "the page's title"
    assert not {"Dark or light", "Find"} & set(names), "nothing that only a script can do"
