"""The page as people use it: on a phone, with the keyboard, with thousands of groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.report.browser import Browser
from tests.report.many_groups import different_groups
from tests.report.test_page import one_group, page_data

import apportion
from apportion import rollouts, whatif
from apportion.model.group_json import read_group
from apportion.report import page
from apportion.report.group_data import group_data
from apportion.report.rollouts import page_data as rollout_page
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


def written(folder: Path, groups: list[dict[str, Any]]) -> Path:
    path = folder / "page.html"
    path.write_text(page.render(groups, title="t", source="s", at="2026-01-01T00:00:00Z"), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    groups = [page_data("g"), page_data("a-group-with-a-very-long-name." * 6)]
    for one in groups[0]["history"]["rebalances"]:
        one["cause"] = "rolling 3 of 3: a-member-with-a-long-name-3 comes back"
    path = written(tmp_path, groups)
    browser.open(path, width)
    assert browser.js("document.documentElement.scrollWidth") <= width
    cut = """[...document.querySelectorAll("svg")].flatMap((picture) => [...picture.querySelectorAll("text")]
      .filter((text) => { const t = text.getBoundingClientRect(), p = picture.getBoundingClientRect();
        return t.left < p.left - 2 || t.right > p.right + 2 || t.top < p.top - 2 || t.bottom > p.bottom + 2; })
      .map((text) => text.textContent))"""
    assert browser.js(cut) == [], "texts that their picture cuts off"
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [360, 1280])
def test_the_pictures_of_a_switch_fit_and_their_numbers_open(browser: Browser, tmp_path: Path, width: int) -> None:
    """A topic's greatest share on one member is written beside its bars, and stands in the table below."""
    raw = one_group("g", partitions=5, members=3)
    traps = ["group.consumer.migration.policy=disabled " * 3]
    told = {
        "advice": ["Stay."],
        "traps": traps,
        "history": {
            "generations": 5,
            "recorded": 28,
            "broker-uniform": 22,
            "broker-range": 28,
            "sticky": 22,
            "stopped": 45,
        },
    }
    data = group_data(Judged(Sighting(read_group(raw))), [])
    lopsided = [0 for _ in data["owner"]]
    browser.open(written(tmp_path, [{**data, "switch": {**told, "online": data["owner"], "fresh": lopsided}}]), width)
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert "100 %" in browser.js("document.querySelector('#picture-switch-shares svg').textContent")
    browser.js("document.querySelector('#picture-switch-moves details').open = true")
    rows = "document.querySelector('#picture-switch-moves details table')?.textContent ?? ''"
    browser.js("new Promise((done) => setTimeout(done, 200))")
    assert "range (broker)28" in browser.js(rows)
    assert browser.complaints() == []


def test_choosing_a_strategy_keeps_the_keyboard_where_it_is(browser: Browser, tmp_path: Path) -> None:
    group = read_group(one_group("g"))
    plans = [apportion.plan(group, name) for name in ("range", "roundrobin")]
    browser.open(written(tmp_path, [group_data(Judged(Sighting(group)), plans)]), 1280)
    browser.js("document.querySelector('#picture-lag select').focus()")
    first = browser.js("document.querySelector('#picture-lag svg').getAttribute('aria-label')")
    browser.js(
        "(() => { const s = document.activeElement; s.selectedIndex = 1 - s.selectedIndex;"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert browser.js("document.querySelector('#picture-lag svg').getAttribute('aria-label')") != first
    assert browser.js("document.activeElement.closest('figure').id") == "picture-lag"


def test_a_group_is_found_sorted_and_opened_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [page_data(f"group-{i}") for i in range(3)]), 1280)
    browser.js("document.querySelector('#groups th button').focus()")
    browser.enter()
    browser.enter()
    assert browser.js("document.querySelector('#groups th').getAttribute('aria-sort')") == "descending"
    assert browser.js("document.querySelector('#groups tbody a').textContent") == "group-2"
    browser.js("document.querySelector('#groups tbody a').focus()")
    browser.enter()
    browser.js("new Promise((done) => setTimeout(done, 50))")
    assert browser.js("document.activeElement.textContent") == "group-2"
    assert browser.js("document.querySelectorAll('#groups tr[aria-current]').length") == 1


def test_names_that_a_screen_would_obey_or_hide_are_shown_as_they_are_written(browser: Browser, tmp_path: Path) -> None:
    """A right-to-left override in a name turns round all that follows it in its line, our own words too."""
    odd = ["a\u202egpj.exe", "b\x1b[2J", "c\u200b\U000e0041", "d \u00e9\u05d0 \U0001f6d2" + "\U0001f6d2" * 40]
    raw = {"group": "g\u202ex", "topics": {"t\u2066": len(odd) + 1}, "members": {}}
    raw["members"] = {name: {"topics": ["t\u2066"], "owned": {"t\u2066": [i]}} for i, name in enumerate(odd)}
    group = read_group(raw)
    drawn = group_data(Judged(Sighting(group, notes=["One of g\u202ex is idle."])), [apportion.plan(group, "range")])
    text = page.render([drawn, page_data("h")], title="T\u202e", source="s\u202e", at="2026-01-01T00:00:00Z")
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    browser.open(path, 1280, "#group=" + quote("g\u202ex"))
    browser.js("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.js("new Promise((done) => setTimeout(done, 200))")
    shown = browser.js(
        "document.body.innerText + [...document.querySelectorAll('svg')].map((s) => s.textContent).join()"
    )
    read = browser.js(
        "[...document.querySelectorAll('[title], [aria-label]')].map((n) => n.title + n.ariaLabel).join()"
    )
    assert not set(shown + read + browser.js("document.title")) & set("\u202e\u2066\x1b\u200b\U000e0041\ufffd")
    for name in ("a\\u202egpj.exe", "b\\x1b[2J", "c\\u200b\\U000e0041", "d \u00e9\u05d0 \U0001f6d2", "t\\u2066-0"):
        assert name in shown, name
    assert browser.js("document.getElementById('name').textContent") == "g\\u202ex"
    assert browser.js("document.getElementById('title').textContent") == "T\\u202e"
    assert "One of g\\u202ex is idle." in shown
    assert browser.complaints() == []


def with_row(group: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A group with other fields in its row of the list."""
    return {**group, "row": {**group["row"], **fields}}


def listed(browser: Browser) -> list[str]:
    """The groups of the list, from above."""
    names: list[str] = browser.js("[...document.querySelectorAll('#groups tbody a')].map((a) => a.textContent)")
    return names


def test_trouble_comes_first_and_the_count_of_a_verdict_shows_those_groups_alone(
    browser: Browser, tmp_path: Path
) -> None:
    verdicts = {"a": "OK", "b": "WARN", "c": "ERR", "d": "WARN"}
    behind = {"a": 900, "b": 5, "c": None, "d": 60}
    groups = [
        with_row(page_data(name), verdict=verdict, behind_s=behind[name], trend=1.5, catch_up_s=None)
        for name, verdict in verdicts.items()
    ]
    browser.open(written(tmp_path, groups), 1280)
    assert listed(browser) == ["c", "d", "b", "a"]
    assert browser.js("document.getElementById('name').textContent") == "c", "it is drawn first too"
    heads, row = (
        browser.js(f"[...document.querySelectorAll('#groups {line} > *')].map((cell) => cell.innerText.trim())")
        for line in ("thead tr", "tbody tr:nth-child(2)")
    )
    shown = dict(zip(heads, row, strict=True))
    assert [shown[name] for name in ("Behind", "Trend", "Caught up")] == ["60 s", "+1.5/s", "never"]
    press = "[...document.querySelectorAll('#verdicts button')].find((b) => b.textContent === 'WARN 2').click()"
    browser.js(press)
    assert listed(browser) == ["d", "b"]
    assert browser.js("document.querySelector('#verdicts [aria-pressed=true]').textContent") == "WARN 2"
    browser.js(press)
    assert len(listed(browser)) == 4
    assert browser.complaints() == []


def test_a_group_is_found_by_its_topic_and_by_its_member_and_seen_beside_the_others_of_the_topic(
    browser: Browser, tmp_path: Path
) -> None:
    groups = [page_data(name) for name in ("one", "two")]
    others = [f"other-{t}" for t in groups[1]["topics"]]
    topics = [[f"other-{name}", *more] for name, *more in groups[1]["row"]["topics"]]
    groups[1] = with_row({**groups[1], "topics": others}, topics=topics)
    groups[0] = with_row(groups[0], who=["ann", *groups[0]["row"]["who"][1:]])
    browser.open(written(tmp_path, groups), 1280)
    find = (
        "document.getElementById('find').value = %s; document.getElementById('find').dispatchEvent(new Event('input'))"
    )
    for wanted, group in (("other-", "two"), ("ANN", "one")):
        browser.js(find % json.dumps(wanted))
        assert listed(browser) == [group]
    browser.js(find % json.dumps("other-"))
    browser.js("document.getElementById('topics').open = true; new Promise((done) => setTimeout(done, 50))")
    rows = browser.js("[...document.querySelectorAll('#topics tbody tr')].map((row) => row.innerText.split('\t'))")
    assert {row[0] for row in rows} == set(groups[1]["topics"])
    assert {row[1] for row in rows} == {"two"}
    lag_of = dict.fromkeys(groups[1]["topics"], 0)
    for topic, lag in zip(groups[1]["topic_of"], groups[1]["lag"], strict=True):
        lag_of[groups[1]["topics"][topic]] += lag
    assert {row[0]: int(row[3].replace(",", "")) for row in rows} == lag_of


def test_a_table_that_goes_on_says_so_and_goes_there_until_its_end_is_seen(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, [page_data("g"), page_data("h")])
    more = "new Promise((done) => setTimeout(done, 200)).then(() => %s.hasAttribute('data-more'))"
    box = "document.getElementById('groups').parentElement"
    browser.open(path, 390)
    assert browser.js(more % box) is True
    button = f"{box}.querySelector('.more')"
    assert browser.js(f"{button}.innerText") == "More columns →"
    inside = f"(() => {{ const a = {button}.getBoundingClientRect(), b = {box}.getBoundingClientRect();"
    assert browser.js(f"{inside} return a.left >= b.left && a.right <= b.right + 1 && a.bottom <= b.bottom + 1; }})()")
    browser.js(f"{button}.click(); new Promise((done) => setTimeout(done, 900))")
    assert browser.js(f"{box}.scrollLeft") > 100
    browser.js(f"{box}.scrollLeft = {box}.scrollWidth")
    assert browser.js(more % box) is False
    assert browser.js(f"getComputedStyle({button}).display") == "none"


def test_a_picture_that_goes_on_says_so_and_goes_there_until_its_end_is_seen(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [different_groups(1)[0]]), 390)
    wait = "new Promise((done) => setTimeout(done, %d))"
    wide = """[...document.querySelectorAll('.picture')].filter((one) => one.scrollWidth > one.clientWidth + 2)
      .map((one) => [one.closest('figure').id, getComputedStyle(one.querySelector('.more')).display])"""
    told = dict(browser.js(wide))
    assert "picture-timeline" in told
    assert set(told.values()) == {"block"}
    box = "document.querySelector('#picture-timeline .picture')"
    browser.js(f"{box}.querySelector('.more').click(); " + wait % 900)
    assert browser.js(f"{box}.scrollLeft") > 100
    browser.js(f"{box}.scrollLeft = {box}.scrollWidth; " + wait % 200)
    assert dict(browser.js(wide))["picture-timeline"] == "none"
    fitting = (
        "[...document.querySelectorAll('.picture:not([data-more]) > .more')].map((b) => getComputedStyle(b).display)"
    )
    assert set(browser.js(fitting)) == {"none"}


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_names_do_not_break_at_their_hyphens_in_any_sentence(browser: Browser, tmp_path: Path, width: int) -> None:
    name = "orders-of-the-eu-central-1-blue"
    why = [f"{'So ' * n}{name} reads nothing, and {name}-2 all." for n in range(0, 24, 3)]
    groups = [{**page_data(name), "why": why, "advice": why}, page_data("h")]
    path = written(tmp_path, [with_row(groups[0], why=why), groups[1]])
    browser.open(path, width, "#group=" + name)
    broken = """(() => {
      const found = [], walk = document.createTreeWalker(document.getElementById("group"), NodeFilter.SHOW_TEXT);
      for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        if (node.parentElement.closest("svg, select, #name")) continue;
        for (const part of node.data.matchAll(/[\\w-]*-[\\w-]*/g)) {
          const range = document.createRange();
          range.setStart(node, part.index); range.setEnd(node, part.index + part[0].length);
          const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
          if (lines.size > 1) found.push(part[0]);
        }
      }
      return found; })()"""
    assert browser.js(broken) == []
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert why[1] in browser.js("document.querySelector('#group .odd').textContent")
    assert browser.js("document.querySelectorAll('#group .odd .word').length") == 2 * len(why)


def test_a_host_is_found_and_a_long_name_is_cut_in_its_middle_and_whole_in_its_hint(
    browser: Browser, tmp_path: Path
) -> None:
    long = "orders-of-the-whole-company-and-its-daughters-eu-central-1-blue"
    groups = [with_row(page_data("one"), who=["10.1.2.3"]), page_data(long)]
    browser.open(written(tmp_path, groups), 1280)
    browser.js("(() => { const f = document.getElementById('find'); f.value = '10.1.2'; "
               "f.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert listed(browser) == ["one"]
    browser.open(written(tmp_path, groups), 390)
    cell = "[...document.querySelectorAll('#groups tbody a')].map((a) => [a.textContent, a.title])"
    [shown] = [text for text, title in browser.js(cell) if title == long]
    assert (shown[:4], shown[-4:], "…" in shown, len(shown) < 20) == ("orde", "blue", True, True)
    lines = "Math.round(document.querySelector('#groups tbody th').clientHeight / 25)"
    assert browser.js(lines) <= 2, "a name does not break at its hyphens"


def test_a_bar_that_is_short_because_work_is_left_to_few_is_hollow_and_stands_last(
    browser: Browser, tmp_path: Path
) -> None:
    replays = [{"assignor": name, "moves": [moves], "skew_max": skew, "skew_max_then": 2}
               for name, moves, skew in (("failover", 0, 20), ("sticky", 3, 1))]  # fmt: skip
    groups = [{**page_data(name), "replays": replays} for name in ("g", "h")]
    browser.open(written(tmp_path, groups), 1280)
    bars = "[...document.querySelectorAll('#picture-totals rect')].map((bar) => bar.getAttribute('fill'))"
    fills = browser.js(bars)
    assert [fill == "none" for fill in fills] == [False, False, True]
    names = browser.js("[...document.querySelectorAll('#picture-totals svg text')].map((text) => text.textContent)")
    assert names[-2] == "failoverfailover" or names[-2].startswith("failover")


def test_a_page_of_thousands_carries_columns_and_draws_what_rows_draw(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(part: str) -> str:
        """Without the mark of tables that go on beyond their edge, which comes some frames later."""
        return str(browser.js(f"document.getElementById('{part}').innerHTML")).replace(' data-more=""', "")

    groups = different_groups(3)
    path = written(tmp_path, groups)
    browser.open(path, 1280)
    first = shown("group")
    assert first.count("<figure") > 4
    list_of = shown("groups")
    monkeypatch.setattr(page, "PACK_ABOVE", 10)
    assert "application/gzip" in written(tmp_path, groups).read_text()
    browser.open(path, 1280)
    assert shown("group") == first
    assert shown("groups") == list_of
    assert browser.complaints() == []


def test_every_control_and_picture_has_a_name(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(tmp_path, [page_data("g"), page_data("h")]), 1280)
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = {"button", "combobox", "MenuListPopup", "link", "img", "image", "figure", "searchbox", "region", "group"}
    seen = {node["role"]["value"] for node in nodes if "role" in node}
    assert {"button", "combobox", "link", "figure", "searchbox"} <= seen, seen
    nameless = [
        node["role"]["value"]
        for node in nodes
        if not node.get("ignored") and node["role"]["value"] in named - {"MenuListPopup", "group"}
        and not node.get("name", {}).get("value")
    ]  # fmt: skip
    assert nameless == []


def test_two_thousand_different_groups_are_light_and_drawn_found_and_sorted(tmp_path: Path, browser: Browser) -> None:
    """1.9 MB for groups of which no two are alike; how long a browser needs, ``python -m bench.page_load`` measures."""
    groups = different_groups(2000)
    path = written(tmp_path, groups)
    assert path.stat().st_size < 2_500_000
    browser.open(path, 1280)
    assert browser.js("document.querySelectorAll('#groups tbody tr').length") == 200
    find = """(() => { const f = document.getElementById("find"); f.value = %s;
      f.dispatchEvent(new Event("input")); return document.querySelectorAll("#groups tbody tr").length; })()"""
    assert browser.js(find % json.dumps(groups[1999]["group"])) == 1
    browser.js("document.getElementById('find').value = ''; document.getElementById('all').click()")
    assert browser.js("document.querySelectorAll('#groups tbody tr').length") == 2000
    assert browser.complaints() == []


def test_a_group_without_members_says_so_instead_of_drawing_nothing(browser: Browser, tmp_path: Path) -> None:
    group = read_group({"group": "gone", "topics": {"t": 2}, "members": {}}, empty=True)
    browser.open(written(tmp_path, [group_data(Judged(Sighting(group)), [])]), 390)
    assert "No members and no history" in browser.js("document.getElementById('group').textContent")
    assert browser.js("document.querySelectorAll('figure').length") == 0
    assert browser.complaints() == []


def test_a_rollout_shows_what_it_brings_and_compares_no_strategies_with_a_present_that_it_ends(
    browser: Browser, tmp_path: Path
) -> None:
    members = {f"m{i}": {"client_id": f"worker-{i}", "topics": ["t"]} for i in range(3)}
    group = whatif.settled(apportion.plan({"group": "g", "topics": {"t": 7}, "members": members}, "cooperative-sticky"))
    stages = rollouts.rollout(group, ["rolling"], "cooperative")
    drawn = rollout_page(Sighting(group), group, stages, rollouts.Times())
    browser.open(written(tmp_path, [drawn]), 390)
    shown = browser.js("[...document.querySelectorAll('figure')].map((one) => one.id)")
    assert {"picture-time", "picture-owners"} <= set(shown)
    assert not {"picture-strategies", "picture-lag", "picture-tradeoff", "picture-timeline"} & set(shown)
    told = browser.js("[...document.querySelectorAll('#group > .advice')].map((one) => one.textContent)")
    assert told == drawn["advice"]
    assert browser.js("document.documentElement.scrollWidth") <= 390
    assert browser.complaints() == []
