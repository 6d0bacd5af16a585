"""Every strategy, those of others too, is understood by every command and table that is told which one a group runs.

Each strategy gets a group at rest as it wants it: a dump of two generations under the strategy's protocol name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import run_here
from tests.report.test_page_facts import carried
from tests.spark.made import START_MS, commit, write_dump
from tests.strategy.theirs import NAME, installed
from tests.support import records as write
from tests.support.plain_reader import what_if

import apportion
from apportion import assignors
from apportion.governing.plans import governed_plan
from apportion.governing.rules_file import GroupRule
from apportion.model.group_json import read_group
from apportion.strategy.registry import tabled
from apportion.strategy.settings import changed_settings
from apportion.strategy.traits import traits_of
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.plan_text import PROMISES
from apportion.wire.subscription import Subscription, write_subscription

PARTITIONS = 6
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
RAW: dict[str, Any] = {
    "group": "g",
    "auto_offset_reset": "earliest",
    "topics": {"t": [{"partition": p, "begin": 0, "end": 100, "committed": 100} for p in range(PARTITIONS)]},
    "topic_ids": {"t": TOPIC_ID},
    "members": {name: {"topics": ["t"]} for name in "abc"},
}
EVERY = [*assignors.known(), NAME]
OF_CLIENTS = [name for name in EVERY if not name.startswith("broker-")]


@pytest.fixture(scope="module", autouse=True)
def _theirs() -> Iterator[None]:
    with installed():
        yield


def at_rest(name: str) -> dict[str, Any]:
    """The group as the strategy wants it, after the rounds that a cooperative one takes."""
    raw = RAW
    for generation in (1, 2):
        shares = apportion.plan(raw, name).assignment
        members = {m: {"topics": ["t"], "owned": shares[m], "generation": generation} for m in RAW["members"]}
        raw = {**RAW, "members": members}
    return raw


def dump_of(name: str, folder: Path) -> str:
    """Two generations of the group under the strategy's protocol name, and commits at the log's end."""
    held = {m: tuple(fields["owned"].get("t", ())) for m, fields in at_rest(name)["members"].items()}
    pairs = [commit(100, partition=p) for p in range(PARTITIONS)]
    for number in (1, 2):
        seats = []
        for member, numbers in held.items():
            own = (("t", numbers),) if numbers else ()
            wanted = write_subscription(Subscription(("t",), None, own, number - 1, None, 3))
            given = write_assignment(Assignment(own, None, 3))
            seats.append(
                Member(member, None, member, "/10.0.0.1", 60_000, 45_000, subscription=wanted, assignment=given)
            )
        value = GroupGeneration("g", False, 3, number, "consumer", name, "a", START_MS + number, tuple(seats))
        pairs.append((write.group_key("g"), write.group_value(value)))
    write_dump(folder, pairs, ends=False)
    now = datetime(2026, 11, 21, tzinfo=UTC)
    rows = [{"topic": "t", "partition": p, "begin": 0, "end": 100, "last_stable": 100, "at": now}
            for p in range(PARTITIONS)]  # fmt: skip
    kinds = [("topic", pa.string()), ("partition", pa.int32()), ("begin", pa.int64()), ("end", pa.int64()),
             ("last_stable", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), folder / "ends.parquet")
    return str(folder)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("dumps")
    return {name: dump_of(name, folder / name) for name in OF_CLIENTS}


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_a_group_that_is_as_its_strategy_wants_it_is_not_called_wrong(name: str, dumps: dict[str, str]) -> None:
    """It has read everything: that one member has all, or that others idle, is what the strategy promises."""
    [group] = run_here("describe", dumps[name], "-o", "json").json["groups"]
    assert group["described"]["assignor"] == name
    assert group["described"]["verdict"] == "OK", group["described"]["odd"]


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_switch_says_stay_where_the_strategys_promise_would_be_lost(name: str, dumps: dict[str, str]) -> None:
    """A cooperative form promises what the strategy promises whose form it is."""
    strategy = traits_of(assignors.known()[name])
    [seen] = run_here("switch", dumps[name], "-o", "json").json["groups"]
    first = seen["advice"][0] if isinstance(seen["advice"], list) else seen["advice"]
    if strategy.on_foreign == "stop":
        assert first.startswith("Stay"), first
    else:
        assert re.match(r"Stay|It can switch", first), first


@pytest.mark.parametrize("name", [name for name in OF_CLIENTS if f"cooperative-{name}" in OF_CLIENTS])
def test_a_strategys_cooperative_name_is_the_strategy_with_that_setting(name: str) -> None:
    other = apportion.find(f"cooperative-{name}")
    plain = apportion.find(name, {**changed_settings(other), "cooperative": True})
    assert (plain.name, changed_settings(plain)) == (other.name, changed_settings(other) | changed_settings(plain))
    for raw in (RAW, at_rest(other.name)):
        assert apportion.plan(raw, plain).to_dict() | {"settings": {}} == apportion.plan(raw, other).to_dict() | {
            "settings": {}
        }
    mine, theirs = traits_of(plain), traits_of(other)
    for trait in ("cooperative", "kept_whole", "on_foreign", "leaves", "promise", "reads", "codec"):
        assert type(getattr(mine, trait)) is type(getattr(theirs, trait))
        assert trait == "codec" or getattr(mine, trait) == getattr(theirs, trait)


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_a_group_at_rest_is_compared_with_its_own_strategy_which_moves_nothing(
    name: str, dumps: dict[str, str]
) -> None:
    plans = {one["assignor"]: one for one in run_here("compare", dumps[name], "-o", "json").json["plans"]}
    assert name in plans, "what it runs is among what it is compared with"
    assert plans[name]["measures"]["moves"] == 0


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_a_history_under_a_strategy_replays_as_it_was(name: str, dumps: dict[str, str]) -> None:
    answer = run_here("replay", dumps[name], "--group", "g", "-A", name, "-o", "json").json
    total = answer["total"]
    assert total["moves"] == total["moves_then"] == 0


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_the_page_of_a_group_names_its_strategy_and_draws_its_owners(name: str, dumps: dict[str, str]) -> None:
    page = run_here("report", dumps[name], "-o", "-").out
    _, [group] = carried(page)
    assert group["protocol"] == name
    held = {m: sorted(fields["owned"].get("t", ())) for m, fields in at_rest(name)["members"].items()}
    drawn = {m: [n for n, owner in zip(group["number"], group["owner"], strict=True) if owner == at]
             for at, m in enumerate(group["members"])}  # fmt: skip
    assert sorted(drawn.values()) == sorted(held.values())


@pytest.mark.parametrize("name", EVERY)
def test_a_table_of_what_ifs_says_what_the_plan_of_that_name_says(name: str) -> None:
    """The row is found by its recipe; its figures are those of ``plan`` on the group as it stands."""
    raw = {**RAW, "topics": {"t": [{"partition": p, "lag": 10 ** (p % 4)} for p in range(PARTITIONS)]}}
    recipe = next((one for one in tabled() if one.partition(" ")[0] == name), name)
    settings = dict(word.split("=") for word in recipe.split(" ")[1:])
    [row] = [row for row in what_if("g", (), raw, None, [recipe]) if row.scenario == "as-is"]
    planned = apportion.plan(raw, name, settings)
    assert (row.assignor, row.error) == (recipe, None)
    if (row.load_min, row.load_max) != (None, None):
        assert (row.load_min, row.load_max) == (planned.measures["load_min"], planned.measures["load_max"])
        assert row.lag_max == planned.measures["lag_max"]


@pytest.mark.parametrize("name", EVERY)
def test_a_governor_plans_what_the_strategy_plans_and_keeps_whole_what_it_keeps(name: str) -> None:
    strategy = apportion.find(name)
    raw = at_rest(name)
    group = read_group(raw)
    planned = governed_plan(group, GroupRule(re.compile("g"), strategy), 1)
    [owners] = planned.owners.values()
    names = [planned.members[m].member_id if m >= 0 else None for m in owners]
    owner = apportion.plan(group, strategy).owner
    assert names == [group.members[m] if m >= 0 else None for m in owner.tolist()]
    assert planned.promise == PROMISES.get(traits_of(strategy).kept_whole, 0)
