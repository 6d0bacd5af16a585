"""What is patched in the clients stands in one table, which the versions and the page agree with."""

from __future__ import annotations

import inspect
from importlib import metadata
from pathlib import Path

import pytest

from apportion.clients import aio_kafka, kafka_python
from apportion.clients.patches import AIOKAFKA, KAFKA_PYTHON, Patched, WrongVersion, require_patchable, rows, unusable
from apportion.errors import MissingExtra

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("client", "version", "found"),
    [
        (KAFKA_PYTHON, "2.0.2", "kafka-python 2.0.2 found, 3.0.12 to 3.0.x needed: pip install "),
        (KAFKA_PYTHON, "3.1.0.dev1", "kafka-python 3.1.0.dev1 found, 3.0.12 to 3.0.x needed: pip install "),
        (AIOKAFKA, "0.13.0", "aiokafka 0.13.0 found, 0.14 to 0.14.x needed: pip install "),
        (KAFKA_PYTHON, "3.0.99", "kafka-python 3.0.99 without object."),
    ],
)
def test_a_client_that_is_not_known_is_told_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, client: Patched, version: str, found: str
):
    """Before anything of it is patched, and where its modules cannot be imported at all."""
    monkeypatch.setattr(metadata, "version", lambda _: version)
    with pytest.raises(WrongVersion) as refused:
        require_patchable(client, object)
    assert str(refused.value).startswith(found)
    assert isinstance(unusable(client, "apportion.clients.x"), WrongVersion)


def test_a_client_that_is_not_there_is_a_missing_library(monkeypatch: pytest.MonkeyPatch):
    def version(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", version)
    missing = unusable(KAFKA_PYTHON, "apportion.clients.kafka_python")
    assert type(missing) is MissingExtra
    assert "needs a library that is not installed" in str(missing)


@pytest.mark.parametrize(("client", "module"), [(KAFKA_PYTHON, kafka_python), (AIOKAFKA, aio_kafka)])
def test_the_table_names_just_what_is_patched(client: Patched, module: object):
    """Every method that an adapter sets on a coordinator, no other; on the page too, with its reasons."""
    source = inspect.getsource(module)  # type: ignore[arg-type]
    patched = {line.split(" = ")[0].strip() for line in source.splitlines() if line.startswith("    coordinator.")}
    assert {f"coordinator.{method}" for method in rows(client)} == patched
    page = (DOCS / "live.md").read_text()
    for method, reasons in rows(client).items():
        assert f"| `{method}` | {'; '.join(reasons)} |" in page
    assert metadata.version(client.distribution) in client.tried
