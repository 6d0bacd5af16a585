"""What a user sets in ``APPORTION_SPARK_CONF`` may be a key of a store: other users of the machine do not see it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.spark import session, settings

COMMAND = [
    "/opt/spark/bin/spark-submit",
    "--conf",
    "spark.app.name=apportion",
    "--conf",
    "a.key=s3cret",
    "pyspark-shell",
]

STARTS = """
from pathlib import Path
from apportion.spark import session
with session.session() as spark:
    commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    java = [one for one in commands if one.split(b"\\0")[0].endswith(b"java") and b"settings.properties" in one]
    print(len(java) > 0, any(b"s3cret" in one for one in java))
    print(spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key"))
    print(spark.conf.get("spark.apportion.odd"))
    print(spark.sparkContext._jvm.System.getProperty("apportion.odd"))
"""


def test_settings_of_the_user_go_by_a_file_that_nobody_else_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.CONF, "a.key=s3cret;b=c\\d = e")
    command = session._not_in_the_command(tmp_path, list(COMMAND))
    file = tmp_path / "settings.properties"
    assert command == [
        COMMAND[0], "--properties-file", str(file), "--load-spark-defaults", "--conf", "spark.app.name=apportion",
        "pyspark-shell",
    ]  # fmt: skip
    assert file.read_text() == "a.key=s3cret\nb=c\\\\d = e\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_properties_file_of_the_users_own_stays_the_one_that_spark_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.CONF, "a.key=s3cret")
    own = [*COMMAND[:-1], "--properties-file", "mine", "pyspark-shell"]
    assert session._not_in_the_command(tmp_path, list(own)) == own
    monkeypatch.delenv(settings.CONF)
    assert session._not_in_the_command(tmp_path, list(COMMAND)) == COMMAND
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.usefixtures("java_for_spark")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="commands are read from /proc")
@pytest.mark.timeout(600)
def test_a_key_is_on_no_command_line_and_reaches_spark() -> None:
    conf = (
        "spark.hadoop.fs.s3a.secret.key=s3cret;spark.apportion.odd=a\\b: c=d # !e;"
        "spark.driver.extraJavaOptions=-Dapportion.odd=yes"
    )
    done = subprocess.run(
        [sys.executable, "-c", STARTS], capture_output=True, text=True, check=False, timeout=500,
        env={**os.environ, settings.CONF: conf},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["True False", "s3cret", "a\\b: c=d # !e", "yes"], done.stderr[-2000:]
