"""Whole answers against those that were written down; ``APPORTION_WRITE=1`` writes anew what is meant to change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def as_written(path: Path, key: str, answer: Any) -> None:
    """Hold an answer against the entry ``key`` of a file of JSON, one line an entry; what cannot be JSON fails."""
    answer = json.loads(json.dumps(answer, allow_nan=False))
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if os.environ.get("APPORTION_WRITE") == "1":
        known[key] = answer
        lines = [f"{json.dumps(name)}: {json.dumps(known[name], ensure_ascii=False)}" for name in sorted(known)]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    assert key in known, f"{path.name} has no {key!r}: write it with APPORTION_WRITE=1"
    assert answer == known[key]
