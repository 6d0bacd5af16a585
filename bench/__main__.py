"""Compare with Kafka's own assignors, franz-go and kafka-python side by side: python -m bench [options]

    --quick         the smallest cells and few calls, in about a minute
    --all           the whole matrix, in hours
    --only WORD     cells (``dis-rack``, ``JOIN_ONE``) or sections (``million``) that have the word; may come again
    --calls N       calls of apportion and franz-go a cell (5)
    --java-s S      seconds of warm calls for Java a cell, at least one (3)
    --python-s S    seconds of CPU time for one call of kafka-python (20)
    --to FILE       where the page goes (BENCHMARKS.md)

The page is written anew after every cell, so what is there stays there when it is stopped.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import extras, matrix
from bench.autoscaling import section_in
from bench.cells import CELLS, Cell
from bench.page import SECTIONS, page


def main() -> None:
    """Measure and write."""
    args = _arguments()
    rows: list[matrix.Row] = []
    others = section_in(args.to)
    found: dict[str, list[dict[str, Any]]] = {}
    repeat = "make bench" if len(sys.argv) == 1 else " ".join(["python -m bench", *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as folder:
        for cell in _cells(args):
            rows.append(matrix.run(cell, Path(folder), args.calls, args.java_s, args.python_s))
            _tell(rows[-1])
            args.to.write_text(page(rows, found, repeat) + others)
    for name in SECTIONS:
        if not args.quick and (not args.only or name in args.only):
            found[name] = extras.run(name)
            print(name, *found[name], sep="\n    ", flush=True)
            args.to.write_text(page(rows, found, repeat) + others)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--calls", type=int, default=9)
    parser.add_argument("--java-s", type=float, default=3)
    parser.add_argument("--python-s", type=int, default=20)
    parser.add_argument("--to", type=Path, default=Path(__file__).parents[1] / "BENCHMARKS.md")
    args = parser.parse_args()
    if args.quick:
        args.calls, args.java_s = 3, 0.5
    return args


def _cells(args: argparse.Namespace) -> list[Cell]:
    cells = matrix.quick_cells() if args.quick else list(matrix.every_cell()) if args.all else CELLS
    wanted = [word for word in args.only if word not in SECTIONS]
    if args.only and not wanted:
        return []
    return [cell for cell in cells if set(wanted) <= set(cell.name.split())]


def _tell(row: matrix.Row) -> None:
    times = {name: told.why or [told.warm, told.first] for name, told in row.told.items()}
    ratio = f"{row.cpu / row.cell.goal_ms:.2f} of the goal" if row.cell.goal_ms else ""
    calls = ", ".join(f"{name} {first:.2f} then {warm:.2f}" for name, (first, warm) in row.leader.items())
    print(f"{row.cell.name:45} {calls}; dict {row.public:.2f} ms", flush=True)
    print(f"{'':45} {row.cpu:8.2f} ms  {ratio}  {row.quality} {times}", flush=True)


if __name__ == "__main__":
    main()
