"""Every command, the parser of each, and the text of bare ``apportion``."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from apportion.cli.parser import Parser, format_examples
from apportion.errors import UnknownName

COMMANDS: Final = {
    "describe": "which member owns what, how far the group is behind, and why",
    "nudge": "rebalance a live group now, if an acting apportion member leads",
    "watch": "a live group: lag per member, owners, rebalances as they happen",
    "plan": "what a strategy would assign, with its proof",
    "compare": "one group under every strategy, with the best marked",
    "what-if": "members join and leave, topics grow, lag rises: each step planned",
    "size": "how many members the group needs, and what each number would move",
    "replay": "a group's real history under another strategy",
    "switch": "should a group move to the new protocol, and what happens when it does?",
    "gate": "for CI and alerts: exit code 3 if a limit is breached",
    "report": "everything about a group or a cluster as one page with pictures",
    "serve": "a server: live page, Prometheus metrics and a JSON API",
    "mcp": "the answers of these commands as tools for agents, over standard input and output or HTTP",
    "govern": "a strategy for groups of the new protocol, applied by the brokers",
    "pipeline": "__consumer_offsets to tables with Spark: capture, build, rebuild, run, status",
    "demo": "a recorded real cluster, from its records to plans of every strategy",
    "assignors": "the strategies, their purpose and settings",
    "completion": "a script that completes commands and options in your shell",
}
"""Every command with what it is for; each is a module of this folder, imported when it is called."""

_TOP_EXAMPLES: Final = (
    ("Why is my group behind? Pipe in what Kafka's own tool prints:",
     "kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group ads | apportion describe"),
    ("Which strategy is best for it?", "apportion compare group.json"),
    ("What would this one assign?", "apportion plan group.json --assignor sticky"),
)  # fmt: skip
_EXIT_CODES: Final = (
    "Exit codes: 0 success; 1 an item of a batch failed; 2 wrong usage or bad input; 3 a limit was breached."
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
    """The text of bare ``apportion``."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {purpose}" for name, purpose in COMMANDS.items()]
    return (
        "usage: apportion COMMAND [...]\n\n"
        "Which member of a Kafka consumer group owns which partition: planned, proved, measured.\n\n"
        "commands:\n" + "\n".join(lines) + "\n\n"
        "  apportion COMMAND --help shows a command's options and examples; apportion --version the version.\n\n"
        + format_examples(_TOP_EXAMPLES) + f"\n\n{_EXIT_CODES}\n"
    )  # fmt: skip
