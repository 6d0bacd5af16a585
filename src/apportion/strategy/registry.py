"""Every strategy that is known by name: those of the package ``assignors``, and those of other packages.

A strategy is found by being there: a module of that folder, or an entry point ``apportion.assignors`` of any installed
package. Nothing else lists strategies.
"""

from __future__ import annotations

import pkgutil
import types
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from apportion.defaults import PROTOCOLS
from apportion.errors import UnknownName
from apportion.strategy.assignor import Assignor
from apportion.strategy.settings import with_settings
from apportion.strategy.traits import Traits, traits_of

PACKAGE: Final = "apportion.assignors"
"""The folder that is walked: a higher layer, which is looked into as any other package is."""
ENTRY_POINTS: Final = "apportion.assignors"


@cache
def known(*, unlisted: bool = True) -> Mapping[str, type[Assignor]]:
    """Every strategy by name: those of the package, then those of entry points, each by name.

    unlisted
        Whether to give those, too, that nobody means who names none: what ``cooperative-failover`` hands over in two
        rounds ``failover`` hands over at once.
    """
    if not unlisted:
        return types.MappingProxyType({name: kind for name, kind in known().items() if not traits_of(kind).unlisted})
    by_name: dict[str, type[Assignor]] = {}
    package = import_module(PACKAGE)
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        for strategy in _strategies(import_module(f"{PACKAGE}.{module}")):
            by_name[strategy.name] = strategy
    ours = dict(sorted(by_name.items()))
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        theirs = _load(entry)
        if theirs is not None:
            ours.setdefault(entry.name, theirs)
    return types.MappingProxyType(ours)


@cache
def tabled() -> tuple[str, ...]:
    """Recipes of the strategies in the tables of what-ifs: all that are listed, and others that name one."""
    traits = {name: traits_of(kind) for name, kind in known().items()}
    return tuple(mine.tabled or name for name, mine in traits.items() if mine.tabled or not mine.unlisted)


@cache
def brokers() -> tuple[str, ...]:
    """Strategies by which a broker shares partitions, the one first that counts if none is named."""
    traits = {name: traits_of(strategy) for name, strategy in known().items()}
    names = [name for name, mine in traits.items() if mine.server_side and not mine.stateful]
    return tuple(sorted(names, key=lambda name: name != PROTOCOLS["consumer"]))


def advised_by(read: str) -> str | None:
    """The first eager strategy that has that name and that groups may be given; None: there is none.

    >>> advised_by("lag")
    'lag-aware'
    """
    traits = ((name, traits_of(strategy)) for name, strategy in known().items())
    return next((name for name, mine in traits if read in mine.reads and mine.advised and not mine.cooperative), None)


def traits_of_protocol(name: str | None) -> Traits | None:
    """The traits of the members' strategy, by its name or another program's for it; None: the name is unknown.

    >>> traits_of_protocol("cooperative-failover").kept_whole, traits_of_protocol("stream").stateful
    ('topics', True)
    """
    return _by_protocol().get(name) if name else None  # without a name no strategy has to be loaded


@cache
def _by_protocol() -> Mapping[str, Traits]:
    traits = {name: traits_of(strategy) for name, strategy in known().items()}
    others = {
        alias: replace(mine, promise=mine.promise + more)
        for mine in traits.values()
        for alias, more in mine.also_known_as.items()
    }
    return {**others, **traits}


def of_recipe(recipe: str) -> Assignor:
    """The strategy that a row names: its name, and settings that are not their defaults.

    >>> of_recipe("lag-aware scope=topic").scope
    'topic'
    """
    name, *words = recipe.split()
    return find(name, {key: value for key, _, value in (word.partition("=") for word in words)})


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
    LagAware(cooperative=False, scope='group', max_skew=2, tolerance=0.0, by='lag')
    """
    if name not in known():
        raise UnknownName("assignor", name, known())
    return with_settings(known()[name], settings or {})
