"""A recorded real cluster that ships with the package: what ``apportion demo`` shows, made anew by ``make record``.

``dump()`` is the folder: ``records/``, ``ends.parquet`` and ``topics.parquet`` are the dump; ``truth/`` is Kafka's own
word on the same cluster, for tests. Who played in it is told in ``tools.recording.workload``.
"""

from __future__ import annotations

from pathlib import Path


def dump() -> Path:
    """The folder of the recorded dump."""
    return Path(__file__).parent / "dump"
