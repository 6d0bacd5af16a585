"""A member's facts about itself: numbers, or functions that are asked at each join."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from apportion.errors import BadInput
from apportion.model.facts import MEMBER_FIELDS, Fact

log = logging.getLogger("apportion.clients")

FactSource = int | Callable[[], int]
"""A number, or a function without arguments. It is called on the client's own thread: be quick."""


class MemberFacts:
    """The facts that one member sends, of those that its strategy asks for.

    asked
        The strategy's.
    given
        Name to a number, or to a function that is asked at each join.
    Raises
        BadInput for a fact that the strategy does not ask for, unless it is one of ``MEMBER_FIELDS``, which any member
        may bring; and for a number out of bounds.
    """

    def __init__(self, strategy: str, declared: Mapping[str, Fact], given: Mapping[str, FactSource]) -> None:
        self.declared = declared
        for name, source in given.items():
            fact = declared.get(name) or MEMBER_FIELDS.get(name)
            if fact is None:
                needed = f"one of {', '.join(declared)}" if declared else "none"
                raise BadInput(f"facts.{name}", f"a fact that {strategy!r} does not ask for", needed)
            if not callable(source):
                fact.check(name if name in MEMBER_FIELDS else f"facts.{name}", source)
                if name not in declared and source != fact.default:
                    log.warning("%s=%s counts for nothing under %r, which does not ask for it", name, source, strategy)
        self._sources = {name: source for name, source in given.items() if name in declared}

    def now(self) -> dict[str, int]:
        """The numbers to send; one that cannot be had, or be, is named in the log, and the default is sent."""
        return {name: self._value(name, source) for name, source in self._sources.items()}

    def _value(self, name: str, source: FactSource) -> int:
        if not callable(source):
            return source
        default = self.declared[name].default
        try:
            value: Any = source()
            self.declared[name].check(f"facts.{name}", value)
        except BadInput as error:
            log.error("%s The default is sent.", error)  # noqa: TRY400 - the sentence says all
            return default
        except Exception:  # it is its user's code: no rebalance may fail for it
            log.exception("the function of the fact %r failed; the default is sent", name)
            return default
        return int(value)
