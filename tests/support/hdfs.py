"""A real HDFS on this machine, for tests: Hadoop's own name node and one data node, in one JVM."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.support import java_artifacts
from tests.support.hanging import HANGING

from apportion.errors import Unavailable
from apportion.testing import jars, processes

MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
SLOWEST_S = 180
"""A cold JVM on a busy machine formats its disks and is up within this."""


class HdfsServer:
    """Up for the block: ``with HdfsServer() as hdfs: hdfs.address``; its blocks are in a folder that goes with it.

    address
        ``hdfs://127.0.0.1:PORT``.

    Raises
        Unavailable: no Java or Maven, or it did not start.
    """

    def __init__(self) -> None:
        self._class_path = java_artifacts.hdfs()
        self.root = Path(tempfile.mkdtemp(prefix="apportion-hdfs-"))
        self.address = ""

    def __enter__(self) -> HdfsServer:
        details, output = self.root / "details.json", self.root / "hdfs.log"
        folder = f"-Dtest.build.data={self.root}/data"
        java = [jars.java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", folder, "-cp", self._class_path]
        server = [*java, MAIN, "-format", "-datanodes", "1", "-writeDetails", str(details)]
        with output.open("wb") as log:
            self._process = processes.start(
                [*HANGING, *server],
                log=log.fileno(),
                stdout=log.fileno(),
                cwd=self.root,
                env=dict(os.environ),
            )
        deadline = time.monotonic() + SLOWEST_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if details.exists() and (text := details.read_text()).endswith("}"):
                self.address = f"hdfs://127.0.0.1:{json.loads(text)['namenode_port']}"
                return self
            time.sleep(0.2)
        end_of_log = processes.tail(output)
        self.__exit__(None, None, None)
        raise Unavailable(f"the HDFS did not start: {end_of_log}")

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        processes.end(self._process)
        shutil.rmtree(self.root, ignore_errors=True)
