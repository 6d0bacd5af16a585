"""How far a Spark streaming query has read, from its checkpoint folder: it joins no group and commits nothing to Kafka.

Before a batch Spark writes the end of each source's range to ``offsets/N``, and after it ``commits/N``. Source: Apache
Spark, ``OffsetSeqLog``, ``CommitLog`` and ``KafkaSourceOffset``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from apportion.errors import BadInput

_NEEDED: Final = "the checkpoint folder of a streaming query that reads Kafka, on this machine"


def progress(folder: str) -> dict[tuple[str, int], int]:
    """(topic, partition) to the next offset that the query reads, once the newest finished batch is over.

    If several sources of the query read a partition, the one that is furthest behind counts.

    Raises
        BadInput: no such folder, no finished batch, no source that is Kafka's, or a layout that is not known.
    """
    finished = _batches(Path(folder, "offsets")) & _batches(Path(folder, "commits"))
    if not finished:
        raise BadInput(folder, "no finished batch", _NEEDED)
    path = Path(folder, "offsets", str(max(finished)))
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines[:1] != ["v1"]:
        raise BadInput(str(path), f"an offsets log of version {''.join(lines[:1])[:20]!r}", "v1")
    offsets: dict[tuple[str, int], int] = {}
    for source in lines[2:]:  # after the version and what the batch's settings were
        for place, offset in _of_kafka(source).items():
            offsets[place] = min(offset, offsets.get(place, offset))
    if not offsets:
        raise BadInput(str(path), "no offsets of a Kafka source", _NEEDED)
    return offsets


def _batches(log: Path) -> set[int]:
    with suppress(OSError):
        return {int(path.name) for path in log.iterdir() if path.name.isascii() and path.name.isdecimal()}
    return set()


def _of_kafka(line: str) -> dict[tuple[str, int], int]:
    """A source's line, ``{"topic": {"0": 7}}``; empty for another kind of source."""
    with suppress(ValueError, AttributeError):
        topics: Any = json.loads(line)
        return {
            (topic, int(number)): offset
            for topic, of_topic in topics.items()
            for number, offset in of_topic.items()
            if isinstance(offset, int)
        }
    return {}
