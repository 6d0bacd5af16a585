"""The page in three widths, light and dark, side by side: ``python -m tests.report.contact_sheets [SHEET]...``.

Sheets are ``1``, ``23``, ``800`` and ``2000`` (so many groups), ``storm``, ``cooperative`` and ``rollout`` (a group's
section), ``live`` (``serve`` without groups and with 23, on a real broker). With ``--shots FOLDER`` every picture is
kept there in full size.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tests.report.browser import Browser
from tests.report.many_groups import different_groups
from tests.report.pictures import FOLDER, pages

from apportion.demo import dump
from apportion.report import page

WIDTHS: Final = (1440, 800, 390)
SCHEMES: Final = ("light", "dark")
SCALE: Final = 0.45
QUALITY: Final = 40
LIVE_GROUPS: Final = 23
BOX: Final = """(() => { scrollTo({ top: 0, behavior: "instant" });
  const box = document.querySelector("%s").getBoundingClientRect(); return [box.top, box.bottom]; })()"""


class View(NamedTuple):
    """A page's address, where to look at it, and how many pixels of it at most."""

    address: str
    at: str = "body"
    tallest: int = 1500


class Shot(NamedTuple):
    """What was seen, by its name, in pixels."""

    name: str
    png: bytes
    width: int
    height: int


def of_sizes(folder: Path) -> dict[str, Callable[[], list[View]]]:
    """The sheets of pages that are files."""

    def one() -> list[View]:
        path = folder / "one.html"
        command = [sys.executable, "-m", "apportion", "report", str(dump()), "--group", "feed-cooperative"]
        subprocess.run([*command, "-o", str(path)], check=True)
        return [View(path.as_uri(), tallest=3000)]

    def many(count: int) -> list[View]:
        path = folder / f"{count}.html"
        text = page.render(
            different_groups(count), title=f"{count:,} groups", source="made up", at="2026-11-22T00:00:00Z"
        )
        path.write_text(text, encoding="utf-8")
        return [View(path.as_uri())]

    def recorded(which: int, fragment: str, at: str) -> list[View]:
        return [View(pages(folder)[which].as_uri() + fragment, at, 2600)]

    return {
        "1": one,
        "23": lambda: recorded(0, "", "body"),
        "800": lambda: many(800),
        "2000": lambda: many(2000),
        "storm": lambda: recorded(0, "#group=fraud-storm", "#group"),
        "cooperative": lambda: recorded(0, "#group=feed-cooperative", "#group"),
        "rollout": lambda: recorded(1, "", "#group"),
    }


def look(browser: Browser, name: str, view: View) -> Iterator[Shot]:
    """The view in every width, light and dark."""
    for scheme in SCHEMES:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.call("Emulation.setEmulatedMedia", features=[feature])
        for width in WIDTHS:
            browser.open(view.address, width)
            browser.js("new Promise((drawn) => setTimeout(drawn, 400))")
            top, bottom = browser.js(BOX % view.at)
            height = round(min(bottom - top, view.tallest))
            clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
            for _ in range(2):  # of a first one on a busy machine tiles may be missing
                shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
            yield Shot(f"{name}-{width}-{scheme}", base64.b64decode(shot["data"]), width, height)


def sheet(browser: Browser, shots: Sequence[Shot], scratch: Path, to: Path) -> None:
    """All shots of a sheet in one picture: a row of each view in light, and one in dark."""
    rows = []
    for row in range(0, len(shots), len(WIDTHS)):
        pictures = "".join(
            f'<img src="data:image/png;base64,{base64.b64encode(shot.png).decode()}" width="{shot.width * SCALE:.0f}">'
            for shot in shots[row : row + len(WIDTHS)]
        )
        rows.append(f"<div>{pictures}</div>")
    style = "body{margin:8px;background:#888}div{display:flex;gap:8px;align-items:start;margin-bottom:8px}"
    path = scratch / "sheet.html"
    path.write_text(f"<html data-drawn-ms=0><style>{style}</style>{''.join(rows)}", encoding="utf-8")
    width = round(sum(WIDTHS) * SCALE) + 32
    browser.call("Emulation.setEmulatedMedia", features=[])
    browser.open(path, width)
    browser.js("Promise.all([...document.images].map((image) => image.decode()))")
    height = browser.js("document.querySelector('body').scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    webp = browser.call("Page.captureScreenshot", format="webp", quality=QUALITY, captureBeyondViewport=True, clip=clip)
    to.write_bytes(base64.b64decode(webp["data"]))


def live(browser: Browser) -> Iterator[Shot]:
    """A server's page before there is a group, and with 23."""
    from tests.serve.running import serving, until

    from apportion.testing.broker import Broker
    from bench import many_groups

    with Broker() as broker, serving("--interval", "1", bootstrap=broker.bootstrap) as server:
        until(lambda: server.ask("/readyz")[0] == 200)
        address = View(f"http://127.0.0.1:{server.port}/")
        yield from look(browser, "live-empty", address)
        many_groups.make_topics(broker, 4, 6)
        many_groups.make_groups(broker, range(LIVE_GROUPS), 4, 6)
        until(lambda: len(server.json("/api/v1/groups")["groups"]) >= LIVE_GROUPS)
        yield from look(browser, "live-23", address)


def main() -> None:
    """Make the sheets that are asked for, or all."""
    parser = ArgumentParser("python -m tests.report.contact_sheets", description=__doc__)
    parser.add_argument("sheets", nargs="*")
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--to", type=Path, default=FOLDER)
    args = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        views = of_sizes(folder)
        browser = Browser(folder / "profile")
        try:
            for name in args.sheets or [*views, "live"]:
                found = live(browser) if name == "live" else (s for v in views[name]() for s in look(browser, name, v))
                shots = list(found)
                for shot in shots:
                    if args.shots:
                        (args.shots / f"{shot.name}.png").write_bytes(shot.png)
                sheet(browser, shots, folder, args.to / f"sheet-{name}.webp")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
