"""Every command's help has examples, and every example does what it says."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.cli.commands import COMMANDS, command
from apportion.cli.completion import SCRIPTS, candidates

from .conftest import ADS, PASTED, Runner

LIVE = ("--bootstrap-server", "--command-config", "--context")
EXAMPLES = [(name, line) for name in COMMANDS for _, line in command(name).EXAMPLES]
# zsh's line needs zsh; what needs a broker is in tests/sources, what needs Spark in tests/spark.
ELSEWHERE = (*LIVE, "dump", "tables", "demo", "zsh")
HERE = [(name, line) for name, line in EXAMPLES if not any(word in line for word in ELSEWHERE)]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_its_options_and_examples(run: Runner, name: str) -> None:
    done = run(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: apportion {name}")
    assert "examples:\n  # " in done.out
    assert run("help", name).out == done.out
    assert "?." not in done.out


@pytest.mark.parametrize(("name", "line"), HERE, ids=[line for _, line in HERE])
def test_every_example_works(folder: Path, name: str, line: str) -> None:
    known = {**ADS, "topics": {**ADS["topics"], "clicks": [{"partition": p, "lag": 10} for p in range(6)]}}
    (folder / "group.json").write_text(json.dumps(known), encoding="utf-8")  # a limit of lag needs a lag that is known
    for listing in ("before.txt", "after.txt"):
        (folder / listing).write_text((folder / "pasted.txt").read_text(encoding="utf-8"), encoding="utf-8")
    done = in_shell(folder, line)
    assert "apportion: " not in done.stderr
    # gate's examples may well find their limit breached: that is what 3 says.
    assert done.returncode in ((0, 3) if name == "gate" else (0,))


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for _, line in EXAMPLES if "dump" in line and "pipeline" not in line])
def test_every_example_on_a_dump_works(folder: Path, line: str) -> None:
    pytest.importorskip("pyarrow")
    from apportion.demo import dump

    (folder / "dump").symlink_to(dump())
    done = in_shell(folder, line.replace("ads-join", "ads-range"))
    assert (done.returncode, done.stdout != "") == (0, " > " not in line), done.stderr


def test_the_tool_of_kafka_can_be_piped_in(folder: Path) -> None:
    [line] = [line for _, line in EXAMPLES if "kafka-consumer-groups" in line]
    done = in_shell(folder, line)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ads join é" in done.stdout


def in_shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run the line as a person would, with ``apportion`` and a stand-in for Kafka's tool on the path."""
    env = shell_environment(folder)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def shell_environment(folder: Path) -> dict[str, str]:
    """The variables of a person whose home is the folder, where the two tools are made."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    script(tools / "apportion", f'exec {shlex.quote(sys.executable)} -m apportion "$@"')
    script(tools / "kafka-consumer-groups", f"cat {shlex.quote(str(PASTED / 'offsets.txt'))}")
    (folder / ".config/fish/completions").mkdir(parents=True, exist_ok=True)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder)}


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], [*COMMANDS, "--help", "--version"]), (["pl"], ["plan"]), (["plan", "--as"], ["--assignor"]),
        (["plan", "--assignor", "stick"], ["sticky", "sticky-stream-join"]), (["plan", "-o", "j"], ["json"]),
        (["completion", "z"], ["zsh"]), (["pipeline", "b"], ["build"]), (["nobody", "x"], []), (["plan", "gro"], []),
    ],
)  # fmt: skip
def test_completion_knows_commands_options_and_values(words: list[str], found: list[str]) -> None:
    assert candidates(words) == found


def test_bash_completes_with_the_script(folder: Path) -> None:
    line = (
        'eval "$(apportion completion bash)"; COMP_WORDS=(apportion plan --assignor rou); COMP_CWORD=3;'
        ' _apportion; echo "${COMPREPLY[@]}"'
    )
    done = in_shell(folder, line)
    assert (done.stdout, done.stderr) == ("roundrobin\n", "")


COMPLETED = {
    "apportion plan --assignor rou": "apportion plan --assignor roundrobin ",
    "apportion wh": "apportion what-if ",
    "apportion describe group.": "apportion describe group.json ",
}
"""A line as far as it was typed, and what Tab makes of it; a file's name where no word is meant."""


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed: apt-get install fish")
def test_fish_completes_with_the_script(folder: Path) -> None:
    """``complete -C`` is what fish itself asks when somebody presses Tab."""
    (folder / "tab.fish").write_text("apportion completion fish | source\nfor line in $argv; complete -C $line; end\n")
    done = in_shell(folder, "fish --no-config tab.fish " + shlex.join(COMPLETED))
    wanted = [line.split()[-1] for line in COMPLETED.values()]
    assert (done.stdout.splitlines(), done.stderr) == (wanted, "")


ZSH_SET_UP = """\
PROMPT= RPROMPT=; autoload -U compinit; compinit -u -d .zcompdump; eval "$(apportion completion zsh)"
show() { print -r -- "<$BUFFER>"; BUFFER= }; zle -N show; bindkey '^I' complete-word; bindkey '^X' show; print rea''dy
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed: apt-get install zsh")
def test_zsh_completes_with_the_script(folder: Path) -> None:
    """A real line editor on a terminal: the words are typed, Tab is pressed, and a key of ours shows the line."""
    here, there = pty.openpty()
    env = shell_environment(folder) | {"TERM": "dumb"}
    with subprocess.Popen(["zsh", "-f", "-i"], cwd=folder, env=env, stdin=there, stdout=there, stderr=there) as shell:
        os.close(there)
        try:
            os.write(here, ZSH_SET_UP.encode())
            read_until(here, b"\nready")
            for typed, wanted in COMPLETED.items():
                os.write(here, typed.encode() + b"\t\x18")
                assert read_until(here, b">").rpartition(b"<")[2] == wanted.encode() + b">"
        finally:
            shell.kill()
            os.close(here)


def read_until(terminal: int, end: bytes) -> bytes:
    """What a terminal shows, up to some bytes; pytest's own time limit ends a wait for nothing."""
    shown = b""
    while end not in shown:
        shown += os.read(terminal, 4096)
    return shown[: shown.index(end) + len(end)]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_shell_gets_its_script(run: Runner, shell: str) -> None:
    assert "__complete" in run("completion", shell).out


def test_report_takes_a_format_for_the_file_it_is_not(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("report", "group.json", "-o", "html")
    assert done.code == 2
    assert "-o page.html" in done.err
    assert list(tmp_path.iterdir()) == []
