"""The recorded dump as text, which the package shows without Arrow: ``python -m tools.recording.as_text``."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apportion import demo
from apportion.sources import dump_files, parquet


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Each row of the dump in the order of its files."""
    files = dump_files.find(folder)
    for file in files.records:
        table = parquet.read(file, dump_files.RECORDS, dump_files.FILLED)
        names = ("partition", "offset", "timestamp", "key", "value")
        for row in zip(*(table[name].to_pylist() for name in names), strict=True):
            yield {
                "records": [None if v is None else b64encode(v).decode() if isinstance(v, bytes) else v for v in row]
            }
    for name, columns in (("ends", dump_files.ENDS), ("topics", dump_files.TOPICS)):
        for file in getattr(files, name):
            yield from ({name: row} for row in parquet.read(file, columns).to_pylist())


def write(folder: Path) -> None:
    """Write the text beside the dump."""
    text = "".join(json.dumps(line) + "\n" for line in lines(folder))
    (folder.parent / demo.TEXT).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    write(demo.dump())
