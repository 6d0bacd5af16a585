"""What every command takes, its defaults and how each option reads good and bad values, against what was written down.

``APPORTION_WRITE=1`` writes ``arguments.json`` anew; then look at what changed in it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from tests.support.written_down import as_written

from apportion.cli.commands import COMMANDS, parser_of
from apportion.errors import ApportionError

WRITTEN = Path(__file__).parent / "arguments.json"
PROBES = (
    *("", "0", "1", "2", "-1", "0.5", "1.0", "1.5", "2.5", "007", "3600", "3601", "1e3", "nan", "inf", "x", " 1", "٣"),
    *("9999999999999999", "99999999999999999", "1.123456789", "1.1234567890", "9223372036854775807"),
    *("9223372036854775808", "99999999999999999999", "-5..3", "1..1", "2..10", "10..2", "0..1", "1..", "999999"),
    *("1000000", "a=b", "=b", "a=", "a=b=c", "auto", "json", "jsno", "table", "html", "consumer", "learned", "lag"),
    *("weight", "members", "moves", "trouble", "bash", "build", "-"),
)
"""Values that are given to each option that does not take every text."""


def said_of(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """Each option: what argparse knows of it, and what its type makes of the probes."""
    titles = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
    alone = {id(a): n for n, group in enumerate(parser._mutually_exclusive_groups) for a in group._group_actions}
    said = []
    for action in parser._actions:
        kind = action.type if callable(action.type) else None
        said.append(
            {
                "names": action.option_strings,
                "does": type(action).__name__,
                "into": action.dest,
                **{
                    name: getattr(action, name) for name in ("nargs", "const", "default", "required", "metavar", "help")
                },
                "choices": list(action.choices) if action.choices else None,
                "under": titles[id(action)],
                "not with": alone.get(id(action)),
                **(read(kind) if kind else {}),
            }
        )
    return said


def read(kind: Any) -> dict[str, Any]:
    """The probes that a type takes with what it makes of them, and the sentences that the others are refused with."""
    takes: dict[str, Any] = {}
    refuses: dict[str, list[str]] = {}
    for probe in PROBES:
        try:
            takes[probe] = kind(probe)
        except argparse.ArgumentTypeError as wrong:
            refuses.setdefault(str(wrong).replace(repr(probe), "PROBE"), []).append(probe)
    return {"takes": takes, "refuses": {sentence: len(probes) for sentence, probes in refuses.items()}}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_what_it_took(name: str) -> None:
    parser = parser_of(name)
    says = {"prog": parser.prog, "description": parser.description, "epilog": parser.epilog, "takes": said_of(parser)}
    as_written(WRITTEN, name, says)


LEAST = {
    "replay": ["folder", "--group", "g"],
    "size": ["--capacity", "5"],
    "pipeline": ["status", "--to", "place"],
    "completion": ["bash"],
}
"""The shortest line of the commands that need something."""
WRONG = (
    ["--nothing"], ["--nothing=1"], ["--grop", "g"], ["one", "two"], ["--group"], ["--group", "-g"], ["-o"],
    ["-o", "jsno"], ["-x"], ["--", "--group"],
)  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_that_gives_little_or_something_wrong_is_read_as_it_was(name: str) -> None:
    answers: dict[str, Any] = {}
    for more in ([], *WRONG):
        try:
            answers[" ".join(more)] = vars(parser_of(name).read([*LEAST.get(name, []), *more]))
        except ApportionError as wrong:
            # How argparse itself words it depends on Python's release.
            answers[" ".join(more)] = f"{type(wrong).__name__}: {wrong}"
    as_written(WRITTEN, f"lines of {name}", answers)
