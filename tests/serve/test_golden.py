"""All that a server answers while rounds are played to it, held as files: ``make golden`` writes them anew.

A scene of ``scenes`` plays rounds of a made-up or recorded cluster to a server in this process and asks for its pages,
metrics and API; ``golden/SCENE.txt`` is every answer, headers too. ``git diff`` shows what a change did to them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.serve.scenes import SCENES

FOLDER = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_server_answers_what_it_answered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert SCENES[name](monkeypatch) == held, f"golden/{name}.txt: if this is meant, write all anew: make golden"


def write(names: Sequence[str]) -> None:
    """All files anew, or those of these names."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or SCENES:
        with pytest.MonkeyPatch.context() as patch:
            (FOLDER / f"{name}.txt").write_text(SCENES[name](patch), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
