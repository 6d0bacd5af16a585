"""The tables in text that a tool printed and a person copied: their headers, and their rows by column.

Columns are known by name, whatever their order. Values stand where the header's columns start, as names may hold
blanks; where that is lost (tabs, wrapped lines, numbers that are too wide), words count, each of the kind that its
column holds. No line ends a table: what is no row is passed over, unless it looks like one or says that rows are gone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from apportion.errors import BadInput
from apportion.sources.cells import COUNTS, OFFSETS, Fields, figures, is_id, is_like_a_number, is_nothing, joined

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
    "OFFSET-LAG": "LAG",  # kafka-streams-groups
}  # fmt: skip
LOOSE_ALIASES: Final = {
    "CONSUMER-GROUP": "GROUP", "CONSUMER": "CONSUMER-ID", "MEMBER": "CONSUMER-ID", "INSTANCE": "GROUP-INSTANCE-ID",
    "CLIENT": "CLIENT-ID", "OFFSET": "CURRENT-OFFSET", "COMMITTED-OFFSET": "CURRENT-OFFSET",
    "COMMITTED": "CURRENT-OFFSET", "END-OFFSET": "LOG-END-OFFSET", "LATEST-OFFSET": "LOG-END-OFFSET",
}  # fmt: skip
"""Names in tables whose columns are parted by signs or wide blanks (Confluent's tool, AKHQ), where none has the name
meant."""
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
NAMED: Final = re.compile(
    r"[Gg]roup (?:'(.*)' (has no active members|is rebalancing|does not exist)|(\S+) (not found))"
)
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
_RULE: Final = re.compile(r"[\W_]{3,}")
_ROWS: Final = r"\b(?:rows?|lines?|partitions?|entries|output)\b"
_GONE: Final = r"(?:snip(?:ped)?|truncated|omitted|removed|redacted|elided|skipped|hidden|cut|left out)"
_LEFT_OUT: Final = re.compile(
    r"\W*(?:(?:\. ?){2,}|…|⋮|\*{2,}|-+ ?more ?-+)\W*"
    rf"|\W*(?:{_GONE}|etc)\b.{{0,60}}"
    r"|.{0,60}\band so (?:on|forth)\b.{0,60}"
    rf"|.{{0,60}}\b(?:more|other|remaining)(?: \w+)? {_ROWS}.{{0,60}}"
    rf"|.{{0,60}}{_ROWS}(?: \w+)? {_GONE}\b.{{0,60}}"
    r"|.{0,60}\bonly showing\b.{0,60}"  # Spark
    r"|.{0,60}\bshowing\b.{0,30}\b(?P<shown>\d[\d,.]*) of (?!(?P=shown)\b)\d.{0,60}",
    re.IGNORECASE,
)
"""Lines by which people say that they left rows out."""
_FAILED: Final = re.compile(r"Error: Executing consumer group command failed")
_BARS: Final = ("|", "│", "┃", "║")
_SIGNS: Final = re.compile(r"[^\w\s#()%/.*`\"'<>-]+")
"""What may part a table's columns besides: any sign that no column's name has."""
_NEVER_BLANK: Final = ("TOPIC", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "OWNER", "STATE")
"""Kafka writes ``-`` there for what it does not know."""
_NO_NUMBER: Final = r"[^\w\s/]+|(?i:unknown|null|none|nan|nil|n/?a)"
_NAME: Final = r"(\S+(?:\s+\S+)*?)"
_WORDS_OF: Final = {
    **dict.fromkeys(COUNTS, rf"({_NO_NUMBER}|[0-9]+)"),
    **dict.fromkeys(OFFSETS, rf"({_NO_NUMBER}|-?[0-9]+)"),
    **dict.fromkeys(("GROUP", "CLIENT-ID", "GROUP-INSTANCE-ID", "OWNER"), _NAME),
    # A name may hold blanks; one that begins with a figure would swallow a number that was written with blanks.
    "CONSUMER-ID": rf"(?!(?:-|[0-9]+)\s+[^\s/-]){_NAME}",
    **dict.fromkeys(("COORDINATOR (ID)", "COORDINATOR"), r"(\S+(?:\s+\(\S*\))?)"),
    **dict.fromkeys(("ASSIGNMENT", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT"), r"(\S+(?:,\s+\S+)*)"),
    "HOST": r"(/\S*|-)",
}
"""What a column's words look like, where columns are not aligned; of others a word."""


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

    @cached_property
    def counted(self) -> int | None:
        """Which column says a partition's id, or how many partitions; None for none."""
        return next((i for i, name in enumerate(self.names) if name in ("PARTITION", "#PARTITIONS")), None)

    def needs(self) -> str:
        """The columns, for a sentence about a row that does not fit."""
        return f"{len(self.names)} columns: " + " ".join(self.names)


@dataclass(frozen=True)
class Row:
    """A row: its line's number, its table, its values by column.

    unread
        The first column whose cell is no number though it must be, and that cell; its value is ``-`` then.
    adds_up
        Whether LAG = END - CURRENT, as far as the row has all three.
    """

    line: int
    header: Header
    fields: Fields
    unread: tuple[str, str] | None = None
    adds_up: bool | None = None


def row(line: int, header: Header, cells: Fields) -> Row:
    """A row with its figures read."""
    known = figures(cells)
    return Row(line, header, known.fields, known.unread, known.adds_up)


@dataclass(frozen=True)
class Sentence:
    """A line that names a group: a sentence, with its words about the state, a heading, or a prompt."""

    group: str | None
    state: str | None = None


@dataclass(frozen=True)
class Unread:
    """Something of a table was not read: ``reason`` says which part, and where.

    error
        Of a row that is spoilt: the error for a caller who must have the whole.
    """

    line: int
    reason: str
    error: BadInput | None = None


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
    return _unfolded(_unnumbered(lines))


def _unnumbered(lines: list[str]) -> list[str]:
    """The lines without the numbers that cat -n, grep -n and pandas write first: ascending, from the header on."""
    numbers = [_NUMBER.match(line) for line in lines]
    for i, line in enumerate(lines):
        bare = line[number.end() :] if (number := numbers[i]) is not None else line
        header = header_of(bare)
        if header is None or (number is None and header.bar):
            continue
        # pandas does not number the header, so that each row has a word more than it.
        rows = [j for j in range(i, len(lines)) if numbers[j] is not None and lines[j].strip()]
        ids = [int(numbers[j][1]) for j in rows]  # type: ignore[index]  # rows have one
        longer = number is not None or all(len(lines[j].split()) > len(header.names) for j in rows)
        blank = number is not None or all(lines[j][: len(line) - len(line.lstrip())].strip() for j in rows)
        if rows and longer and blank and ids == sorted(set(ids)) and len(rows) >= _headers_rows(lines, i):
            cut = {j: lines[j][numbers[j].end() :] for j in rows}  # type: ignore[union-attr]  # rows have one
            return [cut.get(j, text) for j, text in enumerate(lines)]
        return lines
    return lines


_NUMBER: Final = re.compile(r"[ \t]*([0-9]{1,7})(?:[:.)│|][ \t]?|[ \t]+)")


def _headers_rows(lines: Sequence[str], i: int) -> int:
    """Lines of the table whose header is at i: up to the next blank one."""
    return next((j for j in range(i, len(lines)) if not lines[j].strip()), len(lines)) - i - 1


def _unfolded(lines: list[str]) -> list[str]:
    """The lines as they were before a terminal folded all of them at one width, blank ones for parts of others.

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
        reader.summarised = reader.summarised or bool(facts)
        yield from facts
        event, taken = reader.at(i, header) if lines[i].strip() and not facts else (None, max(len(facts), 1))
        if event is not None:
            yield event
        i += taken


def _summary(lines: Sequence[str], i: int) -> list[SummaryLine]:
    """The lines of a group's summary as rpk prints it, if one begins at this line."""
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


MISSING: Final = "Dead"
"""The state of a group that does not exist, as Kafka's coordinator calls it."""
_STATES: Final = {
    "has no active members": "Empty", "is rebalancing": "rebalancing", "does not exist": MISSING, "not found": MISSING,
}  # fmt: skip


def _sentence(line: str) -> Sentence | None:
    begin = line[:_SEARCHED]
    named = NAMED.search(begin)
    if named:
        return Sentence(named[1] or named[3], _STATES[named[2] or named[4]])
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
    return len(words) >= 2 and all(_column(word) in ORDER for word in words[:2])


def _unread_table(line: str, number: int) -> Unread | None:
    """A header, whole or cut, of a table without the columns that any table must have."""
    if {"PROCESS", "ASSIGNMENTS"} <= set(line[:_MOST_HEADER].split()):
        return Unread(number, f"line {number} begins a table of a streams group's tasks, which are not read")
    if not _of_names(line):
        return None
    names = [_column(word) for word in _COLUMN.findall(line[:_MOST_HEADER])]
    known = next((i for i, name in enumerate(names) if name not in ORDER), len(names))
    figures_below = sum(map(is_like_a_number, names[known:]))
    if figures_below > 1 and any(needed <= set(names[:known]) for _, needed in KINDS):
        return Unread(number, f"line {number} holds a header and its rows in one line: the line breaks are lost")
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
    for bar in dict.fromkeys((*_BARS, "\t", ",", ";", *_SIGNS.findall(line))):
        if line.count(bar) >= 2 and (barred := _barred(line, bar)) is not None:
            return barred
    wide = _by_wide_blanks(line)
    if wide is not None and set(wide.names) <= set(ORDER):
        return wide
    return _by_words(line) or wide


def _by_wide_blanks(line: str) -> Header | None:
    """A header whose names are of several words, as ``COMMITTED OFFSET``, with wider blanks between them."""
    cells = [(match[0], match.start()) for match in re.finditer(r"\S+(?: \S+)*", line)]
    names = _names([word for word, _ in cells])
    header = Header(tuple(names), tuple(start for _, start in cells))
    return header if header.kind and len(set(names)) == len(names) and any(" " in word for word, _ in cells) else None


def _by_words(line: str) -> Header | None:
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
    if bar == "\t" and not all(cells[1:]):
        return None
    names = _names(cells)
    names[0] = names[0] or "INDEX"  # pandas numbers its rows in a column without a name
    header = Header(tuple(names), None, bar, blanks=True)
    known = sum(name in ORDER or name == "NUMBERS" for name in names)
    return header if header.kind and known >= 3 and len(set(names)) == len(names) and all(names) else None


def _names(cells: Sequence[str]) -> list[str]:
    """The names of columns as they are known here; another tool's name counts if none has the name meant."""
    names = [_column(cell.upper()) for cell in cells]
    return [name if LOOSE_ALIASES.get(name, name) in names else LOOSE_ALIASES.get(name, name) for name in names]


def _cells(line: str, bar: str) -> list[str]:
    """The cells between the signs, without marks of markdown or of quotation around them."""
    text = line if bar in ("\t", ",", ";") else line.strip()
    if text.startswith("||") and bar == "|":  # Jira's headers
        text = text.replace("||", "|")
    if bar in text[len(bar) :] and text.startswith(bar) and bar not in ("\t", ",", ";"):
        text = text.removeprefix(bar).removesuffix(bar)
    cells = next(csv.reader([text], delimiter=bar)) if '"' in text and len(bar) == 1 else text.split(bar)
    return [_ESCAPED.sub("", cell.strip().strip("*`")) for cell in cells]


_ESCAPED: Final = re.compile(r"^'(?='*[=+@-])")
"""The apostrophe that keeps a spreadsheet from taking a name for a formula, as our own CSV writes it."""


def _column(word: str) -> str:
    """The name that a column is known by here."""
    name = word if " (" in word else word.replace("_", "-").replace(" ", "-")
    return ALIASES.get(name, name)


def _cut(names: Sequence[str]) -> str:
    """The column whose name the line's end has cut; "" if the last name is whole."""
    last, before = names[-1], names[-2]
    if last in ORDER or last == "NUMBERS" or before not in ORDER:
        return ""
    later = (name for name in ORDER[ORDER.index(before) + 1 :] if name not in names)
    return next((name for name in later if name.startswith(last)), "")


def headerless(lines: Sequence[str]) -> Header | None:
    """The layout of rows that have lost their header, if their words decide it: the rest is the part that was read."""
    samples = [words for line in lines if 5 <= len(words := line.split(None, 12)) <= 10][:50]
    for names in HEADERLESS:
        header = Header(names)
        fits = [row for words in samples if (row := _row_of_words(" ".join(words), header)) is not None]
        sums = [figures(row).adds_up for row in fits]
        counted = True in sums or "HOST" in names
        if fits and counted and False not in sums and all(is_id(row["PARTITION"]) for row in fits):
            return header
    return None


class _TableRows:
    """Reads the lines below a header: rows, whole or wrapped, and lines that only look like one."""

    def __init__(self, lines: Sequence[str], name: str, first: Header | None = None) -> None:
        self.lines, self.name, self.first = lines, name, first
        self.first_cells: set[str] = set()
        self.summarised = False
        self.last_cell_filled = False

    def at(self, i: int, header: Header | None) -> tuple[Event | None, int]:
        """The kind of a line, and how many lines it takes."""
        line, number = self.lines[i], i + 1
        fields = row_of(line, header) if header is not None else None
        if fields is not None and header is not None:
            last = fields[header.names[-1]]
            # An empty client id is a cell without anything, and so is one that the end of the text has cut.
            if not last and self.last_cell_filled and number == len(self.lines) and not header.blanks:
                raise BadInput(f"{self.name}, line {number}", f"a last row without {header.names[-1]}", header.needs())
            self.first_cells.add(fields[header.names[0]])
            self.last_cell_filled = self.last_cell_filled or bool(last)
            return row(number, header, fields), 1
        event: Event | None = _sentence(line) or _unread_table(line, number)
        if event is None and header is None:
            event = self._above(line, number)
        if event is not None or header is None:
            return event, 1
        return self._no_row(i, header)

    def _above(self, line: str, number: int) -> Event | None:
        """A row above the first header, put there by sorting or a terminal's scrolling.

        Only a row that names its group is surely of the same table.
        """
        fields = row_of(line, self.first) if self.first is not None and "GROUP" in self.first.names else None
        if fields is not None and self.first is not None:
            return row(number, self.first, fields)
        of_a_group = self.first is not None or self.summarised
        return Unread(number, unread_row(line, number)) if of_a_group and _like_a_row(line) else None

    def _no_row(self, i: int, header: Header) -> tuple[Event | None, int]:
        """The kind of a line below a header that is no row by itself."""
        line, number = self.lines[i], i + 1
        if _LEFT_OUT.fullmatch(line[:_SEARCHED]):
            return Unread(number, f"line {number} ({line.strip()[:40]!a}) says that rows are missing"), 1
        if _RULE.fullmatch(line):
            return None, 1
        if _FAILED.search(line[:_SEARCHED]):
            return Unread(number, f"line {number} says that the tool failed"), 1
        if header.lines > 1 or _is_cut(line, header):
            parts = [(cells, taken) for taken in range(2, 5) if (cells := self._joined(i, taken, header)) is not None]
            # A line as long as the first one was cut at the same width, so that the row goes on.
            whole = [taken for _, taken in parts if len(self.lines[i + taken - 1]) < len(line)]
            for cells, taken in parts:
                if taken == min(whole, default=parts[0][1]):
                    return row(number, header, cells), taken
        if _is_cut(line, header) or self._begins_like_a_row(i, header):
            return self._refused(line, number, unread_row(line, number), header), 1
        if header.bar and header.bar in line and (spoilt := self._spoilt(line, header)):
            return self._refused(line, number, f"line {number} {spoilt}: {line.strip()[:60]!a}", header), 1
        if _like_a_row(line):
            return Unread(number, unread_row(line, number)), 1
        return None, 1

    def _refused(self, line: str, number: int, reason: str, header: Header) -> Unread:
        return Unread(number, reason, BadInput(f"{self.name}, line {number}", ascii(line[:60]), header.needs()))

    def _spoilt(self, line: str, header: Header) -> str:
        """How a line with signs between its cells fails to be a row; "" if it is prose."""
        cells = _cells(line, header.bar)
        if not (any(map(is_like_a_number, cells)) or cells[0] in self.first_cells):
            return ""
        if len(cells) != len(header.names):
            return f"has {len(cells)} cells where the header has {len(header.names)}"
        return f"has no whole number in its column {header.names[header.counted or 0]}" if any(cells) else ""

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
            if fields is not None and _belongs(fields, header) and figures(fields).trust > 1:
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
    """The row's cells by column, None for a line that is no row.

    Of several ways to cut it the first one counts that the figures do not speak against: LAG = END - CURRENT.
    """
    line = _without_prefix(line, header)
    best: tuple[int, Fields] | None = None
    for cells in _cuts(line, header):
        trust = figures(cells).trust if _belongs(cells, header) else -1
        if trust >= (0 if best is None else best[0] + 1):
            best = trust, cells
        if trust > 1:
            break
    return best[1] if best is not None else None


def _cuts(line: str, header: Header) -> Iterator[Fields]:
    """The ways to cut a line into the header's columns, the likeliest first."""
    names = header.names

    def belongs(row: Fields) -> bool:
        return _belongs(row, header)

    if header.bar and header.bar in line:
        cells = _cells(line, header.bar)
        if len(cells) == len(names):
            yield dict(zip(names, cells, strict=True))
        elif (row := joined(cells, names, header.bar, belongs)) is not None:
            yield row
        return
    if header.starts is not None and (placed := _by_position(line, header.starts)) is not None:
        yield dict(zip(names, map(str.strip, placed), strict=True))
    # Blanks may have been squeezed on the way, so that words stand in other columns' places.
    if (row := _row_of_words(line, header)) is not None:
        yield row
    words = line.split(None, _MOST_WORDS) if header.kind == "offsets" else []
    if len(words) == len(names):
        yield dict(zip(names, words, strict=True))
    elif (row := joined(words, names, " ", belongs)) is not None:
        yield row


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
    """The line without the text before the first column on the header's line too: of that shape, other letters."""
    before = line[: len(header.prefix)]
    return line[len(before) :] if header.prefix and _shape(before) == _shape(header.prefix) else line


def _shape(text: str) -> str:
    return re.sub(r"[A-Za-z0-9]", "x", text)


def _by_position(line: str, starts: Sequence[int]) -> list[str] | None:
    """The cells of a line whose columns start at the same places as the header's; None if they do not.

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
    """Whether the cells are of the kinds that the columns hold: else the line is no row, or only a part of one."""
    if any(name in row and not (is_id(row[name]) or is_nothing(row[name])) for name in COUNTS):
        return False
    if header.blanks:
        return bool(row.get("TOPIC", "-")) and not all(map(is_nothing, row.values()))
    blank = {column for column in _NEVER_BLANK if column != header.cut and row.get(column) == ""}
    if blank and blank <= set(OFFSETS) and row[header.names[-1]]:
        blank = set()  # a tool left them empty; of a row that was cut all to the right is empty
    offsets = [row[column] for column in OFFSETS if column in row]
    return not blank and (not offsets or any(is_nothing(cell) or cell[:1].isdecimal() for cell in offsets))


def _is_cut(line: str, header: Header) -> bool:
    """Whether a line that is no row was one: its partition is in its place, by words or by position."""
    at = header.counted
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
    if at >= len(words) or not is_id(words[at]):
        return False
    # "It took 3 seconds" has a number at that place too; a row's next words are figures, in whatever dress ("~9100").
    dressed = len(words) >= len(header.names) and any(map(_DIGIT.search, words[at + 1 : at + 4]))
    return header.names[at] == "#PARTITIONS" or dressed or all(_is_figure(word) for word in words[at + 1 : at + 2])


_DIGIT: Final = re.compile(r"\d")


def _starts_at(line: str, starts: Sequence[int]) -> bool:
    """Whether a line's cells begin at each of these places."""
    return all(len(line) > start and line[start] != " " and (not start or line[start - 1] == " ") for start in starts)


def unread_row(line: str, number: int) -> str:
    """The sentence about a line that was not read."""
    return f"line {number} looks like a row and was not read: {line.strip()[:60]!a}"


def _is_figure(word: str) -> bool:
    return is_nothing(word) or is_like_a_number(word)


def _like_a_row(line: str) -> bool:
    """Whether a line that fits no header looks like a row of offsets: a word, an id, and two more figures in turn."""
    words = line[:_SEARCHED].split()
    runs = zip(words[1:], words[2:], words[3:], strict=False)
    return any(is_id(a) and len(a) <= 10 and _is_figure(b) and _is_figure(c) for a, b, c in runs)


def decoded(content: bytes, name: str) -> str:
    """The text: UTF-8, or UTF-16 with its mark, as PowerShell writes files."""
    try:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(name, f"bytes that are not text at {error.start}", "UTF-8 text") from None
