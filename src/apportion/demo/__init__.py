"""A recorded real cluster that ships with the package: the data of ``apportion demo``, recorded by ``make record``.

``dump()`` is the folder: ``records/``, ``ends.parquet`` and ``topics.parquet`` are the dump; ``truth/`` is Kafka's own
word on the same cluster, for tests. ``rows()`` reads the dump's tables as text, which needs no Arrow. Who played in it
is told in ``tools.recording.workload``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

TEXT: Final = "recorded.ndjson.gz"


def dump() -> Path:
    """The folder of the recorded dump."""
    return Path(__file__).parent / "dump"


def rows() -> dict[str, list[Any]]:
    """The dump's tables: ``records`` (partition, offset, ms, key and value in base64), ``ends``, ``topics``."""
    lines = gzip.decompress((Path(__file__).parent / TEXT).read_bytes()).decode().splitlines()
    tables: dict[str, list[Any]] = {"records": [], "ends": [], "topics": []}
    for line in lines:
        ((name, row),) = json.loads(line).items()
        tables[name].append(row)
    return tables
