"""Draws the pictures of the documentation anew from the recorded cluster: ``python -m tests.report.pictures``."""

from __future__ import annotations

import base64
import subprocess
import sys
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


def draw(folder: Path) -> None:
    """Each picture as a PNG."""
    with TemporaryDirectory() as scratch:
        page = Path(scratch) / "page.html"
        command = [sys.executable, "-m", "apportion", "report", str(dump()), "--switch", "-o", str(page)]
        subprocess.run([*command, "--title", "The recorded cluster"], check=True)
        browser = Browser(Path(scratch) / "profile")
        try:
            for name, group, first, last in SHOTS:
                browser.open(page, WIDTH, f"#group={group}")
                left, top, right, bottom = browser.js(AROUND % (first, last))
                clip = {"x": left, "y": top, "width": right - left, "height": bottom - top, "scale": 1}
                keep(browser, clip, folder / f"{name}.png")
            for name, width, dark in PHONE:
                feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
                browser.call("Emulation.setEmulatedMedia", features=[feature])
                browser.open(page, width)
                keep(browser, {"x": 0, "y": 0, "width": width, "height": 1100, "scale": 1}, folder / f"{name}.png")
        finally:
            browser.close()


def keep(browser: Browser, clip: dict[str, float], path: Path) -> None:
    """A part of the page as a file."""
    shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    path.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    draw(FOLDER)
