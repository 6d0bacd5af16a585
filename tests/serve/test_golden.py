"""All that a server answers while rounds are played to it, held as files: ``make golden`` writes them anew.

A scene of ``scenes`` plays rounds of a made-up or recorded cluster to a server in this process and asks for its pages,
metrics and API; ``golden/SCENE.txt`` is every answer, headers too. ``git diff`` shows what a change did to them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.serve.parts import PARTS
from tests.serve.scenes import SCENES
from tests.support.golden import hold, write

FOLDER = Path(__file__).parent / "golden"
EVERY = {**SCENES, **PARTS}


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_server_answers_what_it_answered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(FOLDER, name, EVERY[name], monkeypatch)


if __name__ == "__main__":
    write(FOLDER, EVERY, sys.argv[1:])
