"""What each table, sentence and figure is for made-up groups, held as files: ``make golden`` writes them anew.

A scene of ``scenes`` asks one module of ``report`` for all that it says; ``golden/SCENE.txt`` holds it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.report.scenes import SCENES
from tests.support.golden import hold, write

FOLDER = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_module_says_what_it_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(FOLDER, name, SCENES[name], monkeypatch)


if __name__ == "__main__":
    write(FOLDER, SCENES, sys.argv[1:])
