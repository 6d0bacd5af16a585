"""What a group's what-if costs by itself, and where groups of its structure were planned before; without Spark.

    python -m bench.alike [groups]      300 by default, drawn from the mix of ``bench.pipeline``

CPU milliseconds of one process. ``by itself``: ``what_if``, as for a group alone. ``first``: through ``SharedPlans``,
structures met for the first time among them. ``again``: the same groups once more, each structure known.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from apportion.assignors import known
from apportion.history.group_history import GroupHistory
from apportion.history.shared_plans import SharedPlans
from apportion.inputs.dump import load_histories
from bench.made_log import Size, write_dump

MIX = Size(1_000_000, 20_000, 1_000_000)
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
    return Drawn(sum(sizes), count, sum(sizes), sizes)


def per_group(groups: list[GroupHistory], plans: SharedPlans | None) -> float:
    """CPU milliseconds a group."""
    began = time.process_time()
    for group in groups:
        if plans is None:
            group.what_if()
        else:
            plans.columns(group.name, group.folded.generations, group.raw, group.raw["topics"])
    return (time.process_time() - began) / len(groups) * 1000


def main() -> None:
    """Print a line for each way."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory() as name:
        write_dump(Path(name) / "dump", drawn(count))
        groups = list(load_histories(Path(name) / "dump").groups.values())
    for group in groups:
        _ = group.folded, group.raw
    plans, mine = SharedPlans(list(known())), SharedPlans([name for name in known() if name != "broker-uniform"])
    per_group(groups[:10], None)
    for what, ms in (
        ("by itself", per_group(groups, None)),
        ("first", per_group(groups, plans)),
        ("again", per_group(groups, plans)),
        ("first, without broker-uniform", per_group(groups, mine)),
        ("again, without broker-uniform", per_group(groups, mine)),
    ):
        print(f"{what:32} {ms:6.2f} ms a group")


if __name__ == "__main__":
    main()
