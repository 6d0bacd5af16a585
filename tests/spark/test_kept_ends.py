"""The few samples of log ends that are kept give the rows of all of them, or tell that they cannot."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from apportion.spark import few_groups, kept_ends, logs, schemas, standing
from apportion.spark.kept_ends import ASKED, KeptEnds
from apportion.spark.log_ends import since
from apportion.spark.sorted_rows import coded

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
STEP_S = 120
"""Between two samples: the window of rates has five."""
ENDS, COMMITS = (schemas.arrow_schema(schemas.TABLES[f"silver/{name}"]) for name in ("ends", "commits"))


class Service:
    """Logs that grow, rest, are made anew or lose their first messages, and groups that read, rest or go back."""

    def __init__(self, seed: int, topics: int = 6) -> None:
        self.rng = random.Random(seed)
        self.logs = {(f"t{t}", p): [0, self.rng.randint(0, 50)] for t in range(topics) for p in range(2)}
        self.pace = {log: self.rng.choice((0, 1, 10, 40)) for log in self.logs}
        self.rests = {f"g{n}": self.rng.random() ** 0.2 for n in range(topics)}
        self.at, self.offset = BEGAN, 0
        self.ends, self.commits = ENDS.empty_table(), COMMITS.empty_table()

    def step(self) -> pa.Table:
        """A round: commits, then a sample of the logs; gives the sample."""
        rng, rows = self.rng, []
        self.at += timedelta(seconds=STEP_S)
        for n, (group, rest) in enumerate(self.rests.items()):
            if rng.random() < rest:
                continue
            for topic, partition in (log for log in self.logs if log[0] in (f"t{n}", f"t{n // 2}")):
                begin, end = self.logs[topic, partition]
                self.offset += 1
                back = rng.random() < 0.1
                read = rng.randint(0, end) if back else rng.randint(max(begin, end - 30), max(end, begin))
                when = self.at - timedelta(seconds=rng.randint(0, STEP_S))
                rows.append({
                    "group": group, "topic": topic, "partition": partition, "committed": read, "commit_time": when,
                    "source_partition": 0, "source_offset": self.offset, "tombstone": rng.random() < 0.03,
                })  # fmt: skip
        self.commits = pa.concat_tables([self.commits, pa.Table.from_pylist(rows, schema=COMMITS)])
        samples: list[dict[str, Any]] = []
        for (topic, partition), ends in self.logs.items():
            ends[1] += rng.randint(0, 2 * self.pace[topic, partition])
            if rng.random() < 0.01:
                ends[:] = [0, rng.randint(0, 10)]
            if rng.random() < 0.05:
                ends[0] = rng.randint(ends[0], ends[1])
            if rng.random() < 0.05:
                continue  # this one was not sampled
            twice = rng.random() < 0.002
            for again in range(1 + twice):
                samples.append({
                    "topic": topic, "partition": partition, "begin": ends[0], "end": ends[1] + again,
                    "last_stable": ends[1], "at": self.at + timedelta(microseconds=again),
                })  # fmt: skip
        newer = pa.Table.from_pylist(samples, schema=ENDS)
        self.ends = pa.concat_tables([self.ends, newer])
        return newer

    def places(self) -> pa.Table:
        return standing.places(standing.sorted_commits(self.commits), since(self.now_ms))

    @property
    def now_ms(self) -> int:
        return round(self.at.timestamp() * 1000)

    def rows(self, places: pa.Table, ends: pa.Table) -> dict[str, list[dict[str, Any]]]:
        """The tables that follow log ends."""
        generations, epochs, gaps = (
            schemas.arrow_schema(schemas.TABLES[f"silver/{name}"]).empty_table()
            for name in ("generations", "epochs", "gaps")
        )
        present = few_groups.left(few_groups.Silver(self.commits, generations, epochs, gaps, {}), self.now_ms)
        known = {"places": places, "present": present["present"], "named": present["named"]}
        described = logs.described(ends, logs.NO_TOPICS)
        followed = few_groups.follow({**known, "logs": described}, self.now_ms, 0)
        return {name: table.to_pylist() for name, table in followed.items()}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("most", [1000, 24])
def test_few_samples_give_the_rows_of_all(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where more were taken than count."""
    monkeypatch.setattr(logs, "SAMPLES_MAX", most)
    monkeypatch.setattr(kept_ends, "SAMPLES_MAX", most)
    monkeypatch.setattr(kept_ends, "SILENT_FOR", most // 2)
    service = Service(seed)
    known, newer = kept_ends.columns().empty_table(), [coded(ENDS.empty_table())]
    certain = fewer = 0
    for turn in range(35):
        newer.append(service.step())
        whole = pa.concat_tables([ENDS.empty_table(), *(one.cast(ENDS) for one in newer)])
        kept = KeptEnds.of(known, whole)
        places = service.places()
        asked = places.filter(places["standing"]).select(ASKED)
        doubtful = kept.uncertain(asked)
        certain += not doubtful
        fewer += kept.rows.num_rows < service.ends.num_rows
        every = service.ends.filter(pc.is_in(service.ends["topic"], pa.array(sorted(doubtful), pa.string())))
        kept = kept.with_every(doubtful, every) if doubtful else kept
        assert not kept.uncertain(asked)
        assert service.rows(places, kept.counted()) == service.rows(places, service.ends), (turn, doubtful)
        if turn % 7 == 6:
            known, newer = kept.few(asked, since(service.now_ms)), []
            assert not KeptEnds.of(known, ENDS.empty_table()).uncertain(asked)
    assert 5 < certain < turn, "some tell that they cannot"
    assert fewer > turn // 2


def test_a_service_at_rest_keeps_few_samples_however_many_were_taken() -> None:
    """Logs grow, of which a group has read some and commits no more."""
    logs_of_all = [("t", p) for p in range(3)]
    rows = [
        {"group": "g", "topic": t, "partition": p, "committed": 25 + n, "source_partition": 0,
         "source_offset": 9 * p + n, "tombstone": False, "commit_time": BEGAN + timedelta(seconds=100 * n)}
        for t, p in logs_of_all for n in range(9)
    ]  # fmt: skip
    places = standing.places(standing.sorted_commits(pa.Table.from_pylist(rows, schema=COMMITS)), 0)
    known, newer, sizes = kept_ends.columns().empty_table(), [], []
    for turn in range(400):
        at = BEGAN + timedelta(seconds=STEP_S * turn)
        newer += [{"topic": t, "partition": p, "begin": 0, "end": 10 * turn, "last_stable": 0, "at": at}
                  for t, p in logs_of_all]  # fmt: skip
        if turn % 20 == 19:
            kept = KeptEnds.of(known, pa.Table.from_pylist(newer, schema=ENDS))
            assert not kept.uncertain(places)
            known, newer = kept.few(places, since(round(at.timestamp() * 1000))), []
            sizes.append(known.num_rows / len(logs_of_all))
    assert sizes[0] == sizes[-1] == 15, "8 around the commits, 6 in the window of rates and the one before"
