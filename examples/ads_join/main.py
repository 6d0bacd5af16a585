"""Join impressions with clicks in four processes while members join, leave and die, and lose no row.

python -m examples.ads_join.main
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from apportion.testing.broker import Broker
from examples.ads_join.traffic import PARTITIONS, Row, expected, traffic
from examples.running import Progress, Worker, fill, read_all, until

AUCTIONS = 3000
SECONDS = 7.0
GROUP = "ads-join"


def main() -> None:
    """The join under fire, then a count of its rows against what they must be."""
    with Broker() as broker:
        join_under_fire(broker, AUCTIONS)
        rows = [json.loads(record.value) for record in read_all(broker.bootstrap, "joined")]
    must = expected(AUCTIONS)
    found = {row["click"]: (row["auction"], row["impression_at"], row["click_at"]) for row in rows}
    wrong = sum(must.get(click) != row for click, row in found.items())
    print(
        f"{len(rows)} joined rows of {len(must)}: {len(must.keys() - found.keys())} missing, "
        f"{len(rows) - len(found)} duplicate, {wrong} wrong"
    )


def join_under_fire(broker: Broker, auctions: int) -> None:
    """Write traffic for some seconds while the group changes four times; returns when everything is read."""
    for topic in ("impressions", "clicks", "joined"):
        # Event times begin at 1970: with Kafka's retention of a week the broker would delete all after half a minute.
        broker.create_topic(topic, PARTITIONS, retention_ms="-1")
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(broker.bootstrap, Path(folder))
        for name in "abcd":
            scene.start(name)
        scene.settle("four members start")
        written = threading.Thread(target=write, args=(broker.bootstrap, auctions))
        written.start()
        time.sleep(SECONDS / 6)
        scene.workers.pop("b").kill()
        scene.settle("b dies (kill -9)")
        scene.start("e")
        scene.settle("e joins")
        scene.workers.pop("c").leave()
        scene.settle("c leaves")
        scene.start("b")
        scene.settle("b is back, with its old state")
        written.join()
        progress = Progress(broker.bootstrap, GROUP, ["impressions", "clicks"])
        until("everything is joined", lambda: progress.left() == 0)
        for worker in scene.workers.values():
            worker.leave()


class Scene:
    """The members that live, and who had which number last."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        self.workers: dict[str, Worker] = {}
        self.before: dict[int, str] = {}

    def start(self, name: str) -> None:
        """A new process; the same name finds its old state."""
        self.workers[name] = Worker("examples.ads_join.member", self.bootstrap, GROUP, str(self.folder / name))

    def settle(self, what: str) -> None:
        """Wait until every number has one owner among the living; tell what moved."""
        until(f"the group settles after: {what}", self._settled)
        now = {number: name for name, worker in self.workers.items() for number in worker.newest("owns")["numbers"]}
        gone = set(self.before.values()) - set(self.workers)
        moved = sum(now[n] != owner and owner not in gone for n, owner in self.before.items())
        orphans = sum(owner in gone for owner in self.before.values())
        replays = sum(worker.newest("owns")["replays"] for worker in self.workers.values())
        shares = "  ".join(
            f"{name}: {worker.newest('owns')['numbers']}" for name, worker in sorted(self.workers.items())
        )
        print(
            f"{what}: {moved} of {PARTITIONS - orphans} living numbers moved, {orphans} were orphans, "
            f"{replays} messages read again\n    {shares}",
            flush=True,
        )
        self.before = now

    def _settled(self) -> bool:
        newest = [worker.newest("owns") for worker in self.workers.values()]
        held = Counter(number for line in newest for number in line.get("numbers", ()))
        one = len({line.get("generation") for line in newest}) == 1
        return one and held == dict.fromkeys(range(PARTITIONS), 1)


def write(bootstrap: str, auctions: int) -> None:
    """The traffic in order of arrival, spread over the scene."""
    rows = list(traffic(auctions))
    parts = 20
    for n in range(parts):
        part = rows[n * len(rows) // parts : (n + 1) * len(rows) // parts]
        for topic in ("impressions", "clicks"):
            fill(bootstrap, topic, of_topic(part, topic))
        time.sleep(SECONDS / parts)


def of_topic(part: list[tuple[str, Row]], topic: str) -> list[Row]:
    """One topic's rows, in order."""
    return [row for name, row in part if name == topic]


if __name__ == "__main__":
    main()
