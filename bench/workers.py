"""What one core, two cores, an object store and two workers make of the same builds; a table of markdown.

    python -m bench.workers [commits] [groups] [partitions]       200,000 5,000 250,000 by default

Each place builds every table from the same made-up dump: in full, after two rounds in which every group has committed,
all log ends moved and one group in a hundred has a new generation, and again with nothing new. Each build is a process
of its own, as a command is, with the start of Python, of its JVM and of its workers. CPU seconds are those of that
process, of Spark's JVMs (driver, master, workers, executors) and of their Python workers; the S3 server's are not among
them, nor is the start of the cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.support.cluster import SparkCluster
from tests.support.s3 import S3Server

from apportion.spark import job
from bench.made_log import Size, write_dump, write_ends, write_round
from bench.meter import Cost, Meter, compile_package

STAGES = ("full", "a real round", "the next round", "nothing new")
PLACES = (
    "one core, a local folder", "two cores, a local folder", "two cores, S3",
    "one worker of two cores, a shared folder", "one worker of one core, S3", "two workers of one core, S3",
)  # fmt: skip
SHARED = "/srv"
"""A folder that workers see too: temporary ones are hidden from them."""


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """These variables for the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def measured(place: str, size: Size) -> dict[str, Cost]:
    """Stage -> its cost in this place; the time in which the cluster starts is not counted."""
    meter = Meter()
    with (
        meter.watching(),
        tempfile.TemporaryDirectory(dir=SHARED if "shared" in place else None) as name,
        ExitStack() as stack,
    ):
        dump = Path(name) / "dump"
        write_dump(dump, size)
        source, out, s3 = str(dump), str(Path(name) / "out"), None
        stack.enter_context(environment({"APPORTION_CORES": "1" if place.startswith("one core") else "2"}))
        if place.endswith("S3"):
            s3 = stack.enter_context(S3Server())
            stack.enter_context(environment(s3.environment))
            s3.upload(dump, "dump")
            source, out = "s3a://lake/dump", "s3a://lake/out"
        if "worker" in place:
            workers, cores = (2 if word in place else 1 for word in ("two workers", "two cores"))
            cluster = stack.enter_context(SparkCluster(workers, memory="3g", cores=cores))
            stack.enter_context(environment(cluster.environment(**{"spark.executor.memory": "2g"})))
        for turn, stage in enumerate(STAGES):
            if turn in (1, 2):
                write_round(dump, size, turn)
                write_ends(dump, size, later=turn)
                if s3 is not None:
                    s3.upload(dump, "dump")
            meter.begin(stage)
            whole, own = build_apart(source, out)
            meter.begin("")
            if bool(turn) == bool(whole):
                raise RuntimeError(f"{place}, {stage}: {whole or 'the first build was incremental'}")
            cost = meter.costs[stage]  # of all JVMs and workers below this process
            cost.cpu_s += own
            print(f"    {time.strftime('%X')} {place}, {stage}: {cost.wall_s:.1f} s, {cost.cpu_s:.1f} CPU s",
                  file=sys.stderr, flush=True)  # fmt: skip
    return meter.costs


def build_apart(source: str, out: str) -> tuple[str, float]:
    """A build in a process of its own: why it was whole, and the CPU seconds of that process, without its children."""
    words = [sys.executable, "-m", "bench.workers", "--build", source, out]
    ended = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    return ended["whole"], ended["cpu_s"]


def build_here(source: str, out: str) -> None:
    """What ``build_apart`` starts: a build, its reason and CPU seconds as JSON; Python's own start is counted too."""
    whole = job.build(source, out).whole
    print(json.dumps({"whole": whole, "cpu_s": time.process_time()}))


def page(costs: dict[str, dict[str, Cost]], size: Size) -> str:
    """The table."""
    lines = [
        f"Measured by `python -m bench.workers` on {datetime.now(UTC):%Y-%m-%d}:",
        f"{size.commits:,} commits of {size.groups:,} groups with {size.partitions:,} partitions.",
        "",
        "| where | " + " | ".join(f"{stage}: wall s, CPU s" for stage in STAGES) + " |",
        "|---|" + "---:|" * len(STAGES),
    ]
    for place, by_stage in costs.items():
        cells = [f"{by_stage[stage].wall_s:.1f}, {by_stage[stage].cpu_s:.1f}" for stage in STAGES]
        lines.append(f"| {place} | {' | '.join(cells)} |")
    return "\n".join(lines)


def apart(place: str, size: Size) -> dict[str, Cost]:
    """``measured`` in a process of its own: a JVM takes jars, and a driver its cluster, at the start alone."""
    words = [sys.executable, "-m", "bench.workers", "--place", place]
    words += map(str, (size.commits, size.groups, size.partitions))
    ended = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return {stage: Cost(**cost) for stage, cost in json.loads(ended.stdout).items()}


def main() -> None:
    """Print the table, or with ``--place`` the costs there as JSON."""
    if "--build" in sys.argv:
        build_here(*sys.argv[sys.argv.index("--build") + 1 :])
        return
    compile_package()
    given = [int(word) for word in sys.argv[1:] if word.isdigit()]
    size = Size(*given, *(200_000, 5_000, 250_000)[len(given) :])
    if "--place" in sys.argv:
        costs = measured(sys.argv[sys.argv.index("--place") + 1], size)
        print(json.dumps({stage: asdict(cost) for stage, cost in costs.items()}))
    else:
        print(page({place: apart(place, size) for place in PLACES}, size))


if __name__ == "__main__":
    main()
