"""Options win over the environment, that over the config file; what is secret is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.errors import ApportionError, BadInput, UnknownName
from apportion.sources import config

FILE = """
context = "local"

[contexts.local]
bootstrap-server = "localhost:9092"

[contexts.prod]
bootstrap-server = "kafka-1:9093,kafka-2:9093"
command-config = "prod.properties"

[contexts.prod.properties]
"sasl.jaas.config" = 'x.PlainLoginModule required username="u" password="hush";'
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("APPORTION_BOOTSTRAP_SERVER", "APPORTION_CONTEXT", "APPORTION_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    (tmp_path / "prod.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=old\n"
    )
    monkeypatch.setenv("APPORTION_CONFIG", str(path))
    return path


def test_the_files_own_context_counts_where_nothing_else_says(file: Path) -> None:
    assert config.connection(None, None, None).bootstrap == "localhost:9092"
    assert config.is_set()


def test_options_win_over_the_environment_and_that_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_CONTEXT", "prod")
    assert config.connection(None, None, None).bootstrap == "kafka-1:9093,kafka-2:9093"
    assert config.connection(None, None, "local").bootstrap == "localhost:9092"
    monkeypatch.setenv("APPORTION_BOOTSTRAP_SERVER", "env:1")
    assert config.connection(None, None, None).bootstrap == "env:1"
    assert config.connection("option:2", None, None).bootstrap == "option:2"


def test_a_contexts_properties_win_over_its_file_and_are_translated(file: Path) -> None:
    properties = config.connection(None, None, "prod").properties
    assert properties.sasl() == ("PLAIN", "u", "hush")
    assert properties.protocol == "SASL_SSL"


def test_a_password_is_in_no_repr(file: Path) -> None:
    connection = config.connection(None, None, "prod")
    assert "hush" not in f"{connection} {connection!r} {connection.properties!r} {connection.properties}"


@pytest.mark.parametrize(
    "text", ['[contexts.a]\n"sasl.jaas.config" = "hush"', "[contexts.a]\nproperties = 'hush'", "x = 'hush",
             "contexts = 'hush'", "[contexts.a.properties]\npassword = ['hush']", "[contexts.a]\nbootstrap-server = 7"],
)  # fmt: skip
def test_a_wrong_file_is_an_error_that_keeps_its_secrets(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        config.connection(None, None, "a")
    assert "hush" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_an_unknown_context_gets_a_hint(file: Path) -> None:
    with pytest.raises(UnknownName, match="Maybe you meant 'prod'"):
        config.connection(None, None, "prd")


def test_without_a_server_the_error_says_the_three_ways(file: Path) -> None:
    file.write_text("")
    with pytest.raises(ApportionError, match=r"--bootstrap-server HOST:PORT, set APPORTION_BOOTSTRAP_SERVER, or add"):
        config.connection(None, None, None)


@pytest.mark.parametrize("server", ["localhost", "localhost:", ":9092", "a:b", "a:99999", "a:1,b", "a:٣"])
def test_a_server_without_a_port_is_found_at_once(server: str) -> None:
    with pytest.raises(BadInput, match="HOST:PORT"):
        config.connection(server, None, None)
