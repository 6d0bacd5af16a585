"""What a user sets in ``APPORTION_SPARK_CONF`` may be a key of a store: other users of the machine do not see it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.spark import settings

STARTS = """
from pathlib import Path
from pyspark import SparkContext
from apportion.spark import session
with session.session() as spark:
    commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    java = [one for one in commands if one.split(b"\\0")[0].endswith(b"java") and b"settings.properties" in one]
    print(len(java) > 0, any(b"s3cret" in one for one in java))
    own = Path(f"/proc/{SparkContext._gateway.proc.pid}/cmdline").read_bytes().split(b"\\0")
    print(*{oct(Path(word.decode()).stat().st_mode & 0o777) for word in own if word.endswith(b"settings.properties")})
    print(spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key"))
    print(spark.conf.get("spark.apportion.odd"))
    print(spark.sparkContext._jvm.System.getProperty("apportion.odd"))
"""


@pytest.mark.spark
@pytest.mark.usefixtures("java_for_spark")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="commands are read from /proc")
@pytest.mark.timeout(600)
def test_a_key_is_on_no_command_line_and_reaches_spark() -> None:
    conf = (
        "spark.hadoop.fs.s3a.secret.key=s3cret;spark.apportion.odd=a\\b: c=d # !e;"
        "spark.driver.extraJavaOptions=-Dapportion.odd=yes"
    )
    told = _told_by_a_session(conf)
    assert told == ["True False", "0o600", "s3cret", "a\\b: c=d # !e", "yes"]


@pytest.mark.spark
@pytest.mark.usefixtures("java_for_spark")
@pytest.mark.timeout(600)
def test_a_properties_file_of_the_users_own_is_read_too(tmp_path: Path) -> None:
    """Of two such files Spark reads one: its own user's."""
    (tmp_path / "mine").write_text("spark.hadoop.fs.s3a.secret.key=mine\n")
    told = _told_by_a_session(
        "spark.apportion.odd=ours", PYSPARK_SUBMIT_ARGS=f"--properties-file {tmp_path}/mine pyspark-shell"
    )
    assert told[2:] == ["mine", "ours", "None"]


def _told_by_a_session(conf: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", STARTS], capture_output=True, text=True, check=False, timeout=500,
        env={**os.environ, settings.CONF: conf, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
