"""Public functions of the solvers, of sizing and of the face each show a use; ``test_docstrings`` runs them all."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import apportion
from apportion import sizing, solvers


def public_functions() -> dict[str, str]:
    """Each with its docstring: a module's own ones without an underscore, and those that the face names."""
    rooms = [
        (room.__name__, module.name) for room in (solvers, sizing) for module in pkgutil.iter_modules(room.__path__)
    ]
    modules = [importlib.import_module(f"{room}.{name}") for room, name in rooms]
    found = {
        f"{module.__name__}.{name}": function.__doc__ or ""
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    face = {name: getattr(apportion, name) for name in apportion.__all__}
    return found | {f"apportion.{n}": f.__doc__ or "" for n, f in face.items() if inspect.isfunction(f)}


def test_each_public_function_shows_a_use() -> None:
    functions = public_functions()
    assert len(functions) > 80
    assert [name for name, text in functions.items() if ">>> " not in text] == []
