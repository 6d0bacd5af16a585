"""Kafka's own classes as a judge, in one JVM a list of questions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import java_artifacts

from apportion.testing import jars
from apportion.testing.plugin import needs_java

Questions = list[dict[str, Any]]
Judge = Callable[[Questions], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Ask Kafka: a list of questions gives a list of answers; an answer with ``error`` is a refusal."""
    return of_release(jars.KAFKA[0], tmp_path_factory.mktemp("judge"))


@pytest.fixture(scope="session")
def newer_judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Ask the newest release of Kafka."""
    return of_release(jars.KAFKA[-1], tmp_path_factory.mktemp("judge"))


def of_release(version: str, folder: Path) -> Judge:
    """The program Judge beside it, compiled against a release of Kafka."""
    needs_java(version)
    path = java_artifacts.compile_program(Path(__file__).with_name("Judge.java"), folder, version)
    command = [jars.java(), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path, "Judge"]

    def ask(questions: Questions) -> list[dict[str, Any]]:
        lines = "".join(json.dumps(question) + "\n" for question in questions)
        done = subprocess.run(command, input=lines.encode(), capture_output=True, check=True)
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert len(answers) == len(questions), done.stderr.decode()[-2000:]
        return answers

    return ask
