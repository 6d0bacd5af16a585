"""How groups are governed, from a file: which strategy for which group, and which facts its members have.

[[group]]
name = "ads"                      # or pattern = "ads-.*"
assignor = "failover"
settings = {preempt = false}
convert = true                    # a classic group too; default false

[[group.facts]]
fact = "priority"
instance_id = "pod-0"             # or client_id; an expression that must match the whole id
value = 10

[[group.facts]]
fact = "capacity"
client_id = "worker-c(\\d+)-.*"   # without a value it is the number that the first pair of brackets finds
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from apportion.acting import Acting
from apportion.defaults import DEFAULT_ASSIGNOR
from apportion.errors import BadInput
from apportion.model.facts import MEMBER_FIELDS, UNSET, Fact
from apportion.model.group import Group
from apportion.planning import strategy_of
from apportion.strategy.assignor import Assignor

BY_LAG_ALONE: Final = Acting(hold_s=30.0, rest_s=300.0)
"""A governor knows lags and no speeds, so that it cannot tell who keeps up: it waits longer."""
ANY: Final = Fact(UNSET, UNSET + 1, 2**63 - 1)
"""The bounds of a fact that any strategy may ask for."""
IDS: Final = ("instance_id", "client_id")


@dataclass(frozen=True)
class FactRule:
    """A fact of the members whose id matches.

    by
        ``instance_id`` or ``client_id``.
    value
        The number, or None: what the first group of the expression finds.
    """

    fact: str
    by: str
    pattern: re.Pattern[str]
    value: int | None = None

    def of(self, group: Group, m: int) -> int | None:
        """The fact of a member; None if the rule is not about it."""
        ids = group.client_ids if self.by == "client_id" else group.instance_ids
        whole = (ids[m] if ids else "") or ""
        match = self.pattern.fullmatch(whole)
        if match is None or self.value is not None:
            return None if match is None else self.value
        number = match[1] or ""
        if not (number.isascii() and number.removeprefix("-").isdecimal() and len(number) < 20):
            matched = f"{number!r} in {self.by} {whole!r}"
            raise BadInput(f"fact {self.fact}", matched, "brackets that find a whole number, or a value")
        return int(number)

    def check(self, group: Group, m: int, value: int) -> int:
        """The value, if the fact may have it."""
        own = MEMBER_FIELDS.get(self.fact)
        where = f"members.{group.members[m]}.{self.fact if own else f'facts.{self.fact}'}"
        (own or ANY).check(where, value)
        return value


@dataclass(frozen=True)
class GroupRule:
    """How the groups of one entry are governed.

    acting
        When partitions of a strategy by lag move though nobody came or went.
    convert
        Whether a classic group is converted, by the carrier's joining; without it one is left alone.
    """

    pattern: re.Pattern[str]
    assignor: Assignor
    facts: tuple[FactRule, ...] = ()
    acting: Acting = BY_LAG_ALONE
    convert: bool = False

    def with_facts(self, group: Group) -> Group:
        """The group with its members' facts; the first rule that is about a member counts."""
        facts = dict(group.facts)
        told = set[tuple[str, int]]()
        for rule in self.facts:
            values = facts.get(rule.fact, np.full(group.M, UNSET)).copy()
            for m in range(group.M):
                value = None if (rule.fact, m) in told else rule.of(group, m)
                if value is not None:
                    values[m] = rule.check(group, m, value)
                    told.add((rule.fact, m))
            facts[rule.fact] = values
        return replace(group, facts=facts)


def read_rules(path: str) -> tuple[GroupRule, ...]:
    """The entries of a file, the first that matches a group's name counts.

    Raises
        BadInput: the file cannot be read, or an entry is wrong; with its place.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(path, error.strerror or str(error), "a file with [[group]] entries") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(path, str(error), "TOML with [[group]] entries") from None
    entries = content.get("group")
    if not isinstance(entries, list) or set(content) != {"group"}:
        raise BadInput(path, ", ".join(content) or "nothing", "[[group]] entries alone")
    return tuple(_rule(f"{path}: group {number}", entry) for number, entry in enumerate(entries, 1))


def _rule(where: str, entry: Any) -> GroupRule:
    known = {"name", "pattern", "assignor", "settings", "facts", "acting", "convert"}
    entry = _table(where, entry)
    if entry.keys() - known or ("name" in entry) == ("pattern" in entry):
        raise BadInput(where, ", ".join(entry), "name or pattern, assignor, and settings and facts where wanted")
    if not isinstance(entry.get("name", ""), str):
        raise BadInput(f"{where}.name", repr(entry["name"]), "a group's name")
    pattern = (
        _pattern(f"{where}.pattern", entry["pattern"]) if "pattern" in entry else re.compile(re.escape(entry["name"]))
    )
    settings = _table(f"{where}.settings", entry.get("settings", {}))
    assignor = strategy_of(entry.get("assignor", DEFAULT_ASSIGNOR), settings)
    facts = entry.get("facts", [])
    if not isinstance(facts, list):
        raise BadInput(f"{where}.facts", str(facts), "[[group.facts]] entries")
    acting, convert = Acting.of_text(str(entry.get("acting", "")), BY_LAG_ALONE), entry.get("convert", False)
    if type(convert) is not bool:
        raise BadInput(f"{where}.convert", repr(convert), "true or false")
    read = tuple(_fact(f"{where}.facts[{n}]", fact) for n, fact in enumerate(facts))
    return GroupRule(pattern, assignor, read, acting, convert)


def _fact(where: str, entry: Any) -> FactRule:
    entry = _table(where, entry)
    by = [name for name in IDS if name in entry]
    if len(by) != 1 or entry.keys() - {"fact", "value", *IDS} or "fact" not in entry:
        raise BadInput(where, ", ".join(entry), "fact, client_id or instance_id, and value")
    pattern, value = _pattern(f"{where}.{by[0]}", entry[by[0]]), entry.get("value")
    if value is not None and type(value) is not int:
        raise BadInput(f"{where}.value", repr(value), "a whole number")
    if value is None and not pattern.groups:
        raise BadInput(f"{where}.{by[0]}", pattern.pattern, "a value, or brackets that find the number")
    return FactRule(str(entry["fact"]), by[0], pattern, value)


def _table(where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadInput(where, repr(given), "a table")
    return given


def _pattern(where: str, text: Any) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, TypeError) as error:
        raise BadInput(where, f"{text!r} ({error})", "a regular expression") from None
