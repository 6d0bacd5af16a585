"""Many groups in the order that is asked for, words that a shell completes, and a broker that does not answer."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.conftest import Done, run_here

from apportion.cli.completion import SCRIPTS, candidates


def groups_of(lags: dict[str, int]) -> str:
    """Groups of one member, one a line; a lag of -1 is unknown, and those that end in ``odd`` have an idle member."""
    lines = []
    for name, lag in lags.items():
        topics = {"t": 1} if lag < 0 else {"t": [{"partition": 0, "lag": lag}]}
        members = {"a": {"topics": ["t"], "owned": {"t": [0]}}}
        members |= (
            {"idle-member-with-a-name-of-fifty-letters-and-still-more": {"topics": ["t"]}} if name[-3:] == "odd" else {}
        )
        lines.append(json.dumps({"group": name, "topics": topics, "members": members}))
    return "\n".join(lines)


@pytest.fixture
def four(tmp_path: Path) -> str:
    (tmp_path / "four.ndjson").write_text(groups_of({"c-odd": 5, "a": 70, "d": -1, "b-odd": 6}))
    return str(tmp_path / "four.ndjson")


def order(done: Done) -> list[str]:
    return [line.split()[0] for line in done.out.split("\n\n")[0].splitlines()[1:]]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["a", "b-odd", "c-odd", "d"]), (("--sort", "name"), ["a", "b-odd", "c-odd", "d"]),
        (("--sort", "lag"), ["a", "b-odd", "c-odd", "d"]), (("--sort", "odd"), ["b-odd", "c-odd", "a", "d"]),
        (("--odd",), ["b-odd", "c-odd"]), (("--sort", "lag", "--top", "2"), ["a", "b-odd"]),
    ],
)  # fmt: skip
def test_groups_come_in_the_order_that_is_asked_for(four: str, words: tuple[str, ...], names: list[str]) -> None:
    assert order(run_here("describe", four, *words)) == names
    as_json = run_here("describe", four, *words, "-o", "json").json["groups"]
    assert [group["group"] for group in as_json] == names


def test_in_a_pipe_no_sentence_is_cut(four: str) -> None:
    out = run_here("describe", four).out
    assert (
        "1 member is idle, with 1 partition for 2 members: idle-member-with-a-name-of-fifty-letters-and-still-more."
        in out
    )
    assert "..." not in out


def test_an_order_that_is_none_is_refused(four: str) -> None:
    done = run_here("describe", four, "--sort", "size")
    assert (done.code, done.out) == (2, "")
    assert "there are trouble, name, odd, verdict, lag" in done.err


def test_report_reads_groups_one_a_line(four: str, tmp_path: Path) -> None:
    done = run_here("report", four, "-o", str(tmp_path / "page.html"))
    assert (done.code, done.err.partition(",")[0]) == (0, "4 groups")


# -- completion


def test_groups_of_the_input_complete_the_option_group(four: str, tmp_path: Path) -> None:
    assert candidates(["describe", four, "--group", ""]) == ["a", "b-odd", "c-odd", "d"]
    assert candidates(["plan", four, "--group", "c"]) == ["c-odd"]
    assert candidates(["plan", str(tmp_path / "none"), "--group", ""]) == []
    assert candidates(["describe", "--group", ""]) == []


def test_bash_parts_words_at_the_sign_and_gets_what_follows_it(tmp_path: Path) -> None:
    assert candidates(["plan", "-A", "lag-aware", "--set", "scope", "=", "gr"]) == ["group"]
    program = f"""{SCRIPTS["bash"]}
apportion() {{ {sys.executable} -m apportion "$@"; }}
COMP_WORDS=(apportion plan -A lag-aware --set scope = g) COMP_CWORD=7
_apportion; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "group\n"


SHELLS = {
    "bash": (["bash", "--norc", "-i"], 'eval "$(apportion completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -D; eval "$(apportion completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "apportion completion fish | source"),
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.timeout(120)
def test_a_shell_types_groups_and_settings_on_and_no_files_among_them(shell: str, four: str) -> None:
    """In a terminal of its own: after a setting's name its values follow, without a blank or a sign between."""
    words, setup = SHELLS[shell]
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {shell} here")
    Path(four).with_name("c-file").touch()
    process, terminal = pty.fork()
    if process == 0:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        os.chdir(Path(four).parent)
        os.execvpe(words[0], words, {**os.environ, "PATH": path, "TERM": "dumb", "PS1": "$ "})  # noqa: S606
    try:
        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        _shown(terminal, "ready")
        for typed, completed in (
            (f"describe {Path(four).name} --group c", "--group c-odd"),
            ("plan -A lag-aware --set sc", "--set scope="),
            ("plan -A lag-aware --set scope=g", "--set scope=group"),
        ):
            os.write(terminal, f"apportion {typed}\t".encode())
            _shown(terminal, completed)
            os.write(terminal, b"\x15")  # the line away
    finally:
        os.kill(process, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(process, 0)


def _shown(terminal: int, text: str) -> None:
    """Wait until the terminal shows the text, whatever it does to the cursor meanwhile; the test's limit is the end."""
    output = ""
    while text not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\x07\x08]", "", output):
        assert select.select([terminal], [], [], 30)[0], f"{output[-500:]!r} shows no {text!r}"
        output += os.read(terminal, 65_536).decode(errors="replace")


# -- a broker that does not answer


def test_within_three_seconds_it_is_told_who_is_waited_for() -> None:
    """A port where somebody listens and says nothing, as behind a firewall or a proxy."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        child = subprocess.Popen(
            [sys.executable, "-m", "apportion", "describe", "--bootstrap-server", where, "--group", "g"],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == f"{where} has not answered yet: waiting for it\n"
            assert child.poll() is None, "it waits still"
        finally:
            child.kill()
            child.communicate()


# -- a lake where a table is empty


def test_delta_tables_without_rows_are_read(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="Delta tables need the extra delta")
    import pyarrow as pa

    from apportion.tables.schemas import TABLES, arrow_schema

    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = {
        "silver/commits": [{"group": "g", "topic": "t", "partition": 0, "committed": 5, "commit_time": at,
                            "tombstone": False, "source_partition": 0, "source_offset": 1, "at": at}],
        "silver/ends": [{"topic": "t", "partition": 0, "begin": 0, "end": 9, "last_stable": 9, "at": at}],
    }  # fmt: skip
    for name in ("commits", "generations", "epochs", "gaps", "ends", "topics"):
        schema = arrow_schema(TABLES[f"silver/{name}"])
        listed = [{field: row.get(field) for field in schema.names} for row in rows.get(f"silver/{name}", [])]
        table = pa.Table.from_pylist(listed, schema=schema)
        deltalake.write_deltalake(str(tmp_path / "lake" / "silver" / name), table)
    (tmp_path / "lake" / "gold").mkdir()
    lake = str(tmp_path / "lake")
    [group] = run_here("describe", lake, "-o", "json").json["groups"]
    assert (group["described"]["lag"], group["described"]["protocol"]) == (4, "simple")
    assert run_here("report", lake, "-o", str(tmp_path / "page.html")).code == 0
    replayed = run_here("replay", lake, "--group", "g", "--assignor", "sticky")
    assert "found no table" not in replayed.err
    (tmp_path / "lake" / "silver" / "gaps" / "_delta_log").rename(tmp_path / "moved")
    assert "found no table silver/gaps" in run_here("describe", lake).err
