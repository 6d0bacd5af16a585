"""The pipeline's commands, by their own examples: a broker to a dump to tables, and what the others read from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.cli.commands import command
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember

from .conftest import Runner
from .test_help import in_shell

pytest.importorskip("pyarrow")
# ``pipeline run`` goes on until it is stopped, as in tests/spark/test_run.py. Of two builds the one with more options.
EXAMPLES = [
    line for _, line in command("pipeline").EXAMPLES if " run " not in line and not line.endswith(" dump --to tables")
]


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_example_of_the_pipeline_works_one_after_the_other(broker: Broker, run: Runner, folder: Path) -> None:
    broker.create_topic("piped", 4)
    with JavaMember(broker.bootstrap, "piped-group", ["piped"]) as member:
        member.wait_until(lambda one: one.assignment, patience_s=90)
        for line in EXAMPLES:
            done = in_shell(folder, line.replace("localhost:9092", broker.bootstrap))
            assert done.returncode == 0, (line, done.stderr[-2000:])
            assert done.stdout.splitlines()[0].split()[:2] == ["TABLE", "ROWS"]
    for place in ("dump", "tables"):
        groups = run("describe", str(folder / place), "--group", "piped-group", "-o", "json").json["groups"]
        [owned] = [member["owned"] for member in groups[0]["members"].values()]
        assert owned == {"piped": [0, 1, 2, 3]}
    walked = run("replay", str(folder / "tables"), "--group", "piped-group", "--assignor", "range", "-o", "json")
    assert walked.json["total"]["moves"] == 0


@pytest.mark.parametrize(
    "words", [["build"], ["build", "--to", "t"], ["status"], ["status", "--to", "nowhere"], ["fly", "--to", "t"],
              ["build", "--from", "nowhere", "--to", "t"], ["capture", "--to", "d"],
              ["capture", "--to", "d", "--bootstrap-server", "127.0.0.1:1", "--source", "magic"],
              ["build", "--from", "nowhere", "--to", "t", "-A", "rang"],
              ["build", "--from", "nowhere", "--to", "t", "--personal-days", "100001"], ["status", "--to", ""],
              ["build", "--from", "", "--to", "t"], ["build", "--from", "https://x/y", "--to", "t"]],
)  # fmt: skip
def test_what_is_missing_is_a_sentence(run: Runner, folder: Path, words: list[str]) -> None:
    done = run("pipeline", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.strip().splitlines()[-1].startswith("apportion: ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "option"), [
        (["rebuild", "--personal-days", "0"], "--personal-days"), (["rebuild", "--hash-personal"], "--hash-personal"),
        (["rebuild", "-A", "range"], "--assignor"),
        (["rebuild", "--allowed-lag", "0"], "--allowed-lag"), (["status", "--from", "d"], "--from"),
        (["build", "--from", "d", "--service"], "--service"), (["build", "--from", "d", "--context", "c"], "--context"),
        (["build", "--from", "d", "--hash-personal"], "--personal-days"),
        (["build", "--from", "d", "--source", "python"], "--source"), (["status", "--interval", "60"], "--interval"),
        (["capture", "--bootstrap-server", "127.0.0.1:1", "--interval", "60"], "--interval"),
        (["run", "--from", "d", "--bootstrap-server", "127.0.0.1:1", "-o", "json"], "-o json"),
    ],
)  # fmt: skip
def test_no_option_is_passed_over_without_a_word(run: Runner, folder: Path, words: list[str], option: str) -> None:
    """Least of all one that promises that names are dropped."""
    done = run("pipeline", *words, "--to", "t")
    assert (done.code, done.out) == (2, "")
    assert option in done.err
    assert not (folder / "t").exists()
