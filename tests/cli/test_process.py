"""How a command line ends: exit codes, signals, broken pipes, faults; never with a traceback."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apportion import __version__, planning
from apportion.cli import source

from . import conftest
from .conftest import Runner, run_apart


def test_the_version_is_the_packages() -> None:
    assert run_apart("--version").out == f"apportion {__version__}\n"


def test_bare_apportion_shows_the_help(run: Runner) -> None:
    assert run().out == run("--help").out
    assert "commands:" in run().out


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["plam"], "'plan'"), (["plan", "--assigner", "x"], "'--assignor'"), (["--verson"], "'--version'"),
        (["plan", "g", "-A", "stiky"], "'sticky'"), (["describe", "--bootstrap-servers", "x"], "'--bootstrap-server'"),
    ],
)  # fmt: skip
def test_typing_errors_get_a_hint(run: Runner, folder: Path, args: list[str], hint: str) -> None:
    (folder / "g").write_text((folder / "group.json").read_text())
    done = run(*args)
    assert (done.code, done.out) == (2, "")
    assert f"Maybe you meant {hint}" in done.err


def test_a_value_that_begins_with_a_dash_is_told_how_to_write(run: Runner, folder: Path) -> None:
    """A group may be named -x, and argparse takes that for an option."""
    done = run("describe", "--group", "-x", "group.json")
    assert done.err.startswith("apportion: --group: expected one argument; one that begins with - is written --group=")
    assert "no group is named '-x'" in run("describe", "--group=-x", "group.json").err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["describe", "--describe", "ads.json"], "--describe is a command, not an option: leave it out."),
        (["plan", "--describe", "ads.json"], "--describe is a command, not an option: run apportion describe."),
        (
            ["plan", "-A", "sticky", "-A", "range", "-"],
            "-A was given twice, with sticky and range: choose one; compare",
        ),
        (["gate", "--max-lag", "1", "--max-lag", "2", "-"], "--max-lag was given twice, with 1 and 2: choose one."),
    ],
)
def test_a_word_of_kafkas_tool_and_an_option_given_twice_are_said(run: Runner, words: list[str], sentence: str) -> None:
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_a_gate_says_whether_it_judged_a_plan_or_what_was_pasted(run: Runner, folder: Path) -> None:
    hint = "this judged a plan and not the present owners that the input names; --now judges those"
    for form in ("table", "json"):
        assert hint in run("gate", "pasted.txt", "--group", "new", "--max-skew", "9", "-o", form).err
        assert hint not in run("gate", "pasted.txt", "--group", "new", "--now", "--max-skew", "9", "-o", form).err


@pytest.mark.slow
def test_a_full_standard_error_costs_neither_result_nor_exit_code(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        for words, code in ((["plan", "nowhere.json"], 2), (["plan", "group.json", "--save", "saved"], 0)):
            done = subprocess.run(
                [sys.executable, "-m", "apportion", *words],
                stdout=subprocess.PIPE,
                stderr=full,
                timeout=400,
                check=False,
            )
            assert (done.returncode, b"MEMBER" in done.stdout) == (code, code == 0)


@pytest.mark.parametrize(
    "words", [["--join", ""], ["--scale", ""], ["--rolling", ""], ["--scale", " "], ["--leave", ""]]
)
def test_a_step_without_its_value_is_refused(run: Runner, folder: Path, words: list[str]) -> None:
    """As a script writes it whose variable was not set: --scale "" was taken for one member."""
    done = run("what-if", "group.json", *words)
    assert (done.code, done.out) == (2, "")
    assert f"{words[0]}: found {words[1]!r}; needed " in done.err


def test_a_file_that_is_not_there_is_a_sentence(run: Runner, folder: Path) -> None:
    done = run("plan", "nowhere.json")
    assert (done.code, done.err) == (2, "apportion: cannot read 'nowhere.json': No such file or directory.\n")


def test_an_input_without_an_end_is_a_sentence(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_BYTES", 1000)
    for words in (["describe", "/dev/zero"], ["plan", "/dev/zero"]):
        done = run(*words)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("apportion: /dev/zero: found more than 1,000 bytes; needed fewer groups at once")
    done = run("compare", stdin=b" " * 1001)
    assert done.err.startswith("apportion: standard input: found more than 1,000 bytes")
    assert run("compare", stdin=b" " * 1000).err.startswith("apportion: standard input: found nothing")


@pytest.mark.parametrize("command", ["describe", "report"])
@pytest.mark.parametrize(
    "option", [["--bootstrap-server", "localhost:9"], ["--command-config", "f"], ["--context", "c"]]
)
def test_a_file_or_folder_beside_an_option_for_a_live_cluster_is_refused(
    run: Runner, folder: Path, command: str, option: list[str]
) -> None:
    for given in ("group.json", "."):
        done = run(command, given, *option)
        assert (done.code, done.out) == (2, "")
        assert f"{given!r} and {option[0]} were given" in done.err


@pytest.mark.parametrize("command", ["describe", "plan", "gate --max-moves 1", "switch"])
@pytest.mark.parametrize(
    ("option", "answer"),
    [
        (["--bootstrap-server", ""], "bootstrap server: found ''; needed HOST:PORT"),
        (["--bootstrap-server", "localhost:9", "--command-config", ""], "command config: found ''"),
        (["--context", ""], "''"),
        (["--command-config", "client.properties"], "which cluster? give --bootstrap-server"),
    ],
)
def test_a_way_to_a_cluster_that_leads_nowhere_never_means_standard_input(
    run: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: list[str], answer: str
) -> None:
    """A script's variable that was not set, or a login without a server."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("APPORTION_BOOTSTRAP_SERVER", raising=False)
    done = run(*command.split(), "--group", "g", *option, stdin=(folder / "group.json").read_bytes())
    assert (done.code, done.out) == (2, "")
    assert answer in done.err
    assert "standard input" not in done.err


def test_one_group_and_all_groups_is_a_contradiction(run: Runner, folder: Path) -> None:
    done = run("describe", "--bootstrap-server", "localhost:9", "--all-groups", "--group", "g")
    assert (done.code, done.out) == (2, "")
    assert "--group and --all-groups were given: choose one." in done.err


@pytest.mark.parametrize("option", ["--diff", "--explain"])
@pytest.mark.parametrize("form", ["csv", "ndjson", "html"])
def test_what_a_form_cannot_show_is_refused(run: Runner, folder: Path, option: str, form: str) -> None:
    done = run("plan", "group.json", option, "-o", form)
    assert (done.code, done.out) == (2, "")
    assert f"{option} is for table, wide and json, not for {form}." in done.err


def test_a_folder_that_is_no_dump_is_a_sentence(run: Runner, folder: Path) -> None:
    done = run("describe", str(folder))
    assert done.code == 2
    assert "neither records/ nor silver/ and gold/" in done.err


def test_a_truncated_dump_and_a_wrong_column_are_a_sentence_each(run: Runner, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    records = tmp_path / "dump" / "records"
    records.mkdir(parents=True)
    pq.write_table(pa.table({"key": [1]}), records / "a.parquet")
    pq.write_table(pa.table({"topic": ["t"]}), tmp_path / "dump" / "ends.parquet")
    wrong = run("describe", str(tmp_path / "dump"))
    (records / "a.parquet").write_bytes((records / "a.parquet").read_bytes()[:100])
    cut = run("describe", str(tmp_path / "dump"))
    for done in (wrong, cut):
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert "a.parquet" in done.err


def test_a_plan_that_cannot_be_saved_is_a_sentence(run: Runner, folder: Path) -> None:
    done = run("plan", "group.json", "--save", "no/such/folder/plan.json")
    assert done.code == 2
    assert "cannot write 'no/such/folder/plan.json'" in done.err


def test_a_saved_plan_is_the_printed_plan(run: Runner, folder: Path) -> None:
    done = run("plan", "group.json", "--save", "saved.json", "-o", "json")
    assert (folder / "saved.json").read_text() == done.out
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".apportion")) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_plan_is_saved_into_a_pipe_through_a_link_and_with_the_rights_that_were_there(
    run: Runner, folder: Path
) -> None:
    """A device or a pipe is no file to be put in another's place: root would put one in place of /dev/null."""
    os.mkfifo(folder / "pipe")
    (folder / "private.json").touch(mode=0o600)
    (folder / "link.json").symlink_to("private.json")
    with subprocess.Popen(["cat", folder / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        saved = run("plan", "group.json", "--save", "pipe", "-o", "json").out
        assert reader.communicate(timeout=60)[0] == saved
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    assert run("plan", "group.json", "--save", "link.json").code == 0
    assert (folder / "link.json").is_symlink()
    assert (folder / "private.json").read_text() == saved
    assert stat.S_IMODE((folder / "private.json").stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="closes a file by its number in a shell")
@pytest.mark.parametrize("words", ["assignors", "assignors -o json", "--version", "plan --help", "completion bash"])
def test_a_closed_standard_output_is_a_sentence(words: str) -> None:
    shell = f"{sys.executable} -m apportion {words} >&-"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("apportion: standard output is closed")
    silent = subprocess.run(["sh", "-c", f"{shell} 2>&-"], capture_output=True, text=True, timeout=200, check=False)
    assert (silent.returncode, silent.stdout, silent.stderr) == (2, "", "")


@pytest.mark.parametrize("words", [["assignors"], ["plan", "--help"]])
def test_a_full_disk_is_a_sentence(words: list[str]) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "apportion", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=200, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    shell = f"{sys.executable} -m apportion --help | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=200, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in ("0", "141")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_quietly_and_in_good_order(number: int, code: int) -> None:
    command = [sys.executable, "-m", "apportion", "plan", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}\n')
        process.stdin.flush()
        process.stdout.readline()  # it is at work
        time.sleep(0.2)
        process.send_signal(number)
        _, said = process.communicate(timeout=200)
    assert (process.returncode, said) == (code, b"")


def test_a_handler_of_the_callers_stays(run: Runner) -> None:
    """And the default comes back: a program that calls a command in itself ends as it did before."""
    for handler in (signal.SIG_DFL, signal.SIG_IGN):
        before = signal.signal(signal.SIGTERM, handler)
        try:
            run("--version")
            assert signal.getsignal(signal.SIGTERM) is handler
        finally:
            signal.signal(signal.SIGTERM, before)


def test_a_fault_of_ours_asks_for_a_report(run: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("inside")

    monkeypatch.setattr(planning, "plan", broken)
    done = run("plan", "group.json")
    assert done.code == 70
    assert "fault in apportion" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("APPORTION_DEBUG", "1")
    with pytest.raises(KeyError):
        run("plan", "group.json")


def test_names_cannot_drive_the_terminal(run: Runner) -> None:
    raw = '{"topics": {"t": 1}, "members": {"\\u001b[31mred": {"topics": ["t"]}}}'
    done = run("plan", "-", stdin=raw.encode())
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "\\x1b[31mred" in done.out
    assert "\x1b" not in run("plan", "-A", "\x1b[31m", "-", stdin=raw.encode()).err


def test_start_up_imports_neither_numpy_nor_rich() -> None:
    program = (
        "import sys, apportion.cli; apportion.cli.main(['--version']); apportion.cli.main(['plan', '--help']);"
        "print([m for m in ('numpy', 'rich', 'typer', 'kafka', 'pyspark', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_one_look_at_a_text_loads_nothing_of_history() -> None:
    """The README's first command: what only records need is not waited for."""
    text = Path(__file__).parents[1] / "sources" / "pasted" / "offsets.txt"
    program = (
        f"import sys, apportion.cli; apportion.cli.main(['describe', {str(text)!r}, '--group', 'new']);"
        "print([m for m in sys.modules if m.startswith('apportion.history')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("missing", "words", "extra"),
    [
        ("pyarrow", ["describe", "DUMP"], "spark"), ("pyarrow", ["report", "DUMP", "-o", "-"], "spark"),
        ("pyarrow", ["replay", "DUMP", "--group", "g"], "spark"), ("pyspark", ["demo", "--spark"], "spark"),
        ("pyspark", ["pipeline", "build", "--from", "DUMP", "--to", "t"], "spark"),
        ("kafka", ["describe", "--bootstrap-server", "localhost:9", "--group", "g"], "kafka-python"),
        ("kafka", ["watch", "--bootstrap-server", "localhost:9", "--group", "g"], "kafka-python"),
    ],
)  # fmt: skip
def test_a_library_that_is_missing_is_a_sentence_with_what_brings_it(
    tmp_path: Path, missing: str, words: list[str], extra: str
) -> None:
    from apportion.demo import dump
    from apportion.errors import install_command

    line = [str(dump()) if word == "DUMP" else word for word in words]
    program = f"import sys; sys.modules[{missing!r}] = None; from apportion.cli import main; sys.exit(main({line!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") <= 2
    # What is named can be installed whether this came from a clone or from a wheel, neither of which an index has.
    assert install_command(extra) in done.stderr
    assert "pip install '" in done.stderr
    assert "apportion[" not in done.stderr


def test_a_plan_needs_numpy_alone(folder: Path) -> None:
    absent = ("rich", "typer", "kafka", "pyarrow", "pyspark", "ortools")
    hide = f"import sys; sys.modules.update(dict.fromkeys({absent!r}))"
    program = f"{hide}; from apportion.cli import main; sys.exit(main(['plan', 'group.json']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_long_work_shows_a_bar_at_a_terminal_and_lines_elsewhere(tmp_path: Path) -> None:
    """The steps stay readable in both; standard output has none of it."""
    import pty

    program = (
        "from apportion.cli import progress\n"
        "with progress.shown() as step:\n"
        "    step('making gold/lag')\n"
        "    step('making \x1b[31mgold/groups')\n"
    )
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (plain.stdout, plain.stderr.splitlines()) == ("", ["making gold/lag", r"making \x1b[31mgold/groups"])
    parent, child = pty.openpty()
    with os.fdopen(parent, "rb") as screen:
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
        subprocess.run([sys.executable, "-c", program], stderr=child, env=env, check=True)
        os.close(child)
        shown = os.read(screen.fileno(), 1 << 16).decode()
    assert "making gold/lag" in shown
    assert "\x1b[31mgold" not in shown, "a name is data, also at a terminal"
    assert "\x1b[?25h" in shown, "the cursor is there again"


@pytest.mark.parametrize("command", ["describe", "plan", "compare", "what-if", "gate", "switch", "report", "size"])
def test_at_a_terminal_without_a_file_it_is_said_what_may_be_given(
    run: Runner, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    more = {"gate": ["--max-moves", "1"], "what-if": ["--join", "1"], "size": ["--capacity", "5"]}.get(command, [])
    monkeypatch.setattr(conftest._Input, "isatty", lambda self: True)
    done = run(command, *more)
    needed = "no input: give FILE, - for standard input, or --bootstrap-server with --group"
    assert (done.code, done.out, done.err) == (2, "", f"apportion: {needed}. See 'apportion --help'.\n")
