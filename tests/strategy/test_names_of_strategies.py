"""No module outside ``assignors`` knows a strategy by its name: whatever is said about a strategy is in its file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import apportion
from apportion.assignors import known
from apportion.strategy.traits import traits_of

SRC = Path(apportion.__file__).parent
NAMES = {*known(), *(alias for kind in known().values() for alias in traits_of(kind).also_known_as)}
EXCEPTIONS = {
    "defaults.py": "which strategy counts where nobody names one, here and in Kafka",
    "cli/compare.py": "examples that people type",
    "cli/mcp.py": "examples that people type",
    "cli/pipeline.py": "examples that people type",
    "cli/plan.py": "examples that people type",
    "cli/replay.py": "help on what people type",
    "cli/what_if.py": "help on what people type",
    "history/predicted_targets.py": "the broker's own name for its assignor, in a group's records",
    "history/streams_groups.py": "the broker's own name for its assignor of tasks",
    "model/protocols.py": "the broker's own name for a type of group",
    "testing/peers.py": "the classes of Java's client that act as peers",
    "testing/simulation/broker.py": "a method that is called failover",
    "testing/simulation/governed.py": "the strategy under which simulated groups are governed",
    "testing/simulation/schedules.py": "the strategies that a simulated day draws from",
    "testing/simulation/worlds.py": "the strategies that small worlds are played under",
    "wire/task_data.py": "the name of the protocol under which task groups join",
    "wire/user_data.py": "a layout of Kafka's own, called as Kafka calls its strategy",
}
"""File to why its texts may hold names of strategies."""


def named(path: Path) -> Iterator[str]:
    """Lines of a file whose texts, docstrings apart, are a name of a strategy or hold one with a hyphen as a word."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    lone = {id(node.value) for body in bodies for node in body if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in lone:
            words = {word for word in node.value.replace("`", " ").replace(",", " ").split() if "-" in word}
            if {node.value, *words} & NAMES:
                yield f"{path.relative_to(SRC)}:{node.lineno}: {node.value[:80]!r}"


def test_no_module_outside_assignors_names_a_strategy() -> None:
    files = (path for path in SRC.rglob("*.py") if "assignors" not in path.relative_to(SRC).parts)
    found = [line for path in files if str(path.relative_to(SRC)) not in EXCEPTIONS for line in named(path)]
    assert not found, "ask a trait of the strategy instead:\n" + "\n".join(found)


def test_each_exception_is_still_one() -> None:
    assert [name for name in EXCEPTIONS if not list(named(SRC / name))] == []
