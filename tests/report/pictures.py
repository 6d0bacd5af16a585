"""Draws the documentation's pictures anew from the recorded cluster: ``python -m tests.report.pictures [NAME]...``."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.report.browser import Browser

from apportion.demo import dump

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH: Final = 1160
SHOTS: Final = (
    # file, group, figures from the first to the last
    ("page-groups", "feed-cooperative", "#cluster .tools", "#cluster .note"),
    ("page-totals", "feed-cooperative", "#picture-totals", "#picture-totals"),
    ("page-strategies", "feed-cooperative", "#picture-strategies", "#picture-strategies"),
    ("page-present", "feed-cooperative", "#picture-lag", "#picture-tradeoff"),
    ("page-racks", "near-racks", "#picture-racks", "#picture-handover"),
    ("page-time", "feed-cooperative", "#picture-time", "#picture-time"),
    ("page-storm", "fraud-storm", "#picture-time", "#picture-time"),
    ("page-rollout", "", "#picture-time", "#picture-time"),
    ("page-timeline", "feed-cooperative", "#picture-timeline", "#picture-timeline"),
    ("page-owners", "feed-cooperative", "#picture-owners", "#picture-owners"),
)
PHONE: Final = (
    # file, width, dark: the page's beginning
    ("page-phone", 390, False),
    ("page-phone-dark", 390, True),
    ("page-tablet", 800, False),
)
AROUND: Final = """(async () => { document.documentElement.style.scrollBehavior = "auto"; scrollTo(0, 0);
  document.activeElement.blur();
  await new Promise((done) => setTimeout(done, 200));
  const a = document.querySelector('%s').getBoundingClientRect(),
  b = document.querySelector('%s').getBoundingClientRect();
  return [Math.min(a.left, b.left) - 4, Math.min(a.top, b.top) + scrollY - 4, Math.max(a.right, b.right) + 4,
          Math.max(a.bottom, b.bottom) + scrollY + 4]; })()"""


def pages(folder: Path) -> tuple[Path, Path]:
    """The recorded cluster's page, and that of a rolling restart of one of its groups."""
    cluster, rollout = folder / "page.html", folder / "rollout.html"
    command = [sys.executable, "-m", "apportion"]
    title = ["--title", "The recorded cluster"]
    subprocess.run([*command, "report", str(dump()), "--switch", "-o", str(cluster), *title], check=True)
    rolling = ["what-if", str(dump()), "--group", "feed-cooperative", "--rolling", "-o", "html"]
    rollout.write_bytes(subprocess.run([*command, *rolling], check=True, stdout=subprocess.PIPE).stdout)
    return cluster, rollout


def draw(folder: Path, names: Sequence[str] = ()) -> None:
    """Each picture as a PNG, or those of these names."""
    with TemporaryDirectory() as scratch:
        cluster, rollout = pages(Path(scratch))
        browser = Browser(Path(scratch) / "profile")
        try:
            for name, group, first, last in SHOTS:
                if names and name not in names:
                    continue
                browser.open(cluster if group else rollout, WIDTH, f"#group={group}" if group else "")
                left, top, right, bottom = browser.js(AROUND % (first, last))
                clip = {"x": left, "y": top, "width": right - left, "height": bottom - top, "scale": 1}
                keep(browser, clip, folder / f"{name}.png")
            for name, width, dark in PHONE:
                if names and name not in names:
                    continue
                feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
                browser.call("Emulation.setEmulatedMedia", features=[feature])
                browser.open(cluster, width)
                keep(browser, {"x": 0, "y": 0, "width": width, "height": 1100, "scale": 1}, folder / f"{name}.png")
        finally:
            browser.close()


def keep(browser: Browser, clip: dict[str, float], path: Path) -> None:
    """A part of the page as a file."""
    shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    path.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    draw(FOLDER, sys.argv[1:])
