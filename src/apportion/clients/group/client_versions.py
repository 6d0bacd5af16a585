"""Which versions of a client our subclasses were tried with, and their changes, from their docstrings.

The methods are private, so an adapter looks at the client's version and at every method before it changes any.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, TypeVar

from apportion.errors import ApportionError, MissingExtra, install_command

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class SupportedClient:
    """A client with classes that we derive from.

    tried
        Versions that all of it was tried with; ``lowest`` and ``below`` bound what the extra takes.
    """

    distribution: str
    extra: str
    lowest: str
    below: str
    tried: tuple[str, ...]


KAFKA_PYTHON: Final = SupportedClient("kafka-python", "kafka-python", "3.0.12", "3.1", ("3.0.12",))
AIOKAFKA: Final = SupportedClient("aiokafka", "aiokafka", "0.14", "0.15", ("0.14.0",))


class WrongVersion(MissingExtra):
    """A client is installed in a version that an adapter does not know."""

    def __init__(self, client: SupportedClient, version: str) -> None:
        needed = f"{client.lowest} to {_last_of(client)} needed"
        ApportionError.__init__(self, f"{client.distribution} {version}, {needed}: {install_command(client.extra)}")
        self.extra = client.extra


def overrides(method: F) -> F:
    """Mark a method that the client's class must have; its docstring says which change it makes, and why."""
    method.__overrides__ = True  # type: ignore[attr-defined]  # as ``typing.override``, which Python 3.12 brings
    return method


def changes(ours: type) -> dict[str, str]:
    """Method to its change, in the order of the class: the rows of the table in ``docs/client-changes.md``."""
    marked = {name: method for name, method in vars(ours).items() if hasattr(method, "__overrides__")}
    return {name: " ".join(inspect.cleandoc(method.__doc__).split()) for name, method in marked.items()}


def require_known(client: SupportedClient, *classes: type) -> None:
    """Look, before anything is changed, whether this is a version whose methods are known.

    Raises
        WrongVersion with what was found and what is needed.
    """
    version = metadata.version(client.distribution)
    if not _numbers(client.lowest) <= _numbers(version) < _numbers(client.below):
        raise WrongVersion(client, f"{version} found")
    for ours in classes:
        base = ours.__mro__[1]
        lost = sorted(name for name in changes(ours) if not hasattr(base, name))
        if lost:
            raise WrongVersion(client, f"{version} without {base.__name__}.{lost[0]} found")


def unusable(client: SupportedClient, module: str) -> MissingExtra:
    """Why an adapter's imports failed: the client is there in another version, or not at all."""
    try:
        version = metadata.version(client.distribution)
    except metadata.PackageNotFoundError:
        return MissingExtra(module, client.extra)
    return WrongVersion(client, f"{version} found")


def _last_of(client: SupportedClient) -> str:
    major, minor = client.below.split(".")
    return f"{major}.{int(minor) - 1}.x"


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at its head: ``3.1.0.dev2`` is before ``3.1``'s successor, and counts as 3.1.0.

    >>> _numbers("3.0.12"), _numbers("3.1.0.dev2")
    ((3, 0, 12), (3, 1, 0))
    """
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
