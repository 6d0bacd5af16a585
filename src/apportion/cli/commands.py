"""Every command, the parser of each, and what bare ``apportion`` says."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from apportion.cli.parser import Parser, format_examples
from apportion.errors import UnknownName

COMMANDS: Final = {
    "describe": "who owns what, how far behind, and what is odd about it",
    "nudge": "have a live group rebalance now, where a member of ours leads and acts on lag",
    "watch": "a live group: lag per member, owners, rebalances as they happen",
    "plan": "what a strategy would assign, with its proof",
    "compare": "one group under every strategy, the best marked",
    "what-if": "members join and leave, topics grow, lag rises: each step planned",
    "size": "how many members the group needs, what each number of them moves, and why",
    "replay": "a group's real history under another strategy",
    "switch": "should a group move to the new protocol, and what happens when it does?",
    "gate": "for CI and alerts: exit 3 where a plan breaks a limit",
    "report": "everything about a group or a cluster as one page with pictures",
    "serve": "a live page, Prometheus metrics and a JSON API, left running",
    "mcp": "the answers of these commands as tools for agents, over standard input and output or HTTP",
    "govern": "our strategies for groups of the new protocol: a plan that comes through the group",
    "pipeline": "__consumer_offsets to tables with Spark: capture, build, rebuild, run, status",
    "demo": "a recorded real cluster, from its records to plans of every strategy",
    "assignors": "the strategies, what each is for, and its settings",
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


def command(name: str) -> ModuleType:
    """The module of a command."""
    if name not in COMMANDS:
        raise UnknownName("command", name, COMMANDS)
    return import_module(f"apportion.cli.{name.replace('-', '_')}")


def parser_of(name: str) -> Parser:
    """The parser of one command, made by its module."""
    module = command(name)
    purpose = COMMANDS[name][0].upper() + COMMANDS[name][1:]
    sentence = purpose if purpose.endswith("?") else f"{purpose}."
    description = f"{sentence}\n\n{getattr(module, 'DETAILS', '')}".rstrip()
    parser = Parser(f"apportion {name}", description, module.EXAMPLES)
    module.add_arguments(parser)
    return parser


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
