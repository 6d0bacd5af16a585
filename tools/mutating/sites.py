"""The mutants of one file: mutmut says what may be changed; here each becomes a line and a whole changed file."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, WhitespaceInclusivePositionProvider
from mutmut.mutation.file_mutation import Mutation, create_mutations


@dataclass(frozen=True)
class Mutant:
    """One change of one function; ``text`` is the whole file with it, ``line`` to ``last`` the old one's statement."""

    file: str
    function: str
    first_line: int
    line: int
    last: int
    was: str
    becomes: str
    text: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a reason is looked up by; it stays when lines move."""
        return self.file, self.function, self.was, self.becomes


@dataclass(frozen=True)
class Site:
    """A place that may be changed, not yet written out."""

    file: str
    function: str
    first_line: int
    nth: int
    module: cst.Module
    at: CodeRange
    mutation: Mutation

    def turn(self, seed: int) -> str:
        """By this a sample is drawn: at random, the same for one seed, and kept while other functions change."""
        return hashlib.sha256(f"{seed} {self.file} {self.function} {self.nth}".encode()).hexdigest()


def sites(file: str, text: str) -> Iterator[Site]:
    """Every place of the file's functions that mutmut would change, but for what is read by people alone.

    Left out are string constants with a blank in them (sentences), and mutmut's own exceptions: decorated functions,
    annotations, calls of len and isinstance.
    """
    module, mutations, _, _ = create_mutations(file, text)
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(WhitespaceInclusivePositionProvider)
    named = dict(zip(_functions(module), _places(ast.parse(text)), strict=True))
    count: dict[cst.FunctionDef, int] = {}
    for mutation in mutations:
        function = mutation.contained_by_top_level_function
        if not isinstance(function, cst.FunctionDef) or _is_sentence(mutation.original_node):
            continue
        count[function] = count.get(function, 0) + 1
        name, first_line = named[function]
        yield Site(file, name, first_line, count[function], module, positions[mutation.original_node], mutation)


def written(site: Site, text: str) -> Mutant | None:
    """The mutant of a site; None where no function's code is changed (a default, a type in ``cast``)."""
    code = _changed(site, text)
    old, new = ([line.strip() for line in each.splitlines()] for each in (text, code))
    start = next((n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(old))
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    was, becomes = (" ".join(lines[start : len(lines) - end]) for lines in (old, new))
    line, last, in_head = _statement(text, start + 1)
    if in_head or _without_types(was) == _without_types(becomes):
        return None
    return Mutant(site.file, site.function, site.first_line, line, last, was, becomes, code)


def _changed(site: Site, text: str) -> str:
    """The whole file with the change; expressions are set into the text, since writing a whole tree anew is slow."""
    old, new = site.mutation.original_node, site.mutation.mutated_node
    if isinstance(old, cst.BaseCompoundStatement):
        return cst.ensure_type(site.module.deep_replace(old, new), cst.Module).code
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: site.at.start.line - 1])) + site.at.start.column
    stop = sum(map(len, lines[: site.at.end.line - 1])) + site.at.end.column
    return text[:start] + site.module.code_for_node(new) + text[stop:]


def code_of(text: str, path: str, function: str, first_line: int) -> CodeType | None:
    """The compiled code of a top-level function or a method, by its name and its first line (decorators count)."""
    todo = [compile(text, path, "exec", dont_inherit=True)]
    while todo:
        code = todo.pop()
        if code.co_qualname == function and code.co_firstlineno == first_line:
            return code
        todo.extend(each for each in code.co_consts if isinstance(each, CodeType))
    return None


def sources(root: Path, files: tuple[str, ...]) -> list[str]:
    """Files below ``root``; a name that ends in a slash is a folder and what is in it."""
    found: list[str] = []
    for name in files:
        path = root / name
        found += [str(each.relative_to(root)) for each in sorted(path.rglob("*.py"))] if path.is_dir() else [name]
    return found


def _functions(module: cst.Module) -> Iterator[cst.FunctionDef]:
    for statement in module.body:
        if isinstance(statement, cst.FunctionDef):
            yield statement
        elif isinstance(statement, cst.ClassDef):
            yield from (each for each in statement.body.body if isinstance(each, cst.FunctionDef))


def _places(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Qualified name and first line of the same functions in the same order."""
    for statement in module.body:
        for prefix, each in (
            [("", statement)]
            if not isinstance(statement, ast.ClassDef)
            else [(f"{statement.name}.", member) for member in statement.body]
        ):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + each.name, min([each.lineno, *(d.lineno for d in each.decorator_list)])


def _is_sentence(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleString) and " " in node.value


def _without_types(line: str) -> str:
    return re.sub(r"\bcast\((None|\"[^\"]*\"|[\w\[\]., |]+?), ", "cast(T, ", line)


@functools.lru_cache(maxsize=4)
def _statements(text: str) -> list[tuple[int, int, bool]]:
    """First and last line of every statement, or of its head, and whether it is the head of a function."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            last = (node.end_lineno or node.lineno) if not body else max(_first(body[0]) - 1, node.lineno)
            found.append((node.lineno, last, isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)))
    return found


def _statement(text: str, line: int) -> tuple[int, int, bool]:
    """The smallest of them that the line is in."""
    around = [each for each in _statements(text) if each[0] <= line <= each[1]]
    return min(around, key=lambda each: each[1] - each[0], default=(line, line, False))


def _first(node: ast.AST) -> int:
    return int(node.pattern.lineno) if isinstance(node, ast.match_case) else int(getattr(node, "lineno", 1))
