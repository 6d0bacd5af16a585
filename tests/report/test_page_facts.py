"""What a page carries of a group is what ``describe`` says of it; each measure follows from the owners that it draws.

One page a group, of the recorded cluster, of streams groups, of odd groups and of a pasted listing.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import HERE, run_here

from apportion import assignors
from apportion.demo import dump

DUMP = str(dump())
TASKS = str(HERE.parent / "data" / "task_groups")
RECORDED = (
    "feed-cooperative", "fraud-storm", "profiles-kip848", "near-racks", "stock-static", "nightly-batch",
    "inventory-grows", "tangled-wants", "tickets-share", "export-simple",
)  # fmt: skip
SOURCES = [
    *[pytest.param(DUMP, name, id=name) for name in RECORDED],
    *[pytest.param(TASKS, name, id=name) for name in ("enrich", "workers")],
    pytest.param(str(HERE / "cases" / "every-oddity.json"), None, id="every oddity"),
    pytest.param(str(HERE / "cases" / "long-names.json"), None, id="long names"),
    pytest.param(str(HERE.parent / "sources" / "pasted" / "offsets.txt"), "ads join é", id="pasted"),
]


def carried(page: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head of a page's data, and its groups as they are drawn."""
    lines = page.partition(' id="data">')[2].partition("</script>")[0].strip().split("\n")
    head, *rows = map(json.loads, lines)
    return head, [row for row in rows if "owner" in row]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A source and a group to its page's head, the group as it is drawn, and what ``describe`` says of it."""
    kept: dict[tuple[str, str | None], Any] = {}
    folder = tmp_path_factory.mktemp("pages")

    def ask(source: str, name: str | None) -> Any:
        if (source, name) not in kept:
            chosen = ["--group", name] if name else []
            out = folder / f"{len(kept)}.html"
            assert run_here("report", source, *chosen, "-o", str(out)).code == 0
            head, [group] = carried(out.read_text(encoding="utf-8"))
            [described] = run_here("describe", source, *chosen, "-o", "json").json["groups"]
            kept[source, name] = head, group, described, out
        return kept[source, name]

    return ask


@pytest.mark.parametrize(("source", "name"), SOURCES)
def test_a_page_says_of_a_group_what_describe_says(source: str, name: str | None, asked: Any) -> None:
    """Name, state, kind of assignor, members, partitions, owners, lags and sentences."""
    head, group, raw, _ = asked(source, name)
    described = raw["described"]
    assert head["title"]
    assert group["group"] == raw["group"]
    assert group["state"] == described.get("state", "")
    assert group["protocol"] == (described.get("assignor") or "")
    assert len(group["members"]) == len(raw["members"])
    assert len(set(group["members"])) == len(group["members"]), "no two members look alike"
    places = [(group["topics"][t], number) for t, number in zip(group["topic_of"], group["number"], strict=True)]
    rows = described["partitions"]
    if group["kind"] not in ("share",):
        assert set(places) >= {(row["topic"], row["partition"]) for row in rows}
    lags = dict(zip(places, group["lag"], strict=True))
    told = {(row["topic"], row["partition"]): row["lag"] for row in rows if row.get("lag") is not None}
    assert {place: lags[place] for place in told if place in lags} == {p: lag for p, lag in told.items() if p in lags}
    assert set(described["odd"]) & set(group["why"]) or not described["odd"] or group["verdict"] in ("OK", "—", "")


@pytest.mark.parametrize(("source", "name"), SOURCES)
def test_measures_on_a_page_follow_from_the_owners_that_it_draws(source: str, name: str | None, asked: Any) -> None:
    """Loads, owned partitions and moves of each plan are counted again from its list of owners."""
    _, group, _, _ = asked(source, name)
    kept = group["now"]["owner"]
    for plan in group["plans"]:
        held = Counter(m for m in plan["owner"] if m >= 0)
        loads = [held.get(m, 0) for m in range(len(group["members"]))]
        measures = plan["measures"]
        assert (measures["load_min"], measures["load_max"]) == (min(loads), max(loads)), plan["assignor"]
        assert plan["assigned"] == sum(loads), plan["assignor"]
        stayed = sum(new == old >= 0 for new, old in zip(plan["owner"], kept, strict=True))
        assert measures["kept"] >= stayed, plan["assignor"]


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in ("tickets-share", "export-simple")])
def test_a_page_shows_each_rebalance_once_and_compares_strategies_that_there_are(name: str, asked: Any) -> None:
    _, group, _, _ = asked(DUMP, name)
    rebalances = group["history"]["rebalances"]
    numbers = [one["generation"] for one in rebalances]
    assert numbers == sorted(numbers)
    assert all(one["moved"] is None or 0 <= one["moved"] <= len(group["owner"]) for one in rebalances)
    assert {plan["assignor"] for plan in group["plans"]} <= set(assignors.known())
    assert all(len(replay["moves"]) == len(rebalances) for replay in group["replays"])


@pytest.mark.parametrize("steps", [["--rolling"], ["--scale", "5"], ["--lose-rack", "c", "--join", "1"]])
def test_the_page_of_a_what_if_ends_where_the_plan_in_json_ends(steps: list[str], tmp_path: Path) -> None:
    source = str(HERE / "cases" / "every-oddity.json")
    done = run_here("what-if", source, *steps, "-o", "html")
    _, [group] = carried(done.out)
    ends = run_here("what-if", source, *steps, "-o", "json").json
    assert done.code == 0
    assert group["group"] == ends.get("group", group["group"])
    assert len(group["members"]) >= 1
    assert all(-1 <= m < len(group["members"]) for m in group["owner"])
