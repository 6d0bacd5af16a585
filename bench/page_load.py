"""How heavy a page of many different groups is, and how long a browser needs for it: python -m bench.page_load

    --groups N,M     sizes (200,2000)
    --pages A,B      pages that are there, as of two versions, in their place
    --loads N        loads of each page, in turn, of which the median counts (9)

Headless Chromium opens each page from the disk, in a new profile, the second time of two. By its own clock: "painted"
is when anything is seen, "loaded" until the script has drawn everything, both since the page was asked for; "drawn" is
the part of it from the first line that reads data to the last picture.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.report.browser import Browser
from tests.report.many_groups import different_groups

from apportion.report import page

WATCH = """new MutationObserver((_, watch) => { if (document.documentElement?.dataset.drawnMs) {
  window.loadedMs = performance.now(); watch.disconnect(); } }).observe(document,
  { attributes: true, subtree: true, attributeFilter: ["data-drawn-ms"] });"""
TIMES = """new Promise((done) => setTimeout(() => done([
  performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
  Number(document.documentElement.dataset.drawnMs), window.loadedMs]), 200))"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m bench.page_load", description=__doc__)
    parser.add_argument("--groups", default="200,2000")
    parser.add_argument("--pages", default="")
    parser.add_argument("--loads", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pages = [Path(name) for name in args.pages.split(",") if name]
        measure(pages or [written(Path(folder), int(count)) for count in args.groups.split(",")], args.loads)


def written(folder: Path, count: int) -> Path:
    """A page of so many groups."""
    path = folder / f"{count:,} groups"
    text = page.render(different_groups(count), title="t", source="made up", at="2026-11-22T00:00:00Z")
    path.with_suffix(".html").write_text(text, encoding="utf-8")
    return path.with_suffix(".html")


def measure(pages: Sequence[Path], loads: int) -> None:
    """A row a page."""
    times: dict[Path, list[list[float]]] = {path: [] for path in pages}
    for path in [path for _ in range(loads) for path in pages]:
        times[path].append(load(path))
    print("| page | MB | painted, ms | drawn, ms | loaded, ms |\n|---|---:|---:|---:|---:|")
    for path, of in times.items():
        shown = " | ".join(f"{statistics.median(column):.0f}" for column in zip(*of, strict=True))
        print(f"| {path.stem} | {path.stat().st_size / 1e6:.2f} | {shown} |")


def load(path: Path) -> list[float]:
    """Milliseconds until it was painted, of drawing, and until it was loaded."""
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "profile")
        try:
            browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
            for _ in range(2):
                browser.open(path, 1280)
            times: list[float] = browser.js(TIMES)
        finally:
            browser.close()
    return times


if __name__ == "__main__":
    main()
