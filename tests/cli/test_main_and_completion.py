"""How a command line ends, however it does: its code, one sentence, and no traceback unless it is asked for."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion import cli
from apportion.cli import output
from apportion.errors import BadInput, Unavailable

from .conftest import Runner

FAULTS = {
    "bad input": BadInput("a.b", "5", "a text"), "unavailable": Unavailable("the file is away."),
    "memory": MemoryError(), "so much memory": MemoryError("Unable to allocate 8 EiB"),
    "file": FileNotFoundError(2, "No such file or directory", "there/x"), "bytes": OSError(28, "No space left", b"x"),
    "no number": OSError("odd"), "arrow": ModuleNotFoundError("No module", name="pyarrow.parquet"),
    "kafka": ModuleNotFoundError("No module", name="kafka"), "flow": ModuleNotFoundError("No", name="ortools"),
    "other module": ModuleNotFoundError("No module named 'x'", name="x"), "no name": ModuleNotFoundError("No module"),
    "fault": ZeroDivisionError("division by zero"), "rich": ModuleNotFoundError("No", name="rich.live"),
}  # fmt: skip


def ends(monkeypatch: pytest.MonkeyPatch, end: BaseException | int, run: Runner) -> Any:
    def ended(arguments: Any) -> int:
        if isinstance(end, BaseException):
            raise end
        return end

    monkeypatch.setattr(cli, "_run", ended)
    return run("plan")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence_and_a_code(run: Runner, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("importlib.metadata.requires", lambda package: [f"needs-{package}; extra == 'spark'"])
    done = ends(monkeypatch, FAULTS[name], run)
    ours = name in ("fault", "other module", "no name")
    assert (done.code, done.out) == (70 if ours else 2, "")
    assert done.err.startswith("apportion: ")
    assert done.err.count("\n") == 1
    assert ("APPORTION_DEBUG=1" in done.err) == ours, "a user's own mistake needs no traceback"
    assert ("pip install" in done.err) == (name in ("arrow", "kafka", "flow", "rich"))
    monkeypatch.setenv("APPORTION_DEBUG", "1")
    with pytest.raises(type(FAULTS[name])):
        ends(monkeypatch, FAULTS[name], run)


@pytest.mark.parametrize(
    ("end", "code"),
    [(0, 0), (3, 3), (SystemExit(4), 4), (SystemExit(), 0), (SystemExit("why"), 2), (KeyboardInterrupt(), 130),
     (BrokenPipeError(), 141), (SystemExit(0), 0)],
)  # fmt: skip
def test_a_line_ends_with_its_code(
    run: Runner, monkeypatch: pytest.MonkeyPatch, end: BaseException | int, code: int
) -> None:
    done = ends(monkeypatch, end, run)
    assert (done.code, done.out, done.err) == (code, "", "")


# -- where results go


def test_a_result_is_utf8_whatever_the_locale_says_and_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=False))
    sys.stdout.write("first ")
    output.emit("é \udc80\n")
    output.emit_json({"é": "\udc80"})
    assert raw.getvalue() == b"first \xc3\xa9 \\udc80\n" + b'{"\xc3\xa9": "\\udc80"}\n'
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    output.emit("é")
    assert (text.getvalue(), output.on_terminal()) == ("é", False)
    monkeypatch.setattr(sys, "stdout", None)
    assert not output.on_terminal()
    with pytest.raises(Unavailable) as closed:
        output.emit("x")
    assert str(closed.value) == (
        "standard output is closed, and the result goes there: send it to a file or to /dev/null."
    )
    monkeypatch.setattr(sys, "stderr", None)
    output.tell("to nobody")

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    output.tell("on a full disk")


# -- what runs for long


# -- small rules of many commands


@pytest.mark.parametrize("command", ["plan", "compare", "size --capacity 5", "what-if --join 1", "gate --max-moves 1"])
def test_a_group_that_cannot_be_planned_is_told_with_the_path_that_was_given(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    names = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    text = f"{names}\ng     t     0         5              9              4   -           -    -\n".encode()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "g.txt").write_bytes(text)
    told = "found no member at all in group 'g'; needed at least one: there is no member to plan for.\n"
    for given, name in (("there/g.txt", "there/g.txt"), ("-", "standard input")):
        done = run(*command.split(), given, stdin=text)
        assert (done.code, done.out, done.err) == (2, "", f"apportion: {name}: {told}")
    done = run(*command.split(), stdin=text)
    assert (done.code, done.err) == (2, f"apportion: standard input: {told}")


def test_a_plan_is_known_by_its_form_and_other_texts_are_read_as_groups(run: Runner, folder: Path) -> None:
    assert run("compare", "group.json", "--saved", "plan.json").code == 0
    for text in (b"", b'GROUP "assignment"\n', b"{}"):
        (folder / "other").write_bytes(text)
        done = run("compare", "group.json", "--saved", "other")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("apportion: other")
