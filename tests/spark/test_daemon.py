"""The daemon that Spark forks our workers from, by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc, which tells what a process has loaded")
def test_ctrl_c_while_it_imports_its_libraries_does_not_end_it() -> None:
    """It says where it listens all the same, and ends without a word when Spark closes its input."""
    with subprocess.Popen(
        [sys.executable, "-m", "apportion.spark.daemon", "pyspark.worker"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
    ) as daemon:  # fmt: skip
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        while daemon.poll() is None and "libarrow" not in Path(f"/proc/{daemon.pid}/maps").read_text():
            time.sleep(0.001)
        daemon.send_signal(signal.SIGINT)
        port = int.from_bytes(daemon.stdout.read(4), "big")
        daemon.stdin.close()
        assert daemon.stderr.read() == b""
    assert 0 < port < 1 << 16
