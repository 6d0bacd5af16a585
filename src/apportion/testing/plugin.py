"""pytest fixtures: ``jars``, and a real ``broker`` for the whole session.

Take them with ``pytest_plugins = ["apportion.testing.plugin"]`` in a conftest. Where Java or Maven is missing the tests
that ask for them skip and say why; with ``APPORTION_REQUIRE_BROKER=1`` they fail instead, so that no continuous
integration passes without them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from apportion.errors import Unavailable
from apportion.testing import jars as jar_box
from apportion.testing.broker import Broker


def needs_java(version: str = jar_box.KAFKA[0]) -> str:
    """The class path of a release of Apache Kafka; skips the calling test, or fails it if skips are forbidden."""
    try:
        jar_box.java("javac")
        return jar_box.kafka(version)
    except Unavailable as missing:
        if os.environ.get("APPORTION_REQUIRE_BROKER") == "1":
            raise
        pytest.skip(str(missing).splitlines()[0])


@pytest.fixture(scope="session")
def jars() -> str:
    """The class path of Apache Kafka and the Java peers."""
    return needs_java()


@pytest.fixture(scope="session")
def broker(jars: str) -> Iterator[Broker]:
    """One real broker for the session: make topics and groups of your own names on it, and do not kill it."""
    # Nobody kills it, so its own session may be long: a busy machine is no reason to fence it.
    with Broker(rack="a", properties={"broker.session.timeout.ms": "60000"}) as broker:
        yield broker
