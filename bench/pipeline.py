"""What the pipeline's stages cost, on a made-up log with the skew of real clusters; a section of markdown.

    python -m bench.pipeline [commits] [groups] [partitions]      1,000,000 20,000 1,000,000 by default
    python -m bench.pipeline --once 100000 2000 100000            without the run at half the size
    python -m bench.pipeline --no-capture ...                     without a broker: the dump is just written
    python -m bench.pipeline ... 150000 3000 150000 30            with so many generations of each group, 3 by default

A real broker is loaded with the log, captured through Spark's connector, and every table is made; first at half the
size, then at the whole, so that the ratio shows what twice the input costs. CPU seconds are those of Spark's JVM, its
Python workers and this process together, since a busy machine makes the wall say little.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from apportion.errors import Unavailable
from apportion.spark import job, packages, session, sources
from apportion.spark.build import Built
from apportion.spark.location import locate
from bench.decode import counted
from bench.made_log import OFFSETS_PARTITIONS, Size, load, write_dump, write_ends, write_round
from bench.meter import Cost, Meter, compile_package, cpu_seconds

STAGES = ("capture", "decode alone", "decode", "gold", "what-if", "publish")
AGAIN = ("a real round", "the next round", "log ends alone", "nothing new")
"""In a real round every group has committed, all log ends moved, and one group in a hundred has a new generation."""
BEGINS = {"decoding": "decode", "gathering": "gold", "making silver": "publish"}
"""How the line begins with which a build tells of a stage."""
QUIET_TURNS = 3


def measured(size: Size, turns: int, captures: bool = True) -> dict[str, Cost]:
    """Stage -> its cost; in sessions as the commands have them, without their start."""
    meter = Meter()
    with meter.watching(), tempfile.TemporaryDirectory() as name:
        dump = Path(name) / "dump"
        if captures:
            _capture(size, dump, meter)
        else:
            write_dump(dump, size)
        with session.session(quick=True) as spark:  # as a full build of files of this machine has it
            _decode(dump, spark, meter, turns)
            made = _built(size, dump, Path(name) / "out", spark, meter)
    expected = {"gold/group_state": size.groups, "gold/lag": min(sum(size.held()), size.commits)}
    if short := {name: made.rows[name] for name, rows in expected.items() if made.rows[name] < rows}:
        raise RuntimeError(f"rows are missing: {short}, needed {expected}")
    return meter.costs


def _built(size: Size, dump: Path, out: Path, spark: SparkSession, meter: Meter) -> Built:
    """A full build, and the incremental ones after it."""

    def progress(line: str) -> None:
        stage = "what-if" if line.endswith("to plan") else next((BEGINS[w] for w in BEGINS if line.startswith(w)), "")
        if stage:
            meter.begin(stage)
        _progress(line)

    meter.begin("decode")
    made = job.build(dump, out, spark=spark, progress=progress)
    meter.begin("")
    _again(size, dump, out, spark, meter)
    return made


def _again(size: Size, dump: Path, out: Path, spark: SparkSession, meter: Meter) -> None:
    """Builds that go on from it."""
    for turn, stage in enumerate(AGAIN, start=1):
        if turn < 3:
            write_round(dump, size, turn)
        if turn < 4:
            write_ends(dump, size, later=turn)
        meter.begin(stage)
        built = job.build(dump, out, spark=spark, progress=_progress)
        meter.begin("")
        if built.whole:
            raise RuntimeError(f"an incremental build was whole: {built.whole}")
        _progress(
            f"{stage}: {built.new_records} records, {built.touched_groups} groups touched, "
            f"{built.planned_groups} planned; {meter.costs[stage].cpu_s:.1f} CPU s"
        )


def _progress(line: str) -> None:
    print(f"    {time.strftime('%X')} {cpu_seconds():6.1f} CPU s {line}", file=sys.stderr, flush=True)


def _capture(size: Size, dump: Path, meter: Meter) -> None:
    """A broker's log read through the connector; where there is no broker, the dump is just written."""
    try:
        from apportion.testing.broker import Broker

        settings = {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS), "log.cleaner.enable": "false"}
        with Broker(properties=settings) as broker, session.session(quick=False, jars=[packages.KAFKA]) as spark:
            broker.create_topic("made", 1)
            load(broker.bootstrap, size)
            meter.begin("capture")
            job.capture(broker.bootstrap, dump, source="connector", spark=spark)
            meter.begin("")
        shutil.rmtree(dump / "samples")  # of this minute, and of the broker's own topics: the log's time is another
        write_ends(dump, size)
    except Unavailable as error:
        print(f"No capture: {error}", file=sys.stderr)
        write_dump(dump, size)


def _decode(dump: Path, spark: SparkSession, meter: Meter, turns: int) -> None:
    """Commits alone read and decoded, into columns that stay in the workers; the median of some turns after a first."""
    records = sources.open_dump(spark, locate(dump)).read("records")
    costs = []
    for turn in range(turns + 1):
        meter.begin("decode alone" if turn else "")
        began, cpu = time.perf_counter(), cpu_seconds()
        counts = records.mapInArrow(counted, "rows bigint").collect()
        if not sum(row["rows"] for row in counts):
            raise RuntimeError("no commit was decoded")
        costs.append((time.perf_counter() - began, cpu_seconds() - cpu))
    meter.begin("")
    cost = meter.costs["decode alone"]
    cost.wall_s, cost.cpu_s = (statistics.median(which) for which in zip(*costs[1:], strict=True))


# -- the page --------------------------------------------------------------------------------------------------------


def page(half: dict[str, Cost] | None, whole: dict[str, Cost], size: Size, load_before: float) -> str:
    """The section."""
    machine = f"{session.cores()} cores{_cpu()}, {_memory_gb():.0f} GB, load {load_before:.1f} before"
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    what = (
        f"{size.commits:,} commits (v4) and {size.turns * size.groups:,} generations of {size.groups:,} groups with "
        f"{size.partitions:,} partitions in all, one of them with {size.held()[0]:,}"
    )
    lines = [
        "## What it costs",
        "",
        f"Measured by `python -m bench.pipeline` on {when}: {machine}.",
        f"{what}; {'captured from a real broker' if 'capture' in whole else 'not captured'}.",
        "",
        "| stage | wall s | CPU s | by the wall | a CPU second | JVM MB | workers MB | twice the input: wall, CPU |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for stage in STAGES:
        if stage in whole:
            lines.append(_line(stage, half[stage] if half else None, whole[stage], size))
    full = sum((whole[stage] for stage in STAGES[2:]), Cost())
    lines += ["", "| build | wall s | CPU s | of a full build's CPU |", "|---|---:|---:|---:|"]
    lines.append(f"| full | {full.wall_s:.1f} | {full.cpu_s:.1f} | 100 % |")
    lines += [
        f"| {s} | {whole[s].wall_s:.1f} | {whole[s].cpu_s:.1f} | {100 * whole[s].cpu_s / full.cpu_s:.0f} % |"
        for s in AGAIN
    ]
    return "\n".join([*lines, "", *_estimate(whole, size)])


def _line(stage: str, half: Cost | None, cost: Cost, size: Size) -> str:
    count, unit = {
        "decode alone": (size.commits, "commits"),
        "gold": (size.partitions, "partitions"),
        "what-if": (size.groups, "groups"),
    }.get(stage, (size.records, "records"))
    rates = f"{count / cost.wall_s:,.0f} {unit}/s | {count / cost.cpu_s:,.0f}"
    memory = f"{cost.jvm / 2**20:,.0f} | {cost.workers / 2**20:,.0f}"
    twice = f"{cost.wall_s / half.wall_s:.1f}, {cost.cpu_s / half.cpu_s:.1f}" if half else "not run"
    return f"| {stage} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} | {rates} | {memory} | {twice} |"


BROKERS, GROUPS_A_BROKER, PARTITIONS_A_GROUP, COMMITS_A_BROKER = 10_000, 50, 50, 100


def _estimate(cost: dict[str, Cost], size: Size) -> list[str]:
    """On paper: what a fleet of 10,000 brokers needs, by CPU seconds a record and a group."""
    commits_s, groups = BROKERS * COMMITS_A_BROKER, BROKERS * GROUPS_A_BROKER
    hour = commits_s * 3600
    record_s = (cost["decode"].cpu_s + (cost["capture"].cpu_s if "capture" in cost else 0.0)) / size.records
    per_partition, per_group = cost["gold"].cpu_s / size.partitions, cost["what-if"].cpu_s / size.groups
    gold_h = groups * PARTITIONS_A_GROUP * per_partition / 3600
    said = (
        f"On paper, {BROKERS:,} brokers: assume {GROUPS_A_BROKER} groups a broker with {PARTITIONS_A_GROUP} partitions "
        f"each, and {COMMITS_A_BROKER} commits a second a broker. That is {groups:,} groups, "
        f"{groups * PARTITIONS_A_GROUP:,} partitions and {hour / 1e9:,.1f} billion commits an hour. By the CPU seconds "
        f"above an hour of commits takes {hour * record_s / 3600:,.0f} core-hours to capture and decode, one gold "
        f"{gold_h:,.1f} core-hours and one what-if {groups * per_group / 3600:,.1f}. Clusters do not know each other, "
        "so the work parts into as many pieces as there are clusters; nothing of it was tried on more than one machine."
    )
    return [said]


def _cpu() -> str:
    try:
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    except OSError:
        return ""
    return f" ({names[0].partition(': ')[2]})" if names else ""


def _memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def main() -> None:
    """Print the section."""
    compile_package()
    once, captures = "--once" in sys.argv, "--no-capture" not in sys.argv
    given = [int(word) for word in sys.argv[1:] if word.isdigit()]
    size = Size(*given, *(1_000_000, 20_000, 1_000_000, 3)[len(given) :])
    load_before = os.getloadavg()[0]
    captures = captures and bool(packages.local_jars(packages.KAFKA))
    half = None if once else measured(size // 2, QUIET_TURNS, captures)
    whole = measured(size, QUIET_TURNS, captures)
    print(page(half, whole, size, load_before))


if __name__ == "__main__":
    main()
