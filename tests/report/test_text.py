"""Tables are aligned for people, plain for programs, and harmless for terminals."""

from __future__ import annotations

import csv
import io

from apportion.report.text import TextTable, cell_width, fitted, fold, printable, render, to_csv
from apportion.wording import partitions_in_words, shorten

TABLE = TextTable(("NAME", "LAG", "NOTE"), [("a", 5, None), ("日本", 1200, "x\ny"), ("e\u0301", None, "z")])


def test_numbers_stand_to_the_right_and_names_to_the_left() -> None:
    # Two letters take two places each, an accent takes none.
    assert render(TABLE) == "NAME   LAG  NOTE\na        5  -\n日本  1200  x\\ny\ne\u0301        -  z\n"


def test_csv_is_read_back_as_it_was() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows == [["name", "lag", "note"], ["a", "5", ""], ["日本", "1200", "x\\ny"], ["e\u0301", "", "z"]]


def test_a_number_with_a_mark_still_stands_to_the_right() -> None:
    assert render(TextTable(("N",), [("12 *",), (7,)])) == "   N\n12 *\n   7\n"


def test_extra_columns_show_in_the_wide_form_alone() -> None:
    table = TextTable(("A", "B"), [(1, 2)], extra=frozenset({"B"}))
    assert render(table.narrow()) == "A\n1\n"
    assert table.records() == [{"a": 1, "b": 2}]


def test_control_characters_and_lone_surrogates_are_shown_not_sent() -> None:
    assert printable("\x1b[2J\u202e\ud800é") == "\\x1b[2J\\u202e\\ud800é"


def test_large_numbers_are_whole_and_small_ones_keep_their_digits() -> None:
    """A lag of some hours in seconds is read as such, by people and by awk."""
    cells = [12345.6, 999_999.9, 1234.5, 999.94, 0.25, -20_000.4, 3.0]
    lines = render(TextTable(("SECONDS",), [(cell,) for cell in cells])).split()
    assert lines == ["SECONDS", "12346", "1000000", "1234", "999.9", "0.25", "-20000", "3"]


def test_a_table_of_hostile_names_fits_the_terminal_as_they_are_shown() -> None:
    table = TextTable(("MEMBER", "LAG"), [("x\x1b\u202e" * 30, 5), ("b", 12)])
    lines = render(fitted(table, 60)).splitlines()
    assert max(map(len, lines)) <= 60
    assert "\\u202e" in lines[1]


def test_runs_of_partitions_are_drawn_together() -> None:
    assert partitions_in_words({"t": [0, 1, 2, 5, 6, 9]}) == "t(0-2,5,6,9)"
    assert partitions_in_words({"t": [0, 1, 2]}, runs=False) == "t(0,1,2)"


def test_what_is_too_long_is_cut() -> None:
    assert shorten("abcdefgh", 6) == "abc..."
    assert shorten("abc", 6) == "abc"


def test_a_long_sentence_breaks_between_words_and_a_name_never() -> None:
    name = "consumer-1-" + "f" * 40
    folded = fold(f"! One member carries 77% of the lag: {name}, 6 of 8.", 40)
    assert folded.splitlines() == ["! One member carries 77% of the lag:", f"  {name},", "  6 of 8."]
    assert fold("short", 40) == "short"


def test_a_table_fits_a_narrow_terminal_by_cutting_long_names_alone() -> None:
    name = "orders-service-0-a7fc7ff8-7ed3-40d8-9381-a8a5b7bde3ff"
    table = TextTable(("CONSUMER-ID", "LAG", "NOTE"), [(name, 123456789, "short"), (None, 1, "-")])
    told = render(fitted(table, 40))
    assert all(len(line) <= 40 for line in told.splitlines())
    assert "orders-servic...bde3ff  123456789  short" in told
    assert fitted(table, 200) == table
    # What cannot be cut is left: a line too long is better than a number that is not there.
    assert "123456789" in render(fitted(table, 5))


def test_wide_letters_are_cut_by_the_places_that_they_take() -> None:
    table = TextTable(("NAME", "NOTE"), [("注文" * 20, "注" * 40), ("b", "é" * 50)])
    for places in (30, 41, 60):
        assert max(map(cell_width, render(fitted(table, places)).splitlines())) <= places
