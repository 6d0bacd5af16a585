"""A Spark Connect client, with a server of its own: the same tables, in files and in a catalog."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark import made
from tests.spark.conftest import rows_of
from tests.support.hanging import HANGING

from apportion.spark import job, packages
from apportion.tables.schemas import TABLES
from apportion.testing import processes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CLIENT = """
import json, shutil, sys
from pathlib import Path
import pyarrow.parquet as pq
from apportion.errors import ApportionError
from apportion.spark import job, packages
from apportion.tables.schemas import TABLES
from pyspark.sql import SparkSession
first, rest, out = map(Path, sys.argv[1:4])
to = sys.argv[4]
builder = SparkSession.builder.remote("local[2]")
for name, value in {
    **packages.settings([packages.DELTA]), "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2", "spark.local.dir": str(out / "scratch"),
    "spark.sql.warehouse.dir": str(out / "warehouse"),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
def ended(kind, error, trace):
    import os, traceback
    traceback.print_exception(error)
    os._exit(1)  # a client that fails waits for ever in its session's __del__
sys.excepthook = ended
told = {"session": type(spark).__module__}
for turn in (1, 2):
    if turn == 2:
        shutil.copy(rest, first / "records")
    told["whole"] = job.build(first, to, assignors=["range"], spark=spark).whole
for name in TABLES if to.startswith("spark_catalog.") else ():
    (out / "built" / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(spark.table(to + "." + name.replace("/", "_")).toArrow(), out / "built" / name)
try:
    job.build(first, "s3a://lake/tables", assignors=["range"], spark=spark)
except ApportionError as error:
    told["uri"] = str(error)
spark.stop()
print(json.dumps(told))
"""


def test_a_client_builds_plain_files(spark: Any, tmp_path: Path) -> None:
    """Each row is that of a session's build, though the second build made only what is new; a URI is refused."""
    told = _built_by_a_client(spark, tmp_path, str(tmp_path / "built"))
    assert told["whole"] == "", "the second build made all"
    assert "Spark Connect" in told["uri"]


@pytest.mark.thorough
def test_a_client_builds_tables_of_a_catalog(spark: Any, tmp_path: Path) -> None:
    """Each row is that of a session's build into files."""
    if not packages.local_jars(packages.DELTA):
        pytest.skip("the jars of Delta are not here: make setup")
    _built_by_a_client(spark, tmp_path, "spark_catalog.kafka")


def _built_by_a_client(spark: Any, root: Path, to: str) -> dict[str, str]:
    """What a client tells that built half of a dump and then all of it, once its rows were compared."""
    pytest.importorskip("grpc", reason="a Connect client needs: pip install 'pyspark[connect]'")
    dump = made.write_dump(root / "dump", made.every_kind(), files=2)
    job.build(dump, root / "tables", assignors=["range"], spark=spark)
    rest = (dump / "records" / "part-1.parquet").rename(root / "part-1.parquet")
    with (root / "log").open("wb") as log:
        client = processes.start(
            [*HANGING, sys.executable, "-c", CLIENT, *map(str, (dump, rest, root)), to], log=log.fileno(),
            stdout=subprocess.PIPE, text=True, cwd=root,
            env={
                **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable,
                "SPARK_TESTING": "1",  # PySpark's own word for a server on any free port
            },
        )  # fmt: skip
        answer = client.stdout.read()  # type: ignore[union-attr]  # not communicate(), which closes the input
    assert client.wait() == 0, (root / "log").read_text()[-3000:]
    told: dict[str, str] = json.loads(answer.splitlines()[-1])
    assert told["session"].startswith("pyspark.sql.connect")
    for name in TABLES:
        assert rows_of(root / "built" / name) == rows_of(root / "tables" / name), name
    return told
