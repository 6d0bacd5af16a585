"""A strategy's settings: the fields of its dataclass, read from texts as their types say, and shown if changed."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from apportion.errors import BadInput, UnknownName
from apportion.strategy.assignor import Assignor

_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?")
"""What a text must be to be a number: int() alone would take ``1_000``, blanks and Arabic digits too."""


def with_settings(strategy: type[Assignor], settings: Mapping[str, Any]) -> Assignor:
    """A strategy made of its class with these settings; texts are read as the settings' types.

    Raises
        UnknownName for a setting that it has not; BadInput for a value that is none.
    """
    name, kinds, values = strategy.name, settings_of(strategy), {}
    for given, value in settings.items():
        key = key_of(given)
        if key not in kinds:
            raise UnknownName(f"setting of {name}", given, kinds)
        values[key] = _read(f"setting {key} of {name}", value, kinds[key])
    try:
        return strategy(**values)
    except ValueError as error:
        raise BadInput(f"settings of {name}", str(error), "values in bounds") from None


def key_of(setting: str) -> str:
    """The name of a setting as it was given: Kafka's own knobs are written with dots."""
    return setting.replace(".", "_").replace("-", "_")


@cache
def settings_of(strategy: type[Assignor]) -> Mapping[str, Any]:
    """A strategy's settings: name to type."""
    if not dataclasses.is_dataclass(strategy):
        return {}
    hints = get_type_hints(strategy)
    fields = sorted(dataclasses.fields(strategy), key=lambda field: bool(field.kw_only))  # as one would call it
    return {field.name: hints[field.name] for field in fields if field.init}


def changed_settings(assignor: Assignor) -> dict[str, Any]:
    """The settings that are not at their default, as plan.json shows them; cooperation is in the name."""
    if not dataclasses.is_dataclass(assignor):
        return {}
    # Where its name is that of a class derived from its own, the defaults are that one's: it is found by its name.
    named = next((kind for kind in type(assignor).__subclasses__() if kind.name == assignor.name), type(assignor))
    fields = [field for field in dataclasses.fields(named) if field.init and field.name != "cooperative"]
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
