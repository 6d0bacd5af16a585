"""How heavy a page of many different groups is, and how long a browser needs for it: python -m bench.page_load

    --groups N,M     sizes (200,2000)
    --loads N        loads of each page, of which the median counts (5)

Headless Chromium opens the page from the disk. "Drawn" is the page's own script, from its first line to the last list;
"loaded" is from the command to open the page until the script has ended: reading and unpacking besides. Wall clock.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.report.browser import Browser
from tests.report.many_groups import different_groups

from apportion.report import page


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m bench.page_load", description=__doc__)
    parser.add_argument("--groups", default="200,2000")
    parser.add_argument("--loads", type=int, default=5)
    args = parser.parse_args()
    print("| groups | MB | drawn, ms | loaded, ms |\n|---:|---:|---:|---:|")
    for count in map(int, args.groups.split(",")):
        text = page.render(different_groups(count), title="t", source="made up", at="2026-11-22T00:00:00Z")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            path.write_text(text, encoding="utf-8")
            browser = Browser(Path(folder) / "profile")
            try:
                drawn, loaded = zip(*(load(browser, path) for _ in range(args.loads)), strict=True)
            finally:
                browser.close()
        megabytes = len(text.encode()) / 1e6
        print(f"| {count:,} | {megabytes:.1f} | {statistics.median(drawn):.0f} | {statistics.median(loaded):.0f} |")


def load(browser: Browser, path: Path) -> tuple[float, float]:
    """Milliseconds that the script took, and that the whole took."""
    began = time.perf_counter()
    browser.open(path, 1280)
    loaded = (time.perf_counter() - began) * 1000
    return float(browser.js("document.documentElement.dataset.drawnMs")), loaded


if __name__ == "__main__":
    main()
