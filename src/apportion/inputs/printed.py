"""The tables in text that a tool printed and a person copied: their headers, and their rows by column.

Columns are known by name, whatever their order. Values stand where the header's columns start, as names may hold
blanks; where that is lost (tabs, wrapped lines, numbers that are too wide), words count, each of the kind that its
column holds. No line ends a table: what is no row is passed over, unless it looks like one or says that rows are gone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from apportion.errors import BadInput

ORDER: Final = (
    "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-START-OFFSET", "LOG-END-OFFSET", "LAG",
    "OWNER", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "CURRENT-EPOCH",
    "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "ASSIGNMENT", "UPGRADED", "COORDINATOR (ID)",
    "COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS", "ERROR",
)  # fmt: skip
"""Columns as Kafka's tools order them, which tells the one that a terminal's width has cut."""
ALIASES: Final = {
    "MEMBER-ID": "CONSUMER-ID", "INSTANCE-ID": "GROUP-INSTANCE-ID",  # rpk
    "CONSUMER-OFFSET": "CURRENT-OFFSET", "NEWEST-OFFSET": "LOG-END-OFFSET", "OLDEST-OFFSET": "LOG-START-OFFSET",
    "CLIENT-HOST": "HOST", "ASSIGNED-PARTITIONS": "NUMBERS",  # kafkactl
}  # fmt: skip
LOOSE_ALIASES: Final = {
    "CONSUMER-GROUP": "GROUP", "CONSUMER": "CONSUMER-ID", "MEMBER": "CONSUMER-ID", "INSTANCE": "GROUP-INSTANCE-ID",
    "CLIENT": "CLIENT-ID", "OFFSET": "CURRENT-OFFSET",
}  # fmt: skip
"""Names in tables whose columns are parted by signs (Confluent's tool, AKHQ), where none has the name meant."""
OLD: Final = {"PID": "PARTITION", "OFFSET": "CURRENT-OFFSET", "LOGSIZE": "LOG-END-OFFSET", "OWNER": "CONSUMER-ID"}
"""Names of Kafka's tool before 0.9, which come together."""
_OLD_NAME: Final = re.compile(r"\b(?:pid|offset|logsize|owner)\b", re.IGNORECASE)
KINDS: Final = (
    ("offsets", frozenset({"TOPIC", "PARTITION", "LAG"})),
    ("offsets", frozenset({"TOPIC", "PARTITION", "CURRENT-OFFSET"})),
    ("members", frozenset({"CONSUMER-ID", "#PARTITIONS"})),
    ("state", frozenset({"STATE", "#MEMBERS"})),
    ("numbers", frozenset({"CLIENT-ID", "TOPIC", "NUMBERS"})),
)
"""What a table is by the columns that it must have."""
HEADERLESS: Final = (
    ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
    ("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
     "CLIENT-ID"),
    ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
    ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
)  # fmt: skip
"""Layouts of offsets, to be tried on rows that have lost their header."""
NAMED: Final = re.compile(r"Consumer group '(.*)' (has no active members|is rebalancing|does not exist)")
_PROMPT: Final = re.compile(
    r"""(?:--group(?:=|\s+)|\brpk\s+group\s+describe\s+|\bkaf\s+group\s+describe\s+"""
    r"""|\bkafkactl\s+describe\s+(?:consumer-group|cg)\s+)(?:'([^']+)'|"([^"]+)"|([^\s'"$<{|;-][^\s|;]*))"""
)
_HEADING: Final = re.compile(
    r"(\S.{0,300}?): (?:.{0,300}, )?[0-9,]+ members?, [0-9,]+ partitions?(?:, lag (?:[0-9,]+|unknown))?"
)
"""The line about a group above the tables of ``apportion describe``, which people copy too."""
_SEARCHED: Final = 500
"""Characters of a line that sentences and prompts are looked for in: in a long line a search would take for ever."""
_MOST_HEADER: Final = 2_000
_SURELY: Final = 5
"""Names of columns in small letters that are a header: fewer may be prose."""
_MOST_WORDS: Final = 40
_COLUMN: Final = re.compile(r"(?:CURRENT|LOG END) OFFSET|COORDINATOR \(ID\)|[^\s]+")
_NAME_LIKE: Final = re.compile(r"#?[A-Z][A-Z0-9_#()/-]*")
_COLOUR: Final = re.compile(
    r"\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[\[(][0-9;?]{0,20}[A-Za-z]|\[(?:[0-9]{1,3};?){1,4}m"
)
_RULE: Final = re.compile(r"[\s|+:=─━│┃┼╋├┤┌┐└┘┬┴╭╮╰╯-]{3,}")
_ROWS: Final = r"\b(?:rows?|lines?|partitions?|entries|output)\b"
_GONE: Final = r"(?:snip(?:ped)?|truncated|omitted|removed|redacted|elided|skipped|hidden|cut|left out)"
_LEFT_OUT: Final = re.compile(
    r"\W*(?:(?:\. ?){2,}|…|⋮|\*{2,}|-+ ?more ?-+)\W*"
    rf"|\W*(?:{_GONE}|etc)\b.{{0,60}}"
    r"|.{0,60}\band so (?:on|forth)\b.{0,60}"
    rf"|.{{0,60}}\b(?:more|other|remaining)(?: \w+)? {_ROWS}.{{0,60}}"
    rf"|.{{0,60}}{_ROWS}(?: \w+)? {_GONE}\b.{{0,60}}",
    re.IGNORECASE,
)
"""Lines by which people say that they left rows out."""
_FAILED: Final = re.compile(r"Error: Executing consumer group command failed")
_BARS: Final = ("|", "│", "┃")
_NUMBER_OR_DASH: Final = re.compile(r"-|unknown|-?[0-9]+")
_NEVER_BLANK: Final = ("TOPIC", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "OWNER", "STATE")
"""Kafka writes ``-`` there for what it does not know."""
_WHOLE: Final = ("PARTITION", "#PARTITIONS", "#MEMBERS")
_OFFSETS: Final = ("CURRENT-OFFSET", "LOG-START-OFFSET", "LOG-END-OFFSET", "LAG")
_WORDS_OF: Final = {
    **dict.fromkeys(_WHOLE, r"(-|[0-9]+)"),
    **dict.fromkeys(_OFFSETS, r"(-|unknown|-?[0-9]+)"),
    **dict.fromkeys(("GROUP", "CONSUMER-ID", "CLIENT-ID", "GROUP-INSTANCE-ID", "OWNER"), r"(\S+(?:\s+\S+)*?)"),
    **dict.fromkeys(("COORDINATOR (ID)", "COORDINATOR"), r"(\S+(?:\s+\(\S*\))?)"),
    **dict.fromkeys(("ASSIGNMENT", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT"), r"(\S+(?:,\s+\S+)*)"),
    "HOST": r"(/\S*|-)",
}
"""What a column's words look like, where columns are not aligned; of others a word."""
Fields = Mapping[str, str]


@dataclass(frozen=True)
class Header:
    """The columns of a table.

    names
        By the names that this package knows them by.
    starts
        Where each column starts in the line, in UTF-16 units; None where words or bars part the columns.
    bar
        The sign between columns; "" where blanks are.
    prefix
        What stands before the first column on the header's line, as a service's name or a time.
    cut
        The last column, where the terminal's width has cut it: its values are not whole.
    lines
        Over how many lines the header is wrapped.
    blanks
        Whether cells may be empty, as rpk leaves them.
    """

    names: tuple[str, ...]
    starts: tuple[int, ...] | None = None
    bar: str = ""
    prefix: str = ""
    cut: str = ""
    lines: int = 1
    blanks: bool = False

    @cached_property
    def kind(self) -> str:
        """Which table it is: ``offsets``, ``members``, ``state``, ``numbers``; "" for none that is read."""
        whole = {name for name in self.names if name != self.cut}
        return next((kind for kind, needed in KINDS if needed <= whole), "")

    @cached_property
    def by_words(self) -> Sequence[re.Pattern[str]]:
        """Patterns of a row whose columns are not aligned: hosts as Kafka writes them first, then of any form."""
        strict = r"\s+".join(_WORDS_OF.get(name, r"(\S+)") for name in self.names)
        loose = r"\s+".join(r"(\S+)" if name == "HOST" else _WORDS_OF.get(name, r"(\S+)") for name in self.names)
        return [re.compile(strict), re.compile(loose)]

    def needs(self) -> str:
        """The columns, for a sentence about a row that does not fit."""
        return f"{len(self.names)} columns: " + " ".join(self.names)


@dataclass(frozen=True)
class Row:
    """A row: its line's number, its table, its values by column."""

    line: int
    header: Header
    fields: Fields


@dataclass(frozen=True)
class Sentence:
    """A line that names a group: a sentence, with what it says of the state, a heading, or a prompt."""

    group: str | None
    state: str | None = None


@dataclass(frozen=True)
class Unread:
    """Something of a table was not read: ``reason`` says what, and where."""

    line: int
    reason: str


@dataclass(frozen=True)
class SummaryLine:
    """A line of rpk's or kaf's summary of a group: ``STATE  Stable``; ``GROUP`` begins one."""

    line: int
    column: str
    value: str


Event = Row | Sentence | Unread | SummaryLine | Header


def lines_of(text: str) -> list[str]:
    """The lines without colours, marks of quotation and the service names that docker compose writes before each."""
    lines = [_COLOUR.sub("", line) if "[" in line or "\x1b" in line else line for line in text.split("\n")]
    lines = [line.rstrip("\r").replace("\xa0", " ") for line in lines]
    filled = [line for line in lines if line.strip()]
    quoted = [line for line in filled if line.startswith(">")]
    if quoted and 2 * len(quoted) >= len(filled):
        lines = [re.sub(r"^(?:>[ ]?)+", "", line) for line in lines]
        filled = [line for line in lines if line.strip()]
    services = [line for line in filled if _SERVICE.match(line) and line.count("|") == 1]
    if services and 2 * len(services) >= len(filled):
        lines = [_SERVICE.sub("", line, count=1) for line in lines]
    return _unfolded(lines)


def _unfolded(lines: list[str]) -> list[str]:
    """The lines as they were before a terminal folded all of them at one width, blank ones where parts of others stood.

    A header tells the width: its first part is as long as any line, and with the parts below it is a longer header.
    """
    width = max(map(len, lines), default=0)
    if 2 * width > _MOST_HEADER:
        return lines
    for i, line in enumerate(lines):
        if len(line) != width or not _of_names(line):
            continue
        first, best = header_of(line), None
        for j in range(i + 2, min(i + _MOST_PARTS, len(lines)) + 1):
            header = header_of("".join(lines[i:j]))
            known = header is not None and not header.bar + header.cut and set(header.names) <= set(ORDER)
            if header is not None and known and (best is None or len(header.names) > len(best.names)):
                best = header
        if best is not None and (first is None or first.cut or len(first.names) < len(best.names)):
            return _joined_at(lines, width, best)
    return lines


def _joined_at(lines: list[str], width: int, header: Header) -> list[str]:
    """Lines of this width with those that they go on in."""
    joined: list[str] = []
    i = 0
    while i < len(lines):
        n = 1
        while n < _MOST_PARTS and i + n < len(lines) and len(lines[i + n - 1]) == width:
            n += 1
        texts = ["".join(lines[i : i + k]) for k in range(n, 0, -1)]
        rows = [(text, row_of(text, header)) for text in texts]
        # A row that ends where the width does is followed by another one, which its last cell would swallow.
        fits = [text for text, row in rows if row is not None and "  " not in row[header.names[-1]]]
        text = next((text for text in texts if header_of(text) == header), fits[0] if fits else lines[i])
        taken = 1 + texts[::-1].index(text)
        joined += [text, *[""] * (taken - 1)]
        i += taken
    return joined


_MOST_PARTS: Final = 12
"""Parts of a folded line: at fewer than 20 letters a line nobody reads a table."""


_SERVICE: Final = re.compile(r"^[\w.-]{1,100} +\|(?: |$)")


def events(lines: Sequence[str], name: str) -> Iterator[Event]:
    """Each header, row, fact, sentence and gap of the text, in its order.

    lines
        As ``lines_of`` gives them.
    name
        How errors call the input.
    Raises
        BadInput: a row that is cut short.
    """
    header: Header | None = None
    first = next(filter(None, (_header_at(lines, i) for i in range(len(lines)))), None)
    if first is None:
        header = headerless(lines)
        if header is not None:
            yield header
    reader = _TableRows(lines, name, first)
    i = 0
    while i < len(lines):
        fresh = _header_at(lines, i)
        if fresh is not None:
            header = fresh
            yield header
            i += fresh.lines
            continue
        facts = _summary(lines, i)
        yield from facts
        event, taken = reader.at(i, header) if lines[i].strip() and not facts else (None, max(len(facts), 1))
        if event is not None:
            yield event
        i += taken


def _summary(lines: Sequence[str], i: int) -> list[SummaryLine]:
    """The lines of a group's summary as rpk prints it, where one begins at this line."""
    first = _FACT.fullmatch(lines[i][:_MOST_HEADER])
    if first is None or first[1] != "GROUP" or i + 1 == len(lines):
        return []
    facts = []
    for number, line in enumerate(lines[i : i + len(_FACTS)], i + 1):
        fact = _FACT.fullmatch(line[:_MOST_HEADER])
        if fact is None:
            break
        facts.append(SummaryLine(number, _FACTS[fact[1]], (fact[2] or "").strip()))
    return facts if len(facts) > 1 and facts[1].column in ("COORDINATOR (ID)", "STATE") else []


_FACTS: Final = {
    "GROUP": "GROUP", "COORDINATOR": "COORDINATOR (ID)", "COORDINATOR-NODE": "COORDINATOR (ID)",
    "COORDINATOR-PARTITION": "", "STATE": "STATE", "BALANCER": "ASSIGNMENT-STRATEGY", "MEMBERS": "#MEMBERS",
    "TOTAL-LAG": "TOTAL-LAG", "ERROR": "ERROR",
}  # fmt: skip
_FACT: Final = re.compile(f"({'|'.join(_FACTS)})(?:\\s+(.*))?")


def _sentence(line: str) -> Sentence | None:
    begin = line[:_SEARCHED]
    named = NAMED.search(begin)
    if named:
        state = {"has no active members": "Empty", "is rebalancing": "rebalancing"}.get(named[2])
        return Sentence(named[1], state) if state else None
    heading = _HEADING.fullmatch(line[:_MOST_HEADER].rstrip())
    if heading is not None:
        return Sentence(heading[1])
    if "group" not in begin and "kafkactl" not in begin:
        return None
    if "--all-groups" in begin:
        return Sentence(None)
    prompts = [next(filter(None, match)) for match in _PROMPT.findall(begin)]
    return Sentence(prompts[0] if len(prompts) == 1 else None) if prompts else None


def _header_at(lines: Sequence[str], i: int) -> Header | None:
    """The header that begins at a line, wrapped or not."""
    best = header_of(lines[i])
    if best is None and not _of_names(lines[i]):
        return None
    for more in (2, 3, 4):
        part = lines[i : i + more]
        if len(part) < more or not part[-1].strip():
            break
        for glue in ("", " "):
            joined = header_of(glue.join(line.strip() if glue else line for line in part))
            known = joined is not None and all(name in ORDER for name in joined.names) and not joined.cut
            if joined is not None and known and (best is None or len(joined.names) > len(best.names) or best.cut):
                best = Header(joined.names, None, "", joined.prefix, "", more, joined.blanks)
    return best


def _of_names(line: str) -> bool:
    """Whether a line begins with at least two columns' names, as a wrapped header does."""
    words = line[:_MOST_HEADER].split(None, 2)
    return len(words) >= 2 and words[0] in ORDER and words[1] in ORDER


def _unread_table(line: str, number: int) -> Unread | None:
    """A header, whole or cut, of a table without the columns that any table must have."""
    if not _of_names(line):
        return None
    names = [_column(word) for word in _COLUMN.findall(line[:_MOST_HEADER])]
    cut = _cut(names)
    if any(name not in ORDER for name in (names[:-1] if cut else names)):
        return None
    if cut:
        return Unread(number, f"the header of line {number} is cut in {cut}, without which its table is not read")
    needed = min((needed - set(names) for _, needed in KINDS), key=len)
    return Unread(number, f"the table of line {number} has no column {' and no '.join(sorted(needed))}")


def header_of(line: str) -> Header | None:
    """The header that a line is; None for any other line."""
    if len(line) > _MOST_HEADER:
        return None
    if set(line.upper().split()) >= OLD.keys():
        line = _OLD_NAME.sub(lambda name: OLD[name[0].upper()].ljust(len(name[0])), line)
    if not ("PARTITION" in line.upper() or "STATE" in line):
        return None
    for bar in (*_BARS, "\t", ",", ";"):
        if line.count(bar) >= 2 and (barred := _barred(line, bar)) is not None:
            return barred
    words = [(match[0], match.start()) for match in _COLUMN.finditer(line)]
    if len(words) >= _SURELY and all(_column(word.upper()) in ORDER for word, _ in words):
        words = [(word.upper(), start) for word, start in words]  # somebody wrote the names small
    first = next((i for i, (word, _) in enumerate(words) if _column(word) in ORDER), None)
    if (
        first is None
        or len(words) - first < 3
        or not all(_NAME_LIKE.fullmatch(w) or " " in w for w, _ in words[first:])
    ):
        return None
    names = [_column(word) for word, _ in words[first:]]
    starts = [start for _, start in words[first:]]
    prefix = line[: starts[0]]
    starts = [start - len(prefix) for start in starts] if prefix.strip() else starts
    cut = _cut(names)
    if cut:
        names[-1] = cut
    raw = {word for word, _ in words[first:]}
    header = Header(
        tuple(names), tuple(starts), "", prefix if prefix.strip() else "", cut, 1, "MEMBER-ID" in raw
    )  # fmt: skip
    return header if header.kind and len(set(names)) == len(names) else None


def _barred(line: str, bar: str) -> Header | None:
    cells = _cells(line, bar)
    if bar == "\t" and not all(cells):
        return None
    names = [_column(cell.upper()) for cell in cells]
    names = [name if LOOSE_ALIASES.get(name, name) in names else LOOSE_ALIASES.get(name, name) for name in names]
    header = Header(tuple(names), None, bar, blanks=True)
    known = sum(name in ORDER or name == "NUMBERS" for name in names)
    return header if header.kind and known >= 3 and len(set(names)) == len(names) and all(names) else None


def _cells(line: str, bar: str) -> list[str]:
    """The cells between the signs, without marks of markdown or of quotation around them."""
    text = line.strip() if bar in _BARS else line
    if text.startswith("||"):  # Jira's headers
        text = text.replace("||", "|")
    if bar in _BARS:
        text = text.removeprefix(bar).removesuffix(bar)
    cells = next(csv.reader([text], delimiter=bar)) if '"' in text else text.split(bar)
    return [cell.strip().strip("*`") for cell in cells]


def _column(word: str) -> str:
    """The name that a column is known by here."""
    name = word if " (" in word else word.replace("_", "-").replace(" ", "-")
    return ALIASES.get(name, name)


def _cut(names: Sequence[str]) -> str:
    """The column whose name the line's end has cut; "" where the last name is whole."""
    last, before = names[-1], names[-2]
    if last in ORDER or last == "NUMBERS" or before not in ORDER:
        return ""
    later = (name for name in ORDER[ORDER.index(before) + 1 :] if name not in names)
    return next((name for name in later if name.startswith(last)), "")


def headerless(lines: Sequence[str]) -> Header | None:
    """The layout of rows that have lost their header, where their words decide it: what is left is what was read."""
    samples = [words for line in lines if 5 <= len(words := line.split(None, 12)) <= 10][:50]
    for names in HEADERLESS:
        header = Header(names)
        fits = [row for words in samples if (row := _row_of_words(" ".join(words), header)) is not None]
        counted = [row for row in fits if row["CURRENT-OFFSET"].isdecimal() and row["LOG-END-OFFSET"].isdecimal()]
        right = all(map(_adds_up, fits))
        if fits and right and (counted or "HOST" in names) and all(row["PARTITION"].isdecimal() for row in fits):
            return header
    return None


def _adds_up(row: Fields) -> bool:
    """Whether the lag is the difference of the two offsets, as far as the row tells all three."""
    committed, end, lag = (row.get(name, "-")[:20] for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"))
    counted = committed.isdecimal() and end.isdecimal() and lag != "-"
    return not counted or lag == str(int(end) - int(committed))


class _TableRows:
    """Reads the lines below a header: rows, whole or wrapped, and what only looks like one."""

    def __init__(self, lines: Sequence[str], name: str, first: Header | None = None) -> None:
        self.lines, self.name, self.first = lines, name, first
        self.first_cells: set[str] = set()
        self.last_cell_filled = False

    def at(self, i: int, header: Header | None) -> tuple[Event | None, int]:
        """What stands at a line, and how many lines it takes."""
        line, number = self.lines[i], i + 1
        fields = row_of(line, header) if header is not None else None
        if fields is not None and header is not None:
            last = fields[header.names[-1]]
            # An empty client id is a cell without anything, and so is one that the end of the text has cut.
            if not last and self.last_cell_filled and number == len(self.lines) and not header.blanks:
                raise BadInput(f"{self.name}, line {number}", f"a last row without {header.names[-1]}", header.needs())
            self.first_cells.add(fields[header.names[0]])
            self.last_cell_filled = self.last_cell_filled or bool(last)
            return Row(number, header, fields), 1
        event: Event | None = _sentence(line) or _unread_table(line, number)
        if event is None and header is None:
            event = self._above(line, number)
        if event is not None or header is None:
            return event, 1
        return self._no_row(i, header)

    def _above(self, line: str, number: int) -> Event | None:
        """A row above the first header, where sorting or a terminal's scrolling has put it.

        Only a row that names its group is surely of the same table.
        """
        fields = row_of(line, self.first) if self.first is not None and "GROUP" in self.first.names else None
        if fields is not None and self.first is not None:
            return Row(number, self.first, fields)
        return Unread(number, unread_row(line, number)) if self.first is not None and _like_a_row(line) else None

    def _no_row(self, i: int, header: Header) -> tuple[Event | None, int]:
        """What a line below a header is that is no row by itself."""
        line, number = self.lines[i], i + 1
        if _RULE.fullmatch(line):
            return None, 1
        if _LEFT_OUT.fullmatch(line[:_SEARCHED]):
            return Unread(number, f"line {number} ({line.strip()[:40]!a}) says that rows are missing"), 1
        if _FAILED.search(line[:_SEARCHED]):
            return Unread(number, f"line {number} says that the tool failed"), 1
        if header.lines > 1 or _is_cut(line, header):
            joined = [(row, taken) for taken in range(2, 5) if (row := self._joined(i, taken, header)) is not None]
            # A line as long as the first one was cut at the same width, so that the row goes on.
            whole = [taken for _, taken in joined if len(self.lines[i + taken - 1]) < len(line)]
            for row, taken in joined:
                if taken == min(whole, default=joined[0][1]):
                    return Row(number, header, row), taken
        if _is_cut(line, header) or self._begins_like_a_row(i, header):
            raise BadInput(f"{self.name}, line {number}", ascii(line[:60]), header.needs())
        if _like_a_row(line):
            return Unread(number, unread_row(line, number)), 1
        return None, 1

    def _joined(self, i: int, taken: int, header: Header) -> Fields | None:
        """The row that some lines make together, wrapped at a width or between words."""
        part = self.lines[i : i + taken]
        if len(part) < taken or not part[-1].strip() or row_of(part[-1], header) or _header_at(part, taken - 1):
            return None
        names = self.first_cells | {part[0].split()[0]}
        if any(_is_cut(line, header) and line.split()[0] in names for line in part[1:]):
            return None  # the next row begins there: names with blanks would swallow it
        for glue in ("", " "):
            fields = _row_of_words(glue.join(_without_prefix(line, header) for line in part), header)
            if fields is not None and _belongs(fields, header) and _adds_up(fields):
                return fields
        return None

    def _begins_like_a_row(self, i: int, header: Header) -> bool:
        """Whether a line begins with a first cell that was read and goes on where the second column does: a cut row."""
        line = _without_prefix(self.lines[i], header)
        if header.starts is None or not line.strip() or line[0] == " ":
            return False
        second = header.starts[1]
        if len(line.rstrip()) <= second:  # the very end of a text may be anything's beginning
            last = i == len(self.lines) - 1
            return last and any(cell.startswith(line.strip()) for cell in self.first_cells)
        return line[:second].strip() in self.first_cells and line[second - 1] == " " and line[second] != " "


def row_of(line: str, header: Header) -> Fields | None:
    """The row's values by column, None for a line that is no row."""
    line = _without_prefix(line, header)
    if header.bar and header.bar in line:
        cells = _cells(line, header.bar)
        fields = dict(zip(header.names, cells, strict=True)) if len(cells) == len(header.names) else None
        return fields if fields is not None and _belongs(fields, header) else None
    if header.starts is not None:
        cells = _by_position(line, header.starts) or []
        placed = dict(zip(header.names, map(str.strip, cells), strict=True)) if cells else None
        if placed is not None and _belongs(placed, header):
            return placed
    # Blanks may have been squeezed on the way, so that words stand in other columns' places.
    by_words = _row_of_words(line, header)
    return by_words if by_words is not None and _belongs(by_words, header) else None


def _row_of_words(line: str, header: Header) -> Fields | None:
    """The row's values by their words, each of the kind that its column holds."""
    words = line.split(None, _MOST_WORDS)
    if len(words) < len(header.names):
        # rpk leaves the cells of a partition that nobody reads empty, and they are the last ones.
        least = header.names.index("LAG") + 1 if header.blanks and "LAG" in header.names else len(header.names)
        if len(words) != least:
            return None
        words += ["-"] * (len(header.names) - least)
    if len(words) > _MOST_WORDS and not header.names[-1].endswith("ASSIGNMENT"):
        return None  # that many words in names would be tried in every way
    text = " ".join(words)
    for pattern in header.by_words:
        match = pattern.fullmatch(text)
        if match:
            return dict(zip(header.names, match.groups(), strict=True))
    return None


def _without_prefix(line: str, header: Header) -> str:
    """The line without what stands before the first column on the header's line too: of that shape, other letters."""
    before = line[: len(header.prefix)]
    return line[len(before) :] if header.prefix and _shape(before) == _shape(header.prefix) else line


def _shape(text: str) -> str:
    return re.sub(r"[A-Za-z0-9]", "x", text)


def _by_position(line: str, starts: Sequence[int]) -> list[str] | None:
    """The cells of a line whose columns start where the header's do; None where they do not.

    Java pads by UTF-16 units, so beyond U+FFFF a letter takes two places.
    """
    if "\t" in line:
        return None
    plain = line.isascii()
    units = b"" if plain else line.encode("utf-16-le", "surrogatepass")
    size = len(line) if plain else len(units) // 2
    cells = []
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        end = size if stop is None else stop
        cell = line[start:end] if plain else units[2 * start : 2 * end].decode("utf-16-le", "replace")
        if stop is not None and cell and not cell.endswith(" ") and stop < size:
            return None
        if cell.startswith(" ") and cell.strip():
            return None
        cells.append(cell)
    return cells


def _belongs(row: Fields, header: Header) -> bool:
    """Whether the values are of the kinds that the columns hold: else the line is no row, or only a part of one."""
    for column in _WHOLE:
        value = row.get(column)
        if value is not None and value != "-" and not (value.isascii() and value.isdecimal()):
            return False
    if any(not _NUMBER_OR_DASH.fullmatch(row[column] or "-") for column in _OFFSETS if column in row):
        return False
    if header.blanks:
        return bool(row.get("TOPIC", "-")) and any(row.values())
    return all(row.get(column) != "" for column in _NEVER_BLANK if column != header.cut)


def _is_cut(line: str, header: Header) -> bool:
    """Whether a line that is no row was one: its partition is where it belongs, by words or by place."""
    at = next((i for i, name in enumerate(header.names) if name in ("PARTITION", "#PARTITIONS")), None)
    if at is None:
        return False
    line = _without_prefix(line, header)[:_MOST_HEADER]
    if header.starts is not None and at and _starts_at(line, header.starts[: at + 1]):
        cell = re.match(r"[0-9]+( +|$)", line[header.starts[at] :])
        end = header.starts[at] + cell.end() if cell is not None else 0
        after = header.starts[at + 1] if at + 1 < len(header.starts) else len(line)
        if cell is not None:
            return end in (len(line), after)
    words = line.replace(",", " ").replace(header.bar or ",", " ").split(None, len(header.names))
    if at >= len(words) or not (words[at].isascii() and words[at].isdecimal()):
        return False
    # "It took 3 seconds" has a number at that place too.
    return header.names[at] == "#PARTITIONS" or all(map(_NUMBER_OR_DASH.fullmatch, words[at + 1 : at + 2]))


def _starts_at(line: str, starts: Sequence[int]) -> bool:
    """Whether a line's cells begin at each of these places."""
    return all(len(line) > start and line[start] != " " and (not start or line[start - 1] == " ") for start in starts)


def unread_row(line: str, number: int) -> str:
    """What is said of a line that was not read."""
    return f"line {number} looks like a row and was not read: {line.strip()[:60]!a}"


def _like_a_row(line: str) -> bool:
    """Whether a line that fits no header looks like a row of offsets: a word, and three numbers or dashes in turn."""
    return re.search(r"\S\s+[0-9]{1,10}\s+(?:-|[0-9]+)\s+(?:-|[0-9]+)(?:\s|$)", line[:_SEARCHED]) is not None


def decoded(content: bytes, name: str) -> str:
    """The text: UTF-8, or UTF-16 with its mark, as PowerShell writes files."""
    try:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(name, f"bytes that are not text at {error.start}", "UTF-8 text") from None
