"""The text that ``kafka-consumer-groups --describe`` prints, of any version since 0.9, back into groups.

Any mix of ``--offsets``, ``--members``, ``--state``, with or without ``--verbose``, of one group or of many. What that
text does not tell is not guessed: see ``subscriptions``. Lines around the tables (prompts, warnings) are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apportion.errors import BadInput
from apportion.inputs.described_group import Observed
from apportion.inputs.printed import NAMED, Fields, columns_of, decoded, rows

ASSUMED: Final = (
    "The text does not tell subscriptions: each member is taken to want the topics that it holds partitions of."
)
_KAFKA_3_7: Final = re.compile(r"\([\d,]+\)")
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1


@dataclass
class _PastedMember:
    client_id: str | None = None
    host: str | None = None
    instance_id: str | None = None
    owned: dict[str, set[int]] = field(default_factory=dict)
    counted: int = 0


@dataclass
class _Seen:
    """One group as its tables tell of it, line by line."""

    name: str
    partitions: dict[str, dict[int, dict[str, int]]] = field(default_factory=dict)
    listed: dict[tuple[str, int], Any] = field(default_factory=dict)
    members: dict[str, _PastedMember] = field(default_factory=dict)
    state: str | None = None
    protocol: str | None = None
    coordinator: str | None = None
    epoch: int | None = None
    told_members: int = 0
    kind: str | None = None
    says: list[str] = field(default_factory=list)

    def member(self, row: Fields) -> _PastedMember | None:
        """The member that the row names, known from now on."""
        member_id = _known(row.get("CONSUMER-ID") or row.get("OWNER"))
        if member_id is None or ("OWNER" in row and member_id == "none"):
            return None
        member = self.members.setdefault(member_id, _PastedMember())
        if "OWNER" in row:
            client, _, host = member_id.rpartition("_/")
            member.client_id, member.host = (client, "/" + host) if client else (None, None)
        for name, column in (("client_id", "CLIENT-ID"), ("host", "HOST"), ("instance_id", "GROUP-INSTANCE-ID")):
            value = _known(row.get(column))
            if value is not None:
                setattr(member, name, value)
        return member


def looks_pasted(content: bytes) -> bool:
    """Whether some line is a header of Kafka's tables, or one of its sentences about a group."""
    try:
        lines = decoded(content, "").split("\n")
    except BadInput:
        return False
    return any(
        columns_of(line) or NAMED.match(line) or "Executing consumer group command failed" in line for line in lines
    )


def groups_in(content: bytes, name: str = "text") -> list[Observed]:
    """Every group in the text, in the order of appearance.

    name
        How errors call the input.
    Raises
        BadInput: a row that does not fit its header (the line is named), or no group at all.
    """
    seen: dict[str, _Seen] = {}
    unnamed = ""
    for number, columns, row in rows(decoded(content, name), name):
        where = f"{name}, line {number}"
        if columns is None:
            unnamed = row["GROUP"]
            seen.setdefault(unnamed, _Seen(unnamed))
            continue
        group = seen.setdefault(row.get("GROUP", unnamed), _Seen(row.get("GROUP", unnamed)))
        _take(group, row, where)
    if not seen:
        text = decoded(content, name).strip()
        raise BadInput(name, f"no group, but {text[:200]!a}", "the tables that --describe prints, with a row")
    return [_observed(group) for group in seen.values()]


def _take(group: _Seen, row: Fields, where: str) -> None:
    """Add what a row tells to its group."""
    if "STATE" in row:
        group.state = _known(row["STATE"])
        group.protocol = _known(row.get("ASSIGNMENT-STRATEGY"))
        group.coordinator = _known(re.sub(r"\s+", " ", row.get("COORDINATOR (ID)", "-")))
        if _known(row.get("#MEMBERS")) is not None:
            group.told_members = _whole(row, "#MEMBERS", where, _INT32)
        if _known(row.get("GROUP-EPOCH")) is not None:
            group.epoch, group.kind = _whole(row, "GROUP-EPOCH", where, _INT32), "consumer"
        return
    member = group.member(row)
    if "PARTITION" in row:
        _take_partition(group, member, row, where)
    elif member is not None:
        if _known(row.get("#PARTITIONS")) is not None:
            member.counted = _whole(row, "#PARTITIONS", where, _INT32)
        _take_assignment(group, member, row, where)


def _take_partition(group: _Seen, member: _PastedMember | None, row: Fields, where: str) -> None:
    topic = _known(row["TOPIC"])
    if topic is None:  # a member without a partition (KIP-175)
        return
    number = _whole(row, "PARTITION", where, _INT32)
    offsets = {
        "committed": _offset(row, ("CURRENT-OFFSET", "CURRENT OFFSET"), where),
        "end": _offset(row, ("LOG-END-OFFSET", "LOG END OFFSET"), where),
        "lag": _offset(row, ("LAG",), where),
    }
    if offsets["end"] is not None and offsets["committed"] is not None:
        offsets["lag"] = None  # Kafka's own difference of the two; negative where a topic was made anew
    known = {key: max(value, 0) for key, value in offsets.items() if value is not None}
    # --offsets and --offsets --verbose may both be there; two moments of one group may not.
    if group.listed.setdefault((topic, number), (known, member)) != (known, member):
        raise BadInput(where, f"{topic}-{number} again, with other values", "each partition of a group once")
    group.partitions.setdefault(topic, {})[number] = known
    if member is not None:
        member.owned.setdefault(topic, set()).add(number)


def _take_assignment(group: _Seen, member: _PastedMember, row: Fields, where: str) -> None:
    """``clicks(0,1), orders(0)`` as until 3.9, or ``clicks:0,1;orders:0`` as since 4.0."""
    text = _known(row.get("CURRENT-ASSIGNMENT") or row.get("ASSIGNMENT"))
    if _known(row.get("CURRENT-EPOCH")) is not None:
        group.kind = "consumer"
    if text is None:
        return
    for topic, numbers in _assignment(text, where):
        if topic is None:
            if len(group.partitions) != 1:
                group.says.append("The text names partitions without their topics, as Kafka 3.7 prints it.")
                return
            topic = next(iter(group.partitions))
        member.owned.setdefault(topic, set()).update(numbers)
        known = group.partitions.setdefault(topic, {})
        for number in numbers:
            known.setdefault(number, {})


def _assignment(text: str, where: str) -> Iterator[tuple[str | None, list[int]]]:
    old = text.endswith(")")
    for part in re.split(r"(?<=\)),\s*", text) if old else text.split(";"):
        if _KAFKA_3_7.fullmatch(part):
            topic, numbers = None, part[1:-1]
        elif old:
            topic, _, numbers = part.removesuffix(")").rpartition("(")
        else:
            topic, _, numbers = part.rpartition(":")
        ids = [number.strip() for number in numbers.split(",")]
        if topic == "" or not all(_is_id(number) for number in ids):
            raise BadInput(where, ascii(part[:60]), "an assignment as in clicks:0,1;orders:0 or clicks(0,1), orders(0)")
        yield topic, [int(number) for number in ids]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= _INT32


def _observed(group: _Seen) -> Observed:
    """The group as group.json."""
    topics = {
        topic: [{"partition": number, **known} for number, known in sorted(entries.items())]
        for topic, entries in sorted(group.partitions.items())
    }
    held = {member_id: set(m.owned) for member_id, m in group.members.items()}
    wants = subscriptions(held, list(topics))
    members: dict[str, Any] = {}
    for member_id, member in group.members.items():
        fields = {"instance_id": member.instance_id, "client_id": member.client_id, "host": member.host}
        members[member_id] = {key: value for key, value in fields.items() if value}
        members[member_id]["topics"] = wants[member_id]
        if member.owned:
            owned = {topic: sorted(numbers) for topic, numbers in sorted(member.owned.items())}
            members[member_id].update(owned=owned, generation=0)
    unnamed = group.told_members - len(members)
    if unnamed > 0:
        group.says.append(f"The text does not name {unnamed} of the members: --members --verbose prints them.")
    held_unnamed = sum(
        max(0, member.counted - sum(map(len, member.owned.values()))) for member in group.members.values()
    )
    if held_unnamed:
        group.says.append(
            f"The text does not name {held_unnamed:,} of the partitions that members hold: --members --verbose does."
        )
    assumed = "" if len({frozenset(wanted) for wanted in wants.values()}) < 2 else ASSUMED
    if assumed:
        group.says.append(assumed)
    raw = {"version": 1, "group": group.name, "topics": topics, "members": members}
    return Observed(
        raw, group.state, group.protocol, group.kind, group.coordinator, group.epoch, group.says,
        assumed=assumed, unnamed_partitions=held_unnamed,
    )  # fmt: skip


def subscriptions(held: Mapping[str, set[str]], listed: Sequence[str]) -> dict[str, list[str]]:
    """What each member wants, which the text does not tell: the topics that it holds partitions of.

    Where all that hold something hold of the same topics, the group is of one mind: then all, idle ones too, want
    every topic that is listed.
    """
    minds = {frozenset(topics) for topics in held.values() if topics}
    if len(minds) <= 1:
        return {member: sorted(listed) for member in held}
    return {member: sorted(topics) for member, topics in held.items()}


def _known(text: str | None) -> str | None:
    """A cell, or None for Kafka's ``-`` and for nothing."""
    return None if text is None or text in ("", "-") else text


def _whole(row: Fields, column: str, where: str, most: int) -> int:
    text = row[column]
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most:
        return int(text)
    raise BadInput(f"{where}, {column}", ascii(text[:60]), f"a whole number up to {most}")


def _offset(row: Fields, columns: Sequence[str], where: str) -> int | None:
    """An offset or a lag; None where it is unknown, as ``-``, ``unknown`` (0.9) and -1 say."""
    column = next((name for name in columns if name in row), None)
    text = _known(row[column]) if column else None
    if column is None or text is None or text == "unknown":
        return None
    if text.startswith("-") and text[1:].isascii() and text[1:].isdecimal() and len(text) < 21:
        return None if column != "LAG" or text == "-1" else 0
    return _whole(row, column, where, _INT64)
