"""The calculations that failed for single groups: each is reported with its group, and the round goes on.

A round derives dozens of things from each group, and thousands of groups share it. Whatever breaks on one of them, for
any cause, is that group's alone: a line in the log when it begins, a sentence in the page and the API, a series in the
metrics, until it works again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

log = logging.getLogger("apportion.serve")
Result = TypeVar("Result")


class Faults:
    """By group and by derived value, why that broke; empty while all is well."""

    def __init__(self) -> None:
        self._why: dict[tuple[str, str], str] = {}

    def guard(self, group: str, derived: str, work: Callable[[], Result]) -> Result | None:
        """The result of the work; None if it breaks, which is then reported with the group.

        derived
            What is worked out, as it follows "its": ``advised number of members``.
        """
        try:
            result = work()
        except Exception as error:
            self._broke(group, derived, error)
            return None
        self.works(group, derived)
        return result

    def works(self, group: str, derived: str) -> None:
        """It was worked out."""
        if self._why and self._why.pop((group, derived), None) is not None:
            log.warning("group %s: its %s can be worked out again", group, derived)

    def sentence(self, group: str, derived: str) -> str | None:
        """The group's report, as it follows "because"; None if this works."""
        why = self._why.get((group, derived))
        return None if why is None else f"its {derived} cannot be worked out ({why}; see the server's log)"

    def sentences(self, group: str) -> tuple[str, ...]:
        """Whole sentences about everything that breaks on the group."""
        if not self._why:
            return ()
        mine = [derived for name, derived in list(self._why) if name == group]
        return tuple(f"I{text[1:]}." for derived in mine if (text := self.sentence(group, derived)))

    def keep(self, groups: Mapping[str, object]) -> None:
        """Forget groups that are not known any more."""
        for key in [key for key in list(self._why) if key[0] not in groups]:
            self._why.pop(key, None)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Group and its broken value."""
        return iter(sorted(self._why))

    def _broke(self, group: str, derived: str, error: Exception) -> None:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}".rstrip(": ")
        if self._why.get((group, derived)) != why:
            log.error("group %s: its %s cannot be worked out", group, derived, exc_info=error)
        self._why[group, derived] = why
