"""Without Java a test skips and says why; where nothing may be skipped it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.errors import Unavailable
from apportion.testing import jars as jar_box
from apportion.testing.plugin import needs_java


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jar_box.java.cache_clear()


@pytest.mark.usefixtures("no_java")
def test_without_java_a_test_skips_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APPORTION_REQUIRE_BROKER", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"Java 17 or newer is needed.*install"):
        needs_java()


@pytest.mark.usefixtures("no_java")
def test_where_a_broker_is_required_the_skip_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_REQUIRE_BROKER", "1")
    with pytest.raises(Unavailable, match="Java 17 or newer is needed"):
        needs_java()


def test_jars_are_made_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "jars"

    def half(fresh) -> None:
        (fresh / "one.jar").write_text("half")
        raise Unavailable("the net is gone")

    with pytest.raises(Unavailable, match="the net is gone"):
        jar_box.made(folder, "recipe", half)
    assert not folder.exists()
    made = []
    for recipe in ("recipe", "recipe", "another"):
        jar_box.made(folder, recipe, lambda fresh: made.append(fresh))
    assert len(made) == 2
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["jars"]


@pytest.mark.parametrize(("required", "code"), [("1", 2), ("", 0)])
def test_a_set_up_without_java_goes_on_and_says_so_unless_nothing_may_be_skipped(
    tmp_path: Path, required: str, code: int
) -> None:
    env = {"PATH": str(tmp_path), "APPORTION_JARS": str(tmp_path), "APPORTION_REQUIRE_BROKER": required}
    if "PYTHONPATH" in os.environ:
        env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    command = [sys.executable, "-m", "apportion.testing.jars"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Java 17 or newer is needed" in done.stderr
    assert ("skipped, and named at the end" in done.stderr) == (not required)
