"""A headless Chromium that is told what to do over a pipe, by its own protocol: no driver, no port."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def binary() -> str:
    """Where Chromium is; the test is skipped where there is none, and fails where everything must run."""
    if CHROMIUM is None:
        if os.environ.get("APPORTION_REQUIRE_BROKER"):
            pytest.fail("headless Chromium is needed here: apt-get install chromium")
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    return CHROMIUM


class Browser:
    """One tab. ``events`` are what it reported by itself: console, exceptions, blocked loads."""

    def __init__(self, profile: Path) -> None:
        reads, self._out = os.pipe()
        answers, writes = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4; the shell moves ours there.
        flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
        command = f'exec "$0" {flags} --remote-debugging-pipe --user-data-dir="$1" about:blank 3<&{reads} 4>&{writes}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command, binary(), str(profile)], pass_fds=(reads, writes), stderr=subprocess.DEVNULL
        )
        os.close(reads)
        os.close(writes)
        self._in = os.fdopen(answers, "rb")
        self._asked, self._session = 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol, and its result."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._message()
            if told.get("id") == self._asked:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result
            self.events.append(told)

    def _message(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "Chromium ended"
            text += byte
        told: dict[str, Any] = json.loads(text)
        return told

    def js(self, expression: str) -> Any:
        """What the page's script gives for an expression."""
        told = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def enter(self) -> None:
        """The Enter key, pressed and let go."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, text="\r")

    def open(self, page: Path | str, width: int, fragment: str = "") -> None:
        """The page, a file or an address, at that width, once it is drawn."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=(page if isinstance(page, str) else page.as_uri()) + fragment)
        end = monotonic() + 60
        while self.js("document.documentElement?.dataset.drawnMs ?? null") is None:
            assert monotonic() < end, "the page was not drawn within a minute"
            sleep(0.05)

    def complaints(self) -> list[dict[str, Any]]:
        """Errors, console lines and refused loads."""
        names = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
        return [event for event in self.events if event.get("method") in names]

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            self._process.kill()
        self._process.wait(20)
        self._in.close()
        os.close(self._out)
