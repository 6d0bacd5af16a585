"""Names are other people's words: no output lets one of them command a terminal or a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from tests.cli.conftest import Done, run_here

from apportion.cli.completion import candidates

COMMANDS = "\x1b]0;title\x07\x9b31m\u202eevil\u2066\x85\x7f\r"
"""Escapes of C0 and C1 (a title, a colour), marks that turn the direction of writing, and a line's end."""
FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "'=1", "''@x"]
PLAIN = ["-", "+", "-5", "'quoted'", "a=b", "plain-name"]


def described(name: str, *words: str) -> Done:
    fields = {"topics": ["t"], "owned": {"t": [0, 1]}, "generation": 1, "client_id": name, "host": name}
    entries = [{"partition": p, "committed": 5, "end": 9 + p} for p in range(2)]
    group = {"group": name, "topics": {"t": entries}, "members": {f"{name}x": fields, "m": {"topics": ["t"]}}}
    return run_here("describe", "-", *words, stdin=json.dumps(group).encode())


def is_tame(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize("form", ["table", "wide", "csv", "json", "ndjson"])
def test_no_name_commands_a_terminal(form: str) -> None:
    done = described(COMMANDS, "-o", form)
    assert (done.code, "evil" in done.out) == (0, True)
    assert is_tame(done.out + done.err)


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_an_escaped_name_is_the_same_name_to_a_program(form: str) -> None:
    first = described(COMMANDS, "-o", form).out.splitlines()[0]
    assert COMMANDS in _values(json.loads(first))


def _values(document: Any) -> list[Any]:
    if isinstance(document, dict):
        return [*document, *(value for entry in document.values() for value in _values(entry))]
    return [value for entry in document for value in _values(entry)] if isinstance(document, list) else [document]


@pytest.mark.parametrize("command", ["plan", "compare", "what-if"])
def test_plans_in_json_are_tame_too(command: str) -> None:
    group = {"group": COMMANDS, "topics": {"t": 2}, "members": {"a": {"topics": ["t"], "client_id": COMMANDS}}}
    more = ["--join", "1"] if command == "what-if" else []
    for form in ("table", "csv", "json"):
        done = run_here(command, "-", *more, "-o", form, stdin=json.dumps(group).encode())
        assert (done.code, is_tame(done.out + done.err)) == (0, True)


def test_completion_offers_no_name_that_commands_a_terminal(tmp_path: Any) -> None:
    groups = [{"group": name, "topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}} for name in ("calm", COMMANDS)]
    path = tmp_path / "groups.json"
    path.write_text(json.dumps({"version": 1, "groups": groups}))
    assert candidates(["describe", str(path), "--group", ""]) == ["calm"]


@pytest.mark.parametrize("name", FORMULAS)
def test_a_name_that_begins_like_a_formula_gets_an_apostrophe_in_csv(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(described(name, "-o", "csv").out)))
    assert {row["client_id"] for row in rows} == {f"'{name}"}
    assert [row["current_offset"] for row in rows] == ["5", "5"]


@pytest.mark.parametrize("name", PLAIN)
def test_numbers_a_lone_dash_and_other_names_get_none(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(described(name, "-o", "csv").out)))
    assert {row["client_id"] for row in rows} == {f"'{name}" if name == "+" else name}


@pytest.mark.parametrize("name", [*FORMULAS, *PLAIN[2:]])
def test_describe_reads_its_own_csv_back_unchanged(name: str) -> None:
    once = described(name, "-o", "csv").out
    again = run_here("describe", "-", "-o", "csv", stdin=once.encode())
    assert (again.code, again.out) == (0, once)
