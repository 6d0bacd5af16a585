"""What Kafka's own tools printed, and what we tell, in the same form: for comparing the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.support.plain_reader import lags_of

from apportion.history.group_history import GroupHistories, GroupHistory

Words = tuple[str, ...]


def printed(text: str) -> Iterator[dict[str, str]]:
    """The rows that ConsumerGroupCommand printed: header to cell; no cell holds a space but COORDINATOR (ID)."""
    header: list[str] = []
    for line in text.splitlines():
        cells = line.replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        if not cells or cells[0] == "GROUP":
            header = cells
        elif header:
            yield dict(zip(header, cells, strict=True))


def dash(value: object) -> str:
    return "-" if value is None else str(value)


def their_offsets(text: str) -> dict[Words, Words]:
    """(group, topic, partition) to (current offset, log end offset, lag)."""
    return {
        (row["GROUP"], row["TOPIC"], row["PARTITION"]): (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
        for row in printed(text)
    }


def our_offsets(memory: GroupHistories) -> dict[Words, Words]:
    return {
        (name, row.topic, str(row.partition)): (dash(row.committed), dash(row.end), dash(row.raw_lag))
        for name, group in memory.groups.items()
        for row in lags_of(group)
    }


def their_owners(text: str) -> dict[Words, str]:
    """(group, topic, partition) to the member that the tool names."""
    return {
        (row["GROUP"], row["TOPIC"], row["PARTITION"]): row["CONSUMER-ID"]
        for row in printed(text)
        if row["CONSUMER-ID"] != "-"
    }


def our_owners(groups: Iterable[GroupHistory]) -> dict[Words, str]:
    return {
        (group.name, topic, str(p)): seat.member_id
        for group in groups
        for seat in (group.present.members if group.present else ())
        for topic, ids in seat.assigned.items()
        for p in ids
    }


def their_members(text: str) -> set[Words]:
    """(group, member, client id, host, instance id, assignment), each as printed."""
    columns = ("GROUP", "CONSUMER-ID", "CLIENT-ID", "HOST", "GROUP-INSTANCE-ID", "CURRENT-ASSIGNMENT")
    return {tuple(row.get(column, "-") for column in columns) for row in printed(text)}


def our_members(groups: Iterable[GroupHistory]) -> set[Words]:
    found: set[Words] = set()
    for group in groups:
        for seat in group.present.members if group.present else ():
            held = ";".join(f"{t}:{','.join(map(str, ids))}" for t, ids in sorted(seat.assigned.items()) if ids) or "-"
            told = (dash(seat.client_id), dash(seat.host), dash(seat.instance_id))
            found.add((group.name, seat.member_id, *told, held))
    return found


def their_states(text: str) -> dict[str, Words]:
    """Group to (strategy, state, how many members)."""
    return {row["GROUP"]: (row["ASSIGNMENT-STRATEGY"], row["STATE"], row["#MEMBERS"]) for row in printed(text)}


def our_states(groups: Iterable[GroupHistory]) -> dict[str, Words]:
    return {
        group.name: (dash(group.present.protocol), group.present.state, str(len(group.present.members)))
        for group in groups
        if group.present
    }
