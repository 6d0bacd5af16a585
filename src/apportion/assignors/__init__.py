"""The Assignor protocol, and every strategy that is known by name.

A strategy is a frozen dataclass: its fields are its settings, its docstring's first line what it is for, and
``assign`` a function from a group to owners. It is found by being here: a module of this folder, or an entry point
``apportion.assignors`` of any installed package. Nothing else lists strategies.
"""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import types
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    Protocol,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from apportion.arrays import Ints
from apportion.errors import BadInput, UnknownName
from apportion.model.group import Group
from apportion.model.plan import Answer

ENTRY_POINTS: Final = "apportion.assignors"
_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?")
"""What a text must be to be a number: int() alone would take ``1_000``, blanks and Arabic digits too."""


@runtime_checkable
class Assignor(Protocol):
    """A strategy: a name, goals in order, and a function from a group to an owner for each partition.

    name
        As members of a group call it; the first four are Kafka's own protocol names.
    goals
        What ``proof`` may speak of, most important first.

    A strategy may also have ``cooperative: ClassVar[bool]`` (KIP-429: what changes hands is withheld for a round) and
    ``leaves: ClassVar[bool]`` (it leaves some wanted partitions to nobody on purpose), ``server_side: ClassVar[bool]``
    (the broker alone runs it), ``capacities: ClassVar[bool]`` (it gives members of more capacity more),
    ``assigned_data: ClassVar[bool]`` (its assignments carry user data), and
    ``on_foreign: ClassVar[str]`` (``stop``: members stop where the broker assigns).
    """

    name: ClassVar[str]
    goals: ClassVar[tuple[str, ...]]

    def assign(self, group: Group) -> Ints | Answer:
        """Return (P,) the member that owns each partition, -1 nobody; alone, or in an ``Answer`` with its proof."""
        ...


if not TYPE_CHECKING:

    def __getattr__(name: str) -> type[Assignor]:
        """A known strategy by its class's name: ``from apportion.assignors import LagAware``."""
        for strategy in known().values() if name[:1].isupper() else ():
            if strategy.__name__ == name:
                return strategy
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def known() -> Mapping[str, type[Assignor]]:
    """Every strategy by name: those of this folder, then those of entry points, each by name."""
    by_name: dict[str, type[Assignor]] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for strategy in _strategies(import_module(f"{__name__}.{module}")):
            by_name[strategy.name] = strategy
    ours = dict(sorted(by_name.items()))
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        theirs = _load(entry)
        if theirs is not None:
            ours.setdefault(entry.name, theirs)
    return types.MappingProxyType(ours)


def _load(entry: EntryPoint) -> type[Assignor] | None:
    """Another package's strategy; one that cannot be imported is named in a warning, and the others go on."""
    try:
        strategy: type[Assignor] = entry.load()
    except Exception as error:  # any: it is another's module that runs here
        warnings.warn(f"the strategy {entry.name!r} ({entry.value}) cannot be loaded: {error}", stacklevel=3)
        return None
    return strategy


def _strategies(module: types.ModuleType) -> list[type[Assignor]]:
    """The classes that the module itself defines and that have a name and an ``assign``."""
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    return [c for c in classes if c.__module__ == module.__name__ and hasattr(c, "assign") and "name" in vars(c)]


def find(name: str, settings: Mapping[str, Any] | None = None) -> Assignor:
    """The strategy of that name with these settings; texts are read as the settings' types.

    >>> find("lag-aware", {"max_skew": "2"})
    LagAware(scope='group', max_skew=2, tolerance=0.0, by='lag')
    """
    if name not in known():
        raise UnknownName("assignor", name, known())
    strategy = known()[name]
    kinds = settings_of(strategy)
    values = {}
    for given, value in (settings or {}).items():
        key = given.replace(".", "_").replace("-", "_")  # Kafka's own knobs are written with dots
        if key not in kinds:
            raise UnknownName(f"setting of {name}", given, kinds)
        values[key] = _read(f"setting {key} of {name}", value, kinds[key])
    try:
        return strategy(**values)
    except ValueError as error:
        raise BadInput(f"settings of {name}", str(error), "values in bounds") from None


@cache
def settings_of(strategy: type[Assignor]) -> Mapping[str, Any]:
    """A strategy's settings: name to type."""
    if not dataclasses.is_dataclass(strategy):
        return {}
    hints = get_type_hints(strategy)
    return {field.name: hints[field.name] for field in dataclasses.fields(strategy) if field.init}


def changed_settings(assignor: Assignor) -> dict[str, Any]:
    """The settings that are not at their default, as plan.json shows them."""
    if not dataclasses.is_dataclass(assignor):
        return {}
    fields = [field for field in dataclasses.fields(assignor) if field.init]
    values = {field.name: getattr(assignor, field.name) for field in fields}
    return {field.name: _plain(values[field.name]) for field in fields if values[field.name] != field.default}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _read(where: str, value: Any, kind: Any) -> Any:
    """A setting's value as its type says: a choice, a truth, a number, a list with commas, or a text."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadInput(where, repr(value), "one of " + ", ".join(map(str, get_args(kind))))
        return value
    if get_origin(kind) in (Union, types.UnionType):
        return None if value is None else _read(where, value, next(k for k in get_args(kind) if k is not type(None)))
    if get_origin(kind) is tuple:
        parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value)
        return tuple(_read(where, part, get_args(kind)[0]) for part in parts)
    if kind is bool:
        return _read_bool(where, value)
    if kind in (int, float) and not isinstance(value, bool):
        return _read_number(where, value, kind)
    if kind is str and isinstance(value, str):
        return value
    raise BadInput(where, repr(value), f"a value of type {getattr(kind, '__name__', kind)}")


def _read_number(where: str, value: Any, kind: type[int] | type[float]) -> int | float:
    """A whole number stays one: a float is no integer, as in group.json."""
    readable = _NUMBER.fullmatch(value) if isinstance(value, str) else isinstance(value, int | kind)
    try:
        if readable:
            return kind(value)
    except (ValueError, OverflowError):
        pass
    raise BadInput(where, repr(value), "an integer" if kind is int else "a number")


def _read_bool(where: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise BadInput(where, repr(value), "true or false")
