"""What the commands that run for long hand on to who does their work: every option arrives where it belongs.

The work itself (Spark, a server, a governor) is done by other tests; here each is stood in for, and what it was given
is held against what was written down. ``APPORTION_WRITE=1`` writes ``handed_on.json`` anew.
"""

from __future__ import annotations

import atexit
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import split
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.written_down import as_written

from apportion.cli import source
from apportion.governing import governor, service
from apportion.inputs import cluster
from apportion.serve import server
from apportion.spark import job

from .conftest import HERE, Runner

AT = "--bootstrap-server b:1"
TABLES = HERE.parent / "data" / "tables"
LINES = [
    f"pipeline capture {AT} --to there", f"pipeline capture {AT} --to there --service --interval 7 --source python",
    f"pipeline capture {AT} --to there --format delta --command-config client.properties -o json",
    "pipeline build --from here --to there", "pipeline build --from here --to there --full -o csv --format iceberg",
    "pipeline build --from here --to there --personal-days 30 --hash-personal --allowed-lag 5 -A range -A sticky",
    "pipeline rebuild --to there", "pipeline rebuild --to there --from here --format parquet -o ndjson",
    f"pipeline run {AT} --from here --to there",
    f"pipeline run {AT} --from here --to there --interval 9 --source connector --allowed-lag 3 -A range --format delta",
    "pipeline status --to there", "pipeline status --to there -o json", "pipeline rebuild --to there --full",
    "pipeline rebuild --to there --allowed-lag 5", f"pipeline capture {AT} --to there --interval 5",
    f"pipeline run {AT} --from here --to there -o json", "pipeline build --to there --from here --personal-days 0",
    f"serve {AT}", f"serve {AT} --listen 127.0.0.1:0 --interval 3 --from past --capacity 50 --catch-up 9.5 --no-tail",
    f"serve {AT} --names all,-kminion --max-series 5000 --cluster-name prod --personal",
    f"serve {AT} --no-personal --otlp-endpoint http://localhost:4318/v1/metrics",
    f"serve {AT} --listen 0.0.0.0:1 --insecure",
    f"serve {AT} --token-file tokens --listen '[::1]:9308'", f"serve {AT} --capacity 5",
    f"govern {AT} --check", f"govern {AT} --group a --group b --interval 9 -A sticky --set order=balance,moves",
    f"govern {AT} --group a --key-file key --convert", f"govern {AT} --all-groups --config govern.toml",
    f"govern {AT} --group a --release", f"govern {AT} --group ads --group b --config govern.toml",
    f"govern {AT} --group a --key-file short",
]  # fmt: skip
FILES = {
    "client.properties": "security.protocol=PLAINTEXT\n", "tokens": "t" * 40 + "\n", "key": "k" * 32 + "\n",
    "short": "k",
    "govern.toml": '[[group]]\nname = "ads.*"\nassignor = "range"\n',
}  # fmt: skip


class Notes(list[Any]):
    """What was called, with what."""

    def note(self, name: str, answer: Any = None) -> Any:
        """A stand-in for a function."""

        def called(*given: Any, **named: Any) -> Any:
            self.append([name, [told(one) for one in given], {key: told(one) for key, one in named.items()}])
            return answer

        return called


def told(value: Any) -> Any:
    """A value as JSON has it; of functions that they are one."""
    if getattr(value, "__name__", "") == "chosen":
        return {name: repr(rule) for name, rule in value().items()}
    if callable(value):
        return "a function"
    if isinstance(value, cluster.Cluster):
        return "a cluster"
    return json.loads(json.dumps(value, default=lambda one: repr(getattr(one, "settings", one))))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    notes = Notes()
    states = [replace(state, written=datetime(2026, 1, 2, tzinfo=UTC)) for state in job.status(TABLES)]
    for name in ("build", "rebuild"):
        monkeypatch.setattr(job, name, notes.note(name, SimpleNamespace(tables=states[:3])))
    monkeypatch.setattr(job, "status", notes.note("status", states))
    monkeypatch.setattr(job, "capture", notes.note("capture"))
    monkeypatch.setattr(job, "run", notes.note("run", [1, 2]))
    monkeypatch.setattr(server, "run", notes.note("serve"))
    monkeypatch.setattr(service, "govern", notes.note("govern"))

    @contextmanager
    def connect(bootstrap: str, properties: Any) -> Iterator[Any]:
        notes.note("connect")(bootstrap, properties)
        yield cluster.Cluster(bootstrap, None)

    monkeypatch.setattr(cluster, "connect", connect)
    monkeypatch.setattr(service, "groups_of", lambda there, rules: {"all": rules[0]})
    monkeypatch.setattr(governor, "without_class", lambda there: {})
    governed = SimpleNamespace(round=notes.note("round"), let_go=notes.note("let go"))
    monkeypatch.setattr(governor, "Governor", notes.note("Governor", governed))
    handlers = list(logging.getLogger("apportion.serve").handlers)
    yield notes
    logging.getLogger("apportion.serve").handlers = handlers


@pytest.mark.parametrize("line", LINES)
def test_every_option_arrives(
    run: Runner, notes: Notes, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = run(*split(line))
    as_written(
        HERE / "handed_on.json", line, {"code": done.code, "out": done.out, "err": done.err, "calls": list(notes)}
    )


def test_a_governor_tells_what_happened_and_not_what_did_not(capfd: pytest.CaptureFixture[str]) -> None:
    from apportion.cli.govern import _told

    _told("a", governor.Governed(0, "unchanged"))
    _told("a", governor.Governed(0, "published", differs=3, sentences=("one", "two")))
    _told("a", governor.Governed(0, "waiting", sentences=("why",)))
    assert capfd.readouterr().err == "a: published, 3 partitions to move; one; two\na: waiting; why\n"


@pytest.mark.parametrize(
    ("path", "settings", "far"),
    [
        ("a.json", "", False), ("file:///a", "", False), ("FILE:/a", "", False), ("s3a://a/b", "", True),
        ("hdfs://n:1/a", "", True), ("a+b.c-1://x", "", True), ("1a://x", "", False), ("s3a:/a", "", False),
        ("lake.kafka", "", False), ("lake.kafka", "spark.sql.catalog.lake=x", True), ("spark_catalog.k", "", True),
        ("lake.kafka", "a=b;spark.sql.catalog.lake = x", True), ("pond.kafka", "spark.sql.catalog.lake=x", False),
        ("lake.kafka.more", "spark.sql.catalog.lake=x", False), ("lake", "spark.sql.catalog.lake=x", False),
        ("here.json", "spark.sql.catalog.here=x", False), ("9lake.k", "spark.sql.catalog.9lake=x", False),
    ],
)  # fmt: skip
def test_what_is_far_away_is_known_by_its_form_and_sparks_catalogs(
    path: str, settings: str, far: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.json").write_text("")
    monkeypatch.setenv("APPORTION_SPARK_CONF", settings)
    assert source._is_far(path) == far


def test_what_is_far_away_is_copied_once_and_the_copy_goes_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from apportion.spark import local_copy

    notes, ends = Notes(), []

    def copy(path: str, folder: Path, groups: Any, starting: Any) -> None:
        starting()
        notes.note("copy")(path, str(folder), groups)

    monkeypatch.setattr(local_copy, "copy", copy)
    monkeypatch.setattr(atexit, "register", lambda *given, **named: ends.append((given, named)))
    folder = source.at_hand("s3a://a/b", ["g"])
    assert notes == [["copy", ["s3a://a/b", folder, ["g"]], {}]]
    [((remove, kept), named)] = ends
    assert (str(kept), named) == (folder, {"ignore_errors": True})
    assert Path(folder).is_dir()
    remove(kept, **named)
    assert not Path(folder).exists()
    assert capfd.readouterr().err == "reading s3a://a/b with Spark\n"
    assert source.at_hand("a/b") == "a/b"


def test_a_watcher_at_a_terminal_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the terminal's other screen, at the interval that was asked for, until it is interrupted."""
    import argparse

    import rich.live

    from apportion.cli import watch

    shown: list[Any] = []

    class Screen:
        def __init__(self, **named: Any) -> None:
            assert (named["screen"], named["auto_refresh"]) == (True, False)

        def __enter__(self) -> Screen:
            return self

        def __exit__(self, *_: object) -> None:
            shown.append("left")

        def update(self, text: Any, refresh: bool) -> None:
            shown.append((str(text), refresh))

    def sleep(seconds: float) -> None:
        shown.append(seconds)
        if len(shown) > 4:
            raise KeyboardInterrupt

    view = SimpleNamespace(text=lambda width, height: f"a view of {width > 20} {height > 5}")
    monkeypatch.setattr(rich.live, "Live", Screen)
    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(watch, "_look", lambda there, name, seen: shown.append((there, name, seen is view)))
    with pytest.raises(KeyboardInterrupt):
        watch._live("there", argparse.Namespace(interval=7, groups=["g"]), view)  # type: ignore[arg-type]
    picture = ("a view of True True", True)
    assert shown == [picture, 7, ("there", "g", True), picture, 7, "left"]


def test_the_demo_of_a_small_dump_writes_its_page(run: Runner, tmp_path: Path) -> None:
    done = run("demo", "--no-spark", "--from", str(HERE.parent / "data" / "task_groups"), "--to", str(tmp_path / "new"))
    assert (done.code, done.out.splitlines()[-1]) == (0, f"The page: {tmp_path / 'new' / 'report.html'}")
    assert [line[:7] for line in done.err.splitlines()] == ["== 1/2 ", "== 2/2 ", "== done"]
    page = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert "<title>The recorded cluster</title>" in page
    assert all(f'"group":"{name}","state"' in page or f'"{name}"' in page for name in ("enrich", "workers", "paused"))


def test_in_a_pipe_a_watcher_prints_picture_after_picture(
    run: Runner, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apportion.cli import watch

    def sleep(seconds: float) -> None:
        notes.append(seconds)
        if len(notes) > 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(watch, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(watch, "_look", lambda there, name, view: notes.append([told(there), name]))
    monkeypatch.setattr("apportion.report.watching.View.text", lambda view, width: f"a picture of {width}\n")
    done = run(*f"watch {AT} --group g --interval 4".split())
    assert (done.code, done.out) == (130, "\n".join(["a picture of 100\n"] * 3))
    looked = ["a cluster", "g"]
    assert notes == [["connect", ["b:1", "{}"], {}], looked, 4, looked, 4, looked, 4]
