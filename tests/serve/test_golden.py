"""All that a server answers while rounds are played to it, held as files: ``make golden`` writes them anew.

A scene of ``scenes`` plays rounds of a made-up or recorded cluster to a server in this process and asks for its pages,
metrics and API; ``golden/SCENE.txt`` is every answer, headers too. ``git diff`` shows what a change did to them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.serve.scenes import SCENES
from tests.support.golden import hold, write

FOLDER = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_server_answers_what_it_answered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(FOLDER, name, SCENES[name], monkeypatch)


if __name__ == "__main__":
    write(FOLDER, SCENES, sys.argv[1:])
