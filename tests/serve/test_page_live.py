"""The live page in a real browser: it draws what `report` draws, keeps current, and keeps the reader's place."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.browser import Browser

from apportion.testing.broker import Broker, free_ports
from bench import many_groups

from .running import Serving, serving, until

pytestmark = pytest.mark.broker
TOPICS, PARTITIONS, GROUPS, FIRST = 2, 5, 3, 70_000
NAMES = [many_groups.group_name(FIRST + n) for n in range(GROUPS)]
READY = "document.documentElement?.dataset.groupDrawn ?? null"


@pytest.fixture(scope="module")
def server(broker: Broker) -> Iterator[Serving]:
    many_groups.make_topics(broker, TOPICS, PARTITIONS)
    many_groups.make_groups(broker, range(FIRST, FIRST + GROUPS), TOPICS, PARTITIONS)
    with serving("--interval", "1", "--no-tail", bootstrap=broker.bootstrap) as running:
        until(lambda: running.ask("/readyz")[0] == 200)
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    one = Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


def visit(browser: Browser, url: str, width: int = 1280) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=url)
    until(lambda: browser.js("document.documentElement?.dataset.drawnMs ?? null"))


def live(browser: Browser, server: Serving, group: str, width: int = 1280) -> None:
    visit(browser, f"http://127.0.0.1:{server.port}/#group={group}", width)
    until(lambda: browser.js(READY) == group)


def drawn(browser: Browser) -> str:
    """Every picture of the chosen group, as the browser has it."""
    text: str = browser.js("document.getElementById('group').innerHTML")
    return text


def without_time(group: str) -> str:
    """What a single look at the cluster can know: all but lag in time, and which picture has the whole width."""
    times = r"<li>Caught up <b>[^<]*</b></li>|<p class=\"lag-in-time\">.*?</p>"
    times += r"|<figure[^>]*picture-(?:times|lines).*?</figure>"
    return re.sub(r'<figure class="wide" |<figure ', "<figure ", re.sub(times, "", group, flags=re.DOTALL))


def diagnosis(group: str) -> tuple[str, str]:
    """What a page says of why the group is behind, and the rest of the page."""
    found = re.search(r'<p class="diagnosis">(.*?)</p>', group, re.DOTALL)
    assert found is not None
    return html.unescape(re.sub("<[^>]*>", "", found[1])), group.replace(found[0], "")


def test_it_draws_what_report_draws_at_that_moment(
    browser: Browser, server: Serving, broker: Broker, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "apportion", "report", "--bootstrap-server", broker.bootstrap]
    subprocess.run([*command, "--group", NAMES[1], "--switch", "-o", str(page)], check=True, capture_output=True)
    visit(browser, page.as_uri())
    expected = drawn(browser)
    assert expected.count("<figure") >= 3
    assert 'id="picture-switch"' in expected
    live(browser, server, NAMES[1])
    now, rest = diagnosis(without_time(drawn(browser)))
    once, expected = diagnosis(without_time(expected))
    assert rest == expected
    assert now.startswith(server.json(f"/api/v1/groups/{NAMES[1]}")["diagnosis"]["sentence"]), "it looks more than once"
    described = [sys.executable, "-m", "apportion", "describe", "--bootstrap-server", broker.bootstrap]
    shown = subprocess.run([*described, "--group", NAMES[1]], check=True, capture_output=True, text=True)
    assert once.partition("Missing")[0] in " ".join(shown.stdout.split())
    assert not browser.complaints()


def test_what_comes_is_drawn_and_what_a_reader_opened_stays_open(
    browser: Browser, server: Serving, broker: Broker
) -> None:
    live(browser, server, NAMES[1])
    browser.js("document.querySelector('#picture-lag details').open = true")
    browser.js("document.querySelector('#picture-lag select').focus({ preventScroll: true })")
    browser.js("document.querySelector('#picture-lag select').scrollIntoView({ block: 'center', behavior: 'instant' })")
    at = "document.querySelector('#picture-lag select').getBoundingClientRect().top"
    before = browser.js("document.querySelector('#group .facts').textContent")
    produce(broker, many_groups.topic_of(FIRST + 1, TOPICS))
    until(lambda: browser.js("document.querySelector('#group .facts').textContent") != before)
    assert browser.js("document.querySelector('#picture-lag details').open")
    assert browser.js("document.activeElement.tagName") == "SELECT"
    assert 0 < browser.js(at) < browser.js("innerHeight"), "it stays in sight, whatever grows above it"


def test_lag_has_a_line_in_the_list_and_one_of_each_member_and_partition_in_the_group(
    browser: Browser, server: Serving, broker: Broker
) -> None:
    live(browser, server, NAMES[1])
    line = f"""[...document.querySelectorAll('#groups tbody tr')].find((row) => row.textContent.includes('{NAMES[1]}'))
      .querySelector('td.line svg')"""
    until(lambda: "," not in browser.js(f"{line}.getAttribute('aria-label')").split(":")[0])
    least = int(browser.js(f"{line}.getAttribute('aria-label')").rsplit(" ", 1)[1])
    produce(broker, many_groups.topic_of(FIRST + 1, TOPICS))
    until(lambda: int(browser.js(f"{line}.getAttribute('aria-label')").rsplit(" ", 1)[1]) == least + PARTITIONS)
    assert browser.js(f"{line}.querySelector('path').getAttribute('d')").count("L") >= 1
    names = "[...document.querySelectorAll('#picture-lines svg svg')].map((one) => one.getAttribute('aria-label'))"
    until(lambda: len(browser.js(names)) == 2 + PARTITIONS)
    browser.js("document.querySelector('#picture-lines details').open = true")
    rows = "[...document.querySelectorAll('#picture-lines tbody tr')].map((row) => row.innerText.split('\\t'))"

    def now(kind: str) -> int:
        return sum(int(row[5].replace(",", "")) for row in browser.js(rows) if row[0] == kind)

    until(lambda: now("member") == now("partition") == least + PARTITIONS)  # the pictures follow the list


def test_the_view_by_topic_tells_how_old_the_oldest_message_is_and_a_host_is_found(
    browser: Browser, server: Serving, broker: Broker
) -> None:
    produce(broker, many_groups.topic_of(FIRST, TOPICS))
    live(browser, server, NAMES[0])
    browser.js("document.getElementById('topics').open = true")
    heads = "[...document.querySelectorAll('#topics th')].map((cell) => cell.innerText)"
    until(lambda: "Behind" in browser.js(heads))
    behind = "[...document.querySelectorAll('#topics tbody tr')].map((row) => row.innerText.split('\\t')[4])"
    until(lambda: any(re.fullmatch(r"[1-9]\d* s", cell) for cell in browser.js(behind)))
    find = """(() => { const f = document.getElementById("find"); f.value = %s; f.dispatchEvent(new Event("input"));
      return [...document.querySelectorAll("#groups tbody a")].map((a) => a.textContent); })()"""
    assert set(NAMES) <= set(browser.js(find % json.dumps("127.0.0.1")))
    assert browser.js(find % json.dumps("10.77.0.1")) == []


def test_every_groups_answer_to_whether_it_should_switch_is_one_table(browser: Browser, server: Serving) -> None:
    live(browser, server, NAMES[0])
    browser.js("document.getElementById('switches').open = true")
    rows = "[...document.querySelectorAll('#switches tbody tr')].map((row) => row.innerText.split('\\t'))"
    until(lambda: len(browser.js(rows)) >= GROUPS)
    told = {row[0]: row for row in browser.js(rows)}
    for name in NAMES:
        advice = server.json(f"/api/v1/groups/{name}")["switch"]["advice"]
        assert told[name][2] == "classic"
        assert told[name][1] == ("can switch" if advice.startswith("It can switch") else "should stay")
        assert advice.startswith(told[name][-1])


def produce(broker: Broker, topic: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap.split(","))
    for p in range(PARTITIONS):
        producer.send(topic, b"x", partition=p)
    producer.flush()
    producer.close()


def test_another_group_is_chosen_by_keyboard_and_its_address_leads_back(browser: Browser, server: Serving) -> None:
    live(browser, server, NAMES[0])
    browser.js(f"""[...document.querySelectorAll('#groups a')].find((a) => a.textContent === '{NAMES[2]}').focus()""")
    browser.enter()
    until(lambda: browser.js(READY) == NAMES[2])
    assert browser.js("document.activeElement.id") == "name"
    assert browser.js("document.querySelector('tr[aria-current] a').textContent") == NAMES[2]
    browser.js("history.back()")
    until(lambda: browser.js(READY) == NAMES[0])


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_in_either_light_at_either_width(
    browser: Browser, server: Serving, width: int, scheme: str
) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.call("Emulation.setEmulatedMedia", features=[feature])
    live(browser, server, NAMES[0], width)
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert not browser.complaints()
    ground = browser.js("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 22, 26)") == (scheme == "dark")
    browser.call("Emulation.setEmulatedMedia", features=[])


def test_one_stream_is_held_and_nothing_is_asked_again_and_again(browser: Browser, server: Serving) -> None:
    live(browser, server, NAMES[0])
    before = asked(server)
    time.sleep(3)  # three of the server's rounds
    after = asked(server)
    assert {path: after[path] - n for path, n in before.items() if path in ("/", "/events")} == {"/": 0, "/events": 0}


def asked(server: Serving) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, labels, value in server.samples():
        if name == "apportion_scrape_answers_total":
            found[labels["path"]] = found.get(labels["path"], 0) + value
    return found


def test_a_server_that_goes_away_is_said_to_and_found_again(browser: Browser, broker: Broker) -> None:
    [port] = free_ports(1)  # one that no connection is lent while nobody listens there
    options = ("--interval", "1", "--no-tail", "--listen", f"127.0.0.1:{port}")
    with serving(*options, bootstrap=broker.bootstrap) as other:
        until(lambda: other.ask("/readyz")[0] == 200)
        live(browser, other, NAMES[0])
    says = "document.getElementById('source').textContent"
    until(lambda: browser.js(says).startswith("The server does not answer"))
    with serving(*options, bootstrap=broker.bootstrap):
        until(lambda: browser.js(says).startswith("live, as of 2"))
    assert json.dumps(browser.js("document.querySelectorAll('#groups tbody tr').length"))


def test_an_empty_page_says_what_it_waits_for_and_draws_the_first_group_that_comes(browser: Browser) -> None:
    says = "document.getElementById('group').textContent"
    with serving("--interval", "1", "--no-tail", bootstrap="127.0.0.1:1") as nobody:
        visit(browser, f"http://127.0.0.1:{nobody.port}/")
        assert browser.js(says).startswith("This page waits for the first answer of the cluster.")
        until(lambda: "Nothing is known since" in browser.js("document.getElementById('notes').textContent"))
    with Broker() as empty, serving("--interval", "1", "--no-tail", bootstrap=empty.bootstrap) as running:
        until(lambda: running.ask("/readyz")[0] == 200)
        visit(browser, f"http://127.0.0.1:{running.port}/")
        assert browser.js(says).startswith("The cluster answers, and has no consumer group yet.")
        many_groups.make_topics(empty, TOPICS, PARTITIONS)
        many_groups.make_groups(empty, range(1), TOPICS, PARTITIONS)
        until(lambda: browser.js(READY) == many_groups.group_name(0))
