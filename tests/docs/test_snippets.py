"""Every command and every piece of Python in the README and the docs is run, and what it prints is compared.

A comment ``<!-- file: NAME -->`` stands before the content of a file; ``<!-- not run: WHY -->`` before a block that
needs what is not here, of which only the imports are run if it is Python. In expected output ``...`` alone on a line
stands for any lines.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import apportion
from apportion.cli.commands import parser_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PIECE = re.compile(
    r"^<!-- file: (?P<file>\S+) -->\n```[a-z]*\n(?P<content>.*?)^```$"
    r"|^<!-- not run: (?P<why>[^\n]+?) -->$"
    r"|^```(?P<kind>[a-z]*)[^\n]*\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass
class Block:
    kind: str
    body: str
    line: int


def pieces(page: Path, folder: Path) -> Iterator[Block]:
    """The page's runnable blocks, each after the files that it needs were written."""
    text = page.read_text(encoding="utf-8")
    skip = False
    for found in PIECE.finditer(text):
        if found["file"]:
            (folder / found["file"]).write_text(found["content"], encoding="utf-8")
        elif found["why"]:
            skip = True
        else:
            body = found["body"] if not skip else imports(found["body"]) if found["kind"] == "python" else ""
            yield Block(found["kind"], body, text.count("\n", 0, found.start()) + 1)
            skip = False


def imports(body: str) -> str:
    """The import statements of Python that is not run."""
    wanted: list[ast.stmt] = [node for node in ast.parse(body).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return ast.unparse(ast.Module(wanted, []))


@pytest.mark.slow
@pytest.mark.usefixtures("prometheus")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_does_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    known = vars(module)
    for block in pieces(page, tmp_path):
        where = f"{page.name}:{block.line}"
        if block.kind == "console":
            for command, expected in commands(block.body):
                assert matches(run(command, tmp_path), expected), f"{where}: {command}\n{run(command, tmp_path)}"
        elif block.kind == "python" and ">>>" in block.body:
            test = doctest.DocTestParser().get_doctest(block.body, known, where, str(page), block.line)
            assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False).failed == 0, where
            known.update(test.globs)
        elif block.kind == "python":
            with contextlib.redirect_stdout(sys.stderr):
                exec(compile(block.body, where, "exec"), known)  # noqa: S102 - the page is ours


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Each ``$ command``, lines that end in a backslash joined, with the output below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", "").partition("\n")
        yield command, output


def run(command: str, folder: Path) -> str:
    """What a person would see: both streams, in a terminal 200 wide."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    surroundings = {**os.environ, "PATH": path, "COLUMNS": "200", "NO_COLOR": "1", "APPORTION_CONFIG": os.devnull}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
        check=False,
    )
    return done.stdout


def matches(found: str, expected: str) -> bool:
    """Equal but for white space at the end of lines and of the whole; ``...`` alone on a line is any lines.

    Rows of strategies that the page does not show are passed over: a new strategy is no edit of any page.
    """
    named = {first_word(line) for line in expected.splitlines()}
    others = apportion.known().keys() - named
    found = "".join(line for line in found.splitlines(keepends=True) if first_word(line) not in others)
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + r"\n"
        for line in expected.rstrip().splitlines()
    )
    text = "".join(line.rstrip() + "\n" for line in found.rstrip().splitlines())
    return re.fullmatch(pattern, text) is not None


def first_word(line: str) -> str:
    """What a row of a table, or of CSV, is about."""
    return re.split(r"[ ,]", line, maxsplit=1)[0]


def indented() -> Iterator[tuple[str, str]]:
    """Each ``apportion`` command that stands indented in the text, or in a block that is not run, and where."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [*text.splitlines()]
        for block in re.findall(r"^<!-- not run: [^\n]+? -->\n+```[a-z]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            lines += [f"    {line.removeprefix('$ ')}" for line in block.replace("\\\n", "").splitlines()]
        for line in lines:
            if re.match(r" {4,}(\$ )?apportion [a-z]", line) and "|" not in line and "..." not in line:
                # What follows a hash or a wide gap is said to the reader.
                yield page.name, re.split(r"\s#|\s{3,}", line.strip().removeprefix("$ "))[0]


@pytest.mark.parametrize(("page", "line"), [*indented()], ids=lambda text: text)
def test_every_indented_command_is_one_that_the_command_line_understands(page: str, line: str) -> None:
    """They ask a cluster or a person's own files, so they are not run here; a wrong option would be found."""
    name, *words = shlex.split(line)[1:]
    assert parser_of(name).read(words), page


def test_no_file_that_a_page_uses_is_hidden_from_its_reader() -> None:
    for page in PAGES:
        hidden = re.findall(r"<!--(?! (?:file: \S+|not run: [^\n]+?) -->)", page.read_text(encoding="utf-8"))
        assert not hidden, f"{page.relative_to(ROOT)} has a comment that a rendered page does not show"


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


SHIPPED = (
    "range", "roundrobin", "sticky", "cooperative-sticky", "lag-aware", "sticky-stream-join", "failover", "streams",
    "broker-range", "broker-uniform",
)  # fmt: skip
"""The strategies of the first release, which the page shows."""


def test_every_public_class_and_function_has_an_example_on_the_page_of_python() -> None:
    """The strategies' classes too; the test above runs them all. Of a new strategy a table of cases is enough."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    code = "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    public = [name for name in dir(apportion) if name != "__version__"]
    assert {"Plan", "LagAware", "BrokerUniform", "Comparison"} <= set(public)
    by_cases = {
        strategy.__name__
        for name, strategy in apportion.known().items()
        if (ROOT / "tests" / "cases" / f"{name}.toml").exists() and name not in SHIPPED
    }
    assert [name for name in public if not re.search(rf"\bapportion\.{name}\b", code) and name not in by_cases] == []
