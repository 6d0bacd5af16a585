"""Text that a tool printed of consumer groups, back into groups: Kafka's own since 0.9, rpk, kafkactl, kaf.

Any mix of ``--offsets``, ``--members``, ``--state``, with or without ``--verbose``, of one group or of many. What that
text does not tell is not guessed: see ``subscriptions``. Lines around the tables (prompts, warnings) are passed over;
what is missing from the tables is named, see ``Sighting.gaps``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from apportion.errors import BadInput
from apportion.model.build import build
from apportion.sighting.sighting import Sighting
from apportion.sources import kaf, printed
from apportion.sources.cells import NEEDED, Fields, is_nothing
from apportion.sources.printed import Event, Header, Row, Sentence, SummaryLine, Unread, decoded
from apportion.wording import partitions_in_words, shorten

ASSUMED: Final = (
    "The text has no subscriptions: each member counts as subscribed to the topics whose partitions it holds."
)
_KAFKA_3_7: Final = re.compile(r"\([\d,]+\)")
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1
_MOST_SENTENCE: Final = 500
_MOST_RUN: Final = 100_000
_MOST_NAMED: Final = 5_000_000
"""Partitions that one run of ids, and all assignments of a group, may name: a few letters must not fill the memory."""


@dataclass
class _PastedMember:
    client_id: str | None = None
    host: str | None = None
    instance_id: str | None = None
    owned: dict[str, set[int]] = field(default_factory=dict)
    counted: int = 0


@dataclass
class _Seen:
    """One group from its tables, line by line."""

    name: str
    partitions: dict[str, dict[int, dict[str, int]]] = field(default_factory=dict)
    listed: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    by_host: dict[str, dict[str | None, _PastedMember]] = field(default_factory=dict)
    state: str | None = None
    assignor: str | None = None
    coordinator: str | None = None
    epoch: int | None = None
    told_members: int | None = None
    told_lag: int | None = None
    protocol: str | None = None
    notes: list[str] = field(default_factory=list)
    owners_told: bool = False
    cut_columns: list[str] = field(default_factory=list)
    ids_unknown: bool = False
    odd_lag: str = ""
    negative: list[tuple[str, int]] = field(default_factory=list)
    named: int = 0

    def member(self, row: Fields) -> _PastedMember | None:
        """The member that the row names, known from now on."""
        member_id = _known(row.get("CONSUMER-ID") or row.get("OWNER") or row.get("CLIENT-ID"))
        if member_id is None:
            return None
        hosts = self.by_host.setdefault(member_id, {})
        host = _known(row.get("HOST"))
        if host is None:
            member = next(iter(hosts.values())) if hosts else hosts.setdefault(None, _PastedMember())
        else:
            member = hosts.setdefault(host, hosts.pop(None) if None in hosts else _PastedMember())
        if "OWNER" in row:
            client, _, host = member_id.rpartition("_/")
            member.client_id, member.host = (client, "/" + host) if client else (None, None)
        for name, column in (("client_id", "CLIENT-ID"), ("host", "HOST"), ("instance_id", "GROUP-INSTANCE-ID")):
            value = _known(row.get(column))
            if value is not None:
                setattr(member, name, value)
        return member

    @property
    def members(self) -> dict[str, _PastedMember]:
        """Members by id, with the host if several have the same: ids are cut, or are none of Kafka's."""
        return {
            member_id if len(hosts) == 1 else f"{member_id}@{host}": member
            for member_id, hosts in self.by_host.items()
            for host, member in hosts.items()
        }


def looks_pasted(content: bytes) -> bool:
    """Whether some line is a header of such tables, a row of one that has lost it, or a sentence about a group."""
    try:
        text = decoded(content, "")
    except BadInput:
        return False
    if "Executing consumer group command failed" in text or printed.NAMED.search(text[:_MOST_SENTENCE]):
        return True
    try:
        return any(not isinstance(event, Sentence) or event.state for event in _events(text, ""))
    except BadInput:  # a row that is cut short, of a table
        return True


def _events(text: str, name: str) -> Iterator[Event]:
    lines = printed.lines_of(text)
    return kaf.events(lines) if kaf.is_kaf(lines) else printed.events(lines, name)


def groups_in(content: bytes, name: str = "text", whole: bool = True) -> list[Sighting]:
    """Every group in the text, in the order of appearance.

    name
        How errors call the input.
    whole
        Whether a row that cannot be read is an error; else ``Sighting.gaps`` names it.
    Raises
        BadInput: a row or a figure that cannot be read (line and column are named), two tables that may be of two
        groups and do not tell which, or no group at all.
    """
    text = decoded(content, name)
    return groups_of(_events(text, name), name, whole, text)


def groups_of(
    events: Iterable[Event], name: str, whole: bool = True, text: str = "", unit: str = "line"
) -> list[Sighting]:
    """Every group in the rows, facts and sentences; the rest as in ``groups_in``.

    text
        Where they come from, to say what is in it if there is no group.
    unit
        What the numbers of rows count.
    """
    reader = _Reader(name, whole, unit)
    for event in events:
        reader.take(event)
    if all(group.state == printed.MISSING for group in reader.groups.values()):
        raise reader.nothing(text)
    left_out = [*reader.left_out, *(sentence for group in reader.groups.values() for sentence in _short_of(group))]
    return [_sighted(group, left_out) for group in reader.groups.values()]


class _Reader:
    """Takes events one by one, and knows which group a table without a GROUP column is of.

    left_out
        What of the tables was not read, a sentence each.
    """

    def __init__(self, name: str, whole: bool, unit: str) -> None:
        self.name, self.whole, self.unit = name, whole, unit
        self.groups: dict[str, _Seen] = {}
        self.left_out: list[str] = []
        self._group_before = ""
        self._kinds: set[str] = set()
        self._headers = 0

    def group(self, name: str) -> _Seen:
        """The group of this name, known from now on."""
        return self.groups.setdefault(name, _Seen(name))

    def take(self, event: Event) -> None:
        """Add one event's facts."""
        if isinstance(event, Unread):
            if event.error is not None and self.whole:
                raise event.error
            self.left_out.append(event.reason)
        elif isinstance(event, SummaryLine):
            self._take_fact(event)
        elif isinstance(event, Sentence):
            self._group_before, self._kinds = event.group or "", set()
            if event.state is not None:
                group = self.group(self._group_before)
                group.state = group.state or event.state
                group.owners_told = group.owners_told or event.state in ("Empty", printed.MISSING)
                if event.state == printed.MISSING:
                    group.notes.append("The text says that this group does not exist.")
        elif isinstance(event, Header):
            self._take_header(event)
        else:
            self._take_row(event)

    def _take_header(self, header: Header) -> None:
        self._headers += 1
        if "GROUP" in header.names:
            return
        if header.kind in self._kinds:
            raise BadInput(
                self.name,
                "two tables without a GROUP column, and nothing before the second that names its group",
                "before each the sentence \"Consumer group 'NAME' ...\" or the prompt with --group NAME",
            )
        self._kinds.add(header.kind)

    def _take_fact(self, fact: SummaryLine) -> None:
        where = f"{self.name}, line {fact.line}"
        if fact.column == "GROUP":
            self._group_before, self._kinds = fact.value, set()
            self.group(fact.value)
            return
        group, value = self.group(self._group_before), _known(fact.value)
        if fact.column == "STATE":
            group.state = value
            group.owners_told = group.owners_told or value == "Empty"
        elif fact.column == "ASSIGNMENT-STRATEGY":
            group.assignor = value
        elif fact.column == "COORDINATOR (ID)":
            group.coordinator = f"({value})" if value else None
        elif fact.column == "#MEMBERS":
            group.told_members = _whole({"#MEMBERS": fact.value}, "#MEMBERS", where, _INT32)
        elif fact.column == "TOTAL-LAG" and value is not None:
            group.told_lag = _whole({"TOTAL-LAG": value}, "TOTAL-LAG", where, _INT64)
        elif fact.column == "ERROR":
            group.notes.append(f"The text says of this group: {fact.value[:200]}.")

    def _take_row(self, row: Row) -> None:
        if row.unread is not None:
            column, cell = row.unread
            if self.whole:
                raise BadInput(f"{self.name}, {self.unit} {row.line}, {column}", ascii(cell[:60]), NEEDED)
            self.left_out.append(f"{self.unit} {row.line}, {column}, is {cell[:60]!a}, which is no whole number")
        cut = row.header.cut
        fields = {column: value for column, value in row.fields.items() if column != cut} if cut else row.fields
        group = self.group(fields.get("GROUP", self._group_before))
        if cut and cut not in group.cut_columns:
            group.cut_columns.append(cut)
        _take(group, row.header.kind, fields, f"{self.name}, {self.unit} {row.line}")

    def nothing(self, text: str) -> BadInput:
        """Why no group was read: the part of the text that comes nearest to one."""
        if self.left_out:
            return BadInput(self.name, self.left_out[0], _NEEDED)
        if self._headers:
            return BadInput(self.name, "a header, and no row below it", _NEEDED)
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        wrong = next((line for line in lines if "rror" in line or "xception" in line), lines[0] if lines else "")
        return BadInput(self.name, f"no group, but {wrong[:200]!a}", _NEEDED)


_NEEDED: Final = "the tables that --describe prints, each with its header and a row"


def _take(group: _Seen, kind: str, row: Fields, where: str) -> None:
    """Add a row's facts to its group."""
    if kind == "state":
        group.state = _known(row["STATE"])
        group.assignor = _known(row.get("ASSIGNMENT-STRATEGY"))
        coordinator = row.get("COORDINATOR (ID)") or row.get("COORDINATOR") or "-"
        group.coordinator = _known(re.sub(r"\s+", " ", coordinator))
        if _known(row.get("#MEMBERS")) is not None:
            group.told_members = _whole(row, "#MEMBERS", where, _INT32)
        if _known(row.get("GROUP-EPOCH")) is not None:
            group.epoch, group.protocol = _whole(row, "GROUP-EPOCH", where, _INT32), "consumer"
        return
    member = group.member(row)
    group.owners_told = group.owners_told or kind != "offsets" or "CONSUMER-ID" in row or "OWNER" in row
    if kind == "offsets":
        _take_partition(group, member, row, where)
    elif kind == "numbers":
        _take_numbers(group, member, row, where)
    elif member is not None:
        if _known(row.get("#PARTITIONS")) is not None:
            member.counted = _whole(row, "#PARTITIONS", where, _INT32)
        _take_assignment(group, member, row, where)


def _take_partition(group: _Seen, member: _PastedMember | None, row: Fields, where: str) -> None:
    topic = row["TOPIC"]
    if is_nothing(topic) and _known(row["PARTITION"]) is None:  # a member without a partition (KIP-175)
        return
    if topic in ("", "-"):
        raise BadInput(f"{where}, TOPIC", ascii(topic), "a topic's name, as there is a partition")
    number = _whole(row, "PARTITION", where, _INT32)
    offsets = {
        "begin": _offset(row, "LOG-START-OFFSET", where),
        "committed": _offset(row, "CURRENT-OFFSET", where),
        "end": _offset(row, "LOG-END-OFFSET", where),
        "lag": _offset(row, "LAG", where),
    }
    if offsets["lag"] is not None and offsets["lag"] < 0:
        group.negative.append((topic, number))
    if offsets["end"] is not None and offsets["committed"] is not None:
        difference = offsets["end"] - offsets["committed"]
        if offsets["lag"] not in (None, difference, max(difference, 0)) and not group.odd_lag:
            group.odd_lag = f"LAG is {offsets['lag']} at {topic}-{number}, but the offsets give {difference}"
        offsets["lag"] = None  # it is Kafka's own difference of the two; negative where a topic was made anew
    elif offsets["lag"] is not None and offsets["end"] is not None and offsets["lag"] > offsets["end"]:
        group.odd_lag = f"LAG is {offsets['lag']} at {topic}-{number}, whose log ends at {offsets['end']}"
    known = {key: max(value, 0) for key, value in offsets.items() if value is not None}
    # Two members may hold a partition, and --offsets stand beside --offsets --verbose; two moments of a group may not.
    if group.listed.setdefault((topic, number), known) != known:
        raise BadInput(where, f"{topic}-{number} again, with other values", "each partition of a group once")
    group.partitions.setdefault(topic, {})[number] = known
    if member is not None:
        member.owned.setdefault(topic, set()).add(number)


def _take_assignment(group: _Seen, member: _PastedMember, row: Fields, where: str) -> None:
    """``clicks(0,1), orders(0)`` as until 3.9, or ``clicks:0,1;orders:0`` as since 4.0."""
    text = _known(row.get("CURRENT-ASSIGNMENT") or row.get("ASSIGNMENT"))
    if _known(row.get("CURRENT-EPOCH")) is not None:
        group.protocol = "consumer"
    if text is None:
        return
    for topic, numbers in _assignment(text, where):
        if topic is None:
            if len(group.partitions) != 1:
                group.notes.append("The text names partitions without their topics, as Kafka 3.7 prints it.")
                return
            topic = next(iter(group.partitions))
        group.named += len(numbers)
        if group.named > _MOST_NAMED:
            raise BadInput(where, f"more than {_MOST_NAMED:,} partitions in assignments", "fewer")
        member.owned.setdefault(topic, set()).update(numbers)
        known = group.partitions.setdefault(topic, {})
        for number in numbers:
            known.setdefault(number, {})


def _take_numbers(group: _Seen, member: _PastedMember | None, row: Fields, where: str) -> None:
    """A topic and the ids that a member holds of it, as kafkactl and kaf print them."""
    group.ids_unknown = True
    topic, numbers = _known(row["TOPIC"]), _known(row["NUMBERS"])
    if member is None or topic is None or numbers is None:
        return
    ids = [number.strip() for number in numbers.split(",")]
    if not all(map(_is_id, ids)):
        raise BadInput(where, ascii(numbers[:60]), "ids of partitions, as in 0,1,2")
    member.owned.setdefault(topic, set()).update(map(int, ids))
    for number in ids:
        group.partitions.setdefault(topic, {}).setdefault(int(number), {})


def _assignment(text: str, where: str) -> Iterator[tuple[str | None, list[int]]]:
    old = text.endswith(")")
    for part in re.split(r"(?<=\)),\s*", text) if old else text.split(";"):
        if _KAFKA_3_7.fullmatch(part):
            topic, numbers = None, part[1:-1]
        elif old:
            topic, _, numbers = part.removesuffix(")").rpartition("(")
        else:
            topic, _, numbers = part.rpartition(":")
        ids = _ids(numbers)
        if topic == "" or ids is None:
            raise BadInput(where, ascii(part[:60]), "an assignment as in clicks:0,1;orders:0 or clicks(0,1), orders(0)")
        yield topic, ids


def _ids(numbers: str) -> list[int] | None:
    """Ids with commas between, runs of them as ``0-3``, as our own tables have them; None for anything else."""
    ids: list[int] = []
    for part in numbers.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_id(first) or not _is_id(last if dash else first):
            return None
        run = range(int(first), int(last if dash else first) + 1)
        if len(run) > _MOST_RUN:
            return None
        ids += run
    return ids


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= _INT32


def _short_of(group: _Seen) -> Iterator[str]:
    """A summary that counts more than the rows below it show."""
    lag = sum(known.get("lag", 0) or max(known.get("end", 0) - known.get("committed", _INT64), 0)
              for known in group.listed.values())  # fmt: skip
    if group.told_lag is not None and group.told_lag != lag:
        yield f"the rows of {group.name!r} have a lag of {lag:,} in all, and its TOTAL-LAG is {group.told_lag:,}"


def _sighted(group: _Seen, left_out: Sequence[str]) -> Sighting:
    """The group as group.json, and the facts that the text leaves open."""
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
    held_unnamed = sum(max(0, m.counted - sum(map(len, m.owned.values()))) for m in group.members.values())
    assumed = "" if len({frozenset(wanted) for wanted in wants.values()}) < 2 else ASSUMED
    notes = [*group.notes, *_untold(group, held_unnamed), *([assumed] if assumed else [])]
    raw = {"version": 1, "group": group.name, "topics": topics, "members": members}
    return Sighting(
        build(raw), group.state, group.protocol, group.assignor, group.coordinator, group.epoch, notes,
        assumed=assumed, unnamed_partitions=held_unnamed, gaps=tuple(left_out),
        owners_told=bool(members) or group.owners_told or group.told_members is not None,
        counted_members=group.told_members or 0, contradiction=group.odd_lag,
    )  # fmt: skip


def _untold(group: _Seen, held_unnamed: int) -> Iterator[str]:
    """The facts about a group's members that the text leaves open."""
    unnamed = (group.told_members or 0) - len(group.members)
    if unnamed > 0:
        yield f"The listing does not show {unnamed} of the members. Add the output of --members --verbose."
    if held_unnamed:
        yield f"The listing does not show {held_unnamed:,} owned partitions: add the output of --members --verbose."
    cut_ids = [member_id for member_id, hosts in group.by_host.items() if len(hosts) > 1]
    if cut_ids and not group.ids_unknown:
        yield f"One consumer id on several hosts, {min(cut_ids)}: ids are cut, so members are told apart by host."
    if group.ids_unknown:
        yield "The text has no member ids: members are told apart by client id and host."
    if group.odd_lag:
        yield f"{group.odd_lag}: the offsets count." if "offsets" in group.odd_lag else f"{group.odd_lag}."
    ahead = [entry for entry in group.negative if not {"end", "committed"} <= group.listed[entry].keys()]
    if ahead:
        yield f"LAG is negative, as after a commit beyond the log's end: {_in_words(ahead)}."
    gaps = ", ".join(_gaps(group.listed))
    if gaps:
        yield f"No row has {shorten(gaps, 100)}: rows may have been left out."
    for column in group.cut_columns:
        yield f"The text is cut in its column {column}: that column is not read."
    unknown = [
        entry
        for entry, known in group.listed.items()
        if "lag" not in known and not {"end", "committed"} <= known.keys()
    ]
    if unknown and not (group.members or group.owners_told):
        yield f"The lag of {_in_words(unknown)} is not known."


def _in_words(partitions: Iterable[tuple[str, int]]) -> str:
    """At most a line of them, as ``clicks(0-3), orders(1)``."""
    ids: dict[str, list[int]] = {}
    for topic, number in sorted(set(partitions)):
        ids.setdefault(topic, []).append(number)
    return shorten(partitions_in_words(ids), 100)


def _gaps(listed: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Partitions below a topic's greatest that no row has, as ``clicks(3-5,9)``."""
    ids: dict[str, list[int]] = {}
    for topic, number in sorted(listed):
        ids.setdefault(topic, [-1]).append(number)
    for topic, seen in ids.items():
        gaps = [(a + 1, b - 1) for a, b in pairwise(seen) if b > a + 1]
        if gaps:
            yield f"{topic}({','.join(str(a) if a == b else f'{a}-{b}' for a, b in gaps)})"


def subscriptions(held: Mapping[str, set[str]], listed: Sequence[str]) -> dict[str, list[str]]:
    """Each member's topics, which the text does not name: those of the partitions that it holds.

    Where all that hold something hold of the same topics, the group is of one mind: then all, idle ones too, want
    every topic that is listed.
    """
    minds = {frozenset(topics) for topics in held.values() if topics}
    if len(minds) <= 1:
        return {member: sorted(listed) for member in held}
    return {member: sorted(topics) for member, topics in held.items()}


def _known(text: str | None) -> str | None:
    """A cell, or None for Kafka's ``-`` and other words for nothing."""
    return None if text is None or is_nothing(text) else text


def _whole(row: Fields, column: str, where: str, most: int) -> int:
    text = row[column]
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most:
        return int(text)
    raise BadInput(f"{where}, {column}", ascii(text[:60]), f"a whole number up to {most}")


def _offset(row: Fields, column: str, where: str) -> int | None:
    """An offset or a lag; None if it is unknown, as ``-``, ``unknown`` (0.9) and -1 say."""
    text = _known(row.get(column))
    if text is None:
        return None
    if text.startswith("-") and text[1:].isascii() and text[1:].isdecimal() and len(text) < 21:
        return None if column != "LAG" or text == "-1" else int(text)
    return _whole(row, column, where, _INT64)
