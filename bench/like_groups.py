"""What a group's what-if costs by itself, and where groups of its structure were planned before; without Spark.

    python -m bench.like_groups [groups]      300 by default, drawn from the mix of ``bench.pipeline``

CPU milliseconds of one process. ``by itself``: ``outcomes``, as for a group alone. ``first``: as Spark's workers do it,
by columns, structures met for the first time among them. ``again``: the same groups once more, each structure known.
Then groups of so many partitions without their like.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from apportion.assignors import known
from apportion.history.group_history import GroupHistory
from apportion.history.scenarios import outcomes
from apportion.pipeline.columns import pieces
from apportion.pipeline.whatif import COLUMNS_AT_ONCE, GROUPS_AT_ONCE, Plans
from apportion.sources.dump import load_histories
from apportion.strategy.registry import tabled
from bench.made_log import Size, write_dump
from bench.whatif_rows import batch, row

MIX = Size(1_000_000, 20_000, 1_000_000)
ALONE = (31, 999, 3001)
SMALL_FROM = 300
"""Rank by size from which groups are drawn: those above are of a structure of their own."""


@dataclass(frozen=True)
class Drawn(Size):
    """Some groups of the mix."""

    sizes: tuple[int, ...] = ()

    def held(self) -> list[int]:
        """Partitions of each group."""
        return list(self.sizes)


def drawn(count: int) -> Drawn:
    """So many groups of the mix, the same each time."""
    ranks = sorted(random.Random(3).sample(range(SMALL_FROM, MIX.groups), count))  # noqa: S311 - the same each time
    sizes = tuple(MIX.held()[rank] for rank in ranks)
    return Drawn(sum(sizes), count, sum(sizes), sizes=sizes)


def per_group(groups: list[GroupHistory]) -> float:
    """CPU milliseconds a group that is planned by itself."""
    began, names = time.process_time(), list(tabled())
    for group in groups:
        _ = list(outcomes(group.name, group.folded.generations, group.raw, group.all_topics, names))
    return (time.process_time() - began) / len(groups) * 1000


def by_columns(rows: pa.RecordBatch, plans: Plans) -> float:
    """CPU milliseconds a group of those that come together."""
    began = time.process_time()
    for some in pieces(rows, GROUPS_AT_ONCE, COLUMNS_AT_ONCE):
        for _ in plans.rows(some):
            pass
    return (time.process_time() - began) / rows.num_rows * 1000


def in_columns(groups: list[GroupHistory]) -> pa.RecordBatch:
    """The groups as a worker gets them."""
    return batch([row(one.name, one.folded.generations, one.raw, one.raw["topics"]) for one in groups])


def read(size: Size) -> list[GroupHistory]:
    """Made-up groups, folded."""
    with tempfile.TemporaryDirectory() as name:
        write_dump(Path(name) / "dump", size)
        histories = load_histories(Path(name) / "dump")
        groups = list(histories.groups.values())
    for group in groups:
        _ = group.folded, group.raw
    return groups


def main() -> None:
    """Print a line for each way."""

    def again() -> float:
        by_columns(rows, plans)
        return by_columns(rows, plans)

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    groups, plans = read(drawn(count)), Plans(list(known()))
    rows = in_columns(groups)
    per_group(groups[:10])
    for what, ms in (
        ("by itself", per_group(groups[:100])),
        ("first", by_columns(rows, plans)),
        ("again", again()),
        *((f"alone, {n} partitions", by_columns(in_columns(read(Drawn(n, 1, n, sizes=(n,)))), plans)) for n in ALONE),
    ):
        print(f"{what:32} {ms:6.2f} ms a group")


if __name__ == "__main__":
    main()
