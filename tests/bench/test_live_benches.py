"""The benches of live groups end to end, as small as they go: that they run and count, not how fast anything is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.groups import new_name
from tests.support.examples import thorough

from apportion.testing.broker import Broker
from bench import hot_partitions, leaving_deploy, member_death, rolling_deploy
from bench.page_table import put_table

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.mark.parametrize(
    "name", ["GroupConsumer", *map(thorough, ("kafka-python: cooperative-sticky", "KIP-848", "aiokafka: sticky"))]
)
def test_a_deploy_of_three_members_moves_what_was_foretold(broker: Broker, name: str) -> None:
    way, topic = next(way for way in rolling_deploy.ways() if name in way.name), new_name("deploy")
    broker.create_topic(topic, 6)
    seen, foretold = rolling_deploy.deploy(way, broker.bootstrap, topic, 3, 6)
    assert seen.moved == foretold.moved == 12
    assert seen.rebalances >= 6


@pytest.mark.parametrize("kind", ["kafka-python", thorough("GroupConsumer")])
def test_a_deploy_by_leave_reads_each_record_once(broker: Broker, kind: str) -> None:
    topic = new_name("leaving")
    broker.create_topic(topic, 4)
    seen = leaving_deploy.deploy(kind, broker.bootstrap, topic, 2, 4, 4.0)
    assert seen.records > 20
    assert (seen.twice, seen.lost) == (0, 0)


def test_a_group_with_a_feed_is_looked_at(broker: Broker) -> None:
    groups, topic = hot_partitions.groups(), new_name("hot")
    name = next(name for name in groups if "acting" in name)
    broker.create_topic(topic, hot_partitions.PARTITIONS)
    result = hot_partitions.run(name, groups[name], broker.bootstrap, topic, hot_partitions.Rates(1.0), 5, 8)
    assert len(result.at) >= 2
    assert max(result.lag) > 0


@pytest.mark.parametrize("standbys", [thorough(0), 1])
def test_tasks_of_a_process_that_died_work_again(standbys: int, tmp_path: Path) -> None:
    row = member_death.run("words at_least_once", standbys, 1, tmp_path)
    assert row.startswith(f"| TaskRunner | {standbys} | 1 MB |")


def test_a_table_is_put_where_the_page_asks_for_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n\nTable of `python -m bench.x`:\n\nNot yet.\n\nb\n")
    for _ in range(2):
        put_table(page, "x", ["| new |", "|---|"])
        assert page.read_text() == "a\n\nTable of `python -m bench.x`:\n\n| new |\n|---|\n\nb\n"
    with pytest.raises(SystemExit, match=r"no line 'Table of `python -m bench.y"):
        put_table(page, "y", [])
