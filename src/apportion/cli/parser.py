"""Which command is meant, and its arguments: argparse with hints for typing errors and examples in every help."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NoReturn

from apportion import __version__
from apportion.errors import ApportionError, UnknownName

COMMANDS: Final = {
    "describe": "who owns what, how far behind, and what is odd about it",
    "watch": "a live group: lag per member, owners, rebalances as they happen",
    "plan": "what a strategy would assign, with its proof",
    "compare": "one group under every strategy, the best marked",
    "what-if": "members come and go, topics grow, lag strikes: each step planned",
    "size": "how many members the group needs, what each number of them moves, and why",
    "replay": "a group's real history under another strategy",
    "switch": "should a group move to the new protocol, and what happens when it does?",
    "gate": "for CI and alerts: exit 3 where a plan breaks a limit",
    "report": "everything about a group or a cluster as one page with pictures",
    "serve": "a live page, Prometheus metrics and a JSON API, left running",
    "pipeline": "__consumer_offsets to tables with Spark: capture, build, rebuild, run, status",
    "demo": "a recorded real cluster, from its records to judged plans",
    "assignors": "the strategies, what each is for and its settings",
    "completion": "a script that completes commands and options in your shell",
}
"""Every command with what it is for; each is a module of this folder, imported when it is called."""

_TOP_EXAMPLES: Final = (
    ("What is wrong with my group? Paste what Kafka's own tool says:",
     "kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group ads | apportion describe"),
    ("Which strategy would suit it?", "apportion compare group.json"),
    ("What would this one do?", "apportion plan group.json --assignor sticky"),
)  # fmt: skip
_EXIT_CODES: Final = (
    "Exit codes: 0 well; 1 some item of a batch failed; 2 wrong usage or bad input; 3 a limit of yours was breached."
)


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
        self.add_argument("-h", "--help", action="help", help="show this help and exit")

    def error(self, message: str) -> NoReturn:
        """Raise ``Usage`` with argparse's sentence."""
        raise Usage(self.prog, message.removeprefix("argument "))

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The arguments' values; an unknown option is named with the nearest one that exists."""
        for word in arguments:
            if word == "--":
                break
            if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions:
                names = [name for name in self._option_string_actions if name.startswith("--")]
                raise UnknownName("option", word.partition("=")[0], names)
        namespace, rest = self.parse_known_args(arguments)
        if rest:
            raise Usage(self.prog, f"unexpected argument {rest[0]!r}")
        return namespace


def format_examples(examples: Sequence[tuple[str, str]]) -> str:
    """Examples as a help text shows them: what for, then the line to type."""
    lines = [f"  # {why}\n  {line}" for why, line in examples]
    return "examples:\n" + "\n".join(lines)


def command(name: str) -> ModuleType:
    """The module of a command."""
    if name not in COMMANDS:
        raise UnknownName("command", name, COMMANDS)
    return import_module(f"apportion.cli.{name.replace('-', '_')}")


def parser_of(name: str) -> Parser:
    """The parser of one command, made by its module."""
    module = command(name)
    description = f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.\n\n{getattr(module, 'DETAILS', '')}".rstrip()
    parser = Parser(f"apportion {name}", description, module.EXAMPLES)
    module.add_arguments(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Run the command that the arguments name; bare ``apportion`` shows the help."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        if len(arguments) > 1 and not arguments[1].startswith("-"):
            return run([arguments[1], "--help"])
        sys.stdout.write(top_help())
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"apportion {__version__}\n")
        return 0
    if arguments[0].startswith("-"):
        raise UnknownName("option", arguments[0], ["--help", "--version", *COMMANDS])
    name = arguments[0]
    if name == "__complete":
        from apportion.cli.completion import complete

        return complete(arguments[1:])
    action: Callable[[argparse.Namespace], int] = command(name).run
    return action(parser_of(name).read(arguments[1:]))


def top_help() -> str:
    """What bare ``apportion`` says."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {purpose}" for name, purpose in COMMANDS.items()]
    return (
        "usage: apportion COMMAND [...]\n\n"
        "Which member of a Kafka consumer group owns which partition: planned, proved, measured.\n\n"
        "commands:\n" + "\n".join(lines) + "\n\n"
        "  apportion COMMAND --help shows a command's options and examples; apportion --version the version.\n\n"
        + format_examples(_TOP_EXAMPLES) + f"\n\n{_EXIT_CODES}\n"
    )  # fmt: skip


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
    raise argparse.ArgumentTypeError(f"found {text[:60]!r}; needed a number above 0, as in 500 or 2.5")


def setting(text: str) -> tuple[str, str]:
    """An argument's type: ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"found {text[:60]!r}; needed KEY=VALUE, as in max_skew=2")
    return key, value


def add_assignor(parser: Parser, default: str | None = "cooperative-sticky") -> None:
    """``--assignor`` and ``--set``; names are checked by the strategies' own register, which is slow to import."""
    says = f" (default: {default})" if default else ""
    parser.add_argument("-A", "--assignor", metavar="NAME", default=default, help=f"the strategy{says}; see assignors")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", dest="settings", action="append", type=setting, default=[],
        help="a setting of the strategy; may be given more than once",
    )  # fmt: skip


FORMS: Final = ("table", "wide", "json", "ndjson", "csv")
PICTURES: Final = (*FORMS, "html")


def add_output(parser: Parser, formats: Sequence[str] = FORMS) -> None:
    """``-o``: the forms of the result on standard output."""
    parser.add_argument(
        "-o", "--output", metavar="FORMAT", type=one_of(formats), default=formats[0],
        help=f"{', '.join(formats)} (default: {formats[0]})",
    )  # fmt: skip


def one_of(names: Sequence[str], kind: str = "output format") -> Callable[[str], str]:
    """An argument's type: one of some names, with a hint at the nearest."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(str(UnknownName(kind, text, names)))
        return text

    return read


def settings_of(args: Any) -> dict[str, str]:
    """The settings given by ``--set``; the same one twice is a mistake."""
    settings: dict[str, str] = {}
    for key, value in args.settings:
        if key in settings:
            raise Usage("apportion assignors", f"--set {key} is given twice")
        settings[key] = value
    return settings
