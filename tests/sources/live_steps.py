"""What is asked of the recorded cluster: command lines with LIVE for its address, and readers by name.

``tools.record_cluster`` asks a real broker all of it; ``test_recorded_cluster`` its recording.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from shlex import split
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.cli.conftest import run_here

from apportion.cli import nudge, watch
from apportion.sources import cluster_round, generations, live, offsets_log, series
from apportion.sources.cluster import connect
from apportion.sources.config import Connection
from apportion.sources.log_tails import tails
from apportion.sources.properties import Properties

CLASSIC, NEW, BY_EXPRESSION, SHARED, TASKS = "classic é", "new", "by-expression", "workers", "enrich"
OLD_TOOLS, LEDGER, HIDDEN = "old tools", "ledger", "hidden"
EVERY = "--bootstrap-server LIVE --all-groups"
ONE = "--bootstrap-server LIVE --group"
LINES = [
    f"describe {EVERY}", f"describe {EVERY} -o json", f"describe {EVERY} --state", f"describe {EVERY} --members -o csv",
    f"describe {EVERY} --offsets", f"describe {EVERY} --verbose --window 5", f"describe {EVERY} --sort behind --top 3",
    *[f"describe {ONE} '{name}'" for name in (CLASSIC, NEW, BY_EXPRESSION, SHARED, TASKS, OLD_TOOLS, LEDGER)],
    *[f"describe {ONE} '{name}' -o json" for name in (CLASSIC, NEW, BY_EXPRESSION, SHARED, TASKS, LEDGER)],
    f"describe {ONE} '{CLASSIC}' --state", f"describe {ONE} '{CLASSIC}' --time --window 5",
    f"describe {ONE} '{CLASSIC}' --group {NEW} --time --window 5 -o csv", f"describe {EVERY} --time --window 2",
    f"describe {ONE} '{CLASSIC}' --group {NEW} --sort last-hour", f"describe {ONE} nwe", f"describe {EVERY} -o html",
    f"switch {EVERY}", f"switch {EVERY} -o json", f"switch {ONE} {NEW}", f"switch {ONE} {SHARED}",
    f"plan {ONE} '{CLASSIC}' --diff", f"plan {ONE} {NEW} -A range -o json", f"plan {ONE} {SHARED}",
    f"plan {ONE} {TASKS} -A streams", f"compare {ONE} '{CLASSIC}' -A range -A sticky --speeds --window 5",
    f"size {ONE} '{CLASSIC}' --capacity 5", f"size {ONE} '{CLASSIC}' --capacity 5 --by lag",
    f"gate {ONE} '{CLASSIC}' --now --max-lag 1", f"what-if {ONE} {NEW} --join 1", f"what-if {ONE} {TASKS} --join 1",
    f"report {EVERY} -o OUT", f"report {ONE} '{CLASSIC}' -o OUT", f"watch {ONE} '{CLASSIC}' --once",
    f"nudge {ONE} '{CLASSIC}' --wait 2", f"nudge {ONE} '{OLD_TOOLS}'", "govern --bootstrap-server LIVE --check",
    "describe --bootstrap-server LIVE",
]  # fmt: skip


def there(address: str) -> Connection:
    return Connection(address, Properties())


def look(address: str) -> Any:
    """One look at the whole cluster, with all that a group's description can be turned into."""
    with connect(address) as cluster:
        seen = cluster_round.look(cluster)
    names = ("a", CLASSIC, NEW, HIDDEN)
    return {
        "seen": seen, "listed_all": seen.listed_all, "leaderless": seen.leaderless,
        "listed": {name: seen.listed(name) for name in names},
    }  # fmt: skip


def partitions(address: str) -> Any:
    with connect(address) as cluster:
        every, some = cluster.partitions(), cluster.partitions(["live-clicks", "not there"])
        ends = cluster.ends(every)
        return [
            cluster.cluster_id(), every, some, [(one.topic, one.partition, one.begin, one.end,
            one.last_stable) for one in ends],
        ]  # fmt: skip


def of_generations(address: str) -> Any:
    names = [CLASSIC, NEW, LEDGER, "not there"]
    with connect(address) as cluster:
        newest = generations.newest_generations(cluster, there(address), names)
        return [newest, generations.rebalanced_at(cluster, there(address), names)]


def of_tails(address: str) -> Any:
    with connect(address) as cluster:
        return [
            tails(cluster, {("live-ledger", 0): 3, ("live-clicks", 0): 0, ("not there", 0): 0, ("live-clicks", 9): 0}),
            tails(cluster, {("live-ledger", 0): 0, ("live-clicks", 1): 10}), tails(cluster, {}),
        ]  # fmt: skip


def whole_log(address: str) -> Any:
    return offsets_log.whole_groups(there(address))


def records(address: str) -> Any:
    """Each group's description in the form of the records that would have come to it."""
    with connect(address) as cluster:
        described = cluster_round.look(cluster).groups
    return {name: list(one.description.get("as_records", list)()) for name, one in described.items()}


def known(address: str) -> Any:
    return [live.groups(there(address), [NEW, "not there", CLASSIC], leave_out=True), live.groups(there(address), [])]


CALLS: dict[str, Callable[[str], Any]] = {
    one.__name__: one for one in (look, partitions, of_generations, of_tails, whole_log, records, known)
}


class Clock:
    """Time that passes where somebody sleeps; a real broker is told what happens meanwhile."""

    def __init__(self, at: float, meanwhile: Callable[[float], object] = lambda seconds: None) -> None:
        self.at, self.meanwhile = at, meanwhile

    def time(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.meanwhile(seconds)


@contextmanager
def timed(clock: Clock) -> Iterator[None]:
    """Readers that look at the clock look at this one."""
    stand_in = SimpleNamespace(time=clock.time, sleep=clock.sleep, monotonic=clock.time)
    modules = [patch.object(module, "time", stand_in) for module in (series, cluster_round, nudge, watch)]
    for one in modules:
        one.start()
    os.environ["SOURCE_DATE_EPOCH"] = str(int(clock.at))
    try:
        yield
    finally:
        del os.environ["SOURCE_DATE_EPOCH"]
        for one in modules:
            one.stop()


def answer(step: str, address: str, clock: Clock) -> Any:
    """What a step gives, the address written as LIVE."""
    with timed(clock):
        text = json.dumps(plain(CALLS[step](address)), ensure_ascii=False) if step in CALLS else line(step, address)
    return json.loads(text.replace(address, "LIVE").replace(f'"port": {address.split(":")[1]}', '"port": 0'))


def line(words: str, address: str) -> str:
    """A command line's outcome; of a page the data."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        at = {"LIVE": address, "OUT": str(out)}
        done = run_here(*(at.get(word, word) for word in split(words)))
        texts = [done.out, out.read_text(encoding="utf-8") if out.exists() else ""]
    shown = [page(text) if text.lower().startswith("<!doctype") else text for text in texts]
    return json.dumps(
        {"code": done.code, "out": shown[0], "err": done.err, "written": shown[1]}, ensure_ascii=False
    ).replace(str(out), "OUT")


def page(text: str) -> Any:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found, "the page has no data"
    return [json.loads(line) for line in found[1].strip().split("\n")]


def plain(value: Any) -> Any:
    """All that a value holds, as JSON has it."""
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str | int | float | None):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    if is_dataclass(value):
        return plain({one.name: getattr(value, one.name) for one in fields(value)})
    if hasattr(value, "items"):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if hasattr(value, "__iter__") else type(value).__name__
