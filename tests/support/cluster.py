"""A Spark cluster on one machine whose processes share nothing: a master and workers, each with an address and disks of
its own.

Every worker has a mount namespace in which the source tree, home and all temporary folders are empty, so what passes
between it and the driver passes through the network, as between machines. It finds Python and PySpark below /mnt, bound
there read-only, without this package.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.support.hanging import HANGING

from apportion.errors import Unavailable
from apportion.testing import processes
from apportion.testing.broker import free_ports
from apportion.testing.jars import home, java

# What a worker must not see: all that a driver, or another worker, could leave something in for it.
_HIDDEN: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - hidden, not used


def missing_right() -> str:
    """Why no cluster can be made here; "" where one can."""
    if shutil.which("unshare") is None:
        return "a cluster on one machine needs unshare (Linux)"
    probe = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs none /mnt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if probe.returncode == 0 else "a cluster on one machine needs the right to mount (root)"


class SparkCluster:
    """Up for the block: ``with Cluster() as cluster``; ``cluster.environment()`` is what a driver needs to use it.

    workers
        The living ones, to be killed at will.
    """

    def __init__(self, workers: int = 2, memory: str = "1g", cores: int = 1) -> None:
        if why := missing_right():
            raise Unavailable(why)
        self._count, self._memory, self._cores = workers, memory, str(cores)
        self.workers: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> SparkCluster:
        self._logs = Path(tempfile.mkdtemp(prefix="apportion-cluster-"))
        [self.port] = free_ports(1)
        self.master = f"spark://127.0.0.1:{self.port}"
        try:
            self._master = self._start(
                "master", ["org.apache.spark.deploy.master.Master", "-h", "127.0.0.1", "-p", str(self.port)], ""
            )
            _wait_for("127.0.0.1", self.port, self._master)
            for number in range(self._count):
                self.workers.append(self._worker(number))
            self._wait_for_workers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.workers, self._master):
            processes.end(process, patience_s=10)
        shutil.rmtree(self._logs, ignore_errors=True)

    def environment(self, **settings: str) -> dict[str, str]:
        """The variables that make apportion's Spark a driver of this cluster."""
        chosen = {
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.cores.max": "2",
            "spark.executor.memory": "600m", "spark.pyspark.python": "/mnt/python/bin/python3",
            "spark.executorEnv.PYTHONPATH": "/mnt/packages", "spark.sql.shuffle.partitions": "2",
            # That Python finds its own library there: another one of the machine lacks what its modules need.
            "spark.executorEnv.LD_LIBRARY_PATH": "/mnt/python/lib", **settings,
        }  # fmt: skip
        return {
            "APPORTION_SPARK_MASTER": self.master,
            "APPORTION_SPARK_CONF": ";".join(f"{name}={value}" for name, value in chosen.items()),
        }

    def _worker(self, number: int) -> subprocess.Popen[Any]:
        # An address of its own: executors with one address believe that they share a disk, and read each other's files.
        address = f"127.0.0.{11 + number}"
        command = ["org.apache.spark.deploy.worker.Worker", "-h", address, "-c", self._cores, "-m", self._memory]
        return self._start(f"worker-{number}", [*command, "-d", "/mnt/work", self.master], address)

    def _start(self, name: str, command: list[str], address: str) -> subprocess.Popen[Any]:
        spark = _pyspark()
        program = ["/mnt/packages/pyspark/bin/spark-class" if address else str(spark / "bin" / "spark-class")]
        environment = {
            **os.environ, "SPARK_HOME": "/mnt/packages/pyspark" if address else str(spark), "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "192m", "JAVA_HOME": str(Path(java()).resolve().parents[1]),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }  # fmt: skip
        for variable in ("PYTHONPATH", "VIRTUAL_ENV", "APPORTION_JARS", "SPARK_LOCAL_IP"):
            environment.pop(variable, None)
        line = [*program, *command, "--webui-port", "0"]
        if address:
            environment["SPARK_LOCAL_IP"] = address
            line = ["unshare", "-m", "sh", "-c", _alone_script(spark), "sh", *line]
        with (self._logs / name).open("wb") as log:
            return processes.start([*HANGING, *line], log=log.fileno(), stdout=log.fileno(), env=environment, cwd="/")

    def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            text = (self._logs / "master").read_text(errors="replace")
            if text.count("Registering worker") >= self._count:
                return
            for process in self.workers:
                if process.poll() is not None:
                    break
            time.sleep(0.2)
        logs = "\n".join(processes.tail(file) for file in sorted(self._logs.iterdir()))
        raise Unavailable(f"the workers did not come up:\n{logs}")


def _alone_script(spark: Path) -> str:
    """Mounts for a worker: Python and packages below /mnt, all that could be shared hidden; then the program."""
    python, packages = Path(sys.base_prefix), spark.parent
    tree = Path(__file__).parents[3]
    hidden = [*_HIDDEN, str(Path.home()), str(tree), str(packages.parents[2]), str(home().resolve())]
    lines = [
        "set -e", "mount --make-rprivate /", "mount -t tmpfs none /mnt", "mkdir /mnt/python /mnt/packages /mnt/work",
        f"mount --bind -o ro '{python}' /mnt/python", f"mount --bind -o ro '{packages}' /mnt/packages",
    ]  # fmt: skip
    # What lies inside another hidden folder is gone with it.
    lines += [f"if [ -d '{folder}' ]; then mount -t tmpfs none '{folder}'; fi" for folder in dict.fromkeys(hidden)]
    return "\n".join([*lines, 'exec "$@"'])


def _pyspark() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _wait_for(host: str, port: int, process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as door:
            if door.connect_ex((host, port)) == 0:
                return
        time.sleep(0.1)
    raise Unavailable("the cluster's master did not start")
