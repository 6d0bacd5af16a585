"""A command's arguments: argparse with hints for typing errors and examples in every help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from apportion.cli.output import emit
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.errors import ApportionError, UnknownName


class Usage(ApportionError):
    """A command line that cannot be understood."""

    def __init__(self, prog: str, message: str) -> None:
        super().__init__(f"{message.rstrip('.')}. See '{prog} --help'.")


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of exiting, hints at the nearest option, and shows examples."""

    def __init__(self, prog: str, description: str, examples: Sequence[tuple[str, str]]) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=format_examples(examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.register("action", None, _Once)
        self.given: dict[str, str] = {}
        self.add_argument("-h", "--help", action="help", help="show this help and exit")

    def error(self, message: str) -> NoReturn:
        """Raise ``Usage`` with argparse's sentence."""
        sentence = message.removeprefix("argument ")
        if sentence.endswith("expected one argument"):
            option = sentence.partition(":")[0].rpartition("/")[2]
            sentence += f"; one that begins with - is written {option}=VALUE"
        raise Usage(self.prog, sentence)

    def print_help(self, file: Any = None) -> None:
        """The help as a command's result; argparse says nothing if it cannot be written."""
        emit(self.format_help())

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The arguments' values; an unknown option is named with the nearest one that exists."""
        self.given.clear()
        for word in arguments:
            if word == "--":
                break
            self._refuse_command(word)
            if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions:
                names = [name for name in self._option_string_actions if name.startswith("--")]
                raise UnknownName("option", word.partition("=")[0], names)
        namespace, rest = self.parse_known_args(arguments)
        if rest:
            raise Usage(self.prog, f"unexpected argument {rest[0]!r}")
        return namespace

    def _refuse_command(self, word: str) -> None:
        """Kafka's own tools have an option for each command here: ``--describe``."""
        from apportion.cli.commands import COMMANDS

        name = word.removeprefix("--")
        if word.startswith("--") and name in COMMANDS and word not in self._option_string_actions:
            advice = "leave it out" if self.prog.endswith(f" {name}") else f"run apportion {name}"
            raise Usage(self.prog, f"{word} is a command, not an option: {advice}")


class _Once(argparse.Action):
    """An option that has one value: a second one would silently win."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """Keep the value."""
        before = parser.given.get(self.dest)
        if option is not None and before is not None and before != values:
            several = "; compare takes several strategies" if self.dest == "assignor" else ""
            parser.error(f"{option} was given twice, with {before!s} and {values!s}: choose one{several}")
        parser.given[self.dest] = values
        setattr(namespace, self.dest, values)


def format_examples(examples: Sequence[tuple[str, str]]) -> str:
    """Examples as a help text shows them: the purpose, then the line to type."""
    lines = [f"  # {why}\n  {line}" for why, line in examples]
    return "examples:\n" + "\n".join(lines)


def whole(low: int = 0, high: int = 2**63 - 1) -> Callable[[str], int]:
    """An argument's type: a whole number in bounds, in ASCII digits."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20 and low <= int(text) <= high):
            too_big = digits.isdecimal() and not text.startswith("-")
            needed = f"of at least {low}" if high == 2**63 - 1 and not too_big else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"found {text[:60]!r}; needed a whole number {needed}")
        return int(text)

    return read


def amount(text: str) -> float:
    """An argument's type: a number above 0."""
    if re.fullmatch(r"[0-9]{1,16}(\.[0-9]{1,9})?", text, re.ASCII) and float(text) > 0:
        return float(text) if "." in text else int(text)
    raise argparse.ArgumentTypeError(
        f"found {text[:60]!r}; needed a number above 0 of at most 16 digits, as in 500 or 2.5"
    )


def setting(text: str) -> tuple[str, str]:
    """An argument's type: ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"found {text[:60]!r}; needed KEY=VALUE, as in max_skew=2")
    return key, value


def add_assignor(parser: Parser, default: str | None = DEFAULT_ASSIGNOR) -> None:
    """``--assignor`` and ``--set``; names are checked by the strategies' own register, which is slow to import."""
    default_text = f" (default: {default})" if default else ""
    parser.add_argument(
        "-A", "--assignor", metavar="NAME", default=default, help=f"the strategy{default_text}; see assignors"
    )
    parser.add_argument(
        "--set", metavar="KEY=VALUE", dest="settings", action="append", type=setting, default=[],
        help="a setting of the strategy; may be given more than once",
    )  # fmt: skip


FORMS: Final = ("table", "wide", "json", "ndjson", "csv")
PICTURES: Final = (*FORMS, "html")


def add_output(parser: Parser, formats: Sequence[str] = FORMS) -> None:
    """``-o``: the forms of the result on standard output."""
    parser.add_argument(
        "-o", "--output", metavar="FORMAT", type=OneOf(formats), default=formats[0],
        help=f"{', '.join(formats)} (default: {formats[0]})",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class OneOf:
    """An argument's type: one of some names, with a hint at the nearest."""

    names: Sequence[str]
    kind: str = "output format"

    def __call__(self, text: str) -> str:
        """The name, if it is one."""
        if text not in self.names:
            raise argparse.ArgumentTypeError(str(UnknownName(self.kind, text, self.names)))
        return text


def settings_of(args: Any) -> dict[str, str]:
    """The settings given by ``--set``; the same one twice is a mistake."""
    settings: dict[str, str] = {}
    for key, value in args.settings:
        if key in settings:
            raise Usage("apportion assignors", f"--set {key} is given twice")
        settings[key] = value
    return settings
