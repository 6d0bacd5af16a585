"""Many groups, one a line: order kept, a bad line answered on its line, memory for one line alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from apportion.cli import batch

from .conftest import Runner, run_apart

GOOD: dict[str, Any] = {"group": "g", "topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}


def line(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_plans_come_in_the_order_of_the_groups(run: Runner) -> None:
    given = b"\n".join(line(group=f"g{i}") for i in range(50))
    done = run("plan", "--batch", "--assignor", "range", stdin=given)
    assert (done.code, [plan["group"] for plan in done.lines]) == (0, [f"g{i}" for i in range(50)])


def test_a_bad_line_gives_an_error_on_its_line_and_the_rest_goes_on(run: Runner) -> None:
    wrong = [
        b"{",
        b"[]",
        b'{"topics": {}, "members": {}}',
        b"\xff",
        b'"\\ud800"',
        b"[" * 100_000,
        line(topics={"t": 1.5}),
    ]
    given = b"\n".join(part for bad in wrong for part in (line(), bad)) + b"\n" + line()
    done = run("plan", "--batch", stdin=given)
    assert done.code == 1
    assert ["error" in answer for answer in done.lines] == [False, True] * len(wrong) + [False]
    for answer in done.lines:
        if "error" in answer:
            assert set(answer) == {"version", "error"}
            assert set(answer["error"]) == {"where", "found", "needed"}
            assert all(isinstance(text, str) and text for text in answer["error"].values())


def test_blank_lines_answer_nothing(run: Runner) -> None:
    done = run("plan", "--batch", stdin=b"\n\n  \n\t\r\n" + line() + b"\n\n")
    assert (done.code, len(done.lines)) == (0, 1)


def test_a_mark_of_the_byte_order_before_the_first_line_is_no_part_of_it(run: Runner) -> None:
    """As in every other input; before a later line it is."""
    done = run("plan", "--batch", stdin=b"\xef\xbb\xbf" + line() + b"\n\xef\xbb\xbf" + line())
    assert (done.code, ["error" in answer for answer in done.lines]) == (1, [False, True])
    assert run("plan", "--batch", stdin=b"\xef\xbb\xbf").out == ""


def test_an_empty_input_gives_an_empty_answer(run: Runner) -> None:
    assert run("plan", "--batch", stdin=b"") == (run("plan", "--batch", stdin=b"\n"))


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_lines_end_at_the_newline_alone(run: Runner, letter: str) -> None:
    raw = json.dumps({**GOOD, "group": f"a{letter}b"}, ensure_ascii=False)
    given = raw if letter > "\x1f" else raw.replace("\\u000b", "\\u000b")
    done = run("plan", "--batch", stdin=(given + "\n").encode() * 2)
    assert (done.code, [plan["group"] for plan in done.lines]) == (0, [f"a{letter}b"] * 2)
    assert done.out.count("\n") == 2


def test_a_carriage_return_before_the_newline_is_white_space(run: Runner) -> None:
    done = run("plan", "--batch", stdin=line() + b"\r\n" + line() + b"\r\n")
    assert (done.code, len(done.lines)) == (0, 2)


def test_a_line_that_is_too_long_is_an_error_of_that_line(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LONGEST_LINE", 1000)
    done = run("plan", "--batch", stdin=line() + b"\n" + b"x" * 3_000_000 + b"\n" + line() + b"\n" + b"y" * 2000)
    assert [("error" in answer) for answer in done.lines] == [False, True, False, True]
    assert done.lines[1]["error"]["where"] == "line 2"


def test_a_claim_of_twenty_million_partitions_and_one_more_is_refused(run: Runner) -> None:
    done = run("plan", "--batch", stdin=line(topics={"t": 2**31 - 1}))
    assert (done.code, "error" in done.lines[0]) == (1, True)


def test_wrong_usage_reads_no_line(run: Runner) -> None:
    single = (["--group", "g"], ["--bootstrap-server", "localhost:9092"], ["--context", "c"], ["--command-config", "f"])
    for args in (["--assignor", "nobody"], ["--set", "x=1"], ["-o", "csv"], ["--explain"], *single):
        done = run("plan", "--batch", *args, stdin=line())
        assert (done.code, done.out) == (2, "")


def test_every_answer_is_written_before_the_next_group_is_read() -> None:
    command = [sys.executable, "-m", "apportion", "plan", "--batch", "--assignor", "range"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for i in range(3):
            process.stdin.write(line(group=f"g{i}") + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["group"] == f"g{i}"
        process.stdin.close()
        assert process.wait(240) == 0


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    read, write = os.pipe()
    command = [sys.executable, "-m", "apportion", "plan", "--batch", "--assignor", "range"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        os.close(read)
        _, said = process.communicate((line() + b"\n") * 100, timeout=200)
    assert (process.returncode, said) == (141, b"")


@pytest.mark.slow
def test_the_memory_holds_one_line_not_all() -> None:
    program = (
        "import io, sys\n"
        "from apportion.cli.batch import answer_lines\n"
        "class Endless(io.RawIOBase):\n"
        "    left = 3000\n"
        "    def readable(self): return True\n"
        "    def readinto(self, b):\n"
        "        if not self.left: return 0\n"
        "        self.left -= 1\n"
        '        text = (b\'{"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}\' + b\' \' * 60000 + b\'\\n\')\n'
        "        b[:len(text)] = text\n"
        "        return len(text)\n"
        "answer_lines(io.BufferedReader(Endless(), 100_000), 'range', {})\n"
        # ru_maxrss would start at the size of the process that forked this one.
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(peak.split()[1], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=400, check=True)
    assert done.stdout.count(b"\n") == 3000
    assert int(done.stderr) < 150_000, "kilobytes; the input alone is 180 MB"


def test_the_whole_contract_holds_in_a_process_of_its_own() -> None:
    done = run_apart("plan", "--batch", "--assignor", "roundrobin", stdin=line() + b"\nnonsense\n" + line())
    assert (done.code, len(done.lines), done.err) == (1, 3, "")
