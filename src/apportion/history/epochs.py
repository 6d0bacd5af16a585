"""The epochs of a group whose broker assigns, each with its members' partitions: rows of ``gold/epochs``.

What an epoch gives is its target. A member takes it over one heartbeat after another, and the rest only when its last
owner has let go, so that it may hold less for a while; what it holds at the end stands in ``gold/groups``. A static
member that restarts gets what its instance had without an epoch: another id, the same ``instance_id``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from apportion.history.records import Generation
from apportion.history.stored import member_row
from apportion.model.protocols import CLASSIC, STREAMS


def epoch_rows(group: str, generations: Iterable[Generation]) -> Iterator[dict[str, Any]]:
    """A row for each epoch that a KIP-848 or streams group completed, in order; ``at_ms`` is the record's time.

    generations
        As ``fold`` gives them; classic ones, which are whole in ``silver/generations``, are passed over.
    """
    for generation in generations:
        if generation.kind == CLASSIC:
            continue
        seats = generation.members
        if generation.kind == STREAMS:  # its tasks are told as roles, what they read as what is assigned
            seats = tuple(replace(seat, assigned=seat.reads) for seat in seats)
        yield {
            "group": group,
            "source_offset": generation.offset,
            "epoch": generation.number,
            "kind": generation.kind,
            "protocol": generation.protocol,
            "members": [member_row(seat) for seat in seats],
            "at_ms": generation.at,
        }
