"""``pipeline run`` on a real broker: each round captures and builds what is new, until it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import rows_of
from tests.spark.stores import reach, rows_in, store
from tests.spark.test_capture import commit, wait_for_quiet
from tests.support.s3 import S3Server

from apportion.spark import job, packages
from apportion.tables.schemas import TABLES
from apportion.testing.broker import Broker
from apportion.testing.plugin import needs_java

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]


def test_run_keeps_a_lake_on_s3_up_to_date(spark: Any, tmp_path: Path) -> None:
    """With a session of its own and the environment's keys: rounds after the first change tables by the process itself,
    while Spark captures; the rows are those of a full build, and Ctrl-C ends it with a sentence."""
    needs_java()
    pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
    with store(S3Server, packages.DELTA, packages.S3A) as s3, Broker() as kafka:
        kafka.create_topic("t", 3)
        commit(kafka, "one", 5)
        variables = {**os.environ, **s3.environment, "PYTHONPATH": os.pathsep.join(sys.path)}
        variables.pop("APPORTION_SPARK_CONF", None)
        words = ["run", "--bootstrap-server", kafka.bootstrap, "--from", "s3a://lake/dump", "--to", "s3a://lake/tables"]
        running = subprocess.Popen(
            [sys.executable, "-m", "apportion", "pipeline", *words, "--interval", "1", "--source", "python",
             "--assignor", "range"],
            env=variables, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        watch = threading.Timer(850, running.kill)
        watch.start()
        lines: list[str] = []
        try:
            assert running.stderr is not None
            for line in running.stderr:
                lines.append(line)
                if "every table rebuilt" in line:
                    commit(kafka, "two", 5)
                    wait_for_quiet(kafka)
                elif "gold/commits" in line and "written" in line:
                    running.send_signal(signal.SIGINT)
            running.wait()
        finally:
            running.kill()
            watch.cancel()
        text = "".join(lines)
        assert "every table rebuilt" in text, text
        assert "Traceback" not in text, text
        assert running.returncode == 130, text
        ran = rows_in(s3, "s3://lake/tables")
        reach(spark, s3)
        job.build("s3a://lake/dump", tmp_path / "full", assignors=["range"], spark=spark)
        for name in TABLES:
            assert ran[name] == rows_of(tmp_path / "full" / name), name
        assert {"one", "two"} <= {row.split("'group': '")[1].split("'")[0] for row in ran["gold/groups"]}
