"""Without Java a test skips and says why; where nothing may be skipped it fails."""

from __future__ import annotations

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
