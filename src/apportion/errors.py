"""Everything that apportion raises on purpose, as one tree.

    ApportionError
    ├── BadInput          a text or value that a user gave: where it stands, what stood there, what was needed
    │   └── UnknownName   a name that is none of the known ones, with the nearest of those
    ├── UnreadableBytes   bytes of another program that follow no known layout; never our bug
    ├── BrokenAssignor    a strategy that gave an answer which no group can use
    ├── MissingExtra      an optional library that this call needs, with the command that brings it
    └── Unavailable       a broker, a file or a tool that could not be reached, with what to try

The command line ends with 2 on each of them and prints the sentence alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final, TypeVar

Error = TypeVar("Error", bound=Exception)


def _public(error: type[Error]) -> type[Error]:
    """A class that its users import from ``apportion``, and that a traceback calls so."""
    error.__module__ = "apportion"
    return error


@_public
class ApportionError(Exception):
    """The fault that apportion found, in one sentence for a person."""

    def __reduce__(self) -> tuple[Any, ...]:
        """By its sentence: a pool of processes hands an error on so, with any arguments of its constructor."""
        return _as_raised, (type(self), self.args, vars(self))


def _as_raised(kind: type[ApportionError], args: tuple[Any, ...], fields: dict[str, Any]) -> ApportionError:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


@_public
class BadInput(ApportionError):
    """A value that a user gave cannot be used.

    where
        The place, as a path from the top: ``members.consumer-1.topics[2]``.
    found, needed
        What stood there, and what would have been right.
    """

    def __init__(self, where: str, found: str, needed: str) -> None:
        super().__init__(f"{where}: found {found}; needed {needed}.")
        self.where, self.found, self.needed = where, found, needed

    def to_dict(self) -> dict[str, str]:
        """The error as it is on a line of a batch."""
        return {"where": self.where, "found": self.found, "needed": self.needed}


@contextmanager
def within(where: str) -> Iterator[None]:
    """Bad input in the block is reported with the file, or other source, that it is in."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{where}: {error.where}", error.found, error.needed) from None


MATCHED_MAX: Final = 2_000
"""Names that a near one is looked for among: a cluster may have a hundred thousand groups."""
MOST_NAMES: Final = 20
"""That an error lists: a group may have thousands of members."""


@_public
class UnknownName(BadInput):
    """A name that is none of the known ones.

    >>> print(UnknownName("assignor", "round-robin", ["range", "roundrobin"]))
    no assignor is named 'round-robin'; there are range, roundrobin. Maybe you meant 'roundrobin'.
    """

    def __init__(self, kind: str, found: str, known: Iterable[str]) -> None:
        names = list(known)
        near = get_close_matches(found, names[:MATCHED_MAX], n=1, cutoff=0.6)
        hint = f" Maybe you meant {near[0]!r}." if near else ""
        listed = ", ".join(names[:MOST_NAMES]) + (
            f" and {len(names) - MOST_NAMES:,} more" if names[MOST_NAMES:] else ""
        )
        super().__init__(kind, repr(found), f"one of {listed}" if listed else "one that is there, and there are none")
        self.args = (f"no {kind} is named {found!r}; there are {listed or 'none'}.{hint}",)


class UnreadableBytes(ApportionError):
    """Foreign bytes follow no layout that we know.

    offset
        Bytes read well before the trouble.
    """

    def __init__(self, reason: str, offset: int = 0) -> None:
        super().__init__(f"{reason} at byte {offset}")
        self.reason, self.offset = reason, offset


@_public
class BrokenAssignor(ApportionError):
    """A strategy's answer gives a partition to no real member, or to one who does not want it."""


@_public
class MissingExtra(ApportionError):
    """An optional library is not installed."""

    def __init__(self, action: str, extra: str) -> None:
        super().__init__(f"{action} needs a library that is not installed: {install_command(extra)}")
        self.extra = extra


def install_command(extra: str) -> str:
    """The command that installs an extra's libraries by name: right after an install from a clone, a wheel or an index.

    >>> install_command("flow")
    "pip install 'ortools>=9.12'"
    """
    from importlib import metadata

    marker = re.compile(rf"""\s*;\s*extra\s*==\s*['"]{re.escape(extra)}['"]""")
    try:
        listed = metadata.requires("apportion") or []
    except metadata.PackageNotFoundError:  # a source tree on the path
        listed = []
    needed = [marker.split(requirement)[0] for requirement in listed if marker.search(requirement)]
    return "pip install " + " ".join(f"'{requirement}'" for requirement in needed or [f"apportion[{extra}]"])


@_public
class Unavailable(ApportionError):
    """A broker, file or tool could not be reached or read."""
