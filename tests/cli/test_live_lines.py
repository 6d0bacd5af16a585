"""What commands do with a live cluster: what each asks of the readers, and all that it says, against what was written.

The readers are tried on a broker and its recording elsewhere; here they are stood in for by three small groups, so that
every line takes milliseconds. ``APPORTION_WRITE=1`` writes ``live_lines.json`` anew.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import split
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.golden import of_page
from tests.support.written_down import as_written

from apportion.cli import nudge, source, watch
from apportion.cli.parser import Usage
from apportion.errors import ApportionError, Unavailable, UnknownName
from apportion.history.lag_time import Series
from apportion.inputs import cluster, generations, live, nudge_commit, offsets_log, series
from apportion.inputs.config import Connection
from apportion.inputs.described_group import Observed

from .conftest import ADS, HERE, Runner

NOW_MS = 1_795_272_828_000
AT = "--bootstrap-server b:1"
NEW = {
    "version": 1, "group": "new",
    "topics": {"clicks": [{"partition": p, "begin": 0, "end": 900, "committed": 300 * p} for p in range(3)]},
    "members": {"m0": {"topics": ["clicks"], "owned": {"clicks": [0, 1]}, "generation": 0}, "m1": {"topics": ["clicks"],
                "owned": {"clicks": [2]}, "generation": 0}},
}  # fmt: skip
IDLE = {
    "version": 1,
    "group": "idle",
    "topics": {"clicks": [{"partition": 0, "end": 5, "committed": 5}]},
    "members": {},
}
GROUPS = {
    "ads-join": Observed(ADS, "Stable", "range", "classic", "b:1 (0)", None, assigned_data=["consumer-1-5f0c"]),
    "new": Observed(NEW, "Stable", "uniform", "consumer", "b:1 (0)", 7, ("It is odd.",), classic_members=["m1"]),
    "idle": Observed(IDLE, "Empty", None, "simple", "b:1 (0)", None),
}
SHARED = Observed({**NEW, "group": "shared"}, "Stable", "simple", "share", "b:1 (0)", 3)
LINES = [
    f"describe {AT} --all-groups", f"describe {AT} --all-groups -o json", f"describe {AT} --all-groups -o csv",
    f"describe {AT} --all-groups --state", f"describe {AT} --group ads-join --state", f"describe {AT} --group new",
    f"describe {AT} --group new --state -o ndjson", f"describe {AT} --group ads-join --group new",
    f"describe {AT} --group ads-join --group new --window 30 -o wide", f"describe {AT} --all-groups --window 5 --odd",
    f"describe {AT} --group ads-join --group new --sort behind", f"describe {AT} --all-groups --sort trend --top 2",
    f"describe {AT} --group ads-join --group new --sort last-hour -o csv", f"describe {AT} --all-groups --sort name",
    f"describe {AT} --group ads-join --group new --sort lag", f"describe {AT} --all-groups --sort catch-up --verbose",
    f"describe {AT} --group ads-join --time", f"describe {AT} --all-groups --time --window 5",
    f"describe {AT} --group new --group ads-join --time -o csv", f"describe {AT} --group new --members --offsets",
    f"describe {AT} --all-groups --members -o ndjson", f"describe {AT} --group ads-join -o html",
    f"describe {AT}", f"describe {AT} --all-groups --group new", "describe --context no --group new",
    f"describe {AT} --group gone", f"describe {AT} file.json --group new", f"describe {AT} --all-groups --time -o json",
    f"describe {AT} --group new --window 5", f"describe {AT} --group shared", "describe file.json --all-groups",
    f"plan {AT} --group ads-join", f"plan {AT} --group new --diff -o json", f"plan {AT} --group idle", f"plan {AT}",
    f"plan {AT} --group shared", f"plan {AT} --group ads-join --group new", f"plan {AT} --group new -o html",
    f"compare {AT} --group new -A range -A sticky", f"compare {AT} --group new -A range --speeds",
    f"compare {AT} --group new -A range --speeds --window 3 -o json", f"compare {AT} --group new -A range -o html",
    f"size {AT} --group new --capacity 5", f"size {AT} --group new --capacity 5 --by lag --window 4 -o json",
    f"size {AT} --group new --capacity learned --by lag", f"size {AT} --group new --capacity 40 --by weight --window 3",
    f"size {AT} --group new --capacity 2 --by partitions -o html", f"size {AT} --group ads-join --capacity 5 --by lag",
    f"gate {AT} --group new --now --max-lag 1", f"gate {AT} --group new --max-moves 9", f"gate {AT} --now --max-lag 1",
    f"what-if {AT} --group new --join 1", f"what-if {AT} --group new --rolling -o html",
    f"what-if {AT} --group ads-join --leave pod-0 --join 2 -o json", f"what-if {AT} --group new --scale 1 --like m1",
    f"switch {AT} --all-groups", f"switch {AT} --all-groups -o json", f"switch {AT} --group new",
    f"switch {AT} --group ads-join -o html", f"switch {AT} --group idle", f"switch {AT} --group shared --group new",
    f"report {AT} --all-groups -o -", f"report {AT} --group new --switch -o OUT",
    f"report {AT} --all-groups --switch -o -",
    f"report {AT} --group ads-join --title T -o OUT", f"report {AT} -o OUT", f"report {AT} --group new -o json",
    f"watch {AT} --group new --once", f"watch {AT}", f"watch {AT} --group new --group idle",
    f"nudge {AT} --group new", f"nudge {AT} --group ads-join --wait 3", f"nudge {AT} --group idle", f"nudge {AT}",
]  # fmt: skip


class Asked(list[Any]):
    """What the readers were asked, in order."""


def moved(observed: Observed, window_s: float) -> dict[tuple[str, int], Series]:
    """Log ends that grow by ten a second, commits by five, of the partitions that have them."""
    told = {}
    for topic, entries in observed.raw["topics"].items():
        for entry in entries if isinstance(entries, list) else ():
            if "end" in entry and "committed" in entry:
                then, now = NOW_MS, NOW_MS + round(window_s * 1000)
                ends = [(then, entry["end"]), (now, entry["end"] + round(10 * window_s))]
                read = [(then, entry["committed"]), (now, entry["committed"] + round(5 * window_s))]
                told[topic, entry["partition"]] = Series(ends, read)
    return told


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    known = {**GROUPS, "shared": SHARED}

    def at(there: Connection) -> str:
        assert isinstance(there, Connection)
        return there.bootstrap

    def groups(there: Connection, names: Sequence[str] | None, leave_out: bool = False, refused: Any = None) -> Any:
        asked.append(["groups", at(there), names, leave_out])
        if names is None:
            refused += ["hidden", "secret"]
        for name in names or ():
            if name not in known:
                raise UnknownName("group", name, known)
        return [known[name] for name in names or GROUPS]

    @contextmanager
    def connect(bootstrap: str, properties: Any) -> Iterator[Any]:
        asked.append(["connect", bootstrap, type(properties).__name__])
        yield cluster.Cluster(bootstrap, "the admin client")

    def read(there: Any, names: Sequence[str]) -> Any:
        assert isinstance(there, cluster.Cluster)
        return groups(Connection(there.bootstrap, None), names)  # type: ignore[arg-type]

    def of_cluster(there: Connection, names: Sequence[str], window_s: float, leave_out: bool = False) -> Any:
        asked.append(["of_cluster", at(there), names, window_s, leave_out])
        return {name: moved(known[name], window_s) for name in names}

    def rebalanced_at(there: Any, connection: Connection, names: Sequence[str]) -> Any:
        asked.append(["rebalanced_at", there.bootstrap, at(connection), names])
        if names == ["new", "ads-join"]:
            raise Unavailable("the log is shut.")
        return {"new": [NOW_MS - 7_200_000, NOW_MS - 60_000, NOW_MS - 5_000]}

    def newest_generations(there: Any, connection: Connection, names: Sequence[str]) -> Any:
        asked.append(["newest_generations", there.bootstrap, at(connection), names])
        return {"ads-join": 12}

    def whole_groups(there: Connection) -> Any:
        asked.append(["whole_groups", at(there)])
        return offsets_log.WholeLog({}, {}, 50, 2)

    for module, name, stand_in in (
        (live, "groups", groups), (live, "read", read), (cluster, "connect", connect),
        (series, "of_cluster", of_cluster),
        (generations, "rebalanced_at", rebalanced_at), (generations, "newest_generations", newest_generations),
        (offsets_log, "whole_groups", whole_groups),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, stand_in)
    clock = SimpleNamespace(now=NOW_MS / 1000)

    def sleep(seconds: float) -> None:
        asked.append(["sleep", seconds])
        clock.now += seconds

    passing = SimpleNamespace(time=lambda: clock.now, monotonic=lambda: clock.now - 5000.0, sleep=sleep)
    for module in (nudge, watch):
        monkeypatch.setattr(module, "time", passing)
    monkeypatch.setattr(nudge_commit, "commit", lambda *given: asked.append(["commit", *given]))
    monkeypatch.setattr(nudge_commit, "remove", lambda *given: asked.append(["remove", *given]))
    takes = {"new": [(0, True), (NOW_MS, False), (NOW_MS, True)]}

    def newest(admin: Any, name: str) -> Any:
        asked.append(["newest", admin, name])
        left = takes.get(name, [])
        return nudge_commit.Nudge("clicks", *left.pop(0)) if left else None

    monkeypatch.setattr(nudge_commit, "newest", newest)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(NOW_MS // 1000))
    return asked


@pytest.mark.parametrize("line", LINES)
def test_a_line_asks_of_the_cluster_what_it_asked_and_says_what_it_said(
    run: Runner, asked: Asked, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*split(line))
    written = (tmp_path / "OUT").read_text(encoding="utf-8") if (tmp_path / "OUT").exists() else ""
    texts = [of_page(text) if text.lower().startswith("<!doctype") else text for text in (done.out, written)]
    if "of_cluster" in str(asked):  # rebalances are read beside it, in a thread
        asked.sort(key=str)
    says = {
        "code": done.code,
        "out": texts[0],
        "err": done.err.replace(str(tmp_path), "HERE"),
        "written": texts[1],
        "asked": list(asked),
    }
    as_written(HERE / "live_lines.json", line, {key: value for key, value in says.items() if value})


def test_a_cluster_that_nobody_may_look_into_is_said_and_costs_no_more_than_that(
    run: Runner, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generations, rebalances and the score are extras: without them the rest stands, and it is told."""

    def shut(*given: Any) -> Any:
        raise Unavailable("the log is shut.")

    for module, name in ((generations, "newest_generations"), (generations, "rebalanced_at")):
        monkeypatch.setattr(module, name, shut)
    monkeypatch.setattr(offsets_log, "whole_groups", shut)
    for words, said in (
        ("describe --all-groups --state -o csv", "no generations of classic groups: the log is shut.\n"),
        ("describe --all-groups -o json", "looking at 3 groups for 10 s\nno rebalances: the log is shut.\n"),
        ("switch --all-groups", "no score: the log is shut.\n"),
    ):
        done = run(*words.split(), *AT.split())
        refused = "without hidden, secret: this user may not look at them (ACL Describe on the group)\n"
        assert (done.code, done.err.replace(refused, "")) == (0, said), words
    monkeypatch.setattr(live, "groups", lambda there, names, leave_out=False, refused=None: [])
    for words in ("describe --all-groups", "describe --all-groups --odd", "describe --all-groups -o json"):
        done = run(*words.split(), *AT.split())
        as_written(HERE / "live_lines.json", f"nobody: {words}", [done.code, done.out, done.err])


class Typed(io.StringIO):
    """Standard input at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", ["describe", "plan", "compare", "gate --max-moves 1", "what-if --join 1", "report"])
def test_without_an_input_at_a_terminal_a_command_says_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    from apportion.cli import main

    for there in (Typed(), None):
        monkeypatch.setattr(sys, "stdin", there)
        assert main(command.split()) == 2
        assert capfd.readouterr().err == (
            "apportion: no input: give FILE, - for standard input, or --bootstrap-server with --group. "
            "See 'apportion --help'.\n"
        )


def args(**given: Any) -> argparse.Namespace:
    plain = {"file": None, "groups": [], "bootstrap_server": None, "command_config": None, "context": None}
    return argparse.Namespace(**{**plain, **given})


def test_which_words_mean_a_live_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also an empty address: a script's variable that was not set is no standard input."""
    for given, live_one, name in (
        ({}, False, "standard input"), ({"groups": ["g"]}, False, "standard input"),
        ({"bootstrap_server": ""}, True, "live cluster"), ({"bootstrap_server": "b:1"}, True, "b:1"),
        ({"command_config": "c"}, True, "live cluster"), ({"context": "c"}, True, "live cluster"),
        ({"all_groups": True}, True, "live cluster"), ({"all_groups": False}, False, "standard input"),
        ({"file": "-"}, False, "standard input"), ({"file": "a/b.json"}, False, "b.json"),
        ({"file": "a/dump/"}, False, "dump"), ({"file": "-", "bootstrap_server": "b:1"}, True, "b:1"),
    ):  # fmt: skip
        assert (source.is_live(args(**given)), source.input_name(args(**given))) == (live_one, name), given
    monkeypatch.setenv("APPORTION_BOOTSTRAP_SERVER", "b:1")
    assert source.is_live(args(groups=["g"]))
    assert not source.is_live(args())
    assert source.input_name(args(groups=["g"])) == "live cluster"


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"bootstrap_server": "b:1"}, "--bootstrap-server"), ({"command_config": ""}, "--command-config"),
        ({"context": "c"}, "--context"), ({"all_groups": True}, "--all-groups"), ({"all_groups": False}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_a_file_beside_a_live_cluster_is_refused(given: dict[str, Any], option: str | None) -> None:
    source.choose(args(**given))
    if option is None:
        source.choose(args(file="f", **given))
        return
    with pytest.raises(Usage) as refused:
        source.choose(args(file="f", **given))
    said = f"'f' and {option} were given: choose a file or a live cluster. See 'apportion --help'."
    assert str(refused.value) == said


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_file_is_written_whole_with_the_rights_that_it_had(tmp_path: Path, umask: int) -> None:
    import os

    old, path = os.umask(umask), tmp_path / "page"
    try:
        source.write_whole(str(path), "first \udc80")
        assert os.umask(umask) == umask, "it stays as it was"
        assert path.stat().st_mode & 0o7777 == 0o666 & ~umask
        path.chmod(0o604)
        source.write_whole(str(path), "second")
        assert (path.read_text(), path.stat().st_mode & 0o7777) == ("second", 0o604)
        (tmp_path / "link").symlink_to("page")
        source.write_whole(str(tmp_path / "link"), "third")
        assert (path.read_text(), (tmp_path / "link").is_symlink()) == ("third", True)
        source.write_whole(os.devnull, "gone")
    finally:
        os.umask(old)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "page"]
    for wrong, why in ((tmp_path, "Is a directory"), (tmp_path / "no" / "x", "No such file or directory")):
        with pytest.raises(ApportionError) as refused:
            source.write_whole(str(wrong), "text")
        assert str(refused.value) == f"cannot write {str(wrong)!r}: {why}."
    with pytest.raises(ApportionError, match=r"^cannot write 'a\\x00b': .*null.*\.$"):
        source.write_whole("a\0b", "text")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "page"]
