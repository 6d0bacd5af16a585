"""No row of a table vanishes in silence: whatever a cell holds, it is read, or named with its line and column."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.sighted import raw

from apportion.errors import BadInput
from apportion.sources.cells import joined
from apportion.sources.sniff import groups_in

NAMES = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
FIRST = ["billing", "orders", "0", "88", "100", "12", "c-1", "/10.0.0.1", "c-1"]


def parted(sign: str, before: str = "", after: str = "") -> Callable[[list[list[str]]], str]:
    return lambda rows: "".join(before + sign.join(row) + after + "\n" for row in rows)


def boxed(side: str, rule: str) -> Callable[[list[list[str]]], str]:
    def table(rows: list[list[str]]) -> str:
        lines = [side + side.join(f" {cell:14} " for cell in row) + side for row in rows]
        return "\n".join([rule * 40, lines[0], rule * 40, *lines[1:], rule * 40, ""])

    return table


def quoted(rows: list[list[str]]) -> str:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def aligned(rows: list[list[str]]) -> str:
    return "".join("".join(f"{cell:16}" for cell in row).rstrip() + "\n" for row in rows)


TABLES: dict[str, Callable[[list[list[str]]], str]] = {
    "tabs": parted("\t"),
    "commas": parted(","),
    "commas and marks of quotation": quoted,
    "semicolons": parted(";"),
    "bars": parted(" | ", "| ", " |"),
    "bars without a frame": parted(" | "),
    "a box": boxed("|", "+---"),
    "a box of lines": boxed("│", "┼───"),
    "a box of double lines": boxed("║", "═══╬"),
    "colons": parted(" :: "),
    "carets": parted("^"),
    "tildes": parted("~"),
    "aligned blanks": aligned,
    "single blanks": parted(" "),
}

READ = [
    ("9188", "9100"), ("9,188", "9,100"), ("9.188", "9.100"), ("9'188", "9'100"), ("9 188", "9 100"),
    ("9188.0", "9100.0"), ("9188,00", "9100,00"), ("+9188", "+9100"), ("9_188", "9_100"),
    ("9\N{RIGHT SINGLE QUOTATION MARK}188", "9\N{RIGHT SINGLE QUOTATION MARK}100"),
    ("9\N{NARROW NO-BREAK SPACE}188", "9\N{NARROW NO-BREAK SPACE}100"), ("9,188", "9100"), ("9188", "9.100,0"),
    ("\N{FULLWIDTH DIGIT NINE}188", "9100"), ("9·188", "9·100"), ("00009188", "9100"),
]  # fmt: skip
NOTHING = [
    "-", "NULL", "null", "None", "NaN", "N/A", "n/a", "unknown", "?", "--", "\N{EM DASH}", "\N{EN DASH}", "nil",
    "<none>", "(null)", "undefined", "---", "??",
]  # fmt: skip
LOST = ["9.1K", "9K", "2.04E+10", "9,1", "~9100", "many", "0x238c", "9100msg", "9.5", "1/2", "∞", "#REF!", "91oo"]


def text(table: str, current: str, end: str, lag: str) -> str:
    return TABLES[table]([NAMES, FIRST, ["billing", "orders", "1", current, end, lag, "c-2", "/10.0.0.2", "c-2"]])


def second(content: str) -> dict[str, Any]:
    [group] = groups_in(content.encode(), "text")
    assert (group.name, list(group.gaps), group.contradiction) == ("billing", [], "")
    assert raw(group)["members"]["c-2"]["owned"] == {"orders": [1]}
    return {key: value for key, value in raw(group)["topics"]["orders"][1].items() if key != "partition"}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("end", "lag"), READ)
def test_a_number_is_read_if_the_rows_sum_decides_what_it_means(table: str, end: str, lag: str) -> None:
    content = text(table, "88", end, lag)
    if table == "commas" and ",0" in end + lag:  # what begins with 0 may as well be a member's id
        with pytest.raises(BadInput, match="line 3"):
            groups_in(content.encode(), "text")
        return
    assert second(content) == {"committed": 88, "end": 9188}


@pytest.mark.parametrize(
    ("table", "word"),
    [(table, word) for table in TABLES for word in [*NOTHING, ""] if word or table != "single blanks"],
)
def test_a_word_for_nothing_is_no_offset_and_its_row_stays(table: str, word: str) -> None:
    assert second(text(table, word, "913100", word)) == {"end": 913100}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("cell", LOST)
@pytest.mark.parametrize("column", ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"])
def test_what_is_no_number_is_named_with_its_line_and_column(table: str, cell: str, column: str) -> None:
    figures = {"CURRENT-OFFSET": "88", "LOG-END-OFFSET": "9188", "LAG": "9100"} | {column: cell}
    content = text(table, *figures.values())
    line = 1 + next(i for i, row in enumerate(content.splitlines()) if "c-2" in row)
    with pytest.raises(BadInput, match=rf"^text, line {line}\b") as refused:
        groups_in(content.encode(), "text")
    assert column in str(refused.value)
    [group] = groups_in(content.encode(), "text", whole=False)
    assert len(group.gaps) == 1
    assert f"line {line}" in group.gaps[0]


DRESSES = ["~{}", ">{}", "({})", "**{}**", "`{}`", "{} or so", "about {}", "{}L", "\N{THIN SPACE}{}+"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("dress", DRESSES)
def test_a_row_whose_figures_are_all_dressed_alike_is_read_or_named(table: str, dress: str) -> None:
    content = text(table, *map(dress.format, ("88", "9188", "9100")))
    [group] = groups_in(content.encode(), "text", whole=False)
    if group.gaps:
        numbers = [int(number) for gap in group.gaps for number in re.findall(r"line (\d+)", gap)]
        assert any("c-2" in content.splitlines()[number - 1] for number in numbers), group.gaps
    else:
        assert second(content) == {"committed": 88, "end": 9188}


@pytest.mark.parametrize("cells", [("88", "9.000", "8,912.00"), ("0", "9.000", "9.000"), ("-", "9,188", "-")])
def test_two_readings_or_none_are_not_guessed(cells: tuple[str, str, str]) -> None:
    """9.000 is nine or nine thousand: only a sum that a single reading makes right decides."""
    content = text("tabs", *cells)
    if cells[0] == "88":
        assert second(content) == {"committed": 88, "end": 9000}
    else:
        with pytest.raises(BadInput, match="line 3, LOG-END-OFFSET"):
            groups_in(content.encode(), "text")


@pytest.mark.parametrize("table", ["tabs", "commas", "semicolons", "bars", "colons", "carets"])
@pytest.mark.parametrize("cells", [FIRST[:-1], [*FIRST, "more"], FIRST[:4], ["billing", "orders", "one", *FIRST[3:]]])
def test_a_line_with_another_number_of_cells_is_named(table: str, cells: list[str]) -> None:
    rows = TABLES[table]([NAMES, FIRST, [cell.replace("c-1", "c-9") for cell in cells]])
    [group] = groups_in(rows.encode(), "text", whole=False)
    assert len(group.gaps) == 1
    assert "line 3 " in group.gaps[0]
    with pytest.raises(BadInput, match="line 3"):
        groups_in(rows.encode(), "text")


def test_cells_are_joined_only_in_the_one_way_whose_sum_is_right() -> None:
    names = NAMES[:6]
    once = joined(["g", "t", "0", "88", "9", "188", "9", "100"], names, ",")
    assert once is not None
    assert [once[name] for name in names[3:]] == ["88", "9,188", "9,100"]
    assert joined(["g", "t", "0", "88", "100", "12", "c", "h", "a", "b"], NAMES, ",") is None, (
        "c,h or h,a or a,b may be one"
    )
    assert joined(["g", "t", "0", "88", "9", "188", "9", "101"], names, ",") is None


@pytest.mark.parametrize("prose", ["SLF4J: a, b and c", "Note, that this is prose", "[2026-01-01 10:00:00,1] WARN x"])
def test_prose_between_rows_is_passed_over(prose: str) -> None:
    rows = TABLES["commas"]([NAMES, FIRST]) + prose + "\n"
    [group] = groups_in(rows.encode(), "text")
    assert list(group.gaps) == []


NUMBERED: dict[str, Callable[[list[str]], list[str]]] = {
    "cat -n": lambda lines: [f"{i:6}\t{line}" for i, line in enumerate(lines, 1)],
    "grep -n": lambda lines: [f"{i}:{line}" for i, line in enumerate(lines, 1)],
    "less -N": lambda lines: [f"{i:7} {line}" for i, line in enumerate(lines, 8)],
    "pandas": lambda lines: ["  " + lines[0], *(f"{i} {line}" for i, line in enumerate(lines[1:]))],
}


@pytest.mark.parametrize("tool", NUMBERED)
@pytest.mark.parametrize("table", ["aligned blanks", "single blanks"])
def test_numbers_of_lines_are_no_part_of_a_groups_name(tool: str, table: str) -> None:
    rows = [NAMES, *([*FIRST[:2], str(p), *FIRST[3:]] for p in range(12))]
    lines = NUMBERED[tool](TABLES[table](rows).splitlines())
    [group] = groups_in("\n".join(lines).encode(), "text")
    assert (group.name, len(raw(group)["topics"]["orders"]), list(group.gaps)) == ("billing", 12, [])


def test_the_index_that_pandas_writes_is_a_column_of_its_own() -> None:
    rows = [["", *NAMES], ["0", *FIRST], ["1", *FIRST[:2], "1", *FIRST[3:]]]
    for table in ("commas", "bars"):
        [group] = groups_in(TABLES[table](rows).encode(), "text")
        assert (group.name, len(raw(group)["topics"]["orders"])) == ("billing", 2)


CUT = ["only showing top 20 rows", "only showing top 1 row", "Showing 1 to 10 of 57 entries", "(43 more rows)"]


@pytest.mark.parametrize("line", CUT)
def test_a_line_that_says_that_rows_are_missing_is_named(line: str) -> None:
    [group] = groups_in((TABLES["a box"]([NAMES, FIRST]) + line + "\n").encode(), "text")
    assert [reason.endswith("says that rows are missing") for reason in group.gaps] == [True]


def test_a_line_that_says_that_all_is_shown_is_not() -> None:
    [group] = groups_in((TABLES["bars"]([NAMES, FIRST]) + "Showing 1 to 1 of 1 entries\n(1 row)\n").encode(), "text")
    assert list(group.gaps) == []
